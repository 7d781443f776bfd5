"""Ids: the names that users have for their data.

An id is an integer, a text, or anything with a text of its own: a path, a UUID, a timestamp, an entry of an index. What
was given is what comes back. Its *key* is what is written down and compared:

    integer → the integer in 64 bits        anything else → its text, str(id)

so that 7 and "7" are two ids, and a UUID and its text are one.
"""

from collections import Counter
from typing import Any

import numpy as np

from natsel.integers import refuse_beyond

IdArray = np.ndarray[Any, Any]
"""Integers in 64 bits, or objects as the user has them."""
Key = int | str
_GAPS = frozenset({"NAType", "NaTType"})  # the marks that pandas has for a gap, told by their names


def as_ids(ids: Any, name: str = "ids") -> IdArray:
    """Ids as one column: int64 where all are integers, else objects as they were given. One id counts as a list of one.

    >>> as_ids(["a.png", "b.png"]), as_ids(7)
    (array(['a.png', 'b.png'], dtype=object), array([7]))
    """
    column = _column(ids)
    if column.ndim != 1:
        raise ValueError(f"{name}: expected a list of ids, found shape {column.shape}; pass one list of all of them")
    if column.size == 0:
        return np.zeros(0, dtype=np.int64)
    refuse_beyond(column, name, ids)
    if column.dtype.kind in "iu":
        return column.astype(np.int64, copy=False)
    if column.dtype.kind in "fbc":
        raise ValueError(
            f"{name}: expected integers or names, found {column.dtype}; pass the ids themselves, not a mask, and write"
            " numbers with a point as text"
        )
    wrong = [entry for entry in column if not _is_name(entry)]
    if wrong:
        raise ValueError(f"{name}: expected integers or names, found {wrong[0]!r}; give every point an id")
    return column


def keys_of(ids: IdArray) -> list[Key]:
    """What ids are written down as.

    >>> from pathlib import Path
    >>> keys_of(as_ids([Path("a.png"), 7]))
    ['a.png', 7]
    """
    if ids.dtype.kind == "i":
        keys: list[Key] = ids.tolist()
        return keys
    return [id if isinstance(id, str) else int(id) if isinstance(id, int | np.integer) else str(id) for id in ids]


def ids_for(ids: Any, count: int, name: str = "ids") -> IdArray:
    """Ids of `count` points, each given once; 0..count−1 where there are none.

    >>> ids_for(None, 3), ids_for([5, 9], 2)
    (array([0, 1, 2]), array([5, 9]))
    """
    if ids is None:
        return np.arange(count)
    column = as_ids(ids, name)
    if len(column) != count:
        raise ValueError(f"{name}: expected one for each of {count} points, found {len(column)}")
    refuse_repeats(column, name)
    return column.copy()  # checked once, so nobody may change them afterwards


def refuse_repeats(ids: IdArray, name: str = "ids", first: int | None = None) -> None:
    """Raise a ValueError where an id is there twice; it names the rows where the number of the `first` is given.

    >>> refuse_repeats(as_ids(["a", "b", "a"]), first=1)
    Traceback (most recent call last):
    ValueError: ids: 'a' appears twice (rows 1 and 3); give every point an id of its own
    """
    if ids.dtype.kind == "i":
        ranked = np.sort(ids)
        twice = ranked[1:][ranked[1:] == ranked[:-1]].tolist()
    else:
        keys = keys_of(ids)
        twice = [] if len(set(keys)) == len(keys) else [key for key, count in Counter(keys).items() if count > 1]
    if len(twice):
        rows = [] if first is None else [row for row, key in enumerate(keys_of(ids), first) if key == twice[0]]
        where = f" (rows {rows[0]} and {rows[1]})" if rows else ""
        raise ValueError(f"{name}: {twice[0]!r} appears twice{where}; give every point an id of its own")


def are_among(ids: IdArray, others: IdArray) -> IdArray:
    """Which of some ids are among others.

    >>> are_among(as_ids(["a", "b"]), as_ids(["b", 7]))
    array([False,  True])
    """
    if ids.dtype.kind == others.dtype.kind == "i":
        found: IdArray = np.isin(ids, others)
        return found
    known = set(keys_of(others))
    return np.fromiter((key in known for key in keys_of(ids)), dtype=bool, count=len(ids))


def _is_name(entry: Any) -> bool:
    """Whether an entry of a column of objects can be an id: no gap, no truth value, no list."""
    missing = entry is None or (isinstance(entry, float) and entry != entry) or type(entry).__name__ in _GAPS
    return not missing and not isinstance(entry, bool | list | dict | set | np.ndarray)


def _column(ids: Any) -> IdArray:
    """Ids as an array, of objects where they are no numbers, without looking into tuples and texts."""
    if hasattr(ids, "detach"):  # a tensor, on any device
        ids = ids.detach().cpu().numpy()
    if isinstance(ids, np.ndarray):
        array = ids
    elif isinstance(ids, str) or not hasattr(ids, "__iter__"):
        array = np.asarray([ids], dtype=None if isinstance(ids, int | float | np.number) else object)
    else:
        entries = list(ids)
        plain = all(isinstance(entry, int | float | np.number | list) for entry in entries)
        array = np.asarray(entries) if plain else _objects(entries)
    array = np.atleast_1d(array)
    if array.dtype.kind in "UST":
        return _objects([entry.decode() if isinstance(entry, bytes) else str(entry) for entry in array.tolist()])
    if array.dtype.kind in "mMV":
        return _objects(list(array))
    if array.dtype.kind == "O" and array.ndim == 1:
        whole = all(isinstance(entry, int | np.integer) and not isinstance(entry, bool) for entry in array)
        return np.asarray(array.tolist()) if whole and array.size else array
    return array


def _objects(entries: list[Any]) -> IdArray:
    column = np.empty(len(entries), dtype=object)
    column[:] = entries
    return column
