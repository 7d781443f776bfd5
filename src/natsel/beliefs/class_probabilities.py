"""Class probabilities without draws: what one prediction says, and nothing about how it might be wrong.

    p(y = c | x_n)        entropy, margin and least confidence are read from it; disagreement is not, for there is none

A model that gives one distribution per point believes this, and beliefs that hold more can be read as it.
docs/theory/information-quantities.md, 13.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from torch import Tensor

from natsel.beliefs.arrays import ArrayLike, as_integers, as_tensor, is_half
from natsel.beliefs.base import Belief
from natsel.beliefs.categorical import normalised
from natsel.ids import IdArray, ids_for
from natsel.information.class_labels import class_labels


@dataclass(frozen=True, eq=False)
class ClassProbabilities(Belief):
    """What a classifier says about N points, as log probabilities of its C classes.

    >>> belief = ClassProbabilities.from_probs([[0.9, 0.1], [0.5, 0.5]])
    >>> import natsel
    >>> natsel.select("margin", belief, k=1).ids
    array([1])
    """

    log_probs_N_C: Tensor
    draws_id: str | None = None
    ids: IdArray = None  # type: ignore[assignment]

    label_type: ClassVar[type[int]] = int
    points: ClassVar[tuple[str, ...]] = ("log_probs_N_C",)

    if TYPE_CHECKING:  # what the constructor takes; the fields hold tensors

        def __init__(
            self,
            log_probs_N_C: ArrayLike,
            draws_id: str | None = None,
            ids: object = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        log_probs_N_C = as_tensor(self.log_probs_N_C, "log_probs_N_C")
        _check_shape(log_probs_N_C, "log_probs_N_C")
        half = is_half(self.log_probs_N_C)
        self._set(
            log_probs_N_C=normalised(log_probs_N_C[:, None], half, "log_probs_N_C")[:, 0],
            ids=ids_for(self.ids, len(log_probs_N_C)),
        )

    @classmethod
    def from_probs(cls, probs_N_C: ArrayLike, draws_id: str | None = None, ids: object = None) -> Self:
        """From probabilities.

        >>> ClassProbabilities.from_probs([[1.0, 0.0]]).log_probs_N_C.tolist()
        [[0.0, -inf]]
        """
        probs = as_tensor(probs_N_C, "probs_N_C")
        _check_shape(probs, "probs_N_C")
        if bool((probs < 0).any()):
            raise ValueError(
                f"probs_N_C: probabilities cannot be negative (smallest {float(probs.min()):.4g}); pass log"
                " probabilities to ClassProbabilities"
            )
        log_probs_N_1_C = normalised(probs.log()[:, None], is_half(probs_N_C), "probs_N_C")
        return cls._own(log_probs_N_1_C[:, 0], draws_id=draws_id, ids=ids)

    def checked_labels(self, labels: ArrayLike, name: str) -> Tensor:
        """Class numbers of the points."""
        return class_labels(as_integers(labels, name).to(self.device), len(self), self.log_probs_N_C.shape[1], name)

    def predict(self) -> Tensor:
        """The number of the most likely class of each point, the first of those that are equally likely."""
        return self.log_probs_N_C.argmax(-1)

    def predict_proba(self) -> Tensor:
        """p(y = c | x_n), N × C in float64, rows summing to one."""
        return self.log_probs_N_C.double().softmax(-1)

    @property
    def mean(self) -> Tensor:
        """Refused: classes have no mean."""
        raise _about_classes("mean")

    @property
    def std(self) -> Tensor:
        """Refused: classes have no standard deviation."""
        raise _about_classes("std")

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Refused: classes have no order."""
        raise _about_classes("interval")

    @property
    def log_probs_N_1_C(self) -> Tensor:
        """The same with an axis for draws of length one."""
        return self.log_probs_N_C[:, None]


def _about_classes(name: str) -> ValueError:
    return ValueError(f"{name}: the belief is about classes, which have none; use predict_proba() or predict()")


def _check_shape(values: Tensor, name: str) -> None:
    if values.ndim != 2 or values.shape[1] == 0:
        raise ValueError(
            f"{name}: expected two axes (points, classes), found shape {tuple(values.shape)}; draws are held by"
            " CategoricalSamples"
        )
