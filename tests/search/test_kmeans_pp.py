"""k-means++: its law, copies, and BADGE by outer products written out."""

import math
from collections import Counter
from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from natsel.capabilities import Capability
from natsel.search import KMeansPP


class Places:
    """Points in space, longer ones worth more."""

    offers = KMeansPP.needs

    def __init__(self, place_N_D):
        self.place_N_D = torch.as_tensor(place_N_D).double()

    def scores(self):
        return self.sizes().log1p()

    def sizes(self):
        return self.place_N_D.square().sum(1)

    def distances(self, position):
        return (self.place_N_D - self.place_N_D[position]).square().sum(1)


class Factored(Places):
    """The outer products a ⊗ x, never written out."""

    def __init__(self, a_N_C, x_N_D):
        self.a_N_C, self.x_N_D = a_N_C, x_N_D

    def sizes(self):
        return self.a_N_C.square().sum(1) * self.x_N_D.square().sum(1)

    def distances(self, position):
        size_N = self.sizes()
        across_N = (self.a_N_C @ self.a_N_C[position]) * (self.x_N_D @ self.x_N_D[position])
        return size_N + size_N[position] - 2 * across_N


DEFAULT = KMeansPP()


def run(state, k, seed=0, search=DEFAULT, allowed=None):
    count = len(state.sizes())
    allowed_N = torch.ones(count, dtype=torch.bool) if allowed is None else torch.tensor(allowed)
    return search(state, k, allowed_N, torch.Generator().manual_seed(seed))


def law(place_N_D, order, first="largest", allowed=None):
    """The chance of an ordered batch, straight from the definition."""
    count = len(place_N_D)
    open_ = set(range(count)) if allowed is None else {i for i in range(count) if allowed[i]}
    size = place_N_D.square().sum(1)
    chance = 1.0
    for step, pick in enumerate(order):
        if pick not in open_:
            return 0.0
        if step == 0:
            best = min(open_, key=lambda i: (-float(size[i]), i))
            chance *= (pick == best) if first == "largest" else 1 / len(open_)
        else:
            nearest = {i: min(float((place_N_D[i] - place_N_D[j]).square().sum()) for j in order[:step]) for i in open_}
            total = sum(nearest.values())
            chance *= nearest[pick] / total if total > 0 else 1 / len(open_)
        open_.remove(pick)
    return chance


SOME = [True, True, False, True, True]


@pytest.mark.parametrize(
    ("first", "allowed"),
    [
        ("largest", SOME),
        ("uniform", None),
        pytest.param("largest", None, marks=pytest.mark.slow),
        pytest.param("uniform", SOME, marks=pytest.mark.slow),
    ],
)
def test_batches_come_as_often_as_the_law_says(first, allowed):
    place_N_D = torch.randn(5, 2, generator=torch.Generator().manual_seed(3)).double()
    draws, search = 1500, KMeansPP(first=first)
    found = Counter(tuple(run(Places(place_N_D), 3, seed, search, allowed).positions.tolist()) for seed in range(draws))
    expected = {order: law(place_N_D, order, first, allowed) for order in permutations(range(5), 3)}
    assert sum(expected.values()) == pytest.approx(1)
    assert set(found) <= {order for order, chance in expected.items() if chance > 0}
    for order, chance in expected.items():
        error = math.sqrt(chance * (1 - chance) / draws)
        assert abs(found[order] / draws - chance) <= 4.5 * error, (order, found[order] / draws, chance)


places = st.integers(1, 8).flatmap(
    lambda count: st.lists(st.lists(st.integers(-3, 3), min_size=2, max_size=2), min_size=count, max_size=count)
)


