"""φ(r) = (1+r) ln(1+r) − r: what a pair of labels that meets 1+r times as often as by chance adds to information.

    I = Σ Q φ(r),     Q = p(y) p(y*),   1 + r = p(y,y*) / Q                        φ ≥ 0, φ(0) = 0, φ(−1) = 1

Non-negative term by term, and by its series (−1)ⁿ rⁿ / n(n−1) exact where logarithms have cancelled.
docs/theory/epig-jepig.md, 5.
"""

import numpy as np
import torch
from torch import Tensor

# φ by its series below this, by logarithms above: with six terms both are as exact as the type there.
_SMALL = {torch.float32: 0.05, torch.float64: 0.01}
_SERIES = (-1 / 42, 1 / 30, -1 / 20, 1 / 12, -1 / 6, 1 / 2)
# With AVX-512, NumPy's logarithm takes a third of the time of torch's, but knows one thread only.
_NUMPY_THREADS = 2 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 0


def phi(r: Tensor, spare: Tensor | None = None) -> Tensor:
    """(1+r) ln(1+r) − r for r ≥ −1, in the memory of `spare` where there is some; r is overwritten.

    Keeps the digits of small r, by the series −r²(…(r/42 − 1/30)r…).

    >>> phi(torch.tensor([0.0, -1.0, 1e-12], dtype=torch.float64)).tolist()
    [0.0, 0.999..., 4.999...e-25]
    """
    spare = torch.empty_like(r) if spare is None else spare
    small = _SMALL.get(r.dtype, 0.01)
    # −1 is a pair of labels that never meet, φ = 1: just above it the logarithm is finite and φ nearly the same.
    r.clamp_min_(-1 + torch.finfo(r.dtype).eps / 2)
    low, high = r.aminmax() if r.numel() else (r.new_zeros(()), r.new_zeros(()))
    if -small < float(low) and float(high) < small:
        return _series(r, spare)
    by_series = _series(r, torch.empty_like(r))
    torch.log1p(r, out=spare)
    torch.addcmul(spare, spare, r, out=spare).sub_(r)
    return torch.where(r.abs_() < small, by_series, spare, out=spare)


def phi_of_ratio(ratio: Tensor, spare: Tensor) -> Tensor:
    """φ(s − 1) = s ln s − (s − 1) for ratios s > 0, quickly: off by eps·|s − 1|. In `spare`; ratios are overwritten.

    >>> phi_of_ratio(torch.tensor([1.0, 1e-30]), torch.empty(2)).tolist()
    [0.0, 1.0]
    """
    if ratio.device.type == "cpu" and torch.get_num_threads() <= _NUMPY_THREADS:
        np.log(ratio.numpy(), out=spare.numpy())
    else:
        torch.log(ratio, out=spare)
    spare.mul_(ratio)
    return spare.sub_(ratio.sub_(1))


def _series(r: Tensor, into: Tensor) -> Tensor:
    torch.mul(r, _SERIES[0], out=into)
    for coefficient in _SERIES[1:]:
        into.add_(coefficient).mul_(r)
    return into.mul_(r)
