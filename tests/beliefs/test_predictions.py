"""What beliefs predict, against brute force: sums over draws, and distribution functions from SciPy."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from natsel.beliefs import (
    CategoricalSamples,
    ClassProbabilities,
    FisherFactors,
    FisherRows,
    GaussianFeatures,
    GaussianSamples,
)
from natsel.beliefs.two_models import TwoModels
from natsel.information.mixture_quantiles import lower_quantile
from natsel.memory import memory_budget

RNG = np.random.default_rng(0)
WEIGHTS_K = np.array([0.5, 0.2, 0.3])
PROBS_N_K_C = RNG.dirichlet(np.ones(4), size=(7, 3))
MEAN_N_K, VARIANCE_N_K = RNG.normal(scale=3, size=(6, 3)), RNG.uniform(0.1, 2, size=(6, 3))


def test_class_probabilities_are_the_weighted_mean_over_draws():
    belief = CategoricalSamples.from_probs(PROBS_N_K_C, np.log(WEIGHTS_K))
    expected_N_C = np.array([[sum(WEIGHTS_K * point[:, c]) for c in range(4)] for point in PROBS_N_K_C])
    np.testing.assert_allclose(belief.predict_proba().numpy(), expected_N_C, rtol=1e-12)
    assert belief.predict_proba().dtype == torch.float64
    np.testing.assert_array_equal(belief.predict().numpy(), expected_N_C.argmax(1))
    # Weights decide: the plain mean would give another class somewhere.
    assert (PROBS_N_K_C.mean(1).argmax(1) != expected_N_C.argmax(1)).any()


def test_beliefs_that_can_be_seen_as_class_probabilities_predict_as_these_do():
    probs_N_C = PROBS_N_K_C[:, 0]
    plain = ClassProbabilities.from_probs(probs_N_C)
    draws = CategoricalSamples.from_probs(PROBS_N_K_C[:, :1])
    for belief in (plain, FisherFactors.categorical(np.ones((7, 2)), probs_N_C), draws, TwoModels.of(draws, [draws])):
        np.testing.assert_allclose(belief.predict_proba().numpy(), probs_N_C, rtol=1e-12)
        np.testing.assert_array_equal(belief.predict().numpy(), probs_N_C.argmax(1))


def test_a_class_without_probability_keeps_none_and_rows_sum_to_one_in_single_precision():
    belief = CategoricalSamples.from_probs(torch.tensor([[[0.0, 0.3, 0.7], [0.0, 0.1, 0.9]]], dtype=torch.float32))
    found_C = belief.predict_proba()[0]
    assert found_C[0] == 0
    assert abs(float(found_C.sum()) - 1) < 1e-15


def test_moments_of_gaussian_draws_are_those_of_the_mixture():
    belief = GaussianSamples(MEAN_N_K, VARIANCE_N_K, np.log(WEIGHTS_K))
    mean_N = np.array([sum(WEIGHTS_K * row) for row in MEAN_N_K])
    second_N = ((VARIANCE_N_K + MEAN_N_K**2) * WEIGHTS_K).sum(1)  # E[y²]
    np.testing.assert_allclose(belief.mean.numpy(), mean_N, rtol=1e-12)
    np.testing.assert_allclose(belief.predict().numpy(), mean_N, rtol=1e-12)
    np.testing.assert_allclose(belief.std.numpy(), np.sqrt(second_N - mean_N**2), rtol=1e-9)


@pytest.mark.parametrize("level", [0.01, 0.5, 0.9, 1 - 1e-9])
def test_an_interval_of_gaussian_draws_leaves_equal_tails_of_the_mixture(level):
    belief = GaussianSamples(MEAN_N_K, VARIANCE_N_K, np.log(WEIGHTS_K))
    lower_N, upper_N = (end.numpy()[:, None] for end in belief.interval(level))
    below_N = (norm.cdf(lower_N, MEAN_N_K, np.sqrt(VARIANCE_N_K)) * WEIGHTS_K).sum(1)
    above_N = (norm.sf(upper_N, MEAN_N_K, np.sqrt(VARIANCE_N_K)) * WEIGHTS_K).sum(1)
    np.testing.assert_allclose(below_N, (1 - level) / 2, rtol=1e-9)
    np.testing.assert_allclose(above_N, (1 - level) / 2, rtol=1e-9)


def test_an_interval_finds_the_gap_between_two_draws_and_skips_draws_without_weight():
    two = GaussianSamples([[-1000.0, 1000.0, 1e9]], 1e-6, np.log([0.25, 0.75, 1e-300]))
    lower, upper = two.interval(0.4)  # 30 % below, 30 % above: both within the second draw
    assert (lower.item(), upper.item()) == pytest.approx(
        tuple(norm.ppf([0.05 / 0.75, 0.45 / 0.75], 1000, 1e-3)), rel=1e-12
    )
    none = lower_quantile(torch.tensor([[0.0, 1e12]]), torch.ones(1, 2), torch.tensor([1.0, 0.0]), 0.5)
    assert none.tolist() == [0.0]


def test_points_that_are_jointly_gaussian_have_their_own_variance_and_noise():
    features_N_D, noise_N = RNG.normal(size=(5, 3)), RNG.uniform(0.5, 1, size=5)
    belief = GaussianFeatures(features_N_D, noise_N, mean=np.arange(5.0))
    std_N = np.sqrt(np.diag(features_N_D @ features_N_D.T) + noise_N)
    np.testing.assert_allclose(belief.std.numpy(), std_N, rtol=1e-12)
    lower_N, upper_N = belief.interval(0.8)
    np.testing.assert_allclose(lower_N.numpy(), norm.ppf(0.1, np.arange(5.0), std_N), rtol=1e-10)
    np.testing.assert_allclose(upper_N.numpy(), norm.ppf(0.9, np.arange(5.0), std_N), rtol=1e-10)
    np.testing.assert_array_equal(belief.predict().numpy(), np.arange(5.0))


def test_predictions_keep_to_the_memory_budget_and_come_out_the_same():
    belief = GaussianSamples(MEAN_N_K, VARIANCE_N_K)
    whole = (belief.mean, belief.std, *belief.interval())
    with memory_budget(500):
        parts = (belief.mean, belief.std, *belief.interval())
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)


def test_beliefs_about_no_points_predict_nothing():
    assert GaussianSamples(np.zeros((0, 3)), np.ones((0, 3))).interval()[1].tolist() == []
    assert CategoricalSamples.from_probs(np.zeros((0, 3, 2))).predict_proba().shape == (0, 2)


@pytest.mark.parametrize("name", ["predict", "predict_proba", "mean", "std", "interval"])
def test_a_belief_that_cannot_answer_says_so_in_one_sentence(name):
    beliefs = [FisherRows([[[1.0]]]), FisherFactors.gaussian([[1.0]])]
    about_classes, about_numbers = CategoricalSamples.from_probs([[[1.0]]]), GaussianSamples([[1.0]], 1.0)
    beliefs += {"predict": [], "predict_proba": [about_numbers, about_numbers.features()]}.get(name, [about_classes])
    for belief in beliefs:
        with pytest.raises(ValueError, match=rf"^{name}: [^;.]*; \S.*[^.]$"):
            getattr(type(belief), name).fget(belief) if name in ("mean", "std") else getattr(belief, name)()


@pytest.mark.parametrize("level", [0, 1, 90, -0.5, float("nan"), "all"])
def test_levels_that_are_no_share_are_refused(level):
    for belief in (GaussianSamples([[1.0]], 1.0), GaussianFeatures([[1.0]])):
        with pytest.raises(ValueError, match=r"level: expected a share above 0 and below 1, found .*; 0\.9 is 90 %"):
            belief.interval(level)
