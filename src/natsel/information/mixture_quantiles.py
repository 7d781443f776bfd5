"""Quantiles of mixtures of Gaussians, one mixture per point.

    F(y) = Σ_k w_k Φ((y − mean_k) / std_k),        quantile(p) = the y with F(y) = p

F grows with y, and at a quantile of the mixture the components cannot all be below p nor all be above it:

    min_k (mean_k + z std_k)  ≤  quantile(p)  ≤  max_k (mean_k + z std_k),        z = Φ⁻¹(p)

Bisection between these ends halves the gap in each step, until it is down to rounding, or to 10⁻¹³ of the narrowest
component.
"""

import math

import torch
from torch import Tensor

_STEPS = 300
"""More halvings than any two ends in the range of beliefs need; most take about 50."""


def lower_quantile(mean_N_K: Tensor, std_N_K: Tensor, weights_K: Tensor, prob: float) -> Tensor:
    """The quantile of each of N mixtures, in float64; exact for small `prob`, and mirrored means give large ones.

    >>> lower_quantile(torch.tensor([[0.0, 4.0]]), torch.ones(1, 2), torch.tensor([0.5, 0.5]), 0.5).round(decimals=9)
    tensor([2.], dtype=torch.float64)
    """
    if not 0 < prob < 1:
        raise ValueError(f"prob: expected a probability above 0 and below 1, found {prob}")
    there_K = weights_K > 0  # a component without weight may lie anywhere
    mean_N_K, std_N_K, weights_K = (part[..., there_K].double() for part in (mean_N_K, std_N_K, weights_K))
    ends_N_K = mean_N_K + float(torch.special.ndtri(torch.tensor(prob, dtype=torch.float64))) * std_N_K
    low_N, high_N = ends_N_K.amin(1), ends_N_K.amax(1)
    enough_N = 1e-13 * std_N_K.amin(1)
    scale_N_K = math.sqrt(2) * std_N_K  # Φ(z) = ½ erfc(−z/√2), which keeps its digits where Φ is small: ndtr does not
    for _ in range(_STEPS):
        middle_N = low_N + (high_N - low_N) / 2
        below_N = torch.special.erfc((mean_N_K - middle_N[:, None]) / scale_N_K) @ weights_K < 2 * prob
        low_N, high_N = torch.where(below_N, middle_N, low_N), torch.where(below_N, high_N, middle_N)
        if bool((high_N - low_N <= enough_N + 2e-16 * (high_N.abs() + low_N.abs())).all()):
            break
    return low_N + (high_N - low_N) / 2
