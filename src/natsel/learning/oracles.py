"""Oracles: where labels come from when a run answers its own questions.

    None        the pool's own answers                     a simulation
    array       one label for each row of the pool         in the order of its inputs, whatever their ids
    column      of pandas                                  by its index, where the pool has ids as well
    mapping     id → label
    callable    ids → labels, one for each id              a person, a service, an experiment

None (or NaN, or −1 among classes) in place of a label means that this point cannot be labelled: it is set aside, and
the run goes on without it. The same holds for the pair (label, True): the point is junk, whatever its label. A callable
may also return (labels, is_ood).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from natsel.data.alignment import aligned, beside, index_of, or_none
from natsel.data.labels import as_numpy
from natsel.data.pool import Pool
from natsel.ids import as_ids

Oracle = Callable[[Any], Any] | Mapping[Any, Any] | Any | None


def answers(oracle: Oracle, pool: Pool, ids: Any) -> list[Any]:
    """A label, or None, for each id.

    >>> pool = Pool([[0.0], [1.0]], ids=[7, 9])
    >>> answers(["a", "b"], pool, [9]), answers({9: 1}, pool, [9]), answers(lambda ids: [None], pool, [9])
    (['b'], [1], [None])
    """
    if oracle is None:
        return list(pool.answers(ids))
    asked = as_ids(ids)
    if isinstance(oracle, Mapping):
        told, _ = aligned(oracle, asked, "oracle", more=True)
        return [_plain(label, pool) for label in none_for_junk(told, len(asked))]
    if callable(oracle):
        labels = [_plain(label, pool) for label in as_numpy(none_for_junk(oracle(asked), len(asked))).reshape(-1)]
        if len(labels) != len(ids):
            raise ValueError(f"oracle: gave {len(labels)} labels for {len(ids)} ids; give one each, None to skip an id")
        return labels
    if index_of(oracle) is not None:
        rows = getattr(pool.inputs, "frame", pool.inputs)
        oracle, _ = beside(oracle, rows, "oracle", or_none(pool.ids), listed=True, what="rows of the pool")
    labels_N = as_numpy(oracle)
    if labels_N.shape != (len(pool),):
        raise ValueError(
            f"oracle: expected one label for each of the pool's {len(pool)} rows, found shape {labels_N.shape}"
        )
    return [_plain(label, pool) for label in labels_N[pool.position_of(ids)]]


def none_for_junk(found: Any, count: int) -> Any:
    """Answers as labels, None for junk; `found` may be labels, (labels, is_ood), or pairs (label, is_ood).

    >>> none_for_junk(([1, 0], [False, True]), 2), none_for_junk([(1, False), (0, True)], 2), none_for_junk([1, 0], 2)
    ([1, None], [1, None], [1, 0])
    """
    if isinstance(found, tuple) and len(found) == 2 and _is_flags(found[1], count):
        labels, is_ood = found
        return [None if flag else label for label, flag in zip(list(labels), list(is_ood), strict=True)]
    if isinstance(found, Sequence) and not isinstance(found, str):
        return [_label_of(answer) for answer in found]
    return found


def _is_flags(value: Any, count: int) -> bool:
    """Whether a value is `count` truth values."""
    try:
        flags = as_numpy(value)
    except ValueError:
        return False
    return bool(flags.dtype.kind == "b" and flags.shape == (count,))


def _label_of(answer: Any) -> Any:
    """The label of an answer: a label, or a pair (label, is_ood)."""
    pair = isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], bool | np.bool_)
    return (None if answer[1] else answer[0]) if pair else answer


def _plain(label: Any, pool: Pool) -> Any:
    """A label as a Python value, None where it is unknown: NaN, and −1 among classes."""
    label = label.item() if hasattr(label, "item") else label
    unknown = label != label if isinstance(label, float) else isinstance(label, int) and label == -1
    return None if unknown and not (pool.regression and label == label) else label
