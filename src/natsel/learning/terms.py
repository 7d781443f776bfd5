"""The terms of a run: everything that decides its batches, in a form that another process can compare with its own.

    pool                a fingerprint of all that it holds (`natsel.data.contents`)
    method, k, seed     and the objective and the search in full
    model               its class and the arguments it was made with (`natsel.learning.model_text`)
    validation, test    how many examples, and a fingerprint of their inputs and labels
    targets, junk, candidates

A run can be continued on the same terms only. Older journals lack some of these: only those they have are compared.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from natsel import __version__
from natsel.choose import Method
from natsel.data.contents import VERSION, Contents, group_size
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
        "marks": contents.marks(),
    }
    return Terms(contents.fingerprint(), method.name, k, seed, decisive, notes, __version__)


def in_the_form_of(known: Terms, terms: Terms, pool: Pool, targets: TargetInputs | None) -> Terms:
    """Terms as the version of natsel that wrote the known ones would have written them."""
    config = {name: value for name, value in terms.config.items() if name not in _ADDED_LATER or name in known.config}
    before = known.config.get("targets") or {}
    if "targets" in config and targets is not None and not str(before.get("inputs", VERSION)).startswith(VERSION):
        config["targets"] = {**config["targets"], "inputs": Pool(targets.inputs).sampled_fingerprint()}
    name = terms.pool if known.pool.startswith(VERSION) else pool.sampled_fingerprint()
    return replace(terms, pool=name, config=config)


def refuse_other_pool(known: Terms, contents: Contents, place: Any) -> None:
    """Raise a ValueError that says how a pool differs from that of a run, where only some points differ or were added.

    >>> one, other = (Contents(np.array(rows), np.arange(3), ()) for rows in ([4, 5, 6], [4, 9, 6]))
    >>> notes = {"points": 3, "classes": [], "inputs": one.kind, "marks": one.marks()}
    >>> refuse_other_pool(Terms(one.fingerprint(), "bald", 2, 0, notes=notes), other, "run.db")
    Traceback (most recent call last):
    ValueError: pool: 1 of the 3 points that run.db is about holds another input now: id 1; open it with the inputs
    as they were, or choose another file
    """
    points, now = known.notes.get("points", 0), len(contents.ids)
    if contents.fingerprint() == known.pool or not known.pool.startswith(VERSION):
        return
    if now > points and contents.fingerprint(points) == known.pool:
        raise ValueError(
            f"pool: it has grown by {now - points} since the {points} points that {place} is about; open it with those,"
            " or go on in another file and tell it the labels of this one:"
            f" natsel.Journal({str(place)!r}).replay().values"
        )
    alike = (now, list(contents.classes), contents.kind) == tuple(
        known.notes.get(name) for name in ("points", "classes", "inputs")
    )
    groups = contents.differing(known.notes.get("marks", ""), points) if alike else np.zeros(0)
    if not len(groups):
        return  # the notes say it, or else there is no more to say than that it is another
    size = group_size(points)
    first = contents.ids[groups[0] * size : (groups[0] + 1) * size]
    which = f"id {first[0]}" if len(first) == 1 else f"among ids {first[0]} to {first[-1]}"
    many = f"{len(groups)}" if size == 1 else f"at least {len(groups)}"
    held = "holds another input now: " if many == "1" else "hold other inputs now, the first "
    raise ValueError(
        f"pool: {many} of the {points} points that {place} is about {held}{which}; open it with the inputs as they"
        " were, or choose another file"
    )


def _fingerprint(examples: Examples) -> str:
    """How many examples there are, and a digest of their inputs and labels."""
    contents = Contents(examples.inputs, np.arange(len(examples)), examples.classes)
    digest = hashlib.blake2b(contents.fingerprint().encode(), digest_size=8)
    labels = np.asarray(examples.labels)
    digest.update(repr((labels.dtype.str, labels.shape)).encode() + np.ascontiguousarray(labels).tobytes())
    return f"{len(examples)} examples {digest.hexdigest()}"
