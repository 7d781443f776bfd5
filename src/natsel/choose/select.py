"""Choose: score the points of a belief, or select a batch of them, by any method of the grid.

Everything that can be refused is refused here, before any work: pairs that make no sense, k beyond the pool, labels out
of range, a seed on another device. Picks come back as the ids of the user's data.
"""

import operator
from dataclasses import fields
from functools import partial

import torch
from torch import Tensor

from natsel.beliefs import Belief, Targets
from natsel.beliefs.arrays import Labels
from natsel.capabilities import Capability, Picks, Progress, State, draws_again, has_gains
from natsel.choose.batch_value import batch_value
from natsel.choose.costs import Costs, as_budget, as_costs, pick_by_cost, refuse_indivisible
from natsel.choose.methods import Method, missing, resolve
from natsel.choose.selection import Selection, exhausted
from natsel.ids import are_among, as_ids
from natsel.objectives import Context, Objective, Reading, read, read_and_warn, routes
from natsel.search import SEARCHES
from natsel.ties import order_of


def score(
    method: str | Method,
    belief: Belief,
    *,
    targets: Belief | Targets[Belief] | None = None,
    given: Belief | Targets[Belief] | None = None,
    labels: Labels | None = None,
    seed: int | torch.Generator = 0,
) -> Tensor:
    """The score of every point under a method's objective: N values in float64, bigger is better.

    >>> from natsel.beliefs import CategoricalSamples
    >>> score("bald", CategoricalSamples.from_probs([[[1.0, 0.0], [0.0, 1.0]]])).round(decimals=4)
    tensor([0.6931], dtype=torch.float64)
    """
    chosen = resolve(method)
    _check_belief(belief)
    context = _context(belief, targets, given, labels, _generator(seed))
    return read(chosen.objective, belief, context).scores().double()


def select(
    method: str | Method,
    belief: Belief,
    k: int | None = None,
    *,
    targets: Belief | Targets[Belief] | None = None,
    given: Belief | Targets[Belief] | None = None,
    labels: Labels | None = None,
    exclude: object = None,
    seed: int | torch.Generator = 0,
    progress: Progress | None = None,
    costs: Costs | None = None,
    budget: float | None = None,
) -> Selection:
    """The k points to take next (10 unless told otherwise), as ids of the user's data, best first.

    `targets` is the belief about the inputs that matter (or `natsel.Targets`, with weights or labels), from the same
    draws; objectives such as EPIG need it. `given` is the belief about points already held, labelled or not yet, whose
    labels count as seen. `exclude` holds ids that must not be picked (ids the belief does not know
    are no error); the same `seed` gives the same selection. `progress` is called with 1 after each pick of a search
    that builds its batch step by step.

    `costs` say what the label of each point costs (one number per point, a mapping from id to cost, or a function of
    ids): points are then chosen by gain per cost. With `budget` all picks together cost no more than that: points that
    no longer fit are left out, k may be left out, and it is the most that is taken where it is given. The method
    `random` has no gain to divide: its picks depend on costs only through the budget.

    >>> from natsel.beliefs import CategoricalSamples
    >>> belief = CategoricalSamples.from_probs([[[0.9, 0.1], [0.9, 0.1]], [[1.0, 0.0], [0.0, 1.0]]])
    >>> select("batchbald", belief, k=1).ids
    array([1])
    """
    chosen = resolve(method)
    _check_belief(belief)
    generator = _generator(seed)
    allowed_N = _allowed(belief, exclude)
    cost_N = None if costs is None else as_costs(costs, belief.ids)
    if budget is not None:
        budget = as_budget(budget)
        if cost_N is None:
            raise ValueError("budget: is counted in costs; pass costs= (--costs), or k in place of a budget")
    count = _checked_k(k, allowed_N, None if budget is None else int(allowed_N.sum()))
    context = _context(belief, targets, given, labels, generator)
    lacking = missing(chosen, type(belief), context.passed)
    if lacking:
        raise ValueError(_refusal(chosen, belief, lacking))
    state, reading, approximations = read_and_warn(chosen.objective, belief, context, chosen.search.needs)
    order_of(state).wanted = count
    if cost_N is None:
        picks = chosen.search(state, count, allowed_N, generator, progress)
    else:
        refuse_indivisible(chosen, reading)
        read_again = partial(_state, chosen, belief, context)
        state, picks = pick_by_cost(
            chosen, state, read_again, reading, cost_N, budget, count, allowed_N, generator, progress
        )
    return Selection(
        ids=belief.ids[picks.positions.cpu().numpy()],
        scores=picks.scores,
        total=batch_value(chosen, belief, context, state, reading, picks),
        warnings=(
            *belief.warnings,
            *approximations,
            *_draw_warnings(reading, belief, picks),
            *state.warnings,
            *_pick_warnings(chosen, state, picks),
            *picks.notes,
        ),
        method=chosen,
        picked=belief[picks.positions],
        log_prob=picks.log_prob,
        perturbed=picks.perturbed,
        gaps=picks.gaps,
        gap_errors=picks.gap_errors,
        weights=picks.weights,
        costs=None if cost_N is None else cost_N[picks.positions],
    )


def _state(method: Method, belief: Belief, context: Context[Belief]) -> State:
    return read_and_warn(method.objective, belief, context, method.search.needs)[0]


