"""EIG on Gaussian beliefs: the incremental Cholesky against determinants, weight space, golden values, quadrature."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid

import natsel
from drawn_orders import seed_of
from golden_values import golden
from natsel import GaussianFeatures, GaussianSamples
from natsel.objectives import EIG, Context, read

BLACK_BOX = golden("09-black-box")
EPIG = golden("06-epig")


def state_of(belief):
    return read(EIG(), belief, Context(None, None, torch.Generator().manual_seed(0)))


def random_features(seed, count, width, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    features_N_D = scale * torch.randn(count, width, generator=generator, dtype=torch.float64)
    noise_N = torch.rand(count, generator=generator, dtype=torch.float64) + 0.1
    return features_N_D, noise_N


def in_kernel_space(features_B_D, noise_B):
    """½ ln det(K + Σ) − ½ ln det Σ over the points."""
    covariance = features_B_D @ features_B_D.T + noise_B.diag()
    return 0.5 * float(torch.logdet(covariance) - noise_B.log().sum())


def in_weight_space(features_B_D, noise_B):
    """½ ln det(I + Φᵀ Σ⁻¹ Φ) over the weights: Sylvester's identity."""
    precision = torch.eye(features_B_D.shape[1], dtype=torch.float64) + features_B_D.T @ (
        features_B_D / noise_B[:, None]
    )
    return 0.5 * float(torch.logdet(precision))


shapes = {"seed": st.integers(0, 1000), "count": st.integers(1, 8), "width": st.integers(1, 6)}


@settings(deadline=None)
@given(**shapes)
def test_added_points_are_worth_their_log_determinant(seed, count, width):
    features_N_D, noise_N = random_features(seed, count, width)
    state = state_of(GaussianFeatures(features_N_D, noise_N))
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()
    for taken, position in enumerate(order, start=1):
        before, foretold = state.total, float(state.gains(torch.tensor([position])))
        gain = state.add(position)
        assert gain == foretold
        assert state.total == pytest.approx(before + gain, abs=1e-15)
        batch = order[:taken]
        assert state.total == pytest.approx(in_kernel_space(features_N_D[batch], noise_N[batch]), abs=1e-10)
        assert state.total == pytest.approx(in_weight_space(features_N_D[batch], noise_N[batch]), abs=1e-10)
        assert state.value(torch.tensor(batch)) == pytest.approx(state.total, abs=1e-10)


@settings(deadline=None)
@given(**shapes)
def test_gains_of_all_points_are_conditional_informations(seed, count, width):
    features_N_D, noise_N = random_features(seed, count, width)
    state = state_of(GaussianFeatures(features_N_D, noise_N))
    state.add(0)
    if count > 2:
        state.add(2)
    taken = [0, 2] if count > 2 else [0]
    gain_N = state.gains(torch.arange(count))
    for position in set(range(count)) - set(taken):
        batch = [*taken, position]
        expected = in_kernel_space(features_N_D[batch], noise_N[batch]) - state.total
        assert float(gain_N[position]) == pytest.approx(expected, abs=1e-10)
    assert bool((gain_N <= state.scores() + 1e-12).all())


def test_the_order_of_the_points_does_not_matter():
    features_N_D, noise_N = random_features(7, 6, 3)
    totals = []
    for order in ([0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4], [2, 4, 0, 5, 1, 3]):
        state = state_of(GaussianFeatures(features_N_D, noise_N))
        for position in order:
            state.add(position)
        totals.append(state.total)
    assert totals == pytest.approx([totals[0]] * 3, abs=1e-12)


def test_the_value_of_no_points_is_zero():
    assert state_of(GaussianFeatures([[1.0]])).value(torch.empty(0, dtype=torch.int64)) == pytest.approx(0)


