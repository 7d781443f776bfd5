"""How good predictions of numbers are, from draws of Gaussian predictions.

    rmse = √ mean_n (y_n − Σ_k w_k μ_nk)²
    nll  = − mean_n log Σ_k w_k N(y_n; μ_nk, σ²_nk)                     in nats, lower is better

The likelihood is that of the mixture of all draws, noise included: a committee that is sure and wrong pays for it.
"""

import math
from typing import Any

import torch
from torch import Tensor


def rmse(mean_N: Tensor, values_N: Any) -> float:
    """The root of the mean squared error.

    >>> rmse(torch.tensor([1.0, 3.0]), [1.0, 1.0])  # √2
    1.414213562373095...
    """
    values_N = _checked(mean_N, values_N)
    return float((mean_N.double() - values_N).square().mean().sqrt())


def gaussian_nll(mean_N_K: Tensor, variance_N_K: Tensor, values_N: Any, log_weights_K: Tensor | None = None) -> float:
    """The mean negative log likelihood in nats of K weighted draws (equal weights unless given).

    >>> round(gaussian_nll(torch.zeros(1, 1), torch.ones(1, 1), [0.0]), 4)  # ½ ln 2π
    0.9189
    """
    values_N = _checked(mean_N_K[:, 0], values_N)
    if variance_N_K.shape != mean_N_K.shape or bool((variance_N_K <= 0).any()):
        raise ValueError(
            f"variance_N_K: expected positive numbers of shape {list(mean_N_K.shape)}, found shape"
            f" {list(variance_N_K.shape)}, least {variance_N_K.min().item():.3g}; give the noise a small variance"
        )
    mean_N_K, variance_N_K = mean_N_K.double(), variance_N_K.double()
    log_N_K = -0.5 * ((values_N[:, None] - mean_N_K).square() / variance_N_K + (2 * math.pi * variance_N_K).log())
    if log_weights_K is None:
        log_weights_K = log_N_K.new_full((log_N_K.shape[1],), -math.log(log_N_K.shape[1]))
    return float(-(log_N_K + log_weights_K.double()).logsumexp(-1).mean())


def _checked(mean_N: Tensor, values: Any) -> Tensor:
    values_N: Tensor = torch.as_tensor(values, device=mean_N.device).double()
    if values_N.shape != mean_N.shape or values_N.ndim != 1 or len(values_N) == 0:
        raise ValueError(
            f"values_N: expected one for each prediction, found shapes {list(values_N.shape)} and"
            f" {list(mean_N.shape)}; pass at least one point, and one value per point"
        )
    if bool(values_N.isnan().any()) or bool(mean_N.isnan().any()):
        raise ValueError("values_N: values or predictions hold nan; look for missing values or a diverged model")
    return values_N
