"""Temperature scaling: the one number by which logits are divided so that probabilities fit held-out labels best.

    T = arg min_{T > 0}  mean_n −ln softmax(z_n / T)_{y_n}                                             (Guo et al. 2017)

In β = 1/T this is convex, with first derivative mean_n (E_p[z] − z_y) and second mean_n Var_p[z], p = softmax(β z).
Newton's method in ln β, kept inside a bracket. The most probable class stays the same; the entropy rises with T.

Labels may be distributions over classes (rows that sum to 1): z_y is then their mean of z. There is no minimum where
every label has the largest logit of its row (T tends to 0) or where logits say no more than chance (T tends to
infinity): the limit is returned, with a warning.  docs/theory/calibration.md, 12.
"""

import math
from typing import Any

import torch
from torch import Tensor

from natsel.beliefs.arrays import as_tensor
from natsel.evaluation.probability_rows import probability_rows
from natsel.information.class_labels import class_labels
from natsel.memory import rows_per_chunk
from natsel.options import Rows, warn


def fit_temperature(logits_N_C: Any, labels_N: Rows, limits: tuple[float, float] = (0.01, 100.0)) -> float:
    """The temperature T within limits for which softmax(logits / T) has the least mean negative log likelihood.

    `labels_N` are class numbers, or distributions as points × classes. Exact to 1e-8 of T; where the best temperature
    lies outside the limits, the nearer limit is returned with a warning. 1.0 where all rows are constant, since no
    temperature changes them.

    >>> round(fit_temperature([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [2.0, 0.0]], [0, 0, 0, 1]), 6)  # 2 / ln 3
    1.820478
    """
    logits_N_C = as_tensor(logits_N_C, "logits_N_C")
    target = _mean_logit_of_labels(logits_N_C, labels_N)
    least, most = limits
    if not 0 < least < most < math.inf:
        raise ValueError(f"limits: expected 0 < least < greatest temperature, found {limits}; (0.01, 100.0) is usual")

    low, high = -math.log(most), -math.log(least)  # of ln β
    slope_low, curve = _slopes(logits_N_C, low, target)
    if curve == 0:
        return 1.0
    slope_high, _ = _slopes(logits_N_C, high, target)
    if slope_low >= 0 or slope_high <= 0:
        reason = (
            "the logits tell no more about the labels than chance; look for a mismatch of labels and classes"
            if slope_low >= 0
            else "nearly every label has the largest logit; use more points, and none that were trained on"
        )
        nearer = most if slope_low >= 0 else least
        warn(f"temperature: the best one lies beyond the limit {nearer:g}, because {reason}")
        return nearer
    at, before = min(max(0.0, low), high), math.inf
    for _ in range(200):
        slope, curve = _slopes(logits_N_C, at, target)
        low, high = (at, high) if slope < 0 else (low, at)
        newton = at - slope / (math.exp(at) * curve) if curve > 0 else math.inf
        # Where Newton leaves the bracket or has not halved the slope, the bracket is halved.
        following = newton if low < newton < high and abs(slope) < before / 2 else (low + high) / 2
        if abs(following - at) < 1e-10 or slope == 0:
            break
        at, before = following, abs(slope)
    return math.exp(-at)


def _slopes(logits_N_C: Tensor, log_beta: float, target: float) -> tuple[float, float]:
    """First and second derivative of the mean negative log likelihood by β."""
    beta, first, second = math.exp(log_beta), 0.0, 0.0
    for part_n_C in torch.split(logits_N_C, rows_per_chunk(48 * logits_N_C.shape[1], logits_N_C.device)):
        below_n_C = _below_largest(part_n_C)
        p_n_C = (beta * below_n_C).softmax(-1)
        below_n_C = below_n_C.masked_fill(p_n_C == 0, 0.0)  # 0 · (−inf) counts nothing
        mean_n_1 = (p_n_C * below_n_C).sum(-1, keepdim=True)
        first += float(mean_n_1.sum())
        second += float((p_n_C * (below_n_C - mean_n_1).square()).sum())
    return first / len(logits_N_C) - target, second / len(logits_N_C)


def _mean_logit_of_labels(logits_N_C: Tensor, labels_N: Rows) -> float:
    """The mean of z_y, measured from the largest logit of each row; refuses what no temperature can be fitted to."""
    if logits_N_C.ndim != 2 or 0 in logits_N_C.shape:
        found = f"shape {list(logits_N_C.shape)}"
        raise ValueError(f"logits_N_C: found {found}; pass floats of shape points x classes, at least one point")
    labels = as_tensor(labels_N, "labels_N").to(logits_N_C.device)
    soft = labels.ndim == 2
    if soft and labels.shape != logits_N_C.shape:
        found = f"{list(labels.shape)} and {list(logits_N_C.shape)}"
        raise ValueError(
            f"labels_N: expected a distribution for each row of logits, found shapes {found}; pass one each"
        )
    count, classes = logits_N_C.shape
    labels = probability_rows(labels, "labels_N") if soft else class_labels(labels, count, classes, "labels_N")
    total, step = 0.0, rows_per_chunk(40 * logits_N_C.shape[1], logits_N_C.device)
    for part_n_C, label_n in zip(torch.split(logits_N_C, step), torch.split(labels, step), strict=True):
        if bool((part_n_C.isnan() | part_n_C.isposinf()).any()) or bool(part_n_C.isneginf().all(-1).any()):
            raise ValueError("logits_N_C: found NaN, +inf or a row of −inf; look for a diverged model or bad inputs")
        below_n_C = _below_largest(part_n_C)
        if soft:
            share_n_C = label_n.double() / label_n.double().sum(-1, keepdim=True)
            total += float(torch.where(share_n_C > 0, share_n_C * below_n_C, 0.0).sum())
        else:
            total += float(below_n_C.gather(-1, label_n[:, None]).sum())
    if total == -math.inf:
        raise ValueError(
            "logits_N_C: a label has a logit of −inf, so that no temperature makes it possible; leave it out"
        )
    return total / len(logits_N_C)


def _below_largest(logits_n_C: Tensor) -> Tensor:
    return logits_n_C.double() - logits_n_C.double().amax(-1, keepdim=True)
