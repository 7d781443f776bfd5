"""Gaussian process posteriors as features and as draws: what regression and classification have in common.

    cov(x, x') = k(x, x') − v(x)·v(x')            v(x) = A⁻¹ k(X, x): what the labels took from the prior
    Φ Φᵀ = cov                                    over the inputs of one call, by pivoted Cholesky
    f_k = mean + Φ z_k,   z_k ~ N(0, I)           joint draws

Pivoted Cholesky takes the input whose variance is least explained so far, until none has more left than a tolerance
that labels cannot show. Smooth kernels need few columns however many inputs there are, and no matrix of all pairs is
made. Features belong to the inputs of one call: other inputs, other axes, and so another `draws_id`.  Spec 06, A2.
"""

import hashlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from natsel.memory import require

Array = np.ndarray[Any, Any]

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
    """Blocks of scale² (k(x, x') − v(x)·v(x')) from those of the prior and the vectors v, a column each.

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


def rows_of(inputs: Any, name: str = "inputs") -> Array:
    """Inputs as rows of float64: flattened, images scaled to [0, 1].

    >>> rows_of(np.array([[0, 255]], dtype=np.uint8))
    array([[0., 1.]])
    """
    array = inputs.detach().cpu().numpy() if isinstance(inputs, Tensor) else np.asarray(inputs)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name}: expected numbers, found {array.dtype}; embed texts and categories first")
    scale = 255.0 if array.dtype == np.uint8 else 1.0
    rows: Array = array.reshape(len(array), int(np.prod(array.shape[1:]))).astype(np.float64) / scale
    if not np.isfinite(rows).all():
        row = int(np.flatnonzero(~np.isfinite(rows).all(1))[0])
        raise ValueError(f"{name}: found NaN or infinity in row {row}; fill or leave out such values")
    return rows


def numbers_of(labels: Any, name: str = "labels") -> Array:
    """Labels as one vector of finite float64."""
    numbers: Array = np.asarray(labels, dtype=np.float64)
    if numbers.ndim != 1 or not np.isfinite(numbers).all():
        raise ValueError(f"{name}: expected one finite number an example, found shape {numbers.shape}; check them")
    return numbers


def named(kind: str, *parts: Any) -> str:
    """A name for draws: everything that decides them, hashed.

    >>> named("gp", 1, np.zeros(2)) == named("gp", 1, np.zeros(2))
    True
    """
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(repr(part.shape).encode() + np.ascontiguousarray(part).tobytes())
        else:
            digest.update(repr(part).encode())
    return f"{kind}:{digest.hexdigest()}"