@settings(deadline=None)
@given(places, st.integers(0, 10**6), st.sampled_from(["largest", "uniform"]), st.data())
def test_picks_are_distinct_allowed_and_as_probable_as_said(grid, seed, first, data):
    """On a grid of whole numbers, full of copies and points at the origin."""
    place_N_D = torch.tensor(grid).double()
    allowed = data.draw(st.lists(st.booleans(), min_size=len(grid), max_size=len(grid)))
    k = data.draw(st.integers(0, sum(allowed)))
    picks = run(Places(place_N_D), k, seed, KMeansPP(first=first), allowed)
    order = picks.positions.tolist()
    assert len(set(order)) == k
    assert all(allowed[position] for position in order)
    assert picks.positions.dtype == torch.int64
    for step, pick in enumerate(order):  # the first has no distance to another
        apart = [float((place_N_D[pick] - place_N_D[other]).square().sum()) for other in order[:step]]
        assert float(picks.scores[step]) == pytest.approx(min(apart, default=float(place_N_D[pick].square().sum())))
    assert picks.total == pytest.approx(float(picks.scores.sum()))
    longest = max((sum(x * x for x in grid[i]) for i in range(len(grid)) if allowed[i]), default=0)
    told = "uniform" if longest == 0 else first  # points of no length have no largest
    assert math.exp(picks.log_prob) == pytest.approx(law(place_N_D, order, told, allowed))


@pytest.mark.parametrize("seed", range(5))
def test_badge_equals_seeding_on_outer_products(seed):
    """The same random numbers, once on a ⊗ x by C + D numbers a point, once on all C·D written out."""
    generator = torch.Generator().manual_seed(seed)
    probs_N_C = torch.randn(60, 4, generator=generator).double().mul(2).softmax(1)
    a_N_C = probs_N_C - torch.nn.functional.one_hot(probs_N_C.argmax(1), 4)
    x_N_D = torch.randn(60, 3, generator=generator).double()
    outer = Places((a_N_C[:, :, None] * x_N_D[:, None]).reshape(60, 12))
    short, long = run(Factored(a_N_C, x_N_D), 30, seed), run(outer, 30, seed)
    assert short.positions.tolist() == long.positions.tolist()
    assert short.log_prob == pytest.approx(long.log_prob, rel=1e-9)
    assert short.positions[0] == outer.sizes().argmax()


def test_copies_are_not_drawn_while_others_are_left():
    place_N_D = torch.tensor([[1.0, 0.0]] * 4 + [[0.0, 3.0]] * 3 + [[-1.0, -1.0]])
    for seed in range(40):
        picks = run(Places(place_N_D), 3, seed)
        assert picks.positions[0] == 4, "the longest first, the lower position of copies"
        assert {0 if p < 4 else 1 if p < 7 else 2 for p in picks.positions.tolist()} == {0, 1, 2}
        assert picks.notes == ()
    filled = run(Places(place_N_D), 5)
    assert filled.notes == (
        "distances: after 3 of k=5 picks only copies of them were left; the other 2 were filled in at random",
    )
    assert len({tuple(run(Places(place_N_D), 5, seed).positions.tolist()[3:]) for seed in range(40)}) > 5


def test_near_copies_of_a_matrix_product_are_copies():
    """Distances by products leave rounding of either sign; it must neither be drawn nor turn a chance negative."""
    x_N_D = torch.randn(1, 50, generator=torch.Generator().manual_seed(0)).double().repeat(6, 1)
    x_N_D[5] *= -2
    state = Factored(torch.ones(6, 1).double(), x_N_D)
    state.distances = lambda position, far=state.distances: far(position) + 1e-13 * torch.tensor([-1.0, 1, -1, 1, 1, 0])
    for seed in range(20):
        picks = run(state, 3, seed)
        assert picks.positions[0] == 5
        assert len(picks.notes) == 1
        assert math.exp(picks.log_prob) == pytest.approx(1 / 5 / 4)


