"""Gaussian processes of GPyTorch that believe, exact and variational ones (extra `gp`).

    GaussianLikelihood     y = f(x) + ε                    GaussianFeatures: the posterior mean, and rows whose products
                                                           are posterior covariances
    BernoulliLikelihood    p(y=1 | x, f) = Φ(f(x))         CategoricalSamples: K joint draws

The process is made afresh from the examples of every fit and trained on all of them at once, an exact one by its
marginal likelihood, a variational one by its evidence lower bound. As with all processes, features and draws belong to
the inputs of one call: `believe_together` puts pool and targets into one. The covariance of a call is held whole, so
that its inputs are limited by the memory budget.
docs/theory/epig-jepig.md, 6.
"""

from collections.abc import Callable
from numbers import Real
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from natsel.beliefs import Belief, CategoricalSamples, GaussianFeatures, GaussianSamples
from natsel.data.examples import Examples, InputForm, as_labelled
from natsel.memory import require
from natsel.models.fingerprints import fingerprint
from natsel.models.processes.joint_features import Covariance, JointProcess, pivoted_cholesky
from natsel.models.protocol import Progress
from natsel.models.rows import Array, numbers_of, rows_of
from natsel.options import Rows
from natsel.seeds import derive

Make = Callable[[Tensor, Tensor], tuple[Any, Any]]
"""(inputs_N_D, labels_N) → (process, likelihood), in float64; called by every fit."""

_TOLERANCE = 1e-9


