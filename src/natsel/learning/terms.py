"""The terms of a run: everything that decides its batches, in a form that another process can compare with its own.

    pool                a fingerprint of all that it held when the run began (`natsel.data.contents`)
    method, k, seed     and the objective and the search in full
    model               its class and the arguments it was made with (`natsel.learning.model_text`)
    validation, test    how many examples, and a fingerprint of their inputs and labels
    targets, junk, candidates

A run can be continued with the same model and seed only; other terms may change between rounds, and the journal
records the change. Older journals lack some of these: only those they have are compared.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from natsel import __version__
from natsel.choose import Method
from natsel.data.contents import VERSION, Contents
from natsel.data.examples import Examples
from natsel.data.pool import Pool
from natsel.learning.model_text import text_of
from natsel.learning.target_sources import TargetInputs
from natsel.models.protocol import Model
from natsel.store import Terms

# Journals of older versions do not have these.
_ADDED_LATER = ("model", "validation", "test")


def terms_of(
    method: Method,
    contents: Contents,
    k: int,
    seed: int,
    model: Model,
    examples: Mapping[str, Examples | None],
    config: Mapping[str, Any],
    went: Mapping[str, str],
) -> Terms:
    """The terms of a run: what decides its batches, and notes for people and for refusals. `examples` are those for
    validation and test.
    """
    decisive = {
        "objective": repr(method.objective),
        "search": repr(method.search),
        "model": text_of(model),
        **{name: None if some is None else _fingerprint(some) for name, some in examples.items()},
        **config,
    }
    notes = {
        "model": type(model).__name__,
        "points": len(contents.ids),
        "classes": list(contents.classes),
        "inputs": contents.kind,
        **went,
    }
    return Terms(contents.fingerprint(), method.name, k, seed, decisive, notes, __version__)


def in_the_form_of(known: Terms, terms: Terms, targets: TargetInputs | None) -> Terms:
    """Terms as the version of natsel that wrote the known ones would have written them."""
    config = {name: value for name, value in terms.config.items() if name not in _ADDED_LATER or name in known.config}
    before = known.config.get("targets") or {}
    if "targets" in config and targets is not None and not str(before.get("inputs", VERSION)).startswith(VERSION):
        config["targets"] = {**config["targets"], "inputs": Pool(targets.inputs).sampled_fingerprint()}
    return replace(terms, config=config)


def refuse_other_pool(known: Terms, terms: Terms, contents: Contents, pool: Pool, place: Any) -> None:
    """Raise a ValueError where a pool does not begin with the points of a run from before the ids of points were kept.

    >>> pool, other = Pool(np.array([4, 5, 6])), Pool(np.array([4, 9, 6]))
    >>> known = Terms(pool.fingerprint(), "bald", 2, 0, notes={"points": 3})
    >>> refuse_other_pool(known, known, other.contents(), other, "run.db")
    Traceback (most recent call last):
    ValueError: store: run.db holds a run of other inputs or ids; open it as it was or choose another file
    """
    if known.pool.startswith(VERSION):
        points, classes = known.notes.get("points", len(pool)), tuple(known.notes.get("classes", contents.classes))
        same = points <= len(pool) and contents.fingerprint(points, classes) == known.pool
    else:
        same = pool.sampled_fingerprint() == known.pool
    if not same:
        raise ValueError(
            f"store: {place} holds a run of {known.other_data(terms)}; open it as it was or choose another file"
        )


def _fingerprint(examples: Examples) -> str:
    """How many examples there are, and a digest of their inputs and labels."""
    contents = Contents(examples.inputs, np.arange(len(examples)), examples.classes)
    digest = hashlib.blake2b(contents.fingerprint().encode(), digest_size=8)
    labels = np.asarray(examples.labels)
    digest.update(repr((labels.dtype.str, labels.shape)).encode() + np.ascontiguousarray(labels).tobytes())
    return f"{len(examples)} examples {digest.hexdigest()}"
