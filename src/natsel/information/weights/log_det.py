"""ln det(I + K) of many small symmetric blocks, right to the last digits of K however small it is.

    pivots s of K by elimination:   ln det(I + K) = Σ ln(1 + s),    K ← K − k kᵀ/(1 + s)

docs/theory/weight-space.md, 3 and 5.
"""

import torch
from torch import Tensor

_FEW_ROWS = 12  # blocks up to this size are eliminated for all points at once; larger ones go to LAPACK one by one
_LEAST = -1 + 1e-15
_TINY = 1e-5  # below this the series of ln det(I + K) is exact in float64, where I + K would lose the digits of K


def log_det_one_plus(blocks_n_R_R: Tensor) -> Tensor:
    """ln det(I + K) of symmetric blocks, n values, with the digits of K kept however small it is.

    Gauss elimination that never adds the identity: pivots s of K, ln det = Σ ln(1 + s), K ← K − k kᵀ/(1 + s). Every
    eigenvalue of K must exceed −1; one that rounding puts there counts as just above it.

    >>> log_det_one_plus(torch.tensor([[[1e-30]], [[1.0]]], dtype=torch.float64)).tolist()
    [1e-30, 0.6931471805599453]
    """
    left_n_R_R = blocks_n_R_R.double()
    if left_n_R_R.shape[-1] > _FEW_ROWS:
        return _log_det_by_factors(left_n_R_R)
    total_n = left_n_R_R.new_zeros(left_n_R_R.shape[0])
    # Points last: every step is then one sweep over contiguous memory.
    left_R_R_n = left_n_R_R.permute(1, 2, 0).contiguous()
    while len(left_R_R_n):
        pivot_n = left_R_R_n[0, 0].clamp_min(_LEAST)
        total_n = total_n + pivot_n.log1p()
        below_r_n = left_R_R_n[1:, 0]
        left_R_R_n = left_R_R_n[1:, 1:] - below_r_n[:, None] * (below_r_n / (1 + pivot_n))
    return total_n


def _log_det_by_factors(blocks_n_R_R: Tensor) -> Tensor:
    eye_R_R = torch.eye(blocks_n_R_R.shape[-1], dtype=torch.float64, device=blocks_n_R_R.device)
    factor_n_R_R, failed_n = torch.linalg.cholesky_ex(blocks_n_R_R + eye_R_R)
    whole_n = 2 * factor_n_R_R.diagonal(dim1=1, dim2=2).log().sum(1)
    trace_n, square_n = blocks_n_R_R.diagonal(dim1=1, dim2=2).sum(1), blocks_n_R_R.square().sum((1, 2))
    if bool(failed_n.any()):
        values_f_R = torch.linalg.eigvalsh(blocks_n_R_R[failed_n > 0])
        whole_n[failed_n > 0] = values_f_R.clamp_min(_LEAST).log1p().sum(1)
    return torch.where(square_n < _TINY**2, trace_n - square_n / 2, whole_n)
