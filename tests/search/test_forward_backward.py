"""Forward–backward: right on toy states, with and without points that leave again, and against all subsets."""

import math
from itertools import combinations, pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from natsel.capabilities import Capability
from natsel.search import ForwardBackward, Greedy


class Cover:
    """Points are sets of items, worth the items they cover together."""

    offers = Capability.GAINS | Capability.VALUE
    submodular, exact, remaining, prefers_racing, tie = True, True, math.inf, False, 1e-10

    def __init__(self, sets):
        self.sets, self.taken, self.asked = [frozenset(items) for items in sets], [], 0

    @property
    def total(self):
        return self.value(self.taken)

    def value(self, positions):
        self.asked += 1
        return float(len(frozenset().union(*(self.sets[int(position)] for position in positions))))

    def bounds(self):
        return torch.tensor([float(len(items)) for items in self.sets], dtype=torch.float64)

    def gains(self, positions):
        return torch.tensor([self.value([*self.taken, p]) - self.total for p in positions.tolist()]).double()

    def add(self, position):
        before = self.total
        self.taken.append(position)
        return self.total - before


class Blind(Cover):
    """Every point seems to add one, whatever sets are worth."""

    def bounds(self):
        return torch.ones(len(self.sets), dtype=torch.float64)

    def gains(self, positions):
        return torch.ones(len(positions), dtype=torch.float64)

    def add(self, position):
        self.taken.append(position)
        return 1.0


class Leaving(Cover):
    """The same, with points that leave again."""

    offers = Cover.offers | Capability.REMOVAL

    def losses(self, positions):
        assert set(positions.tolist()) <= set(self.taken)
        without = [[t for t in self.taken if t != p] for p in positions.tolist()]
        return torch.tensor([self.total - self.value(rest) for rest in without]).double()

    def remove(self, position):
        before = self.total
        self.taken.remove(position)
        return before - self.total


DEFAULT = ForwardBackward()


def run(state, k, search=DEFAULT, allowed=None):
    allowed_N = torch.ones(len(state.sets), dtype=torch.bool) if allowed is None else torch.tensor(allowed)
    return search(state, k, allowed_N, torch.Generator())


def plain(sets, k, oversample, allowed):
    """The definition, word by word."""
    state, taken = Cover(sets), []
    free = [i for i in range(len(sets)) if allowed[i]]
    while len(taken) < min(len(free), math.ceil(oversample * k)):
        taken.append(max((i for i in free if i not in taken), key=lambda i: (state.value([*taken, i]), -i)))
    while len(taken) > k:
        taken.remove(max(reversed(taken), key=lambda i: state.value([t for t in taken if t != i])))
    return taken


@pytest.mark.parametrize("kind", [Cover, Leaving])
def test_a_first_pick_that_two_others_make_needless_is_dropped(kind):
    sets = [{1, 2, 3, 4}, {1, 2, 5}, {3, 4, 6}, {7}]
    assert run(kind(sets), 2, ForwardBackward(oversample=1)).positions.tolist() == [0, 1]
    picks = run(kind(sets), 2)
    assert picks.positions.tolist() == [1, 2]
    assert picks.scores.tolist() == [3.0, 3.0]
    assert picks.total == 6.0
    assert picks.notes == ()


covers = st.lists(st.frozensets(st.integers(0, 8), max_size=4), min_size=1, max_size=8)


@settings(deadline=None)
@given(covers, st.sampled_from([1, 1.5, 2.0, 3]), st.data())
def test_both_ways_are_the_definition(sets, oversample, data):
    allowed = data.draw(st.lists(st.booleans(), min_size=len(sets), max_size=len(sets)))
    k = data.draw(st.integers(0, sum(allowed)))
    expected = plain(sets, k, oversample, allowed)
    for kind in (Cover, Leaving):
        picks = run(kind(sets), k, ForwardBackward(oversample=oversample), allowed)
        assert picks.positions.tolist() == expected
        worth = [Cover(sets).value(expected[:size]) for size in range(k + 1)]
        assert picks.scores.tolist() == [after - before for before, after in pairwise(worth)]
        assert picks.total == worth[-1]
        assert picks.positions.dtype == torch.int64
        assert picks.scores.dtype == torch.float64


def test_states_that_let_points_leave_are_not_asked_for_values(monkeypatch):
    state = Leaving([{1, 2, 3, 4}, {1, 2, 5}, {3, 4, 6}, {7}])
    looked = []
    monkeypatch.setattr(
        state, "losses", lambda positions, real=state.losses: looked.append(len(positions)) or real(positions)
    )
    run(state, 2)
    assert looked == [4, 3]


