"""Labels saved: how many fewer labels a method needs than another for the same quality, seed by seed.

    needed = the first size at which a run reaches the target
    saved  = 1 − needed(method) / needed(baseline)                       one number a seed; their median is reported

A run that ends before the target has needed *more* than its last size: that is a bound, not a number, and is carried as
one. Each seed gives what is known of its saving, low ≤ saved ≤ high:

    both reach                 low = high = 1 − m/r
    only the method reaches    at least 1 − m/(last size of the baseline), at most 1
    only the baseline reaches  at most 1 − (last size of the method)/r
    neither                    nothing is known

The median of the lows and the median of the highs hold the median saving between them. The 95 % interval resamples
seeds, both runs of a seed together, and spans from the 2.5 % point of the lows to the 97.5 % point of the highs.
Runs that may have stopped anywhere thus never flatter a method.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from natsel.evaluation.curves import Floats, Run

ENOUGH = 5
"""Seeds for an interval: the true median lies between the least and the greatest of n with probability 1 − 2^(1−n),
and resampling never leaves those, so that five can reach 94 %, four only 88 %."""


@dataclass(frozen=True)
class Known:
    """What is known of a number: it lies between `low` and `high`, and is exact where they are equal.

    >>> Known(40, 40).exact, Known(300, math.inf).exact
    (True, False)
    """

    low: float
    high: float

    @property
    def exact(self) -> bool:
        return self.low == self.high


@dataclass(frozen=True)
class Saved:
    """The share of labels saved against a baseline: 0.45 means 45 % fewer.

    `median` is over `pairs` seeds, `interval` its 95 % interval (None for less than ENOUGH seeds), `seeds` reaches from
    the least to the greatest seed, and `fewer` counts the seeds for which the method surely needed fewer labels.
    """

    median: Known
    interval: Known | None
    seeds: Known
    pairs: int
    fewer: int


def labels_to(sizes: Sequence[int], values: Sequence[float], target: float, *, higher: bool = True) -> int | None:
    """The first size at which a run reaches the target; None if it never does.

    >>> labels_to([20, 30, 40], [0.7, 0.91, 0.89], target=0.9)
    30
    """
    reached = (value >= target if higher else value <= target for value in values)
    return next((size for size, there in zip(sizes, reached, strict=True) if there), None)


def quartiles(runs: Iterable[Run], target: float, *, higher: bool = True) -> tuple[Known, Known, Known]:
    """Labels needed by a quarter, half and three quarters of the runs; what lies beyond a run's end is a bound.

    >>> [part.low for part in quartiles([([10, 20], [0.5, 0.9]), ([10, 20], [0.9, 0.9])], target=0.9)]
    [12.5, 15.0, 17.5]
    """
    needed = [_needed(run, target, higher) for run in runs]
    if not needed:
        raise ValueError("runs: there are none; pass at least one")
    low, high = (sorted(getattr(known, end) for known in needed) for end in ("low", "high"))
    first, middle, third = (Known(_quantile(low, share), _quantile(high, share)) for share in (0.25, 0.5, 0.75))
    return first, middle, third


def labels_saved(
    method: Mapping[int, Run],
    baseline: Mapping[int, Run],
    target: float,
    *,
    higher: bool = True,
    bootstrap: int = 10_000,
    seed: int = 0,
) -> Saved | None:
    """The share of labels that a method saves, from the runs of both by seed; None without a seed in common.

    >>> random = {0: ([10, 20, 40], [0.5, 0.7, 0.9]), 1: ([10, 20, 40], [0.5, 0.6, 0.9])}
    >>> labels_saved({0: ([10, 20], [0.5, 0.9]), 1: ([10, 20], [0.4, 0.9])}, random, target=0.9).median.low
    0.5
    """
    seeds = sorted(set(method) & set(baseline))
    if not seeds:
        return None
    saved = [_saved(_needed(method[one], target, higher), _needed(baseline[one], target, higher)) for one in seeds]
    low_n, high_n = (np.array([getattr(known, end) for known in saved]) for end in ("low", "high"))
    median = Known(_quantile(sorted(low_n), 0.5), _quantile(sorted(high_n), 0.5))
    interval = None
    if len(seeds) >= ENOUGH:
        chosen_S_n = np.random.default_rng(seed).integers(len(seeds), size=(bootstrap, len(seeds)))
        interval = Known(_point(_medians(low_n[chosen_S_n]), 0.025), _point(_medians(high_n[chosen_S_n]), 0.975))
    return Saved(median, interval, Known(float(low_n.min()), float(high_n.max())), len(seeds), int((low_n > 0).sum()))


def _needed(run: Run, target: float, higher: bool) -> Known:
    sizes, values = run
    reached = labels_to(sizes, values, target, higher=higher)
    if reached is not None:
        return Known(float(reached), float(reached))
    return Known(float(sizes[-1]) if len(sizes) else 0.0, math.inf)


def _saved(needed: Known, baseline: Known) -> Known:
    """1 − m/r at the ends of what is known of m and r."""
    if baseline.high == 0:  # the target was reached without a label: there is nothing to save
        return Known(0.0, 0.0) if needed.high == 0 else Known(-math.inf, 0.0)
    low = -math.inf if math.isinf(needed.high) or baseline.low == 0 else 1 - needed.high / baseline.low
    high = 1.0 if math.isinf(baseline.high) else 1 - needed.low / baseline.high
    return Known(low, high)


def _quantile(ordered: Sequence[float], share: float) -> float:
    """By straight lines between order statistics, of which some may be infinite."""
    position = (len(ordered) - 1) * share
    below = math.floor(position)
    part = position - below
    if part == 0:
        return float(ordered[below])
    return float(ordered[below] * (1 - part) + ordered[below + 1] * part)


def _medians(values_S_n: Floats) -> Floats:
    values_S_n = np.sort(values_S_n, axis=1)
    count = values_S_n.shape[1]
    medians_S: Floats = (values_S_n[:, (count - 1) // 2] + values_S_n[:, count // 2]) / 2
    return medians_S


def _point(values_S: Floats, share: float) -> float:
    """An order statistic, without interpolation: -inf stays -inf."""
    return float(np.quantile(values_S, share, method="inverted_cdf"))
