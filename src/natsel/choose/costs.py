"""Labels that cost something: gain per cost, and batches within a budget.

    take the point with the largest  gain / cost  among those that still fit,  until none fits

The rule alone has no guarantee: a cheap point with a little more gain per cost may leave no room for the one point that
is worth nearly everything. For monotone submodular objectives the batch is therefore compared with the best single
point; the better of the two is worth at least ½ (1 − 1/e) of the best batch within the budget. Where the single point
wins, the batch begins with it and goes on with what is left of the budget.
docs/search.md, costs; Khuller et al. 1999; Leskovec et al. 2007.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from natsel.beliefs.arrays import ArrayLike, as_tensor
from natsel.capabilities import Capability, Picks, Progress, State, draws_again, has_gains
from natsel.choose.methods import Method
from natsel.data.alignment import aligned, beside, index_of, or_none
from natsel.ids import IdArray, keys_of
from natsel.objectives import Reading
from natsel.rounding import TIE
from natsel.search import SEARCHES
from natsel.search.per_cost import DIVISIBLE, ROUNDING, PerCost, first_that_fit, most_that_fit
from natsel.ties import Order, order_of

Costs = ArrayLike | Mapping[Any, float] | Callable[[IdArray], ArrayLike]
"""One number per point, a mapping from id to cost, or a function that gives one number for each of some ids."""


def as_costs(costs: Costs, ids: IdArray) -> Tensor:
    """What the label of each point costs, float64: from one number per point in the order of `ids`, a mapping from id
    to cost, or a function that gives one number for each of some ids.

    >>> as_costs({"a": 2, "b": 0.5}, ["b", "a"])
    tensor([0.5000, 2.0000], dtype=torch.float64)
    """
    found: Any = costs(ids) if callable(costs) and not hasattr(costs, "__len__") else costs
    if isinstance(found, Mapping):
        found, _ = aligned(found, ids, "costs", more=True)
    elif index_of(found) is not None:
        found = np.array(beside(found, ids, "costs", or_none(ids), listed=True, what="points")[0])
    cost_N = as_tensor(found, "costs").detach().to("cpu", torch.float64, copy=True)
    if cost_N.shape != (len(ids),):
        raise ValueError(f"costs: expected one for each of {len(ids)} points, found shape {tuple(cost_N.shape)}")
    wrong_N = ~(cost_N.isfinite() & (cost_N > 0))
    if wrong_N.any():
        place = int(wrong_N.nonzero()[0])
        (key,) = keys_of(ids[place : place + 1])
        raise ValueError(
            f"costs: found {float(cost_N[place]):g} for id {key!r} ({int(wrong_N.sum())} such in all); costs are finite"
            " numbers above 0"
        )
    return cost_N


def as_budget(budget: object) -> float:
    """What a batch may cost in all.

    >>> as_budget(-1)
    Traceback (most recent call last):
    ValueError: budget: expected a finite number of at least 0, found -1; pass what the labels may cost in all
    """
    if isinstance(budget, bool) or not isinstance(budget, Real) or not 0 <= float(budget) < math.inf:
        raise ValueError(
            f"budget: expected a finite number of at least 0, found {budget!r}; pass what the labels may cost in all"
        )
    return float(budget)


def refuse_indivisible(method: Method, reading: Reading) -> None:
    """Raise a ValueError where gains per cost make no sense for a method."""
    over = method.search.needs & ~DIVISIBLE
    if over:
        able = sorted(
            one.__name__ for one in SEARCHES if not one.needs & ~(DIVISIBLE & reading.offers) and not draws_again(one)
        )
        raise ValueError(
            f"costs: {type(method.search).__name__} goes by {over.words}, which cannot be divided by costs; use"
            f" {', '.join(able)}"
        )
    if draws_again(method.search):
        raise ValueError(
            f"costs: {type(method.search).__name__} may draw a point several times, and its label is paid for once; use"
            " Power or Softmax"
        )
    if method.facts.reads_belief and not reading.facts.nonnegative:
        raise ValueError(
            f"costs: {type(method.objective).__name__} on {reading.belief.__name__} may be negative, and would then"
            " prefer dear points; use an objective that is never negative, such as EIG, or leave costs= out"
        )


def pick_by_cost(
    method: Method,
    state: State,
    read_again: Callable[[], State],
    reading: Reading,
    cost_N: Tensor,
    budget: float | None,
    k: int,
    allowed_N: Tensor,
    generator: torch.Generator,
    progress: Progress | None,
) -> tuple[State, Picks]:
    """The picks of a search that goes by gain per cost, within a budget where there is one, and the state that they
    were added to. Scores are those of the points, not divided by their costs; gaps are per cost. `read_again` makes a
    state to which nothing was added.
    """
    notes: tuple[str, ...] = ()
    if budget is not None:
        cost_M = cost_N[allowed_N]
        allowed_N = allowed_N & (cost_N <= budget * (1 + ROUNDING))
        if k and not allowed_N.any():
            notes = (f"budget: {budget:g} pays for none of {len(cost_M)} points, the cheapest costs {cost_M.min():g}",)
        k = min(k, most_that_fit(cost_N[allowed_N], budget))
    per_cost: State = PerCost(state, cost_N, allowed_N, budget) if method.facts.reads_belief else state
    if budget is None:
        picks = method.search(per_cost, k, allowed_N, generator, progress)
    elif Capability.GAINS in method.search.needs:
        alone_N = state.scores() if reading.facts.monotone and reading.facts.submodular else None
        picks = method.search(per_cost, k, allowed_N, generator, progress)
        best = None if alone_N is None or not k else _best_single(alone_N, allowed_N, picks.total, order_of(state))
        if best is not None:
            state = read_again()
            per_cost = PerCost(state, cost_N, allowed_N, budget)
            picks = _beginning_with(best, method, per_cost, k, allowed_N, generator)
    else:
        picks = _first_in_order(method, per_cost, cost_N, budget, k, allowed_N, generator, progress)
    if isinstance(per_cost, PerCost):
        scores_B = picks.scores * per_cost.relative_N[picks.positions]
        alone = Capability.GAINS not in method.search.needs
        picks = replace(picks, scores=scores_B, total=float(scores_B.sum()) if alone else picks.total)
    if budget is not None and float(cost_N[picks.positions].sum()) > budget * (1 + 2 * ROUNDING):
        raise ValueError(f"search: {type(method.search).__name__} does not keep to a budget; use Greedy or TopK")
    return state, replace(picks, notes=(*picks.notes, *notes))


def _first_in_order(
    method: Method,
    state: State,
    cost_N: Tensor,
    budget: float,
    k: int,
    allowed_N: Tensor,
    generator: torch.Generator,
    progress: Progress | None,
) -> Picks:
    """Of all points in the order in which a search would take them, those that fit. For a search that draws, this is a
    draw of each pick among those that still fit: what has been drawn before says nothing about the order of the others.
    """
    order = method.search(state, int(allowed_N.sum()), allowed_N, generator, progress)
    places = first_that_fit(cost_N[order.positions], budget, k)
    empty = int((order.scores[places] <= 0).sum())
    note = f"{empty} of {len(places)} picks have a score of 0: they were taken because the budget pays for them"
    return Picks(
        positions=order.positions[places],
        scores=order.scores[places],
        total=float(order.scores[places].sum()),
        perturbed=None if order.perturbed is None else order.perturbed[places],
        notes=(note,) if empty else (),
    )


def _best_single(alone_N: Tensor, allowed_N: Tensor, total: float, order: Order) -> int | None:
    """The best point alone, where it is worth more than a batch."""
    alone_N = alone_N.detach().to("cpu", torch.float64).masked_fill(~allowed_N, -torch.inf)
    best = order.first((alone_N >= alone_N.max() - TIE).nonzero().squeeze(1))
    return best if float(alone_N[best]) > total + TIE else None


def _beginning_with(
    first: int, method: Method, state: State, k: int, allowed_N: Tensor, generator: torch.Generator
) -> Picks:
    """A batch that begins with a point and goes on by gain per cost with what is left of the budget."""
    assert has_gains(state)
    gain = state.add(first)
    order_of(state).count(1, drawn=0)
    others_N = allowed_N.clone()
    others_N[first] = False
    rest = method.search(state, k - 1, others_N, generator)
    return Picks(
        positions=torch.cat([torch.tensor([first]), rest.positions]),
        scores=torch.cat([torch.tensor([gain], dtype=torch.float64), rest.scores]),
        total=state.total,
        notes=(
            *rest.notes,
            "budget: one point alone is worth more than the batch by gain per cost, so that the batch begins with it",
        ),
    )
