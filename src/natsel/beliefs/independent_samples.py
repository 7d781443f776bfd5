"""Draws of categorical predictions that are drawn anew for every point: draw k of two points has nothing in common.

    log p(y=c | x_n, ω_nk)          mean, entropy and disagreement of each point; nothing about points together

Members simulated from a Dirichlet per point are such draws. So are those of dropout with a new mask for every input.
Read as `CategoricalSamples` they would make points look independent, and a batch would score the sum of its points,
copies included. Therefore they are another kind of belief, from which no objective reads points together: BatchBALD,
EPIG and conditioning on labels are refused.  docs/theory/batchbald.md, 12; docs/theory/dirichlet-ensembles.md, 7.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from torch import Tensor

from natsel.beliefs.arrays import ArrayLike, as_integers
from natsel.beliefs.base import Belief, BeliefView
from natsel.beliefs.categorical import CategoricalSamples
from natsel.beliefs.class_probabilities import ClassProbabilities
from natsel.ids import IdArray, ids_for
from natsel.information.class_labels import class_labels
from natsel.information.mutual import log_mean


@dataclass(frozen=True, eq=False)
class IndependentSamples(Belief):
    """What K draws say about each of N points, where draws of different points are independent; all weigh alike.

    >>> belief = IndependentSamples.from_probs([[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]])
    >>> import natsel
    >>> natsel.select("bald", belief, k=1).ids
    array([0])
    """

    log_probs_N_K_C: Tensor
    draws_id: str | None = None
    ids: IdArray = None  # type: ignore[assignment]

    label_type: ClassVar[type[int]] = int
    points: ClassVar[tuple[str, ...]] = ("log_probs_N_K_C",)

    if TYPE_CHECKING:  # what the constructor takes; the fields hold tensors

        def __init__(
            self,
            log_probs_N_K_C: ArrayLike,
            draws_id: str | None = None,
            ids: object = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        log_probs_N_K_C = CategoricalSamples(self.log_probs_N_K_C).log_probs_N_K_C
        self._set(log_probs_N_K_C=log_probs_N_K_C, ids=ids_for(self.ids, len(log_probs_N_K_C)))

    @classmethod
    def from_probs(cls, probs_N_K_C: ArrayLike, draws_id: str | None = None, ids: object = None) -> Self:
        """From probabilities.

        >>> IndependentSamples.from_probs([[[1.0, 0.0]]]).log_probs_N_K_C.tolist()
        [[[0.0, -inf]]]
        """
        return cls._own(CategoricalSamples.from_probs(probs_N_K_C).log_probs_N_K_C, draws_id, ids)

    @classmethod
    def views(cls) -> tuple[BeliefView, ...]:
        """The mean prediction."""
        return (BeliefView(ClassProbabilities, cls.mean_prediction),)

    def mean_prediction(self) -> ClassProbabilities:
        """p(y|x), the mean over the draws.

        >>> IndependentSamples.from_probs([[[1.0, 0.0], [0.5, 0.5]]]).mean_prediction().log_probs_N_C.exp().tolist()
        [[0.75, 0.25]]
        """
        found = object.__new__(ClassProbabilities)  # a mean of what was checked needs no second check
        found._set(log_probs_N_C=log_mean(self.log_probs_N_K_C), draws_id=self.draws_id, ids=self.ids)
        return found

    @property
    def n_draws(self) -> int:
        """K."""
        return self.log_probs_N_K_C.shape[1]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(N points, K draws, C classes)."""
        count, draws, classes = self.log_probs_N_K_C.shape
        return count, draws, classes

    def checked_labels(self, labels: ArrayLike, name: str) -> Tensor:
        """Class numbers of the points."""
        return class_labels(as_integers(labels, name).to(self.device), len(self), self.shape[2], name)
