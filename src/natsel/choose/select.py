"""Choose: score the points of a belief, or select a batch of them, by any method of the grid.

Everything that can be refused is refused here, before any work: pairs that make no sense, k beyond the pool, labels out
of range, a seed on another device. Picks come back as the ids of the user's data.
"""

import operator
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from natsel.beliefs import Belief, CategoricalSamples, Targets
from natsel.beliefs.arrays import as_integers, as_tensor
from natsel.capabilities import Capability, Picks
from natsel.choose.methods import METHODS, Method, missing, resolve
from natsel.choose.selection import Selection, exhausted
from natsel.information.class_labels import class_labels
from natsel.objectives import Reading, read


def score(
    method: str | Method,
    belief: Belief,
    *,
    targets: Belief | Targets | None = None,
    given: Belief | Targets | None = None,
    labels: Any = None,
    seed: int | torch.Generator = 0,
) -> Tensor:
    """The score of every point under a method's objective: N values in float64, bigger is better.

    >>> from natsel.beliefs import CategoricalSamples
    >>> score("bald", CategoricalSamples.from_probs([[[1.0, 0.0], [0.0, 1.0]]])).round(decimals=4)
    tensor([0.6931], dtype=torch.float64)
    """
    chosen = resolve(method)
    _check_belief(belief)
    reading = _reading(belief, targets, given, labels, _generator(seed))
    scores_N: Tensor = read(chosen.objective, belief, reading).scores()
    return scores_N.double()


def select(
    method: str | Method,
    belief: Belief,
    k: int = 10,
    *,
    targets: Belief | Targets | None = None,
    given: Belief | Targets | None = None,
    labels: Any = None,
    exclude: Any = None,
    seed: int | torch.Generator = 0,
    progress: Callable[[int], None] | None = None,
) -> Selection:
    """The k points to take next, as ids of the user's data, best first.

    `targets` is the belief about the inputs that matter (or `natsel.Targets`, with weights or labels), from the same
    draws; objectives such as EPIG need it. `given` is the belief about points already held, on which objectives such as
    LogDet condition. `exclude` holds ids that must not be picked (ids the belief does not know
    are no error); the same `seed` gives the same selection. `progress` is called with 1 after each pick of a search
    that builds its batch step by step.

    >>> from natsel.beliefs import CategoricalSamples
    >>> belief = CategoricalSamples.from_probs([[[0.9, 0.1], [0.9, 0.1]], [[1.0, 0.0], [0.0, 1.0]]])
    >>> select("batchbald", belief, k=1).indices
    array([1])
    """
    chosen = resolve(method)
    _check_belief(belief)
    lacking = missing(chosen, type(belief))
    generator = _generator(seed)
    allowed_N = _allowed(belief, exclude)
    k = _checked_k(k, allowed_N)
    reading = _reading(belief, targets, given, labels, generator)
    state = read(chosen.objective, belief, reading)
    if lacking:
        raise ValueError(_refusal(chosen, belief, lacking))
    if progress is not None and Capability.GAINS in chosen.search.needs:
        _watch(state, progress, k)
    picks = chosen.search(state, k, allowed_N, generator)
    return Selection(
        indices=belief.ids_N[picks.positions.to(belief.device)].cpu().numpy(),
        scores=picks.scores,
        total=picks.total,
        warnings=(
            *_belief_warnings(chosen, belief),
            *getattr(state, "warnings", ()),
            *_pick_warnings(chosen, state, picks),
            *picks.notes,
        ),
        method=chosen,
        picked=belief[picks.positions],
        log_prob=picks.log_prob,
        perturbed=picks.perturbed,
        gaps=picks.gaps,
        gap_errors=picks.gap_errors,
    )


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


