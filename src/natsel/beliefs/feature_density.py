"""Densities of features: how familiar each point is, beside the class probabilities of one network.

    log q(z_n)              density of the features z_n of point n; low where nothing like it was trained on
    softmax(logits_n / T)   class probabilities; flat where the classes overlap (only meaningful where q is not low)

One forward pass of one network gives both (Mukhoti et al. 2023): −log q(z) stands for what the model does not know, the
entropy of the softmax for what cannot be known from this input. There are no draws, so nothing is joint.
docs/theory/deterministic-uncertainty.md, 1.
"""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from natsel.beliefs.arrays import ArrayLike, as_integers, as_tensor
from natsel.beliefs.base import Belief, BeliefView
from natsel.beliefs.class_probabilities import ClassProbabilities
from natsel.ids import IdArray, ids_for
from natsel.information.class_labels import class_labels
from natsel.memory import chunked


@dataclass(frozen=True, eq=False)
class FeatureDensity(Belief):
    """What one network says about N points: log densities of their features, and logits of C classes.

    `temperature` divides the logits before they become probabilities. `threshold` is the log density below which a
    point counts as unfamiliar, `entropy_threshold` the entropy above which it counts as ambiguous; None where the model
    knows of none. `warnings` are what the model has to say about its densities.

    >>> belief = FeatureDensity([-10.0, -500.0], [[2.0, 0.0], [0.0, 9.0]], threshold=-50.0)
    >>> import natsel
    >>> natsel.select("density", belief, k=1).ids, belief.unfamiliar.tolist()
    (array([1]), [False, True])
    """

    log_density_N: Tensor
    logits_N_C: Tensor
    temperature: float = 1.0
    threshold: float | None = None
    entropy_threshold: float | None = None
    draws_id: str | None = None
    ids: IdArray = None  # type: ignore[assignment]
    warnings: tuple[str, ...] = field(default=(), init=False, repr=False)

    label_type: ClassVar[type[int]] = int
    points: ClassVar[tuple[str, ...]] = ("log_density_N", "logits_N_C")

    if TYPE_CHECKING:  # what the constructor takes; the fields hold tensors

        def __init__(
            self,
            log_density_N: ArrayLike,
            logits_N_C: ArrayLike,
            temperature: float = 1.0,
            threshold: float | None = None,
            entropy_threshold: float | None = None,
            draws_id: str | None = None,
            ids: object = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        logits_N_C = as_tensor(self.logits_N_C, "logits_N_C")
        log_density_N = as_tensor(self.log_density_N, "log_density_N").double().to(logits_N_C.device)
        if logits_N_C.ndim != 2 or logits_N_C.shape[1] == 0:
            raise ValueError(
                f"logits_N_C: expected points × classes, found shape {tuple(logits_N_C.shape)}; pass one row per point"
            )
        if log_density_N.shape != (len(logits_N_C),):
            raise ValueError(
                f"log_density_N: expected one for each of {len(logits_N_C)} points, found shape"
                f" {tuple(log_density_N.shape)}; pass one per point"
            )
        if bool(log_density_N.isnan().any()) or bool((log_density_N == math.inf).any()):
            raise ValueError("log_density_N: holds nan or +infinity; look for a diverged network or a singular density")
        highest_N = logits_N_C.amax(1)
        if not bool(highest_N.isfinite().all()) or bool(logits_N_C.isnan().any()):
            raise ValueError("logits_N_C: holds nan, +infinity or a row of -infinity; look for a diverged network")
        if not (isinstance(self.temperature, int | float) and 0 < self.temperature < math.inf):
            raise ValueError(
                f"temperature: expected a positive number, found {self.temperature!r}; 1 leaves logits alone"
            )
        for name in ("threshold", "entropy_threshold"):
            limit = getattr(self, name)
            if limit is not None and not (isinstance(limit, int | float) and limit == limit):
                raise ValueError(f"{name}: expected a number or None, found {limit!r}; None says that none is known")
        self._set(log_density_N=log_density_N, logits_N_C=logits_N_C, ids=ids_for(self.ids, len(logits_N_C)))

    @classmethod
    def views(cls) -> tuple[BeliefView, ...]:
        """The class probabilities alone."""
        return (BeliefView(ClassProbabilities, cls.class_probabilities),)

    def class_probabilities(self) -> ClassProbabilities:
        """softmax(logits / temperature)."""

        def work(part: slice) -> Tensor:
            logits_n_C = self.logits_N_C[part].double()
            return ((logits_n_C - logits_n_C.amax(1, keepdim=True)) / self.temperature).log_softmax(1)

        log_probs_N_C = chunked(work, len(self), 24 * self.logits_N_C.shape[1], self.device)
        found = object.__new__(ClassProbabilities)  # of logits that were checked
        found._set(log_probs_N_C=log_probs_N_C, draws_id=self.draws_id, ids=self.ids)
        return found

    @property
    def uncertainty_limits(self) -> tuple[float | None, float | None]:
        """The limits of −log q(z) and of the entropy that the model knows from its training set."""
        return None if self.threshold is None else -self.threshold, self.entropy_threshold

    @property
    def unfamiliar(self) -> Tensor:
        """Which points have a log density below the threshold: N truth values."""
        if self.threshold is None:
            raise ValueError("threshold: this belief has none; pass threshold= (a quantile of training densities)")
        return self.log_density_N < self.threshold

    def checked_labels(self, labels: ArrayLike, name: str) -> Tensor:
        """Class numbers of the points."""
        return class_labels(as_integers(labels, name).to(self.device), len(self), self.logits_N_C.shape[1], name)


def threshold_of(log_density_N: Tensor, level: float = 0.99) -> float:
    """The log density that a share `level` of (training) points exceeds: the 1 − level quantile, by straight lines.

    A point is unfamiliar where its log density is below it: the quantile of −log q at `level`, with the sign turned.

    >>> threshold_of(torch.tensor([-1.0, -2.0, -3.0]), level=0.5)
    -2.0
    """
    if not 0 < level < 1:
        raise ValueError(f"level: expected a share between 0 and 1, found {level}; 0.99 is usual")
    if log_density_N.numel() == 0:
        raise ValueError("log_density_N: found none; pass the densities of training points")
    # torch.quantile refuses more than 16 million values.
    sorted_N = log_density_N.double().flatten().sort().values
    place = (len(sorted_N) - 1) * (1 - level)
    below, above = sorted_N[math.floor(place)], sorted_N[math.ceil(place)]
    return float(torch.lerp(below, above, place - math.floor(place))) if bool(below != above) else float(below)
