"""A Gaussian process that classifies into two classes through a probit, by expectation propagation.

    f ~ GP(0, variance · exp(−‖x−x'‖²/(2 length²))),   p(y=1 | x, f) = Φ(f(x))
    p(f | labels) ≈ N(mean, k − v·v),   v(x) = L⁻¹ S^½ k(X, x),   L Lᵀ = I + S^½ K S^½      S: precisions of the sites

Each label's likelihood is replaced by a Gaussian site with the moments it has under all others, one after the other
until nothing moves (Rasmussen and Williams 2006, algorithms 3.5 and 3.6). The kernel stays as given. Beliefs are joint
draws of the latent function over the inputs of one call; `predictive` and `bald` are closed forms that need none.
docs/theory/epig-jepig.md, 2, 6 and 13.
"""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from natsel.beliefs import CategoricalSamples
from natsel.data.examples import Examples, InputForm, as_labelled
from natsel.information.gaussian_predictive import probit_bald
from natsel.memory import chunked
from natsel.models.processes.joint_features import Covariance, JointProcess, pivoted_cholesky, posterior_covariance
from natsel.models.protocol import learnt
from natsel.models.rows import Array, rows_of
from natsel.options import Rows

_SWEEPS = 200
_SETTLED = 1e-10
# Of the prior variance: what features leave out of a latent value. It moves no probability by more than 1e-5.
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Sites:
    """A Gaussian posterior over the latent values at training inputs: site precisions, and what predictions need."""

    precision_N: Array
    weights_N: Array  # mean(x) = k(x, X) · weights
    factor_N_N: Array  # L
    log_evidence: float
    sweeps: int


class ProbitGP(JointProcess):
    """Two classes, a squared exponential kernel that stays as it is, K joint draws per belief.

    >>> labelled = Examples(np.array([[-1.0], [1.0]]), np.array([0, 1]))
    >>> model = ProbitGP(draws=100).fit(labelled)
    >>> model.believe(np.array([[-2.0], [0.0], [2.0]])).shape
    (3, 100, 2)
    >>> bool(model.bald(np.array([[9.0]])) > model.bald(np.array([[1.0]])))
    True
    """

    kind = "probit-gp"
    regression = False

    def __init__(self, variance: float = 10.0, length: float = 1.0, draws: int = 1000) -> None:
        for name, value in (("variance", variance), ("length", length)):
            if not 0 < value < math.inf:
                raise ValueError(f"{name}: expected a positive number, found {value}; the defaults are 10 and 1")
        if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
            raise ValueError(f"draws: expected a number of draws from 1 on, found {draws!r}; 1000 is usual")
        self.variance, self.length, self.draws = variance, length, draws
        self.sites: Sites | None = None

    def fit(self, labelled: Examples | Any, validation: Examples | Any = None, *, seed: int = 0) -> Self:
        """Find the sites of these labels; `seed` decides the joint draws alone."""
        labelled, _ = as_labelled(labelled)
        rows_N, labels_N = rows_of(labelled.inputs), np.asarray(labelled.labels)
        if len(labels_N) == 0 or labels_N.dtype.kind not in "biu" or not np.isin(labels_N, (0, 1)).all():
            raise ValueError(
                "labels: a probit process takes the two classes 0 and 1; for more use natsel.models.Dropout or Sklearn"
            )
        self._form, self._inputs_N = InputForm.of(labelled.inputs), torch.from_numpy(rows_N)
        self._columns, self._seed = rows_N.shape[1], seed
        kernel_N_N = self._kernel(self._inputs_N, self._inputs_N).numpy()
        self.sites = propagate(kernel_N_N, np.where(labels_N == 1, 1.0, -1.0))
        self._fit_id = (self.variance, self.length, self.draws, seed, rows_N, labels_N.astype(np.int64))
        return self

    def _prior(self, rows_N_D: Array) -> Covariance:
        rows_N = torch.from_numpy(rows_N_D)
        return lambda i, j: self._kernel(rows_N[i], rows_N[j])

    def _joint_belief(self, rows_N_D: Array) -> CategoricalSamples:
        rows_N = torch.from_numpy(rows_N_D)
        mean_N, variance_N = self._moments(rows_N)
        covariance = posterior_covariance(self._prior(rows_N_D), self._taken(rows_N))
        features_N_D = pivoted_cholesky(variance_N, covariance, _TOLERANCE * self.variance)
        return self._two_classes(mean_N, features_N_D, torch.special.log_ndtr, 64, self._draws_id(rows_N_D))

    def predictive(self, inputs: Rows) -> CategoricalSamples:
        """The mean prediction Φ(mean/√(1 + variance)) of every input, as one draw."""
        mean_N, variance_N = self._moments(torch.from_numpy(self._rows(inputs)))
        latent_N = mean_N / (variance_N + 1).sqrt()
        return CategoricalSamples(torch.special.log_ndtr(torch.stack([-latent_N, latent_N], 1))[:, None, :])

    def bald(self, inputs: Rows) -> Tensor:
        """BALD of every input by quadrature over its latent value, without draws."""
        return probit_bald(*self._moments(torch.from_numpy(self._rows(inputs))))

    def _moments(self, rows_N: Tensor) -> tuple[Tensor, Tensor]:
        sites = learnt(self.sites)
        weights_n = torch.from_numpy(sites.weights_N)

        def work(part: slice) -> Tensor:
            cross_n_p = self._kernel(self._inputs_N, rows_N[part])
            left_p = (self.variance - self._taken(rows_N[part]).square().sum(0)).clamp_min_(0)
            return torch.stack([weights_n @ cross_n_p, left_p], 1)

        width = 32 * (len(weights_n) + rows_N.shape[1])
        mean_N, variance_N = chunked(work, len(rows_N), width, torch.device("cpu")).T
        return mean_N.contiguous(), variance_N.contiguous()

    def _taken(self, rows_N: Tensor) -> Tensor:
        sites = learnt(self.sites)
        cross_n_N = self._kernel(self._inputs_N, rows_N) * torch.from_numpy(np.sqrt(sites.precision_N))[:, None]
        found: Tensor = torch.linalg.solve_triangular(torch.from_numpy(sites.factor_N_N), cross_n_N, upper=False)
        return found

    def _kernel(self, first_N: Tensor, second_M: Tensor) -> Tensor:
        squared_N_M = torch.cdist(first_N, second_M, compute_mode="donot_use_mm_for_euclid_dist").square_()
        return squared_N_M.mul_(-0.5 / self.length**2).exp_().mul_(self.variance)