@settings(deadline=None, max_examples=30)
@given(**shapes, k=st.integers(1, 8))
def test_greedy_takes_the_largest_determinant_step_by_step(seed, count, width, k):
    features_N_D, noise_N = random_features(seed, count, width)
    k = min(k, count)
    selection = natsel.select("batchbald", GaussianFeatures(features_N_D, noise_N), k=k)
    taken = []
    for position, gain in zip(selection.ids.tolist(), selection.scores.tolist(), strict=True):
        base = in_kernel_space(features_N_D[taken], noise_N[taken]) if taken else 0.0
        free = [n for n in range(count) if n not in taken]
        gains = [in_kernel_space(features_N_D[[*taken, n]], noise_N[[*taken, n]]) - base for n in free]
        assert gain == pytest.approx(max(gains), abs=1e-10)
        taken.append(position)
    assert selection.total == pytest.approx(in_kernel_space(features_N_D[taken], noise_N[taken]), abs=1e-9)
    assert bool((selection.scores.diff() <= 1e-12).all())
    assert selection.warnings == ()


def test_heteroscedastic_noise_decides_between_equal_features():
    belief = GaussianFeatures([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], noise=[4.0, 0.25, 1.0])
    expected = [0.5 * math.log(1 + 1 / noise) for noise in (4.0, 0.25, 1.0)]
    assert natsel.score("bald", belief).tolist() == pytest.approx(expected)
    assert natsel.select("batchbald", belief, k=2).ids.tolist() == [1, 2]


def test_float32_features_are_computed_in_float64():
    features_N_D, noise_N = random_features(3, 40, 5)
    narrow = GaussianFeatures(features_N_D.float(), noise_N)
    wide = GaussianFeatures(features_N_D.float().double(), noise_N)
    a, b = (natsel.select("batchbald", belief, k=12) for belief in (narrow, wide))
    assert a.ids.tolist() == b.ids.tolist()
    assert torch.allclose(a.scores, b.scores, rtol=0, atol=1e-12)


def test_one_point():
    selection = natsel.select("batchbald", GaussianFeatures([[3.0]], noise=1.0), k=1)
    assert selection.ids.tolist() == [0]
    assert selection.total == pytest.approx(0.5 * math.log(10))


@pytest.mark.parametrize("noise", [1.0, 1e-3, 1e-9])
def test_more_picks_than_directions_give_no_nan(noise):
    features_N_D, _ = random_features(5, 30, 2)
    features_N_D[::3] = 0
    selection = natsel.select("batchbald", GaussianFeatures(features_N_D, noise), k=30)
    assert sorted(selection.ids.tolist()) == list(range(30))
    assert bool(selection.scores.isfinite().all())
    assert bool((selection.scores >= 0).all())
    expected = in_weight_space(features_N_D, torch.full((30,), noise, dtype=torch.float64))
    assert selection.total == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("scale", "noise"), [(1e5, 1e-6), (1e3, 1e-12)])
def test_noise_below_rounding_breaks_nothing(scale, noise):
    """Labels in the hundred thousands, noise of a thousandth, more picks than ensemble members."""
    features_N_D, _ = random_features(6, 60, 4, scale=scale)
    selection = natsel.select("batchbald", GaussianFeatures(features_N_D, noise), k=30)
    assert len(set(selection.ids.tolist())) == 30
    assert bool(selection.scores.isfinite().all())
    assert bool((selection.scores >= 0).all())
    alone = natsel.score("bald", GaussianFeatures(features_N_D, noise)).max()
    assert bool((selection.scores <= float(alone) + 1e-9).all())


def test_copies_share_what_they_tell():
    belief = GaussianFeatures([[2.0, 0.0], [2.0, 0.0], [0.0, 1.0]], noise=0.01)
    selection = natsel.select("batchbald", belief, k=3, seed=seed_of(0, 1))
    assert selection.ids.tolist() == [0, 2, 1]
    copy = 0.5 * math.log(1 + 2 * 4 / 0.01) - 0.5 * math.log(1 + 4 / 0.01)
    assert float(selection.scores[2]) == pytest.approx(copy, rel=1e-9)


def test_ids_and_excluded_points():
    features_N_D, noise_N = random_features(9, 8, 3)
    belief = GaussianFeatures(features_N_D, noise_N, ids=range(100, 108))
    best = natsel.select("batchbald", belief, k=2).ids.tolist()
    rest = natsel.select("batchbald", belief, k=6, exclude=best).ids.tolist()
    assert sorted(best + rest) == list(range(100, 108))


