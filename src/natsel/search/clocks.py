"""Clocks: draw positions one after the other with chances that change from draw to draw, from one number a position.

    position i rings when  ∫ w_i dt  reaches  E_i ~ Exponential(1)
    P(i rings next) = w_i / Σ_l w_l                                     whatever rang before, and at whatever weights

What is left of a clock that has not rung is again exponential, so the weights may change after every ring and every
draw is still exact. The noise belongs to the position: it is drawn on the CPU in float64 for all N, so that draws
depend neither on the device nor on points that have no weight, such as excluded ones.
"""

import math
from copy import copy

import torch
from torch import Tensor


class Clocks:
    """One clock a position, running since they were made.

    >>> clocks = Clocks(3, torch.Generator().manual_seed(0), torch.device("cpu"))
    >>> clocks.ring(torch.tensor([0.0, 2.0, 0.0]))
    1
    """

    def __init__(self, count: int, generator: torch.Generator, device: torch.device) -> None:
        # By inversion, as gumbel_noise does: 1 - u is exact and never 0.
        uniform_N = torch.rand(count, dtype=torch.float64, generator=generator)
        self.left_N = uniform_N.neg_().add_(1).log_().neg_().to(device)
        self.log_prob = 0.0

    def at(self, positions_M: Tensor) -> "Clocks":
        """The clocks of some positions, from now on by themselves."""
        some = copy(self)
        some.left_N = self.left_N[positions_M]
        return some

    def ring(self, weights_N: Tensor) -> int | None:
        """The position that rings next, None where no weight is above 0; positions that are out have weight 0."""
        most = float(weights_N.max())
        if most <= 0:
            return None
        rate_N = weights_N / most  # sums of huge weights would overflow
        # A clock at 0 without weight would give 0 / 0.
        wait_N = (self.left_N / rate_N).masked_fill_(~(rate_N > 0), torch.inf)
        position = int(wait_N.argmin())
        self.log_prob += math.log(float(rate_N[position] / rate_N.sum()))
        self.left_N.sub_(rate_N.mul_(wait_N[position])).clamp_min_(0)
        return position

    def soon(self, weights_N: Tensor, count: int) -> Tensor:
        """Up to `count` positions that would ring first if these weights stayed as they are; they go on running."""
        wait_N = (self.left_N / weights_N).masked_fill_(~(weights_N > 0), torch.inf)
        first = wait_N.topk(min(count, len(wait_N)), largest=False)
        return first.indices[first.values < torch.inf]

    def fill(self, open_N: Tensor, count: int, taken: list[int] | None = None) -> list[int]:
        """`count` open positions, all equally likely, but for those taken."""
        open_N = open_N.to(self.left_N.device, copy=True)
        open_N[taken or []] = False
        wait_N = torch.where(open_N, self.left_N, torch.inf)
        positions_B = wait_N.topk(count, largest=False).indices
        free = int(open_N.sum())
        self.log_prob -= sum(math.log(free - taken) for taken in range(count))
        self.left_N = (self.left_N - wait_N[positions_B].max()).clamp_min_(0) if count else self.left_N
        found: list[int] = positions_B.tolist()
        return found
