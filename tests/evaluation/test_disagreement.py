"""Disagreement and errors without labels: golden values, and identities of docs/theory/calibration.md, 1, 2 and 7."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from golden_values import golden, logs, random_draws
from natsel.evaluation import (
    atc_error,
    atc_threshold,
    disagreement_error,
    disagreement_gap,
    disagreement_rate,
    doctor_alpha,
    doctor_beta,
    member_sampling_errors,
    one_hot_members,
    pairwise_disagreement,
    predicted_error,
    sampling_error,
)
from natsel.information import (
    linear_entropy,
    linear_mutual_information,
    log_mean,
    mutual_information,
    predictive_entropy,
)

CASES = golden("12-disagreement")
seeds = st.integers(0, 10_000)


@pytest.mark.parametrize("name", ["disagreement", "disagreement_weighted", "disagreement_top"])
def test_golden_disagreement(name):
    inputs, expected = CASES[name]["inputs"], CASES[name]["outputs"]
    log_probs_N_K_C, log_weights_K = logs(inputs["probs_N_K_C"]), logs(inputs.get("weights_K"))
    assert disagreement_error(log_probs_N_K_C, log_weights_K) == pytest.approx(expected["dis_V"])
    assert disagreement_error(log_probs_N_K_C, log_weights_K, "U") == pytest.approx(expected["dis_U"])
    pairs_K_K = np.array(expected["pairwise_K_K"])
    assert np.allclose(pairwise_disagreement(log_probs_N_K_C), pairs_K_K, rtol=0, atol=1e-14)
    information = float(linear_mutual_information(log_probs_N_K_C, log_weights_K).mean())
    assert information == pytest.approx(expected["linear_mi_mean"])
    labels_N = inputs["labels_N"]
    assert member_sampling_errors(log_probs_N_K_C, labels_N).tolist() == pytest.approx(expected["test_error_K"])
    found = disagreement_gap(log_mean(log_probs_N_K_C, log_weights_K).exp(), labels_N)
    assert found.sampling_error == pytest.approx(expected["expected_test_error"])
    assert found.gap == pytest.approx(expected["gde_gap"])


def test_golden_projection():
    members, projected = (logs(CASES[name]["inputs"]["probs_N_K_C"]) for name in ("disagreement", "disagreement_top"))
    assert torch.equal(one_hot_members(members), projected)


def test_golden_linear_quantities():
    inputs, expected = CASES["linear"]["inputs"], CASES["linear"]["outputs"]
    log_probs_N_K_C = logs(inputs["probs_N_K_C"])
    assert linear_entropy(log_mean(log_probs_N_K_C)).tolist() == pytest.approx(expected["linear_entropy"])
    assert linear_mutual_information(log_probs_N_K_C).tolist() == pytest.approx(expected["linear_mi"])


def test_golden_worked_example():
    """Truth A with 0.7, and a model that says A with 0.2."""
    expected = CASES["worked_example"]["outputs"]
    probs_N_C, labels_N = np.tile([0.2, 0.8], (10, 1)), [0] * 7 + [1] * 3
    assert sampling_error(probs_N_C, labels_N) == pytest.approx(1 - expected["sampling_accuracy"])
    assert predicted_error(probs_N_C) == pytest.approx(1 - expected["predicted_accuracy"])
    assert doctor_beta(probs_N_C)[0].item() == pytest.approx(1 - expected["top1_confidence"])


@pytest.mark.parametrize("name", ["atc", "atc_all_wrong"])
def test_golden_atc(name):
    inputs, expected = CASES[name]["inputs"], CASES[name]["outputs"]
    threshold = atc_threshold(inputs["scores_val"], inputs["correct_val"])
    assert threshold == expected["threshold"]
    assert atc_error(inputs["scores_target"], threshold) == pytest.approx(expected["predicted_error"])


@settings(deadline=None)
@given(seeds, st.booleans(), st.booleans())
def test_identities(seed, weighted, projected):
    log_probs_N_K_C, log_weights_K = random_draws(seed, points=5, draws=4, classes=3, weighted=weighted)
    if projected:
        log_probs_N_K_C = one_hot_members(log_probs_N_K_C)
    probs_N_C = log_mean(log_probs_N_K_C, log_weights_K).exp()
    weights_K = log_weights_K.exp()
    every_N = disagreement_rate(log_probs_N_K_C, log_weights_K)
    distinct_N = disagreement_rate(log_probs_N_K_C, log_weights_K, "U")
    information_N = linear_mutual_information(log_probs_N_K_C, log_weights_K)

    # Pairs of draws, counted one by one.
    pairs_K_K = pairwise_disagreement(log_probs_N_K_C)
    weight_K_K = weights_K[:, None] * weights_K
    assert torch.allclose(pairs_K_K, pairs_K_K.T, rtol=0, atol=1e-12)
    assert float(every_N.mean()) == pytest.approx(float((pairs_K_K * weight_K_K).sum()), abs=1e-12)
    apart_K_K = weight_K_K * (1 - torch.eye(4))
    assert float(distinct_N.mean()) == pytest.approx(float((pairs_K_K * apart_K_K).sum() / apart_K_K.sum()), abs=1e-12)
    if not weighted:
        assert torch.allclose(distinct_N - every_N, information_N / 3, rtol=0, atol=1e-12)

    assert torch.allclose(every_N, 1 - probs_N_C.square().sum(-1), rtol=0, atol=1e-12)
    assert torch.allclose(doctor_alpha(probs_N_C), every_N, rtol=0, atol=1e-12)
    assert predicted_error(probs_N_C) == pytest.approx(float(every_N.mean()), abs=1e-12)
    member_N_K = linear_entropy(log_probs_N_K_C)
    assert torch.allclose(information_N, every_N - member_N_K @ weights_K, rtol=0, atol=1e-12)
    assert bool((information_N <= mutual_information(log_probs_N_K_C, log_weights_K) + 1e-12).all())
    assert bool((every_N <= predictive_entropy(log_probs_N_K_C, log_weights_K) + 1e-12).all())
    if projected:
        assert torch.allclose(information_N, every_N, rtol=0, atol=1e-12)
        assert bool((pairs_K_K.diagonal() == 0).all())

    # Errors are linear in the draws, and bounded by the log loss.
    labels_N = torch.arange(5) % 3
    error = sampling_error(probs_N_C, labels_N)
    assert float(member_sampling_errors(log_probs_N_K_C, labels_N) @ weights_K) == pytest.approx(error, abs=1e-12)
    loss = -float(probs_N_C.gather(1, labels_N[:, None]).log().mean())
    assert error <= 1 - math.exp(-loss) + 1e-12
    if projected and not weighted:
        found = disagreement_gap(probs_N_C, labels_N, levels=4)
        assert found.gap <= found.bound + 1e-12
        assert found.bound == found.cace.value / 2


def test_chunks_and_float32_change_nothing():
    log_probs_N_K_C, log_weights_K = random_draws(1, points=30, draws=5, classes=4)
    whole_N = disagreement_rate(log_probs_N_K_C, log_weights_K, "U")
    pairs_K_K = pairwise_disagreement(log_probs_N_K_C)
    with natsel.memory_budget(2000):
        assert torch.allclose(disagreement_rate(log_probs_N_K_C, log_weights_K, "U"), whole_N, rtol=0, atol=1e-14)
        assert torch.allclose(pairwise_disagreement(log_probs_N_K_C), pairs_K_K, rtol=0, atol=1e-14)
    narrow_N = disagreement_rate(log_probs_N_K_C.float(), log_weights_K, "U")
    assert narrow_N.dtype == torch.float64
    assert torch.allclose(narrow_N, whole_N, rtol=0, atol=1e-6)


def test_tiny_chances_keep_their_digits():
    sure_N_C = torch.tensor([[1.0, 1e-20], [1.0, 2e-20]], dtype=torch.float64)
    assert doctor_alpha(sure_N_C).tolist() == pytest.approx([2e-20, 4e-20], rel=1e-12, abs=0)
    assert doctor_beta(sure_N_C).tolist() == pytest.approx([1e-20, 2e-20], rel=1e-12, abs=0)
    assert disagreement_rate(sure_N_C[:, None].log()).tolist() == pytest.approx([2e-20, 4e-20], rel=1e-12, abs=0)


def test_atc_reproduces_the_error_of_data_like_the_validation_data():
    rng = np.random.default_rng(0)
    probs_N_C = rng.dirichlet(np.full(4, 0.4), size=20_000)
    labels_N = (rng.random((20_000, 1)) > probs_N_C.cumsum(1)).sum(1).clip(max=3)
    correct_N, score_N = probs_N_C.argmax(1) == labels_N, probs_N_C.max(1)
    threshold = atc_threshold(score_N[:10_000], correct_N[:10_000])
    assert atc_error(score_N[:10_000], threshold) == pytest.approx(1 - correct_N[:10_000].mean())
    assert atc_error(score_N[10_000:], threshold) == pytest.approx(1 - correct_N[10_000:].mean(), abs=0.02)
    assert float(doctor_beta(probs_N_C).mean()) == pytest.approx(1 - correct_N.mean(), abs=0.01)


def test_what_cannot_be_compared_is_refused():
    probs_1_1_2 = torch.tensor([[[0.5, 0.5]]])
    with pytest.raises(ValueError, match="one with all the weight"):
        disagreement_rate(probs_1_1_2.log(), statistic="U")
    with pytest.raises(ValueError, match="expected 'V' or 'U'"):
        disagreement_rate(probs_1_1_2.log(), statistic="W")
    for function in (disagreement_rate, pairwise_disagreement, one_hot_members):
        with pytest.raises(ValueError, match=r"expected log probabilities, found 0\.5"):
            function(probs_1_1_2)
        with pytest.raises(ValueError, match="found no points"):
            function(probs_1_1_2[:0])
        with pytest.raises(ValueError, match="points x draws x classes"):
            function(probs_1_1_2[0])
    with pytest.raises(ValueError, match="true or false for each of 2 scores"):
        atc_threshold([0.1, 0.2], [True])
    with pytest.raises(ValueError, match="true or false"):
        atc_threshold([0.1, 0.2], [0.3, 1])
    with pytest.raises(ValueError, match="NaN at point 1"):
        atc_error([0.1, math.nan], 0.5)


def test_arrays_are_read_and_what_is_not_normalised_is_refused():
    log_probs_N_K_C, log_weights_K = random_draws(3, 4, 3, 3, zeros=False)
    expected_N = disagreement_rate(log_probs_N_K_C, log_weights_K, "U")
    found_N = disagreement_rate(log_probs_N_K_C.numpy(), log_weights_K.tolist(), "U")
    torch.testing.assert_close(found_N, expected_N)
    with pytest.raises(ValueError, match="rows must sum to 1"):
        disagreement_rate(log_probs_N_K_C - 3)  # logits that are all negative
    with pytest.raises(ValueError, match="log_weights_K: found NaN"):
        disagreement_rate(log_probs_N_K_C, torch.full((3,), -math.inf))
    with pytest.raises(ValueError, match="threshold: expected a number, found nan"):
        atc_error([0.5], math.nan)
    with pytest.raises(ValueError, match="labels_N: expected numbers"):
        sampling_error([[0.5, 0.5]], ["cat"])
    assert sampling_error(np.array([[0.25, 0.75], [1.0, 0.0]])[::-1], np.array([0, 0])[::-1]) == 0.375
