"""Both potential outcomes of each point: what would be measured with a treatment, and what without it.

    PotentialOutcomes           y^t | x_n, ω_k ~ N(mean^t_nk, variance^t_nk)       t = 0, 1: draw k is one ω_k for both
    YesOrNoOutcomes             y^t | x_n, ω_k ~ Bernoulli(mean^t_nk)              its noise is mean (1 − mean)
    GaussianPotentialOutcomes   (f⁰, f¹) ~ N(mean, Φ Φᵀ),  y^t_n = f^t_n + ε       Φ = features of both arms

Each point has received one treatment (`treatment_N`), and only that outcome can be measured. The effect is the
difference τ = μ¹ − μ⁰, which no label ever shows. Draws of the two arms belong together: predicted apart, their
variances stay and their covariance is lost, and with it what is known about effects.

    observed()    the arm that a label would show: μ-BALD is I[Y;Ω|x] of it, and batches follow
    effects()     the effects: τ-BALD is I[Y;Ω|x] of them; labels that tell about the effects of all points:
                  natsel.select("epig", belief.observed(), k, targets=belief.effects())

docs/theory/causal-bald.md, 1 and 2; Jesson et al. 2021.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from natsel.beliefs.arrays import ArrayLike, as_integers, as_tensor
from natsel.beliefs.base import Belief, BeliefView, NoView
from natsel.beliefs.categorical import CategoricalSamples
from natsel.beliefs.draws import checked_log_weights
from natsel.beliefs.gaussian import GaussianFeatures, GaussianSamples
from natsel.ids import IdArray, ids_for, keys_of
from natsel.information.class_labels import class_labels
from natsel.memory import chunked

_ROUNDING = 1e-5  # by which a probability may be off


class ArmMoments(NamedTuple):
    """Variances of the mean outcome of each point, over draws or weights, N values in float64 each."""

    received_N: Tensor
    """Of the arm that was received."""
    other_N: Tensor
    """Of the arm that was not."""
    effect_N: Tensor
    """Of their difference."""
    with_effect_N: Tensor
    """Covariance of the received arm with the effect, as an absolute value."""
    noise_N: Tensor
    """Variance of the noise on a label of the received arm."""


class TwoArms(Belief):
    """What both kinds share."""

    treatment_N: Tensor
    propensity_N: Tensor

    @abstractmethod
    def arm_moments(self) -> ArmMoments:
        """Variances of the mean outcome of each point."""

    def _checked_arms(self, count: int, device: torch.device) -> dict[str, Tensor]:
        treatment_N = as_tensor(self.treatment_N, "treatment_N").to(device)
        if treatment_N.shape != (count,):
            raise ValueError(
                f"treatment_N: expected one for each of {count} points, found shape {tuple(treatment_N.shape)}; pass"
                " 0 or 1 per point"
            )
        wrong_N = (treatment_N != 0) & (treatment_N != 1)
        if bool(wrong_N.any()):
            found = treatment_N[wrong_N][0].item()
            raise ValueError(f"treatment_N: expected 0 or 1, found {found:g}; number the treatments so")
        if self.propensity_N is None:
            propensity_N = torch.full((count,), math.nan, dtype=torch.float64, device=device)
        else:
            propensity_N = as_tensor(self.propensity_N, "propensity_N").to(device, torch.float64, copy=True)
            if propensity_N.shape != (count,):
                raise ValueError(
                    f"propensity_N: expected one for each of {count} points, found shape {tuple(propensity_N.shape)};"
                    " pass P(T=1|x) of each"
                )
            # NaN throughout is how a belief says that it knows none.
            known_N = propensity_N[~propensity_N.isnan()] if bool(propensity_N.isnan().all()) else propensity_N
            if not bool(((known_N >= 0) & (known_N <= 1)).all()):
                raise ValueError("propensity_N: expected probabilities from 0 to 1; pass P(T=1|x) of each point")
        return {"treatment_N": treatment_N.to(torch.int8), "propensity_N": propensity_N}

    @property
    def other_propensity_N(self) -> Tensor:
        """The probability of the treatment that was not received, N values in float64."""
        if bool(self.propensity_N.isnan().any()):
            raise NoView("propensity_N: this belief knows none; pass P(T=1|x) of each point, or use a model with one")
        return torch.where(self.treatment_N == 1, 1 - self.propensity_N, self.propensity_N)

    def _of_received(self, control_N: Tensor, treated_N: Tensor) -> Tensor:
        """Rows of the arm that each point received."""
        treated = (self.treatment_N == 1).reshape(-1, *[1] * (control_N.ndim - 1))
        return torch.where(treated, treated_N, control_N)

    def _moments(self, variance0_N: Tensor, variance1_N: Tensor, both_N: Tensor, noise_N: Tensor) -> ArmMoments:
        """From the variances of both arms and their covariance."""
        received_N = self._of_received(variance0_N, variance1_N)
        # No product of rounding errors may become a negative variance.
        effect_N = (variance0_N + variance1_N - 2 * both_N).clamp_min(0)
        other_N = self._of_received(variance1_N, variance0_N)
        return ArmMoments(received_N, other_N, effect_N, (received_N - both_N).abs(), noise_N)


@dataclass(frozen=True, eq=False)
class PotentialOutcomes(TwoArms):
    """What K draws say about both potential outcomes of N points; draw k of both arms has the same parameters.

    `treatment_N` is 0 or 1; `propensity_N` the probability of 1, where it is known. Variances are those of the noise on
    outcomes, 0 where none is known: then nothing can be said in nats.

    >>> belief = PotentialOutcomes([[0.0, 2.0]], [[1.0, 5.0]], [1], variance0_N_K=1.0, variance1_N_K=1.0)
    >>> belief.effect_N.tolist(), belief.effects().mean_N_K.tolist()
    ([2.0], [[1.0, 3.0]])
    """

    mean0_N_K: Tensor
    mean1_N_K: Tensor
    treatment_N: Tensor
    propensity_N: Tensor = None  # type: ignore[assignment]
    variance0_N_K: Tensor = 0.0  # type: ignore[assignment]
    variance1_N_K: Tensor = 0.0  # type: ignore[assignment]
    log_weights_K: Tensor = None  # type: ignore[assignment]
    draws_id: str | None = None
    ids: IdArray = None  # type: ignore[assignment]

    points: ClassVar[tuple[str, ...]] = (
        *("mean0_N_K", "mean1_N_K", "treatment_N", "propensity_N"),
        *("variance0_N_K", "variance1_N_K"),
    )
    draws: ClassVar[tuple[str, ...]] = ("log_weights_K",)
    _seen: ClassVar[type[Belief]] = GaussianSamples

    if TYPE_CHECKING:  # what the constructor takes; the fields hold tensors

        def __init__(
            self,
            mean0_N_K: ArrayLike,
            mean1_N_K: ArrayLike,
            treatment_N: ArrayLike,
            propensity_N: ArrayLike | None = None,
            variance0_N_K: ArrayLike = 0.0,
            variance1_N_K: ArrayLike = 0.0,
            log_weights_K: ArrayLike | None = None,
            draws_id: str | None = None,
            ids: object = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        mean0_N_K = _finite(as_tensor(self.mean0_N_K, "mean0_N_K"), "mean0_N_K")
        mean1_N_K = _finite(as_tensor(self.mean1_N_K, "mean1_N_K"), "mean1_N_K").to(mean0_N_K.device)
        if mean0_N_K.ndim != 2 or mean0_N_K.shape != mean1_N_K.shape or mean0_N_K.shape[1] < 2:
            raise ValueError(
                f"mean1_N_K: expected points × draws for both arms, two draws or more, found {tuple(mean0_N_K.shape)}"
                f" and {tuple(mean1_N_K.shape)}; predict both arms of all points with the same draws"
            )
        count, draws = mean0_N_K.shape
        noise = {
            name: _noise(getattr(self, name), name, (count, draws), mean0_N_K)
            for name in ("variance0_N_K", "variance1_N_K")
        }
        self._set(
            mean0_N_K=mean0_N_K,
            mean1_N_K=mean1_N_K,
            log_weights_K=checked_log_weights(self.log_weights_K, draws, mean0_N_K.device),
            ids=ids_for(self.ids, count),
            **noise,
            **self._checked_arms(count, mean0_N_K.device),
        )

    @classmethod
    def from_arms(
        cls,
        control: GaussianSamples,
        treated: GaussianSamples,
        treatment: ArrayLike,
        propensity: ArrayLike | None = None,
    ) -> Self:
        """From what one model says about both arms of the same points, with the same draws.

        >>> control, treated = (GaussianSamples([[0.0, 1.0]], 1.0, draws_id="fit") for _ in range(2))
        >>> PotentialOutcomes.from_arms(control, treated, [0]).effect_N.tolist()
        [0.0]
        """
        _check_pair(control, treated, GaussianSamples)
        _check_draws(control, treated)
        noise = control.variance_N_K, treated.variance_N_K
        means = control.mean_N_K, treated.mean_N_K
        return cls._own(*means, treatment, propensity, *noise, control.log_weights_K, control.draws_id, control.ids)

    @classmethod
    def views(cls) -> tuple[BeliefView, ...]:
        """The arm that was received; and both arms as jointly Gaussian."""
        words = "moment-matched: the draws were read as jointly Gaussian outcomes with the same means and covariances"
        return (
            BeliefView(cls._seen, cls.observed),
            BeliefView(GaussianPotentialOutcomes, cls.jointly_gaussian, words),
        )

    @property
    def n_draws(self) -> int:
        """K."""
        return len(self.log_weights_K)

    @property
    def effect_N(self) -> Tensor:
        """The mean effect of the treatment on each point, N values in float64."""
        weights_K = self.log_weights_K.exp()
        return _by_rows(lambda part: (self.mean1_N_K[part].double() - self.mean0_N_K[part].double()) @ weights_K, self)

    def observed(self) -> GaussianSamples | CategoricalSamples:
        """Draws of the outcome that a label would show."""
        return self._numbers(
            self._of_received(self.mean0_N_K, self.mean1_N_K), self._of_received(self.variance0_N_K, self.variance1_N_K)
        )

    def effects(self) -> GaussianSamples:
        """Draws of the effect: the difference of both outcomes, with the noise of both."""
        return self._numbers(self.mean1_N_K - self.mean0_N_K, self.variance0_N_K + self.variance1_N_K)

    def jointly_gaussian(self) -> "GaussianPotentialOutcomes":
        """The jointly Gaussian belief with the same first two moments: features √w_k (mean_nk − Σ_k w_k mean_nk)."""
        weights_K = self.log_weights_K.exp()

        def centred(mean_N_K: Tensor) -> tuple[Tensor, Tensor]:
            mean_N = mean_N_K.double() @ weights_K
            return (mean_N_K.double() - mean_N[:, None]) * weights_K.sqrt(), mean_N

        (features0_N_K, mean0_N), (features1_N_K, mean1_N) = centred(self.mean0_N_K), centred(self.mean1_N_K)
        return GaussianPotentialOutcomes._own(
            features0_N_K,
            features1_N_K,
            self.treatment_N,
            self.propensity_N,
            self.variance0_N_K.double() @ weights_K,
            self.variance1_N_K.double() @ weights_K,
            mean0_N,
            mean1_N,
            self.draws_id,
            self.ids,
        )

    def arm_moments(self) -> ArmMoments:
        """Variances of both arms and of their difference over the draws, by 1/K."""
        weights_K = self.log_weights_K.exp()

        def work(part: slice) -> Tensor:
            means = [mean_N_K[part].double() for mean_N_K in (self.mean0_N_K, self.mean1_N_K)]
            zero_n_K, one_n_K = (mean_n_K - (mean_n_K @ weights_K)[:, None] for mean_n_K in means)
            noise_n_K = self._of_received(self.variance0_N_K, self.variance1_N_K)[part].double()
            products = (zero_n_K.square(), one_n_K.square(), zero_n_K * one_n_K, noise_n_K)
            return torch.stack([product_n_K @ weights_K for product_n_K in products], 1)

        return self._moments(*_by_rows(work, self).unbind(1))

    def _numbers(self, mean_N_K: Tensor, variance_N_K: Tensor) -> GaussianSamples:
        if not bool((variance_N_K > 0).all()):
            raise NoView("variance0_N_K: the noise of outcomes is not known; pass it, or use mu-bald, which needs none")
        return GaussianSamples._own(mean_N_K, variance_N_K, self.log_weights_K, self.draws_id, self.ids)


class YesOrNoOutcomes(PotentialOutcomes):
    """Both potential outcomes where these are yes or no: means are probabilities of yes, which is class 1.

    The noise follows from them. A label is 0 or 1, so that μ-BALD is I[Y;Ω|x] of two classes, exactly.

    >>> belief = YesOrNoOutcomes([[0.5, 0.5]], [[0.0, 1.0]], [1])
    >>> belief.observed().log_probs_N_K_C.exp()[0, :, 1].tolist()
    [0.0, 1.0]
    """

    label_type: ClassVar[type[int] | type[float]] = int
    _seen: ClassVar[type[Belief]] = CategoricalSamples

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("0", "1"):
            prob_N_K = getattr(self, f"mean{name}_N_K")
            right_N_K = prob_N_K.clamp(0, 1)
            if bool(((prob_N_K - right_N_K).abs() > _ROUNDING).any()):
                raise ValueError(f"mean{name}_N_K: expected probabilities from 0 to 1; pass those of the outcome yes")
            self._set(**{f"mean{name}_N_K": right_N_K, f"variance{name}_N_K": right_N_K * (1 - right_N_K)})

    @classmethod
    def from_arms(  # type: ignore[override]  # of classes, where the other kind takes numbers
        cls,
        control: CategoricalSamples,
        treated: CategoricalSamples,
        treatment: ArrayLike,
        propensity: ArrayLike | None = None,
    ) -> Self:
        """From what one model says about the classes 0 and 1 of both arms of the same points, with the same draws.

        >>> control = treated = CategoricalSamples.from_probs([[[0.2, 0.8], [0.4, 0.6]]], draws_id="fit")
        >>> YesOrNoOutcomes.from_arms(control, treated, [0]).effect_N.tolist()
        [0.0]
        """
        _check_pair(control, treated, CategoricalSamples)
        _check_draws(control, treated)
        classes = max(control.log_probs_N_K_C.shape[2], treated.log_probs_N_K_C.shape[2])
        if classes != 2:
            raise ValueError(
                f"labels: outcomes are numbers, or yes and no as 1 and 0; found classes 0 to {classes - 1}; number two"
                " outcomes 0 and 1, or use a regressor"
            )
        zero_N_K, one_N_K = (arm.log_probs_N_K_C[..., 1].exp().clamp_max(1.0) for arm in (control, treated))
        weights, draws_id, ids = control.log_weights_K, control.draws_id, control.ids
        return cls._own(zero_N_K, one_N_K, treatment, propensity, log_weights_K=weights, draws_id=draws_id, ids=ids)

    def checked_labels(self, labels: ArrayLike, name: str) -> Tensor:
        """Labels 0 and 1 of the points."""
        return class_labels(as_integers(labels, name).to(self.device), len(self), 2, name)

    def observed(self) -> CategoricalSamples:
        """Draws of the outcome that a label would show, as classes 0 and 1."""
        prob_N_K = self._of_received(self.mean0_N_K, self.mean1_N_K)
        probs_N_K_2 = torch.stack([1 - prob_N_K, prob_N_K], 2)
        return CategoricalSamples._own(probs_N_K_2.log(), self.log_weights_K, self.draws_id, self.ids)


@dataclass(frozen=True, eq=False)
class GaussianPotentialOutcomes(TwoArms):
    """Both outcomes of N points as jointly Gaussian values: Cov(f^s_n, f^t_m) = features^s_n · features^t_m.

    >>> belief = GaussianPotentialOutcomes([[1.0, 0.0]], [[0.0, 2.0]], [1], noise0=1.0, noise1=1.0)
    >>> belief.effects().features_N_D.tolist()
    [[-1.0, 2.0]]
    """

    features0_N_D: Tensor
    features1_N_D: Tensor
    treatment_N: Tensor
    propensity_N: Tensor = None  # type: ignore[assignment]
    noise0: Tensor = 0.0  # type: ignore[assignment]
    noise1: Tensor = 0.0  # type: ignore[assignment]
    mean0: Tensor = 0.0  # type: ignore[assignment]
    mean1: Tensor = 0.0  # type: ignore[assignment]
    draws_id: str | None = None
    ids: IdArray = None  # type: ignore[assignment]

    points: ClassVar[tuple[str, ...]] = (
        *("features0_N_D", "features1_N_D", "treatment_N", "propensity_N"),
        *("noise0", "noise1", "mean0", "mean1"),
    )

    if TYPE_CHECKING:  # what the constructor takes; the fields hold tensors

        def __init__(
            self,
            features0_N_D: ArrayLike,
            features1_N_D: ArrayLike,
            treatment_N: ArrayLike,
            propensity_N: ArrayLike | None = None,
            noise0: ArrayLike = 0.0,
            noise1: ArrayLike = 0.0,
            mean0: ArrayLike = 0.0,
            mean1: ArrayLike = 0.0,
            draws_id: str | None = None,
            ids: object = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        zero_N_D = _finite(as_tensor(self.features0_N_D, "features0_N_D"), "features0_N_D")
        one_N_D = _finite(as_tensor(self.features1_N_D, "features1_N_D"), "features1_N_D").to(zero_N_D.device)
        if zero_N_D.ndim != 2 or zero_N_D.shape != one_N_D.shape or zero_N_D.shape[1] == 0:
            raise ValueError(
                f"features1_N_D: expected points × features for both arms, found {tuple(zero_N_D.shape)} and"
                f" {tuple(one_N_D.shape)}; both arms share the weights of one model"
            )
        count = len(zero_N_D)
        numbers = {name: _noise(getattr(self, name), name, (count,), zero_N_D) for name in ("noise0", "noise1")}
        for name in ("mean0", "mean1"):
            value = _finite(as_tensor(getattr(self, name), name), name).double().to(zero_N_D.device)
            numbers[name] = _widened(value, name, (count,))
        self._set(
            features0_N_D=zero_N_D,
            features1_N_D=one_N_D,
            ids=ids_for(self.ids, count),
            **numbers,
            **self._checked_arms(count, zero_N_D.device),
        )

    @classmethod
    def from_arms(
        cls,
        control: GaussianFeatures,
        treated: GaussianFeatures,
        treatment: ArrayLike,
        propensity: ArrayLike | None = None,
    ) -> Self:
        """From what one model says about both arms of the same points, in one feature space.

        >>> arm = GaussianFeatures([[1.0]], draws_id="fit")
        >>> GaussianPotentialOutcomes.from_arms(arm, arm, [0]).effect_N.tolist()
        [0.0]
        """
        _check_pair(control, treated, GaussianFeatures)
        if control.draws_id != treated.draws_id:
            raise ValueError("treated: it belongs to another fit than control; predict both with one fitted model")
        features = control.features_N_D, treated.features_N_D
        numbers = control.noise_N, treated.noise_N, control.mean_N, treated.mean_N
        return cls._own(*features, treatment, propensity, *numbers, control.draws_id, control.ids)

    @classmethod
    def views(cls) -> tuple[BeliefView, ...]:
        """The arm that was received."""
        return (BeliefView(GaussianFeatures, cls.observed),)

    @property
    def effect_N(self) -> Tensor:
        """The mean effect of the treatment on each point, N values in float64."""
        return self.mean1 - self.mean0

    def observed(self) -> GaussianFeatures:
        """The outcome that a label would show."""
        return self._numbers(
            self._of_received(self.features0_N_D, self.features1_N_D),
            self._of_received(self.noise0, self.noise1),
            self._of_received(self.mean0, self.mean1),
        )

    def effects(self) -> GaussianFeatures:
        """The effect: the difference of both outcomes, with the noise of both."""
        return self._numbers(self.features1_N_D - self.features0_N_D, self.noise0 + self.noise1, self.effect_N)

    def arm_moments(self) -> ArmMoments:
        """Variances of both arms and of their difference."""

        def work(part: slice) -> Tensor:
            zero_n_D, one_n_D = self.features0_N_D[part].double(), self.features1_N_D[part].double()
            products = (zero_n_D.square(), one_n_D.square(), zero_n_D * one_n_D)
            return torch.stack([product_n_D.sum(1) for product_n_D in products], 1)

        variance0_N, variance1_N, both_N = _by_rows(work, self).unbind(1)
        return self._moments(variance0_N, variance1_N, both_N, self._of_received(self.noise0, self.noise1))

    def _numbers(self, features_N_D: Tensor, noise_N: Tensor, mean_N: Tensor) -> GaussianFeatures:
        if not bool((noise_N > 0).all()):
            raise NoView("noise0: the noise of outcomes is not known; pass it, or use mu-bald, which needs none")
        return GaussianFeatures._own(features_N_D, noise_N, self.draws_id, self.ids, mean_N)


def both_outcomes(
    control: Belief, treated: Belief, treatment: ArrayLike, propensity: ArrayLike | None = None
) -> PotentialOutcomes | GaussianPotentialOutcomes:
    """Both outcomes, from what a model says about each arm of the same points.

    >>> arm = GaussianFeatures([[1.0]], draws_id="fit")
    >>> type(both_outcomes(arm, arm, [0])).__name__
    'GaussianPotentialOutcomes'
    """
    rest = treatment, propensity
    if isinstance(control, GaussianFeatures) and isinstance(treated, GaussianFeatures):
        return GaussianPotentialOutcomes.from_arms(control, treated, *rest)
    if isinstance(control, GaussianSamples) and isinstance(treated, GaussianSamples):
        return PotentialOutcomes.from_arms(control, treated, *rest)
    if isinstance(control, CategoricalSamples) and isinstance(treated, CategoricalSamples):
        return YesOrNoOutcomes.from_arms(control, treated, *rest)
    raise ValueError(
        f"model: it gave {type(control).__name__}, of which no effect can be read; use a model of numbers with draws (a"
        " forest, Ensemble, Dropout, any regressor) or a Gaussian process"
    )


def _by_rows(work: Callable[[slice], Tensor], belief: PotentialOutcomes | GaussianPotentialOutcomes) -> Tensor:
    """In chunks that keep to the memory budget."""
    first = belief.mean0_N_K if isinstance(belief, PotentialOutcomes) else belief.features0_N_D
    return chunked(work, len(belief), 96 * first.shape[1], belief.device)


def _check_pair(control: Belief, treated: Belief, kind: type[Belief]) -> None:
    """Refuse arms that are no beliefs of this kind, or of other points."""
    for name, arm in (("control", control), ("treated", treated)):
        if not isinstance(arm, kind):
            raise ValueError(
                f"{name}: expected {kind.__name__}, found {type(arm).__name__}; pass arrays to the class itself, in"
                " place of from_arms"
            )
    if keys_of(control.ids) != keys_of(treated.ids):
        raise ValueError(
            f"treated: {len(treated)} points with other ids, or in another order, than the {len(control)} of control;"
            " predict both arms of the same points"
        )


def _check_draws(control: GaussianSamples | CategoricalSamples, treated: GaussianSamples | CategoricalSamples) -> None:
    if control.draws_id != treated.draws_id or not torch.equal(control.log_weights_K, treated.log_weights_K):
        raise ValueError("treated: its draws are others than those of control; predict both with one fitted model")


def _widened(values: Tensor, name: str, shape: tuple[int, ...]) -> Tensor:
    """One value for all, or one each."""
    try:
        return torch.broadcast_to(values, shape)
    except RuntimeError:
        raise ValueError(
            f"{name}: expected shape {shape}, found {tuple(values.shape)}; pass one value or one each"
        ) from None


def _finite(values: Tensor, name: str) -> Tensor:
    if not bool(values.isfinite().all()):
        raise ValueError(f"{name}: found NaN or infinity; check the model's output before scoring")
    return values


def _noise(values: ArrayLike, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Variances of noise, none of them negative."""
    wide = _widened(as_tensor(values, name).to(like.device), name, shape)
    if not bool(((wide >= 0) & wide.isfinite()).all()):
        raise ValueError(f"{name}: variances must not be negative, nor infinite; 0 says that they are not known")
    return wide.to(torch.float64 if len(shape) == 1 else like.dtype)
