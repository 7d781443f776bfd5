"""Points taken and given back in weight space: every form of the state against dense algebra done from scratch."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from made_weight_space import dense, random_belief, state, tensor
from natsel.beliefs import FisherFactors, FisherRows, Targets
from natsel.information.conditioning.conditioned_blocks import Blocks
from natsel.information.weights.precision import Isotropic
from natsel.objectives import EIG, EPIG, JEPIG, Argument, needs_everywhere
from natsel.objectives.epig import EPIGJensen
from natsel.objectives.trace import TraceEPIG, TraceJEPIG

OBJECTIVES = [EIG(), EPIG(), JEPIG(), EPIGJensen(), TraceEPIG(), TraceJEPIG()]
every_objective = pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: type(objective).__name__)

# Points × rows against weights decides the form; targets × rows against weights how the targets are held.
SHAPES = {
    "weights, few targets": {"points": 9, "targets": 2},
    "weights, many targets": {"points": 9, "targets": 9},
    "kernel": {"points": 3, "targets": 2, "width": 9},
    "few points, many targets": {"points": 3, "targets": 14, "width": 9},
}
KINDS = {"softmax": ("dense", "isotropic", "kronecker", "diagonal", "low-rank"), "rows": ("dense", "isotropic")}
HELD = [(kind, held) for kind, all_held in KINDS.items() for held in all_held]
FORMS = [(shape, *held) for shape in SHAPES for held in HELD]
every_form = pytest.mark.parametrize(("shape", "kind", "held"), FORMS, ids=["-".join(form) for form in FORMS])


def every_pair(helds):
    """Every pair of an objective, a shape and a way to hold a precision; the rest of the product is slow."""
    cases = [
        pytest.param(
            objective,
            shape,
            *held,
            marks=[pytest.mark.slow] if (i + j + m) % 2 else [],
            id="-".join([shape, *held, type(objective).__name__]),
        )
        for i, objective in enumerate(OBJECTIVES)
        for j, shape in enumerate(SHAPES)
        for m, held in enumerate(helds)
    ]
    return pytest.mark.parametrize(("objective", "shape", "kind", "held"), cases)


def made(shape: str, kind: str, held: str, seed: int = 0):
    options = dict(SHAPES[shape])
    points, targets = options.pop("points"), options.pop("targets")
    return (
        random_belief(kind, held, seed, points, **options),
        random_belief(kind, held, seed + 50, targets, **options),
    )


def worth(objective, pool, targets):
    """The value of a set as a function of its positions, from P × P matrices alone."""
    (fisher_N_P_P, held_P_P), (target_M_P_P, _) = dense(pool), dense(targets)
    fishers, held, target = fisher_N_P_P.numpy(), held_P_P.numpy(), target_M_P_P.numpy()
    if not isinstance(objective, EPIG):
        target = target.sum(0)[None] if isinstance(objective, JEPIG | TraceJEPIG) else target.mean(0)[None]

    def logdet(matrices):
        return np.linalg.slogdet(matrices)[1]

    def value(positions) -> float:
        after = held + fishers[list(positions)].sum(0)
        if isinstance(objective, EIG):
            return 0.5 * float(logdet(after) - logdet(held))
        if isinstance(objective, TraceEPIG | TraceJEPIG):
            return 0.5 * float(np.trace(target[0] @ (np.linalg.inv(held) - np.linalg.inv(after))))
        gaps = logdet(after) - logdet(held) - logdet(after + target) + logdet(held + target)
        return 0.5 * float(gaps.mean())

    return value


def about(objective, targets):
    return targets if Argument.TARGETS in needs_everywhere(objective) else None


def walk(objective, pool, targets) -> None:
    """Adds and removes points, and compares every number with the dense one."""
    found, everyone, taken = state(objective, pool, about(objective, targets)), torch.arange(len(pool)), []
    value = worth(objective, pool, targets)

    def check() -> None:
        now = value(taken)
        assert found.total == pytest.approx(now, rel=1e-8, abs=1e-9)
        assert found.value(torch.tensor(taken, dtype=torch.int64)) == pytest.approx(now, rel=1e-8, abs=1e-9)
        gains = [value([*taken, position]) - now for position in range(len(pool))]
        np.testing.assert_allclose(found.gains(everyone), gains, rtol=1e-8, atol=1e-9)
        assert found.remaining >= -1e-12
        if taken:
            less = [value([p for p in taken if p != out]) for out in taken]
            np.testing.assert_allclose(found.losses(torch.tensor(taken)), now - np.array(less), rtol=1e-7, atol=1e-8)

    check()
    alone_N = found.scores().clone()
    for position in (1, 0, 2):
        before = found.total
        assert found.add(position) == pytest.approx(found.total - before, abs=1e-12)
        taken.append(position)
        check()
    for position in (0, 2):
        before = found.total
        assert found.remove(position) == pytest.approx(before - found.total, abs=1e-12)
        taken.remove(position)
        check()
    found.add(0)
    taken.append(0)
    check()
    assert torch.equal(found.scores(), alone_N), "scores are of points taken alone"


@every_form
def test_what_remains_of_epig_is_all_that_the_weights_know_of_the_targets(shape, kind, held):
    """½ Σ_j v_j ln det(I + K_j) exactly, now and after every point: twice as much would still be a bound."""
    pool, targets = made(shape, kind, held)
    shares_M = np.arange(len(targets)) + 1.0
    shares_M /= shares_M.sum()
    found = state(EPIG(), pool, Targets(targets, weights=torch.tensor(shares_M)))
    (fisher_N_P_P, held_P_P), (target_M_P_P, _) = dense(pool), dense(targets)
    now = held_P_P.numpy()
    for position in (1, 0, 2):
        gap_M = np.linalg.slogdet(now + target_M_P_P.numpy())[1] - np.linalg.slogdet(now)[1]
        assert found.remaining == pytest.approx(0.5 * shares_M @ gap_M, rel=1e-8)
        found.add(position)
        now = now + fisher_N_P_P[position].numpy()


@every_pair(HELD)
def test_every_form_follows_dense_algebra(objective, shape, kind, held):
    walk(objective, *made(shape, kind, held))


@every_pair([("softmax", "dense"), ("softmax", "isotropic")])
def test_blocks_that_are_not_held_are_the_same(objective, shape, kind, held):
    pool, targets = made(shape, kind, held)
    with natsel.memory_budget(1):
        walk(objective, pool, targets)


@every_objective
def test_many_rows_a_point(objective):
    """More than are eliminated at once."""
    shape = {"classes": 15, "width": 2}
    walk(objective, *(random_belief("softmax", "dense", seed, 4, **shape) for seed in (0, 1)))


@every_objective
def test_pool_and_targets_may_have_different_rows(objective):
    pool = random_belief("rows", "dense", 0, 8, rows=3)
    walk(objective, pool, random_belief("rows", "dense", 1, 5, rows=1))
    walk(objective, pool[:4], random_belief("rows", "dense", 1, 2, rows=4))


def test_the_forms_are_what_the_shapes_say():
    forms = {}
    for shape in SHAPES:
        pool, targets = made(shape, "softmax", "dense")
        found = state(JEPIG(), pool, targets)
        known = found.after.known
        forms[shape] = (found.before.kernel, known is not None and known.whole)
    assert forms == {
        "weights, few targets": (False, False),
        "weights, many targets": (False, True),
        "kernel": (True, False),
        "few points, many targets": (False, True),
    }
    with natsel.memory_budget(1):
        assert state(EIG(), pool).blocks.held_N_R_R is None
    assert state(EIG(), pool).blocks.held_N_R_R is not None


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10**6), order=st.permutations(range(6)), keep=st.integers(0, 5))
def test_giving_back_undoes_taking(seed, order, keep):
    pool, targets = (random_belief("softmax", "dense", seed + i, 6, seeded=seed) for i in (0, 1))
    for objective in OBJECTIVES:
        found, straight = (state(objective, pool, about(objective, targets)) for _ in range(2))
        for position in order:
            found.add(position)
        for position in reversed(order[keep:]):
            found.remove(position)
        for position in order[:keep]:
            straight.add(position)
        everyone = torch.arange(6)
        torch.testing.assert_close(found.gains(everyone), straight.gains(everyone), rtol=1e-7, atol=1e-9)
        assert found.total == pytest.approx(straight.total, rel=1e-7, abs=1e-9)


@every_objective
def test_only_points_taken_can_be_given_back(objective):
    pool, targets = made("weights, few targets", "softmax", "dense")
    found = state(objective, pool, about(objective, targets))
    found.add(2)
    for work in (lambda: found.remove(1), lambda: found.losses(torch.tensor([2, 1]))):
        with pytest.raises(ValueError, match=r"^position: 1 was not taken"):
            work()
    found.remove(2)
    with pytest.raises(ValueError, match=r"^position: 2 was not taken"):
        found.remove(2)


@every_objective
def test_a_copy_tells_less(objective):
    """And never more than is left; a second copy of a point adds to it."""
    pool, targets = made("weights, many targets", "softmax", "isotropic")
    pool = pool[[0, 0, 0, 0]]
    found = state(objective, pool, about(objective, targets))
    gains = [found.add(position) for position in range(4)]
    assert all(0 < later < earlier for earlier, later in pairwise(gains))


@every_objective
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_weak_and_strong_priors_give_numbers(objective, scale):
    features_N_D = random_belief("softmax", seed=3, points=8).features_N_D
    probs_N_C = random_belief("softmax", seed=4, points=8).outputs_N_C
    belief = FisherFactors.categorical(features_N_D, probs_N_C, precision=scale)
    found = state(objective, belief, about(objective, belief[5:]))
    assert found.scores().isfinite().all()
    for position in (0, 1, 2):
        assert found.add(position) >= 0
        assert found.gains(torch.arange(8)).isfinite().all()
    assert found.losses(torch.tensor([0, 1, 2])).isfinite().all()
    assert found.remove(1) >= 0
    assert found.gains(torch.arange(8)).isfinite().all()
    assert np.isfinite(found.total)


@every_objective
def test_sums_of_targets_in_chunks_change_nothing(objective):
    pool, targets = made("weights, many targets", "softmax", "dense")
    targets = targets[list(range(9)) * 8]
    found_N = state(objective, pool, about(objective, targets)).scores()
    with natsel.memory_budget(20_000):
        torch.testing.assert_close(
            state(objective, pool, about(objective, targets)).scores(), found_N, rtol=1e-11, atol=1e-13
        )


def test_weighted_targets_are_repeated_targets():
    pool, targets = made("weights, few targets", "softmax", "dense")
    for objective in (EPIG(), EPIGJensen(), TraceEPIG()):
        one = state(objective, pool, Targets(targets, weights=[3, 1]))
        two = state(objective, pool, targets[[0, 0, 0, 1]])
        for position in (4, 1):
            assert one.add(position) == pytest.approx(two.add(position), rel=1e-9)
        torch.testing.assert_close(one.gains(torch.arange(9)), two.gains(torch.arange(9)), rtol=1e-8, atol=1e-11)


def test_inputs_are_left_alone():
    pool, targets = made("kernel", "softmax", "isotropic")
    copies = [belief.features_N_D.clone() for belief in (pool, targets)]
    for objective in OBJECTIVES:
        found = state(objective, pool, about(objective, targets))
        found.add(0)
        found.remove(0)
        scores_N = found.scores()
        found.add(1)
        assert torch.equal(found.scores(), scores_N)
    assert torch.equal(pool.features_N_D, copies[0])
    assert torch.equal(targets.features_N_D, copies[1])


# Geometry.


@every_form
def test_geometry_of_the_information_gain(shape, kind, held):
    pool, _ = made(shape, kind, held)
    found = state(EIG(), pool)
    rows_N_R_P = pool.factors.explicit(slice(None))
    inverse_P_P = torch.linalg.inv(pool.precision.dense(pool.factors.n_weights))
    kernel_N_N = torch.einsum("arp,pq,brq->ab", rows_N_R_P, inverse_P_P, rows_N_R_P)
    everyone = torch.arange(len(pool))
    for position in (None, 1, 0):
        if position is not None:
            found.add(position)
        torch.testing.assert_close(found.kernel(everyone, everyone), kernel_N_N, rtol=1e-8, atol=1e-9)
        torch.testing.assert_close(found.kernel(everyone[1:], everyone[:2]), kernel_N_N[1:, :2], rtol=1e-8, atol=1e-9)
        torch.testing.assert_close(found.sizes(), kernel_N_N.diagonal(), rtol=1e-8, atol=1e-9)
        expected_N = kernel_N_N.diagonal() + kernel_N_N[2, 2] - 2 * kernel_N_N[2]
        torch.testing.assert_close(found.distances(2), expected_N, rtol=1e-7, atol=1e-8)
    copies = state(EIG(), pool[[0, 1, 0]])
    assert copies.distances(0)[[0, 2]].tolist() == [0.0, 0.0], "copies are in one place"
    assert (copies.distances(0) >= 0).all()


def test_lengths_of_gradients_are_those_of_badge():
    """(π − e_y) ⊗ x under H = I: the kernel is a product of two inner products, and no outer product is made."""
    belief = random_belief("softmax", "isotropic", points=6)
    pool = FisherFactors.categorical(belief.features_N_D, belief.outputs_N_C).labelled("hard")
    found = state(EIG(), pool)
    residuals_N_C, features_N_D = pool.outputs_N_C, pool.features_N_D
    kernel_N_N = (residuals_N_C @ residuals_N_C.T) * (features_N_D @ features_N_D.T)
    everyone = torch.arange(6)
    torch.testing.assert_close(found.kernel(everyone, everyone), kernel_N_N, rtol=1e-10, atol=1e-12)
    embedded_N_P = (residuals_N_C[:, :, None] * features_N_D[:, None]).flatten(1)
    torch.testing.assert_close(found.distances(3), torch.cdist(embedded_N_P, embedded_N_P)[3].square())
    assert found.blocks.kernel is (pool.factors.n_weights > 6)


def test_blocks_take_what_rounding_puts_beyond_one():
    """With next to no prior, a point taken leaves I − K of the size of rounding: giving it back stays a number."""
    rows = FisherRows(tensor([[[1.0, 0.0]], [[1.0, 1e-9]]]), precision=1e-15)
    blocks = Blocks(rows.factors, Isotropic(1e-15))
    for sign in (1, -1):
        blocks.absorb(blocks.pivot(0, sign))
        assert blocks.at(torch.arange(2)).isfinite().all()
