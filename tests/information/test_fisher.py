"""Information about weights by dense algebra: golden values, identities, tiny and indefinite matrices."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dense_fisher as fisher
from golden_values import golden
from natsel.information.weights.log_det import log_det_one_plus
from natsel.information.weights.positive_definite import NotPositiveDefinite

CASES = golden("08-fisher")


def matrices(seed: int, size: int, count: int = 3) -> list[torch.Tensor]:
    """Positive semi-definite matrices, the first of them definite."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for place in range(count):
        rows = torch.randn(size + 2 if place == 0 else max(1, size - 1), size, generator=generator, dtype=torch.float64)
        found.append(rows.T @ rows)
    return found


def tensors(name: str) -> dict[str, torch.Tensor]:
    return {key: torch.tensor(value, dtype=torch.float64) for key, value in CASES[name]["inputs"].items()}


def test_golden_indefinite_observed_information():
    given_, expected = tensors("indefinite_observed_information"), CASES["indefinite_observed_information"]["expected"]
    both, all_three = (given_["H"], given_["H_A"]), (given_["H"], given_["H_A"], given_["H_E"])
    assert fisher.information_gain(*both) == pytest.approx(expected["ig_logdet"], rel=1e-12)
    assert fisher.information_gain_trace(*both) == pytest.approx(expected["ig_trace"], rel=1e-12)
    assert fisher.joint_predictive_gain(*all_three) == pytest.approx(expected["jpig"], rel=1e-12)
    assert fisher.predictive_residual(*all_three) == pytest.approx(expected["jpig_residual"], rel=1e-12)
    assert fisher.predictive_residual_trace(*all_three) == pytest.approx(expected["jpig_residual_trace"], rel=1e-12)


def test_golden_negative_gain_and_lost_precision():
    given_, expected = tensors("negative_information_gain"), CASES["negative_information_gain"]["expected"]
    assert fisher.information_gain(given_["H"], given_["H_A"]) == pytest.approx(expected["ig_logdet"], rel=1e-12)
    assert fisher.information_gain_trace(given_["H"], given_["H_A"]) == pytest.approx(expected["ig_trace"], rel=1e-12)
    lost = tensors("precision_lost")
    with pytest.raises(NotPositiveDefinite, match=r"^gained_P_P: .*; add a prior precision"):
        fisher.information_gain(lost["H"], lost["H_A"])


def test_sums_that_lose_precision_are_refused():
    one, minus = torch.eye(1), -torch.eye(1)
    for work in (fisher.joint_predictive_gain, fisher.predictive_residual, fisher.predictive_residual_trace):
        with pytest.raises(NotPositiveDefinite):
            work(one, minus, minus)
    with pytest.raises(NotPositiveDefinite):  # exactly singular
        fisher.information_gain(torch.eye(2), -torch.ones(2, 2) / 2)


def test_large_gains_are_no_loss():
    """Rounding beside an eigenvalue of 1e15 is no eigenvalue of −1."""
    gain = fisher.information_gain(torch.eye(2), torch.diag(torch.tensor([1e15, 0.0], dtype=torch.float64)))
    assert gain == pytest.approx(0.5 * math.log(1e15))


def test_golden_entropy_and_newton_step():
    case = CASES["entropy_of_gaussian"]
    precision = torch.tensor(case["inputs"]["precision"], dtype=torch.float64)
    assert fisher.weight_entropy(precision) == pytest.approx(case["expected"]["entropy"], rel=1e-12)
    case = CASES["gaussian_approximation_any_point"]
    inputs = {key: torch.tensor(value, dtype=torch.float64) for key, value in case["inputs"].items()}
    mean, covariance = fisher.gaussian_approximation(inputs["expansion_point"], inputs["gradient"], inputs["hessian"])
    np.testing.assert_allclose(mean, case["expected"]["mean"], rtol=1e-12)
    np.testing.assert_allclose(covariance, case["expected"]["cov"], rtol=1e-12)


def test_golden_observed_information_of_a_predicted_variance():
    """A head of mean and log-variance is no generalised linear model: what a label tells depends on the label."""
    case = CASES["gaussian_mean_logvar"]
    prior = torch.eye(2, dtype=torch.float64)
    gains = [
        fisher.information_gain(prior, torch.tensor(observed, dtype=torch.float64))
        for observed in case["expected"]["observed"]
        if torch.linalg.eigvalsh(prior + torch.tensor(observed, dtype=torch.float64)).min() > 0
    ]
    expected = fisher.information_gain(prior, torch.tensor(case["expected"]["fisher"], dtype=torch.float64))
    assert all(abs(gain - expected) > 1e-2 for gain in gains)


