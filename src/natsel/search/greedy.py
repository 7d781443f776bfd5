"""Greedy search: take the point that adds most to those already taken, k times.

    i_t = argmax_i  f(S ∪ {i}) − f(S)

For a monotone submodular objective the batch is worth at least 1 − 1/e of the best one, and gains only fall, so the
gain a point had earlier bounds what it has now: points are looked at in the order of those bounds until the next one
cannot win (lazy greedy). Where gains are estimated from samples, finding the best is a race (`natsel.search.race`);
where they have cheap ceilings, few are looked at (`natsel.search.shortlist`).
docs/theory/batchbald.md, 7 and 10; Nemhauser et al. 1978; Minoux 1978; Kirsch et al. 2019.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from natsel.capabilities import (
    Capability,
    Choice,
    Picks,
    Progress,
    SequentialState,
    ShortlistedState,
    State,
    has_budget,
    has_ceilings,
    has_errors,
    has_gains,
    has_racing,
    lacking,
)
from natsel.rounding import TIE
from natsel.search.race import race
from natsel.search.shortlist import shortlist

# With less than this left in all, or less than this share of what there was if that was known and less than a nat,
# estimated gains are noise; the rest of the batch is filled in the order of bounds.
_ENOUGH = 1e-3
_FIRST_BLOCK = 256


@dataclass(frozen=True)
class Greedy:
    """One point after the other, each conditional on those before; lazy where the objective is submodular.

    >>> Greedy().needs.name
    'GAINS'
    """

    needs: ClassVar[Capability] = Capability.GAINS

    def __call__(
        self, state: State, k: int, allowed_N: Tensor, generator: torch.Generator, progress: Progress | None = None
    ) -> Picks:
        """Pick k of the allowed positions; ties go to the lower position."""
        if not has_gains(state):
            raise lacking(state, self)
        steps = forward(state, k, allowed_N, progress)
        return Picks(
            positions=torch.tensor([choice.position for choice in steps.choices], dtype=torch.int64),
            scores=torch.tensor(steps.gains, dtype=torch.float64),
            total=state.total,
            gaps=torch.tensor([choice.gap for choice in steps.choices], dtype=torch.float64),
            gap_errors=torch.tensor([choice.error for choice in steps.choices], dtype=torch.float64),
            notes=saturation(steps, k),
        )


class Steps(NamedTuple):
    """Picks in order, what each gained, how many were looked for, and what was then left to learn."""

    choices: list[Choice]
    gains: list[float]
    looked: int
    left: float


def forward(state: SequentialState, k: int, allowed_N: Tensor, progress: Progress | None = None) -> Steps:
    """Add the best of the allowed positions k times; once nothing is left to learn, the first ones of the rest.

    Where labels have costs and there is a budget, only points that fit into what is left of it are looked at.
    """
    bound_N = state.bounds().to(torch.float64, copy=True)
    bound_N[~allowed_N.to(bound_N.device)] = -torch.inf
    choices: list[Choice] = []
    gains: list[float] = []
    enough = _ENOUGH * (min(1.0, state.remaining) if state.exact else 1.0)
    while len(choices) < k and state.remaining > (TIE if state.exact else enough):
        if has_budget(state):
            bound_N[~state.affordable().to(bound_N.device)] = -torch.inf
            if not bool((bound_N > -torch.inf).any()):
                break
        if has_ceilings(state):
            choice = best_by_shortlist(state, bound_N > -torch.inf)
        elif has_racing(state) and state.prefers_racing:
            choice = race(state, bound_N)
        else:
            choice = best_by_bounds(state, bound_N)
        choices.append(choice)
        gains.append(state.add(choice.position))
        if progress is not None:
            progress(1)
        bound_N[choice.position] = -torch.inf
    looked, left = len(choices), state.remaining
    if looked < k:
        # Exact gains below the tie are all alike; bounds would only order their rounding.
        rest_N = (bound_N > -torch.inf).double() if state.exact else bound_N
        most = int((bound_N > -torch.inf).sum()) if has_budget(state) else k - looked
        for position in rest_N.argsort(descending=True, stable=True)[:most].tolist():
            if len(choices) == k:
                break
            if has_budget(state) and not state.affordable()[position]:
                continue
            choices.append(Choice(position, gap=0.0, error=0.0))
            gains.append(state.add(position))
            if progress is not None:
                progress(1)
    return Steps(choices, gains, looked, left)


def saturation(steps: Steps, k: int) -> tuple[str, ...]:
    """A note where fewer picks were looked for than were taken, of k at most."""
    if steps.looked >= min(k, len(steps.choices)):
        return ()
    return (
        f"saturated: {steps.looked} picks leave {steps.left:.1g} nats to learn about these draws;"
        " the rest of the batch is filled up without regard to them",
    )


def best_by_shortlist(state: ShortlistedState, allowed_N: Tensor) -> Choice:
    """The best gain of a state that looks at few points in full; ties go to the lower position."""
    positions_M, gain_M = shortlist(state, 1, allowed_N, tie=TIE)
    best = float(gain_M.max())
    return _choice(state, int((gain_M >= best - TIE).nonzero()[0]), positions_M, gain_M)


def best_by_bounds(state: SequentialState, bound_N: Tensor) -> Choice:
    """Refresh bounds from the top until no untouched one can reach the best; writes the fresh gains to `bound_N`."""
    order_M = bound_N.argsort(descending=True, stable=True)[: int((bound_N > -torch.inf).sum())]
    bound_M = bound_N[order_M]
    best, start, size = -torch.inf, 0, _FIRST_BLOCK
    while start < len(order_M) and (not state.submodular or float(bound_M[start]) >= best - TIE):
        block_n = order_M[start : start + size]
        bound_N[block_n] = state.gains(block_n)
        best = max(best, float(bound_N[block_n].max()))
        start, size = start + size, 2 * size
    seen_n = order_M[:start]
    gain_n = bound_N[seen_n]
    position = int(seen_n[gain_n >= best - TIE].min())
    return _choice(state, int((seen_n == position).nonzero()), seen_n, gain_n)


def _choice(state: State, place: int, position_n: Tensor, gain_n: Tensor) -> Choice:
    """The candidate at a place, its lead over the best of the others, and how unsure that lead is."""
    leader = int(position_n[place])
    if len(gain_n) == 1:
        return Choice(leader, gap=torch.inf, error=0.0)
    other_n = gain_n.index_fill(0, torch.tensor(place, device=gain_n.device), -torch.inf)
    runner_up = other_n.argmax()
    error = 0.0
    if has_errors(state) and not state.exact:
        error = float(state.errors(position_n[runner_up][None], leader)[0])
    return Choice(leader, gap=float(gain_n[place] - gain_n[runner_up]), error=error)
