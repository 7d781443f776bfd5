"""Positive definite matrices: how a singular one is noticed, refused, or given a ridge that has a name.

    smallest eigenvalue ≤ P · eps · max diag(H)   →  singular

A singular matrix often passes a Cholesky factorisation, and its pivots need not show it: inverse iteration does.
The softmax last layer is shift-invariant: without a prior its curvature is always singular, however much data there
is.  Spec 08, A5.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

_FIRST_RIDGE = 1e-5
_TRIES = 40
_ITERATIONS = 6


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
    if not bool(matrix_P_P.isfinite().all()):
        raise NotPositiveDefinite("precision: found NaN or infinity; check the features and outputs it was made from")
    size = float(matrix_P_P.abs().max())
    if not torch.allclose(matrix_P_P, matrix_P_P.T, rtol=1e-6, atol=1e-9 * size):
        raise ValueError("precision: the matrix is not symmetric; pass a Hessian or a sum of outer products")
    even_P_P: Tensor = (matrix_P_P + matrix_P_P.T) / 2
    return even_P_P


def cholesky(matrix_P_P: Tensor) -> Tensor:
    """L with L Lᵀ = H, or NotPositiveDefinite.  Spec 08, A5.

    >>> cholesky(torch.tensor([[4.0]], dtype=torch.float64)).item()
    2.0
    """
    factor_P_P: Tensor
    factor_P_P, failed = torch.linalg.cholesky_ex(matrix_P_P)
    floor = len(matrix_P_P) * torch.finfo(matrix_P_P.dtype).eps * float(matrix_P_P.diagonal().max())
    if int(failed) or not smallest_eigenvalue(factor_P_P) > floor:
        raise NotPositiveDefinite(
            f"precision: the {len(matrix_P_P)} × {len(matrix_P_P)} matrix is not positive definite, some directions of"
            " the weights are not known at all; add a prior precision to its diagonal"
        )
    return factor_P_P


def smallest_eigenvalue(factor_P_P: Tensor) -> float:
    """Of L Lᵀ, by inverse iteration: never below it, and close where it is far below the others.

    >>> smallest_eigenvalue(torch.diag(torch.tensor([3.0, 1e-3], dtype=torch.float64)))
    1e-06
    """
    generator = torch.Generator().manual_seed(0)  # any start will do, and the same one gives the same answer
    vector_P_1 = torch.randn(len(factor_P_P), 1, dtype=torch.float64, generator=generator).to(factor_P_P)
    value = torch.inf
    for _ in range(_ITERATIONS):
        vector_P_1 = vector_P_1 / vector_P_1.norm()
        vector_P_1 = torch.cholesky_solve(vector_P_1, factor_P_P)
        value = float(1 / vector_P_1.norm())
    return value


def with_ridge(matrix: Any) -> tuple[Tensor, float]:
    """A matrix made positive definite, and the ridge it took: 0, or 1e-5 of the mean diagonal, doubled as needed.

    >>> with_ridge(torch.ones(2, 2))[1]
    1e-05
    """
    matrix_P_P = symmetric(matrix)
    eye_P_P = torch.eye(len(matrix_P_P), dtype=torch.float64, device=matrix_P_P.device)
    size = float(matrix_P_P.diagonal().abs().mean()) or 1.0
    for ridge in (0.0, *(_FIRST_RIDGE * size * 2**doubling for doubling in range(_TRIES))):
        try:
            cholesky(matrix_P_P + ridge * eye_P_P)
        except NotPositiveDefinite:
            continue
        return matrix_P_P + ridge * eye_P_P, ridge
    raise NotPositiveDefinite("precision: no ridge makes the matrix positive definite; check what it was made from")


def in_float64(values: Any) -> Tensor:
    """Numbers as a float64 tensor.

    >>> in_float64(0.1).item()
    0.1
    """
    if isinstance(values, Tensor):
        return values.detach().to(torch.float64)
    return torch.from_numpy(np.array(values, dtype=np.float64))  # a copy: the caller's numbers may be read-only
