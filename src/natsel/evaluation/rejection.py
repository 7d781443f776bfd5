"""Rejection curves: how good predictions are on the points that a score finds most certain, and on ever more of them.

    subset_t = { n : score_n ≤ t }            a metric on each of ever larger subsets; the last one holds all points

Scores are higher for less certain points. Points with equal scores are kept or rejected together. A curve that does not
rise shows that the score does not know where the model is wrong; one that rises to the right in error *and* in
calibration error shows where predictions of the error break down.  docs/theory/calibration.md, 8; Kirsch & Gal 2022.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from natsel.evaluation.curves import area_under
from natsel.evaluation.probability_rows import Floats, one_per_point

Positions = np.ndarray[Any, np.dtype[np.int64]]
Metric = Callable[[Positions], float]
"""A number for the points at these positions, such as lambda kept: accuracy(log_mean_N_C[kept], labels_N[kept])."""


@dataclass(frozen=True, eq=False)
class RejectionCurve:
    """The values of metrics on growing subsets: `counts` points with a score of at most `thresholds`."""

    counts: Positions
    thresholds: Floats
    values: dict[str, Floats]

    @property
    def shares(self) -> Floats:
        """The share of points that each subset keeps."""
        return np.asarray(self.counts / self.counts[-1], dtype=np.float64)

    def area(self, metric: str) -> float:
        """The mean height of a curve from its smallest subset to all points; nan for a single subset."""
        if metric not in self.values:
            raise ValueError(f"metric: expected one of {', '.join(self.values)}, found {metric!r}; pass one of them")
        return area_under(self.counts.tolist(), self.values[metric].tolist())


def rejection_curve(scores_N: Any, metrics: Mapping[str, Metric], shares: Sequence[float] | int = 20) -> RejectionCurve:
    """Metrics on the most certain points, for each share of points kept (a number of steps, or shares in (0, 1]).

    A metric gets the positions of the points kept, in ascending order. All points are always the last subset.

    >>> right_N = np.array([1.0, 1.0, 0.0, 1.0])
    >>> found = rejection_curve([0.1, 0.2, 0.9, 0.3], {"accuracy": lambda kept: right_N[kept].mean()}, shares=4)
    >>> found.counts.tolist(), found.values["accuracy"].tolist(), found.area("accuracy")
    ([1, 2, 3, 4], [1.0, 1.0, 1.0, 0.75], 0.9583333333333334)
    """
    scores_N = one_per_point(scores_N, "scores_N")
    wanted = np.arange(1, shares + 1) / shares if isinstance(shares, int) and shares > 0 else np.asarray(shares)
    if wanted.ndim != 1 or len(wanted) == 0 or not bool(((wanted > 0) & (wanted <= 1)).all()):
        raise ValueError(
            f"shares: expected numbers above 0 and at most 1, or how many steps, found {shares!r}; 20 is usual"
        )
    ordered_N = np.sort(scores_N)
    # The least count that is the share or more; 0.3 · 10 is above 3 by rounding only.
    counts = np.ceil(np.append(wanted, 1.0) * len(scores_N) - 1e-9).astype(np.int64).clip(1)
    thresholds = np.unique(ordered_N[counts - 1])
    subsets = [np.flatnonzero(scores_N <= threshold) for threshold in thresholds]
    values = {name: np.array([float(metric(kept)) for kept in subsets]) for name, metric in metrics.items()}
    return RejectionCurve(np.array([len(kept) for kept in subsets]), thresholds, values)
