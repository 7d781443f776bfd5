"""EPIG and JEPIG on Gaussian beliefs: states against determinants, golden values, and Gaussian processes."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import dblquad

from golden_values import golden
from natsel import CategoricalSamples, GaussianFeatures, GaussianSamples, memory_budget
from natsel.beliefs import Targets
from natsel.information.gaussian_predictive import epig_gaussian, jepig_gaussian
from natsel.objectives import EIG, Context, read
from natsel.objectives.epig import EPIG
from natsel.objectives.jepig import JEPIG
from natsel.search import Greedy

GOLDEN = golden("06-epig")


def state_of(objective, belief, targets=None, weights=None):
    targets = None if targets is None else Targets(targets, weights)
    return read(objective, belief, Context(targets, None, torch.Generator().manual_seed(0)))


def random_features(seed, count, width, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    features_N_D = scale * torch.randn(count, width, generator=generator, dtype=torch.float64)
    return GaussianFeatures(features_N_D, torch.rand(count, generator=generator, dtype=torch.float64) + 0.1)


def covariance(belief):
    features_N_D = belief.features_N_D.double()
    return features_N_D @ features_N_D.T + belief.noise_N.diag()


def joined(belief, targets):
    features_N_D = torch.cat([belief.features_N_D, targets.features_N_D])
    return covariance(GaussianFeatures(features_N_D, torch.cat([belief.noise_N, targets.noise_N])))


def epig_by_determinants(belief, targets, batch, weights=None):
    """Σ_j v_j ½ (ln det S_bb + ln S_jj − ln det S_(b+j)): the definition."""
    whole, count = joined(belief, targets), len(belief)
    found = []
    for target in range(count, count + len(targets)):
        sets = (list(batch), [target], [*batch, target])
        dets = [torch.logdet(whole[part][:, part]) if part else torch.zeros(()) for part in sets]
        found.append(0.5 * float(dets[0] + dets[1] - dets[2]))
    return float(np.average(found, weights=weights))


def jepig_by_determinants(belief, targets, batch):
    whole, count = joined(belief, targets), len(belief)
    e = list(range(count, count + len(targets)))
    sets = (list(batch), e, [*batch, *e])
    dets = [torch.logdet(whole[part][:, part]) if part else torch.zeros(()) for part in sets]
    return 0.5 * float(dets[0] + dets[1] - dets[2])


shapes = {
    "seed": st.integers(0, 999),
    "count": st.integers(1, 6),
    "targets": st.integers(1, 7),
    "width": st.integers(1, 5),
}


@settings(deadline=None)
@given(**shapes, weighted=st.booleans())
def test_epig_of_points_added_is_their_information_about_each_target(seed, count, targets, width, weighted):
    pool, about = random_features(seed, count, width), random_features(seed + 1, targets, width)
    weights = np.random.default_rng(seed).random(targets) + 0.05 if weighted else None
    if weighted and targets > 1:
        weights[0] = 0
    state = state_of(EPIG(), pool, about, weights)
    singles = [epig_by_determinants(pool, about, [n], weights) for n in range(count)]
    assert state.scores().tolist() == pytest.approx(singles, abs=1e-10)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()
    ceiling = state.remaining
    for taken, position in enumerate(order, start=1):
        foretold = float(state.gains(torch.tensor([position])))
        assert foretold >= 0
        assert state.add(position) == foretold
        expected = epig_by_determinants(pool, about, order[:taken], weights)
        assert state.total == pytest.approx(expected, abs=1e-10)
        assert state.value(torch.tensor(order[:taken])) == pytest.approx(expected, abs=1e-10)
        # Labels seen and labels to come share what there is to know about the targets.
        assert state.total + state.remaining == pytest.approx(ceiling, abs=1e-10)
        assert state.scores().tolist() == pytest.approx(singles, abs=1e-10)
    assert state.value(torch.tensor([], dtype=torch.int64)) == 0


@settings(deadline=None)
@given(**shapes)
def test_jepig_of_points_added_is_their_information_about_all_targets(seed, count, targets, width):
    pool, about = random_features(seed, count, width), random_features(seed + 1, targets, width)
    state = state_of(JEPIG(), pool, about)
    singles = [jepig_by_determinants(pool, about, [n]) for n in range(count)]
    assert state.scores().tolist() == pytest.approx(singles, abs=1e-10)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()
    for taken, position in enumerate(order, start=1):
        foretold = float(state.gains(torch.tensor([position])))
        assert foretold >= 0
        assert state.add(position) == foretold
        expected = jepig_by_determinants(pool, about, order[:taken])
        assert state.total == pytest.approx(expected, abs=1e-9)
        assert state.value(torch.tensor(order[:taken])) == pytest.approx(expected, abs=1e-9)
        assert state.scores().tolist() == pytest.approx(singles, abs=1e-10)
        left = state_of(EIG(), about).value(torch.arange(targets)) - state.total
        assert state.remaining == pytest.approx(left, abs=1e-9)
    assert state.value(torch.tensor([], dtype=torch.int64)) == 0


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 999), width=st.integers(1, 4))
def test_epig_jepig_and_bald_in_order_and_symmetric(seed, width):
    pool, about = random_features(seed, 5, width), random_features(seed + 1, 4, width)
    epig, jepig = state_of(EPIG(), pool, about).scores(), state_of(JEPIG(), pool, about).scores()
    bald = state_of(EIG(), pool).scores()
    assert bool((epig >= 0).all() & (epig <= jepig + 1e-12).all() & (jepig <= bald + 1e-12).all())
    there = state_of(EPIG(), pool[:1], about[:1]).scores()
    back = state_of(EPIG(), about[:1], pool[:1]).scores()
    assert float(there) == pytest.approx(float(back), abs=1e-13)
    assert float(there) == pytest.approx(float(state_of(JEPIG(), pool[:1], about[:1]).scores()), abs=1e-12)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 999), weighted=st.booleans())
def test_draws_are_moment_matched(seed, weighted):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(4)) if weighted else np.full(4, 0.25)
    log_weights = np.log(weights) if weighted else None
    mean, noise = rng.normal(size=(5, 4)), rng.random((5, 4)) + 0.1
    mean_M, noise_M = rng.normal(size=(3, 4)), rng.random((3, 4)) + 0.1
    pool, about = GaussianSamples(mean, noise, log_weights), GaussianSamples(mean_M, noise_M, log_weights)
    both = np.concatenate([mean, mean_M])
    whole = torch.from_numpy(
        np.cov(both, aweights=weights, ddof=0) + np.diag(np.concatenate([noise, noise_M]) @ weights)
    )
    expected = epig_gaussian(whole.diagonal()[:5], whole[:5, 5:], whole.diagonal()[5:])
    assert state_of(EPIG(), pool, about).scores().tolist() == pytest.approx(expected.tolist(), abs=1e-10)
    expected = jepig_gaussian(whole.diagonal()[:5], whole[:5, 5:], whole[5:, 5:])
    assert state_of(JEPIG(), pool, about).scores().tolist() == pytest.approx(expected.tolist(), abs=1e-10)


def test_golden_moment_matching():
    case = GOLDEN["gaussian_draws_moment_matched"]
    pool = GaussianSamples(case["inputs"]["mean_N_K"], case["inputs"]["variance_N_K"])
    about = GaussianSamples(case["inputs"]["mean_M_K"], case["inputs"]["variance_M_K"])
    expected = [row[0] for row in case["expected"]["pairwise_N_M"]]
    for objective in (EPIG(), JEPIG()):
        found = state_of(objective, pool, about).scores()
        assert found.tolist() == pytest.approx(expected, rel=1e-10, abs=1e-13)
        assert float(found[1]) == 0


def test_moment_matching_is_neither_a_lower_nor_an_upper_bound():
    """Two draws cannot tell more than ln 2, of which moments know nothing; and opposite draws can be uncorrelated."""

    def true(mean, mean_star, noise):
        def joint(y, z):
            return sum(
                math.exp(-((y - a) ** 2 + (z - b) ** 2) / (2 * noise)) / (2 * math.pi * noise) / len(mean)
                for a, b in zip(mean, mean_star, strict=True)
            )

        def margin(y, centres):
            return sum(math.exp(-((y - a) ** 2) / (2 * noise)) / math.sqrt(2 * math.pi * noise) for a in centres) / len(
                centres
            )

        def integrand(y, z):
            density = joint(y, z)
            return 0.0 if density < 1e-200 else density * math.log(density / margin(y, mean) / margin(z, mean_star))

        return dblquad(integrand, -3, 3, -3, 3, epsabs=1e-5)[0]

    together = [-1.0, 1.0]
    score = float(state_of(EPIG(), GaussianSamples([together], 0.05), GaussianSamples([together], 0.05)).scores())
    assert score > math.log(2) > true(together, together, 0.05) > 0.6
    apart, aside = [-1.0, 0.0, 1.0], [1.0, 0.0, 1.0]
    score = float(state_of(EPIG(), GaussianSamples([apart], 0.05), GaussianSamples([aside], 0.05)).scores())
    assert score == pytest.approx(0, abs=1e-12)
    assert true(apart, aside, 0.05) > 0.3


def test_golden_rank_one_latent():
    case = GOLDEN["gaussian_rank_one_latent"]
    latent = torch.tensor(case["inputs"]["latent_cov_5_5"], dtype=torch.float64)
    values, vectors = torch.linalg.eigh(latent)
    belief = GaussianFeatures(vectors * values.clamp_min(0).sqrt(), case["inputs"]["noise"])
    pool, about = belief[case["inputs"]["candidates"]], belief[case["inputs"]["targets"]]
    expected = case["expected"]
    for objective, name in ((EPIG(), "epig"), (JEPIG(), "jepig")):
        state = state_of(objective, pool, about)
        assert state.scores().tolist() == pytest.approx(expected[name], rel=1e-10)
        assert state.value(torch.arange(2)) == pytest.approx(expected[f"batch_{name}"], rel=1e-10)
        picks = Greedy()(state, 2, torch.ones(2, dtype=torch.bool), torch.Generator())
        assert picks.positions.tolist() == [1, 0]
        assert picks.total == pytest.approx(expected[f"batch_{name}"], rel=1e-10)
    for column, target in enumerate(case["inputs"]["targets"]):
        pairs = state_of(EPIG(), pool, belief[[target]]).scores()
        expected_N = [row[column] for row in expected["pairwise"]]
        assert pairs.tolist() == pytest.approx(expected_N, rel=1e-10, abs=1e-13)


def rbf(first, second, length):
    return torch.exp(-((first[:, None] - second) ** 2) / (2 * length**2))


def process(sites, targets, length, noise=1.0):
    """Pool and targets of a zero-mean Gaussian process as features: a square root of their joint covariance."""
    inputs = torch.cat([sites, targets])
    values, vectors = torch.linalg.eigh(rbf(inputs, inputs, length))
    belief = GaussianFeatures(vectors * values.clamp_min(0).sqrt(), noise)
    return belief[: len(sites)], belief[len(sites) :]


def test_golden_gaussian_process_at_odd_integers():
    case = GOLDEN["gp_odd_integers"]
    inputs = torch.tensor(case["inputs"]["target_inputs"], dtype=torch.float64)
    for setting, expected in zip(case["inputs"]["settings"], case["expected"]["results"], strict=True):
        sites = torch.arange(1, 2 * setting["n_sites"], 2, dtype=torch.float64)
        for target, information in zip(inputs, expected["information_at_targets"], strict=True):
            state = state_of(EPIG(), *process(sites, target[None], setting["length_scale"]))
            for position in range(len(sites)):
                state.add(position)
            assert state.total == pytest.approx(information, rel=1e-8, abs=1e-14)


@pytest.mark.parametrize(
    ("length", "expected"),
    [(2, (0.17651, 0.17823)), (1, (0.10106, 0.10116)), (0.5, (0.01463,) * 2), (0.25, (0.00072,) * 2)],
)
def test_the_table_of_the_one_dimensional_example(length, expected):
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    targets = torch.from_numpy(2 + nodes / 4)
    for count, information in zip((2, 8), expected, strict=True):
        sites = torch.arange(1, 2 * count, 2, dtype=torch.float64)
        pool, about = process(sites, targets, length)
        state = state_of(EPIG(), pool, about, weights)
        assert state.value(torch.arange(count)) == pytest.approx(information, abs=6e-6)


def test_jepig_of_a_process_grows_to_bald_with_copies_and_falls_with_distance():
    site = torch.zeros(1, dtype=torch.float64)
    bald = 0.5 * math.log(2)
    one = GaussianFeatures([[1.0]])
    by_copies = [
        float(state_of(JEPIG(), one, GaussianFeatures(torch.ones(r, 1))).scores()) for r in (1, 2, 8, 64, 4096)
    ]
    assert all(a < b for a, b in pairwise(by_copies))
    assert by_copies[-1] == pytest.approx(bald, abs=2e-4)
    assert by_copies[0] == pytest.approx(-0.5 * math.log(1 - 0.25))
    by_distance = [float(state_of(JEPIG(), *process(site, site + d, 1.0)).scores()) for d in (0.0, 0.5, 1.0, 2.0, 8.0)]
    assert all(a > b for a, b in pairwise(by_distance))
    assert by_distance[-1] < 1e-12


def test_jepig_of_a_linear_model_becomes_bald_when_targets_span_its_weights():
    pool = random_features(0, 6, 3)
    spanning = GaussianFeatures(torch.eye(3, dtype=torch.float64).repeat(5000, 1), 0.2)
    bald = state_of(EIG(), pool).scores()
    assert state_of(JEPIG(), pool, spanning).scores().tolist() == pytest.approx(bald.tolist(), abs=1e-3)
    blind = GaussianFeatures(torch.eye(3, dtype=torch.float64)[:2].repeat(5000, 1), 0.2)
    assert bool((state_of(JEPIG(), pool, blind).scores() < bald - 1e-3).any())


def test_many_targets_and_few_features_give_the_same_directions():
    pool, about = random_features(0, 8, 3), random_features(1, 40, 3)
    wide = torch.nn.functional.pad(pool.features_N_D, (0, 60)), torch.nn.functional.pad(about.features_N_D, (0, 60))
    padded = GaussianFeatures(wide[0], pool.noise_N), GaussianFeatures(wide[1], about.noise_N)
    torch.testing.assert_close(
        state_of(JEPIG(), pool, about).scores(), state_of(JEPIG(), *padded).scores(), rtol=1e-11, atol=1e-13
    )


def test_two_labels_tell_together_what_neither_does_alone():
    """A target that is the difference of two points: gains rise, so the state must not call itself lazy."""
    pool = GaussianFeatures([[1.0, 0.0], [1.0, 1.0]], noise=[1e-3, 1e-3])
    about = GaussianFeatures([[0.0, 1.0]], noise=0.1)
    for objective in (EPIG(), JEPIG()):
        state = state_of(objective, pool, about)
        alone = float(state.scores()[0])
        assert alone == pytest.approx(0, abs=1e-12)
        state.add(1)
        assert float(state.gains(torch.tensor([0]))) > 0.5
        assert state.submodular is False


def test_scores_of_nearly_unrelated_points_keep_their_digits():
    pool = GaussianFeatures([[1.0, 1e-11]], noise=1.0)
    about = GaussianFeatures([[0.0, 1.0]], noise=1.0)
    for objective in (EPIG(), JEPIG()):
        assert float(state_of(objective, pool, about).scores()) == pytest.approx(0.5e-22 / 4, rel=1e-9)


def test_almost_noiseless_copies_are_bounded_by_their_noise():
    noise = 1e-18
    belief = GaussianFeatures([[1.0, 0.3], [0.0, 2.0]], noise=noise)
    bound = -0.5 * math.log(2 * noise / 1.09)
    found = float(state_of(EPIG(), belief[:1], belief[:1]).scores())
    assert 15 < found <= bound + 1e-9  # float64 cannot tell how much closer to 1 the correlation is
    worse = float(state_of(EPIG(), GaussianFeatures([[1.0, 0.3]], noise=1e-10), belief[:1]).scores())
    assert worse == pytest.approx(-0.5 * math.log(1e-10 / 1.09), rel=1e-6)
    assert bool(state_of(JEPIG(), belief, belief).scores().isfinite().all())
    state = state_of(EPIG(), belief, belief)
    assert all(np.isfinite(state.add(position)) for position in (0, 1))


def test_points_without_uncertainty_tell_nothing():
    pool = GaussianFeatures([[0.0, 0.0], [1.0, 0.0]])
    about = GaussianFeatures([[1.0, 0.0]])
    for objective in (EPIG(), JEPIG()):
        state = state_of(objective, pool, about)
        assert float(state.scores()[0]) == 0
        assert state.add(0) == 0
        assert state.add(1) > 0
    constant = GaussianFeatures([[0.0, 0.0]])
    for objective in (EPIG(), JEPIG()):
        assert state_of(objective, pool, constant).scores().tolist() == [0, 0]


def test_chunks_and_float32_change_nothing_that_matters():
    pool, about = random_features(0, 300, 4), random_features(1, 50, 4)
    for objective in (EPIG(), JEPIG()):
        whole = state_of(objective, pool, about)
        whole.add(7)
        with memory_budget(3000):
            pieces = state_of(objective, pool, about)
            torch.testing.assert_close(pieces.scores(), whole.scores(), rtol=1e-12, atol=1e-14)
            pieces.add(7)
            everything = torch.arange(300)
            torch.testing.assert_close(pieces.gains(everything), whole.gains(everything), rtol=1e-10, atol=1e-13)
        single = (
            GaussianFeatures(pool.features_N_D.float(), pool.noise_N),
            GaussianFeatures(about.features_N_D.float(), about.noise_N),
        )
        found = state_of(objective, *single).scores()
        assert found.dtype == torch.float64
        torch.testing.assert_close(found, whole.scores(), rtol=1e-4, atol=1e-6)


def test_more_targets_than_a_block_holds():
    pool, about = random_features(0, 3, 2), random_features(1, 5000, 2)
    cross_N_M = pool.features_N_D @ about.features_N_D.T
    variance_N, variance_M = (part.features_N_D.square().sum(1) + part.noise_N for part in (pool, about))
    torch.testing.assert_close(
        state_of(EPIG(), pool, about).scores(), epig_gaussian(variance_N, cross_N_M, variance_M), rtol=1e-12, atol=1e-14
    )


def test_what_cannot_be_combined_is_refused():
    pool = random_features(0, 3, 2)
    with pytest.raises(ValueError, match="they have 3 features and the pool 2"):
        state_of(EPIG(), pool, random_features(0, 3, 3))
    with pytest.raises(ValueError, match="targets: EPIG"):
        state_of(EPIG(), pool)
    with pytest.raises(ValueError, match="use EPIG"):
        state_of(JEPIG(), pool, pool, [1, 2, 3])
    one, other = GaussianFeatures([[1.0]], draws_id="a"), GaussianFeatures([[1.0]], draws_id="b")
    for objective in (EPIG(), JEPIG()):
        with pytest.raises(ValueError, match="targets: their draws are 'b'"):
            state_of(objective, one, other)
        with pytest.raises(ValueError, match="targets: found CategoricalSamples"):
            state_of(objective, one, CategoricalSamples.from_probs([[[0.5, 0.5]]]))
