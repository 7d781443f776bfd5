"""The facts every objective declares, verified by brute force on random pools, and the protocol of its states.

An objective whose `quantity` has no reference (`natsel.conformance.reference`) fails until it is given one. Those of
natsel's own quantities are with its own tests (tests/conformance); elsewhere these comparisons are skipped.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch

from natsel.beliefs import CategoricalSamples, GaussianSamples, IndependentSamples, TwoModels
from natsel.capabilities import Capability, draws_again
from natsel.choose.methods import Method
from natsel.conformance import REFERENCES, SET_REFERENCES
from natsel.conformance.grid import READ, Case, Pair, Pool, at, crowd, pairs, pool
from natsel.information.joint_labels import joint_mutual_information
from natsel.objectives import Argument, routes
from natsel.search import TopK
from natsel.ties import order_of

POINTS = 6
SETS = [subset for size in range(4) for subset in combinations(range(POINTS), size)]


def pools(pair: Pair, thorough: bool, points: int = POINTS, most: int = 3) -> Iterator[Pool]:
    """Random pools with even and uneven weights (`most` of them, or one), with zeros and a certain point, with copies
    (or both at once), with one draw.
    """
    for seed in range(most) if thorough else [1]:
        yield pool(pair.kind, seed, points, weighted=bool(seed % 2))
    certain = pool(pair.kind, 10, points, weighted=True).certain()
    if thorough:
        yield certain
        yield pool(pair.kind, 11, points).take(np.resize([0, 1, 0], points))
    else:
        yield certain.take(np.resize([0, 1, 2, 3], points))
    yield pool(pair.kind, 12, points, draws=1)


# What the scores are.


def check_bound(found: np.ndarray, expected: np.ndarray, bound: str, exact: bool, tolerance: float = 1e-9) -> None:
    if exact or bound in ("exact", "upper"):
        assert (found >= expected - tolerance).all(), f"found {found}, which is less than {expected}"
    if exact or bound in ("exact", "lower"):
        assert (found <= expected + tolerance).all(), f"found {found}, which is more than {expected}"


def reference_of(pair: Pair, table: dict) -> tuple:
    """What a pair is compared with, and whether it must be equal to it."""
    quantity = pair.objective.facts.quantity
    if not table.keys() & {(quantity, pair.kind)}:
        own = all(one.__module__.startswith("natsel.") for one in (type(pair.objective), pair.kind))
        give_up = pytest.skip if own else pytest.fail
        give_up(f"no reference for {quantity!r} on {pair.kind.__name__}: add one with natsel.conformance.reference")
    return table[quantity, pair.kind]


@pairs(where=lambda pair: pair.objective.facts.units != "none")
def test_scores_are_the_declared_quantity_or_bound_it(pair, thorough, device):
    work, exact = reference_of(pair, REFERENCES)
    gap = 0.0
    for given in pools(pair, thorough, points=9):
        found, expected = pair.state(given, device).scores().cpu().numpy(), work(given)
        check_bound(found, expected, pair.facts.guarantee, exact)
        gap = max(gap, float(np.abs(found - expected).max()))
    assert exact or gap > 1e-6, "the reference allows a bound, but the scores are exact: say so there"


@pairs(where=lambda pair: pair.facts.guarantee != "exact")
def test_scores_that_bound_or_approximate_the_quantity_say_so(pair):
    case = Case(Method(pair.objective, TopK()), pair.kind)
    assert any(pair.facts.why in warning for warning in case.select(case.pool()).warnings)


OF_A_LABEL = re.compile(r"[HI]\[Y(_t)?[;|]")  # entropies and information of one that is not known yet


@pairs(where=lambda pair: pair.kind.label_type is int and bool(OF_A_LABEL.match(pair.objective.facts.quantity)))
def test_what_is_expected_of_one_label_is_at_most_ln_c(pair, device):
    for given in pools(pair, True):
        most = np.log(given.length("C") if "C" in given.all_axes else 2)
        for one in (given, given.certain()):
            assert pair.facts.guarantee != "exact" or float(pair.state(one, device).scores().max()) <= most + 1e-9


@pairs(Capability.GAINS)
def test_values_of_sets_are_the_declared_quantity_or_bound_it(pair, thorough, device):
    work, exact = reference_of(pair, SET_REFERENCES)
    for given in pools(pair, thorough, most=2):
        state = pair.state(given, device)
        for subset in [(0,), (1, 2), (3, 0), *([(0, 1, 2), (1, 3, 4, 5)] if exact else [])]:
            pool_wide = pair.facts.pool_wide
            expected = np.array(work(given, list(subset)) if pool_wide else work(given.take(subset)))
            check_bound(np.array(state.value(at(subset))), expected, pair.facts.guarantee, exact, 1e-8)
            if pair.kind is CategoricalSamples and pair.objective.facts.quantity == "I[Y;W|x]":
                belief = given.take(subset).belief()
                assert joint_mutual_information(belief.log_probs_N_K_C, belief.log_weights_K) == pytest.approx(expected)


@pairs(Capability.VALUE, states=True)
def test_the_value_of_a_point_is_its_score_and_of_none_is_zero(pair, thorough, device):
    for given in pools(pair, thorough):
        state = pair.state(given, device)
        assert state.value(at([])) == 0
        alone = [state.value(at([point])) for point in range(len(given))]
        np.testing.assert_allclose(alone, state.scores().cpu(), rtol=1e-9, atol=1e-9)
        assert state.value(at([0, 2, 1])) == pytest.approx(state.value(at([1, 0, 2])), abs=1e-9), "sets have no order"


@pairs(where=lambda pair: pair.kind in (CategoricalSamples, IndependentSamples, GaussianSamples, TwoModels))
def test_a_single_draw_scores_nothing_exactly_where_draws_are_needed(pair, device):
    flat = pool(pair.kind, 12, 24, draws=1)
    if pair.kind is TwoModels:  # a student of one draw disagrees with itself as little
        flat = replace(flat, arrays=flat.arrays | {"students_N_S_L_C": flat.arrays["students_N_S_L_C"][:, :, :1]})
    scores_N = pair.state(flat, device).scores()
    assert bool((scores_N.abs() < 1e-9).all()) == pair.facts.needs_draws


# Signs and shapes.


def lowest(pair: Pair, device: str, most: int = 12) -> float:
    return min(float(pair.state(given, device).scores().min()) for given in pools(pair, True, 24, most))


@pairs(where=lambda pair: pair.facts.nonnegative)
def test_scores_claimed_to_be_nonnegative_are(pair, thorough, device):
    assert lowest(pair, device, most=12 if thorough else 4) >= 0


@pairs(where=lambda pair: not pair.facts.nonnegative)
def test_scores_not_claimed_to_be_nonnegative_are_not(pair, device):
    found = lowest(pair, device)
    assert found < 0, f"the lowest score found is {found}: claim that they are nonnegative"


def values(state: object) -> dict[frozenset[int], float]:
    return {frozenset(subset): state.value(at(subset)) for subset in SETS}  # type: ignore[attr-defined]


@pairs(Capability.VALUE, where=lambda pair: pair.facts.monotone or pair.facts.submodular)
def test_monotone_and_submodular_as_declared(pair, thorough, device):
    facts = pair.facts
    for given in pools(pair, thorough):
        value = values(pair.state(given, device))
        for smaller in (s for s in value if len(s) < 3):
            for x in set(range(POINTS)) - smaller:
                gain = value[smaller | {x}] - value[smaller]
                assert not facts.monotone or gain >= -1e-10, f"{x} added to {set(smaller)} gains {gain}"
                for y in set(range(POINTS)) - smaller - {x} if len(smaller) < 2 else ():
                    later = value[smaller | {x, y}] - value[smaller | {y}]
                    assert not facts.submodular or later <= gain + 1e-10, (
                        f"{x} gains {gain} on {set(smaller)} and more, {later}, once {y} was added"
                    )


@pairs(Capability.GAINS)
def test_states_declare_submodularity_as_their_reading_does(pair):
    assert pair.state(pool(pair.kind)).submodular == pair.facts.submodular


@pairs()
def test_labels_are_read_where_they_are_needed_and_nowhere_else(pair, device):
    given = pool(pair.kind, weighted=True)
    if Argument.LABELS not in pair.facts.needs:
        if any(Argument.LABELS in one.reading.facts.needs for one in routes(type(pair.objective), pair.kind)):
            return  # taken along a view, which is a pair of its own
        with pytest.raises(ValueError, match=r"^labels: \w+ has no use for known labels( on \w+)?; leave labels= out"):
            pair.state(given, device, labels=True)
        return
    scores_N = pair.state(given, device).scores()
    with pytest.raises(ValueError, match="labels"):
        pair.state(given, device, labels=False)
    others = replace(given, labels_N=np.roll(given.labels_N, 1))
    changed = given.labels_N != others.labels_N
    assert changed.any()
    moved = (pair.state(others, device).scores() != scores_N).cpu().numpy()
    if pair.facts.label_free:
        assert not moved.any(), "known labels tell what unknown ones would"
        return
    assert (moved == changed).all(), "scores move exactly where labels do"


# The protocol of states that build a batch.


@pairs(Capability.GAINS, states=True)
def test_gains_are_differences_of_values(pair, thorough, device):
    for given in pools(pair, thorough):
        state = pair.state(given, device)
        everyone = at(range(POINTS), device)
        assert state.total == 0
        torch.testing.assert_close(state.gains(everyone), state.scores(), rtol=1e-9, atol=1e-9)
        taken: list[int] = []
        for position in np.random.default_rng(0).permutation(POINTS)[:4].tolist():
            predicted = state.gains(everyone)
            worth = state.value(at(taken))
            differences = [state.value(at([*taken, p])) - worth for p in range(POINTS) if p not in taken]
            free = at((p for p in range(POINTS) if p not in taken), device)
            assert state.exact, "so few label configurations need no sampling"
            np.testing.assert_allclose(predicted[free].cpu(), differences, rtol=1e-9, atol=1e-9)
            torch.testing.assert_close(state.gains(free.flip(0)), predicted[free].flip(0), rtol=1e-9, atol=1e-12)
            assert state.add(position) == pytest.approx(float(predicted[position]), abs=1e-9)
            taken.append(position)
            assert state.total == pytest.approx(state.value(at(taken)), abs=1e-9)


@pairs(Capability.GAINS, states=True)
def test_bounds_and_what_remains_are_upper_bounds(pair, thorough, device):
    for given in pools(pair, thorough, points=24):
        state = pair.state(given, device)
        short_N = (state.scores() - state.bounds()).cpu()
        assert short_N.max() <= 1e-10, f"bounds are {short_N.max():.2g} below the gains they are to bound"
    for given in pools(pair, thorough):
        state, reference = pair.state(given, device), pair.state(given, device)
        if state.remaining == np.inf:
            return  # nothing is claimed
        taken: set[int] = set()
        worth: dict[frozenset[int], float] = {}
        for position in (0, 3, 1, 5):
            remaining = state.remaining
            for size in range(1, POINTS + 1):
                for more in combinations(range(POINTS), size):
                    together = frozenset(taken.union(more))
                    if together not in worth:
                        worth[together] = reference.value(at(together))
                    added = worth[together] - state.total
                    assert added <= remaining + 1e-9, f"{more} add {added} to {taken}, more than remains"
            state.add(position)
            taken.add(position)
    for seed in range(20, 30 if thorough else 22):  # two draws, which six points tell apart: almost nothing remains
        state = pair.state(pool(pair.kind, seed, POINTS, draws=2), device)
        everything = state.value(at(range(POINTS)))
        for position in range(POINTS):
            left = everything - state.total
            assert left <= state.remaining + 1e-9, f"seed {seed}: {position} points leave {left}"
            state.add(position)


def plain_greedy(state: object, k: int, allowed: list[int], device: str) -> list[int]:
    """All candidates at every step, ties by the order of the state, until nothing remains to be gained."""
    taken: list[int] = []
    while len(taken) < k and state.remaining > state.tie:  # type: ignore[attr-defined]
        free = [position for position in allowed if position not in taken]
        gains = state.gains(at(free, device))  # type: ignore[attr-defined]
        tied = (gains >= gains.max() - state.tie).nonzero().squeeze(1).tolist()  # type: ignore[attr-defined]
        taken.append(order_of(state).first(torch.tensor([free[row] for row in tied])))
        state.add(taken[-1])  # type: ignore[attr-defined]
    return taken


LARGE = 320  # more points than a lazy search looks at in one go, also without every seventh


def near_ties(pair: Pair) -> Pool:
    """More near-copies than a lazy search looks at in one go, their gains some 1e-8 apart: far more than rounding."""
    rng = np.random.default_rng(0)
    copies = pool(pair.kind, 1).take([0] * LARGE)
    jittered = {
        name: values * (1 + 1e-8 * rng.normal(size=values.shape)) if name in pair.kind.points else values
        for name, values in copies.arrays.items()
    }
    return replace(copies, arrays=jittered)


@pairs(Capability.GAINS, states=True)
def test_lazy_search_picks_what_plain_greedy_picks(pair, thorough, device):
    large = {f"seed {seed}": pool(pair.kind, seed, LARGE, weighted=bool(seed % 2)) for seed in range(3)}
    best = int(pair.state(large["seed 1"]).scores().argmax())
    ties = {"a crowd": crowd(large["seed 1"], best), "near ties": near_ties(pair)}
    if not thorough:
        large = {}  # the crowd holds as many points, and others
    small = {str(index): given for index, given in enumerate(pools(pair, thorough, 24))}
    for name, given in (small | large | ties).items():
        allowed = [position for position in range(len(given)) if position % 7]
        allowed_N = torch.zeros(len(given), dtype=torch.bool)
        allowed_N[allowed] = True
        expected = plain_greedy(pair.state(given, device), 4, allowed, device)
        for search in pair.searches(Capability.GAINS):
            found = search(pair.state(given, device), 4, allowed_N, torch.Generator()).positions.tolist()
            assert found[: len(expected)] == expected, f"{name}: {search} picked {found}, plain greedy {expected}"


@pairs(Capability.GAINS | Capability.VALUE, lambda pair: pair.facts.monotone and pair.facts.submodular, states=True)
def test_greedy_reaches_its_share_of_the_best_batch(pair, thorough, device):
    everyone = torch.ones(7, dtype=torch.bool)
    for given in pools(pair, thorough, 7, most=12):
        reference = pair.state(given, device)
        for k in (1, 3):
            worth = [reference.value(at(subset)) for subset in combinations(range(7), k)]
            for search in pair.searches(Capability.GAINS):
                found = search(pair.state(given, device), k, everyone, torch.Generator())
                value = reference.value(found.positions)
                assert found.total == pytest.approx(value, abs=1e-9)
                share = 1 if k == 1 else 1 - 1 / np.e
                assert value >= share * max(worth) - 1e-9, f"k={k}: {value} of {max(worth)}"
            for search in pair.searches(Capability.VALUE):
                found = search(pair.state(given, device), k, everyone, torch.Generator())
                assert found.total == pytest.approx(max(worth), abs=1e-9)


@pairs(states=True)
def test_every_search_keeps_to_what_is_allowed(pair, thorough, device):
    for seed, points in ((0, 9), (1, 9), (2, 1)) if thorough else ((0, 6),):
        given = pool(pair.kind, seed, points)
        allowed_N = torch.from_numpy(np.random.default_rng(seed).random(points) < 0.6)
        allowed_N[-1] = True
        allowed = allowed_N.nonzero().squeeze(1).tolist()
        for search in pair.searches():
            for k in {0, 1, len(allowed) // 2, len(allowed)} if thorough else {len(allowed) // 2}:
                picks = search(pair.state(given, device), k, allowed_N, torch.Generator().manual_seed(seed))
                positions, where = picks.positions.tolist(), f"{search}, k={k}: {picks}"
                assert len(positions) == k, where
                assert draws_again(search) or len(set(positions)) == k, where
                assert set(positions) <= set(allowed), where
                assert picks.positions.dtype == torch.int64, where
                assert picks.scores.dtype == torch.float64, where
                assert picks.positions.device.type == picks.scores.device.type == "cpu", where
                assert allowed_N.nonzero().squeeze(1).tolist() == allowed, "the mask was written to"


ROUGH = [
    pytest.param(Pair(objective(rows=12), kind), id=f"{objective.__name__}-{kind.__name__}")
    for (objective, kind), reading in READ.items()
    if "rows" in objective.__dataclass_fields__ and Capability.RACING in reading.offers
]


@pytest.mark.parametrize("pair", ROUGH)
def test_estimates_from_too_few_rows_are_right_on_average(pair, device):
    """Thinning leaves every gain of a fixed batch unbiased; states say that they are no longer exact."""
    given = pool(pair.kind, 4, points=7, weighted=True)
    batch, rest = [0, 1, 2, 3, 4], at([5, 6], device)
    exact = Pair(type(pair.objective)(), pair.kind).state(given, device)
    totals, laters = [], []
    for seed in range(200):
        state = pair.state(given, device, seed=seed)
        gains = [state.add(position) for position in batch]
        assert not state.exact
        assert min(gains) >= -1e-9, f"gains {gains}"
        assert state.remaining >= 0
        totals.append(state.total)
        laters.append(state.gains(rest).cpu().numpy())
    for position in batch:
        exact.add(position)
    for name, found, expected in (
        ("total", np.array(totals)[:, None], np.array([exact.total])),
        ("gains", np.array(laters), exact.gains(rest).cpu().numpy()),
    ):
        error = found.std(0) / np.sqrt(len(found))
        assert (error > 0).all(), f"{name} do not depend on the seed"
        assert (abs(found.mean(0) - expected) < 4 * error).all(), f"{name}: {found.mean(0)} ± {error}, exact {expected}"


@pytest.mark.parametrize("pair", ROUGH)
def test_terms_of_a_race_sum_to_the_gains(pair, device):
    """On the last level to the accuracy of float32; on rougher ones as well as their own rejection_probs says."""
    given = pool(pair.kind, 4, points=40, weighted=True)
    state = Pair(type(pair.objective)(), pair.kind).state(given, device)
    everyone = at(range(len(given)), device)
    for position in range(7):
        gain_N, last = state.gains(everyone), state.level_count - 1
        found_N = state.terms(everyone, last).sum(1).double()
        torch.testing.assert_close(found_N, gain_N, rtol=0, atol=2e-6)
        for level in range(last):
            terms_N_R, rejection_prob_R = state.terms(everyone, level), state.rejection_probs(level)
            assert terms_N_R.shape == (len(given), len(rejection_prob_R))
            assert ((rejection_prob_R >= 0) & (rejection_prob_R < 1)).all(), "rejection_probs is 1 minus a chance"
            lag_N = terms_N_R.sum(1) - terms_N_R[0].sum() - (gain_N - gain_N[0])
            error_N = ((terms_N_R - terms_N_R[0]).square() @ rejection_prob_R).sqrt()
            assert (lag_N.abs() <= 5 * error_N + 1e-5).all(), f"level {level}: {lag_N} with errors {error_N}"
        state.add(position)
    assert last > 0, "no rough level was ever read"


# What some states offer beside: a geometry, and points that leave again.


@pairs(Capability.DISTANCES | Capability.KERNEL)
def test_sizes_distances_and_kernel_are_one_geometry(pair, thorough, device):
    for given in pools(pair, thorough, points=9):
        state = pair.state(given, device)
        everyone = at(range(len(given)), device)
        kernel_N_N, size_N = state.kernel(everyone, everyone), state.sizes()
        assert kernel_N_N.dtype == size_N.dtype == torch.float64
        scale = 1e-12 * float(size_N.max())
        torch.testing.assert_close(kernel_N_N.diagonal(), size_N, rtol=1e-12, atol=scale)
        torch.testing.assert_close(kernel_N_N, kernel_N_N.T, rtol=1e-12, atol=scale)
        torch.testing.assert_close(
            state.kernel(at([2, 0]), at([1])), kernel_N_N[[2, 0]][:, [1]], rtol=1e-12, atol=scale
        )
        assert float(torch.linalg.eigvalsh(kernel_N_N)[0]) >= -9 * scale, "a kernel has no negative eigenvalues"
        for position in (0, 4):
            distance_N = state.distances(position)
            expected_N = size_N + size_N[position] - 2 * kernel_N_N[position]
            torch.testing.assert_close(distance_N, expected_N, rtol=1e-9, atol=4 * scale)
            assert float(distance_N.min()) >= 0
            assert float(distance_N[position]) <= 4 * scale


@pairs(Capability.VECTORS)
def test_vectors_are_added_up_and_multiplied(pair, thorough, device):
    for given in pools(pair, thorough, points=9):
        state = pair.state(given, device)
        vectors_N_P = state.vectors(at(range(len(given)), device))
        held_T_P = state.held_vectors()
        scale = 1e-12 * float(state.sizes().max()) + 1e-15
        torch.testing.assert_close(vectors_N_P.square().sum(1), state.sizes(), rtol=1e-9, atol=scale)
        sum_P = vectors_N_P.sum(0) + held_T_P.sum(0)
        torch.testing.assert_close(state.vector_sum(), sum_P, rtol=1e-9, atol=1e-9 * float(vectors_N_P.abs().max()))
        length_N = vectors_N_P.square().sum(1).sqrt()
        aligned_N = torch.where(length_N > 0, vectors_N_P @ sum_P / length_N, -torch.inf)
        open_N = (at(range(len(given)), device) % 2 == 0) & (length_N > 0)
        if not bool(open_N.any()):
            continue
        (rough_N,) = state.aligned(sum_P[None]).double()
        off = state.rough * float(sum_P.square().sum().sqrt())
        assert float((rough_N - aligned_N)[length_N > 0].abs().max()) <= off
        position, along = state.most_aligned(sum_P, rough_N.where(open_N, -torch.inf), off, 0.0)
        assert open_N[position]
        assert float(aligned_N[position]) == pytest.approx(float(aligned_N[open_N].max()), rel=1e-12)  # or one as good
        assert along == pytest.approx(float(aligned_N[position]), rel=1e-9)


@pairs(Capability.MANY_DISTANCES)
def test_distances_to_many_are_those_to_each(pair, thorough, device):
    for given in pools(pair, thorough, points=9):
        state = pair.state(given, device)
        scale = 4e-12 * float(state.sizes().max()) + 1e-15
        expected = torch.stack([state.distances(position) for position in (3, 0, 7)])
        torch.testing.assert_close(state.distances_to(at((3, 0, 7), device)), expected, rtol=1e-9, atol=scale)


@pairs(Capability.DISTANCES)
def test_taking_points_moves_no_point(pair, thorough, device):
    for given in pools(pair, thorough, points=9):
        state = pair.state(given, device)
        size_N, distance_N = state.sizes(), state.distances(2)
        if Capability.GAINS in pair.offers:
            state.add(1)
        assert torch.equal(state.sizes(), size_N)
        assert torch.equal(state.distances(2), distance_N)


@pairs(Capability.REMOVAL, states=True)
def test_points_that_leave_again_leave_nothing_behind(pair, thorough, device):
    for given in pools(pair, thorough):
        state = pair.state(given, device)
        everyone = at(range(POINTS), device)
        alone = state.gains(everyone)
        taken = [3, 0, 4, 1]
        for position in taken:
            state.add(position)
        while taken:
            worth = state.value(at(taken))
            without = [state.value(at([other for other in taken if other != position])) for position in taken]
            losses = state.losses(at(taken, device))
            np.testing.assert_allclose(losses.cpu(), worth - np.array(without), rtol=1e-7, atol=1e-8)
            first = taken.pop(0)
            assert state.remove(first) == pytest.approx(float(losses[0]), abs=1e-9)
            assert state.total == pytest.approx(state.value(at(taken)), abs=1e-8)
            free = [position for position in range(POINTS) if position not in taken]
            gains = [state.value(at([*taken, position])) - state.value(at(taken)) for position in free]
            np.testing.assert_allclose(state.gains(at(free, device)).cpu(), gains, rtol=1e-7, atol=1e-8)
        torch.testing.assert_close(state.gains(everyone), alone, rtol=1e-7, atol=1e-8)
