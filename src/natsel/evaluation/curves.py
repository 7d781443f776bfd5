"""Learning curves: a value for each number of labels, summed up over seeds.

    bands        lower quartile, median and upper quartile over runs, at each size
    area_under   ∫ value d(labels) / (last − first size): the mean height of a curve
    class_entropy  H(histogram of labels) in nats, at most ln C: how evenly a method spreads its picks

Between two measurements a curve is a straight line; outside of them it is unknown (nan), never extended.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Run = tuple[Sequence[int], Sequence[float]]
"""Sizes that grow, and the value measured at each."""

_CALIBRATION_ERRORS = ("ece", "cace", "cwce", "wcace", "sce", "ace", "tace", "rmsce", "ecace")
_LOWER_IS_BETTER = ("nll", "rmse", "mse", "mae", "loss", "error", "brier", "gap", "fpr95", "junk", *_CALIBRATION_ERRORS)


def higher_is_better(metric: str) -> bool:
    """Whether a metric of this name should be large.

    >>> higher_is_better("accuracy"), higher_is_better("rmse"), higher_is_better("validation nll")
    (True, False, False)
    """
    return metric.lower().replace("-", "_").replace(" ", "_").split("_")[-1] not in _LOWER_IS_BETTER


@dataclass(frozen=True, eq=False)
class Bands:
    """Quartiles over runs at each size; `runs` says how many were measured there."""

    sizes: Floats
    lower: Floats
    median: Floats
    upper: Floats
    runs: np.ndarray[Any, np.dtype[np.int64]]


def interpolate(sizes: Sequence[int], values: Sequence[float], at: Sequence[float] | Floats) -> Floats:
    """The values at other sizes, by straight lines; nan outside the measured ones.

    >>> interpolate([10, 20], [0.5, 0.7], [15, 30]).tolist()
    [0.6, nan]
    """
    sizes_n, values_n = _measured(sizes, values)
    found = np.full(len(at), np.nan)
    if len(sizes_n):
        found[:] = np.interp(np.asarray(at, dtype=float), sizes_n, values_n, left=np.nan, right=np.nan)
    return found


def bands(runs: Iterable[Run]) -> Bands:
    """Median and quartiles over runs, at every size that any of them measured.

    >>> bands([([10, 20], [0.5, 0.7]), ([10, 20], [0.6, 0.9])]).median.tolist()
    [0.55, 0.8]
    """
    runs = list(runs)
    at = np.unique(np.concatenate([_measured(*run)[0] for run in runs] or [np.zeros(0)]))
    rows = np.array([interpolate(*run, at) for run in runs]).reshape(len(runs), len(at))
    quarters = np.array([np.nanquantile(column, [0.25, 0.5, 0.75]) for column in rows.T]).reshape(len(at), 3)
    lower, median, upper = quarters.T
    return Bands(at, lower, median, upper, np.count_nonzero(~np.isnan(rows), axis=0))


def area_under(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The mean height of a curve over the labels it covers; nan for less than two measurements.

    >>> area_under([0, 10, 20], [0.0, 1.0, 1.0])
    0.75
    """
    sizes_n, values_n = _measured(sizes, values)
    if len(sizes_n) < 2:
        return float("nan")
    return float(np.diff(sizes_n) @ (values_n[1:] + values_n[:-1]) / 2 / (sizes_n[-1] - sizes_n[0]))


def class_entropy(labels: Iterable[float | None], classes: int | None = None) -> float:
    """The entropy in nats of how often each class occurs; labels that are None do not count, nan without any.

    >>> round(class_entropy([0, 1, 1, 0]), 4), class_entropy([1, 1])
    (0.6931, 0.0)
    """
    counts_C = class_counts(labels, classes)
    shares_C = counts_C[counts_C > 0] / max(1, counts_C.sum())
    return float(0.0 - (shares_C * np.log(shares_C)).sum()) if len(shares_C) else float("nan")


def class_counts(labels: Iterable[float | None], classes: int | None = None) -> np.ndarray[Any, np.dtype[np.int64]]:
    """How often each class occurs.

    >>> class_counts([0, 2, 2, None], 3).tolist()
    [1, 0, 2]
    """
    known = np.array([label for label in labels if label is not None], dtype=np.int64)
    if len(known) and (known.min() < 0 or known.max() >= (classes or known.max() + 1)):
        raise ValueError(f"labels: expected classes 0 to {classes}, exclusive, found {known.min()} to {known.max()}")
    return np.bincount(known, minlength=classes or 0)


def _measured(sizes: Sequence[int], values: Sequence[float]) -> tuple[Floats, Floats]:
    """Sizes and values as arrays, without those that were not measured."""
    sizes_n, values_n = np.asarray(sizes, dtype=float), np.asarray(values, dtype=float)
    if sizes_n.shape != values_n.shape or sizes_n.ndim != 1:
        raise ValueError(f"values: expected one for each of {len(sizes)} sizes, found {len(values)}")
    if bool((np.diff(sizes_n) <= 0).any()):
        raise ValueError(f"sizes: must grow from one measurement to the next, found {list(sizes)}; sort them")
    finite_n = np.isfinite(values_n)
    return sizes_n[finite_n], values_n[finite_n]
