"""Gaussian beliefs: draws of Gaussian predictions, and points that are jointly Gaussian through their features.

    GaussianSamples    y | x_n, ω_k ~ N(mean_nk, variance_nk)
    GaussianFeatures   f ~ N(0, Φ Φᵀ),  y_n = f_n + ε,  Var ε = noise            Φ = features_N_D

Features cover kernels (through a square root), gradients, last layers, Gaussian processes and black boxes: centred
member predictions are features. `noise` is always a variance.  Specs 06, 08, 09.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from natsel.beliefs.arrays import as_tensor
from natsel.beliefs.base import Belief
from natsel.beliefs.draws import checked_ids, checked_log_weights


@dataclass(frozen=True, eq=False)
class GaussianSamples(Belief):
    """What K draws of a regressor say about N points: a mean and a noise variance for each.

    >>> len(GaussianSamples([[0.0, 1.0]], [[0.1, 0.1]]))
    1
    """

    mean_N_K: Tensor
    variance_N_K: Tensor
    log_weights_K: Tensor = None  # type: ignore[assignment]
    draws_id: str | None = None
    ids_N: Tensor = None  # type: ignore[assignment]

    points: ClassVar[tuple[str, ...]] = ("mean_N_K", "variance_N_K", "ids_N")
    draws: ClassVar[tuple[str, ...]] = ("log_weights_K",)

    def __post_init__(self) -> None:
        mean_N_K = as_tensor(self.mean_N_K, "mean_N_K")
        _check_matrix(mean_N_K, "mean_N_K", "points, draws")
        variance_N_K = _positive(self.variance_N_K, "variance_N_K", mean_N_K, tuple(mean_N_K.shape))
        self._set(
            mean_N_K=mean_N_K,
            variance_N_K=variance_N_K,
            log_weights_K=checked_log_weights(self.log_weights_K, mean_N_K.shape[1], mean_N_K.device),
            ids_N=checked_ids(self.ids_N, mean_N_K.shape[0], mean_N_K.device),
        )

    def features(self) -> "GaussianFeatures":
        """The jointly Gaussian belief with the same first two moments: Φ_nk = √w_k (mean_nk − Σ_k w_k mean_nk).

        >>> GaussianSamples([[0.0, 2.0]], [[0.5, 0.5]]).features().noise_N.tolist()
        [0.5]
        """
        weights_K = self.log_weights_K.exp()
        mean_N_K = self.mean_N_K.double()
        centred_N_K = mean_N_K - (mean_N_K @ weights_K)[:, None]
        noise_N = self.variance_N_K.double() @ weights_K
        return GaussianFeatures(centred_N_K * weights_K.sqrt(), noise_N, self.draws_id, self.ids_N)


@dataclass(frozen=True, eq=False)
class GaussianFeatures(Belief):
    """N jointly Gaussian points with covariance Φ Φᵀ, seen through noise of the given variance (one, or one a point).

    >>> GaussianFeatures([[1.0, 0.0], [0.0, 1.0]], noise=0.5).noise_N.tolist()
    [0.5, 0.5]
    """

    features_N_D: Tensor
    noise: Any = 1.0
    draws_id: str | None = None
    ids_N: Tensor = None  # type: ignore[assignment]

    points: ClassVar[tuple[str, ...]] = ("features_N_D", "noise", "ids_N")

    def __post_init__(self) -> None:
        features_N_D = as_tensor(self.features_N_D, "features_N_D")
        _check_matrix(features_N_D, "features_N_D", "points, features")
        noise_N = _positive(self.noise, "noise", features_N_D, (features_N_D.shape[0],))
        self._set(
            features_N_D=features_N_D,
            noise=noise_N.double(),
            ids_N=checked_ids(self.ids_N, features_N_D.shape[0], features_N_D.device),
        )

    @property
    def noise_N(self) -> Tensor:
        """The noise variance of each point."""
        noise_N: Tensor = self.noise
        return noise_N


def _check_matrix(array: Tensor, name: str, axes: str) -> None:
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(
            f"{name}: expected two axes ({axes}), found shape {tuple(array.shape)}; reshape it to a matrix"
        )
    if not bool(array.isfinite().all()):
        row = int(array.isfinite().all(1).logical_not().nonzero()[0])
        raise ValueError(f"{name}: found NaN or infinity in row {row}; check the model's output before scoring")


def _positive(array: Any, name: str, like: Tensor, shape: tuple[int, ...]) -> Tensor:
    values = as_tensor(array, name).to(like.device)
    try:
        values = torch.broadcast_to(values, shape)
    except RuntimeError:
        raise ValueError(
            f"{name}: expected shape {shape}, found {tuple(values.shape)}; pass one value or one each"
        ) from None
    wrong = values[~((values > 0) & values.isfinite())]
    if len(wrong):
        raise ValueError(
            f"{name}: variances must be positive and finite, found {float(wrong[0]):.4g}; add a noise floor"
        )
    return values