def propagate(kernel_N_N: Array, signs_N: Array) -> Sites:
    """Expectation propagation for labels ±1 under a probit: sites, and the log evidence they give.

    >>> sites = propagate(np.array([[1.0]]), np.array([1.0]))
    >>> round(sites.log_evidence, 6), round(math.log(0.5), 6)
    (-0.693147, -0.693147)
    """
    count = len(signs_N)
    precision_N, shift_N = np.zeros(count), np.zeros(count)
    cover_N_N, mean_N = kernel_N_N.copy(), np.zeros(count)
    sweeps, before = 0, -math.inf
    while True:
        cavity_N = np.empty((2, count))
        for i in range(count):
            cavity_precision = 1 / cover_N_N[i, i] - precision_N[i]
            cavity_shift = mean_N[i] / cover_N_N[i, i] - shift_N[i]
            cavity_N[:, i] = cavity_precision, cavity_shift
            mean, variance = cavity_shift / cavity_precision, 1 / cavity_precision
            z = signs_N[i] * mean / math.sqrt(1 + variance)
            ratio = _ratio(z)
            tilted_mean = mean + signs_N[i] * variance * ratio / math.sqrt(1 + variance)
            tilted_variance = variance - variance**2 * ratio * (z + ratio) / (1 + variance)
            change = max(1 / tilted_variance - cavity_precision, 0.0) - precision_N[i]
            precision_N[i] += change
            shift_N[i] = tilted_mean / tilted_variance - cavity_shift
            column_N = cover_N_N[:, i].copy()
            cover_N_N -= change / (1 + change * column_N[i]) * np.outer(column_N, column_N)
            mean_N = cover_N_N @ shift_N
        # Made anew from the sites, lest rounding of the updates add up.
        root_N = np.sqrt(precision_N)
        factor_N_N = np.linalg.cholesky(np.eye(count) + root_N[:, None] * kernel_N_N * root_N)
        half_N_N = np.linalg.solve(factor_N_N, root_N[:, None] * kernel_N_N)
        cover_N_N = kernel_N_N - half_N_N.T @ half_N_N
        mean_N = cover_N_N @ shift_N
        evidence = _log_evidence(signs_N, precision_N, shift_N, cover_N_N, mean_N, factor_N_N)
        sweeps += 1
        if abs(evidence - before) < _SETTLED * max(1.0, abs(evidence)) or sweeps == _SWEEPS:
            weights_N = shift_N - root_N * np.linalg.solve(
                factor_N_N.T, np.linalg.solve(factor_N_N, root_N * (kernel_N_N @ shift_N))
            )
            return Sites(precision_N, weights_N, factor_N_N, evidence, sweeps)
        before = evidence


def _ratio(z: float) -> float:
    """N(z)/Φ(z), from logarithms: far in the tail both vanish."""
    log_cdf = float(torch.special.log_ndtr(torch.tensor(z, dtype=torch.float64)))
    return math.exp(-0.5 * z * z - 0.5 * math.log(2 * math.pi) - log_cdf)


def _log_evidence(
    signs_N: Array, precision_N: Array, shift_N: Array, cover_N_N: Array, mean_N: Array, factor_N_N: Array
) -> float:
    """ln Z of the approximation: what the sites' normalisers, cavities and the prior give (R&W 3.65)."""
    variance_N = cover_N_N.diagonal()
    cavity_precision_N = 1 / variance_N - precision_N
    cavity_shift_N = mean_N / variance_N - shift_N
    mean_cavity_N = cavity_shift_N / cavity_precision_N
    z_N = signs_N * mean_cavity_N / np.sqrt(1 + 1 / cavity_precision_N)
    log_cdf = float(torch.special.log_ndtr(torch.from_numpy(z_N)).sum())
    # Gaussians multiply: ∫ N(f; 0, K) Π site(f) over ∫ of each cavity with its site.
    whole = 0.5 * float(shift_N @ mean_N) - float(np.log(factor_N_N.diagonal()).sum())
    each_N = 0.5 * np.log1p(precision_N / cavity_precision_N) + 0.5 * (
        mean_cavity_N**2 * cavity_precision_N - (cavity_shift_N + shift_N) ** 2 / (cavity_precision_N + precision_N)
    )
    return log_cdf + whole + float(each_N.sum())
