"""Labels saved: how many fewer labels per method needs than another for the same quality, seed by seed.

    needed = the first size at which a run reaches the target
    saved  = 1 − needed(method) / needed(baseline)                       one number per seed; their median is reported

A run that ends before the target has needed *more* than its last size: that is a bound, not a number, and is carried as
one. Each seed gives what is known of its saving, low ≤ saved ≤ high:

    both reach                 low = high = 1 − m/r
    only the method reaches    at least 1 − m/(last size of the baseline), at most 1
    only the baseline reaches  at most 1 − (last size of the method)/r
    neither                    nothing is known

The median of the lows and the median of the highs hold the median saving between them. The 95 % interval reaches from
an order statistic of the lows to one of the highs, those of the sign test: a seed lies below the true median with
probability ½ at most, and above it likewise, so that for any law of savings

    P[ x_(r) ≤ median ≤ x_(n+1−r) ] ≥ 1 − 2 Σ_{j<r} C(n, j) / 2^n          r the largest for which this is 95 % or more

Runs that may have stopped anywhere thus never flatter a method.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from natsel.evaluation.curves import Run

ENOUGH = 6
"""Seeds for a 95 % interval: the least and the greatest of n hold the true median with probability 1 − 2^(1−n), that is
97 % for six and only 94 % for five."""


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

    `median` is over `pairs` seeds, `interval` holds the true one 95 % of the time or more (None for less than ENOUGH
    seeds: there is none), `seeds` reaches from the least to the greatest seed and holds it with probability
    1 − 2^(1−pairs), and `fewer` counts the seeds for which the method surely needed fewer labels.
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
    if len(sizes) != len(values):
        raise ValueError(f"values: expected one for each of {len(sizes)} sizes, found {len(values)}")
    reached = (value >= target if higher else value <= target for value in values)
    return next((size for size, there in zip(sizes, reached, strict=True) if there), None)


def quartiles(runs: Iterable[Run], target: float, *, higher: bool = True) -> tuple[Known, Known, Known]:
    """Labels needed by a quarter, half and three quarters of the runs; what lies beyond a run's end is a bound.

    >>> [part.low for part in quartiles([([10, 20], [0.5, 0.9]), ([10, 20], [0.9, 0.9])], target=0.9)]
    [12.5, 15.0, 17.5]
    """
    needed = [needed_labels(run, target, higher) for run in runs]
    if not needed:
        raise ValueError("runs: there are none; pass at least one")
    low, high = (sorted(getattr(known, end) for known in needed) for end in ("low", "high"))
    first, middle, third = (Known(_quantile(low, share), _quantile(high, share)) for share in (0.25, 0.5, 0.75))
    return first, middle, third


def labels_saved(
    method: Mapping[int, Run], baseline: Mapping[int, Run], target: float, *, higher: bool = True
) -> Saved | None:
    """The share of labels that a method saves, from the runs of both by seed; None without a seed in common.

    >>> random = {0: ([10, 20, 40], [0.5, 0.7, 0.9]), 1: ([10, 20, 40], [0.5, 0.6, 0.9])}
    >>> labels_saved({0: ([10, 20], [0.5, 0.9]), 1: ([10, 20], [0.4, 0.9])}, random, target=0.9).median.low
    0.5
    """
    seeds = sorted(set(method) & set(baseline))
    if not seeds:
        return None
    known = [[needed_labels(runs[one], target, higher) for one in seeds] for runs in (method, baseline)]
    saved = [share_saved(one, other) for one, other in zip(*known, strict=True)]
    low, high = (sorted(getattr(known, end) for known in saved) for end in ("low", "high"))
    median = Known(_quantile(low, 0.5), _quantile(high, 0.5))
    return Saved(median, median_interval(low, high), Known(low[0], high[-1]), len(seeds), sum(one > 0 for one in low))


def median_interval(low: Iterable[float], high: Iterable[float] | None = None) -> Known | None:
    """An interval that holds the true median 95 % of the time or more, whatever the law; None for less than ENOUGH.

    Of numbers that are only known to lie between bounds, pass the lower and the upper ones.

    >>> median_interval([1, 2, 3, 4, 5, 6, 7, 8, 9]), median_interval([1, 2, 3, 4, 5])
    (Known(low=2.0, high=8.0), None)
    """
    lows = sorted(low)
    highs, count = lows if high is None else sorted(high), len(lows)
    # In whole numbers: 2 · tail / 2^n ≤ 1 / 20.
    rank = sum(40 * tail <= 2**count for tail in accumulate(math.comb(count, j) for j in range(count // 2)))
    if not rank:
        return None
    return Known(float(lows[rank - 1]), float(highs[-rank]))


def needed_labels(run: Run, target: float, higher: bool) -> Known:
    """What is known of the labels that a run needs."""
    sizes, values = run
    reached = labels_to(sizes, values, target, higher=higher)
    if reached is not None:
        return Known(float(reached), float(reached))
    return Known(float(sizes[-1]) if len(sizes) else 0.0, math.inf)


def share_saved(needed: Known, baseline: Known) -> Known:
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