class GPyTorch(JointProcess):
    """A GPyTorch process and its likelihood as a model that believes.

    `make(inputs, labels)` returns them, untrained; `steps` of Adam with `learning_rate` train them (0: used as made).
    `draws` is how many joint draws a classifier makes. After `fit`, `process` and `likelihood` are the trained ones.

        def make(inputs, labels):
            likelihood = gpytorch.likelihoods.GaussianLikelihood()
            return MyExactGP(inputs, labels, likelihood), likelihood

        model = natsel.models.GPyTorch(make)
    """

    kind = "gpytorch"

    def __init__(self, make: Make, *, steps: int = 200, learning_rate: float = 0.05, draws: int = 1000) -> None:
        _gpytorch()
        if not callable(make):
            raise ValueError(
                f"make: expected a function of (inputs, labels) that returns (process, likelihood), found"
                f" {type(make).__name__}; a process is made afresh by every fit"
            )
        for name, value, least in (("steps", steps, 0), ("draws", draws, 1)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name}: expected a whole number from {least} on, found {value!r}")
        rate: Any = learning_rate
        if not isinstance(rate, Real) or not 0 < float(rate) < float("inf"):
            raise ValueError(f"learning_rate: expected a number above 0, found {learning_rate!r}; 0.05 is usual")
        self.make, self.steps, self.learning_rate, self.draws = make, steps, learning_rate, draws
        self.process: Any = None
        self.likelihood: Any = None

    def fit(
        self,
        labelled: Examples | Any,
        validation: Examples | Any = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Make a process and train it; `seed` decides what it starts from, and the joint draws."""
        gpytorch = _gpytorch()
        labelled, _ = as_labelled(labelled)
        rows_N, labels_N = rows_of(labelled.inputs), numbers_of(labelled.labels)
        inputs_N, targets_N = torch.from_numpy(rows_N), torch.from_numpy(labels_N)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(seed, "make"))
            process, likelihood = self.make(inputs_N, targets_N)
            process, likelihood = process.double(), likelihood.double()
            kinds = gpytorch.likelihoods.GaussianLikelihood, gpytorch.likelihoods.BernoulliLikelihood
            if not isinstance(likelihood, kinds):
                raise ValueError(
                    f"make: found a {type(likelihood).__name__}; natsel reads GaussianLikelihood and"
                    " BernoulliLikelihood, one latent function each"
                )
            classes = isinstance(likelihood, kinds[1])
            if classes and not np.isin(labels_N, (0, 1)).all():
                raise ValueError("labels: BernoulliLikelihood takes the two classes 0 and 1; number them so")
            self._train(gpytorch, process, likelihood, inputs_N, targets_N, progress)
        self.process, self.likelihood, self.regression = process.eval(), likelihood.eval(), not classes
        self._form, self._columns, self._seed = InputForm.of(labelled.inputs), rows_N.shape[1], seed
        learnt = [dict(part.state_dict()) for part in (process, likelihood)]
        self._fit_id = (fingerprint(self, seed, rows_N, labels_N, *learnt),)
        return self

    def predictive(self, inputs: Rows) -> GaussianSamples | CategoricalSamples:
        """What labels are expected, one row per input."""
        rows_N = torch.from_numpy(self._rows(inputs))
        with torch.no_grad(), _exact_cholesky():
            latent = self.process(rows_N)
            mean_N, variance_N = latent.mean, latent.lazy_covariance_matrix.diagonal().clamp_min(0)
        if self.regression:
            return GaussianSamples(mean_N[:, None], (variance_N + self._noise())[:, None])
        side_N = mean_N / (1 + variance_N).sqrt()
        return CategoricalSamples(torch.special.log_ndtr(torch.stack([-side_N, side_N], 1))[:, None, :])

    def _train(
        self, gpytorch: Any, process: Any, likelihood: Any, inputs_N: Tensor, targets_N: Tensor, progress: Any
    ) -> None:
        process.train()
        likelihood.train()
        if isinstance(process, gpytorch.models.ExactGP):
            goal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, process)
        else:
            goal = gpytorch.mlls.VariationalELBO(likelihood, process, num_data=len(targets_N))
        weights = [*{id(value): value for part in (process, likelihood) for value in part.parameters()}.values()]
        optimiser = torch.optim.Adam(weights, lr=self.learning_rate)
        for step in range(self.steps):
            optimiser.zero_grad()
            loss = -goal(process(inputs_N), targets_N)
            loss.backward()
            optimiser.step()
            if progress is not None:
                progress(step + 1, self.steps)

    def _joint_belief(self, rows_N_D: Array) -> Belief:
        rows_N, count = torch.from_numpy(rows_N_D), len(rows_N_D)
        require(
            4 * 8 * count**2,
            f"inputs: four matrices of {count} × {count} for the covariance of {count} of them",
            "ask about fewer at a time (candidates=)",
        )
        with torch.no_grad(), _exact_cholesky():
            latent = self.process(rows_N)
            mean_N, covariance_N_N = latent.mean.detach(), latent.covariance_matrix.detach()
        variance_N = covariance_N_N.diagonal().clamp_min(0)
        noise = self._noise() if self.regression else 1.0
        features_N_D = pivoted_cholesky(variance_N, lambda i, j: covariance_N_N[i][:, j], _TOLERANCE * noise)
        draws_id = self._draws_id(rows_N_D)
        if self.regression:
            return GaussianFeatures._own(features_N_D, noise, draws_id, mean=mean_N)
        return self._two_classes(mean_N, features_N_D, torch.special.log_ndtr, 64, draws_id)

    def _prior(self, rows_N_D: Array) -> Covariance:
        rows_N, kernel = torch.from_numpy(rows_N_D), self.process.covar_module
        return lambda i, j: kernel(rows_N[i], rows_N[j]).to_dense().detach()

    def _noise(self) -> float:
        return float(self.likelihood.noise.detach())


def _gpytorch() -> Any:
    try:
        import gpytorch
    except ImportError:
        raise ImportError("GPyTorch processes need the extra gp: pip install 'natsel[gp]'") from None
    return gpytorch


def _exact_cholesky() -> Any:
    """Settings under which GPyTorch factorises instead of iterating: no random probes, no tolerance."""
    return _gpytorch().settings.max_cholesky_size(1 << 30)
