"""Square matrices changed where they lie: a second copy of P × P numbers is often what does not fit.

    M ← (M + Mᵀ)/2               M ← A M Aᵀ, by a function that multiplies rows with Aᵀ               L Lᵀ = I + M

Work goes over some rows, or columns, after the other.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from natsel.memory import rows_per_chunk

_ROWS = 128  # at least: a product of fewer with a large matrix would wait for memory


def symmetrise_(matrix_P_P: Tensor) -> Tensor:
    """The mean of a matrix and its transpose, exactly symmetric.

    >>> symmetrise_(torch.tensor([[1.0, 2.0], [0.0, 3.0]])).tolist()
    [[1.0, 1.0], [1.0, 3.0]]
    """
    for part in parts(matrix_P_P):
        rest = slice(part.start, None)
        mean_p_r = (matrix_P_P[part, rest] + matrix_P_P[rest, part].T).div_(2)
        matrix_P_P[part, rest] = mean_p_r
        matrix_P_P[rest, part] = mean_p_r.T
    return matrix_P_P


def both_sides_(matrix_P_P: Tensor, apply: Callable[[Tensor], Tensor]) -> Tensor:
    """A M Aᵀ of a symmetric matrix, where `apply` takes rows r to r Aᵀ.

    >>> both_sides_(torch.eye(2), lambda rows_r_P: 3 * rows_r_P).tolist()
    [[9.0, 0.0], [0.0, 9.0]]
    """
    for part in parts(matrix_P_P):
        matrix_P_P[part] = apply(matrix_P_P[part])
    return symmetrise_(columns_(matrix_P_P, lambda columns_P_p: apply(columns_P_p.T).T))


def columns_(matrix_P_P: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    """The matrix with some of its columns changed after the other.

    >>> columns_(torch.eye(2), lambda columns_P_p: 2 * columns_P_p).tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    for part in parts(matrix_P_P):
        matrix_P_P[:, part] = change(matrix_P_P[:, part])
    return matrix_P_P


def factor_one_plus(matrix_P_P: Tensor) -> Tensor | None:
    """L with L Lᵀ = I + M; M, which may be too small for the digits of I + M, is left as it was. None where it fails.

    >>> factor_one_plus(torch.tensor([[3.0]])).item()
    2.0
    """
    diagonal_P = matrix_P_P.diagonal().clone()
    matrix_P_P.diagonal().add_(1)
    factor_P_P: Tensor
    factor_P_P, failed = torch.linalg.cholesky_ex(matrix_P_P)
    matrix_P_P.diagonal().copy_(diagonal_P)
    return None if int(failed) else factor_P_P


def parts(matrix_P_P: Tensor) -> list[slice]:
    """Its rows, or its columns, some after the other within the memory budget.

    >>> parts(torch.eye(2))
    [slice(0, 2, None)]
    """
    step = max(_ROWS, rows_per_chunk(24 * len(matrix_P_P), matrix_P_P.device))
    return [slice(start, min(start + step, len(matrix_P_P))) for start in range(0, len(matrix_P_P), step)]
