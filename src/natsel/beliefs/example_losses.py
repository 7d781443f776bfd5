"""Losses of labelled examples: what a network in training says about the labels that are known.

    loss_n                 −ln p(y_n|x_n), now
    irreducible_loss_n     the same of a model that was trained on held-out data alone; NaN where it is not known
    softmax(logits_n)      class probabilities now, and the features that the last layer turned into logits

The reducible loss, the first less the second, says which examples to train on (Mindermann et al. 2022). Labels are in
the losses already; gradient norms, which are read from logits, still ask for them.
docs/theory/training-selection.md, 2 and 5.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from natsel.beliefs.arrays import ArrayLike, as_integers, as_tensor
from natsel.beliefs.base import Belief, BeliefView, NoView
from natsel.beliefs.class_probabilities import ClassProbabilities
from natsel.beliefs.fisher import FisherFactors
from natsel.ids import IdArray, ids_for
from natsel.information.class_labels import class_labels
from natsel.memory import chunked


@dataclass(frozen=True, eq=False)
class ExampleLosses(Belief):
    """Losses of N labelled examples under a network in training, in nats, and irreducible losses where they are known.

    `logits_N_C` and `features_N_D` are those of the network now, where entropies, margins or gradients are wanted;
    without them the belief holds tables of no columns. Losses may be infinite or NaN, as where training diverges: such
    points score −∞ and are counted in a warning.

    >>> belief = ExampleLosses([0.1, 3.0, 4.0], irreducible_loss_N=[0.1, 0.5, 4.5])
    >>> import natsel
    >>> natsel.select("rho-loss", belief, k=1).ids
    array([1])
    """

    loss_N: Tensor
    irreducible_loss_N: Tensor = None  # type: ignore[assignment]
    logits_N_C: Tensor = None  # type: ignore[assignment]
    features_N_D: Tensor = None  # type: ignore[assignment]
    draws_id: str | None = None
    ids: IdArray = None  # type: ignore[assignment]

    label_type: ClassVar[type[int]] = int
    points: ClassVar[tuple[str, ...]] = ("loss_N", "irreducible_loss_N", "logits_N_C", "features_N_D")

    if TYPE_CHECKING:  # what the constructor takes; the fields hold tensors

        def __init__(
            self,
            loss_N: ArrayLike,
            irreducible_loss_N: ArrayLike | None = None,
            logits_N_C: ArrayLike | None = None,
            features_N_D: ArrayLike | None = None,
            draws_id: str | None = None,
            ids: object = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        loss_N = as_tensor(self.loss_N, "loss_N").double()
        if loss_N.ndim != 1:
            raise ValueError(f"loss_N: expected one loss per point, found shape {tuple(loss_N.shape)}; pass one each")
        if self.irreducible_loss_N is None:
            irreducible_loss_N = torch.full_like(loss_N, math.nan)
        else:
            irreducible_loss_N = as_tensor(self.irreducible_loss_N, "irreducible_loss_N").to(loss_N)
        if irreducible_loss_N.shape != loss_N.shape:
            raise ValueError(
                f"irreducible_loss_N: expected one for each of {len(loss_N)} points, found shape"
                f" {tuple(irreducible_loss_N.shape)}; pass as many"
            )
        self._set(
            loss_N=loss_N,
            irreducible_loss_N=irreducible_loss_N,
            logits_N_C=_table(self.logits_N_C, "logits_N_C", "classes", loss_N),
            features_N_D=_table(self.features_N_D, "features_N_D", "features", loss_N),
            ids=ids_for(self.ids, len(loss_N)),
        )

    @classmethod
    def views(cls) -> tuple[BeliefView, ...]:
        """The class probabilities, and the last layer as a softmax whose weights have precision 1."""
        return (
            BeliefView(ClassProbabilities, cls.class_probabilities),
            BeliefView(FisherFactors, cls.fisher_factors),
        )

    def class_probabilities(self) -> ClassProbabilities:
        """softmax(logits).

        >>> ExampleLosses([0.7], logits_N_C=[[0.0, 0.0]]).class_probabilities().predict_proba().tolist()
        [[0.5, 0.5]]
        """
        found = object.__new__(ClassProbabilities)  # rows of a softmax need no second check
        found._set(log_probs_N_C=self._log_probs(), draws_id=self.draws_id, ids=self.ids)
        return found

    def fisher_factors(self) -> FisherFactors:
        """The last layer: features and softmax(logits), with precision 1.

        >>> ExampleLosses([0.7], logits_N_C=[[0.0, 0.0]], features_N_D=[[2.0]]).fisher_factors().factors.n_weights
        2
        """
        if self.features_N_D.shape[1] == 0:
            raise NoView("features_N_D: this belief holds none; pass those of the network to ExampleLosses")
        probs_N_C = self._log_probs().exp_()
        return FisherFactors._own(self.features_N_D, probs_N_C, draws_id=self.draws_id, ids=self.ids)

    def checked_labels(self, labels: ArrayLike, name: str) -> Tensor:
        """Class numbers of the points, where there are logits to compare them with."""
        classes = self.logits_N_C.shape[1]
        if classes == 0:
            return super().checked_labels(labels, name)
        return class_labels(as_integers(labels, name).to(self.device), len(self), classes, name)

    def _log_probs(self) -> Tensor:
        classes = self.logits_N_C.shape[1]
        if classes == 0:
            raise NoView("logits_N_C: this belief holds none; pass those of the network to ExampleLosses")

        def work(part: slice) -> Tensor:
            return self.logits_N_C[part].double().log_softmax(1)

        log_probs_N_C = chunked(work, len(self), 24 * classes, self.device)
        wrong_N = log_probs_N_C[:, 0].isnan()  # rows that hold nan, +infinity or -infinity alone are nan
        if bool(wrong_N.any()):
            raise ValueError(
                f"logits_N_C: holds nan, +infinity or a row of -infinity at position {int(wrong_N.nonzero()[0])}; leave"
                " such points out, or look for a diverged network"
            )
        return log_probs_N_C


def _table(values: ArrayLike | None, name: str, columns: str, loss_N: Tensor) -> Tensor:
    """A table with a row per point, and without columns where there are no values."""
    if values is None:
        return loss_N.new_empty(len(loss_N), 0)
    table = as_tensor(values, name).to(loss_N.device)
    if table.ndim != 2 or len(table) != len(loss_N):
        raise ValueError(
            f"{name}: expected {len(loss_N)} points × {columns}, found shape {tuple(table.shape)}; pass one row per"
            " point"
        )
    return table
