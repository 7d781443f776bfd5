"""Detection: whether a score tells data from elsewhere ("outside") from data like those of training ("inside").

Higher scores mean more uncertain. Every distinct score is a threshold; "found" are the outside points at or above it
(true positives), "false" the inside points at or above it.

    auroc   P(outside > inside) + ½ P(tie)                    the area under found/M against false/N
    aupr    Σ_i (recall_i − recall_{i−1}) · precision_i       average precision: no lines between thresholds
    fpr95   the least false/N among thresholds with found/M ≥ 0.95

Thresholds are counted, not interpolated, so that ties count half in the first and are never parted in the others; ±inf
is a score like others. Equal to roc_auc_score, average_precision_score and roc_curve(drop_intermediate=False) of
scikit-learn. O(n log n).  docs/theory/calibration.md, 9.
"""

import math
from typing import Any

import numpy as np

from natsel.evaluation.probability_rows import Floats, one_per_point
from natsel.evaluation.savings import Known


def auroc(inside_N: Any, outside_M: Any) -> float:
    """The chance that a point from outside scores higher than one from inside, ties counted half.

    >>> auroc([0.1, 0.4, 0.35, 0.8], [0.9, 0.3, 0.5])  # 8 of 12 pairs
    0.6666666666666666
    """
    false_t, found_t = _counts(inside_N, outside_M)
    # Twice the area in whole numbers, so that nothing is rounded before the division.
    twice = int((np.diff(false_t, prepend=0) * (found_t + np.concatenate(([0], found_t[:-1])))).sum())
    return twice / (2 * int(false_t[-1]) * int(found_t[-1]))


def aupr(inside_N: Any, outside_M: Any) -> float:
    """The average precision where outside is the positive class; its share of all points for a score without use.

    >>> aupr([0.1, 0.2], [0.9, 0.8]), aupr([1.0, 1.0, 1.0], [1.0])
    (1.0, 0.25)
    """
    false_t, found_t = _counts(inside_N, outside_M)
    return float((np.diff(found_t, prepend=0) * (found_t / (found_t + false_t))).sum()) / int(found_t[-1])


def fpr95(inside_N: Any, outside_M: Any) -> float:
    """The share of inside points that are flagged where at least 95 % of the outside ones are.

    >>> fpr95([0.1, 0.2, 0.3, 0.4], [0.25, 0.5, 0.6])
    0.5
    """
    false_t, found_t = _counts(inside_N, outside_M)
    enough_t = 20 * found_t >= 19 * found_t[-1]
    return int(false_t[enough_t][0]) / int(false_t[-1])


def auroc_interval(inside_N: Any, outside_M: Any, level: float = 0.95) -> Known:
    """An interval for the AUROC of which these points are a sample (DeLong et al. 1988, on the scale of log odds).

    Where the two sides do not overlap there is no variance to see. Then the min(N, M) disjoint pairs are all in order,
    which has probability AUROC^min(N, M), and the bound is that of Clopper and Pearson.

    >>> auroc_interval([0.1, 0.4, 0.35, 0.8], [0.9, 0.3, 0.5]).low < 0.5, auroc_interval(range(50), range(50, 99))
    (True, Known(low=0.927..., high=1.0))
    """
    from scipy.special import expit, logit
    from scipy.stats import norm

    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, found {level}; 0.95 is the default")
    inside_N, outside_M = one_per_point(inside_N, "inside_N"), one_per_point(outside_M, "outside_M")
    fewer = min(len(inside_N), len(outside_M))
    if fewer < 2:
        raise ValueError("inside_N, outside_M: an interval needs two points on each side; pass more")
    area, tail = auroc(inside_N, outside_M), (1 - level) / 2
    if area in (0.0, 1.0):
        bound = tail ** (1 / fewer)
        return Known(bound, 1.0) if area else Known(0.0, 1 - bound)
    variance = _shares_below(inside_N, outside_M).var(ddof=1) / len(outside_M)
    variance += _shares_below(outside_M, inside_N).var(ddof=1) / len(inside_N)
    half = float(norm.isf(tail)) * math.sqrt(variance) / (area * (1 - area))
    return Known(float(expit(logit(area) - half)), float(expit(logit(area) + half)))


def _shares_below(some_n: Floats, at_m: Floats) -> Floats:
    """For each of `at_m` the share of the others below it, ties counted half."""
    ordered_n = np.sort(some_n)
    below_m = np.searchsorted(ordered_n, at_m, "left") + np.searchsorted(ordered_n, at_m, "right")
    return np.asarray(below_m / (2 * len(some_n)), dtype=np.float64)


def _counts(
    inside_N: Any, outside_M: Any
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.int64]]]:
    """How many of each side score at least t, for each distinct score t in descending order."""
    inside_N, outside_M = one_per_point(inside_N, "inside_N"), one_per_point(outside_M, "outside_M")
    thresholds = np.unique(np.concatenate((inside_N, outside_M)))[::-1]
    false_t, found_t = (
        len(side) - np.searchsorted(np.sort(side), thresholds, "left").astype(np.int64)
        for side in (inside_N, outside_M)
    )
    return false_t, found_t
