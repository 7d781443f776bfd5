"""Positive definite matrices: how a singular one is noticed, refused, or given a ridge that has a name.

    smallest eigenvalue ≤ P · eps · max diag(H)   →  singular

A singular matrix often passes a Cholesky factorisation, and its pivots need not show it: inverse iteration does.
A matrix with eigenvalues clearly below 0 is no singular precision but something else, most often a Hessian of the wrong
sign: no ridge is added to that.
The softmax last layer is shift-invariant: without a prior its curvature is singular, however much data there is.
docs/theory/weight-space.md, 2.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from natsel.information.weights.in_place import parts, symmetrise_

_FIRST_RIDGE = 1e-5
_TRIES = 40
_ITERATIONS = 6
# Beyond these, squares of precisions and of variances leave float64 once features go in.
LEAST, MOST = 1e-50, 1e50
# Eigenvalues below −1e-5 of the largest are meant: summing 100,000 products in float32 leaves −3e-7 at most.
NEGATIVE = 1e-5
SIGN = "a Hessian of the log-likelihood has the wrong sign for a precision: pass its negative"


class NotPositiveDefinite(ValueError):
    """A precision that leaves some direction of the weights unknown, or is no precision at all."""


def symmetric(matrix: Any) -> Tensor:
    """A square matrix in float64 without the rounding that keeps it from being symmetric; others are refused.

    >>> symmetric([[1.0, 0.5], [0.5, 2.0]]).shape
    torch.Size([2, 2])
    """
    matrix_P_P = in_float64(matrix)
    if matrix_P_P.ndim != 2 or matrix_P_P.shape[0] != matrix_P_P.shape[1]:
        raise ValueError(f"precision: expected a square matrix, found shape {tuple(matrix_P_P.shape)}; pass P × P")
    size = float(torch.linalg.vector_norm(matrix_P_P, ord=torch.inf)) if len(matrix_P_P) else 0.0
    if not size < torch.inf:  # NaN fails too
        raise NotPositiveDefinite("precision: found NaN or infinity; check the features and outputs it was made from")
    refuse_extreme(size)
    for part in parts(matrix_P_P):
        if not torch.allclose(matrix_P_P[part], matrix_P_P[:, part].T, rtol=1e-6, atol=1e-9 * size):
            raise ValueError("precision: the matrix is not symmetric; pass a Hessian or a sum of outer products")
    return symmetrise_(matrix_P_P.clone())


def refuse_extreme(size: float) -> None:
    """Raise where a precision is so large or small, but not 0, that float64 cannot hold what it is multiplied to.

    >>> refuse_extreme(1e3)
    """
    if size and not LEAST <= size <= MOST:
        raise NotPositiveDefinite(
            f"precision: found numbers of size {size:.3g}, and beyond {LEAST:.0e} and {MOST:.0e} their products leave"
            " float64; rescale the features"
        )


def cholesky(matrix_P_P: Tensor) -> Tensor:
    """L with L Lᵀ = H, or NotPositiveDefinite.  docs/theory/weight-space.md, 2.

    >>> cholesky(torch.tensor([[4.0]], dtype=torch.float64)).item()
    2.0
    """
    factor_P_P = _factor(matrix_P_P)
    if factor_P_P is None:
        refuse_negative(matrix_P_P)
        raise NotPositiveDefinite(
            f"precision: the {len(matrix_P_P)} × {len(matrix_P_P)} matrix is not positive definite, some directions of"
            " the weights are not known at all; add a prior precision to its diagonal"
        )
    return factor_P_P


def refuse_negative(matrix_P_P: Tensor) -> None:
    """Raise where a symmetric matrix has eigenvalues that are clearly negative: below −1e-5 of the largest in size.

    >>> refuse_negative(torch.tensor([[1.0, 1.0], [1.0, 1.0]], dtype=torch.float64))
    """
    slack = NEGATIVE * _largest_eigenvalue(lambda vector_P_1: matrix_P_P @ vector_P_1, matrix_P_P)
    lifted_P_P = matrix_P_P + slack * torch.eye(len(matrix_P_P), dtype=torch.float64, device=matrix_P_P.device)
    if slack == 0 or not int(torch.linalg.cholesky_ex(lifted_P_P)[1]):
        return
    values_P = torch.linalg.eigvalsh(matrix_P_P)
    raise NotPositiveDefinite(
        f"precision: the matrix has eigenvalues from {float(values_P[0]):.4g} to {float(values_P[-1]):.4g}, and those"
        f" of a precision are positive; {SIGN}"
    )


def smallest_eigenvalue(factor_P_P: Tensor) -> float:
    """Of L Lᵀ, by inverse iteration: never below it, and close where it is far below the others.

    >>> smallest_eigenvalue(torch.diag(torch.tensor([3.0, 1e-3], dtype=torch.float64)))
    1e-06
    """
    return 1 / _largest_eigenvalue(lambda vector_P_1: torch.cholesky_solve(vector_P_1, factor_P_P), factor_P_P)


def with_ridge(matrix: Any) -> tuple[Tensor, float]:
    """A matrix made positive definite, and the ridge it took: 0, or 1e-5 of the mean diagonal, doubled as needed.

    >>> with_ridge(torch.ones(2, 2))[1]
    1e-05
    """
    matrix_P_P = symmetric(matrix)
    if _factor(matrix_P_P) is not None:
        return matrix_P_P, 0.0
    refuse_negative(matrix_P_P)
    eye_P_P = torch.eye(len(matrix_P_P), dtype=torch.float64, device=matrix_P_P.device)
    size = float(matrix_P_P.diagonal().abs().mean()) or 1.0
    for doubling in range(_TRIES):
        ridge = _FIRST_RIDGE * size * 2**doubling
        if _factor(matrix_P_P + ridge * eye_P_P) is not None:
            return matrix_P_P + ridge * eye_P_P, ridge
    raise NotPositiveDefinite("precision: no ridge makes the matrix positive definite; check what it was made from")


def _factor(matrix_P_P: Tensor) -> Tensor | None:
    """L with L Lᵀ = H; None where H is not positive definite or singular up to rounding."""
    factor_P_P: Tensor
    factor_P_P, failed = torch.linalg.cholesky_ex(matrix_P_P)
    floor = len(matrix_P_P) * torch.finfo(matrix_P_P.dtype).eps * float(matrix_P_P.diagonal().max())
    return None if int(failed) or not smallest_eigenvalue(factor_P_P) > floor else factor_P_P


def _largest_eigenvalue(apply: Callable[[Tensor], Tensor], like_P_P: Tensor) -> float:
    """In size, of a symmetric matrix that is applied to a vector, by power iteration: never above it."""
    generator = torch.Generator().manual_seed(0)  # any start will do, and the same one gives the same answer
    vector_P_1 = torch.randn(len(like_P_P), 1, dtype=torch.float64, generator=generator).to(like_P_P)
    value = 0.0
    for _ in range(_ITERATIONS):
        vector_P_1 = apply(vector_P_1 / vector_P_1.norm())
        value = float(vector_P_1.norm())
        if value == 0:
            break
    return value


def in_float64(values: Any, name: str = "precision") -> Tensor:
    """Numbers as a float64 tensor.

    >>> in_float64(0.1).item()
    0.1
    """
    if isinstance(values, Tensor):
        if values.layout == torch.strided and not (values.is_complex() or values.is_meta or values.is_quantized):
            return values.detach().to(torch.float64)
        raise ValueError(
            f"{name}: expected a dense tensor of numbers, found a complex, sparse or empty one; convert it"
        )
    try:
        array = np.array(values)  # a copy: the caller's numbers may be read-only
    except (TypeError, ValueError):
        array = np.array(None)
    if array.dtype.kind not in "iuf":
        found = repr(values) if isinstance(values, str | bool | None) else type(values).__name__
        raise ValueError(f"{name}: expected a number or an array of numbers, found {found}; convert it to one")
    return torch.from_numpy(array.astype(np.float64))
