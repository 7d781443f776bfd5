"""Junk in the pool: what becomes of points that belong to no class, and how many of them were asked for.

    reject    they are set aside and teach nothing                                    the default
    expose    they are set aside, and the model learns to be unsure there: label 1/C   as outlier exposure does

An oracle says that a point is junk by giving no label for it (None), or by pairs (label, is_ood). Set aside, junk costs
no budget of labels; `Queries` is a budget that it does use.  Spec 06, Q10 and A7.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from natsel.data.examples import Examples
from natsel.data.labels import as_numpy
from natsel.data.pool import Pool
from natsel.models.dropout.dropout import Dropout
from natsel.models.networks.ensemble import Ensemble
from natsel.store import Round, State

Array = np.ndarray[Any, Any]


def checked_junk(junk: Any, model: Any, pool: Pool) -> bool:
    """Whether junk is shown to the model; refused where it cannot learn from labels that are not one class.

    >>> checked_junk("reject", None, Pool([[0.0]]))
    False
    """
    if junk not in ("reject", "expose"):
        raise ValueError(f"junk: expected 'reject' or 'expose', found {junk!r}")
    if junk == "expose" and (pool.regression or not isinstance(model, Dropout | Ensemble)):
        found = "real numbers" if pool.regression else type(model).__name__
        raise ValueError(
            f"junk: 'expose' teaches that no class is likely, found {found}; use natsel.models.Dropout or Ensemble on"
            " classes, or junk='reject'"
        )
    return bool(junk == "expose")


def exposed(labelled: Examples, pool: Pool, state: State) -> Examples:
    """The labelled examples and the points set aside, with soft labels: one class for the ones, all for the others."""
    classes, aside = labelled.n_classes, list(state.skipped)
    soft_B_C = np.eye(classes)[np.asarray(labelled.labels)]
    if not aside:
        return Examples(labelled.inputs, soft_B_C, labelled.classes)
    rows = np.concatenate([as_numpy(labelled.inputs[:]), as_numpy(pool.inputs_of(aside))])
    return Examples(rows, np.concatenate([soft_B_C, np.full((len(aside), classes), 1 / classes)]), labelled.classes)


def without_junk(found: Any, count: int) -> Any:
    """Answers of an oracle as labels, None for junk; `found` may be (labels, is_ood), or pairs of both.

    >>> without_junk(([1, 0], [False, True]), 2), without_junk([(1, False), (0, True)], 2), without_junk([1, 0], 2)
    ([1, None], [1, None], [1, 0])
    """
    if isinstance(found, tuple) and len(found) == 2 and _flags(found[1], count):
        labels, aside = found
        return [None if flag else label for label, flag in zip(list(labels), list(aside), strict=True)]
    if isinstance(found, Sequence) and not isinstance(found, str):
        return [_label(answer) for answer in found]
    return found


def junk_share(rounds: Iterable[Round], junk_ids: Any) -> tuple[list[float], list[float]]:
    """Which part of each batch was junk, and of all batches up to it; empty batches are left out.

    >>> junk_share([], [3])
    ([], [])
    """
    junk = set(as_numpy(junk_ids).tolist())
    asks = sorted((ask for one in rounds for ask in one.asks), key=lambda ask: ask.number)
    counts = [(sum(id in junk for id in ask.ids), len(ask.ids)) for ask in asks if ask.ids]
    each = [found / size for found, size in counts]
    found_B, size_B = np.cumsum(np.array(counts).reshape(-1, 2), axis=0).T
    return each, (found_B / np.maximum(size_B, 1)).tolist()


@dataclass(frozen=True)
class Queries:
    """Stop when so many points were labelled or set aside: a budget that junk uses up as well.

    >>> from natsel.learning.stopping import View
    >>> Queries(3)(View(2, [], None, lambda points: [], n_skipped=1))
    'the budget of 3 queries is used'
    """

    queries: int

    def __post_init__(self) -> None:
        if isinstance(self.queries, bool) or not isinstance(self.queries, int) or self.queries < 0:
            raise ValueError(f"queries: expected a whole number of at least 0, found {self.queries!r}")

    def __call__(self, view: Any) -> str | None:
        used: bool = view.n_labelled + view.n_skipped >= self.queries
        return f"the budget of {self.queries} queries is used" if used else None


def _flags(value: Any, count: int) -> bool:
    """Whether a value is a truth value for each id."""
    try:
        flags = as_numpy(value)
    except ValueError:
        return False
    return bool(flags.dtype.kind == "b" and flags.shape == (count,))


def _label(answer: Any) -> Any:
    pair = isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], bool | np.bool_)
    return (None if answer[1] else answer[0]) if pair else answer
