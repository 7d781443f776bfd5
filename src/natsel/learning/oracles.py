"""Oracles: where labels come from when a run answers its own questions.

    None        the pool's own answers                     a simulation
    array       one label for each row of the pool         in the order of its inputs, whatever their ids
    mapping     id → label
    callable    ids → labels, one each                     a person, a service, an experiment

None (or NaN, or −1 among classes) in place of a label means that this datum cannot be labelled: it is skipped, and the
run goes on without it. So does (label, True): it is junk, whatever its label; a callable may give (labels, is_ood) too.
"""

from collections.abc import Callable, Mapping
from typing import Any

from natsel.data.labels import as_numpy
from natsel.data.pool import Pool
from natsel.learning.junk import without_junk

Oracle = Callable[[Any], Any] | Mapping[int, Any] | Any | None


def answers(oracle: Oracle, pool: Pool, ids: list[int]) -> list[Any]:
    """A label, or None, for each id.

    >>> pool = Pool([[0.0], [1.0]], ids=[7, 9])
    >>> answers(["a", "b"], pool, [9]), answers({9: 1}, pool, [9]), answers(lambda ids: [None], pool, [9])
    (['b'], [1], [None])
    """
    if oracle is None:
        return list(pool.answers(ids))
    if isinstance(oracle, Mapping):
        missing = [id for id in ids if id not in oracle]
        if missing:
            raise ValueError(f"oracle: has no label for id {missing[0]}; map it to None to skip it")
        return [_plain(label, pool) for label in without_junk([oracle[id] for id in ids], len(ids))]
    if callable(oracle):
        labels = [_plain(label, pool) for label in as_numpy(without_junk(oracle(as_numpy(ids)), len(ids))).reshape(-1)]
        if len(labels) != len(ids):
            raise ValueError(f"oracle: gave {len(labels)} labels for {len(ids)} ids; give one each, None to skip an id")
        return labels
    labels_N = as_numpy(oracle)
    if labels_N.shape != (len(pool),):
        raise ValueError(
            f"oracle: expected one label for each of the pool's {len(pool)} rows, found shape {labels_N.shape}"
        )
    return [_plain(label, pool) for label in labels_N[pool.position_of(ids)]]


def _plain(label: Any, pool: Pool) -> Any:
    """A label as a Python value, None where it is unknown: NaN, and −1 among classes."""
    label = label.item() if hasattr(label, "item") else label
    unknown = label != label if isinstance(label, float) else isinstance(label, int) and label == -1
    return None if unknown and not (pool.regression and label == label) else label