@pytest.mark.parametrize("budget", [1, 300, 10_000])
def test_the_memory_budget_changes_nothing(budget):
    features_N_D, noise_N = random_features(4, 60, 7)
    belief = GaussianFeatures(features_N_D, noise_N)
    whole = natsel.select("batchbald", belief, k=10)
    with natsel.memory_budget(budget):
        chunked = natsel.select("batchbald", belief, k=10)
    assert chunked.ids.tolist() == whole.ids.tolist()
    assert torch.allclose(chunked.scores, whole.scores, rtol=0, atol=1e-12)


# Draws of Gaussians: moment-matched (docs/theory/epig-jepig.md, 2).


@settings(deadline=None)
@given(seed=st.integers(0, 1000), draws=st.integers(1, 6), weighted=st.booleans())
def test_scores_of_draws_are_the_moment_matched_formula(seed, draws, weighted):
    rng = np.random.default_rng(seed)
    mean, variance = rng.standard_normal((4, draws)), rng.random((4, draws)) + 0.05
    weights = rng.dirichlet(np.ones(draws)) if weighted else np.full(draws, 1 / draws)
    belief = GaussianSamples(mean, variance, np.log(weights) if weighted else None)
    centre = (mean @ weights)[:, None]
    total = variance @ weights + (mean - centre) ** 2 @ weights
    expected = 0.5 * (np.log(total) - np.log(variance) @ weights)
    assert natsel.score("bald", belief).tolist() == pytest.approx(expected.tolist(), abs=1e-12)
    assert bool((natsel.score("bald", belief) >= -1e-12).all())


def test_equal_noise_is_the_closed_form():
    belief = GaussianSamples([[0.0, 2.0]], 0.5)
    assert float(natsel.score("bald", belief)) == pytest.approx(0.5 * math.log(1 + 1 / 0.5))


def mixture_information(mean_K, variance_K, weights_K):
    """I[Y;Ω] of a mixture of normals by quadrature on a fine grid."""
    y = np.linspace((mean_K - 12 * variance_K**0.5).min(), (mean_K + 12 * variance_K**0.5).max(), 20_001)
    density = np.exp(-((y[:, None] - mean_K) ** 2) / (2 * variance_K)) / np.sqrt(2 * np.pi * variance_K)
    mixture = density @ weights_K
    entropy = -trapezoid(np.where(mixture > 0, mixture * np.log(np.maximum(mixture, 1e-300)), 0), y)
    return entropy - 0.5 * weights_K @ np.log(2 * np.pi * np.e * variance_K)


@settings(deadline=None)
@given(seed=st.integers(0, 1000), draws=st.integers(1, 5))
def test_scores_of_draws_are_never_below_the_mixtures_information(seed, draws):
    rng = np.random.default_rng(seed)
    mean, variance = 2 * rng.standard_normal(draws), rng.random(draws) + 0.1
    weights = rng.dirichlet(np.ones(draws))
    true = mixture_information(mean, variance, weights)
    score = float(natsel.score("bald", GaussianSamples(mean[None], variance[None], np.log(weights))))
    assert score >= true - 1e-6
    assert true >= -1e-6


def test_moment_matching_is_tight_for_small_spread_and_loose_beyond_ln_k():
    close = GaussianSamples([[0.0, 0.02]], 1.0)
    true = mixture_information(np.array([0.0, 0.02]), np.ones(2), np.full(2, 0.5))
    assert float(natsel.score("bald", close)) == pytest.approx(true, rel=1e-2)
    assert float(natsel.score("bald", GaussianSamples([[0.0, 100.0]], 1.0))) > math.log(2)


def test_a_batch_of_draws_adds_up_and_copies_gain_less():
    rng = np.random.default_rng(1)
    mean, variance = rng.standard_normal((5, 4)), rng.random((5, 4)) + 0.1
    mean[4], variance[4] = mean[0], variance[0]
    belief = GaussianSamples(mean, variance)
    state = state_of(belief)
    alone = state.scores()
    gains = [state.add(position) for position in range(5)]
    assert gains[4] < float(alone[4])
    features = belief.features()
    covariance = features.features_N_D @ features.features_N_D.T + features.noise_N.diag()
    expected = 0.5 * float(torch.logdet(covariance)) - 0.5 * float(np.log(variance).mean(1).sum())
    assert state.total == pytest.approx(expected, abs=1e-12)
    assert state.value(torch.arange(5)) == pytest.approx(expected, abs=1e-12)