def test_how_many_are_taken_at_first():
    for oversample, k, count, most in (
        (2.0, 3, 10, 6),
        (1.12, 25, 80, 28),
        (1.25, 3, 10, 4),
        (2.0, 3, 4, 4),
        (5, 1, 10, 5),
    ):
        state = Cover([{point} for point in range(count)])
        run(state, k, ForwardBackward(oversample=oversample))
        assert len(state.taken) == most, (oversample, k)


def test_ties_go_to_the_point_taken_earlier():
    assert run(Cover([{1}] * 6), 3).positions.tolist() == [0, 1, 2]
    assert run(Leaving([{1}] * 6), 3).positions.tolist() == [0, 1, 2]
    assert run(Leaving([set()] * 6), 3).scores.tolist() == [0.0, 0.0, 0.0]


def test_saturation_is_told_only_of_picks_that_stay():
    class Told(Cover):
        @property
        def remaining(self):
            return 4.0 - self.total

    sets = [{1, 2}, {3}, {4}, set(), set(), set()]
    assert run(Told(sets), 3).notes == ()
    (note,) = run(Told(sets), 4).notes
    assert note.startswith("saturated: 3 picks leave 0 nats")


def test_impossible_sets_are_dropped_first():
    """Known labels that contradict each other are worth minus infinity together."""

    class Contradiction(Blind):
        def value(self, positions):
            chosen = {int(position) for position in positions}
            return -math.inf if {0, 2} <= chosen else float(len(chosen))

    picks = run(Contradiction([{1}, {2}, {3}, {4}]), 3)
    assert picks.positions.tolist() == [0, 1, 3]
    assert picks.total == 3.0
    assert run(Contradiction([{1}, {2}, {3}]), 2).positions.tolist() == [0, 1]


@pytest.mark.parametrize("kind", [Cover, Leaving])
def test_scores_are_gains_in_the_order_taken(kind):
    sets = [{1, 2, 3, 4, 11, 12}, {1, 2, 11, 5, 9, 10}, {3, 4, 12, 6, 9}, {7}]
    picks = run(kind(sets), 2)
    assert picks.positions.tolist() == [1, 2]
    assert picks.scores.tolist() == [6.0, 4.0]


def test_where_all_sets_are_impossible_the_numbers_stay_finite():
    class Hopeless(Blind):
        def value(self, positions):
            return -math.inf if len(positions) else 0.0

    picks = run(Hopeless([{1}, {2}, {3}, {4}, {5}]), 2)
    assert picks.positions.tolist() == [0, 1]
    assert picks.scores.isfinite().all()
    assert math.isfinite(picks.total)


def test_bad_input_is_refused():
    for wrong in (0.5, math.inf, math.nan):
        with pytest.raises(ValueError, match=r"^oversample: (found|expected)"):
            ForwardBackward(oversample=wrong)
    with pytest.raises(ValueError, match=r"^k: asked for 3 of 1"):
        run(Cover([{1}, {2}]), 3, allowed=[True, False])
    state = Blind([{1}, {2}])
    state.value = lambda positions: math.nan
    with pytest.raises(ValueError, match=r"^value: NaN for positions \[1\]"):
        run(state, 1)
    assert ForwardBackward.needs == Capability.GAINS | Capability.VALUE


@pytest.mark.parametrize("seed", range(4))
def test_on_information_about_targets_it_lies_between_greedy_and_the_best(seed):
    """JEPIG of Gaussian features is not submodular: dropping helps or not, but never beats all subsets."""
    generator = torch.Generator().manual_seed(seed)
    belief = natsel.GaussianFeatures(torch.randn(9, 3, generator=generator), noise=0.3)
    targets = natsel.GaussianFeatures(torch.randn(2, 3, generator=generator), noise=0.3)
    select = lambda search, k: natsel.select(natsel.Method(natsel.JEPIG(), search), belief, k, targets=targets)  # noqa: E731
    found, best = select(ForwardBackward(), 3), select(natsel.Exhaustive(), 3)
    assert found.total == pytest.approx(float(found.scores.sum()))
    assert found.total <= best.total + 1e-9
    kept = set(select(ForwardBackward(oversample=1), 6))
    assert set(found) <= kept
    assert select(ForwardBackward(oversample=1), 3).ids.tolist() == select(Greedy(), 3).ids.tolist()
    worth = {
        chosen: natsel.select(natsel.Method(natsel.JEPIG(), Greedy()), belief[list(chosen)], 3, targets=targets).total
        for chosen in combinations(sorted(kept), 3)
    }
    assert found.total == pytest.approx(worth[tuple(sorted(found))])