def _check_belief(belief: Belief) -> None:
    if not isinstance(belief, Belief):
        raise ValueError(
            f"belief: expected a belief, found {type(belief).__name__}; wrap log probabilities as"
            " natsel.CategoricalSamples(log_probs_N_K_C)"
        )
    if len(belief) == 0:
        raise ValueError("belief: the pool is empty; there is nothing to choose from")


def _generator(seed: int | torch.Generator) -> torch.Generator:
    if isinstance(seed, torch.Generator):
        if seed.device.type != "cpu":
            raise ValueError(f"seed: the generator must live on the CPU, found {seed.device}; pass an integer instead")
        return seed
    try:
        return torch.Generator().manual_seed(operator.index(seed))
    except (TypeError, RuntimeError, OverflowError, ValueError):
        raise ValueError(f"seed: expected an integer below 2**63 or a torch.Generator, found {seed!r}") from None


def _context(
    belief: Belief,
    targets: Belief | Targets[Belief] | None,
    given: Belief | Targets[Belief] | None,
    labels: Labels | None,
    generator: torch.Generator,
) -> Context[Belief]:
    wanted = None if targets is None else Targets.of(targets)
    held = _held(given)
    if labels is None:
        return Context(wanted, None, generator, held)
    labels_N = belief.checked_labels(belief.in_order(labels), "labels")
    if labels_N.shape != (len(belief),):
        raise ValueError(f"labels: expected one for each of {len(belief)} points, found shape {tuple(labels_N.shape)}")
    return Context(wanted, labels_N, generator, held)


def _held(given: Belief | Targets[Belief] | None) -> Targets[Belief] | None:
    if given is not None and not isinstance(given, Belief | Targets):
        raise ValueError(
            f"given: expected the belief about points already held, found {type(given).__name__}; slice a belief, as in"
            " belief[positions]"
        )
    return None if given is None or len(given) == 0 else Targets.of(given)


def _allowed(belief: Belief, exclude: object) -> Tensor:
    if exclude is None:
        return torch.ones(len(belief), dtype=torch.bool)
    out = as_ids(exclude, "exclude")
    if len(out) and belief.ids.dtype != out.dtype and not are_among(out, belief.ids).any():
        kind = "integers" if belief.ids.dtype.kind == "i" else f"names such as {belief.ids[0]!r}"
        raise ValueError(f"exclude: found {out[0]!r}, but the ids of this belief are {kind}; pass ids like these")
    return torch.from_numpy(~are_among(belief.ids, out))


def _checked_k(k: int | None, allowed_N: Tensor, default: int | None) -> int:
    if k is None:
        k = 10 if default is None else default
    try:
        count = None if isinstance(k, bool) else operator.index(k)
    except TypeError:
        count = None
    if count is None:
        raise ValueError(f"k: expected a whole number, found {k!r}; pass how many points to take")
    free = int(allowed_N.sum())
    if not 0 <= count <= free:
        left_out = f" ({len(allowed_N) - free} of {len(allowed_N)} are excluded)" if free < len(allowed_N) else ""
        raise ValueError(f"k: asked for {count} of {free} points{left_out}; choose k between 0 and {free}")
    return count


def _refusal(method: Method, belief: Belief, lacking: Capability) -> str:
    offered = [route.reading.offers for route in routes(type(method.objective), type(belief))]
    able = sorted(
        search.__name__
        for search in SEARCHES
        if any(not search.needs & ~offers for offers in offered) and not draws_again(search)
    )
    return (
        f"search: {type(method.search).__name__} needs {lacking.words}, which {type(method.objective).__name__} on"
        f" {type(belief).__name__} does not offer; use {', '.join(able)}"
    )


def _draw_warnings(reading: Reading, belief: Belief, picks: Picks) -> tuple[str, ...]:
    nothing = len(picks.scores) > 0 and not picks.scores.any()  # as where draws were read as something else
    if belief.n_draws == 1 and (reading.facts.needs_draws or nothing):
        return ("one draw: nothing can be learned about the parameters from a single draw; every gain is 0",)
    return ()


def _pick_warnings(method: Method, state: State, picks: Picks) -> tuple[str, ...]:
    warnings = [*order_of(state).warnings]
    if Capability.GAINS in method.search.needs and has_gains(state):
        warnings += exhausted(picks.total, state.total + state.remaining - picks.total)
    if picks.gaps is not None and picks.gap_errors is not None:
        noisy = ((picks.gap_errors > 0) & (picks.gaps < 2 * picks.gap_errors)).nonzero().squeeze(1) + 1
        if len(noisy):
            named = ", ".join(map(str, noisy[:8].tolist())) + (" …" if len(noisy) > 8 else "")
            warnings.append(
                f"decided by noise: {'picks' if len(noisy) > 1 else 'pick'} {named} led the runner-up by less than two"
                f" standard errors{_with_more_rows(method.objective)}"
            )
    return tuple(warnings)


def _with_more_rows(objective: Objective) -> str:
    """The same objective with four times the rows, written as a user would; nothing where it has none."""
    options = {field.name: getattr(objective, field.name) for field in fields(objective)}
    if "rows" not in options:
        return ""
    more = type(objective)(**options | {"rows": 4 * options["rows"]})
    changed = [field.name for field in fields(more) if getattr(more, field.name) != field.default]
    written = ", ".join(f"{name}={getattr(more, name)!r}" for name in changed)
    return f"; {type(more).__name__}({written}) tells them apart better"
