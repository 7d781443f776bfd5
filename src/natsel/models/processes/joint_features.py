"""Gaussian process posteriors as features and as draws: what regression and classification have in common.

    cov(x, x') = k(x, x') − v(x)·v(x')            v(x) = A⁻¹ k(X, x): what the labels took from the prior
    Φ Φᵀ = cov                                    over the inputs of one call, by pivoted Cholesky
    f_k = mean + Φ z_k,   z_k ~ N(0, I)           joint draws

Pivoted Cholesky takes the input whose variance is least explained so far, until none has more left than a tolerance
that labels cannot show. Smooth kernels need few columns however many inputs there are, and no matrix of all pairs is
made. Features belong to the inputs of one call: other inputs, other axes, and so another `draws_id`.
docs/theory/epig-jepig.md, 6.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from natsel.beliefs import Belief, CategoricalSamples
from natsel.beliefs.geometry import Geometry
from natsel.data.examples import InputForm
from natsel.memory import chunked, require
from natsel.models.fingerprints import fingerprint
from natsel.models.protocol import learnt
from natsel.models.rows import Array, reads_numbers, rows_of
from natsel.options import Rows
from natsel.seeds import derive

Covariance = Callable[[Tensor, Tensor], Tensor]
"""A block of a covariance matrix, at positions of rows and of columns."""

# Of the largest variance: less than this is rounding.
ROUNDING = 1e-13
# Pivots in a block, what they are chosen from, and the least of the best they must be worth to be in it.
_BLOCK, _CANDIDATES, _WORTH = 64, 256, 0.2


def pivoted_cholesky(variance_N: Tensor, covariance: Covariance, tolerance: float) -> Tensor:
    """Features Φ_N_D with Φ Φᵀ = covariance, up to `tolerance` in every variance.

    `covariance(rows, columns)` is a block of the matrix, at two vectors of positions. Pivots are taken a block at a
    time, so that the work is in matrix products; in a block each is worth a fifth of the best at least.

    >>> whole = torch.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
    >>> features_N_D = pivoted_cholesky(whole.diagonal(), lambda i, j: whole[i][:, j], 1e-12)
    >>> torch.allclose(features_N_D @ features_N_D.T, whole)
    True
    """
    count, rank = len(variance_N), 0
    if count == 0:
        return variance_N.new_zeros(0, 1)
    everything, left_N = torch.arange(count), variance_N.clone()
    tolerance = max(tolerance, ROUNDING * float(variance_N.max()))
    rows_D_N = variance_N.new_empty(min(count, 4 * _BLOCK), count)
    while rank < count and float(left_N.max()) > tolerance:
        (open_o,) = (left_N > max(tolerance, _WORTH * float(left_N.max()))).nonzero(as_tuple=True)
        near_c = open_o[:: -(-len(open_o) // _CANDIDATES)]  # from all over, not the neighbours of the worst
        seen_D_c = rows_D_N[:rank, near_c]
        pivots, factor_b_b = _pivots(covariance(near_c, near_c) - seen_D_c.T @ seen_D_c, left_N[near_c], tolerance)
        near_b = near_c[pivots]
        if rank + len(near_b) > len(rows_D_N):
            _check_room(2 * len(rows_D_N), count)
            rows_D_N = torch.cat([rows_D_N, torch.empty_like(rows_D_N)])
        left_b_N = covariance(near_b, everything) - rows_D_N[:rank, near_b].T @ rows_D_N[:rank]
        new_b_N = torch.linalg.solve_triangular(factor_b_b, left_b_N, upper=False)
        rows_D_N[rank : rank + len(near_b)] = new_b_N
        left_N = (left_N - new_b_N.square_().sum(0)).clamp_min_(0)
        left_N[near_b] = 0
        rank += len(near_b)
    return rows_D_N[:rank].T.contiguous() if rank else variance_N.new_zeros(count, 1)


def _pivots(left_c_c: Tensor, left_c: Tensor, tolerance: float) -> tuple[list[int], Tensor]:
    """The next pivots among candidates, and the Cholesky factor of what is left of their covariance."""
    matrix, left = left_c_c.numpy(), left_c.numpy().copy()
    enough = max(tolerance, _WORTH * float(left.max()))
    pivots: list[int] = []
    rows = np.zeros((min(_BLOCK, len(left)), len(left)))
    while len(pivots) < len(rows):
        pivot, taken = int(left.argmax()), len(pivots)
        if pivots and not left[pivot] > enough:
            break
        rows[taken] = (matrix[pivot] - rows[:taken, pivot] @ rows[:taken]) / math.sqrt(left[pivot])
        left = np.maximum(left - rows[taken] ** 2, 0)
        left[pivot] = 0
        pivots.append(pivot)
        rows[taken, pivots[:-1]] = 0  # of a triangle; rounding otherwise
    factor = np.ascontiguousarray(rows[: len(pivots), pivots].T)
    return pivots, torch.from_numpy(factor)


def _check_room(rank: int, count: int) -> None:
    require(
        8 * rank * count,
        f"inputs: {count} of them under this kernel need more than {rank // 2} features, which",
        "ask about fewer at a time (candidates=)",
    )


def posterior_covariance(prior: Covariance, taken_n_N: Tensor, scale: float = 1.0) -> Covariance:
    """Blocks of scale² (k(x, x') − v(x)·v(x')) from those of the prior and the vectors v, one column each.

    >>> prior = lambda i, j: torch.eye(2)[i][:, j]
    >>> posterior_covariance(prior, torch.tensor([[0.6, 0.0]]))(torch.tensor([0]), torch.tensor([0, 1]))
    tensor([[0.6400, 0.0000]])
    """
    return lambda i, j: scale**2 * (prior(i, j) - taken_n_N[:, i].T @ taken_n_N[:, j])


def joint_draws(mean_N: Tensor, features_N_D: Tensor, draws: int, seed: int) -> Callable[[slice], Tensor]:
    """Latent values [n, K] of any part of the points, from K joint draws over all of them.

    >>> joint_draws(torch.zeros(3), torch.eye(3), 5, seed=0)(slice(1, 3)).shape
    torch.Size([2, 5])
    """
    generator = torch.Generator().manual_seed(seed % (1 << 63))
    normal_D_K = torch.randn(features_N_D.shape[1], draws, generator=generator, dtype=features_N_D.dtype)
    return lambda part: mean_N[part, None] + features_N_D[part] @ normal_D_K


class JointProcess(ABC):
    """A process whose features and draws belong to the inputs of one call.

    Subclasses set `kind` for names, and in `fit` the form and the number of columns of inputs, the seed of the joint
    draws and everything else that decides the posterior (`_fit_id`).
    """

    kind: ClassVar[str]
    consistent_draws = True  # within one call: `believe_together` is there for more
    check_inputs = reads_numbers
    draws: int
    predictive: Any
    _columns: int
    _form: InputForm
    _seed: int
    _fit_id: tuple[Any, ...] | None = None

    @abstractmethod
    def _joint_belief(self, rows_N_D: Array) -> Belief: ...

    def believe(self, inputs: Rows) -> Belief:
        """A joint belief about these inputs; beliefs from another call are not to be combined with it."""
        return self._joint_belief(self._rows(inputs))

    def believe_together(self, pool_inputs: Rows, target_inputs: Rows) -> tuple[Belief, Belief]:
        """Beliefs about pool and targets in one space of features, or from the same joint draws."""
        pool_N_D, targets_M_D = self._rows(pool_inputs), self._rows(target_inputs)
        both, split = self._joint_belief(np.concatenate([pool_N_D, targets_M_D])), len(pool_N_D)
        return both[:split].with_ids(np.arange(split)), both[split:].with_ids(np.arange(len(targets_M_D)))

    @abstractmethod
    def _prior(self, rows_N_D: Array) -> Covariance: ...

    def geometry(self, inputs: Rows) -> Geometry:
        """How alike points are before any label: prior correlation, in features of these inputs alone."""
        from natsel.models.own_geometry import TOLERANCE, unsure_of  # here: it imports this

        rows_N_D = self._rows(inputs)
        prior, parts = self._prior(rows_N_D), torch.arange(len(rows_N_D)).tensor_split(-(-len(rows_N_D) // 256))
        scale_N = torch.cat([prior(some, some).diagonal() for some in parts]).clamp_min(1e-300).rsqrt()
        correlation = lambda i, j: prior(i, j) * scale_N[i, None] * scale_N[j]  # noqa: E731
        features_N_D = pivoted_cholesky(torch.ones_like(scale_N), correlation, TOLERANCE)
        return Geometry(features_N_D, unsure_of(self.predictive, inputs), draws_id=self._draws_id(rows_N_D))

    def _rows(self, inputs: Any) -> Array:
        learnt(self._fit_id)
        return rows_of(self._form.read(inputs), self._columns)

    def _draws_id(self, rows_N_D: Array) -> str:
        return f"{self.kind}:{fingerprint(*(self._fit_id or ()), rows_N_D)}"

    def _two_classes(
        self, mean_N: Tensor, features_N_D: Tensor, log_link: Callable[[Tensor], Tensor], bytes_per_draw: int, name: str
    ) -> CategoricalSamples:
        """Classes 0 and 1 with log probabilities log_link(−f) and log_link(f), from joint draws of f."""
        latent = joint_draws(mean_N, features_N_D, self.draws, derive(self._seed, "draws"))

        def work(part: slice) -> Tensor:
            latent_n_K = latent(part)
            return log_link(torch.stack([-latent_n_K, latent_n_K], 2)).float()

        log_probs_N_K_C = chunked(work, len(mean_N), bytes_per_draw * self.draws, torch.device("cpu"))
        return CategoricalSamples._own(log_probs_N_K_C, draws_id=name)
