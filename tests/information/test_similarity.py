"""Similarities of outer products: never written out, against the rows written out."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from natsel.information.weights.similarity import Kernel, joined


def made(seed, count, outputs, width, dtype=torch.float64, scaled=True):
    """A kernel (outputs 0: none) and its rows written out in float64."""
    generator = torch.Generator().manual_seed(seed)
    features_N_D = torch.randn(count, width, generator=generator, dtype=dtype)
    outputs_N_C = torch.randn(count, outputs, generator=generator, dtype=dtype) if outputs else None
    scales_N = torch.rand(count, generator=generator, dtype=torch.float64) + 0.1 if scaled else None
    rows_N_P = features_N_D.double()
    if outputs_N_C is not None:
        rows_N_P = (outputs_N_C.double()[:, :, None] * features_N_D.double()[:, None]).flatten(1)
    if scales_N is not None:
        rows_N_P = rows_N_P * scales_N[:, None]
    return Kernel(features_N_D, outputs_N_C, scales_N), rows_N_P


shapes = {
    "seed": st.integers(0, 1000),
    "count": st.integers(1, 9),
    "outputs": st.integers(0, 4),
    "width": st.integers(1, 5),
    "scaled": st.booleans(),
}


@settings(deadline=None)
@given(**shapes, others=st.integers(1, 6))
def test_similarities_are_products_of_the_rows_written_out(seed, count, outputs, width, scaled, others):
    kernel, rows_N_P = made(seed, count, outputs, width, scaled=scaled)
    other, others_M_P = made(seed + 1, others, outputs, width, scaled=not scaled)
    similar_N_N, similar_N_M = rows_N_P @ rows_N_P.T, rows_N_P @ others_M_P.T
    torch.testing.assert_close(kernel.own(), similar_N_N.diagonal())
    torch.testing.assert_close(kernel.columns(list(range(count))), similar_N_N)
    torch.testing.assert_close(kernel.columns([count - 1]), similar_N_N[:, -1:])
    torch.testing.assert_close(kernel.between(other), similar_N_M)
    torch.testing.assert_close(kernel.largest(other), similar_N_M.amax(1))
    torch.testing.assert_close(kernel.sums(other), similar_N_M.sum(1))
    weights_M = torch.arange(others, dtype=torch.float64) - 1
    torch.testing.assert_close(kernel.sums(other, weights_M), similar_N_M @ weights_M)
    folded_N = kernel.folded(other, lambda block_n_m, part: (block_n_m * weights_M[part]).clamp_min(0).sum(1))
    torch.testing.assert_close(folded_N, (similar_N_M * weights_M).clamp_min(0).sum(1))
    expected_N = (rows_N_P - rows_N_P[0]).square().sum(1)
    torch.testing.assert_close(kernel.distances(0), expected_N, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(kernel.distances(0, kernel.own()), kernel.distances(0), rtol=0, atol=0)


@pytest.mark.parametrize("outputs", [0, 3])
def test_sums_are_the_same_by_matrix_and_one_by_one(outputs, monkeypatch):
    kernel, rows_N_P = made(0, 40, outputs, 3)
    few, few_M_P = made(1, 1, outputs, 3)
    used = []
    folded = Kernel.folded
    monkeypatch.setattr(Kernel, "folded", lambda *given: used.append(1) or folded(*given))
    torch.testing.assert_close(kernel.sums(kernel), rows_N_P @ rows_N_P.sum(0))
    assert not used, "sums over all points look at no pair"
    torch.testing.assert_close(kernel[[0]].sums(few), (rows_N_P[:1] @ few_M_P.T)[:, 0])
    assert used, "a single pair needs no matrix"


@settings(deadline=None)
@given(**shapes)
def test_cosines(seed, count, outputs, width, scaled):
    kernel, rows_N_P = made(seed, count, outputs, width, scaled=scaled)
    unit_N_P = rows_N_P / rows_N_P.norm(dim=1, keepdim=True)
    torch.testing.assert_close(kernel.cosine().columns([0])[:, 0], unit_N_P @ unit_N_P[0])
    torch.testing.assert_close(kernel.cosine().own(), torch.ones(count, dtype=torch.float64))


def test_rows_of_nothing_are_like_no_row():
    kernel = Kernel(torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[1.0], [1.0]])).cosine()
    assert kernel.columns([0, 1]).isfinite().all()
    assert kernel.columns([0, 1])[1].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_copies_are_at_distance_zero_and_no_distance_is_negative(dtype):
    kernel, rows_N_P = made(0, 12, 4, 30, dtype)
    kernel = kernel[[0, 0, 0, *range(12)]]
    assert kernel.distances(0)[:4].tolist() == [0.0] * 4
    for scale in (1e-6, 1.0, 1e6):
        distance_N = kernel.scaled(scale).distances(1)
        assert (distance_N >= 0).all()
        assert (distance_N[4:] > 0).all(), "what is apart is seen to be"
        expected_N = scale**2 * (rows_N_P - rows_N_P[0]).square().sum(1)
        torch.testing.assert_close(distance_N[3:], expected_N, rtol=1e-5, atol=0)


def test_rows_in_single_precision_are_multiplied_in_double():
    kernel, rows_N_P = made(3, 20, 3, 50, torch.float32)
    torch.testing.assert_close(kernel.columns([1])[:, 0], rows_N_P @ rows_N_P[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("budget", [1, 1 << 9, 1 << 14])
def test_the_memory_budget_changes_nothing(budget):
    kernel, _ = made(5, 33, 3, 4)
    other, _ = made(6, 17, 3, 4)

    def everything():
        return [
            kernel.own(),
            kernel.between(other),
            kernel.sums(other),
            kernel.sums(kernel),
            kernel.largest(other),
            kernel.distances(2),
            kernel.cosine().columns([0]),
        ]

    expected = everything()
    with natsel.memory_budget(budget):
        for found, whole in zip(everything(), expected, strict=True):
            torch.testing.assert_close(found, whole, rtol=1e-12, atol=1e-12)


def test_parts_and_joints():
    kernel, rows_N_P = made(7, 6, 2, 3, scaled=False)
    both = joined([kernel[[4, 1]], kernel[:2].scaled(3.0)])
    expected_B_P = torch.cat([rows_N_P[[4, 1]], 3 * rows_N_P[:2]])
    torch.testing.assert_close(both.columns([0, 1, 2, 3]), expected_B_P @ expected_B_P.T)
    assert len(kernel[[]]) == 0
    assert kernel[[]].columns([]).shape == (0, 0)
    assert kernel.between(kernel[[]]).shape == (6, 0)
    assert kernel[[]].own().shape == (0,)
    assert kernel.shape == (2, 3)
    assert Kernel(torch.ones(2, 3)).shape == (1, 3)
