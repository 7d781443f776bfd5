"""Binomial coefficients in nats: Stirling's bound as an entropy, and its gap as an information content.

Flip N coins that each show heads with probability ρ: B is what all of them show, R = r how many show heads.

    H[B | r] = ln (N over r)                              all arrangements with r heads are equally likely
    H[B, r]  = −r ln ρ − (N − r) ln(1 − ρ)                the heads are counted from B: r tells nothing more
    H[r]     = H[B, r] − H[B | r]  ≥ 0                    so the first is at most the second, least so at ρ = r/N:

    ln (N over r) ≤ r ln(N/r) + (N − r) ln(N/(N − r)),    gap H[r] = ½ ln(2π r (N − r)/N) + δ(r) + δ(N − r) − δ(N)

δ(n) = ln Γ(n + 1) − (n + ½) ln n + n − ½ ln 2π ≈ 1/(12n) is what Stirling's formula misses. Written so, nothing large
is subtracted: the gap keeps its digits for N in the billions, where ln N! − ln r! − ln(N − r)! has lost them.
The derivation, step by step and proved by the calculus, is docs/examples/stirling.md.
docs/theory/information-quantities.md, 15; MacKay 2003, page 2.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Whole = int | float | Sequence[Any] | NDArray[Any] | Tensor

# From here on five terms of the series of δ are exact to the last bit; below, lgamma has digits to spare.
_SERIES_FROM = 16.0
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def log_binomial(N: Whole, r: Whole) -> Tensor:
    """ln (N over r): H[B | r], the nats needed to say which r of N.  N and r broadcast; float64.

    >>> log_binomial(10, [0, 3, 10])
    tensor([0.0000, 4.7875, 0.0000], dtype=torch.float64)
    """
    flips, heads = _checked(N, r)
    return _bound(flips, heads) - _gap(flips, heads)


def log_binomial_upper_bound(N: Whole, r: Whole) -> Tensor:
    """r ln(N/r) + (N − r) ln(N/(N − r)): H[B, r] at ρ = r/N, the least bound of this kind; 0 ln 0 = 0.

    >>> log_binomial_upper_bound(10, [0, 3, 10])
    tensor([0.0000, 6.1086, 0.0000], dtype=torch.float64)
    """
    return _bound(*_checked(N, r))


def log_binomial_gap(N: Whole, r: Whole) -> Tensor:
    """By how much the bound exceeds ln (N over r): H[r] at ρ = r/N, never negative and at most ln(N + 1).

    >>> log_binomial_gap(10, [0, 3, 10])
    tensor([0.0000, 1.3212, 0.0000], dtype=torch.float64)
    """
    return _gap(*_checked(N, r))


def _bound(flips: Tensor, heads: Tensor) -> Tensor:
    total = flips.clamp_min(1.0)
    few = torch.minimum(heads, flips - heads)  # the bound is symmetric, and log1p wants the smaller share
    bound: Tensor = 0.0 - torch.xlogy(few, few / total) - torch.special.xlog1py(flips - few, -few / total)
    return bound


def _gap(flips: Tensor, heads: Tensor) -> Tensor:
    mixed = (heads > 0) & (heads < flips)
    # Where there is only one arrangement the gap is 0, whatever numbers stand in for N and r.
    n, r = torch.where(mixed, flips, 2.0), torch.where(mixed, heads, 1.0)
    rest = n - r
    leading = _HALF_LOG_2PI + 0.5 * (r * (rest / n)).log()
    return torch.where(mixed, leading + _missed(r) + _missed(rest) - _missed(n), 0.0)


def _missed(n: Tensor) -> Tensor:
    """δ(n) for n ≥ 1: 1/(12n) − 1/(360n³) + 1/(1260n⁵) − 1/(1680n⁷) + 1/(1188n⁹) where n is large."""
    small, large = n.clamp_max(_SERIES_FROM), n.clamp_min(_SERIES_FROM)
    below = torch.lgamma(small + 1) - (small + 0.5) * small.log() + small - _HALF_LOG_2PI
    square = large.square()
    above = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / (1188 * square)) / square) / square) / square) / large
    return torch.where(n < _SERIES_FROM, below, above)


def _checked(N: Whole, r: Whole) -> tuple[Tensor, Tensor]:
    flips, heads = _whole(N, "N"), _whole(r, "r")
    device = flips.device if isinstance(N, Tensor) else heads.device
    flips, heads = flips.to(device), heads.to(device)
    try:
        shape = np.broadcast_shapes(flips.shape, heads.shape)
    except ValueError:
        shapes = f"{tuple(flips.shape)} and {tuple(heads.shape)}"
        raise ValueError(f"r: N and r have the shapes {shapes}; pass one number or shapes that broadcast") from None
    flips, heads = flips.expand(shape), heads.expand(shape)
    wrong = (heads > flips).nonzero()
    if len(wrong):
        place = tuple(wrong[0].tolist())
        found = f"{heads[place].item():.15g} of {flips[place].item():.15g}"
        raise ValueError(f"r: expected at most N, found {found}; there is no such choice")
    return flips, heads


def _whole(values: Whole, name: str) -> Tensor:
    try:
        wide = values.double() if isinstance(values, Tensor) else torch.tensor(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        found = type(values).__name__
        raise ValueError(f"{name}: expected numbers, found {found} that float64 cannot hold; pass counts") from None
    wrong = wide[~((wide >= 0) & (wide == wide.floor()) & wide.isfinite())]
    if len(wrong):
        raise ValueError(f"{name}: expected whole numbers of at least 0, found {wrong[0].item():.15g}; pass counts")
    return wide
