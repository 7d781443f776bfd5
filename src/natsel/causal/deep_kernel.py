"""A Gaussian process on features that a network learns, with the treatment beside them (extra `gp`).

    z(x, t) = [φ(x), t],   f ~ GP(mean of the labels, s² exp(−|z − z'|²/(2ℓ²))),   y = f + noise
    u = f(Z) at m inducing points,   u = L v,   v ~ N(m, S)         trained by the evidence lower bound, with φ

φ has spectral norm: it keeps points apart that are apart, so that the process is unsure far from its labels. Inducing
points are inputs: they go through φ as data do, and stay among the data while φ moves. They start at centres of the
labelled inputs, half of them with the treatment; ℓ starts at the mean distance of features. Covariates and outcomes
are standardised, so that their units do not matter, and s² and the noise are trained as logarithms.
docs/theory/causal-bald.md, 6; van Amersfoort et al. 2021 (DUE).
"""

from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from natsel.beliefs import Belief, CategoricalSamples, GaussianFeatures, GaussianSamples
from natsel.causal.data import treatment_of
from natsel.data.examples import Examples, as_labelled
from natsel.models.networks.plain_networks import resffn
from natsel.models.processes.gpytorch_process import GPyTorch, Make
from natsel.models.protocol import Progress
from natsel.models.rows import Array, numbers_of
from natsel.options import Rows

_FEW = 1000  # points whose distances decide where ℓ starts
_JITTER = 1e-6
_CONSTANT = 1e-8  # a deviation below this share of the largest outcome is rounding


def deep_kernel(
    extractor: Callable[[], nn.Module] | None = None,
    *,
    inducing: int = 100,
    steps: int = 300,
    learning_rate: float = 0.01,
) -> GPyTorch:
    """A model of the outcome, given [x, t]: `natsel.causal.SLearner(deep_kernel())` gives both.

    `extractor()` makes φ, a network from rows x to rows of features, anew for every fit; without one it is a residual
    perceptron of 3 layers of 100 units with spectral norm 0.95. `steps` of Adam train everything together.

        model = natsel.causal.SLearner(natsel.causal.deep_kernel(inducing=50))
    """
    if isinstance(inducing, bool) or not isinstance(inducing, Integral) or inducing < 1:
        raise ValueError(f"inducing: expected a whole number from 1 on, found {inducing!r}; 100 are usual")
    if extractor is not None and (isinstance(extractor, nn.Module) or not callable(extractor)):
        raise ValueError(
            f"extractor: expected a function that makes a network, found {type(extractor).__name__}; each fit starts"
            " from a new one: pass lambda: network"
        )

    def make(inputs_N_D: Tensor, labels_N: Tensor) -> tuple[Any, Any]:
        columns = inputs_N_D.shape[1] - 1
        network = (extractor or (lambda: resffn(columns, 1, 3, 100, spectral=0.95)[:-1]))()
        if not isinstance(network, nn.Module):
            raise ValueError(f"extractor: expected a function that makes a network, it made {type(network).__name__}")
        return _process(network.double(), inputs_N_D, int(inducing))

    return _DeepKernel(make, steps=steps, learning_rate=learning_rate)


