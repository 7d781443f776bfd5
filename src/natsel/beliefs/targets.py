"""Targets: what is believed about the inputs one will be asked about, how much each counts, and their labels if known.

    EPIG(x) = Σ_j v_j I[Y;Y*_j|x,x*_j]          v = weights / Σ weights

A belief about targets can be combined with a belief about candidates only where both come from the same draws of the
parameters: as many draws, of the same weights, and under one `draws_id` where both name theirs.
docs/theory/epig-jepig.md, 1 and 10.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import torch
from torch import Tensor

from natsel.beliefs.arrays import ArrayLike, Labels, as_tensor
from natsel.beliefs.base import Belief
from natsel.information.weights.precision import Precision

Kind = TypeVar("Kind", bound=Belief, covariant=True)


@dataclass(frozen=True, eq=False)
class Targets(Generic[Kind]):
    """A belief about M targets, with a weight for each (None: all alike) and their labels where these are known.

    >>> from natsel.beliefs import CategoricalSamples
    >>> belief = CategoricalSamples.from_probs([[[0.9, 0.1]], [[0.5, 0.5]]])
    >>> Targets(belief, weights=[3, 1]).weights_M.tolist()
    [3.0, 1.0]
    """

    belief: Kind
    weights: Tensor | None = None
    labels: Tensor | None = None

    if TYPE_CHECKING:  # what the constructor takes; the fields hold tensors

        def __init__(
            self,
            belief: Kind,
            weights: ArrayLike | None = None,
            labels: Labels | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        if not isinstance(self.belief, Belief):
            raise ValueError(f"targets: expected a belief about the targets, found {type(self.belief).__name__}")
        count = len(self.belief)
        if count == 0:
            raise ValueError("targets: found none, and without them nothing says what is worth learning; pass some")
        if self.weights is not None:
            weights_M = as_tensor(self.weights, "target weights").to(self.belief.device, torch.float64, copy=True)
            if weights_M.shape != (count,):
                found = tuple(weights_M.shape)
                raise ValueError(f"target weights: expected one for each of {count} targets, found shape {found}")
            if not bool((weights_M >= 0).all()) or not 0 < float(weights_M.sum()) < float("inf"):
                raise ValueError(
                    "target weights: expected numbers from 0 on that do not all vanish; None is equal ones"
                )
            object.__setattr__(self, "weights", weights_M)
        if self.labels is not None:
            labels_M = self.belief.checked_labels(self.belief.in_order(self.labels, "labels"), "target labels").clone()
            if labels_M.shape != (count,):
                found = tuple(labels_M.shape)
                raise ValueError(f"target labels: expected one for each of {count} targets, found shape {found}")
            object.__setattr__(self, "labels", labels_M)

    @classmethod
    def of(cls, value: "Targets[Belief] | Belief") -> "Targets[Belief]":
        """Targets as they are, or a belief about some."""
        return value if isinstance(value, Targets) else Targets(value)

    @property
    def weights_M(self) -> Tensor | None:
        """The weights as float64, not normalised; None where all count alike."""
        found: Tensor | None = self.weights
        return found

    @property
    def labels_M(self) -> Tensor | None:
        """The labels; None where they are not known."""
        found: Tensor | None = self.labels
        return found

    def __len__(self) -> int:
        return len(self.belief)


def check_shared(belief: Belief, targets: Targets[Belief], name: str = "targets") -> None:
    """Refuse targets (or points held: `name`) whose draws are not those of the candidates.

    >>> from natsel.beliefs import CategoricalSamples
    >>> belief = CategoricalSamples.from_probs([[[0.9, 0.1]]], draws_id="a")
    >>> check_shared(belief, Targets(belief))
    """
    other = targets.belief
    if not isinstance(other, type(belief)) and not isinstance(belief, type(other)):
        raise ValueError(
            f"{name}: found {type(other).__name__} for a pool of {type(belief).__name__}; predict both with one model"
        )
    if belief.draws_id is not None and other.draws_id is not None and belief.draws_id != other.draws_id:
        raise ValueError(
            f"{name}: their draws are {other.draws_id!r} and those of the pool {belief.draws_id!r}; predict both with"
            " the same draws of one fitted model"
        )
    for part in belief.draws:
        mine, theirs = getattr(belief, part), getattr(other, part).to(belief.device)
        if isinstance(mine, Precision):
            if not mine.same(theirs):
                raise ValueError(
                    f"{name}: their precision of the weights is not that of the pool; believe about both with one model"
                )
            continue
        if mine.shape != theirs.shape:
            raise ValueError(
                f"{name}: they come from {theirs.shape[0]} draws and the pool from {mine.shape[0]}; predict both with"
                " the same draws of one fitted model"
            )
        if not torch.allclose(mine.exp(), theirs.exp(), rtol=1e-6, atol=1e-12):
            raise ValueError(
                f"{name}: their draws are weighted otherwise than those of the pool; condition both on the same labels"
            )
