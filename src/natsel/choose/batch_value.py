"""What a batch is worth together, where a search took its points one by one.

    value(i_1..i_k)                                              at once, where that is quick
    Σ_j gain(i_j | i_1..i_{j−1})                                 else, on a state of the picked points with few rows

Top-k and stochastic searches know the scores of single points, whose sum counts what points share once for each of
them: picks from 100 draws can have scores of 16.9 nats in all, where the draws can tell no more than ln 100 = 4.6.
Either way takes at most about a quarter of a second: rows are cut to what there is time for (0.2 % of noise for 100
picks from 100 draws of 10 classes). Where there is time for too few, as for thousands of picks or with many targets, it
is the sum of the scores, but no more than all points together can tell; where the objective has no gains, the sum.
docs/theory/batchbald.md, 3 and 8.
"""

from dataclasses import replace

import torch

from natsel.beliefs import Belief
from natsel.beliefs.base import NoView
from natsel.capabilities import Capability, Picks, State, has_gains, has_operations, has_value
from natsel.choose.methods import Method
from natsel.objectives import Context, Objective, Reading, read_and_warn
from natsel.rounding import TIE
from natsel.search.patience import A_SECOND

_TOGETHER = Capability.GAINS | Capability.VALUE
_OPERATIONS = A_SECOND / 4
_ENUMERATED = A_SECOND / 100
# The same for states that do not count operations: pairs of picks, for each target.
_PAIRS = 1e7
# The same for rows: numbers of the picks times rows, 2.5 ns each on one core, and five times that for each target.
_NUMBERS = 1e8
_TARGET = 5
_LEAST_ROWS = 64


def batch_value(
    method: Method, belief: Belief, context: Context[Belief], state: State, reading: Reading, picks: Picks
) -> float:
    """The worth of the picks together under the objective; at most what the search said where that is not quick."""
    positions_B, n_targets = picks.positions, 0 if context.about is None else len(context.about)
    repeated = picks.weights is not None or len(set(positions_B.tolist())) < len(positions_B)
    if method.search.needs & _TOGETHER or Capability.GAINS not in reading.offers or not len(positions_B) or repeated:
        return picks.total
    pool = len(belief) if reading.facts.pool_wide else 0  # the worth is then one to all points
    sampled = Capability.ERRORS in reading.offers and not pool  # else gains have no rows that could be few
    if has_value(state) and _is_quick(state, len(positions_B), n_targets + pool, sampled):
        return state.value(positions_B)
    objective = _with_few_rows(method.objective, belief, len(positions_B), n_targets)
    if objective is None or not sampled:
        return min(picks.total, state.remaining) if has_gains(state) else picks.total
    labels_N = context.known_N
    known_B = None if labels_N is None else labels_N[positions_B.to(labels_N.device)]
    # Random numbers of its own, so that those that a caller's generator draws next stay what they were.
    alone = replace(context, known_N=known_B, generator=torch.Generator().manual_seed(0))
    try:
        growing, found, _ = read_and_warn(objective, belief[positions_B], alone, method.search.needs | Capability.GAINS)
    except NoView:
        return picks.total
    if found is not reading or not has_gains(growing):
        return picks.total
    for position in range(len(positions_B)):
        if growing.remaining <= TIE:
            break
        growing.add(position)
    return growing.total


def _is_quick(state: State, size: int, others: int, sampled: bool) -> bool:
    """Whether the value of so many points, about targets or for a pool, takes no longer than a quarter of a second, or
    than samples would.
    """
    if has_operations(state):
        return state.operations(size) <= (_ENUMERATED if sampled else _OPERATIONS)
    return size**2 + size * others <= _PAIRS


def _with_few_rows(objective: Objective, belief: Belief, size: int, n_targets: int) -> Objective | None:
    """The objective with as many rows as there is time for; None where those would be too few, or it has none."""
    rows = getattr(objective, "rows", None)
    if rows is None:
        return None
    numbers = size * sum(getattr(belief, name)[0].numel() for name in belief.points)
    possible = int(_NUMBERS / max(1, numbers * (1 + _TARGET * n_targets)))
    if possible < min(rows, _LEAST_ROWS):
        return None
    return replace(objective, rows=min(rows, possible))  # type: ignore[call-arg]
