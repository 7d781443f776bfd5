"""The Dirichlet model of ensemble members: golden values, the two forms of every moment, limits, fits and draws."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

import natsel
from golden_values import golden
from natsel import information as info
from natsel.information.dirichlet_fits import (
    CERTAIN,
    LARGEST,
    OK,
    ONE_HOT,
    OUT_OF_REACH,
    POINT_MASS,
    SMALLEST,
)

GOLDEN = golden("11-dirichlet")
MOMENTS = {
    "expected_entropy": info.dirichlet_expected_entropy,
    "entropy_variance": info.dirichlet_entropy_variance,
    "mutual_information": info.dirichlet_mutual_information,
}
ZETA_2, ZETA_3 = math.pi**2 / 6, 1.2020569031595942


def of_kind(kind):
    return [pytest.param(case["inputs"], case["outputs"], id=name) for name, case in GOLDEN.items() if kind in name]


def numbers(values):
    return torch.tensor(values, dtype=torch.float64)


def means(seed, points, classes, spread=2.0):
    generator = torch.Generator().manual_seed(seed)
    return (spread * torch.randn(points, classes, generator=generator, dtype=torch.float64)).softmax(-1)


def split(alpha_C):
    alpha_C = numbers(alpha_C)
    return (alpha_C / alpha_C.sum())[None], alpha_C.sum()[None]


def entropy(mean_N_C):
    return torch.special.entr(mean_N_C).sum(-1)


seeds = st.integers(0, 10**6)
sizes = st.integers(2, 9)
logs = st.floats(-3, 5)  # of concentrations, to the base of 10


# Golden values.


@pytest.mark.parametrize(("inputs", "outputs"), of_kind("moments"))
def test_moments(inputs, outputs):
    mean_1_C, a0_1 = split(inputs["alpha_C"])
    for name, moment in MOMENTS.items():
        assert moment(mean_1_C, a0_1).item() == pytest.approx(outputs[name], rel=1e-13), name
    spread = (mean_1_C * (1 - mean_1_C)).sum() / (a0_1 + 1)
    assert spread.item() == pytest.approx(outputs["total_variance"], rel=1e-12)


@pytest.mark.parametrize(("inputs", "outputs"), of_kind("inverse"))
def test_the_concentration_of_a_mutual_information(inputs, outputs):
    mean_1_C, information_1 = numbers([inputs["mean_C"]]), numbers([inputs["mutual_information"]])
    a0_1, flag_1 = info.dirichlet_concentration(mean_1_C, information_1)
    assert flag_1.item() == OK
    assert a0_1.item() == pytest.approx(outputs["a0"], rel=1e-12)
    variance = info.dirichlet_entropy_variance(mean_1_C, a0_1).item()
    assert math.sqrt(variance) == pytest.approx(outputs["entropy_sd"], rel=1e-12)
    assert math.sqrt(variance + information_1.item() ** 2) == pytest.approx(outputs["rmse"], rel=1e-12)


@pytest.mark.parametrize(("inputs", "outputs"), of_kind("log_covariance"))
def test_covariances_of_powers_times_logs(inputs, outputs):
    alpha_C, i, n, j, m = (inputs[name] for name in ("alpha_C", "i", "n", "j", "m"))
    assert info.dirichlet_log_covariance(numbers(alpha_C), i, n, j, m).item() == pytest.approx(
        outputs["cov"], rel=1e-12
    )


# Two ways to the same moments.


def variance_by_pairs(alpha_C):
    """The theorem as it is written, with sums over pairs of classes."""
    a0 = alpha_C.sum()
    psi, psi1 = torch.digamma, lambda x: torch.special.zeta(numbers(2.0), x)
    same_C = psi1(alpha_C + 2) - psi1(a0 + 2) + (psi(alpha_C + 2) - psi(a0 + 2)).square()
    apart_C = psi(alpha_C + 1) - psi(a0 + 2)
    pairs_C_C = (apart_C[:, None] * apart_C - psi1(a0 + 2)) * alpha_C[:, None] * alpha_C
    pairs = pairs_C_C.sum() - pairs_C_C.diagonal().sum()
    second = ((alpha_C * (alpha_C + 1) * same_C).sum() + pairs) / (a0 * (a0 + 1))
    return (second - (alpha_C / a0 * (psi(alpha_C + 1) - psi(a0 + 1))).sum().square()).item()


@given(seeds, sizes, st.floats(-2, 2))
@settings(max_examples=8, deadline=None)
def test_the_form_without_cancellation_is_the_theorem_and_the_sum_of_covariances(seed, classes, log):
    alpha_C = means(seed, 1, classes)[0] * 10**log
    found = info.dirichlet_entropy_variance(*split(alpha_C.tolist())).item()
    assert found == pytest.approx(variance_by_pairs(alpha_C), abs=1e-10)
    pairs = [info.dirichlet_log_covariance(alpha_C, i, 1, j, 1).item() for i in range(classes) for j in range(classes)]
    assert found == pytest.approx(sum(pairs), abs=1e-10)


def test_log_moments_without_powers_are_those_of_logs():
    alpha_C, a0 = numbers([0.3, 0.7, 2.0]), 3.0
    assert info.dirichlet_log_mean(alpha_C, 1, 0).item() == pytest.approx(
        (torch.digamma(alpha_C[1]) - torch.digamma(numbers(a0))).item()
    )
    trigamma = torch.special.zeta(numbers(2.0), torch.cat([alpha_C, numbers([a0])]))
    assert info.dirichlet_log_covariance(alpha_C, 0, 0, 2, 0).item() == pytest.approx(-trigamma[3].item())
    assert info.dirichlet_log_covariance(alpha_C, 2, 0, 2, 0).item() == pytest.approx(
        (trigamma[2] - trigamma[3]).item()
    )


def test_two_classes_are_a_beta_distribution():
    alpha, beta = 1.3, 0.6
    law = stats.beta(alpha, beta)
    p_log = lambda p: -(p * math.log(p) + (1 - p) * math.log1p(-p)) if 0 < p < 1 else 0.0  # noqa: E731
    mean = law.expect(p_log)
    second, _ = integrate.quad(lambda p: p_log(p) ** 2 * law.pdf(p), 0, 1)
    given_alpha = split([alpha, beta])
    assert info.dirichlet_expected_entropy(*given_alpha).item() == pytest.approx(mean, rel=1e-7)
    assert info.dirichlet_entropy_variance(*given_alpha).item() == pytest.approx(second - mean**2, rel=1e-6)


@given(st.integers(2, 12))
@settings(max_examples=8, deadline=None)
def test_the_uniform_dirichlet(classes):
    flat = split([1.0] * classes)
    trigamma = lambda x: torch.special.zeta(numbers(2.0), numbers(float(x))).item()  # noqa: E731
    assert info.dirichlet_expected_entropy(*flat).item() == pytest.approx(sum(1 / k for k in range(2, classes + 1)))
    expected = 2 * trigamma(2) / (classes + 1) - trigamma(classes + 1)
    assert info.dirichlet_entropy_variance(*flat).item() == pytest.approx(expected, rel=1e-12)


# Limits, bounds and symmetries.


@given(seeds, sizes)
@settings(max_examples=8, deadline=None)
def test_expected_entropy_rises_with_the_concentration_up_to_that_of_the_mean(seed, classes):
    mean_1_C = means(seed, 1, classes)
    a0_A = torch.logspace(-10, 9, 60, dtype=torch.float64)
    mean_A_C = mean_1_C.expand(60, -1)
    expected_A, information_A = (MOMENTS[name](mean_A_C, a0_A) for name in ("expected_entropy", "mutual_information"))
    assert (expected_A.diff() > 0).all()
    assert (information_A.diff() < 0).all()
    torch.testing.assert_close(expected_A + information_A, entropy(mean_A_C), rtol=1e-12, atol=1e-14)
    variance_A = info.dirichlet_entropy_variance(mean_A_C, a0_A)
    assert (variance_A >= 0).all()
    assert (variance_A <= expected_A * (math.log(classes) - expected_A) + 1e-15).all()


@given(seeds, sizes)
@settings(max_examples=8, deadline=None)
def test_large_and_small_concentrations_reach_their_limits(seed, classes):
    mean_1_C = means(seed, 1, classes)
    spread = (mean_1_C * (1 - mean_1_C)).sum().item()
    large, small = numbers([1e9]), numbers([1e-9])
    log_C = mean_1_C[0].log()
    varentropy = (mean_1_C[0] * (log_C + entropy(mean_1_C)).square()).sum().item()
    assert 2e9 * MOMENTS["mutual_information"](mean_1_C, large).item() == pytest.approx(classes - 1, rel=1e-4)
    assert 1e9 * MOMENTS["entropy_variance"](mean_1_C, large).item() == pytest.approx(varentropy, rel=1e-4, abs=1e-8)
    assert 1e9 * MOMENTS["expected_entropy"](mean_1_C, small).item() == pytest.approx(ZETA_2 * spread, rel=1e-7)
    slope = (2 * ZETA_3 - ZETA_2) * spread
    assert 1e9 * MOMENTS["entropy_variance"](mean_1_C, small).item() == pytest.approx(slope, rel=1e-7)
    flat_1_C = torch.full((1, classes), 1 / classes, dtype=torch.float64)
    flat = info.dirichlet_entropy_variance(flat_1_C, large).item()
    assert 2e18 * flat == pytest.approx(classes - 1, rel=1e-6)


@given(seeds, sizes, logs)
@settings(max_examples=8, deadline=None)
def test_order_of_classes_and_impossible_classes_change_nothing(seed, classes, log):
    mean_1_C, a0_1 = means(seed, 1, classes), numbers([10**log])
    padded = torch.cat([mean_1_C, torch.zeros(1, 2, dtype=torch.float64)], 1)
    for other in (mean_1_C.flip(1), padded):
        for name, moment in MOMENTS.items():
            assert moment(other, a0_1).item() == pytest.approx(moment(mean_1_C, a0_1).item(), rel=1e-9), name
        information_1 = info.dirichlet_mutual_information(mean_1_C, a0_1)
        assert info.dirichlet_concentration(other, information_1)[0].item() == pytest.approx(10**log, rel=1e-6)


# Fits.


@given(seeds, sizes, st.lists(logs, min_size=1, max_size=6))
@settings(max_examples=8, deadline=None)
def test_every_fit_finds_the_concentration_it_was_made_from(seed, classes, exponents):
    a0_N = 10 ** numbers(exponents)
    mean_N_C = means(seed, len(exponents), classes, spread=1.0)
    information_N = info.dirichlet_mutual_information(mean_N_C, a0_N)
    found_N, flag_N = info.dirichlet_concentration(mean_N_C, information_N)
    torch.testing.assert_close(found_N, a0_N, rtol=1e-6, atol=0)
    assert (flag_N == OK).all()
    torch.testing.assert_close(info.dirichlet_mutual_information(mean_N_C, found_N), information_N, rtol=1e-10, atol=0)
    spread_N = (mean_N_C * (1 - mean_N_C)).sum(-1) / (a0_N + 1)
    found_N, _ = info.dirichlet_concentration_by_variance(mean_N_C, spread_N)
    torch.testing.assert_close(found_N, a0_N, rtol=1e-6, atol=0)
    alpha_N_C = mean_N_C * a0_N[:, None]
    mean_log_N_C = torch.digamma(alpha_N_C) - torch.digamma(a0_N)[:, None]
    likely_N_C, found_N, _ = info.dirichlet_maximum_likelihood(mean_log_N_C)
    torch.testing.assert_close(found_N, a0_N, rtol=1e-5, atol=0)
    torch.testing.assert_close(likely_N_C, mean_N_C, rtol=1e-5, atol=0)


@given(seeds, st.sampled_from([-3.0, -1.5, 1.5, 3.0, 5.0]))
@settings(max_examples=5, deadline=None)
def test_the_entropy_variance_has_two_roots_and_the_nearest_is_taken(seed, log):
    mean_N_C = means(seed, 1, 4, spread=1.0).expand(2, -1)
    a0_N = numbers([10**log] * 2)
    variance_N = info.dirichlet_entropy_variance(mean_N_C, a0_N)
    found_N, flag_N = info.dirichlet_concentration_by_entropy_variance(mean_N_C, variance_N, numbers([1e-9, 1e8]))
    assert (flag_N == OK).all()
    assert found_N[0] < found_N[1]
    torch.testing.assert_close(info.dirichlet_entropy_variance(mean_N_C, found_N), variance_N, rtol=1e-9, atol=0)
    assert found_N[int(log > 0)].item() == pytest.approx(10**log, rel=1e-8)


def test_edges_are_flagged():
    mean_N_C = numbers([[0.6, 0.4], [0.6, 0.4], [0.6, 0.4], [1.0, 0.0]])
    top = entropy(mean_N_C)[0].item()
    a0_N, flag_N = info.dirichlet_concentration(mean_N_C, numbers([0.0, top, top + 1e-9, 0.0]))
    assert flag_N.tolist() == [POINT_MASS, ONE_HOT, ONE_HOT, CERTAIN]
    assert a0_N.tolist() == [LARGEST, SMALLEST, SMALLEST, LARGEST]
    a0_N, flag_N = info.dirichlet_concentration_by_variance(mean_N_C, numbers([0.0, 0.48, 0.48, 0.0]))
    assert flag_N.tolist() == [POINT_MASS, ONE_HOT, ONE_HOT, CERTAIN]
    assert a0_N.tolist() == [LARGEST, SMALLEST, SMALLEST, LARGEST]
    near_N = numbers([1e9, 1e-10, 1.0, 1.0])
    a0_N, flag_N = info.dirichlet_concentration_by_entropy_variance(mean_N_C, numbers([0.0, 0.0, 0.2, 0.0]), near_N)
    assert flag_N.tolist() == [POINT_MASS, ONE_HOT, OUT_OF_REACH, CERTAIN]
    a0_P = a0_N[2] * numbers([0.9, 1.0, 1.1])
    peak_P = info.dirichlet_entropy_variance(mean_N_C[:3], a0_P)
    assert peak_P.argmax() == 1, "where it is largest"
    _, a0_N, flag_N = info.dirichlet_maximum_likelihood(numbers([[0.5, 0.5], [1.0, 0.0]]).log())
    assert flag_N.tolist() == [POINT_MASS, CERTAIN]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: info.dirichlet_expected_entropy(numbers([0.5, 0.5]), numbers([1.0])), "^mean_N_C: .*shape"),
        (lambda: info.dirichlet_expected_entropy(numbers([[-0.5, -0.5]]), numbers([1.0])), "^mean_N_C: .*negative"),
        (
            lambda: info.dirichlet_expected_entropy(numbers([[0.5, 0.5]]), numbers([0.0])),
            "^concentration_N: .*positive",
        ),
        (
            lambda: info.dirichlet_expected_entropy(numbers([[0.5, 0.5]]), numbers([1.0, 2.0])),
            "^concentration_N: .*1 p",
        ),
        (lambda: info.dirichlet_concentration(numbers([[0.5, 0.5]]), numbers([-0.1])), "^mutual_information_N: "),
        (lambda: info.dirichlet_concentration(numbers([[0.5, 0.5]]), numbers([])), "^mutual_information_N: .*shape"),
        (lambda: info.dirichlet_log_mean(numbers([1.0, 1.0]), 0, 1, 0, 1), "^j: "),
        (lambda: info.dirichlet_log_covariance(numbers([1.0, 0.0]), 0, 1, 1, 1), "^alpha_N_C: "),
        (lambda: info.dirichlet_maximum_likelihood(numbers([0.5])), "^mean_log_probs_N_C: "),
        (lambda: info.dirichlet_samples(numbers([[1.0]]), numbers([1.0]), 0, torch.Generator()), "^n_draws: "),
    ],
)
def test_bad_input_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()


# Draws.


def test_draws_have_the_moments_of_the_formulas():
    alpha_C, draws = numbers([0.3, 0.7, 2.0]), 40_000
    mean_1_C, a0_1 = split(alpha_C.tolist())
    log_K_C = info.dirichlet_samples(mean_1_C, a0_1, draws, torch.Generator().manual_seed(3))[0]
    entropy_K = info.entropy(log_K_C)

    def close(values_K, expected):
        error = values_K.std().item() / math.sqrt(draws)
        assert abs(values_K.mean().item() - expected) < 4 * error, f"{values_K.mean()} ± {error}, expected {expected}"

    expected = info.dirichlet_expected_entropy(mean_1_C, a0_1).item()
    close(entropy_K, expected)
    close((entropy_K - expected).square(), info.dirichlet_entropy_variance(mean_1_C, a0_1).item())
    for c in range(3):
        close(log_K_C[:, c].exp(), mean_1_C[0, c].item())
    for i, n, j, m in ((0, 1, 1, 1), (2, 1, 2, 1), (1, 2, 2, 3)):
        one_K, two_K = (log_K_C[:, c] * (power * log_K_C[:, c]).exp() for c, power in ((i, n), (j, m)))
        apart_K = (one_K - info.dirichlet_log_mean(alpha_C, i, n)) * (two_K - info.dirichlet_log_mean(alpha_C, j, m))
        close(apart_K, info.dirichlet_log_covariance(alpha_C, i, n, j, m).item())
    close(log_K_C[:, 0] * (log_K_C[:, 0] + log_K_C[:, 1]).exp(), info.dirichlet_log_mean(alpha_C, 0, 1, 1, 1).item())


def test_tiny_concentrations_give_one_hot_draws_with_the_right_shares():
    mean_1_C = numbers([[0.6, 0.3, 0.1, 0.0]])
    for a0 in (1e-12, 1e-200):
        log_K_C = info.dirichlet_samples(mean_1_C, numbers([a0]), 4000, torch.Generator().manual_seed(1))[0]
        assert not log_K_C.isnan().any()
        assert (log_K_C.exp().amax(-1) > 0.999).all()
        assert (log_K_C[:, 3] == -math.inf).all()
        share_C = torch.bincount(log_K_C.argmax(-1), minlength=4) / 4000
        assert (share_C - mean_1_C[0]).abs().max() < 4 * 0.5 / math.sqrt(4000)


def test_the_memory_budget_changes_no_draw_and_no_moment():
    mean_N_C, a0_N = means(5, 30, 4), torch.logspace(-3, 3, 30, dtype=torch.float64)

    def everything():
        variance_N = info.dirichlet_entropy_variance(mean_N_C, a0_N)
        return [
            info.dirichlet_samples(mean_N_C, a0_N, 7, torch.Generator().manual_seed(2)),
            variance_N,
            *info.dirichlet_concentration(mean_N_C, info.dirichlet_mutual_information(mean_N_C, a0_N)),
            *info.dirichlet_concentration_by_entropy_variance(mean_N_C[:4], variance_N[:4], a0_N[:4]),
        ]

    expected = everything()
    with natsel.memory_budget(1 << 12):
        for one, two in zip(everything(), expected, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-12, atol=0)


def test_members_that_agree_are_a_point_mass_for_the_likelihood_too():
    log_N_C = (3 * torch.randn(200, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).log_softmax(-1)
    assert set(info.dirichlet_maximum_likelihood(log_N_C)[2].tolist()) == {POINT_MASS}
    with pytest.raises(ValueError, match="a row of -inf"):
        info.dirichlet_maximum_likelihood(torch.full((1, 2), -math.inf))
    with pytest.raises(ValueError, match="whole numbers from 0 on, found -1"):
        info.dirichlet_log_covariance(torch.ones(1, 2), 0, -1, 1, 1)
