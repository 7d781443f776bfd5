"""Gaussian beliefs of tiny noise against exact fractions, and numbers that no computation can hold."""

import math
from fractions import Fraction

import pytest
import torch

import natsel
from natsel import EIG, EPIG, JEPIG, FisherFactors, FisherRows, GaussianFeatures, GaussianSamples, Targets
from natsel.objectives import Context, read

POOL, ABOUT = 6, 3
SETTINGS = [(1.0, 1e-4), (1.0, 1e-8), (1.0, 1e-12), (1e3, 1e-10), (1e4, 1e-10)]  # features, noise


def tiny_noise(scale, noise, width, seed=0):
    """Pool and targets as one belief each: a copy and a near copy in the pool, and a copy of a candidate as target."""
    generator = torch.Generator().manual_seed(seed)
    features_A_D = scale * torch.randn(POOL + ABOUT, width, generator=generator, dtype=torch.float64)
    features_A_D[1] = features_A_D[0]
    features_A_D[3] = features_A_D[2] * (1 + 1e-9)
    features_A_D[POOL] = features_A_D[2]
    noise_A = noise * (1 + torch.rand(POOL + ABOUT, generator=generator, dtype=torch.float64))
    whole = GaussianFeatures(features_A_D, noise_A)
    return whole, whole[:POOL], Targets(whole[POOL:])


class Exact:
    """Entropies of labels from determinants of fractions: no rounding but that of the logarithm."""

    def __init__(self, belief):
        rows = [[Fraction(number) for number in row] for row in belief.features_N_D.tolist()]
        self.noise = [Fraction(number) for number in belief.noise_N.tolist()]
        self.covariance = [[sum(a * b for a, b in zip(one, other, strict=True)) for other in rows] for one in rows]
        for place, noise in enumerate(self.noise):
            self.covariance[place][place] += noise
        self.known = {}

    def entropy(self, points):
        """½ ln det of the covariance of some labels."""
        points = tuple(sorted(points))
        if points not in self.known:
            self.known[points] = 0.5 * log(determinant([[self.covariance[i][j] for j in points] for i in points]))
        return self.known[points]

    def gain(self, name, taken, point):
        """What the label of a point tells once those taken are known."""
        given = tuple(taken)
        alone = self.entropy((*given, point)) - self.entropy(given)
        if name == "eig":
            return alone - 0.5 * log(self.noise[point])
        groups = [(j,) for j in range(POOL, POOL + ABOUT)] if name == "epig" else [tuple(range(POOL, POOL + ABOUT))]
        left = [self.entropy((*given, *group, point)) - self.entropy((*given, *group)) for group in groups]
        return sum(alone - one for one in left) / len(groups)


def log(number):
    return math.log(number.numerator) - math.log(number.denominator)


def determinant(matrix):
    total = Fraction(1)
    while matrix:
        (pivot, *first), *rest = matrix
        total *= pivot
        matrix = [[one - row[0] * other / pivot for one, other in zip(row[1:], first, strict=True)] for row in rest]
    return total


OBJECTIVES = {"eig": EIG(), "epig": EPIG(), "jepig": JEPIG()}


def state_of(name, pool, targets):
    return read(OBJECTIVES[name], pool, Context(None if name == "eig" else targets, None, torch.Generator()))


@pytest.mark.parametrize("width", [2, 5])
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_gains_and_values_are_those_of_fractions(name, setting, width):
    whole, pool, targets = tiny_noise(*setting, width)
    exact, state, taken, total = Exact(whole), state_of(name, pool, targets), [], 0.0
    assert float((whole.features_N_D.square().sum(1) / whole.noise_N).max()) < 1e20
    for position in (2, 0, 4, 3):
        found_N = state.gains(torch.arange(POOL)) if taken else state.scores()
        for point in set(range(POOL)) - set(taken):
            assert float(found_N[point]) == pytest.approx(exact.gain(name, taken, point), abs=1e-5)
        total += exact.gain(name, taken, position)
        state.add(position)
        taken.append(position)
        assert state.total == pytest.approx(total, abs=1e-5)
        assert state.value(torch.tensor(taken)) == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize("setting", SETTINGS[2:], ids=str)