def test_draws_that_agree_tell_nothing():
    belief = GaussianSamples([[1.0, 1.0, 1.0], [0.0, 0.5, 1.0]], 0.1)
    assert float(natsel.score("bald", belief)[0]) == pytest.approx(0, abs=1e-12)
    assert natsel.select("batchbald", belief, k=1).ids.tolist() == [1]


def test_a_draw_of_weight_zero_changes_nothing():
    with_it = GaussianSamples([[0.0, 1.0, 50.0], [1.0, 0.0, -9.0]], 0.3, torch.tensor([0.5, 0.5, 0.0]).log())
    without = GaussianSamples([[0.0, 1.0], [1.0, 0.0]], 0.3)
    a, b = (natsel.select("batchbald", belief, k=2) for belief in (with_it, without))
    assert a.ids.tolist() == b.ids.tolist()
    assert torch.allclose(a.scores, b.scores, atol=1e-12)


# Golden values of black boxes (Kirsch 2023; maxdiag = bald, maxdet = batchbald) and of Gaussian processes
# (docs/theory/epig-jepig.md, 13).


def black_box(case):
    inputs, outputs = BLACK_BOX[case]["inputs"], BLACK_BOX[case]["outputs"]
    return inputs, outputs, GaussianSamples(inputs["mean_N_K"], inputs.get("noise", 1.0))


def test_golden_features_of_an_ensemble():
    _, outputs, belief = black_box("features")
    features_N_D = belief.features().features_N_D
    assert np.allclose(features_N_D, outputs["features_N_D"], atol=1e-12)
    assert np.allclose(features_N_D @ features_N_D.T, outputs["kernel_N_N"], atol=1e-12)
    assert np.allclose(natsel.score("variance", belief), outputs["diag_N"], atol=1e-12)
    assert torch.linalg.matrix_rank(features_N_D) == outputs["rank"]


def test_golden_features_of_weighted_members():
    case = BLACK_BOX["weighted_members"]
    belief = GaussianSamples(case["inputs"]["mean_N_K"], 1.0, np.log(case["inputs"]["q_K"]))
    features_N_D = belief.features().features_N_D
    assert np.allclose(features_N_D, case["outputs"]["features_N_D"], atol=1e-12)
    assert np.allclose(features_N_D @ features_N_D.T, case["outputs"]["kernel_N_N"], atol=1e-12)


@pytest.mark.parametrize("name", ["bald", "maxdiag"])
def test_golden_maxdiag(name):
    inputs, outputs, belief = black_box("bald")
    for kind in (belief, belief.features()):
        assert natsel.score(name, kind).tolist() == pytest.approx(outputs["scores_N"], rel=1e-9)
        assert natsel.select(name, kind, k=inputs["k"]).ids.tolist() == outputs["selected"]


@pytest.mark.parametrize("name", ["batchbald", "maxdet"])
def test_golden_maxdet(name):
    inputs, outputs, belief = black_box("batchbald")
    for kind in (
        belief,
        belief.features(),
        GaussianFeatures(belief.features().features_N_D, inputs["noise"]),
    ):
        selection = natsel.select(name, kind, k=inputs["k"])
        assert selection.ids.tolist() == outputs["selected"]
        assert selection.scores.tolist() == pytest.approx(outputs["scores"], rel=1e-9)
        assert selection.total == pytest.approx(outputs["total"], rel=1e-9)


def test_golden_maxdet_with_much_noise_is_maxdiag():
    inputs, outputs, belief = black_box("batchbald_large_noise")
    assert natsel.select("batchbald", belief, k=inputs["k"]).ids.tolist() == outputs["selected"]


