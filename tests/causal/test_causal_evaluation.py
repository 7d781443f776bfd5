"""How good effects are: golden values, identities, and which points were acquired."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import natsel
from golden_values import golden
from natsel.causal import (
    ate_error,
    causal_synthetic,
    overlap_of,
    pehe,
    policy_risk,
    positivity,
    sign_error_rate,
    with_treatment,
)

VALUES = arrays(np.float64, 6, elements=st.floats(-50, 50))


BELIEF = natsel.PotentialOutcomes([[0.0, 1.0]], [[1.0, 3.0]], [1])


def test_pehe_has_its_golden_values():
    case = golden("10-causal")["pehe"]
    inputs, outputs = case["inputs"], case["outputs"]
    mean0_N_K, mean1_N_K = (torch.tensor(inputs[name], dtype=torch.float64) for name in ("mu0_N_K", "mu1_N_K"))
    effect_N = (mean1_N_K - mean0_N_K).mean(1)
    assert pehe(effect_N, inputs["tau_N"]) == pytest.approx(outputs["sqrt_pehe"], rel=1e-9)
    scaled = pehe(effect_N, inputs["tau_N"], outcome_scale=inputs["y_std"])
    assert scaled == pytest.approx(outputs["sqrt_pehe_y_std"], rel=1e-9)


@settings(deadline=None)
@given(VALUES, VALUES, VALUES, VALUES, st.floats(-9, 9))
def test_pehe_is_a_distance_between_effects(mean0_N, mean1_N, common_N, true_N, offset):
    effect_N = mean1_N - mean0_N
    assert pehe(effect_N, effect_N) == 0
    assert pehe(effect_N + offset, effect_N) == pytest.approx(abs(offset), abs=1e-9)
    assert pehe(effect_N, true_N) >= ate_error(effect_N, true_N) - 1e-9 >= -1e-9
    both = (mean1_N + common_N) - (mean0_N + common_N)
    assert pehe(both, true_N) == pytest.approx(pehe(effect_N, true_N), abs=1e-9)


@settings(deadline=None)
@given(VALUES, VALUES, VALUES)
def test_the_risk_of_a_policy_comes_from_wrong_signs_alone(effect_N, mean0_N, mean1_N):
    true_N = mean1_N - mean0_N
    assert policy_risk(true_N, mean0_N, mean1_N) == 0
    assert sign_error_rate(true_N, true_N) == 0
    treated_N = effect_N > 0
    expected = np.abs(true_N)[treated_N != (true_N > 0)].sum() / len(true_N)
    assert policy_risk(effect_N, mean0_N, mean1_N) == pytest.approx(expected, abs=1e-9)
    mirrored = policy_risk(-effect_N, -mean0_N, -mean1_N, higher_is_better=False)
    assert mirrored == pytest.approx(expected, abs=1e-9)


def test_signs_of_effects_that_are_zero():
    assert sign_error_rate([0.0, 2.0], [1.0, 0.0]) == 1.0  # no effect said where there is one; the other does not count
    assert sign_error_rate([1.0], [0.0]) == 0.0


def test_overlap_of_points_by_hand():
    x_N = np.array([-1.9, -1.9, 0.1, 1.9, 7.0])  # the last is outside the histogram
    found = overlap_of(with_treatment(x_N, [0, 0, 0, 1, 1]), [0.2, 0.2, 0.5, 0.9, 1.0], bins=4)
    assert found.counterfactual_propensity == pytest.approx((0.2 + 0.2 + 0.5 + 0.1 + 0.0) / 5)
    assert found.distance == pytest.approx((1.9 + 7.0) / 2 + (1.9 + 1.9 - 0.1) / 3)
    assert found.entropy == pytest.approx((0.5 * math.log(2) + 2 * 0.25 * math.log(4)) / math.log(4))
    doubled = overlap_of(with_treatment(np.stack([x_N, 0 * x_N], axis=1), [0, 0, 0, 1, 1]), [0.5] * 5, bins=4)
    assert doubled.distance == pytest.approx(found.distance / 2)
    assert doubled.entropy == pytest.approx(found.entropy / 2)


def test_overlap_of_one_arm_or_of_points_elsewhere_is_unknown():
    found = overlap_of([[9.0, 1.0], [8.0, 1.0]], [0.5, 0.5], treatment=-1)
    assert math.isnan(found.distance)
    assert math.isnan(found.entropy)


def test_random_points_of_the_synthetic_set_have_the_published_overlap():
    found = causal_synthetic()
    overlap = overlap_of(found.pool.inputs, found.pool.masks["propensity"])
    assert overlap.counterfactual_propensity == pytest.approx(0.299, abs=0.01)
    assert overlap.distance == pytest.approx(1.20, abs=0.05)
    assert overlap.entropy == pytest.approx(0.95, abs=0.01)


def test_points_without_overlap_are_marked_and_told():
    with pytest.warns(UserWarning, match=r"^50\.0% of 4 points have a propensity outside \[0\.05, 0\.95\]"):
        assert positivity([0.04, 0.05, 0.95, 0.97]).tolist() == [False, True, True, False]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert positivity(torch.tensor([0.3, 0.7])).all()
    found = causal_synthetic(pool=2000)
    with pytest.warns(UserWarning, match="leave them out"):
        estimated_N = positivity(found.pool.inputs)  # the true propensity is a logistic regression
    with pytest.warns(UserWarning, match="leave them out"):
        true_N = positivity(found.pool.masks["propensity"])
    assert (estimated_N == true_N).mean() > 0.95


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pehe([1.0], [1.0, 2.0]), "effect_N: expected one for each of 2 of true_effect_N, found 1; pass"),
        (lambda: pehe([[1.0]], [1.0]), r"effect_N: expected one number per point, found shape \(1, 1\); pass"),
        (lambda: pehe([], []), r"effect_N: expected one number per point, found shape \(0,\); pass"),
        (lambda: ate_error([np.nan], [1.0]), "effect_N: found NaN or infinity; look for"),
        (lambda: pehe([1.0], [1.0], outcome_scale=0), "outcome_scale: expected a deviation above 0, found 0;"),
        (
            lambda: overlap_of([[1.0, 0.0]], [1.5], treatment=-1),
            "propensity_N: expected probabilities from 0 to 1, found others;",
        ),
        (lambda: overlap_of([[1.0, 0.0]], [0.5], bins=1), "support: expected"),
        (
            lambda: overlap_of([[np.nan, 0], [1, 1]], [0.2, 0.5], treatment=-1),
            "inputs: found NaN or infinity among the features;",
        ),
        (lambda: pehe(["a"], [1.0]), "effect_N: expected real numbers, found a list without them; pass one"),
        (lambda: pehe([1j], [1.0]), "effect_N: expected real numbers"),
        (lambda: pehe(BELIEF, [1.0]), "effect_N: expected real numbers, .*; pass belief.effect_N"),
        (lambda: pehe([1.0], [1.0], outcome_scale="a"), "outcome_scale: expected a deviation above 0, found a;"),
        (lambda: positivity([0.5, np.nan]), "propensity_or_inputs: found NaN"),
        (lambda: positivity([0.5], lowest=0.5), "lowest: expected a probability between 0 and 0.5, found 0.5;"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()
