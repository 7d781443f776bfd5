"""Do scores put points in the same order? Spearman's rank correlations of all pairs.

    ρ(a, b) = corr(rank a, rank b)          equal values share the mean of their ranks; infinities have ranks as well

docs/theory/data-pruning.md, 6.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from natsel.beliefs.arrays import as_tensor
from natsel.evaluation.curves import Floats
from natsel.options import Rows


@dataclass(frozen=True, eq=False)
class RankCorrelations:
    """The correlations of S scores; NaN where a score is the same for all points and has no order."""

    names: tuple[str, ...]
    matrix_S_S: Floats

    def between(self, one: str, other: str) -> float:
        """The correlation of two scores.

        >>> rank_correlations({"a": [1, 2, 3], "b": [9, 5, 1]}).between("a", "b")
        -1.0
        """
        for name in (one, other):
            if name not in self.names:
                raise ValueError(f"name: there is no score {name!r}; there are {', '.join(self.names)}")
        return float(self.matrix_S_S[self.names.index(one), self.names.index(other)])


def rank_correlations(scores: Mapping[str, Rows]) -> RankCorrelations:
    """Spearman's correlation of each pair of scores, one number per point each.

    >>> rank_correlations({"a": [1, 2, 2, 3], "b": [1, 3, 2, 4]}).matrix_S_S.round(4).tolist()
    [[1.0, 0.9487], [0.9487, 1.0]]
    """
    from scipy.stats import rankdata

    if not scores:
        raise ValueError("scores: found none; pass a dict of name and scores")
    columns = {name: as_tensor(values, name).double().cpu().numpy() for name, values in scores.items()}
    count = len(next(iter(columns.values())))
    for name, column in columns.items():
        if column.shape != (count,) or count < 2:
            raise ValueError(
                f"{name}: expected one number for each of the same two or more points, found shape {list(column.shape)}"
            )
        if np.isnan(column).any():
            raise ValueError(
                f"{name}: found NaN at point {int(np.isnan(column).argmax())}, which has no rank; leave out"
            )
    ranks_S_N = np.stack([rankdata(column) for column in columns.values()])
    centred_S_N = ranks_S_N - ranks_S_N.mean(1, keepdims=True)
    square_S = (centred_S_N**2).sum(1)
    with np.errstate(invalid="ignore"):
        matrix_S_S = (centred_S_N @ centred_S_N.T) / np.sqrt(np.outer(square_S, square_S))
    np.fill_diagonal(matrix_S_S, np.where(square_S > 0, 1.0, np.nan))
    return RankCorrelations(tuple(columns), matrix_S_S.clip(-1.0, 1.0))