def test_golden_maxdet_after_the_training_points():
    """TP-mode: the training points are added first, then the pool by gain."""
    case = BLACK_BOX["batchbald_tp"]
    inputs, outputs = case["inputs"], case["outputs"]
    train, pool = inputs["train_mean_T_K"], inputs["mean_N_K"]
    state = state_of(GaussianSamples(train + pool, inputs["noise"]))
    for position in range(len(train)):
        state.add(position)
    spent = state.total
    free = torch.arange(len(train), len(train) + len(pool))
    for expected, score in zip(outputs["selected"], outputs["scores"], strict=True):
        best = int(free[state.gains(free).argmax()])
        assert best - len(train) == expected
        assert state.add(best) == pytest.approx(score, rel=1e-9)
        free = free[free != best]
    assert state.total - spent == pytest.approx(outputs["total"], rel=1e-9)


def test_golden_posterior_kernel_diagonal():
    case = BLACK_BOX["posterior_kernel"]
    train, pool = case["inputs"]["train_mean_T_K"], case["inputs"]["mean_N_K"]
    state = state_of(GaussianSamples(train + pool, case["inputs"]["noise"]))
    for position in range(len(train)):
        state.add(position)
    noise = case["inputs"]["noise"]
    left_N = (2 * state.gains(torch.arange(len(train), len(train) + len(pool)))).exp() * noise - noise
    assert np.allclose(left_N, np.diag(case["outputs"]["kernel_N_N"]), rtol=1e-9)


def test_golden_twins_and_duplicates():
    inputs, outputs, belief = black_box("tie_twins")
    selection = natsel.select("batchbald", belief, k=inputs["k"], seed=seed_of(0, 1))
    assert selection.ids.tolist() == outputs["batchbald"]
    assert selection.scores.tolist() == pytest.approx(outputs["scores"], rel=1e-9)
    assert selection.total == pytest.approx(outputs["total"], rel=1e-9)
    inputs, outputs, belief = black_box("duplicate_point")
    assert natsel.select("bald", belief, k=inputs["k"]).ids.tolist() == outputs["bald"]
    selection = natsel.select("batchbald", belief, k=inputs["k"])
    assert selection.ids.tolist() == outputs["batchbald"]
    assert selection.scores.tolist() == pytest.approx(outputs["scores"], rel=1e-9)


def test_golden_no_disagreement_scores_zero():
    inputs, outputs, belief = black_box("no_disagreement")
    assert natsel.score("bald", belief).tolist() == pytest.approx(outputs["bald_scores_N"], abs=1e-12)
    selection = natsel.select("batchbald", belief, k=inputs["k"])
    assert len(set(selection.ids.tolist())) == inputs["k"]
    assert selection.scores.tolist() == pytest.approx([0.0] * inputs["k"], abs=1e-12)


def test_golden_bald_of_a_rank_one_latent():
    case = EPIG["gaussian_rank_one_latent"]
    latent = torch.tensor(case["inputs"]["latent_cov_5_5"], dtype=torch.float64)
    values, vectors = torch.linalg.eigh(latent)
    belief = GaussianFeatures(vectors * values.clamp_min(0).sqrt(), case["inputs"]["noise"])
    candidates = case["inputs"]["candidates"]
    scores = natsel.score("bald", belief)[candidates].tolist()
    assert scores == pytest.approx(case["expected"]["bald"], rel=1e-10)
    selection = natsel.select("batchbald", belief[candidates], k=2)
    assert selection.total == pytest.approx(case["expected"]["joint_bald"], rel=1e-10)


def test_golden_joint_bald_of_a_gaussian_process():
    case = EPIG["gp_odd_integers"]
    for setting, expected in zip(case["inputs"]["settings"], case["expected"]["results"], strict=True):
        sites = torch.arange(1, 2 * setting["n_sites"], 2, dtype=torch.float64)
        kernel = torch.exp(-((sites[:, None] - sites) ** 2) / (2 * setting["length_scale"] ** 2))
        belief = GaussianFeatures(torch.linalg.cholesky(kernel), noise=1.0)
        selection = natsel.select("batchbald", belief, k=setting["n_sites"])
        assert selection.total == pytest.approx(expected["joint_bald"], rel=1e-10)
