"""How good predictions of numbers are, from draws of Gaussian predictions.

    rmse = √ mean_n (y_n − Σ_k w_k μ_nk)²
    nll  = − mean_n log Σ_k w_k N(y_n; μ_nk, σ²_nk)                     in nats, lower is better
    95% error = the absolute error at place ⌊0.95 N⌋ of all N in ascending order, counted from 0; 99% error likewise

The likelihood is that of the mixture of all draws, noise included: a committee that is sure and wrong pays for it.

The mean of a committee has a smaller error than its members have, whatever was labelled. `member_errors` judges the
members themselves, so that what labels bring is not mixed up with what averaging brings: squared errors are pooled over
members, all else is the mean over members.  docs/theory/black-box.md; Kirsch 2023, black-box batch active learning;
Holzmüller et al. 2023.
"""

import math

import torch
from torch import Tensor

from natsel.options import Rows


def rmse(mean_N: Tensor, values_N: Rows) -> float:
    """The root of the mean squared error.

    >>> rmse(torch.tensor([1.0, 3.0]), [1.0, 1.0])  # √2
    1.414213562373095...
    """
    values_N = _checked(mean_N, values_N)
    return float((mean_N.double() - values_N).square().mean().sqrt())


def errors(mean_N: Tensor, values_N: Rows) -> dict[str, float]:
    """Absolute errors in five numbers: mean, root mean square, two quantiles and the largest.

    >>> errors(torch.tensor([1.0, 3.0]), [1.0, 1.0])["mae"]
    1.0
    """
    return member_errors(mean_N[:, None], values_N)


def member_errors(mean_N_K: Tensor, values_N: Rows, log_weights_K: Tensor | None = None) -> dict[str, float]:
    """The same five numbers for K members, each judged alone, then averaged (equal weights unless given).

    >>> member_errors(torch.tensor([[1.0, 3.0]]), [1.0])["largest error"]
    1.0
    """
    values_N = _checked(mean_N_K[:, 0], values_N)
    if bool(mean_N_K.isnan().any()):
        raise ValueError("mean_N_K: predictions hold nan; look for missing values or a diverged model")
    count, members = mean_N_K.shape
    weights_K = mean_N_K.new_full((members,), 1 / members).double()
    if log_weights_K is not None:
        weights_K = log_weights_K.double().exp().to(mean_N_K.device)
    errors_N_K = (mean_N_K.double() - values_N[:, None]).abs().sort(0).values
    found_K = {
        "mae": errors_N_K.mean(0),
        "rmse": errors_N_K.square().mean(0),
        "95% error": errors_N_K[95 * count // 100],
        "99% error": errors_N_K[99 * count // 100],
        "largest error": errors_N_K[-1],
    }
    found = {name: float(one_K @ weights_K) for name, one_K in found_K.items()}
    return found | {"rmse": math.sqrt(found["rmse"])}


def gaussian_nll(mean_N_K: Tensor, variance_N_K: Tensor, values_N: Rows, log_weights_K: Tensor | None = None) -> float:
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


def _checked(mean_N: Tensor, values: Rows) -> Tensor:
    values_N: Tensor = torch.as_tensor(values, device=mean_N.device).double()
    if values_N.shape != mean_N.shape or values_N.ndim != 1 or len(values_N) == 0:
        raise ValueError(
            f"values_N: expected one for each prediction, found shapes {list(values_N.shape)} and"
            f" {list(mean_N.shape)}; pass at least one point, and one value per point"
        )
    if bool(values_N.isnan().any()) or bool(mean_N.isnan().any()):
        raise ValueError("values_N: values or predictions hold nan; look for missing values or a diverged model")
    return values_N
