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
    State,
    has_budget,
    has_ceilings,
    has_errors,
    has_gains,
    has_racing,
    has_successor,
    lacking,
)
from natsel.search.kmeans_pp import drawn_after
from natsel.search.nearest import report
from natsel.search.race import race
from natsel.search.shortlist import shortlist
from natsel.search.topk import drawn_top_k
from natsel.ties import order_of

# With less than this left in all, or less than this share of what there was if that was known and less than a nat,
# estimated gains are noise.
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
        """Pick k of the allowed positions."""
        if not has_gains(state):
            raise lacking(state, self)
        steps = forward(state, k, allowed_N, generator, progress)
        return Picks(
            positions=torch.tensor([choice.position for choice in steps.choices], dtype=torch.int64),
            scores=torch.tensor(steps.gains, dtype=torch.float64),
            total=state.total,
            gaps=torch.tensor([choice.gap for choice in steps.choices], dtype=torch.float64),
            gap_errors=torch.tensor([choice.error for choice in steps.choices], dtype=torch.float64),
            notes=saturation(steps, k),
        )


class Steps(NamedTuple):
    """Picks in order, what each gained, how many were looked for, what was then left to learn, and what went on."""

    choices: list[Choice]
    gains: list[float]
    looked: int
    left: float
    successor: str


def forward(
    state: SequentialState, k: int, allowed_N: Tensor, generator: torch.Generator, progress: Progress | None = None
) -> Steps:
    """Add the best of the allowed positions k times. Once nothing is left to learn the rest are drawn by k-means++ in
    the geometry that the state has for that, or, where it has none, taken as equals.

    Where labels have costs and there is a budget, only points that fit into what is left of it are looked at.
    """
    bound_N = state.bounds().to(torch.float64, copy=True)
    bound_N[~allowed_N.to(bound_N.device)] = -torch.inf
    choices: list[Choice] = []
    gains: list[float] = []
    enough = _ENOUGH * (min(1.0, state.remaining) if state.exact else 1.0)
    tie, order = state.tie, order_of(state)
    while len(choices) < k and state.remaining > (tie if state.exact else enough):
        if has_budget(state):
            bound_N[~state.affordable().to(bound_N.device)] = -torch.inf
            if not bool((bound_N > -torch.inf).any()):
                break
        if not state.submodular and has_ceilings(state):  # of a submodular one, earlier gains are ceilings
            choice = best_of(state, *shortlist(state, 1, bound_N > -torch.inf, tie), tie)
        elif has_racing(state) and state.prefers_racing:
            choice = race(state, bound_N)
        else:
            choice = best_by_bounds(state, bound_N)
        choices.append(choice)
        gains.append(state.add(choice.position))
        report(progress, 1)
        bound_N[choice.position] = -torch.inf
    looked, left, successor = len(choices), state.remaining, ""
    if looked < k and has_successor(state):
        places, name = state.successor()
        taken = [choice.position for choice in choices]
        allowed_N = (bound_N > -torch.inf).to(places.sizes().device)
        drawn = drawn_after(places, taken, min(k - looked, int(allowed_N.sum())), allowed_N, generator)
        choices += [Choice(position, gap=0.0, error=0.0) for position in drawn]
        gains += [0.0] * len(drawn)  # together no more than what is left
        successor = name if drawn else ""
        report(progress, len(drawn))
    if len(choices) < k and not successor:
        # Exact gains below the tie are all alike; bounds would only order their rounding.
        rest_N = (bound_N > -torch.inf).double() if state.exact else bound_N
        most = int((bound_N > -torch.inf).sum()) if has_budget(state) else k - looked
        for position in drawn_top_k(most, torch.arange(len(rest_N)), order, rest_N).tolist():
            if len(choices) == k:
                break
            if has_budget(state) and not state.affordable()[position]:
                continue
            choices.append(Choice(position, gap=0.0, error=0.0))
            gains.append(state.add(position))
            report(progress, 1)
    return Steps(choices, gains, looked, left, successor)


def saturation(steps: Steps, k: int) -> tuple[str, ...]:
    """A note where fewer picks were looked for than were taken, of k at most."""
    if steps.looked >= min(k, len(steps.choices)):
        return ()
    rest = min(k, len(steps.choices)) - steps.looked
    by = f"drawn as {steps.successor} draws them" if steps.successor else "filled up without regard to them"
    return (
        f"saturated: {steps.looked} picks leave {steps.left:.1g} nats to learn about these draws; the other {rest} were"
        f" {by}",
    )


def best_by_bounds(state: SequentialState, bound_N: Tensor) -> Choice:
    """Refresh bounds from the top until no untouched one can reach the best; writes the fresh gains to `bound_N`."""
    left_N, free = bound_N.clone(), int((bound_N > -torch.inf).sum())
    seen: list[Tensor] = []
    best, size = -torch.inf, _FIRST_BLOCK
    while free > 0:
        block = left_N.topk(min(size, free))
        if state.submodular and float(block.values[0]) < best - state.tie:
            break
        gain_n = state.gains(block.indices).to(bound_N)
        bound_N[block.indices] = gain_n
        left_N[block.indices] = -torch.inf
        seen.append(block.indices)
        best, free, size = max(best, float(gain_n.max())), free - len(gain_n), 2 * size
    seen_n = torch.cat(seen)
    return best_of(state, seen_n, bound_N[seen_n], state.tie)


def best_of(state: State, position_n: Tensor, gain_n: Tensor, tie: float) -> Choice:
    """The candidate of the largest gain, its lead over the best of the others, and how unsure that lead is."""
    leader = order_of(state).first(position_n[gain_n >= gain_n.max() - tie])
    place = int((position_n == leader).nonzero())
    if len(gain_n) == 1:
        return Choice(leader, gap=torch.inf, error=0.0)
    other_n = gain_n.index_fill(0, torch.tensor(place, device=gain_n.device), -torch.inf)
    runner_up = other_n.argmax()
    error = 0.0
    if has_errors(state) and not state.exact:
        error = float(state.errors(position_n[runner_up][None], leader)[0])
    return Choice(leader, gap=float(gain_n[place] - gain_n[runner_up]), error=error)
