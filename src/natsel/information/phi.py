"""φ(r) = (1+r) ln(1+r) − r: what a pair of labels that meets 1+r times as often as by chance adds to information.

    I = Σ Q φ(r),     Q = p(y) p(y*),   1 + r = p(y,y*) / Q                        φ ≥ 0, φ(0) = 0, φ(−1) = 1

Non-negative term by term, and by its series (−1)ⁿ rⁿ / n(n−1) exact where logarithms have cancelled.  Spec 06, Q3a.
"""

import torch
from torch import Tensor

# φ by its series below this, by logarithms above: with six terms both are as exact as the type there.
_SMALL = {torch.float32: 0.05, torch.float64: 0.01}
_SERIES = (-1 / 42, 1 / 30, -1 / 20, 1 / 12, -1 / 6, 1 / 2)


def phi(r: Tensor, spare: Tensor | None = None, precisely: bool = True) -> Tensor:
    """(1+r) ln(1+r) − r for r ≥ −1, in the memory of `spare` where there is some; r is overwritten.

    `precisely` keeps the digits of small r, by the series −r²(…(r/42 − 1/30)r…).

    >>> phi(torch.tensor([0.0, -1.0, 1e-12], dtype=torch.float64)).tolist()
    [0.0, 0.999..., 4.999...e-25]
    """
    spare = torch.empty_like(r) if spare is None else spare
    small = _SMALL.get(r.dtype, 0.01)
    # −1 is a pair of labels that never meet, φ = 1: just above it the logarithm is finite and φ nearly the same.
    r.clamp_min_(-1 + torch.finfo(r.dtype).eps / 2)
    if not precisely:
        torch.log1p(r, out=spare)
        return torch.addcmul(spare, spare, r, out=spare).sub_(r)
    low, high = r.aminmax() if r.numel() else (r.new_zeros(()), r.new_zeros(()))
    if -small < float(low) and float(high) < small:
        return _series(r, spare)
    by_series = _series(r, torch.empty_like(r))
    torch.log1p(r, out=spare)
    torch.addcmul(spare, spare, r, out=spare).sub_(r)
    return torch.where(r.abs_() < small, by_series, spare, out=spare)


def _series(r: Tensor, into: Tensor) -> Tensor:
    torch.mul(r, _SERIES[0], out=into)
    for coefficient in _SERIES[1:]:
        into.add_(coefficient).mul_(r)
    return into.mul_(r)
