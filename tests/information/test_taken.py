"""What is left of points once others are taken: against Schur complements of whole matrices, in any order of asking."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from natsel.information.conditioning.conditioned_kernel import _BLOCK, ConditionedKernel, logdet
from natsel.information.weights.similarity import Kernel


def made(seed, count, outputs=3, width=4):
    generator = torch.Generator().manual_seed(seed)
    features_N_D = torch.randn(count, width, generator=generator, dtype=torch.float64)
    outputs_N_C = torch.randn(count, outputs, generator=generator, dtype=torch.float64)
    return Kernel(features_N_D, outputs_N_C), (outputs_N_C[:, :, None] * features_N_D[:, None]).flatten(1)


def left_by_hand(rows_N_P, seen_B_P):
    """s_nn − s_nA (I + S_A)⁻¹ s_An = g (I + Σ gᵀg)⁻¹ gᵀ, in the space of weights."""
    precision_P_P = torch.eye(rows_N_P.shape[1], dtype=torch.float64) + seen_B_P.T @ seen_B_P
    return (rows_N_P * torch.linalg.solve(precision_P_P, rows_N_P.T).T).sum(1)


def logdet_by_hand(rows_B_P):
    return float(torch.logdet(torch.eye(rows_B_P.shape[1], dtype=torch.float64) + rows_B_P.T @ rows_B_P))


@settings(deadline=None)
@given(seed=st.integers(0, 1000), count=st.integers(2, 9), held=st.integers(0, 4), aims=st.integers(0, 4))
def test_left_is_the_schur_complement_whenever_it_is_asked_for(seed, count, held, aims):
    kernel, rows_N_P = made(seed, count)
    first, first_P = made(seed + 1, held)
    second, second_P = made(seed + 2, aims)
    points = ConditionedKernel(kernel, [first, second])
    before_P = torch.cat([first_P, second_P])
    torch.testing.assert_close(points.start_N, left_by_hand(rows_N_P, before_P), rtol=1e-9, atol=1e-9)
    generator = torch.Generator().manual_seed(seed)
    taken: list[int] = []
    for position in torch.randperm(count, generator=generator).tolist():
        asked = torch.randperm(count, generator=generator)[: 1 + seed % count]  # rows fall behind at different times
        expected_N = left_by_hand(rows_N_P, torch.cat([before_P, rows_N_P[taken]]))
        torch.testing.assert_close(points.left(asked), expected_N[asked], rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(points.lost(asked), points.start_N[asked] - points.left(asked))
        points.take(position)
        taken.append(position)
    expected_N = left_by_hand(rows_N_P, torch.cat([before_P, rows_N_P]))
    torch.testing.assert_close(points.left(torch.arange(count)), expected_N, rtol=1e-9, atol=1e-9)


def test_pivots_make_the_determinant():
    kernel, rows_N_P = made(0, 8)
    points, total = ConditionedKernel(kernel), 0.0
    for position in range(8):
        total += float(points.left(torch.tensor([position])).log1p())
        points.take(position)
        assert total == pytest.approx(logdet(kernel[: position + 1]), abs=1e-10)
        assert total == pytest.approx(logdet_by_hand(rows_N_P[: position + 1]), abs=1e-10)
    assert logdet(kernel[[]]) == 0


def test_more_points_than_a_block_of_columns_and_than_weights():
    kernel, rows_N_P = made(1, 3 * _BLOCK, outputs=2, width=3)
    points = ConditionedKernel(kernel)
    for position in range(2 * _BLOCK + 5):
        points.take(position)
        if position % 7 == 0:
            points.left(torch.tensor([position + 1, 3 * _BLOCK - 1]))
    expected_N = left_by_hand(rows_N_P, rows_N_P[: 2 * _BLOCK + 5])
    torch.testing.assert_close(points.left(torch.arange(len(kernel))), expected_N, rtol=1e-8, atol=1e-10)


def test_each_group_taken_beforehand_tells_its_part():
    kernel, rows_N_P = made(2, 6)
    (first, first_P), (second, second_P) = made(3, 3), made(4, 2)
    explained_N_G = ConditionedKernel(kernel, [first, second]).explained_N_G
    alone_N, both_N = left_by_hand(rows_N_P, first_P), left_by_hand(rows_N_P, torch.cat([first_P, second_P]))
    torch.testing.assert_close(explained_N_G[:, 0], kernel.own() - alone_N)
    torch.testing.assert_close(explained_N_G[:, 1], alone_N - both_N)
    assert ConditionedKernel(kernel, [first, second[[]]]).explained_N_G.shape == (6, 1)


def test_a_group_that_counts_less_tells_the_square_of_it():
    kernel, _ = made(2, 6)
    (first, _), (second, _) = made(3, 3), made(4, 2)
    whole, part = (
        ConditionedKernel(kernel, [first, second]),
        ConditionedKernel(kernel, [first, second], counts=[1.0, 0.5]),
    )
    torch.testing.assert_close(part.explained_N_G[:, 0], whole.explained_N_G[:, 0])
    torch.testing.assert_close(part.explained_N_G[:, 1], whole.explained_N_G[:, 1] / 4)


@pytest.mark.parametrize("budget", [1, 1 << 10, 1 << 14])
def test_little_memory_holds_no_rows_and_finds_the_same(budget):
    kernel, _ = made(5, 40)
    before, _ = made(6, 7)

    def walk():
        points = ConditionedKernel(kernel, [before[:3], before[3:]], counts=[1.0, 0.6])
        found = [points.start_N]
        for position in (3, 8, 1):
            points.take(position)
            found.append(points.left(torch.arange(0, 40, 3)))
        return points, found

    roomy, expected = walk()
    assert roomy._held_N_M is not None
    with natsel.memory_budget(budget):
        scarce, found = walk()
    assert (scarce._held_N_M is None) == (budget < 4 * 8 * 40 * 7)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-150, 1e-13, 1.0, 1e8, 1e60])
def test_copies_and_nothing_at_any_scale(scale):
    """A copy of s leaves s/(1 + s) of itself, also where 1 is lost beside s; a row of nothing changes nothing."""
    features_N_D = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    points = ConditionedKernel(Kernel(features_N_D).scaled(scale))
    own = scale**2
    points.take(2)
    assert points.taken == []
    points.take(0)
    left_N = points.left(torch.arange(4))
    assert left_N[:2].tolist() == pytest.approx([own / (1 + own)] * 2, rel=1e-9)
    assert left_N[2] == 0
    assert left_N[3] == pytest.approx(own)
    points.take(1)
    left_N = points.left(torch.arange(4))
    assert left_N.isfinite().all()
    assert (left_N >= 0).all()
    if scale <= 1:  # beyond, 1/own is lost in rounding, and what is left has no direction of its own
        assert left_N[1] == pytest.approx(own / (1 + 2 * own), rel=1e-9)


def test_positions_may_repeat_and_come_in_any_order():
    kernel, _ = made(9, 6)
    points = ConditionedKernel(kernel)
    points.take(2)
    left_N = points.left(torch.tensor([5, 1, 5, 0]))
    points.take(4)
    again_N = points.left(torch.tensor([0, 5, 1, 5]))
    assert again_N[1] == again_N[3]
    assert (again_N <= left_N[[3, 0, 1, 2]]).all()
