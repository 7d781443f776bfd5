"""Jointly Gaussian points whose labels are seen one after the other: what stays uncertain, and the rows that say so.

    w_t = (φ_i − Σ_s (w_s·φ_i) w_s) / √(s_i + noise_i),      s_n ← s_n − (φ_n·w_t)²

Row t of the Cholesky factor of the seen labels' covariance with all points is Φ w_t: only the D numbers of w_t are kept
and nothing of size N × k. With `known`, V and c of a posterior I − V diag(c) Vᵀ over the weights, points start from
that posterior instead of the prior.  Spec 06, Q5e; spec 09.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from natsel.beliefs import Belief, GaussianFeatures, GaussianSamples, Targets
from natsel.memory import chunked

_ROUNDING = 1e-14


def matched(belief: Belief, targets: Targets | None) -> tuple[GaussianFeatures, GaussianFeatures]:
    """Pool and targets as jointly Gaussian beliefs in one space of features, draws moment-matched.

    >>> belief = GaussianFeatures([[1.0, 0.0]])
    >>> matched(belief, Targets(belief))[1].features_N_D.tolist()
    [[1.0, 0.0]]
    """
    assert targets is not None
    found = [
        part.features() if isinstance(part, GaussianSamples) else part
        for part in (belief, targets.belief.to(belief.device))
    ]
    pool, other = found
    assert isinstance(pool, GaussianFeatures)
    assert isinstance(other, GaussianFeatures)
    if pool.features_N_D.shape[1] != other.features_N_D.shape[1]:
        raise ValueError(
            f"targets: they have {other.features_N_D.shape[1]} features and the pool {pool.features_N_D.shape[1]};"
            " believe about both with one fitted model, natsel.models.believe_both"
        )
    return pool, other


class Points:
    """Variances of points given the labels seen so far."""

    def __init__(self, features_N_D: Tensor, noise_N: Tensor, known: tuple[Tensor, Tensor] | None = None) -> None:
        self.features_N_D, self.noise_N, self.known = features_N_D, noise_N, known
        self.variance_N = self.unseen()
        self.rows_T_D = noise_N.new_empty(0, features_N_D.shape[1])

    def __len__(self) -> int:
        return len(self.noise_N)

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Features in float64 and noise of some points."""
        return self.features_N_D[positions].double(), self.noise_N[positions]

    def unseen(self) -> Tensor:
        """Var f of every point before any label was seen."""

        def work(features_n_D: Tensor) -> Tensor:
            variance_n = features_n_D.square().sum(1)
            return variance_n if self.known is None else (variance_n - self._told(features_n_D)).clamp_min_(0)

        return self._per_point(work)

    def told(self) -> Tensor:
        """How much of Var f goes by what is `known`: Σ_r c_r (φ·v_r)², never negative."""
        return self._per_point(self._told)

    def shrink(self, position: int) -> float:
        """The share of the variance of a point that its own label explains; no other point loses more."""
        left = float(self.variance_N[position])
        return left / (left + float(self.noise_N[position]))

    def row(self, position: int) -> Tensor | None:
        """w of a point's label; None where it has nothing left to tell, lest a row be made of rounding."""
        feature_D = self.features_N_D[position].double()
        left = float(self.variance_N[position])
        if not left > _ROUNDING * float(feature_D.square().sum()):
            return None
        away_D: Tensor = feature_D - self.rows_T_D.T @ (self.rows_T_D @ feature_D)
        if self.known is not None:
            vectors_R_D, shares_R = self.known
            away_D = away_D - vectors_R_D.T @ (shares_R * (vectors_R_D @ feature_D))
        return away_D / math.sqrt(left + float(self.noise_N[position]))

    def explain(self, row_D: Tensor, shrink: float) -> Tensor:
        """Take a row's share from every point, and say what each lost."""
        explained_N = self._per_point(lambda features_n_D: (features_n_D @ row_D).square())
        # Cauchy and Schwarz: no point can lose more than this, whatever rounding says.
        explained_N = torch.minimum(explained_N, self.variance_N * shrink)
        self.variance_N = self.variance_N - explained_N
        return explained_N

    def take(self, position: int, row_D: Tensor) -> Tensor:
        """See the label of one of these points."""
        explained_N = self.explain(row_D, self.shrink(position))
        self.rows_T_D = torch.cat([self.rows_T_D, row_D[None]])
        return explained_N

    def _told(self, features_n_D: Tensor) -> Tensor:
        assert self.known is not None
        vectors_R_D, shares_R = self.known
        return (features_n_D @ vectors_R_D.T).square() @ shares_R

    def _per_point(self, work: Callable[[Tensor], Tensor]) -> Tensor:
        count, width = self.features_N_D.shape
        return chunked(lambda part: work(self.features_N_D[part].double()), count, 24 * width, self.features_N_D.device)
