import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from golden_values import logs
from natsel.information.gaussians import (
    gaussian_mutual_information,
    log_det_gain,
    mixture_variance,
    moment_matched_entropy,
    moment_matched_mutual_information,
)

properties = settings(deadline=None)
seeds = st.integers(0, 2**31)


def near(actual, expected, tolerance=1e-10):
    actual, expected = (torch.as_tensor(x, dtype=torch.float64) for x in (actual, expected))
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@properties
@given(seeds, st.tuples(st.integers(0, 6), st.integers(1, 4)))
def test_log_det_gain_is_information_about_the_weights(seed, size):
    generator = torch.Generator().manual_seed(seed)
    features_B_D = torch.randn(*size, generator=generator, dtype=torch.float64)
    noise_B = 0.1 + torch.rand(size[0], generator=generator, dtype=torch.float64)
    kernel_B_B = features_B_D @ features_B_D.T
    near(log_det_gain(features_B_D, 0.3), 0.5 * torch.logdet(torch.eye(size[0]) + kernel_B_B / 0.3))
    labels_B_B = kernel_B_B + noise_B.diag()
    weights_D_D = torch.eye(size[1], dtype=torch.float64)
    covariance = torch.cat([torch.cat([weights_D_D, features_B_D.T], 1), torch.cat([features_B_D, labels_B_B], 1)])
    weights, labels = range(size[1]), range(size[1], sum(size))
    near(
        log_det_gain(features_B_D, noise_B),
        gaussian_mutual_information(covariance, list(weights), list(labels)),
    )


def test_tiny_log_det_gains_in_float32():
    features_B_D = torch.tensor([[3e-6, 0.0], [0.0, 4e-6]])
    assert float(log_det_gain(features_B_D, 1.0)) == pytest.approx(12.5e-12, rel=1e-5, abs=0)  # I + ΦΦᵀ is I here
    for noise in (0.0, -1.0, math.nan, torch.tensor([1.0, 0.0])):
        with pytest.raises(ValueError, match="noise"):
            log_det_gain(features_B_D, noise)


def test_moment_matching():
    mean_N_K = torch.tensor([[0.0, 3.0, -1.0], [2.0, 2.0, 2.0], [1.0, 1.0, 4.0]], dtype=torch.float64)
    variance_N_K = torch.tensor([[1.0, 0.5, 2.0], [0.7, 0.7, 0.7], [0.5, 0.5, 0.5]], dtype=torch.float64)
    log_weights_K = logs([0.2, 0.5, 0.3])
    w_K = log_weights_K.exp()
    second_N = ((variance_N_K + mean_N_K**2) * w_K).sum(1) - ((mean_N_K * w_K).sum(1)) ** 2
    near(mixture_variance(mean_N_K, variance_N_K, log_weights_K), second_N)
    near(
        moment_matched_entropy(mean_N_K, variance_N_K, log_weights_K),
        0.5 * (2 * math.pi * math.e * second_N).log(),
    )
    information_N = moment_matched_mutual_information(mean_N_K, variance_N_K, log_weights_K)
    near(information_N, 0.5 * (second_N.log() - variance_N_K.log() @ w_K))
    near(information_N[1:], [0.0, 0.5 * math.log1p(0.7 * 0.3 * 9 / 0.5)])  # homoscedastic: ½ ln(1 + Var μ/σ²)
    even = moment_matched_mutual_information(mean_N_K, variance_N_K)
    near(even, moment_matched_mutual_information(mean_N_K, variance_N_K, torch.zeros(3)))
    y = torch.linspace(-15, 20, 20_001, dtype=torch.float64)
    density = (
        w_K
        * torch.exp(-0.5 * (y[:, None] - mean_N_K[0]) ** 2 / variance_N_K[0])
        / (2 * math.pi * variance_N_K[0]).sqrt()
    ).sum(1)
    mixture_entropy = torch.trapezoid(torch.special.entr(density), y)
    assert 0.01 < moment_matched_entropy(mean_N_K, variance_N_K, log_weights_K)[0] - mixture_entropy < 0.3


def test_moment_matching_on_the_edges():
    mean_N_K, variance_N_K = torch.tensor([[0.0, 0.0, math.inf]]), torch.tensor([[1.0, 1.0, 0.0]])
    zero_weight = logs([0.5, 0.5, 0.0], torch.float32)
    near(moment_matched_mutual_information(mean_N_K, variance_N_K, zero_weight), [0.0])
    near(mixture_variance(mean_N_K, variance_N_K, zero_weight), [1.0], 1e-6)
    noise_free = torch.zeros(1, 2)
    assert moment_matched_mutual_information(torch.tensor([[1.0, 1.0]]), noise_free) == 0
    assert moment_matched_mutual_information(torch.tensor([[1.0, 2.0]]), noise_free) == math.inf
    assert moment_matched_entropy(torch.tensor([[1.0, 1.0]]), noise_free) == -math.inf
    assert moment_matched_mutual_information(torch.tensor([[3.0]]), torch.tensor([[0.2]])) == 0
    mean_N_K = torch.tensor([[1.0, 1.0]], requires_grad=True)
    moment_matched_mutual_information(mean_N_K, noise_free).sum().backward()
    assert torch.isfinite(mean_N_K.grad).all()
    half = torch.tensor([[1.0, 2.0]], dtype=torch.float16)
    assert moment_matched_entropy(half, half).dtype == torch.float32
    with pytest.raises(ValueError, match="log_weights_K"):
        moment_matched_entropy(half, half, torch.zeros(3))


@pytest.mark.parametrize("scale", [1e-9, 0.1, 1.0, 99.0, 101.0, 1e6])
def test_both_routes_to_a_log_determinant_agree(scale):
    rows_B_D = torch.randn(7, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    rows_B_D *= scale / rows_B_D.norm(dim=1).max()
    rows_B_D[3] = rows_B_D[2]
    expected = 0.5 * torch.log1p(torch.linalg.svdvals(rows_B_D).square()).sum()
    torch.testing.assert_close(log_det_gain(rows_B_D, 1.0), expected, rtol=1e-11, atol=0)
