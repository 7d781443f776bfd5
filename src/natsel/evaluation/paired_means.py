"""A difference between two methods, averaged over data sets, with what seeds and what data sets leave open.

    d_vs = value of one method − value of the other, on data set v with seed s
    mean = 1/V Σ_v d_v          d_v = the mean of d_vs over the seeds of v: every data set counts alike

Two 95 % intervals belong to it. Both are those of Student's t, and each answers a question of its own:

    over seeds   would other seeds, on these data sets, say the same?     variance Σ_v var_s(d_vs)/S_v / V², with the
                 degrees of freedom of Welch and Satterthwaite
    over sets    would other data sets of this kind say the same?         variance var_v(d_v)/V, V − 1 degrees

An interval is None where a data set has one seed only, or where there is one data set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from natsel.evaluation.savings import Known

_LEVEL = 0.95


@dataclass(frozen=True)
class PairedMean:
    """A mean difference: of how many pairs of runs on how many data sets, and how many data sets are below 0."""

    mean: float
    over_seeds: Known | None
    over_sets: Known | None
    by_set: dict[str, float]
    pairs: int

    @property
    def below(self) -> int:
        """On how many data sets the mean difference is below 0."""
        return sum(one < 0 for one in self.by_set.values())


def paired_mean(differences: Mapping[str, Sequence[float]]) -> PairedMean | None:
    """The mean of differences by data set, each with a number for every seed; None where there are none.

    >>> found = paired_mean({"a": [-1.0, -3.0], "b": [-4.0, -4.0]})
    >>> found.mean, found.below, [round(end, 2) for end in (found.over_seeds.low, found.over_seeds.high)]
    (-3.0, 2, [-9.35, 3.35])
    """
    from scipy.stats import t

    known = {name: np.asarray(some, dtype=np.float64) for name, some in differences.items() if len(some)}
    if not known:
        return None
    by_set = {name: float(some.mean()) for name, some in known.items()}
    means_V, sets = np.array(list(by_set.values())), len(by_set)
    mean = float(means_V.mean())

    def interval(variance: float, degrees: float) -> Known:
        half = float(t.ppf((1 + _LEVEL) / 2, degrees) * np.sqrt(variance)) if variance else 0.0
        return Known(mean - half, mean + half)

    over_seeds = over_sets = None
    if all(len(some) > 1 for some in known.values()):
        parts_V = np.array([some.var(ddof=1) / len(some) for some in known.values()]) / sets**2
        freedoms_V = np.array([len(some) - 1 for some in known.values()])
        total = float(parts_V.sum())
        over_seeds = interval(total, total**2 / float((parts_V**2 / freedoms_V).sum()) if total else 1.0)
    if sets > 1:
        over_sets = interval(float(means_V.var(ddof=1)) / sets, sets - 1)
    return PairedMean(mean, over_seeds, over_sets, by_set, sum(map(len, known.values())))
