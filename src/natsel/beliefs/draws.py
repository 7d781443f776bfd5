"""The part of a belief that belongs to its draws: their weights, and the ids of its points."""

import math
from typing import Any

import torch
from torch import Tensor

from natsel.beliefs.arrays import as_integers, as_tensor


def checked_log_weights(log_weights_K: Any, draws: int, device: torch.device) -> Tensor:
    """log w_K in float64 with Σ w = 1; None means equal weights.

    >>> checked_log_weights(None, 2, torch.device("cpu")).exp().tolist()
    [0.5, 0.5]
    """
    if log_weights_K is None:
        return torch.full((draws,), -math.log(draws), dtype=torch.float64, device=device)
    weights_K = as_tensor(log_weights_K, "log_weights_K").to(device, torch.float64)
    if weights_K.shape != (draws,):
        raise ValueError(
            f"log_weights_K: expected one log weight for each of {draws} draws, found shape {tuple(weights_K.shape)}"
        )
    log_sum = float(weights_K.logsumexp(0))
    if not abs(log_sum) < 1e-4:
        raise ValueError(
            f"log_weights_K: the weights must sum to 1 (found {math.exp(log_sum) if log_sum < 700 else log_sum:.6g});"
            " pass logarithms and subtract their logsumexp"
        )
    return weights_K - log_sum


def checked_ids(ids_N: Any, count: int, device: torch.device) -> Tensor:
    """Distinct integer ids of the points; None numbers them from 0."""
    if ids_N is None:
        return torch.arange(count, device=device)
    ids = as_integers(ids_N, "ids_N").to(device).clone()  # checked once, so nobody may change them afterwards
    if ids.shape != (count,):
        raise ValueError(f"ids_N: expected {count} integers, one a point, found shape {tuple(ids.shape)}")
    if bool((ids.sort().values.diff() == 0).any()):
        raise ValueError("ids_N: every point needs an id of its own, found an id twice; number the points anew")
    return ids
