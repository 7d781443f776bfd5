"""Heads: what learns on top of features that stay as they are.

A head is made when the number of features and of classes is known: a function (features, classes) → model. Any model or
scikit-learn estimator may serve as one too.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import torch

from natsel.beliefs import Belief
from natsel.data.examples import Examples, InputForm, as_labelled
from natsel.models.adapter import ModelAdapter
from natsel.models.networks.architectures import mlp
from natsel.models.networks.training import Training
from natsel.models.protocol import Model, Progress, learnt
from natsel.options import Rows

Head = Callable[[int, int], Any]
"""Given the number of features and of classes (1: a regression), makes a model."""


class ModelOnFeatures(ABC):
    """A function that makes features of inputs and stays as it is, and a head that every fit makes and fits afresh."""

    head: Head | Any
    _fitted_head: ModelAdapter | None = None
    _form = InputForm()

    @abstractmethod
    def _width(self, labelled: Examples | Any) -> int:
        """How many features an input has; the examples are those of a fit that begins."""

    @abstractmethod
    def features(self, inputs: Rows, *, progress: Progress | None = None) -> Any:
        """What the head sees of inputs, [N, D] in float32."""

    def fit(
        self,
        labelled: Examples | Any,
        validation: Examples | Any = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Make the features of what is new, then fit the head afresh."""
        labelled, validation = as_labelled(labelled, validation)
        head = make_head(self.head, self._width(labelled), labelled)

        def seen(part: Examples) -> Examples:
            return Examples(self.features(part.inputs, progress=progress), part.labels, part.classes)

        examples, others = seen(labelled), None if validation is None else seen(validation)
        self._fitted_head = head.fit(examples, others, seed=seed, progress=progress)
        self._form = InputForm.of(labelled.inputs)
        return self

    def believe(self, inputs: Rows, *, progress: Progress | None = None) -> Belief:
        """What the head believes about the features of inputs."""
        head = learnt(self._fitted_head)
        return head.believe(self.features(self._form.read(inputs), progress=progress), progress=progress)

    def believe_together(
        self, pool_inputs: Rows, target_inputs: Rows, *, progress: Progress | None = None
    ) -> tuple[Belief, Belief]:
        """What the head believes about the features of both, from the same draws."""
        head = learnt(self._fitted_head)
        both = (self.features(self._form.read(one), progress=progress) for one in (pool_inputs, target_inputs))
        return head.believe_both(*both, progress=progress)

    def geometry(self, inputs: Rows) -> Belief:
        """How alike the head treats the features of inputs."""
        return learnt(self._fitted_head).geometry(self.features(self._form.read(inputs)))[0]

    @property
    def consistent_draws(self) -> bool:
        """Whether the head's are, which is known after a fit: it makes the head."""
        return self._fitted_head is not None and self._fitted_head.consistent_by_design


def dropout_head(
    hidden: tuple[int, ...] = (256,),
    dropout: float = 0.5,
    *,
    draws: int = 100,
    training: Training | None = None,
    device: torch.device | str | None = None,
) -> Head:
    """A perceptron believed through dropout.

    >>> type(dropout_head(draws=20)(384, 150)).__name__
    'Dropout'
    """
    from natsel.models.dropout.dropout import Dropout

    def head(features: int, classes: int) -> Model:
        network = mlp(features, classes, tuple(hidden), dropout)
        return Dropout(network, draws=draws, training=training or Training(), device=device)

    return head


def ensemble_head(
    hidden: tuple[int, ...] = (256,),
    dropout: float = 0.5,
    *,
    members: int = 5,
    training: Training | None = None,
    device: torch.device | str | None = None,
) -> Head:
    """An ensemble of perceptrons.

    >>> type(ensemble_head(members=3)(384, 150)).__name__
    'Ensemble'
    """
    from natsel.models.networks.ensemble import Ensemble

    def head(features: int, classes: int) -> Model:
        network = mlp(features, classes, tuple(hidden), dropout)
        return Ensemble(network, members=members, training=training or Training(), device=device)

    return head


def make_head(head: Any, features: int, labelled: Examples | Any) -> ModelAdapter:
    """A model for these features and the labels of these examples, from a head, a model or an estimator."""
    if isinstance(head, Model) or hasattr(head, "get_params") or not callable(head):
        return ModelAdapter(head)
    numbers = labelled.labels.dtype.kind == "f"
    return ModelAdapter(head(features, 1 if numbers else labelled.n_classes))
