"""Gain per cost: a state whose scores and gains are divided by what the label of each point costs.

    score_n / c_n,    gain_n / c_n,    bound_n / c_n           c_n = cost_n / cost of the cheapest point allowed

What bounds a gain bounds it after the division too, so that lazy searches, shortlists and races stay right. Costs
count relative to the cheapest point, so that their unit does not matter, and no number becomes larger than it was:
tolerances that are made for nats keep their meaning. What a batch is worth (`total`, `remaining`) is not divided. With
a budget the state also says which points still fit into what is left of it.
docs/search.md, costs; Leskovec et al. 2007.
"""

from typing import cast

import torch
from torch import Tensor

from natsel.capabilities import Capability, EstimatedState, RacedState, SequentialState, ShortlistedState, State
from natsel.ties import order_of

DIVISIBLE = Capability.SCORES | Capability.GAINS
"""What can be divided by costs: searches that need anything else, such as the values of sets, cannot go by them."""
_KEPT = DIVISIBLE | Capability.CEILINGS | Capability.ERRORS | Capability.RACING
# The tolerances of a race are made for gains in nats: gains that were divided by more than this are compared in full.
_RACED_UP_TO = 100.0
ROUNDING = 1e-9
"""The share of a budget by which sums of costs may exceed it: ten times 0.1 is more than 1 in floating point."""


class PerCost:
    """A state, seen per cost. `relative_N` holds costs relative to the cheapest, `budget` is in the unit of `cost_N`.

    >>> from types import SimpleNamespace
    >>> state = SimpleNamespace(scores=lambda: torch.tensor([1.0, 3.0]), offers=Capability.SCORES)
    >>> PerCost(state, torch.tensor([10.0, 60.0]), torch.ones(2, dtype=torch.bool)).scores()
    tensor([1.0000, 0.5000], dtype=torch.float64)
    """

    def __init__(self, state: State, cost_N: Tensor, allowed_N: Tensor, budget: float | None = None) -> None:
        self.state, self.cost_N, self.left, self.order = state, cost_N, budget, order_of(state)
        self.slack = 0.0 if budget is None else ROUNDING * budget
        allowed_cost_M = cost_N[allowed_N.to(cost_N.device)]
        self.relative_N = cost_N / (float(allowed_cost_M.min()) if len(allowed_cost_M) else 1.0)
        wide = len(allowed_cost_M) > 0 and float(self.relative_N[allowed_N].max()) > _RACED_UP_TO
        self.offers = state.offers & (_KEPT & ~Capability.RACING if wide else _KEPT)
        if budget is not None and Capability.GAINS in self.offers:
            self.offers |= Capability.BUDGET

    @property
    def warnings(self) -> tuple[str, ...]:
        """Those of the state."""
        return self.state.warnings

    def scores(self) -> Tensor:
        """Scores per cost, N values."""
        score_N = self.state.scores().double()
        return score_N / self.relative_N.to(score_N.device)

    # GAINS

    @property
    def _growing(self) -> SequentialState:
        return cast(SequentialState, self.state)

    @property
    def total(self) -> float:
        """What the points added so far are worth, not divided."""
        return self._growing.total

    @property
    def remaining(self) -> float:
        """What all further points can add at most, not divided."""
        return self._growing.remaining

    @property
    def exact(self) -> bool:
        """Whether the gains are exact now."""
        return self._growing.exact

    @property
    def submodular(self) -> bool:
        """Whether gains, and so gains per cost, only fall as points are added."""
        return self._growing.submodular

    @property
    def tie(self) -> float:
        """Gains closer than this are equal."""
        return self._growing.tie

    @property
    def prefers_racing(self) -> bool:
        """Whether a race is quicker than reading all gains in full."""
        return Capability.RACING in self.offers and self._growing.prefers_racing

    def bounds(self) -> Tensor:
        """Upper bounds on the gains per cost."""
        bound_N = self._growing.bounds().double()
        return bound_N / self.relative_N.to(bound_N.device)

    def gains(self, positions: Tensor) -> Tensor:
        """Gains per cost of some positions."""
        return self._divided(self._growing.gains(positions), positions)

    def add(self, position: int) -> float:
        """Add the point, pay for it, and return its gain per cost."""
        if self.left is not None:
            self.left -= float(self.cost_N[position])
        return self._growing.add(position) / float(self.relative_N[position])

    def affordable(self) -> Tensor:
        """Which points still fit into what is left of the budget."""
        return self.cost_N <= (torch.inf if self.left is None else self.left + self.slack)

    # CEILINGS, ERRORS, RACING

    def ceilings(self, worth: float) -> Tensor:
        """Upper bounds per cost. The least that is of interest, before division, is the worth of the cheapest point."""
        ceiling_N = cast(ShortlistedState, self.state).ceilings(worth).double()
        return ceiling_N / self.relative_N.to(ceiling_N.device)

    def scores_at(self, positions: Tensor) -> Tensor:
        """Scores (once points were added, gains) per cost of some positions."""
        return self._divided(cast(ShortlistedState, self.state).scores_at(positions), positions)

    def errors(self, positions: Tensor, leader: int) -> Tensor:
        """Standard errors of leads per cost; NaN where two costs differ, for which the state does not tell them."""
        error_n = cast(EstimatedState, self.state).errors(positions, leader).double()
        relative_n = self.relative_N[positions.to(self.relative_N.device)].to(error_n.device)
        same_n = relative_n == self.relative_N[leader].to(error_n.device)
        return torch.where(same_n, error_n / relative_n, torch.nan)

    @property
    def level_count(self) -> int:
        """How many levels a race has."""
        return cast(RacedState, self.state).level_count

    def terms(self, positions: Tensor, level: int) -> Tensor:
        """Gains per cost at a level, row by row."""
        term_n_R = cast(RacedState, self.state).terms(positions, level)
        relative_n = self.relative_N[positions.to(self.relative_N.device)].to(term_n_R)
        return term_n_R / relative_n[:, None]

    def rejection_probs(self, level: int) -> Tensor:
        """How unsure each row of a level is."""
        return cast(RacedState, self.state).rejection_probs(level)

    def _divided(self, value_n: Tensor, positions: Tensor) -> Tensor:
        relative_n = self.relative_N[positions.to(self.relative_N.device)]
        return value_n.double() / relative_n.to(value_n.device)


def first_that_fit(cost_n: Tensor, budget: float, k: int) -> list[int]:
    """Places of a list that are taken one after the other as long as they fit into a budget, at most k.

    >>> first_that_fit(torch.tensor([5.0, 9.0, 4.0, 1.0]), budget=10.0, k=4)
    [0, 2, 3]
    """
    left, slack = budget, ROUNDING * budget
    least = float(cost_n.min()) if len(cost_n) else 0.0
    taken: list[int] = []
    for place, cost in enumerate(cost_n.tolist()):
        if len(taken) == k or left + slack < least:
            break
        if cost <= left + slack:
            taken.append(place)
            left -= cost
    return taken


def most_that_fit(cost_n: Tensor, budget: float) -> int:
    """How many points a budget pays for at most: as many as of the cheapest ones.

    >>> most_that_fit(torch.tensor([5.0, 9.0, 4.0, 1.0]), budget=10.0)
    3
    """
    return int((cost_n.double().sort().values.cumsum(0) <= budget * (1 + ROUNDING)).sum())
