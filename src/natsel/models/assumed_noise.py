"""A regressor whose methods reckon with a noise that is given, while its predictions keep the noise that was measured.

    y | x, ω_k ~ N(μ_k(x), σ²)          σ² as given in `believe`, as the model has found it in `predictive`

BatchBALD and BAIT weigh draws that disagree against σ². The noise that a model finds on held-out labels holds its own
error as well, which is large while labels are few; with it a batch of many points is chosen almost as if each point
stood alone. The published runs took σ = 0.001 for networks and σ = 0.1 for trees, on labels of variance 1.
docs/theory/black-box.md; Kirsch 2023, black-box batch active learning; Holzmüller et al. 2023.
"""

from typing import Any, Self

from torch import full_like

from natsel.beliefs import Belief, GaussianSamples
from natsel.data.examples import Examples
from natsel.models.adapter import ModelAdapter
from natsel.models.protocol import Progress
from natsel.options import Rows


class AssumedNoise:
    """A model of numbers, with the variance that methods are to take for the noise of a label.

    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> labelled = Examples(np.arange(8.0)[:, None], np.arange(8.0))
    >>> AssumedNoise(RandomForestRegressor(5), 0.01).fit(labelled).believe([[2.5]]).variance_N_K[0, 0].item()
    0.01
    """

    regression = True

    def __init__(self, model: Any, variance: float) -> None:
        if not 0 < variance < float("inf"):
            raise ValueError(f"variance: must be greater than 0, found {variance}; 0.01 suits labels of variance 1")
        self._inner, self.variance = ModelAdapter(model), variance
        self.model, self.check_inputs = self._inner.model, self._inner.check_inputs

    def __copy__(self) -> Self:
        """A copy that can be fitted to other examples without a change to this one."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _inner=self._inner.copy())
        other.model = other._inner.model
        return other

    @property
    def consistent_draws(self) -> bool:
        """As the model that it is made of."""
        return self._inner.consistent_by_design

    def fit(
        self, labelled: Examples, validation: Examples | None = None, *, seed: int = 0, progress: Progress | None = None
    ) -> Self:
        """Fit the model afresh."""
        self._inner.fit(labelled, validation, seed=seed, progress=progress)
        return self

    def believe(self, inputs: Rows, *, progress: Progress | None = None) -> Belief:
        """What the model believes, with the noise that was given."""
        found = self._inner.believe(inputs, progress=progress)
        if not isinstance(found, GaussianSamples):
            raise ValueError(f"model: expected draws of numbers, found {type(found).__name__}; leave the noise out")
        variance_N_K = full_like(found.mean_N_K, self.variance)
        return GaussianSamples._own(found.mean_N_K, variance_N_K, found.log_weights_K, found.draws_id, found.ids)

    def geometry(self, inputs: Rows) -> Belief:
        """That of the model."""
        return self._inner.geometry(inputs)[0]

    def predictive(self, inputs: Rows, *, progress: Progress | None = None) -> Belief:
        """What the model expects, with the noise that it has found itself."""
        return self._inner.predictive(inputs, progress=progress)