class _DeepKernel(GPyTorch):
    """The process learns standardised outcomes; what is believed is in the units of the outcomes."""

    kind = "deep-kernel"
    reads_treatment: ClassVar[bool] = True

    def __init__(self, make: Make, *, steps: int, learning_rate: float) -> None:
        super().__init__(make, steps=steps, learning_rate=learning_rate)
        self._level, self._scale = 0.0, 1.0

    def fit(
        self,
        labelled: Examples | Any,
        validation: Examples | Any = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Make a process and train it; `seed` decides what it starts from."""
        labelled, _ = as_labelled(labelled)
        treatment_of(labelled.inputs, -1)
        labels_N = numbers_of(labelled.labels)
        self._level, spread = float(labels_N.mean()), float(labels_N.std())
        self._scale = spread if spread > _CONSTANT * float(abs(labels_N).max()) else 1.0
        standard_N = (labels_N - self._level) / self._scale
        super().fit(Examples(labelled.inputs, standard_N), seed=seed, progress=progress)
        assert self._fit_id is not None
        self._fit_id = (*self._fit_id, np.array([self._level, self._scale]))
        return self

    def predictive(self, inputs: Rows) -> GaussianSamples | CategoricalSamples:
        """What labels are expected, one row per input."""
        found = super().predictive(inputs)
        assert isinstance(found, GaussianSamples)  # of numbers
        return GaussianSamples(self._level + self._scale * found.mean_N_K, self._scale**2 * found.variance_N_K)

    def _joint_belief(self, rows_N_D: Array) -> Belief:
        found = super()._joint_belief(rows_N_D)
        assert isinstance(found, GaussianFeatures)
        mean_N = self._level + self._scale * found.mean_N
        return GaussianFeatures(
            self._scale * found.features_N_D, self._scale**2 * found.noise_N, found.draws_id, found.ids, mean_N
        )


def _process(network: nn.Module, inputs_N_D: Tensor, inducing: int) -> tuple[Any, Any]:
    """Of standardised labels: their mean is 0, and their variance 1."""
    from gpytorch.constraints import Positive
    from gpytorch.distributions import MultivariateNormal
    from gpytorch.kernels import RBFKernel, ScaleKernel
    from gpytorch.likelihoods import GaussianLikelihood
    from gpytorch.models import ApproximateGP
    from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

    middle_D, spread_D = inputs_N_D.mean(0), inputs_N_D.std(0, correction=0)
    middle_D[-1], spread_D[-1] = 0.0, 1.0  # the treatment stays as it is
    spread_D[spread_D == 0] = 1.0
    logarithm = {"transform": torch.exp, "inv_transform": torch.log}

    rows_N_D = (inputs_N_D - middle_D) / spread_D

    def features(rows_N_D: Tensor) -> Tensor:
        return torch.cat([network(rows_N_D[:, :-1]).flatten(1), rows_N_D[:, -1:]], 1)

    with torch.no_grad():
        distances = torch.pdist(features(rows_N_D[torch.randperm(len(rows_N_D))[:_FEW]])[:, :-1])
    start_m_D = _centres(rows_N_D, inducing)
    start_m_D[:, -1] = torch.arange(len(start_m_D)) % 2

    class DeepKernelProcess(ApproximateGP):  # type: ignore[misc]  # GPyTorch has no types
        def __init__(self) -> None:
            values = CholeskyVariationalDistribution(len(start_m_D))
            super().__init__(VariationalStrategy(self, start_m_D, values, jitter_val=_JITTER))
            self.network = network
            self.kernel = ScaleKernel(RBFKernel(), outputscale_constraint=Positive(**logarithm)).double()
            self.kernel.outputscale = 1.0
            self.kernel.base_kernel.lengthscale = float(distances.mean()) if bool((distances > 0).any()) else 1.0

        def __call__(self, inputs_N_D: Tensor, **options: Any) -> Any:
            return super().__call__((inputs_N_D - middle_D) / spread_D, **options)

        def forward(self, rows_N_D: Tensor) -> Any:
            return MultivariateNormal(rows_N_D.new_zeros(len(rows_N_D)), self.kernel(features(rows_N_D)))

    likelihood = GaussianLikelihood(noise_constraint=Positive(**logarithm)).double()
    likelihood.noise = 0.1
    return DeepKernelProcess(), likelihood


def _centres(rows_N_D: Tensor, count: int) -> Tensor:
    """So many centres of the rows by k-means, or all of them where they are fewer."""
    from sklearn.cluster import KMeans

    distinct_n_D = np.unique(rows_N_D.numpy(), axis=0)
    if len(distinct_n_D) > count:
        seed = int(torch.randint(1 << 31, ()))
        distinct_n_D = KMeans(count, n_init=1, random_state=seed).fit(distinct_n_D).cluster_centers_
    return torch.from_numpy(distinct_n_D)