@settings(deadline=None)
@given(seed=st.integers(0, 2**31), size=st.integers(1, 6))
def test_identities_and_inequalities(seed, size):
    precision, gained, target = matrices(seed, size)
    gain, joint = fisher.information_gain(precision, gained), fisher.joint_predictive_gain(precision, gained, target)
    logdets = [float(torch.logdet(m)) for m in (precision, precision + gained, precision + target)]
    logdets.append(float(torch.logdet(precision + gained + target)))
    assert gain == pytest.approx(0.5 * (logdets[1] - logdets[0]), abs=1e-9)
    assert joint == pytest.approx(0.5 * (logdets[1] - logdets[0] - logdets[3] + logdets[2]), abs=1e-8)
    residual = fisher.predictive_residual(precision, gained, target)
    assert joint == pytest.approx(fisher.information_gain(precision, target) - residual, abs=1e-8)
    assert joint == pytest.approx(fisher.joint_predictive_gain(precision, target, gained), abs=1e-8), "symmetric"
    assert -1e-9 <= joint <= gain + 1e-9
    assert gain <= fisher.information_gain_trace(precision, gained) + 1e-12
    assert residual <= fisher.predictive_residual_trace(precision, gained, target) + 1e-12
    assert joint <= fisher.joint_predictive_gain_trace(precision, gained, target) + 1e-9
    entropies = [fisher.weight_entropy(matrix) for matrix in (precision, precision + gained)]
    assert gain == pytest.approx(entropies[0] - entropies[1], abs=1e-9)


def test_without_the_identity_the_targets_drop_out():
    """BAIT by determinants: ln det(F_E (F_A + H)⁻¹) orders sets as ln det(F_A + H), whatever F_E is.

    docs/theory/weight-space.md, 9.3.
    """
    precision, target = matrices(3, 4, 1)[0], matrices(8, 4, 1)[0]
    sets = [matrices(seed, 4, 2)[1] for seed in range(20)]
    without = [float(torch.logdet(target) - torch.logdet(precision + gained)) for gained in sets]
    with_identity = [fisher.predictive_residual(precision, gained, target) for gained in sets]
    gains = [fisher.information_gain(precision, gained) for gained in sets]
    assert np.argsort(without).tolist() == np.argsort(gains)[::-1].tolist()
    assert np.argsort(with_identity).tolist() != np.argsort(gains)[::-1].tolist()


# ln det(I + K).


@settings(deadline=None)
@given(seed=st.integers(0, 2**31), size=st.sampled_from([1, 2, 3, 7, 12, 13, 20]), power=st.integers(-6, 2))
def test_log_determinants_of_one_plus(seed, size, power):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(5, size, 3, generator=generator, dtype=torch.float64) * 10.0**power
    blocks = rows @ rows.mT
    expected = (torch.linalg.svdvals(rows) ** 2).log1p().sum(1)
    torch.testing.assert_close(log_det_one_plus(blocks), expected, rtol=1e-9, atol=1e-12)
    shrunk = blocks / (2 * blocks.diagonal(dim1=1, dim2=2).sum(1)[:, None, None])
    values = torch.linalg.eigvalsh(shrunk)
    torch.testing.assert_close(log_det_one_plus(-shrunk), (-values).log1p().sum(1), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [1, 3, 12, 13, 40])
@pytest.mark.parametrize("scale", [1e-300, 1e-40, 1e-26, 1e-12, 1e-6, 2e-5])
def test_tiny_blocks_keep_their_digits(size, scale):
    rows = torch.randn(4, size, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    blocks = rows @ rows.mT
    blocks = scale * blocks / blocks.diagonal(dim1=1, dim2=2).sum(1)[:, None, None]
    values = torch.linalg.svdvals(rows) ** 2
    expected = (scale * values / values.sum(1, keepdim=True)).log1p().sum(1)
    torch.testing.assert_close(log_det_one_plus(blocks), expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("size", [1, 5, 20])
def test_rounding_below_minus_one_stays_a_number(size):
    blocks = -(1 + 1e-13) * torch.eye(size, dtype=torch.float64)[None]
    found = log_det_one_plus(blocks)
    assert found.isfinite().all()
    assert float(found) < -20 * size


def test_no_blocks_and_no_rows():
    assert log_det_one_plus(torch.zeros(0, 3, 3)).shape == (0,)
    assert log_det_one_plus(torch.zeros(2, 0, 0)).tolist() == [0.0, 0.0]


def test_the_scaling_of_bait_s_authors():
    train = torch.diag(torch.tensor([30.0, 60.0]))
    precision, scale = fisher.reference_scaling(train, labelled=30, batch=10, prior_precision=0.1)
    expected = torch.diag(torch.tensor([30 / 30, 60 / 30], dtype=torch.float64)) * 30 / 40
    torch.testing.assert_close(precision, expected + 0.1 * torch.eye(2, dtype=torch.float64))
    assert scale == pytest.approx(math.sqrt(10 / 40))
    with pytest.raises(ValueError, match=r"^labelled: expected counts of at least 1, found 0 and 3; "):
        fisher.reference_scaling(train, labelled=0, batch=3)
