"""Jointly Gaussian points whose labels are seen one after the other: what stays uncertain, and the rows that say so.

    w_t = (φ_i − Σ_s (w_s·φ_i) w_s) / √(s_i + noise_i),      s_n ← s_n − (φ_n·w_t)²

Row t of the Cholesky factor of the seen labels' covariance with all points is Φ w_t: only the D numbers of w_t are kept
and nothing of size N × k. With `known`, V and σ² of a posterior I − V diag(σ²/(1+σ²)) Vᵀ over the weights, points start
from that posterior instead of the prior.  Spec 06, Q5e; spec 09.

What is left of a variance is a difference, so that noise of 1e-12 of a variance leaves gains only four digits. Where
noise is that small the points keep features of their own, and what a label settles is scaled down, not subtracted:

    φ_n ← φ_n − (φ_n·w) w / (1 + √κ),   w = φ_i / √(s_i + noise_i),   κ = noise_i / (s_i + noise_i),   s_n = ‖φ_n‖²
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from natsel.beliefs import Belief, GaussianFeatures, GaussianSamples, Targets
from natsel.memory import chunked, rows_per_chunk

_ROUNDING = 1e-14
# Var f / noise: from here on points keep features of their own, and up to here those leave gains six digits.
_SHARP, _MOST = 1e8, 1e20
# Shares of noise this small, and correlations this near to 1, leave 1 − ρ² too few digits.
_SMALL, _NEAR = 1e-6, 1e-3


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


def sharpened(*groups: "Points") -> bool:
    """Let points keep features of their own if noise is so small that differences of variances would be rounding.

    >>> [sharpened(Points(torch.ones(1, 1), torch.tensor([noise]))) for noise in (1e-3, 1e-12)]
    [False, True]
    """
    ratio = max(float((points.start_N / points.noise_N).max()) for points in groups)
    if not ratio <= _MOST:
        raise ValueError(
            f"noise: it is down to {1 / ratio:.1g} of the variance of a point, and below {1 / _MOST:.0g} rounding"
            " decides what is left to learn; give a larger noise"
        )
    if ratio > _SHARP:
        for points in groups:
            points.sharpen()
    return ratio > _SHARP


class Points:
    """Variances of points given the labels seen so far."""

    def __init__(self, features_N_D: Tensor, noise_N: Tensor, known: tuple[Tensor, Tensor] | None = None) -> None:
        self.features_N_D, self.noise_N, self.known = features_N_D, noise_N, known
        self.rows_T_D = noise_N.new_empty(0, features_N_D.shape[1])
        self.left_N_D: Tensor | None = None
        self.start_N = self.variance_N = self._per_point(self._unseen)

    def sharpen(self) -> None:
        """Keep features of their own from here on, before any label was seen."""
        self.left_N_D = self._per_point(self._settled)
        self.start_N = self.variance_N = self._lengths(self.left_N_D)

    def __len__(self) -> int:
        return len(self.noise_N)

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Features in float64 and noise of some points."""
        return self.features_N_D[positions].double(), self.noise_N[positions]

    def told(self) -> Tensor:
        """How much of Var f goes by what is `known`: Σ_r c_r (φ·v_r)², never negative."""
        return self._per_point(self._told)

    def keep(self, position: int) -> float:
        """The share of the variance of a point that its own label leaves; no other point keeps less."""
        noise = float(self.noise_N[position])
        return noise / (float(self.variance_N[position]) + noise)

    def row(self, position: int) -> Tensor | None:
        """w of a point's label; None where it has nothing left to tell, lest a row be made of rounding."""
        left, noise = float(self.variance_N[position]), float(self.noise_N[position])
        if self.left_N_D is not None:
            return self.left_N_D[position] / math.sqrt(left + noise) if left > 0 else None
        feature_D = self.features_N_D[position].double()
        if not left > _ROUNDING * float(feature_D.square().sum()):
            return None
        away_D: Tensor = feature_D - self.rows_T_D.T @ (self.rows_T_D @ feature_D)
        if self.known is not None:
            vectors_R_D, strength_R = self.known
            away_D = away_D - vectors_R_D.T @ (strength_R / (1 + strength_R) * (vectors_R_D @ feature_D))
        return away_D / math.sqrt(left + noise)

    def explain(self, row_D: Tensor, keep: float) -> Tensor:
        """Take a row's share from every point, and say what each lost."""
        before_N = self.variance_N
        if self.left_N_D is not None:
            along_N = self._per_point(lambda left_n_D: left_n_D @ row_D, self.left_N_D)
            self.left_N_D.addr_(along_N, row_D, alpha=-1 / (1 + math.sqrt(keep)))
            self.variance_N = torch.minimum(self._lengths(self.left_N_D), before_N)
            return before_N - self.variance_N
        explained_N = self._per_point(lambda features_n_D: (features_n_D @ row_D).square())
        # Cauchy and Schwarz: no point can lose more than this, whatever rounding says.
        explained_N = torch.minimum(explained_N, before_N * (1 - keep))
        self.variance_N = before_N - explained_N
        return explained_N

    def take(self, position: int, row_D: Tensor) -> Tensor:
        """See the label of one of these points."""
        explained_N = self.explain(row_D, self.keep(position))
        if self.left_N_D is None:
            self.rows_T_D = torch.cat([self.rows_T_D, row_D[None]])
        return explained_N

    def _unseen(self, features_n_D: Tensor) -> Tensor:
        """Var f before any label was seen."""
        variance_n = features_n_D.square().sum(1)
        return variance_n if self.known is None else (variance_n - self._told(features_n_D)).clamp_min_(0)

    def _told(self, features_n_D: Tensor) -> Tensor:
        assert self.known is not None
        vectors_R_D, strength_R = self.known
        return (features_n_D @ vectors_R_D.T).square() @ (strength_R / (1 + strength_R))

    def _settled(self, features_n_D: Tensor) -> Tensor:
        """Features before any label was seen: along each v less the share 1 − (1+σ²)^(−½) of them."""
        if self.known is None:
            return features_n_D.clone()
        vectors_R_D, strength_R = self.known
        loss_R = strength_R / (1 + strength_R + (1 + strength_R).sqrt())
        return features_n_D - (features_n_D @ vectors_R_D.T * loss_R) @ vectors_R_D

    def _lengths(self, left_N_D: Tensor) -> Tensor:
        return self._per_point(lambda left_n_D: left_n_D.square().sum(1), left_N_D)

    def _per_point(self, work: Callable[[Tensor], Tensor], of_N_D: Tensor | None = None) -> Tensor:
        features_N_D = self.features_N_D if of_N_D is None else of_N_D
        count, width = features_N_D.shape
        return chunked(lambda part: work(features_N_D[part].double()), count, 24 * width, features_N_D.device)


