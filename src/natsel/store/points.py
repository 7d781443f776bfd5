"""The points that a run is about: their ids in the order in which they joined, and a mark of the input of each.

    marks     4 bytes of the digest of each input (`natsel.data.contents`), or none where inputs are not gone through

A pool may grow: points with new ids join. A point stays what it was: another input under an id that is known is
refused, and so is a pool that lacks points. The order in which points joined is the order in which the run looks at
them, however the pool of a later day is sorted, so that the next batch follows from the journal alone.
"""

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from natsel.ids import Key

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Points:
    """Ids as they are written down, and marks: 4 bytes for each id, or nothing."""

    keys: Sequence[Key]
    marks: bytes = b""

    def __len__(self) -> int:
        return len(self.keys)

    def mark_of(self) -> dict[Key, bytes]:
        """The mark of each id; empty where there are none."""
        marks = [self.marks[place : place + 4] for place in range(0, len(self.marks), 4)]
        return dict(zip(self.keys, marks, strict=True)) if marks else {}


def joining(known: Points, now: Points, place: Any) -> Points:
    """The points of a pool that a run does not know yet; a ValueError where known ones are missing or another.

    >>> joining(Points(["a", "b"], b"11112222"), Points(["c", "a", "b"], b"333311112222"), "run.db")
    Points(keys=['c'], marks=b'3333')
    >>> joining(Points(["a", "b"], b"11112222"), Points(["a", "b"], b"11119999"), "run.db")
    Traceback (most recent call last):
    ValueError: pool: 1 of the 2 points that run.db is about holds another input now: 'b'; open it with the inputs as
    they were, or give new inputs new ids
    """
    ours = set(now.keys)
    missing = [key for key in known.keys if key not in ours]
    if missing:
        raise ValueError(
            f"pool: it lacks {len(missing)} of the {len(known)} points that {place} is about, the first {missing[0]!r};"
            " open it with all of them, or choose another file"
        )
    then, marks = known.mark_of(), now.mark_of()
    moved = [key for key, mark in then.items() if marks and marks[key] != mark]
    if moved:
        held = "holds another input now:" if len(moved) == 1 else "hold other inputs now, the first"
        raise ValueError(
            f"pool: {len(moved)} of the {len(known)} points that {place} is about {held} {moved[0]!r}; open it with the"
            " inputs as they were, or give new inputs new ids"
        )
    theirs = set(known.keys)
    new = [key for key in now.keys if key not in theirs]
    return Points(new, b"".join(marks[key] for key in new) if marks else b"")


def packed(keys: Sequence[Key], after: int) -> bytes:
    """Ids as bytes: nothing where they count on from `after`, else integers or texts, compressed."""
    if list(keys) == list(range(after, after + len(keys))):
        return b""
    whole = all(isinstance(key, int) for key in keys)
    content = np.array(keys, dtype="<i8").tobytes() if whole else json.dumps(list(keys)).encode()
    return (b"i" if whole else b"t") + zlib.compress(content, 1)


def unpacked(content: bytes, count: int, after: int) -> list[Key]:
    """What `packed` packed.

    >>> unpacked(packed(["a", 7], 0), 2, 0), unpacked(packed([5, 6], 5), 2, 5)
    (['a', 7], [5, 6])
    """
    if not content:
        return list(range(after, after + count))
    plain = zlib.decompress(content[1:])
    keys: list[Key] = np.frombuffer(plain, dtype="<i8").tolist() if content[:1] == b"i" else json.loads(plain)
    return keys
