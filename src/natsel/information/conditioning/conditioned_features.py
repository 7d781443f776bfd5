"""Jointly Gaussian points whose labels are seen one after the other: what stays uncertain, and the rows that say so.

    w_t = (φ_i − Σ_s (w_s·φ_i) w_s) / √(s_i + noise_i),      s_n ← s_n − (φ_n·w_t)²

Row t of the Cholesky factor of the seen labels' covariance with all points is Φ w_t: only the D numbers of w_t are kept
and nothing of size N × k. With `known`, what labels elsewhere settled, points start from that posterior of the weights
instead of the prior.
docs/theory/epig-jepig.md, 6; Kirsch 2023, black-box batch active learning.

What is left of a variance is a difference, so that noise of 1e-12 of a variance leaves gains only four digits. Where
noise is that small the points keep features of their own, and what a label settles is scaled down, not subtracted:

    φ_n ← φ_n − (φ_n·w) w / (1 + √κ),   w = φ_i / √(s_i + noise_i),   κ = noise_i / (s_i + noise_i),   s_n = ‖φ_n‖²
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from natsel.information.conditioning.one_step import (
    explained_by_label,
    is_rounding,
    kept_share,
    left_after_label,
)
from natsel.information.conditioning.settled import Settled
from natsel.memory import chunked, fits

Positions = Tensor | slice | list[int]

# Var f / noise: from here on points keep features of their own, and up to here those leave gains six digits.
SHARP, _MOST = 1e8, 1e20
# Tables of N × D that a state may keep at once: before and after the targets, or of points and of targets twice.
_TABLES = 4


class Features(Protocol):
    """A table [N, D] that is held, or made where it is looked at."""

    @property
    def shape(self) -> torch.Size: ...
    def __getitem__(self, positions: Positions) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Centred:
    """Φ of draws with weights, √w_k (mean_nk − Σ_k w_k mean_nk), made where it is looked at.

    >>> Centred(torch.tensor([[0.0, 2.0]]), torch.tensor([1.0, 0.0], dtype=torch.float64))[0].tolist()
    [0.0, 0.0]
    """

    mean_N_K: Tensor
    weights_K: Tensor

    def __getitem__(self, positions: Positions) -> Tensor:
        mean_n_K = self.mean_N_K[positions].double()
        return (mean_n_K - (mean_n_K @ self.weights_K)[..., None]) * self.weights_K.sqrt()

    @property
    def shape(self) -> torch.Size:
        """N × K."""
        return self.mean_N_K.shape


def refuse_no_noise(ratio: float) -> None:
    """Refuse variances that are so many times the noise that rounding would decide."""
    if not ratio <= _MOST:
        raise ValueError(
            f"noise: it is down to {1 / ratio:.1g} of the variance of a point, and below {1 / _MOST:.0g} rounding"
            " decides what is left to learn; give a larger noise"
        )


def sharpened(*groups: "ConditionedFeatures") -> bool:
    """Let points keep features of their own if noise is so small that differences of variances would be rounding.

    >>> [sharpened(ConditionedFeatures(torch.ones(1, 1), torch.tensor([noise]))) for noise in (1e-3, 1e-12)]
    [False, True]
    """
    ratio = max(float((points.start_N / points.noise_N).max()) for points in groups)
    refuse_no_noise(ratio)
    if ratio > SHARP:
        for points in groups:
            points.sharpen()
    return ratio > SHARP


class ConditionedFeatures:
    """Variances of points given the labels seen so far."""

    def __init__(self, features_N_D: Features, noise_N: Tensor, known: Settled | None = None) -> None:
        self.features_N_D, self.noise_N, self.known = features_N_D, noise_N, known
        self.rows_T_D = noise_N.new_empty(0, features_N_D.shape[1])
        self.sharp = False
        self.shares: list[float] = []
        self.left_N_D: Tensor | None = None
        self.start_N = self.variance_N = self._per_point(lambda part: self._unseen(self._features(part)))

    def sharpen(self) -> None:
        """Let features be scaled down from here on, before any label was seen."""
        self.sharp = True
        self.keep_left()
        self.start_N = self.variance_N = self._lengths()

    def keep_left(self) -> None:
        """Keep what is left of features, where that fits the memory budget; else it is made again when asked for."""
        if fits(8 * _TABLES * self.features_N_D.shape[0] * self.features_N_D.shape[1]):
            self.left_N_D = self._per_point(self.left)

    def __len__(self) -> int:
        return len(self.noise_N)

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Features in float64 and noise of some points."""
        return self._features(positions), self.noise_N[positions]

    def left(self, positions: Positions) -> Tensor:
        """What labels left of the features of some points, [n, D]: φ − Σ_t (φ·w_t) w_t, or scaled down where sharp."""
        if self.left_N_D is not None:
            return self.left_N_D[positions]
        features_n_D = self._features(positions)
        if not self.sharp:
            return features_n_D - (features_n_D @ self.rows_T_D.T) @ self.rows_T_D
        left_n_D = self._settled(features_n_D)
        for row_D, share in zip(self.rows_T_D, self.shares, strict=True):
            left_n_D.addr_(left_n_D @ row_D, row_D, alpha=-share)
        return left_n_D

    def explained_variances(self) -> Tensor:
        """How much of Var f goes by what is `known`: Σ_r c_r (φ·v_r)², never negative."""
        known = self.known
        if known is None:
            return torch.zeros_like(self.noise_N)
        return self._per_point(lambda part: known.explained(self._features(part)))

    def keep(self, position: int) -> float:
        """The share of the variance of a point that its own label leaves; no other point keeps less."""
        return kept_share(float(self.variance_N[position]), float(self.noise_N[position]))

    def row(self, position: int) -> Tensor | None:
        """w of a point's label; None where it has nothing left to tell, lest a row be made of rounding."""
        left, noise = float(self.variance_N[position]), float(self.noise_N[position])
        if self.sharp:
            return self.left([position])[0] / math.sqrt(left + noise) if left > 0 else None
        feature_D = self._features([position])[0]
        if is_rounding(left, float(feature_D.square().sum())):
            return None
        away_D: Tensor = feature_D - self.rows_T_D.T @ (self.rows_T_D @ feature_D)
        if self.known is not None:
            away_D = away_D - self.known.along(feature_D)
        return away_D / math.sqrt(left + noise)

    def explain(self, row_D: Tensor, keep: float) -> Tensor:
        """Take a row's share from every point, and say what each lost."""
        before_N, share = self.variance_N, 1 / (1 + math.sqrt(keep)) if self.sharp else 1.0
        features = self.left if self.sharp and self.left_N_D is not None else self._features
        along_N = before_N[:0]
        if self.left_N_D is not None or not self.sharp:
            along_N = self._per_point(lambda part: features(part) @ row_D)
        if self.left_N_D is not None:
            self.left_N_D.addr_(along_N, row_D, alpha=-share)
        self.rows_T_D = torch.cat([self.rows_T_D, row_D[None]])
        self.shares.append(share)
        if self.sharp:
            self.variance_N = torch.minimum(self._lengths(), before_N)
            return before_N - self.variance_N
        square_N = along_N.square_()
        self.variance_N = left_after_label(before_N, square_N, keep)
        return explained_by_label(before_N, square_N, keep)

    def take(self, position: int, row_D: Tensor) -> Tensor:
        """See the label of one of these points."""
        return self.explain(row_D, self.keep(position))

    def _features(self, positions: Positions) -> Tensor:
        return self.features_N_D[positions].double()

    def _unseen(self, features_n_D: Tensor) -> Tensor:
        """Var f before any label was seen."""
        variance_n = features_n_D.square().sum(1)
        return variance_n if self.known is None else (variance_n - self.known.explained(features_n_D)).clamp_min_(0)

    def _settled(self, features_n_D: Tensor) -> Tensor:
        """Features before any label was seen: along each v less the share 1 − (1+σ²)^(−½) of them."""
        return features_n_D.clone() if self.known is None else self.known.scaled_down(features_n_D)

    def _lengths(self) -> Tensor:
        return self._per_point(lambda part: self.left(part).square().sum(1))

    def _per_point(self, work: Callable[[slice], Tensor]) -> Tensor:
        count, width = self.features_N_D.shape
        return chunked(work, count, 32 * width, self.noise_N.device)