@pytest.mark.parametrize(("method", "name"), [("batchbald", "eig"), ("batch-epig", "epig"), ("batch-jepig", "jepig")])
def test_greedy_picks_the_best_gain(method, name, setting):
    whole, pool, targets = tiny_noise(*setting, width=3, seed=4)
    exact = Exact(whole)
    picks = natsel.select(method, pool, k=4, **({} if name == "eig" else {"targets": targets}))
    for place, point in enumerate(picks):
        taken = picks.ids[:place].tolist()
        gains = {one: exact.gain(name, taken, one) for one in range(POOL) if one not in taken}
        assert gains[point] == pytest.approx(max(gains.values()), abs=1e-5)
        assert float(picks.scores[place]) == pytest.approx(gains[point], abs=1e-5)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_small_memory_budget_changes_nothing(name):
    _, pool, targets = tiny_noise(1e3, 1e-10, width=5)
    found = []
    for budget in (1 << 30, 100):
        with natsel.memory_budget(budget):
            state = state_of(name, pool, targets)
            state.add(2)
            found.append(torch.stack([state.scores(), state.gains(torch.arange(POOL))]))
    torch.testing.assert_close(*found, rtol=0, atol=1e-7)


def test_many_targets_keep_their_weak_directions():
    """More targets than features: sums of squares would drown directions that are known 1e-16 as well as others."""
    generator = torch.Generator().manual_seed(0)
    scales_D = torch.tensor([1e8, 1.0], dtype=torch.float64)
    features_A_D = scales_D * torch.randn(POOL + 5, 2, generator=generator, dtype=torch.float64)
    belief = GaussianFeatures(features_A_D, noise=1.0)
    found_N = natsel.score("jepig", belief[:POOL], targets=belief[POOL:])
    exact, about = Exact(belief), tuple(range(POOL, POOL + 5))
    for point in range(POOL):
        left = exact.entropy((*about, point)) - exact.entropy(about)
        assert float(found_N[point]) == pytest.approx(exact.entropy((point,)) - left, abs=1e-6)


@pytest.mark.parametrize("noise", [1e-12, 1e-16])
def test_pig_of_a_target_that_was_seen_is_a_number(noise):
    features_N_D = torch.tensor([[1.0, 0.5], [0.2, -1.0]], dtype=torch.float64)
    label, other = 0.3, 0.3 + 0.5 * math.sqrt(noise)
    pool, about = GaussianFeatures(features_N_D, noise), GaussianFeatures(features_N_D[:1], noise)
    found_N = natsel.score("pig", pool, targets=Targets(about, labels=[label]), labels=[other, 0.0])
    variance = Fraction(1) + Fraction(1, 4)
    before = variance + Fraction(noise)
    after = Fraction(noise) + variance * Fraction(noise) / (variance + Fraction(noise))
    gap = Fraction(label) - variance / before * Fraction(other)
    misfit = float(gap * gap / after) - float(Fraction(label) ** 2 / before)
    assert float(found_N[0]) == pytest.approx(0.5 * (log(before) - log(after) - misfit), abs=1e-5)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_noise_that_leaves_only_rounding_is_refused(name):
    _, pool, targets = tiny_noise(1.0, 1e-22, width=2)
    with pytest.raises(ValueError, match=r"^noise: it is down to \de-2\d of the variance of a point, and below 1e-20 "):
        state_of(name, pool, targets)


@pytest.mark.parametrize("size", [1e60, -1e160, 1e200])
@pytest.mark.parametrize(
    "make",
    [
        lambda rows: GaussianFeatures(rows),
        lambda rows: GaussianSamples(rows, 1.0),
        lambda rows: FisherFactors.categorical(rows, [[0.5, 0.5]] * 2),
        lambda rows: FisherRows(rows[:, None]),
    ],
    ids=["features", "draws", "factors", "rows"],
)
def test_numbers_whose_products_leave_float64_are_refused(make, size):
    rows = torch.tensor([[1.0, 2.0], [3.0, size]], dtype=torch.float64)
    with pytest.raises(ValueError, match=r"^\w+: found -?1e\+\d+ in row 1, and products .* beyond 1e\+50 .*; rescale"):
        make(rows)


@pytest.mark.parametrize("noise", [1e-200, 1e200])
def test_variances_whose_products_leave_float64_are_refused(noise):
    with pytest.raises(ValueError, match=r"^noise: variances must lie between 1e-100 and 1e\+100, found 1e.200; "):
        GaussianFeatures([[1.0]], noise=noise)
    with pytest.raises(ValueError, match=r"^variance_N_K: variances must lie between 1e-100 and 1e\+100, "):
        GaussianSamples([[1.0]], [[noise]])


@pytest.mark.parametrize("method", ["batchbald", "batch-epig", "batch-jepig", "bait"])
def test_weights_known_next_to_nothing_are_refused(method):
    features_N_D = torch.randn(5, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for strength in (1e9, 1e20, 1e40):
        belief = FisherFactors.categorical(strength * features_N_D, [[0.3, 0.7]] * 5)
        known = {} if method == "batchbald" else {"targets": belief[:2]}
        with pytest.raises(
            ValueError, match=r"^precision: a label of one point would tell up to .*rescale the features"
        ):
            natsel.select(method, belief, k=2, **known)