def log_open(white_n_D: Tensor, white_m_D: Tensor, open_n: Tensor, open_m: Tensor) -> Tensor:
    """ln(1 − ρ²) of labels with labels, [n, m], from features over the deviation of a label and the share of noise.

        1 − ρ² = o_n + (1 − o_n) o_m + ‖a‖²‖b‖² − (a·b)²,      a, b: features,  ‖a‖² = 1 − o_n

    The last two terms are never negative. Where almost all variance is shared and noise is small they are a difference
    of equal numbers, and are taken as ‖b‖² ‖a − (a·b/‖b‖²) b‖², pair by pair.

    >>> one = torch.ones(1, 1, dtype=torch.float64) / 2**0.5
    >>> log_open(one, one, torch.tensor([0.5]), torch.tensor([0.5])).exp()
    tensor([[0.7500]], dtype=torch.float64)
    """
    share_n_m = (white_n_D @ white_m_D.T).square_()
    if share_n_m.numel() == 0 or max(float(open_n.min()), float(open_m.min())) > _SMALL:
        return share_n_m.clamp_max_(1).neg_().log1p_()
    near_X_2 = (share_n_m > 1 - _NEAR).nonzero()
    found_n_m = share_n_m.clamp_max_(1).neg_().log1p_()
    for some_x_2 in torch.split(near_X_2, rows_per_chunk(32 * white_n_D.shape[1], white_n_D.device)):
        row_x, column_x = some_x_2.unbind(1)
        a_x_D, b_x_D = white_n_D[row_x], white_m_D[column_x]
        length_x = b_x_D.square().sum(1)
        apart_x_D = a_x_D - ((a_x_D * b_x_D).sum(1) / length_x)[:, None] * b_x_D
        noise_x = open_n[row_x] + (1 - open_n[row_x]) * open_m[column_x]
        found_n_m[row_x, column_x] = (noise_x + length_x * apart_x_D.square().sum(1)).log()
    return found_n_m