def _reading(
    belief: Belief,
    targets: Belief | Targets | None,
    given: Belief | Targets | None,
    labels: Any,
    generator: torch.Generator,
) -> Reading:
    wanted = None if targets is None else Targets.of(targets)
    held = _held(given)
    if labels is None:
        return Reading(wanted, None, generator, held)
    if isinstance(belief, CategoricalSamples):
        labels_N = class_labels(as_integers(labels, "labels").to(belief.device), len(belief), belief.shape[2])
    else:
        labels_N = as_tensor(labels, "labels").to(belief.device)
    if labels_N.shape != (len(belief),):
        raise ValueError(f"labels: expected one for each of {len(belief)} points, found shape {tuple(labels_N.shape)}")
    return Reading(wanted, labels_N, generator, held)


def _held(given: Belief | Targets | None) -> Targets | None:
    if given is not None and not isinstance(given, Belief | Targets):
        raise ValueError(
            f"given: expected the belief about points already held, found {type(given).__name__}; slice a belief, as in"
            " belief[positions]"
        )
    return None if given is None or len(given) == 0 else Targets.of(given)


def _allowed(belief: Belief, exclude: Any) -> Tensor:
    ids_N = belief.ids_N.cpu()
    if exclude is None:
        return torch.ones(len(ids_N), dtype=torch.bool)
    if isinstance(exclude, Iterable) and not isinstance(exclude, Tensor | np.ndarray | str):
        exclude = list(exclude)
    out = as_integers(exclude, "exclude").cpu().numpy()
    if out.ndim > 1:
        raise ValueError(f"exclude: expected a list of ids, found shape {out.shape}; pass one list of all of them")
    return torch.from_numpy(~np.isin(ids_N.numpy(), out))


def _checked_k(k: int, allowed_N: Tensor) -> int:
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
    able = sorted(
        {
            type(m.search).__name__
            for m in METHODS.values()
            if not missing(Method(method.objective, m.search), type(belief))
        }
    )
    wants = " and ".join(flag.name.lower() for flag in lacking if flag.name)
    return (
        f"search: {type(method.search).__name__} needs {wants}, which {type(method.objective).__name__} on"
        f" {type(belief).__name__} does not offer; use {', '.join(able)}"
    )


def _watch(state: Any, progress: Callable[[int], None], k: int) -> None:
    """Report every point a state takes, up to k: a search may take more and drop some again."""
    add, left = state.add, k

    def counted(position: int) -> float:
        nonlocal left
        gain: float = add(position)
        if left > 0:
            left -= 1
            progress(1)
        return gain

    state.add = counted


def _belief_warnings(method: Method, belief: Belief) -> tuple[str, ...]:
    draws, known = getattr(belief, "log_weights_K", None), tuple(getattr(belief, "warnings", ()))
    if draws is not None and draws.shape[0] == 1 and method.facts.needs_draws:
        return (*known, "one draw: nothing can be learned about the parameters from a single draw; every gain is 0")
    return known


def _pick_warnings(method: Method, state: Any, picks: Picks) -> tuple[str, ...]:
    warnings: list[str] = []
    if Capability.GAINS in method.search.needs:
        warnings += exhausted(picks.total, state.total + state.remaining - picks.total)
    if picks.gaps is not None and picks.gap_errors is not None:
        noisy = ((picks.gap_errors > 0) & (picks.gaps < 2 * picks.gap_errors)).nonzero().squeeze(1) + 1
        if len(noisy):
            named = ", ".join(map(str, noisy[:8].tolist())) + (" …" if len(noisy) > 8 else "")
            warnings.append(
                f"decided by noise: {'picks' if len(noisy) > 1 else 'pick'} {named} led the runner-up by less than two"
                f" standard errors; {_with_more_rows(method.objective)} tells them apart better"
            )
    return tuple(warnings)


def _with_more_rows(objective: Any) -> str:
    """The same objective with four times the rows, written as a user would."""
    more = replace(objective, rows=4 * objective.rows)
    changed = [field.name for field in fields(more) if getattr(more, field.name) != field.default]
    return f"{type(more).__name__}({', '.join(f'{name}={getattr(more, name)!r}' for name in changed)})"
