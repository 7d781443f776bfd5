"""Draws of the weights of a Gaussian posterior: W_k = w* + H^(−½) z_k with z_k ~ N(0, I), in the form H has.

    dense      Lᵀ w = z           diagonal   w = z/√h          kronecker  L_Aᵀ W L_G = Z
    low-rank   w = λ^(−½) (z + U ((1 + s/λ)^(−½) − 1) Uᵀ z)

The seed alone decides z: the same draws for every point and every call.  Spec 08, A2.
"""

import torch
from torch import Tensor

from natsel.information.positive_definite import cholesky
from natsel.information.precision import Dense, Diagonal, Isotropic, Kronecker, LowRank, Precision


def weight_draws(precision: Precision, weights: int, count: int, seed: int) -> Tensor:
    """K draws of w − w*, [K, P] in float64.

    >>> from natsel.information.precision import Isotropic
    >>> draws_K_P = weight_draws(Isotropic(4.0), 1000, 3, seed=0)
    >>> draws_K_P.shape, bool((draws_K_P.std() - 0.5).abs() < 0.02)
    (torch.Size([3, 1000]), True)
    """
    generator = torch.Generator().manual_seed(seed % (1 << 63))
    normal_K_P = torch.randn(count, weights, generator=generator, dtype=torch.float64)
    found: Tensor
    match precision:
        case Isotropic():
            found = normal_K_P.to(precision.scale.device) / precision.scale.sqrt()
            return found
        case Diagonal():
            found = normal_K_P.to(precision.diagonal_P.device) / precision.diagonal_P.sqrt()
            return found
        case Dense():
            return _back(cholesky(precision.matrix_P_P), normal_K_P.to(precision.matrix_P_P.device))
        case Kronecker():
            left_C_C, right_D_D = cholesky(precision.left_C_C), cholesky(precision.right_D_D)
            normal_K_C_D = normal_K_P.to(left_C_C.device).view(count, len(left_C_C), len(right_D_D))
            return _back(right_D_D, _back(left_C_C, normal_K_C_D.mT).mT).flatten(1)
        case LowRank():
            normal_K_P = normal_K_P.to(precision.scale.device)
            shrunk_r = (precision.values_r / precision.scale + 1).rsqrt() - 1
            along_K_r = normal_K_P @ precision.vectors_r_P.T * shrunk_r
            found = (normal_K_P + along_K_r @ precision.vectors_r_P) / precision.scale.sqrt()
            return found
    raise TypeError(f"precision: no way to draw from {type(precision).__name__}")


def _back(factor: Tensor, rows: Tensor) -> Tensor:
    """Rows · L⁻¹, whose covariance is (L Lᵀ)⁻¹."""
    found: Tensor = torch.linalg.solve_triangular(factor, rows, upper=False, left=False)
    return found
