"""k-DPP: batches as probable as the volume they span, and what happens without enough volume."""

import math
from collections import Counter
from itertools import combinations, permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from natsel.search import KDPP
from natsel.search.dpp import log_symmetric


class Rows:
    """Points by their rows g, similar by inner product."""

    offers = KDPP.needs

    def __init__(self, row_N_D):
        self.row_N_D = torch.as_tensor(row_N_D).double()

    def scores(self):
        return self.sizes().log1p()

    def sizes(self):
        return self.row_N_D.square().sum(1)

    def distances(self, position):
        return (self.row_N_D - self.row_N_D[position]).square().sum(1)

    def kernel(self, rows, columns):
        return self.row_N_D[rows] @ self.row_N_D[columns].T


def rows(count, width, seed=0):
    scale = torch.linspace(0.3, 2.0, count).double()
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed)).double() * scale[:, None]


DEFAULT = KDPP()


def run(state, k, seed=0, search=DEFAULT, allowed=None):
    count = len(state.sizes())
    allowed_N = torch.ones(count, dtype=torch.bool) if allowed is None else torch.tensor(allowed)
    return search(state, k, allowed_N, torch.Generator().manual_seed(seed))


def law(row_N_D, k, allowed=None):
    """The chance of each set by determinants of all of them."""
    points = [i for i in range(len(row_N_D)) if allowed is None or allowed[i]]
    volume = {s: max(0.0, float(torch.det(row_N_D[list(s)] @ row_N_D[list(s)].T))) for s in combinations(points, k)}
    total = sum(volume.values())
    return {chosen: value / total for chosen, value in volume.items()}


def agree(found, expected, draws, sigmas=4.5, slack=0.0):
    assert sum(found.values()) == draws
    assert set(found) <= set(expected)
    for chosen, chance in expected.items():
        error = math.sqrt(chance * (1 - chance) / draws)
        assert abs(found[chosen] / draws - chance) <= sigmas * error + slack, (chosen, found[chosen] / draws, chance)


SOME = [True, False, True, True, True, True]


@pytest.mark.parametrize(
    ("k", "allowed"),
    [
        (1, None),
        (3, SOME),
        pytest.param(1, SOME, marks=pytest.mark.slow),
        pytest.param(3, None, marks=pytest.mark.slow),
    ],
)
def test_sets_come_as_often_as_their_volume(k, allowed):
    row_N_D, draws = rows(6, 4), 800
    expected = law(row_N_D, k, allowed)
    found = Counter()
    for seed in range(draws):
        picks = run(Rows(row_N_D), k, seed, allowed=allowed)
        chosen = tuple(sorted(picks.positions.tolist()))
        found[chosen] += 1
        assert picks.log_prob == pytest.approx(math.log(expected[chosen]) - math.lgamma(k + 1), rel=1e-9)
    agree(found, expected, draws)


def test_all_orders_of_a_set_are_equally_likely():
    row_N_D, draws = rows(3, 3), 1000
    found = Counter(tuple(run(Rows(row_N_D), 3, seed).positions.tolist()) for seed in range(draws))
    agree(found, dict.fromkeys(permutations(range(3)), 1 / 6), draws)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(-2, 2), min_size=3, max_size=3), min_size=1, max_size=7),
    st.integers(0, 10**6),
    st.data(),
)
def test_copies_and_missing_directions_are_met(grid, seed, data):
    """Whole numbers, full of copies, zeros and rows that depend on each other."""
    allowed = data.draw(st.lists(st.booleans(), min_size=len(grid), max_size=len(grid)))
    k = data.draw(st.integers(0, sum(allowed)))
    row_N_D = torch.tensor(grid).double()
    picks = run(Rows(row_N_D), k, seed, allowed=allowed)
    order = picks.positions.tolist()
    assert len(set(order)) == k
    assert all(allowed[position] for position in order)
    rank = int(torch.linalg.matrix_rank(row_N_D[allowed])) if sum(allowed) else 0
    spanned = int(torch.linalg.matrix_rank(row_N_D[order[:rank]])) if k and rank else 0
    assert spanned == min(k, rank), "no volume was left lying about"
    said = [note for note in picks.notes if note.startswith("kernel: ")]
    assert len(said) == (k > rank)
    assert picks.log_prob <= 1e-9


