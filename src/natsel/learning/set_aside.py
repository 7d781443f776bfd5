"""Points that were set aside because they belong to no class (junk): what they teach, and how many were asked for.

    junk="reject"    they teach nothing                                                     the default
    junk="expose"    the model learns to be unsure there: each of the C classes has label 1/C    outlier exposure

An oracle says that a point is junk by giving no label for it (None), or by pairs (label, is_ood). A point that is set
aside uses no budget of labels; `natsel.learning.Queries` is a budget that it does use.
docs/theory/epig-jepig.md, 12.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from natsel.data.examples import Examples
from natsel.data.frames import joined
from natsel.data.labels import as_numpy
from natsel.data.pool import Pool
from natsel.models.dropout.dropout import Dropout
from natsel.models.networks.ensemble import Ensemble
from natsel.options import Rows
from natsel.store import Round, RunState


def teaches_junk(junk: Any, model: Any, pool: Pool) -> bool:
    """Whether the model learns from points that were set aside; refused where it cannot learn labels of 1/C.

    >>> teaches_junk("reject", None, Pool([[0.0]]))
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


def with_set_aside(labelled: Examples, pool: Pool, state: RunState) -> Examples:
    """The labelled examples and the points that were set aside, with soft labels: 1 for the class of a labelled point,
    1/C for every class of a point that was set aside.
    """
    classes, aside = labelled.n_classes, list(state.skipped)
    soft_B_C = np.eye(classes)[np.asarray(labelled.labels)]
    if not aside:
        return Examples(labelled.inputs, soft_B_C, labelled.classes)
    rows = joined(labelled.inputs, pool.inputs_of(aside))
    return Examples(rows, np.concatenate([soft_B_C, np.full((len(aside), classes), 1 / classes)]), labelled.classes)


def junk_share(rounds: Iterable[Round], junk_ids: Rows) -> tuple[list[float], list[float]]:
    """The share of junk in each batch, and in all batches up to it; empty batches are left out.

    >>> junk_share([], [3])
    ([], [])
    """
    junk = set(as_numpy(junk_ids).tolist())
    asks = sorted((ask for one in rounds for ask in one.asks), key=lambda ask: ask.number)
    counts = [(sum(id in junk for id in ask.ids), len(ask.ids)) for ask in asks if ask.ids]
    each = [found / size for found, size in counts]
    found_B, size_B = np.cumsum(np.array(counts).reshape(-1, 2), axis=0).T
    return each, (found_B / np.maximum(size_B, 1)).tolist()
