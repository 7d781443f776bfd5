"""Draws of the weights of a Gaussian posterior: W_k = w* + H^(−½) z_k with z_k ~ N(0, I), in the form H has.

    dense      Lᵀ w = z           diagonal   w = z/√h          kronecker  L_Aᵀ W L_G = Z
    low-rank   w = λ^(−½) (z + U ((1 + s/λ)^(−½) − 1) Uᵀ z)

The seed alone decides z: the same draws for every point and every call.
docs/theory/weight-space.md, 2.
"""

import torch
from torch import Tensor

from natsel.information.weights.precision import Precision


def weight_draws(precision: Precision, weights: int, count: int, seed: int) -> Tensor:
    """K draws of w − w*, [K, P] in float64.

    >>> from natsel.information.weights.precision import Isotropic
    >>> draws_K_P = weight_draws(Isotropic(4.0), 1000, 3, seed=0)
    >>> draws_K_P.shape, bool((draws_K_P.std() - 0.5).abs() < 0.02)
    (torch.Size([3, 1000]), True)
    """
    generator = torch.Generator().manual_seed(seed % (1 << 63))
    normal_K_P = torch.randn(count, weights, generator=generator, dtype=torch.float64)
    return precision.coloured(normal_K_P.to(next(iter(precision.tensors().values())).device))
