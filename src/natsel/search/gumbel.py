"""Gumbel-top-k: an ordered sample without replacement from one pass of noise, and the law of such samples.

    top-k of  log w_i + eps_i,  eps_i ~ Gumbel(0; 1/beta)
    P(i_1..i_k) = Π_j w_{i_j}^beta / Σ_{l not in i_1..i_{j-1}} w_l^beta

Infinite weights come first and zero weights last, each group in the order of its bare noise: log w + eps is ±inf for
all of the group, so without that rule it would come out in index order. The noise belongs to the position: it is drawn
on the CPU in float64 for all N positions, so it depends on neither the device of the scores, nor what is excluded, nor
how a stream is cut into blocks.
docs/theory/stochastic-batches.md, 3 and 4; Kool et al. 2019; Kirsch et al. 2023.
"""

import math
from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor

from natsel.options import Amount
from natsel.search.topk import check_k, refuse_nan, stable_top_k

INF = math.inf
LARGE = torch.finfo(torch.float64).max / 4  # sums of two stay finite


def gumbel_noise(count: Amount, generator: torch.Generator) -> Tensor:
    """Unit Gumbel noise -log(Exponential(1)): float64, on the CPU, the same however it is cut into calls.

    >>> gumbel_noise(3, torch.Generator().manual_seed(0)).dtype
    torch.float64
    """
    if generator.device.type != "cpu":
        raise ValueError(f"generator: lives on {generator.device}; noise is drawn on the CPU, pass a CPU generator")
    # By inversion, because exponential_ may take a new seed per call; 1 - u is exact and never 0.
    uniform_N = torch.rand(count, dtype=torch.float64, generator=generator)
    exponential_N = (1 - uniform_N).log_().neg_()
    return exponential_N.clamp_min_(torch.finfo(torch.float64).tiny).log_().neg_()


def perturb(log_weights_N: Tensor, noise_N: Tensor, beta: float) -> Tensor:
    """Log w + Gumbel(0; 1/beta) from unit noise; the bare noise at beta = 0, where that scale diverges.

    >>> perturb(torch.tensor([1.0, 2.0]), torch.tensor([4.0, -4.0]), beta=2.0).tolist()
    [3.0, 0.0]
    """
    if beta == 0:
        return noise_N
    # The clamp keeps a tiny beta from making -inf + inf.
    return (noise_N.double() / beta).clamp_(-LARGE, LARGE).add_(log_weights_N)


def gumbel_top_k(log_weights_N: Tensor, k: int, noise_N: Tensor, beta: float = 1.0) -> tuple[Tensor, Tensor]:
    """Positions of the k largest log w + noise / beta, best first, and these perturbed values.

    >>> gumbel_top_k(torch.tensor([1.0, 2.0, -torch.inf]), 2, torch.tensor([4.0, -4.0, 9.0]), beta=2.0)
    (tensor([0, 1]), tensor([3., 0.], dtype=torch.float64))
    """
    check_beta(beta)
    check_k(k, len(log_weights_N))
    refuse_nan("log_weights_N", log_weights_N)
    perturbed_N = perturb(log_weights_N, noise_N, beta)
    positions_B = stable_top_k(k, perturbed_N) if beta == INF else stable_top_k(k, perturbed_N, noise_N)
    return positions_B, perturbed_N[positions_B]


def ordered_log_prob(log_weights_N: Tensor, positions_B: Tensor, allowed_N: Tensor | None = None) -> float:
    """Log-probability of drawing these positions in this order without replacement, p(i) ∝ exp(log weight i).

    `log_weights_N` is beta · log w. Infinite weights are drawn first and zero weights last, each group
    uniformly; an order that contradicts this, or a position not allowed, has log-probability -inf.

    >>> round(ordered_log_prob(torch.tensor([0.5, 0.3, 0.2]).log(), torch.tensor([0, 2])), 6)  # 0.5 · 0.2/0.5
    -1.609438
    """
    log_weights_N = log_weights_N.detach().to("cpu", torch.float64)
    positions_B = torch.as_tensor(positions_B, dtype=torch.int64).cpu()
    refuse_nan("log_weights_N", log_weights_N)
    is_inside_B = (positions_B >= 0) & (positions_B < len(log_weights_N))
    if not is_inside_B.all() or len(set(positions_B.tolist())) < len(positions_B):
        raise ValueError(
            f"positions_B: must be distinct and in 0..{len(log_weights_N) - 1} (found "
            f"{positions_B.tolist()[:9]}); pass the positions of one batch, drawn without replacement"
        )
    if allowed_N is not None:
        allowed_N = allowed_N.cpu()
        if not allowed_N[positions_B].all():
            return -INF
        renumbered_N = allowed_N.cumsum(0) - 1
        return ordered_log_prob(log_weights_N[allowed_N], renumbered_N[positions_B])
    return law(log_weights_N[positions_B], Rest().joined(log_weights_N, positions_B))


class Rest(NamedTuple):
    """All that the law needs to know of the points that were not picked."""

    log_mass: float = -INF  # of those with finite log-weight
    infinite: int = 0
    finite: int = 0
    zero: int = 0

    def joined(self, log_weights_M: Tensor, except_B: Tensor) -> "Rest":
        others_M = log_weights_M.index_fill(0, except_B, -INF)
        is_infinite_M = others_M == INF
        infinite = int(is_infinite_M.sum())
        zero = int((others_M == -INF).sum()) - len(except_B)
        others_M.masked_fill_(is_infinite_M, -INF)
        masses = torch.cat([torch.tensor([self.log_mass], dtype=torch.float64), others_M])
        return Rest(
            float(masses.logsumexp(0)),
            self.infinite + infinite,
            self.finite + len(others_M) - len(except_B) - infinite - zero,
            self.zero + zero,
        )


def law(picked_B: Tensor, rest: Rest) -> float:
    """Log-probability of the picks in their order, given beta · log w of each and a summary of the rest."""
    infinite_B, zero_B = picked_B == INF, picked_B == -INF
    first, last = int(infinite_B.sum()), int(zero_B.sum())
    finite_B = picked_B[first : len(picked_B) - last]
    in_order = infinite_B[:first].all() and finite_B.isfinite().all()
    too_early = (rest.infinite and first < len(picked_B)) or (rest.finite and last)
    if not in_order or too_early:
        return -INF
    # Backwards, so that mass is only ever added: before pick j remain the rest and the picks j..k.
    backward_B = finite_B.flip(0)
    mass = torch.tensor([rest.log_mass], dtype=torch.float64)
    remaining_B = torch.logcumsumexp(torch.cat([mass, backward_B]), 0)[1:]
    uniform = _log_falling(rest.infinite + first, first) + _log_falling(rest.zero + last, last)
    return float((backward_B - remaining_B).sum()) - uniform


def _log_falling(count: int, picks: int) -> float:
    """ln(count · (count - 1) · ...), one factor per pick; no lgamma, whose difference would cancel."""
    return float(torch.arange(count - picks + 1, count + 1, dtype=torch.float64).log().sum())


def check_beta(beta: float) -> None:
    """Raise a ValueError unless beta is a coldness: 0 to inf."""
    if not isinstance(beta, Real) or isinstance(beta, bool) or not beta >= 0:
        raise ValueError(f"beta: found {beta!r}; pass a number from 0 (uniform) to inf (top-k)")
