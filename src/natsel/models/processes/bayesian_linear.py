"""Bayesian linear regression: the posterior over weights in closed form, as features whose products are covariances.

    y = φ(x)·w + ε,   w ~ N(0, prior I),   ε ~ N(0, noise)
    w | labels ~ N(m, S),   S = (I/prior + Φᵀ Φ/noise)⁻¹ = A Aᵀ,   mean = φ(x)·m,   features = φ(x) A

Where evidence chooses the prior and there is an intercept, y is measured from the mean of the labels.
The features are the same functions of x in every call, so that beliefs about pool and targets combine. Everything is
exact: EIG, EPIG and JEPIG read from the belief are those of the model.
docs/theory/epig-jepig.md, 6 and 9; MacKay 1992.
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from sklearn.linear_model import BayesianRidge
from torch import Tensor

from natsel.beliefs import GaussianFeatures, GaussianSamples
from natsel.data.examples import Examples, InputForm, as_labelled
from natsel.memory import chunked
from natsel.models.fingerprints import fingerprint
from natsel.models.protocol import learnt
from natsel.models.rows import Array, numbers_of, place_and_spread, reads_numbers, rows_of
from natsel.options import Rows


class BayesianLinear:
    """Linear regression that knows its posterior.

    `prior` is the variance of each weight before any label, `noise` that of labels, in the units of the labels; where
    one is None, both are chosen by evidence at every fit. `basis` maps rows of inputs to rows of features, such as
    polynomials; a constant feature is added with `intercept`.

    >>> labelled = Examples(np.array([[0.0], [1.0], [2.0]]), np.array([0.1, 1.1, 1.9]))
    >>> model = BayesianLinear(prior=10.0, noise=0.01).fit(labelled)
    >>> model.believe(np.array([[1.0], [9.0]])).features_N_D.shape
    torch.Size([2, 2])
    >>> model.predictive(np.array([[1.0]])).mean_N_K.round(decimals=2)
    tensor([[1.0300]], dtype=torch.float64)
    """

    regression = True
    consistent_draws = True
    check_inputs = reads_numbers

    def __init__(
        self,
        prior: float | None = None,
        noise: float | None = None,
        *,
        intercept: bool = True,
        basis: Callable[[Array], Any] | None = None,
    ) -> None:
        for name, variance in (("prior", prior), ("noise", noise)):
            if variance is not None and not 0 < variance < np.inf:
                raise ValueError(f"{name}: expected a positive variance, found {variance}; None chooses it by evidence")
        self.prior, self.noise, self.intercept, self.basis = prior, noise, intercept, basis
        self._draws_id: str | None = None

    def fit(self, labelled: Examples | Any, validation: Examples | Any = None) -> Self:
        """Fit afresh; nothing is random, and validation examples are not looked at."""
        labelled, _ = as_labelled(labelled)
        rows_N, labels_N = rows_of(labelled.inputs), numbers_of(labelled.labels)
        self._form, self._columns = InputForm.of(labelled.inputs), rows_N.shape[1]
        design_N_D = self._design(rows_N)
        prior, noise = self.prior, self.noise
        place, spread = place_and_spread(labels_N)
        self._place = place if self.intercept and prior is None else 0.0
        above_N = labels_N - self._place
        if prior is None or noise is None:
            found = _by_evidence(design_N_D, above_N, (spread**2 + (place - self._place) ** 2) ** 0.5)
            prior, noise = prior or found[0], noise or found[1]
        self.fitted_prior, self.fitted_noise = prior, noise
        precision_D_D = design_N_D.T @ design_N_D / noise + torch.eye(design_N_D.shape[1], dtype=torch.float64) / prior
        self._factor_D_D = torch.linalg.cholesky(precision_D_D)
        pull_D = design_N_D.T @ torch.from_numpy(above_N) / noise
        self.mean_D = torch.cholesky_solve(pull_D[:, None], self._factor_D_D)[:, 0]
        decided_by = prior, noise, self.intercept, rows_N, labels_N, self._factor_D_D.numpy()
        self._draws_id = f"bayesian-linear:{fingerprint(*decided_by)}"
        return self

    def believe(self, inputs: Rows) -> GaussianFeatures:
        """The posterior: its mean, and features whose products are its covariances."""
        draws_id = learnt(self._draws_id)
        inputs = self._form.read(inputs)
        mean_N = torch.empty(len(inputs), dtype=torch.float64)

        def work(part: slice) -> Tensor:
            design_n_D = self._design(rows_of(inputs[part], self._columns))
            mean_N[part] = design_n_D @ self.mean_D + self._place
            found: Tensor = torch.linalg.solve_triangular(self._factor_D_D, design_n_D.T, upper=False).T
            return found

        features_N_D = chunked(work, len(inputs), 32 * len(self.mean_D), torch.device("cpu"))
        return GaussianFeatures._own(features_N_D, self.fitted_noise, draws_id, mean=mean_N)

    def predictive(self, inputs: Rows) -> GaussianSamples:
        """What labels are expected: one Gaussian per input, posterior variance and noise together."""
        belief = self.believe(inputs)
        variance_N = belief.features_N_D.square().sum(1) + belief.noise_N
        return GaussianSamples(belief.mean_N[:, None], variance_N[:, None])

    def _design(self, rows_N: Array) -> Tensor:
        columns = rows_N if self.basis is None else np.asarray(self.basis(rows_N), dtype=np.float64)
        if columns.ndim != 2 or len(columns) != len(rows_N):
            raise ValueError(f"basis: expected a row of features for each input, found shape {columns.shape}")
        if self.intercept:
            columns = np.concatenate([columns, np.ones((len(columns), 1))], 1)
        return torch.from_numpy(np.ascontiguousarray(columns))


def _by_evidence(design_N_D: Tensor, labels_N: Array, size: float) -> tuple[float, float]:
    """(prior, noise) under which labels of that size are likeliest, kept within what float64 can work with."""
    # BayesianRidge starts from a prior and hyperpriors of fixed size, so it is given columns and labels of size 1.
    width = float(design_N_D.square().mean().sqrt()) or 1.0
    found = BayesianRidge(fit_intercept=False).fit((design_N_D / width).numpy(), labels_N / size)
    prior, noise = (float(np.clip(1 / max(one, 1e-300), 1e-8, 1e8)) for one in (found.lambda_, found.alpha_))
    return prior * (size / width) ** 2, noise * size**2
