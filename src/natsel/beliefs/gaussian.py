"""Gaussian beliefs: draws of Gaussian predictions, and points that are jointly Gaussian through their features.

    GaussianSamples    y | x_n, ω_k ~ N(mean_nk, variance_nk)
    GaussianFeatures   f ~ N(mean, Φ Φᵀ),  y_n = f_n + ε,  Var ε = noise         Φ = features_N_D

Features cover kernels (through a square root), gradients, last layers, Gaussian processes and black boxes: centred
member predictions are features. `noise` is always a variance. Labels re-weight the draws of the one, and give the exact
posterior of the other. Both predict the label of each point:

    GaussianSamples    mean_n = Σ_k w_k mean_nk      std_n² = Σ_k w_k (variance_nk + (mean_nk − mean_n)²)
                       interval: quantiles of the mixture of all draws (`natsel.information.mixture_quantiles`)
    GaussianFeatures   mean_n                        std_n² = |Φ_n|² + noise_n        interval: mean_n ± z std_n

docs/theory/epig-jepig.md, 2 and 6; docs/theory/joint-predictions.md, 5.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self

import torch
from torch import Tensor

from natsel.beliefs.arrays import LARGEST, ArrayLike, Labels, as_indices, as_tensor, check_numbers
from natsel.beliefs.base import Belief, BeliefView
from natsel.beliefs.draws import Learnt, Weighted, checked_log_weights, summed
from natsel.beliefs.updates import Update, gaussian_update, short_name
from natsel.ids import IdArray, ids_for
from natsel.memory import chunked, require


class _AboutNumbers(Belief):
    """What both kinds share where labels are predicted."""

    def predict(self) -> Tensor:
        """The mean of each point."""
        return self.mean.clone()

    def predict_proba(self) -> Tensor:
        """Refused: numbers are no classes."""
        raise ValueError("predict_proba: the belief is about numbers; use mean, std or interval(level)")


@dataclass(frozen=True, eq=False)
class GaussianSamples(Weighted, _AboutNumbers):
    """What K draws of a regressor say about N points: a mean and a noise variance for each.

    >>> len(GaussianSamples([[0.0, 1.0]], [[0.1, 0.1]]))
    1
    """

    mean_N_K: Tensor
    variance_N_K: Tensor
    log_weights_K: Tensor = None  # type: ignore[assignment]
    draws_id: str | None = None
    ids: IdArray = None  # type: ignore[assignment]
    learnt: Learnt | None = field(default=None, init=False, repr=False)

    points: ClassVar[tuple[str, ...]] = ("mean_N_K", "variance_N_K")
    draws: ClassVar[tuple[str, ...]] = ("log_weights_K",)

    if TYPE_CHECKING:  # what the constructor takes; the fields hold tensors

        def __init__(
            self,
            mean_N_K: ArrayLike,
            variance_N_K: ArrayLike,
            log_weights_K: ArrayLike | None = None,
            draws_id: str | None = None,
            ids: object = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        mean_N_K = as_tensor(self.mean_N_K, "mean_N_K")
        _check_matrix(mean_N_K, "mean_N_K", "points, draws")
        variance_N_K = _positive(self.variance_N_K, "variance_N_K", mean_N_K, tuple(mean_N_K.shape))
        self._set(
            mean_N_K=mean_N_K,
            variance_N_K=variance_N_K,
            log_weights_K=checked_log_weights(self.log_weights_K, mean_N_K.shape[1], mean_N_K.device),
            ids=ids_for(self.ids, mean_N_K.shape[0]),
        )

    @classmethod
    def views(cls) -> tuple[BeliefView, ...]:
        """Jointly Gaussian points with the same first two moments."""
        return (
            BeliefView(
                GaussianFeatures,
                cls.features,
                "moment-matched: the draws were read as jointly Gaussian points with the same means and covariances",
            ),
        )

    def features(self) -> "GaussianFeatures":
        """The jointly Gaussian belief with the same first two moments: Φ_nk = √w_k (mean_nk − Σ_k w_k mean_nk).

        The space of these features belongs to the weights: after labels it goes by a draws_id of its own.

        >>> GaussianSamples([[0.0, 2.0]], [[0.5, 0.5]]).features().noise_N.tolist()
        [0.5]
        """
        weights_K = self.log_weights_K.exp()
        mean_N_K = self.mean_N_K.double()
        mean_N = mean_N_K @ weights_K
        centred_N_K = mean_N_K - mean_N[:, None]
        noise_N = self.variance_N_K.double() @ weights_K
        draws_id = self.draws_id
        if draws_id is not None and self.learnt is not None:
            draws_id = f"{draws_id} given {short_name(self.log_weights_K)}"
        return GaussianFeatures._own(centred_N_K * weights_K.sqrt(), noise_N, draws_id, self.ids, mean_N)

    @property
    def mean(self) -> Tensor:
        """The mean over the draws, Σ_k w_k mean_nk: N values in float64."""
        return self._over_points(lambda mean_n_K, _: mean_n_K @ self.log_weights_K.exp())

    @property
    def std(self) -> Tensor:
        """The standard deviation of a label, by the law of total variance: noise within draws, and draws apart.

        >>> GaussianSamples([[0.0, 2.0]], 3.0).std.tolist()
        [2.0]
        """
        weights_K = self.log_weights_K.exp()

        def deviation(mean_n_K: Tensor, variance_n_K: Tensor) -> Tensor:
            apart_n_K = mean_n_K - (mean_n_K @ weights_K)[:, None]
            return ((variance_n_K + apart_n_K.square()) @ weights_K).sqrt()

        return self._over_points(deviation)

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Quantiles of the mixture of all draws, Σ_k w_k N(mean_nk, variance_nk), with equal tails below and above.

        >>> lower, upper = GaussianSamples([[0.0, 0.0]], 1.0).interval(0.95)
        >>> round(lower.item(), 4), round(upper.item(), 4)
        (-1.96, 1.96)
        """
        # Imported here, for few use it: beliefs are to be imported quickly.
        from natsel.information.mixture_quantiles import lower_quantile

        tail, weights_K = _tail(level), self.log_weights_K.exp()

        def lower(mean_n_K: Tensor, variance_n_K: Tensor) -> Tensor:
            return lower_quantile(mean_n_K, variance_n_K.sqrt(), weights_K, tail)

        # The upper end is minus the lower one of the mirrored mixture: both tails are small, and so exact.
        return self._over_points(lower), self._over_points(lambda mean_n_K, *rest: -lower(-mean_n_K, *rest))

    def _over_points(self, work: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """One number per point, from means and variances in float64, in chunks that keep to the memory budget."""

        def part_of(part: slice) -> Tensor:
            return work(self.mean_N_K[part].double(), self.variance_N_K[part].double())

        return chunked(part_of, len(self), 64 * self.n_draws, self.device)

    def condition(self, points: ArrayLike, labels: Labels) -> Self:
        """The belief after seeing real labels at some of its points, by re-weighting the draws.

            w_k' ∝ w_k Π_i N(y_i; mean_ik, variance_ik)

        Give labels that the draws were not fitted to: a label they know already would count twice.
        docs/theory/joint-predictions.md, 5.

        >>> belief = GaussianSamples([[0.0, 2.0]], [[1.0, 1.0]])
        >>> belief.condition([0], [1.0]).log_weights_K.exp().tolist()
        [0.5, 0.5]
        """
        return self._conditioned(self.log_likelihood(points, labels))

    def log_likelihood(self, points: ArrayLike, labels: Labels) -> Tensor:
        """Σ_i ln N(y_i; mean_ik, variance_ik) of labels at some of the points, one number per draw.

        >>> GaussianSamples([[0.0, 1.0]], 1.0).log_likelihood([0], [0.0]).round(decimals=4).tolist()
        [-0.9189, -1.4189]
        """
        index = as_indices(points, len(self), self.device)
        labels_B = _checked_numbers(self.in_order(labels, positions=index.cpu().numpy()), index)

        def seen(part: slice) -> Tensor:
            variance_b_K = self.variance_N_K[index[part]].double()
            gap_b_K = labels_B[part, None] - self.mean_N_K[index[part]].double()
            return -0.5 * (gap_b_K.square() / variance_b_K + (2 * math.pi * variance_b_K).log())

        return summed(seen, len(index), self.log_weights_K)


@dataclass(frozen=True, eq=False)
class GaussianFeatures(_AboutNumbers):
    """N jointly Gaussian points with covariance Φ Φᵀ, seen through noise of the given variance (one, or one per point).

    `mean` is what is expected of each point, 0 unless given; information in features does not depend on it, what labels
    tell does.

    >>> GaussianFeatures([[1.0, 0.0], [0.0, 1.0]], noise=0.5).noise_N.tolist()
    [0.5, 0.5]
    """

    features_N_D: Tensor
    noise: Tensor = 1.0  # type: ignore[assignment]
    draws_id: str | None = None
    ids: IdArray = None  # type: ignore[assignment]
    mean: Tensor = 0.0  # type: ignore[assignment]
    updates: tuple[Update, ...] = field(default=(), init=False, repr=False)  # what labels did, in order

    points: ClassVar[tuple[str, ...]] = ("features_N_D", "noise", "mean")

    if TYPE_CHECKING:  # what the constructor takes; the fields hold tensors

        def __init__(
            self,
            features_N_D: ArrayLike,
            noise: ArrayLike = 1.0,
            draws_id: str | None = None,
            ids: object = None,
            mean: ArrayLike = 0.0,
        ) -> None: ...

    def __post_init__(self) -> None:
        features_N_D = as_tensor(self.features_N_D, "features_N_D")
        _check_matrix(features_N_D, "features_N_D", "points, features")
        count = (features_N_D.shape[0],)
        mean_N = _broadcast(self.mean, "mean", features_N_D, count).double()
        if not bool(mean_N.isfinite().all()):
            raise ValueError("mean: found NaN or infinity; check the model's output before scoring")
        self._set(
            features_N_D=features_N_D,
            noise=_positive(self.noise, "noise", features_N_D, count).double(),
            ids=ids_for(self.ids, features_N_D.shape[0]),
            mean=mean_N,
        )

    @classmethod
    def views(cls) -> tuple[BeliefView, ...]:
        """Weight space: the weights u ~ N(0, I) of f = mean + Φ u, and what a label tells about them."""
        from natsel.beliefs.fisher import FisherRows

        def weight_space(belief: "GaussianFeatures") -> Belief:
            rows_N_1_D = (belief.features_N_D * belief.noise_N.rsqrt()[:, None])[:, None]
            return FisherRows._own(rows_N_1_D, draws_id=belief.draws_id, ids=belief.ids)

        return (BeliefView(FisherRows, weight_space),)

    def given(self, labelled: Belief) -> Self:
        """The belief once labels at other points of the same space are known: less covariance, the same mean."""
        if not isinstance(labelled, GaussianFeatures):
            raise ValueError(f"given: expected GaussianFeatures, found {type(labelled).__name__}")
        if labelled.features_N_D.shape[1] != self.features_N_D.shape[1]:
            raise ValueError(
                f"given: they have {labelled.features_N_D.shape[1]} features and the pool {self.features_N_D.shape[1]};"
                " believe about both with one fitted model"
            )
        there, features_N_D = labelled.to(self.device), self.features_N_D
        require(
            features_N_D.numel() * features_N_D.itemsize + 56 * min(there.features_N_D.shape) * features_N_D.shape[1],
            f"given: features of {len(self)} points once {len(there)} labels are known",
            "pass fewer points",
        )
        return self._updated(gaussian_update(there.features_N_D, there.noise_N, torch.zeros_like(there.noise_N)))

    @property
    def noise_N(self) -> Tensor:
        """The noise variance of each point."""
        noise_N: Tensor = self.noise
        return noise_N

    @property
    def mean_N(self) -> Tensor:
        """What is expected of each point."""
        mean_N: Tensor = self.mean
        return mean_N

    @property
    def std(self) -> Tensor:
        """The standard deviation of a label, √(|Φ_n|² + noise_n): N values in float64."""

        def work(part: slice) -> Tensor:
            return (self.features_N_D[part].double().square().sum(1) + self.noise_N[part]).sqrt()

        return chunked(work, len(self), 16 * self.features_N_D.shape[1], self.device)

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """mean_n ± z std_n, with z the quantile (1 + level) / 2 of the standard normal distribution."""
        reach_N = -float(torch.special.ndtri(torch.tensor(_tail(level), dtype=torch.float64))) * self.std
        return self.mean_N - reach_N, self.mean_N + reach_N

    @property
    def log_evidence(self) -> float:
        """ln p of all labels conditioned on so far; 0 before the first."""
        return sum((update.log_evidence for update in self.updates), 0.0)

    def condition(self, points: ArrayLike, labels: Labels) -> Self:
        """The belief after seeing real labels at some of its points: the exact Gaussian posterior.

        It goes by a draws_id of its own: beliefs without these labels no longer belong to it. Other points, such as
        targets, follow by `with_weights_of`.  docs/theory/joint-predictions.md, 5.

        >>> belief = GaussianFeatures([[1.0], [2.0]], noise=1.0).condition([0], [2.0])
        >>> belief.mean_N.tolist(), belief.features_N_D.square().sum(1).round(decimals=6).tolist()
        ([1.0, 2.0], [0.5, 2.0])
        """
        index = as_indices(points, len(self), self.device)
        labels_B = _checked_numbers(self.in_order(labels, positions=index.cpu().numpy()), index)
        if len(index) == 0:
            return self
        return self._updated(
            gaussian_update(self.features_N_D[index], self.noise_N[index], labels_B - self.mean[index])
        )

    def with_weights_of(self, other: "GaussianFeatures") -> Self:
        """This belief after the labels that another, in the same feature space, was conditioned on.

        >>> pool, targets = GaussianFeatures([[1.0]], draws_id="a"), GaussianFeatures([[2.0]], draws_id="a")
        >>> targets.with_weights_of(pool.condition([0], [2.0])).mean_N.tolist()
        [2.0]
        """
        if not isinstance(other, GaussianFeatures):
            raise ValueError(
                f"other: expected GaussianFeatures, found {type(other).__name__}; predict both with one model"
            )
        done = len(self.updates)
        if [update.name for update in self.updates] != [update.name for update in other.updates[:done]]:
            raise ValueError(
                "other: this belief was conditioned on other labels; start from the belief before any label"
            )
        belief = self
        for update in other.updates[done:]:
            if len(update.shift_D) != self.features_N_D.shape[1]:
                found = f"{len(update.shift_D)} and {self.features_N_D.shape[1]}"
                raise ValueError(f"other: the beliefs have {found} features; predict both with one model")
            belief = belief._updated(update)
        if belief.draws_id != other.draws_id:
            raise ValueError(
                f"other: its draws are {other.draws_id!r} and these would be {belief.draws_id!r}; predict both with one"
                " fitted model"
            )
        return belief

    def _updated(self, update: Update) -> Self:
        belief = self._trusted(
            features_N_D=update.features(self.features_N_D), mean=self.mean_N + update.mean(self.features_N_D)
        )
        name = None if self.draws_id is None else f"{self.draws_id} given {update.name}"
        belief._set(updates=(*self.updates, update), draws_id=name)
        return belief


def _tail(level: float) -> float:
    """The probability below an interval of this level, which is also that above it."""
    if not isinstance(level, int | float) or not 0 < level < 1:
        raise ValueError(f"level: expected a share above 0 and below 1, found {level!r}; 0.9 is 90 %")
    return (1 - level) / 2


def _check_matrix(array: Tensor, name: str, axes: str) -> None:
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(
            f"{name}: expected two axes ({axes}), found shape {tuple(array.shape)}; reshape it to a matrix"
        )
    check_numbers(array, name)


def _checked_numbers(labels: ArrayLike, index: Tensor) -> Tensor:
    labels_B = as_tensor(labels, "labels").to(index.device, torch.float64)
    labels_B = labels_B.reshape(1) if labels_B.ndim == 0 else labels_B
    if labels_B.shape != index.shape:
        raise ValueError(
            f"labels: expected {index.numel()} labels for {index.numel()} points, found {labels_B.numel()}; pass one a"
            " point"
        )
    if not bool(labels_B.isfinite().all()):
        raise ValueError("labels: found NaN or infinity; leave out points without a label")
    return labels_B


def _broadcast(array: ArrayLike, name: str, like: Tensor, shape: tuple[int, ...]) -> Tensor:
    values = as_tensor(array, name).to(like.device)
    try:
        return torch.broadcast_to(values, shape)
    except RuntimeError:
        raise ValueError(
            f"{name}: expected shape {shape}, found {tuple(values.shape)}; pass one value or one each"
        ) from None


def _positive(array: ArrayLike, name: str, like: Tensor, shape: tuple[int, ...]) -> Tensor:
    values = _broadcast(array, name, like, shape)
    wrong = values[~((values > 0) & values.isfinite())]
    if len(wrong):
        raise ValueError(
            f"{name}: variances must be positive and finite, found {float(wrong[0]):.4g}; add a noise floor"
        )
    extreme = values[(values.double() < LARGEST**-2) | (values.double() > LARGEST**2)]
    if len(extreme):
        raise ValueError(
            f"{name}: variances must lie between {LARGEST**-2:.0e} and {LARGEST**2:.0e}, found"
            f" {float(extreme[0]):.4g}; rescale labels and predictions"
        )
    return values