def test_excluded_points_have_no_say():
    place_N_D = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
    whole = run(Places(place_N_D), 6, 2).positions.tolist()
    out = [position for position in range(40) if position not in whole][::2]
    allowed = [position not in out for position in range(40)]
    assert run(Places(place_N_D), 6, 2, allowed=allowed).positions.tolist() == whole


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"^first: expected 'largest' or 'uniform', found 'max_norm'"):
        KMeansPP(first="max_norm")
    bad = Places([[1.0], [math.nan], [math.inf]])
    with pytest.raises(ValueError, match=r"^sizes: nan at position 1 \(2 in all\)"):
        run(bad, 1)
    assert run(bad, 1, allowed=[True, False, False]).positions.tolist() == [0]
    with pytest.raises(ValueError, match=r"^k: asked for 3 of 2"):
        run(Places([[1.0], [2.0]]), 3)
    assert KMeansPP.needs == Capability.SCORES | Capability.DISTANCES


def test_select_on_gaussian_features():
    belief = natsel.GaussianFeatures(torch.randn(30, 4, generator=torch.Generator().manual_seed(0)), noise=0.5)
    method = natsel.Method(natsel.EIG(), KMeansPP())
    selection = natsel.select(method, belief, 5, seed=3)
    assert selection.ids.tolist() == natsel.select(method, belief, 5, seed=3).ids.tolist()
    assert selection.ids[0] == int(natsel.score("bald", belief).argmax())
    with pytest.raises(ValueError, match="KMeansPP needs distances, which Entropy on GaussianFeatures does not offer"):
        natsel.select(natsel.Method(natsel.Entropy(), KMeansPP()), belief, 5)


class Looked(Places):
    """Distances to several points in one look; counts the looks."""

    offers = KMeansPP.needs | Capability.MANY_DISTANCES

    def __init__(self, place_N_D):
        super().__init__(place_N_D)
        self.looks, self.asked = [], []

    def distances_to(self, positions, out=None):
        self.looks.append(positions.tolist())
        found = torch.stack([super(Looked, self).distances(position) for position in positions.tolist()])
        return found if out is None else out.copy_(found)

    def distances(self, position):
        self.asked.append(position)
        return super().distances(position)


@pytest.mark.parametrize("first", ["largest", "uniform"])
def test_looking_ahead_changes_no_pick_and_saves_looks(first):
    place_N_D = torch.randn(400, 20, generator=torch.Generator().manual_seed(5))
    place_N_D[7:12] = place_N_D[3]
    search, out = KMeansPP(first=first), [position % 9 > 0 for position in range(400)]
    for seed in range(5):
        state = Looked(place_N_D)
        ahead, plain = run(state, 50, seed, search, out), run(Places(place_N_D), 50, seed, search, out)
        assert ahead.positions.tolist() == plain.positions.tolist()
        assert ahead.log_prob == pytest.approx(plain.log_prob)
        assert not state.asked
        assert len(state.looks) <= 16, "49 distances, eight at a time when all guesses are right"
        seen = [position for look in state.looks for position in look]
        assert len(seen) <= len(set(seen)) + 2, "hardly anything is asked for twice"
        assert all(out[position] for position in seen)


def test_looking_ahead_keeps_to_the_memory_budget():
    place_N_D = torch.randn(400, 20, generator=torch.Generator().manual_seed(5))
    state = Looked(place_N_D)
    with natsel.memory_budget(3 * 64 * 400):
        few = run(state, 20)
    assert max(map(len, state.looks)) == 3
    assert few.positions.tolist() == run(Places(place_N_D), 20).positions.tolist()
    state = Looked(place_N_D)
    with natsel.memory_budget(1):
        run(state, 20)
    assert state.looks == []
    assert len(state.asked) == 19


def test_a_point_is_not_drawn_again_whatever_its_distance_to_itself():
    """Products in single precision leave more than rounding of a double."""
    state = Places(torch.randn(6, 2, generator=torch.Generator().manual_seed(0)))
    state.distances = lambda position, far=state.distances: far(position) + 0.5
    for seed in range(30):
        assert sorted(run(state, 6, seed).positions.tolist()) == list(range(6))
