"""How densities of features are estimated: settings that fit, and what was fitted.

    GaussianDensity      one Gaussian per class (natsel.beliefs.GaussianDiscriminant)
    NeighbourDensity     log q(z) = log k − log T − log V_D − D log r_k(z)

r_k(z) is the distance to the k-th nearest of T training points, V_D the volume of the unit ball. Nearest neighbours
order points by that distance (Sun et al. 2022); Gaussians look at the shape of each class as well.
docs/theory/deterministic-uncertainty.md, 2 and 5.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, Self

import torch
from torch import Tensor

from natsel.beliefs.arrays import as_tensor, check_numbers
from natsel.beliefs.gaussian_discriminant import GaussianDiscriminant, Prior
from natsel.information.class_moments import Scatter
from natsel.memory import chunked
from natsel.options import check_options


class FittedDensity(Protocol):
    """A density that was fitted to features."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on it."""
        ...

    def log_density(self, features_N_D: Tensor) -> Tensor:
        """log q(z_n), N values in float64."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """All that `load` of the settings needs."""
        ...


class DensityEstimator(Protocol):
    """Settings of a density: a frozen value."""

    def fit(self, features_N_D: Tensor, labels_N: Tensor, classes: int) -> FittedDensity:
        """The density of features with labels 0 … classes − 1."""
        ...

    def load(self, tensors: Mapping[str, Tensor]) -> FittedDensity:
        """What was fitted before."""
        ...


@dataclass(frozen=True)
class GaussianDensity:
    """One Gaussian per class; the settings are those of `GaussianDiscriminant.fit`.

    >>> GaussianDensity("shared").fit(torch.tensor([[0.0], [1.0], [5.0]]), torch.tensor([0, 0, 1]), 2).classes
    2
    """

    covariance: Scatter = "per-class"
    shrinkage: float = 0.0
    prior: Prior = "empirical"
    ridge: float | Literal["auto"] = "auto"

    def fit(self, features_N_D: Tensor, labels_N: Tensor, classes: int) -> GaussianDiscriminant:
        """The Gaussians of features with labels."""
        return GaussianDiscriminant.fit(
            *(features_N_D, labels_N, classes),
            covariance=self.covariance,
            shrinkage=self.shrinkage,
            prior=self.prior,
            ridge=self.ridge,
        )

    def load(self, tensors: Mapping[str, Tensor]) -> GaussianDiscriminant:
        """Gaussians that were fitted before."""
        return GaussianDiscriminant.from_tensors(tensors)


@dataclass(frozen=True)
class NeighbourDensity:
    """The distance to the k-th nearest training point; `normalise` looks at directions of features alone.

    >>> density = NeighbourDensity(k=1, normalise=False).fit(torch.tensor([[0.0], [1.0]]), torch.tensor([0, 1]), 2)
    >>> density.log_density(torch.tensor([[3.0]])).round(decimals=4).tolist()  # 1 / (2 points · length 2 · distance 2)
    [-2.0794]
    """

    k: int = 50
    normalise: bool = True

    def __post_init__(self) -> None:
        check_options(self, k=1)

    def fit(self, features_N_D: Tensor, labels_N: Tensor, classes: int) -> "Neighbours":
        """Keep the features; with fewer than k of them, the farthest counts."""
        features_N_D = as_tensor(features_N_D, "features_N_D")
        if features_N_D.ndim != 2 or 0 in features_N_D.shape:
            found = tuple(features_N_D.shape)
            raise ValueError(f"features_N_D: expected points × features, found shape {found}; pass at least one point")
        check_numbers(features_N_D, "features_N_D")
        return Neighbours(_directions(features_N_D) if self.normalise else features_N_D, self)

    def load(self, tensors: Mapping[str, Tensor]) -> "Neighbours":
        """Features that were kept before."""
        return Neighbours(tensors["features_T_D"], self)


@dataclass(frozen=True, eq=False)
class Neighbours:
    """T training points, and how densities are read from the distances to them."""

    features_T_D: Tensor
    settings: NeighbourDensity
    warnings: tuple[str, ...] = ()

    def log_density(self, features_N_D: Tensor) -> Tensor:
        """log q(z_n) of the k-nearest-neighbour estimate, N values."""
        count, width = self.features_T_D.shape
        features_N_D = as_tensor(features_N_D, "features_N_D")
        if features_N_D.ndim != 2 or features_N_D.shape[1] != width:
            found = tuple(features_N_D.shape)
            raise ValueError(
                f"features_N_D: expected {width} features per point, found shape {found}; pass features of the network"
                " that the density was fitted to"
            )
        check_numbers(features_N_D, "features_N_D")
        k = min(self.settings.k, count)
        volume = width / 2 * math.log(math.pi) - math.lgamma(width / 2 + 1)
        # Distances are roots of differences of squares, which cancel far from 0: all is measured from the middle.
        middle_D = self.features_T_D.double().mean(0)
        held_T_D = self.features_T_D.double() - middle_D
        spread = held_T_D.square().sum(1).mean().sqrt().clamp_min(1e-100)

        def work(part: slice) -> Tensor:
            rows_n_D = features_N_D[part].to(held_T_D.device)
            rows_n_D = (_directions(rows_n_D) if self.settings.normalise else rows_n_D).double() - middle_D
            radius_n = torch.cdist(rows_n_D, held_T_D, compute_mode="use_mm_for_euclid_dist").kthvalue(k, 1).values
            # A copy has an infinite density: the smallest distance that products in float64 can tell stands for 0.
            least_n = 1e-7 * rows_n_D.norm(dim=1).maximum(spread)
            return math.log(k / count) - volume - width * torch.maximum(radius_n, least_n).log()

        return chunked(work, len(features_N_D), 8 * (2 * count + 2 * width), features_N_D.device)

    def tensors(self) -> dict[str, Tensor]:
        """All that `load` needs."""
        return {"features_T_D": self.features_T_D}

    def to(self, device: torch.device | str) -> Self:
        """The same on another device."""
        return type(self)(self.features_T_D.to(device), self.settings)


def _directions(features_n_D: Tensor) -> Tensor:
    rows_n_D = features_n_D.double()
    length_n_1 = torch.linalg.vector_norm(rows_n_D, dim=1, keepdim=True)
    directions_n_D: Tensor = rows_n_D / length_n_1.clamp_min(1e-100)
    return directions_n_D.to(features_n_D.dtype)
