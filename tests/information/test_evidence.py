"""The Laplace evidence: golden values, one maximum that is found, and what happens where there is none."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from golden_values import golden
from natsel.information.weights.evidence import LIMITS, evidence_precision, log_evidence
from natsel.information.weights.factors import OuterFactors

CASE = golden("08-fisher")["laplace_evidence"]


def test_golden_values():
    inputs, expected = CASE["inputs"], CASE["expected"]
    weight_C_D, features_T_D = (
        torch.tensor(inputs[name], dtype=torch.float64) for name in ("weight_C_D", "features_train_T_D")
    )
    log_probs_T_C = (features_T_D @ weight_C_D.T).log_softmax(1)
    log_likelihood = float(log_probs_T_C[range(3), inputs["labels_T"]].sum())
    assert log_likelihood == pytest.approx(expected["log_lik"], rel=1e-10)
    fisher_P_P = OuterFactors(features_T_D, log_probs_T_C.exp(), "softmax").fisher()
    found = log_evidence(
        log_likelihood,
        float(weight_C_D.square().sum()),
        torch.linalg.eigvalsh(fisher_P_P),
        inputs["prior_precisions"],
    )
    assert found.tolist() == pytest.approx(expected["evidence"], rel=1e-10)


values = st.lists(st.floats(1e-6, 1e4), min_size=1, max_size=6)


@settings(deadline=None)
@given(values, st.floats(1e-3, 1e3), st.integers(0, 3))
def test_the_best_precision_is_the_top_of_a_grid(eigenvalues, squared_norm, zeros):
    best = evidence_precision([*eigenvalues, *[0.0] * zeros], squared_norm)
    grid = torch.logspace(-8, 8, 2001, dtype=torch.float64)
    top = float(log_evidence(0.0, squared_norm, eigenvalues, best))
    assert top >= float(log_evidence(0.0, squared_norm, eigenvalues, grid).max()) - 1e-9 * abs(top)
    decided = sum(value / (value + best) for value in eigenvalues)
    assert best * squared_norm == pytest.approx(decided, rel=1e-8)


@settings(deadline=None)
@given(values, st.floats(1e-3, 1e3), st.sampled_from([1e-24, 1e-9, 1e-6, 1e6, 1e9, 1e21]))
def test_labels_in_other_units_have_the_same_evidence(eigenvalues, squared_norm, times):
    best = evidence_precision(eigenvalues, squared_norm)
    found = evidence_precision([value / times**2 for value in eigenvalues], squared_norm * times**2)
    assert found * times**2 == pytest.approx(best, rel=1e-8)


def test_zeros_and_tiny_negative_eigenvalues_change_nothing():
    assert evidence_precision([2.0, 1.0], 3.0) == evidence_precision([2.0, 1.0, 0.0, -1e-17], 3.0)


def test_without_curvature_or_weights_it_ends_at_a_limit():
    assert evidence_precision([0.0, 0.0], 1.0) == pytest.approx(LIMITS[0])
    assert evidence_precision([], 1.0) == pytest.approx(LIMITS[0])
    assert evidence_precision([1.0], 0.0) == pytest.approx(LIMITS[1])
    assert evidence_precision([1e-12], 0.0) == pytest.approx(1e-12 * LIMITS[1])
    assert 0 < evidence_precision([1e-30], 1e2) < 1e-15  # weak curvature is curvature
    assert evidence_precision([1e12] * 100, 1e30) > 100 * 1e12 * 2.2e-16  # still a float64 Cholesky away from singular


def test_numbers_that_are_none_are_refused():
    with pytest.raises(ValueError, match="NaN or infinity"):
        evidence_precision([math.nan], 1.0)
    with pytest.raises(ValueError, match="NaN or infinity"):
        evidence_precision([1.0], math.inf)
    with pytest.raises(ValueError, match="expected positive numbers"):
        log_evidence(0.0, 1.0, [1.0], 0.0)
