"""The Laplace evidence: how likely the labels are under a prior precision λ of the weights, and the λ that it favours.

    ln p(D | λ) = ln p(D | w*) − ½ λ ‖w*‖² + ½ P ln λ − ½ ln det(F + λ I)
                = ln p(D | w*) − ½ λ ‖w*‖² − ½ Σ_i ln(1 + s_i/λ)              s: eigenvalues of F, zeros may be left out
    best λ:       λ ‖w*‖² = Σ_i s_i/(s_i + λ)                               the number of weights that data decide

The left side grows with λ and the right side falls: there is one solution, below √Σ_i s_i / ‖w*‖, in any units.
docs/theory/weight-space.md, 7.1.
"""

import math
from typing import Any

import torch
from scipy.optimize import brentq
from torch import Tensor

LIMITS = (1e-8, 1e8)
"""The prior precision where none is best: without curvature, and, of the largest eigenvalue, without weights."""


def log_evidence(log_likelihood: float, squared_norm: float, eigenvalues_r: Any, prior_precision: Any) -> Tensor:
    """ln p(D | λ) without the constants of the likelihood, for one prior precision or many.

    >>> round(log_evidence(-3.0, 2.0, [4.0, 0.0], 1.0).item(), 4)
    -4.8047
    """
    eigenvalues_r, precision = (
        torch.as_tensor(given, dtype=torch.float64) for given in (eigenvalues_r, prior_precision)
    )
    if not bool(((precision > 0) & precision.isfinite()).all()):
        raise ValueError(f"prior_precision: expected positive numbers, found {prior_precision}; 1.0 is common")
    known = (eigenvalues_r.clamp_min(0) / precision[..., None]).log1p().sum(-1)
    found: Tensor = log_likelihood - precision * squared_norm / 2 - known / 2
    return found


def evidence_precision(eigenvalues_r: Any, squared_norm: float) -> float:
    """The prior precision under which the labels are likeliest.

    Without curvature or weights it is one of `LIMITS`, and never so small that F + λ I is singular in float64.

    >>> round(evidence_precision([3.0], 1.0), 4)  # λ = 3/(3 + λ)
    0.7913
    """
    values_r = torch.as_tensor(eigenvalues_r, dtype=torch.float64).flatten()
    if not bool(values_r.isfinite().all()) or not 0 <= squared_norm < math.inf:
        raise ValueError("eigenvalues: found NaN or infinity in the curvature or the weights; check the trained model")
    values_r = values_r[values_r > 0]
    largest = float(values_r.max()) if len(values_r) else 0.0
    if squared_norm == 0 or largest == 0:
        return LIMITS[1] * largest or LIMITS[0]
    low = math.log(8 * len(values_r) * torch.finfo(torch.float64).eps * largest)
    high = 0.5 * math.log(float(values_r.sum()) / squared_norm) + 1e-9

    def slope(log_precision: float) -> float:
        precision = math.exp(log_precision)
        return precision * squared_norm - float((values_r / (values_r + precision)).sum())

    if low >= high or slope(low) >= 0:
        return math.exp(low)
    return math.exp(brentq(slope, low, high, xtol=1e-12, rtol=1e-14))