def test_a_batch_beyond_the_rank_says_so_and_is_filled_at_random():
    row_N_D = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    picks = run(Rows(row_N_D), 3)
    assert picks.notes == ("kernel: the points span only 2 directions; the other 1 of k=3 were filled in at random",)
    draws = 800
    found = Counter()
    for seed in range(draws):
        picks = run(Rows(row_N_D), 3, seed)
        *span, last = picks.positions.tolist()
        found[tuple(sorted(span)), last] += 1
        chance = {(0, 2): 1 / 5, (1, 2): 4 / 5}[tuple(sorted(span))]
        assert math.exp(picks.log_prob) == pytest.approx(chance / 2 / 2)
    expected = {((0, 2), 1): 0.1, ((0, 2), 3): 0.1, ((1, 2), 0): 0.4, ((1, 2), 3): 0.4}
    agree(found, expected, draws)


def test_points_that_were_nearly_drawn_are_filled_in_as_often_as_others():
    row_N_D, draws = torch.tensor([[1.0], [1.0], [0.0], [0.0]]), 800
    found = Counter(tuple(run(Rows(row_N_D), 2, seed).positions.tolist()) for seed in range(draws))
    agree(found, {(one, two): 1 / 6 for one in (0, 1) for two in range(4) if two != one}, draws)


def test_nothing_at_all_is_filled_at_random():
    batches = {tuple(run(Rows(torch.zeros(5, 2)), 2, seed).positions.tolist()) for seed in range(30)}
    assert len(batches) > 10


@pytest.mark.parametrize("scale", [1e-200, 1e-8, 1e8, 1e100])
def test_neither_large_nor_small_kernels_overflow(scale):
    """e_k of 60 values at 1e200 each would be 1e12000."""
    row_N_D = torch.nn.functional.normalize(rows(80, 70, seed=3), dim=1)
    straight, scaled = run(Rows(row_N_D), 60, 5), run(Rows(row_N_D * scale**0.5), 60, 5)
    assert scaled.positions.tolist() == straight.positions.tolist()
    assert scaled.log_prob == pytest.approx(straight.log_prob, rel=1e-6)


def test_symmetric_polynomials():
    values = [0.5, 2.0, 1.0, 3.0]
    table = log_symmetric(torch.tensor(values).log(), 3).exp()
    for count in range(5):
        for size in range(4):
            expected = sum(math.prod(chosen) for chosen in combinations(values[:count], size))
            assert float(table[count, size]) == pytest.approx(expected, rel=1e-6)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"^limit: expected a whole number of at least 1, found -1; "):
        KDPP(limit=-1)
    with pytest.raises(ValueError, match=r"^k-DPP: found 6 candidates, .*pass at most 5 .*use badge, or raise KDPP"):
        run(Rows(rows(6, 3)), 2, search=KDPP(limit=5))
    with pytest.raises(ValueError, match=r"^k: asked for 3 of 2"):
        run(Rows(rows(2, 2)), 3)
    with pytest.raises(ValueError, match=r"^sizes: nan at position 0"):
        run(Rows([[math.nan], [1.0]]), 1)


def test_select_on_gaussian_features():
    belief = natsel.GaussianFeatures(rows(30, 6), noise=torch.linspace(0.5, 2.0, 30))
    method = natsel.Method(natsel.EIG(), KDPP())
    selection = natsel.select(method, belief, 5, seed=3)
    assert selection.ids.tolist() == natsel.select(method, belief, 5, seed=3).ids.tolist()
    white = belief.features_N_D.double() / belief.noise_N.sqrt()[:, None]
    chosen = white[selection.ids]
    largest = log_symmetric(torch.linalg.eigvalsh(white.T @ white).log(), 5)[-1, 5]
    expected = float(torch.logdet(chosen @ chosen.T) - largest) - math.lgamma(6)
    assert selection.log_prob == pytest.approx(expected, rel=1e-9)


def test_what_lies_in_the_span_of_points_given_has_no_volume():
    row_N_D = torch.randn(7, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    pool, held = natsel.GaussianFeatures(row_N_D[:5]), natsel.GaussianFeatures(row_N_D[[5, 6, 5]])  # one twice
    method = natsel.Method(natsel.Distance(), KDPP())
    left_N_N = row_N_D[:5] @ row_N_D[:5].T
    across_N_2 = row_N_D[:5] @ row_N_D[5:].T
    left_N_N -= across_N_2 @ torch.linalg.solve(row_N_D[5:] @ row_N_D[5:].T, across_N_2.T)
    value_N = torch.linalg.eigvalsh(left_N_N)
    volumes = sum(value_N[i] * value_N[j] for i in range(5) for j in range(i))
    for seed in range(4):
        picked = natsel.select(method, pool, k=2, given=held, seed=seed)
        pair = picked.ids.tolist()
        expected = torch.logdet(left_N_N[pair][:, pair]) - volumes.log() - math.log(2)
        assert picked.log_prob == pytest.approx(float(expected), rel=1e-9)
