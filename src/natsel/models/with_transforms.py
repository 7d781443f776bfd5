"""A regressor whose features pass through transforms of kernels before anything is chosen by them.

    believe(x) = transforms(inner belief about x, inner belief about the labelled points)

What is believed about an input depends on the fit and on that input alone: a transform that looks at the pool
(`ConditionOn("pool")`) is refused. Predictions stay those of the inner model.
docs/theory/black-box.md; `natsel.beliefs.kernel_transforms`.
"""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from natsel.beliefs import Belief, GaussianFeatures, Targets
from natsel.beliefs.kernel_transforms import ConditionOn, KernelTransform, Transforms, as_features
from natsel.data.examples import Examples, as_labelled
from natsel.data.frames import joined
from natsel.models.adapter import ModelAdapter
from natsel.models.protocol import Progress, Together, learnt
from natsel.options import Rows


class WithTransforms:
    """A model with its kernel transformed; `model` is anything that learns numbers, `transforms` one or more.

    >>> from natsel.beliefs.kernel_transforms import RandomProjection, Scale
    >>> from natsel.models.processes.bayesian_linear import BayesianLinear
    >>> labelled = Examples(np.array([[0.0], [1.0], [2.0]]), np.array([0.1, 1.1, 1.9]))
    >>> model = WithTransforms(BayesianLinear(), Transforms(Scale(), RandomProjection(8))).fit(labelled)
    >>> model.believe(np.array([[1.0], [9.0]])).features_N_D.shape
    torch.Size([2, 8])
    """

    def __init__(self, model: Any, transforms: KernelTransform) -> None:
        self._adapter = ModelAdapter(model)
        self.check_inputs = self._adapter.check_inputs
        self.model, self.transforms = model, Transforms(*_steps(transforms))
        if any(step == ConditionOn("pool") for step in self.transforms.steps):
            raise ValueError(
                "transforms: ConditionOn('pool') makes what is believed depend on the other inputs that are asked"
                " about; apply it to a belief, or condition on 'labelled'"
            )
        if self._adapter.classification:
            raise ValueError(
                f"model: kernel transforms are for numbers, found a classifier in {type(self._adapter.model).__name__};"
                " pass a regressor"
            )
        if self._adapter.regression:
            self.regression = True
        self._labelled: Examples | None = None
        self._known: Targets[Belief] | None = None

    def __copy__(self) -> Self:
        """A copy that can be fitted to other examples without a change to this one."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._adapter = self._adapter.copy()
        return other

    @property
    def consistent_draws(self) -> bool:
        """As the inner model says."""
        return self._adapter.consistent_by_design

    def fit(
        self,
        labelled: Examples | Any,
        validation: Examples | Any = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Fit the inner model afresh, and keep what it was fitted to."""
        self._labelled = self._known = None  # a fit that fails leaves no model
        labelled, validation = as_labelled(labelled, validation)
        self._adapter.fit(labelled, validation, seed=seed, progress=progress)
        if not self._joint:
            self._known = Targets(as_features(self._adapter.believe(labelled.inputs)), labels=labelled.labels)
        self._labelled = labelled
        return self

    def believe(self, inputs: Rows, *, progress: Progress | None = None) -> GaussianFeatures:
        """Transformed features, one row per input."""
        labelled = learnt(self._labelled)
        if self._known is not None:
            return self.transforms(self._adapter.believe(inputs, progress=progress), self._known)[0]
        pool, known = self._adapter.believe_both(inputs, labelled.inputs, progress=progress)
        return self.transforms(pool, Targets(known, labels=labelled.labels))[0]

    def believe_together(
        self, pool_inputs: Rows, target_inputs: Rows, *, progress: Progress | None = None
    ) -> tuple[GaussianFeatures, GaussianFeatures]:
        """Transformed features of pool and targets in one space, also where the inner model's belong to one call."""
        if not self._joint:
            pool, targets = (self.believe(inputs, progress=progress) for inputs in (pool_inputs, target_inputs))
            return pool, targets
        belief, split = self.believe(joined(pool_inputs, target_inputs), progress=progress), len(pool_inputs)
        return belief[:split].with_ids(np.arange(split)), belief[split:].with_ids(np.arange(len(target_inputs)))

    def geometry(self, inputs: Rows) -> Belief:
        """That of the inner model."""
        return self._adapter.geometry(inputs)[0]

    def predictive(self, inputs: Rows, *, progress: Progress | None = None) -> Belief:
        """What labels the inner model expects."""
        learnt(self._labelled)
        return self._adapter.predictive(inputs, progress=progress)

    @property
    def _joint(self) -> bool:
        """Whether the inner model's features belong to the inputs of one call."""
        return isinstance(self._adapter.model, Together)


def _steps(transforms: KernelTransform) -> Iterator[KernelTransform]:
    """All transforms in their order, those inside others too."""
    if not isinstance(transforms, Transforms):
        yield transforms
        return
    for step in transforms.steps:
        yield from _steps(step)
