"""Gaussian discriminant analysis: one Gaussian per class in the space of features, fitted in closed form.

    q(z | c) = N(z; μ_c, Σ_c)                   log q(z | c) = −½ |W_c (z − μ_c)|² + log |W_c| − D/2 log 2π
    q(z)     = Σ_c π_c q(z | c)                 W_c: inverse of the Cholesky factor of Σ_c + r I

−log q(z) says how unfamiliar a point is (Mukhoti et al. 2023). log q(c | z) does not say how ambiguous it is; the
softmax of the network does.

Everything is in float64 and in logarithms, so that no density underflows. Where some Σ_c is singular (fewer points than
features, or features that never change) all get the ridge r = ε tr Σ / D, Σ the covariance within all classes, with the
smallest ε of 0, 1e-10, 1e-9 … that makes every Σ_c positive definite. One ridge for all keeps classes comparable: each
direction without spread adds the same to all log densities. As it decides how large these are, it is kept and told.
docs/theory/deterministic-uncertainty.md, 2 to 4.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import Tensor

from natsel.beliefs.arrays import ArrayLike, as_device, as_integers, as_tensor, check_numbers
from natsel.information.class_labels import class_labels
from natsel.information.class_moments import ClassMoments, Scatter
from natsel.memory import chunked
from natsel.options import Rows

Prior = Literal["empirical", "uniform", "none"]

_RIDGES = (0.0, *(10.0**-power for power in range(10, 0, -1)))
# A pivot of a Cholesky factor below this share of the variance it started from is rounding.
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class GaussianDiscriminant:
    """One Gaussian per class, and how likely each class is.

    `whitening` is W_c: [C, D, D], [1, D, D] where all classes share one covariance, or [C, D] where it is diagonal.
    `log_prior_C` is log π_c, −∞ for a class without points, and 0 for all others where no prior was wanted.
    `ridge` is what was added to the diagonal of every covariance.

    >>> features = [[0.0], [1.0], [2.0], [7.0], [8.0], [9.0]]
    >>> density = GaussianDiscriminant.fit(features, [0, 0, 0, 1, 1, 1])
    >>> density.log_density([[1.0], [50.0]]).round(decimals=2).tolist()
    [-1.61, -883.61]
    """

    means_C_D: Tensor
    whitening: Tensor
    log_det_C: Tensor
    log_prior_C: Tensor
    ridge: Tensor
    counts_C: Tensor

    @classmethod
    def fit(
        cls,
        features_N_D: ArrayLike,
        labels_N: ArrayLike,
        classes: int | None = None,
        *,
        covariance: Scatter = "per-class",
        shrinkage: float = 0.0,
        prior: Prior | Rows = "empirical",
        ddof: int = 1,
        ridge: float | Literal["auto"] = "auto",
    ) -> Self:
        """Fit to features with labels 0 … classes − 1 (None: as many as occur).

        `covariance`: "per-class", "shared" (as in the Mahalanobis distance of Lee et al. 2018) or "diagonal".
        `shrinkage` λ: Σ_c becomes (1 − λ) Σ_c + λ Σ_shared, for classes with fewer points than there are features.
        `prior`: π_c is the share of class c, 1/C, no factor at all, or C numbers that sum to one.
        `ddof`: covariances are sums over n_c − ddof; 0 has the highest likelihood.
        `ridge`: ε of the ridge ε tr Σ / D, or "auto" for the smallest that is needed.
        """
        features_N_D = as_tensor(features_N_D, "features_N_D")
        labels_N = as_integers(labels_N, "labels_N").to(features_N_D.device)
        if covariance not in ("per-class", "shared", "diagonal"):
            raise ValueError(f"covariance: expected per-class, shared or diagonal, found {covariance!r}; choose one")
        if len(labels_N) == 0:
            raise ValueError("labels_N: found no points; pass the features of the training set and their labels")
        if features_N_D.ndim == 2:
            check_numbers(features_N_D, "features_N_D")
        classes = max(1, int(labels_N.max()) + 1) if classes is None else classes
        moments = ClassMoments.of(features_N_D, labels_N, classes, covariance)
        return cls.of(moments, shrinkage=shrinkage, prior=prior, ddof=ddof, ridge=ridge)

    @classmethod
    def of(
        cls,
        moments: ClassMoments,
        *,
        shrinkage: float = 0.0,
        prior: Prior | Rows = "empirical",
        ddof: int = 1,
        ridge: float | Literal["auto"] = "auto",
    ) -> Self:
        """From moments, which may come from several passes or machines; the settings are those of `fit`."""
        if not 0 <= shrinkage <= 1:
            raise ValueError(f"shrinkage: expected a share from 0 to 1, found {shrinkage}; 0 is none")
        if shrinkage and moments.kind == "shared":
            raise ValueError('shrinkage: it goes to the shared covariance, which covariance="shared" is; leave it out')
        if ridge != "auto" and not (isinstance(ridge, int | float) and 0 <= ridge < math.inf):
            raise ValueError(f"ridge: expected auto or a number from 0 on, found {ridge!r}; auto is the default")
        if ddof not in (0, 1):
            raise ValueError(f"ddof: expected 0 or 1, found {ddof!r}; covariances are sums over n - ddof")
        if not bool((moments.counts_C > 0).any()):
            raise ValueError("moments: found no points; pass those of a training set")
        log_prior_C = _log_prior(prior, moments.counts_C)
        pooled = moments.pooled(ddof)
        if not bool(_diagonal(pooled).mean() > torch.finfo(torch.float64).tiny):
            raise ValueError(
                "features_N_D: all points of a class are equal, in every class, so that there is no density; check them"
            )
        for share in _RIDGES if ridge == "auto" else (float(ridge),):
            added = share * _diagonal(pooled).mean()
            found = _whitened(moments, pooled, shrinkage, ddof, added)
            if found is not None:
                return cls(moments.means_C_D, *found, log_prior_C, added, moments.counts_C)
        tried, remedy = ("any up to 0.1", "use shrinkage= or covariance='shared'")
        if ridge != "auto":
            tried, remedy = f"{ridge:g}", "use auto"
        raise ValueError(f"ridge: found a covariance that is singular with {tried}; {remedy}")

    @property
    def classes(self) -> int:
        """How many classes there are, those without points too."""
        return len(self.means_C_D)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on the densities."""
        if not bool(self.ridge > 0):
            return ()
        width, counts = self.means_C_D.shape[1], [int(count) for count in self.counts_C.tolist()]
        few = min(count for count in counts if count)
        found = f"class {counts.index(few)} has {few} points in {width} dimensions"
        shared = len(self.whitening) == 1 and self.whitening.ndim == 3
        remedy = "label more" if shared else 'use shrinkage= or covariance="shared", or label more'
        if few > width:
            found, remedy = "features of a class never change, or repeat others", "leave such features out"
        return (
            f"density: a covariance is singular ({found}), and a ridge of {float(self.ridge):.1e} decides densities;"
            f" their order has a meaning, their size has none; {remedy}",
        )

    def class_log_densities(self, features_N_D: ArrayLike) -> Tensor:
        """log q(z_n | c), N × C, in chunks that keep to the memory budget; −∞ for a class without points."""
        features_N_D = self._checked(features_N_D)
        classes, width = self.means_C_D.shape
        constant_C = self.log_det_C - width / 2 * math.log(2 * math.pi)

        def work(part: slice) -> Tensor:
            log_q_n_C = self._squared_distances(features_N_D[part].double()).mul_(-0.5).add_(constant_C)
            return log_q_n_C.masked_fill_(self.counts_C == 0, -math.inf)

        return chunked(work, len(features_N_D), 8 * (4 * width + 2 * classes), features_N_D.device)

    def log_density(self, features_N_D: ArrayLike) -> Tensor:
        """log q(z_n) = log Σ_c π_c q(z_n | c), N values."""
        return (self.class_log_densities(features_N_D) + self.log_prior_C).logsumexp(1)

    def log_posterior(self, features_N_D: ArrayLike) -> Tensor:
        """log q(c | z_n), N × C: what the Gaussians say about the class; too sure where classes overlap."""
        return (self.class_log_densities(features_N_D) + self.log_prior_C).log_softmax(1)

    def mahalanobis(self, features_N_D: ArrayLike) -> Tensor:
        """max_c −(z_n − μ_c)ᵀ Σ_c⁻¹ (z_n − μ_c), N values: minus the squared distance of the nearest class."""
        features_N_D = self._checked(features_N_D)

        def work(part: slice) -> Tensor:
            away_n_C = self._squared_distances(features_N_D[part].double())
            return away_n_C.masked_fill_(self.counts_C == 0, math.inf).amin(1).neg_()

        classes, width = self.means_C_D.shape
        return chunked(work, len(features_N_D), 8 * (4 * width + 2 * classes), features_N_D.device)

    def cross_entropies(self, features_N_D: ArrayLike, labels_N: ArrayLike) -> tuple[float, float, float]:
        """Mean of −log q(y | z), −log q(y, z) and −log q(z) over points with labels; the first and the last add up.

        >>> density = GaussianDiscriminant.fit([[0.0], [1.0], [5.0], [7.0]], [0, 0, 1, 1])
        >>> given, both, alone = density.cross_entropies([[0.5], [6.0]], [0, 1])
        >>> abs(given + alone - both) < 1e-12
        True
        """
        joint_N_C = self.class_log_densities(features_N_D) + self.log_prior_C
        if len(joint_N_C) == 0:
            raise ValueError("features_N_D: found no points to take a mean over; pass at least one")
        labels_N = as_integers(labels_N, "labels_N").to(joint_N_C.device)
        labels_N = class_labels(labels_N, len(joint_N_C), self.classes, "labels_N")
        joint_N, alone_N = joint_N_C.gather(1, labels_N[:, None])[:, 0], joint_N_C.logsumexp(1)
        return float((alone_N - joint_N).mean()), float(-joint_N.mean()), float(-alone_N.mean())

    def tensors(self) -> dict[str, Tensor]:
        """All that `from_tensors` needs."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """What `tensors` was called on.

        >>> density = GaussianDiscriminant.fit([[0.0], [1.0], [3.0]], [0, 0, 0])
        >>> GaussianDiscriminant.from_tensors(density.tensors()).counts_C.tolist()
        [3.0]
        """
        return cls(**{name: tensors[name] for name in cls.__dataclass_fields__})

    def to(self, device: torch.device | str) -> Self:
        """The same on another device."""
        device = as_device(device)
        return type(self)(**{name: tensor.to(device) for name, tensor in self.tensors().items()})

    def _squared_distances(self, rows_n_D: Tensor) -> Tensor:
        """|W_c (z_n − μ_c)|², n × C."""
        away_n_C = rows_n_D.new_empty(len(rows_n_D), self.classes)
        if len(self.whitening) == 1 and self.whitening.ndim == 3 and self.classes > 1:
            # One product for all classes; from the mean of all, so that squares do not cancel.
            middle_D = self.means_C_D.mean(0)
            seen_n_D = (rows_n_D - middle_D) @ self.whitening[0].T
            means_C_D = (self.means_C_D - middle_D) @ self.whitening[0].T
            for number, mean_D in enumerate(means_C_D):
                away_n_C[:, number] = (seen_n_D - mean_D).square_().sum(1)
            return away_n_C
        for number, (mean_D, whitening) in enumerate(zip(self.means_C_D, self.whitening, strict=True)):
            apart_n_D = rows_n_D - mean_D
            seen_n_D = apart_n_D * whitening if whitening.ndim == 1 else apart_n_D @ whitening.T
            away_n_C[:, number] = seen_n_D.square_().sum(1)
        return away_n_C

    def _checked(self, features_N_D: ArrayLike) -> Tensor:
        features_N_D = as_tensor(features_N_D, "features_N_D").to(self.means_C_D.device)
        width = self.means_C_D.shape[1]
        if features_N_D.ndim != 2 or features_N_D.shape[1] != width:
            raise ValueError(
                f"features_N_D: expected {width} features per point, found shape {tuple(features_N_D.shape)}; pass"
                " features of the network that the density was fitted to"
            )
        check_numbers(features_N_D, "features_N_D")
        return features_N_D


def _whitened(
    moments: ClassMoments, pooled: Tensor, shrinkage: float, ddof: int, ridge: Tensor
) -> tuple[Tensor, Tensor] | None:
    """W_c and log |W_c| with a ridge; None where a covariance is not positive definite."""
    whitening, log_det_C = torch.zeros_like(moments.scatter), torch.zeros_like(moments.counts_C)
    for number, covariance in enumerate(moments.covariances(ddof)):
        which = slice(None) if moments.kind == "shared" else number
        if not bool((moments.counts_C[which] > 0).any()):
            continue
        covariance = torch.lerp(covariance, pooled, shrinkage) if shrinkage else covariance
        inverse = _inverse_factor(covariance, ridge)
        if inverse is None:
            return None
        whitening[number], log_det_C[which] = inverse, _diagonal(inverse).log().sum()
    return whitening, log_det_C


def _inverse_factor(covariance: Tensor, ridge: Tensor) -> Tensor | None:
    """The inverse of the Cholesky factor of a covariance with a ridge, None where there is none but by rounding."""
    if covariance.ndim == 1:
        pivots_D = covariance + ridge
        return pivots_D.rsqrt() if bool((pivots_D > 0).all()) else None
    identity_D_D = torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
    covariance = torch.add(covariance, identity_D_D * ridge)
    factor_D_D, failed = torch.linalg.cholesky_ex(covariance)
    if int(failed) or not bool((factor_D_D.diagonal().square() > _ROUNDING * covariance.diagonal()).all()):
        return None
    inverse_D_D: Tensor = torch.linalg.solve_triangular(factor_D_D, identity_D_D, upper=False)
    return inverse_D_D


def _diagonal(covariance: Tensor) -> Tensor:
    return covariance if covariance.ndim == 1 else covariance.diagonal()


def _log_prior(prior: Prior | ArrayLike, counts_C: Tensor) -> Tensor:
    """log π_c, −∞ for classes without points."""
    present_C = counts_C > 0
    if isinstance(prior, str):
        if prior not in ("empirical", "uniform", "none"):
            raise ValueError(
                f"prior: expected empirical, uniform, none or numbers, found {prior!r}; choose one of them"
            )
        even_C = present_C.double()
        shares = {"empirical": counts_C / counts_C.sum(), "uniform": even_C / even_C.sum(), "none": even_C}
        return shares[prior].log()
    prior_C = as_tensor(prior, "prior").double().to(counts_C.device)
    if prior_C.shape != counts_C.shape or bool((prior_C < 0).any()) or not abs(float(prior_C.sum()) - 1) < 1e-6:
        raise ValueError(
            f"prior: expected {len(counts_C)} probabilities that sum to one, found {prior_C.tolist()[:8]}; pass shares"
        )
    prior_C = prior_C.masked_fill(~present_C, 0.0)
    if not bool((prior_C > 0).any()):
        raise ValueError("prior: found 0 for all classes that have points; give one of them a share")
    return prior_C.log()
