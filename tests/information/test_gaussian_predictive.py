"""Closed forms of Gaussian EPIG and JEPIG against determinants and golden values; probit BALD against quadrature."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

from golden_values import golden
from natsel import memory_budget
from natsel.information.gaussian_predictive import epig_gaussian, jepig_gaussian, probit_bald, probit_bald_closed

GOLDEN = golden("06-epig")
GOLDEN_PROBIT = GOLDEN["probit_bald"]


def double(values):
    return torch.tensor(values, dtype=torch.float64)


def covariance(seed, count, width=3, noise=0.3):
    features = torch.randn(count, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return features @ features.T + noise * torch.eye(count, dtype=torch.float64)


def by_determinants(whole, first, second):
    """½ (ln det S_aa + ln det S_ee − ln det S), the definition."""
    both = [*first, *second]
    parts = [torch.logdet(whole[part][:, part]) for part in (list(first), list(second), both)]
    return 0.5 * float(parts[0] + parts[1] - parts[2])


def test_golden_pair():
    pair = double(GOLDEN["gaussian_pair"]["inputs"]["predictive_cov"])
    expected = GOLDEN["gaussian_pair"]["expected"]["information"]
    assert float(epig_gaussian(pair[:1, 0], pair[:1, 1:], pair[1:, 1])) == pytest.approx(expected, rel=1e-12)
    assert float(jepig_gaussian(pair[:1, 0], pair[:1, 1:], pair[1:, 1:])) == pytest.approx(expected, rel=1e-12)
    assert float(jepig_gaussian(pair[:1, :1], pair[:1, 1:], pair[1:, 1:])) == pytest.approx(expected, rel=1e-12)


def test_golden_rank_one_latent():
    case = GOLDEN["gaussian_rank_one_latent"]
    whole = double(case["inputs"]["latent_cov_5_5"]) + case["inputs"]["noise"] * torch.eye(5, dtype=torch.float64)
    a, e = case["inputs"]["candidates"], case["inputs"]["targets"]
    variance, cross, other = whole.diagonal()[a], whole[a][:, e], whole[e][:, e]
    expected = case["expected"]
    for column in range(len(e)):
        pairs = epig_gaussian(variance, cross[:, [column]], other.diagonal()[[column]])
        assert pairs.tolist() == pytest.approx([row[column] for row in expected["pairwise"]], rel=1e-10, abs=1e-13)
    assert epig_gaussian(variance, cross, other.diagonal()).tolist() == pytest.approx(expected["epig"], rel=1e-10)
    assert jepig_gaussian(variance, cross, other).tolist() == pytest.approx(expected["jepig"], rel=1e-10)
    assert float(jepig_gaussian(whole[a][:, a], cross, other)) == pytest.approx(expected["batch_jepig"], rel=1e-10)


@settings(deadline=None)
@given(
    seed=st.integers(0, 999),
    candidates=st.integers(1, 4),
    targets=st.integers(1, 5),
    width=st.integers(1, 6),
    scale=st.floats(1e-3, 1e3),
)
def test_both_forms_are_differences_of_determinants(seed, candidates, targets, width, scale):
    whole = covariance(seed, candidates + targets, width)
    a, e = range(candidates), range(candidates, candidates + targets)
    variance, cross, other = whole.diagonal()[: len(a)], whole[: len(a), len(a) :], whole[len(a) :, len(a) :]
    singles = [by_determinants(whole, [n], e) for n in a]
    assert jepig_gaussian(variance, cross, other).tolist() == pytest.approx(singles, abs=1e-10)
    assert float(jepig_gaussian(whole[: len(a), : len(a)], cross, other)) == pytest.approx(
        by_determinants(whole, a, e), abs=1e-10
    )
    pairs = np.array([[by_determinants(whole, [n], [m]) for m in e] for n in a])
    weights = torch.rand(targets, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.01
    found = epig_gaussian(variance, cross, other.diagonal(), weights)
    assert found.tolist() == pytest.approx((pairs @ (weights / weights.sum()).numpy()).tolist(), abs=1e-10)
    rescaled = epig_gaussian(variance * scale**2, cross * scale, other.diagonal(), weights)
    assert rescaled.tolist() == pytest.approx(found.tolist(), rel=1e-9)
    assert bool(
        (epig_gaussian(variance, cross, other.diagonal()) <= jepig_gaussian(variance, cross, other) + 1e-12).all()
    )
    bald = 0.5 * (variance / 0.3).log()
    assert bool((jepig_gaussian(variance, cross, other) <= bald + 1e-10).all())


def test_tiny_correlations_keep_their_digits():
    found = float(epig_gaussian(double([1.0]), double([[1e-11]]), double([1.0])))
    assert found == pytest.approx(0.5e-22, rel=1e-12)
    assert float(jepig_gaussian(double([1.0]), double([[1e-11]]), double([[1.0]]))) == pytest.approx(0.5e-22, rel=1e-12)


def test_float32_is_computed_in_float64():
    whole = covariance(3, 5).float()
    found = epig_gaussian(whole.diagonal()[:2], whole[:2, 2:], whole.diagonal()[2:])
    assert found.dtype == torch.float64
    whole = whole.double()
    assert torch.equal(found, epig_gaussian(whole.diagonal()[:2], whole[:2, 2:], whole.diagonal()[2:]))


def test_chunks_change_nothing():
    whole = covariance(1, 60)
    a, e = whole[:40, :40], whole[40:, 40:]
    big = epig_gaussian(a.diagonal(), whole[:40, 40:], e.diagonal()), jepig_gaussian(a.diagonal(), whole[:40, 40:], e)
    with memory_budget(2000):
        small = (
            epig_gaussian(a.diagonal(), whole[:40, 40:], e.diagonal()),
            jepig_gaussian(a.diagonal(), whole[:40, 40:], e),
        )
    for one, other in zip(big, small, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("correlation", [1.0, 1.01])
def test_labels_that_determine_each_other_are_refused(correlation):
    ones, cross = double([1.0]), double([[correlation]])
    for call in (
        lambda: epig_gaussian(ones, cross, ones),
        lambda: jepig_gaussian(ones, cross, ones[:, None]),
        lambda: jepig_gaussian(ones[:, None], cross, ones[:, None]),
    ):
        with pytest.raises(ValueError, match=r"^covariance: "):
            call()


def test_bad_shapes_and_numbers_are_refused():
    ones = torch.ones(2)
    with pytest.raises(ValueError, match=r"covariance_N_M: found shape \(2, 3\)"):
        epig_gaussian(ones, torch.zeros(2, 3), ones)
    with pytest.raises(ValueError, match="targets: found none"):
        epig_gaussian(ones, torch.zeros(2, 0), torch.ones(0))
    with pytest.raises(ValueError, match="targets: found none"):
        jepig_gaussian(ones, torch.zeros(2, 0), torch.ones(0, 0))
    with pytest.raises(ValueError, match="variance_M: expected positive"):
        epig_gaussian(ones, torch.zeros(2, 2), torch.zeros(2))
    with pytest.raises(ValueError, match="target weights"):
        epig_gaussian(ones, torch.zeros(2, 2), ones, torch.zeros(2))
    with pytest.raises(ValueError, match=r"covariance_ae: found shape \(2, 2\)"):
        jepig_gaussian(ones, torch.zeros(2, 2), ones)
    with pytest.raises(ValueError, match="covariance_ee: not positive definite"):
        jepig_gaussian(ones, torch.zeros(2, 2), torch.ones(2, 2))
    with pytest.raises(ValueError, match="variance: expected finite"):
        probit_bald(torch.zeros(1), -torch.ones(1))


# Probit BALD.


def test_golden_probit():
    mean, variance = double(GOLDEN_PROBIT["inputs"]["mean_variance"]).T
    results = GOLDEN_PROBIT["expected"]["results"]
    exact = [result["exact"] for result in results]
    assert probit_bald(mean, variance).tolist() == pytest.approx(exact, rel=1e-10, abs=1e-15)
    closed = [result["approximation"] for result in results]
    assert probit_bald_closed(mean, variance).tolist() == pytest.approx(closed, rel=1e-10, abs=1e-15)


def test_the_closed_form_is_not_used_for_nearly_certain_points():
    mean, variance = double([-2.0, -2.0, 0.0]), double([0.001, 0.5, 0.0999])
    found = probit_bald(mean, variance, exact=False)
    assert found[[0, 2]].tolist() == probit_bald(mean, variance)[[0, 2]].tolist()
    assert float(found[1]) == float(probit_bald_closed(mean, variance)[1])


def coin(f):
    log_p, log_q = log_ndtr(f), log_ndtr(-f)
    return -(np.exp(log_p) * log_p + np.exp(log_q) * log_q)


@settings(deadline=None)
@given(mean=st.floats(-6, 6), variance=st.floats(1e-4, 200))
def test_probit_bald_is_its_integral(mean, variance):
    scale = math.sqrt(variance)
    edges = sorted({min(max((x - mean) / scale, -10), 10) for x in (-9, -4, -2, 0, 2, 4, 9)} | {-3, 0, 3})
    inside = quad(
        lambda z: norm.pdf(z) * coin(mean + scale * z), -10, 10, points=edges, epsabs=1e-13, epsrel=1e-13, limit=400
    )[0]
    expected = coin(mean / math.sqrt(1 + variance)) - inside
    found = float(probit_bald(double(mean), double(variance)))
    assert found == pytest.approx(expected, abs=2e-12)
    assert 0 <= found <= coin(mean / math.sqrt(1 + variance))
    assert float(probit_bald_closed(double(mean), double(variance))) == pytest.approx(found, abs=2e-3)


def test_small_variance_is_half_the_fisher_information_times_it():
    mean = np.array([-3.0, 0.0, 0.7])
    fisher = norm.pdf(mean) ** 2 / (ndtr(mean) * ndtr(-mean))
    found = probit_bald(double(mean.tolist()), double([1e-9] * 3))
    assert found.tolist() == pytest.approx((0.5e-9 * fisher).tolist(), rel=1e-5)


def test_certain_points_score_nothing_and_extreme_ones_are_finite():
    assert probit_bald(double([0.0, 3.0, -40.0]), double([0.0, 0.0, 0.0])).tolist() == [0.0, 0.0, 0.0]
    extreme = probit_bald(double([60.0, -60.0, 0.0, 30.0]), double([1e-3, 1.0, 1e8, 0.9]))
    assert bool(extreme.isfinite().all())
    assert float(extreme[2]) == pytest.approx(math.log(2), abs=1e-3)
    assert probit_bald(torch.zeros(2, 3), torch.ones(2, 1)).shape == (2, 3)


def test_nothing_is_written_to():
    whole = covariance(5, 6)
    kept = whole.clone()
    epig_gaussian(whole.diagonal()[:2], whole[:2, 2:], whole.diagonal()[2:])
    jepig_gaussian(whole.diagonal()[:2], whole[:2, 2:], whole[2:, 2:])
    jepig_gaussian(whole[:2, :2], whole[:2, 2:], whole[2:, 2:])
    mean, variance = torch.zeros(3, dtype=torch.float64), double([0.01, 0.5, 3.0])
    probit_bald(mean, variance)
    probit_bald(mean, variance, exact=False)
    assert torch.equal(whole, kept)
    assert mean.tolist() == [0, 0, 0]
    assert variance.tolist() == [0.01, 0.5, 3.0]
