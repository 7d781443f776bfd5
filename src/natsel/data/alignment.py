"""Labels in the order of what they label: by id wherever both sides have ids, else by position.

    a mapping id → label           by id
    a table of ids and labels      by id; one of its two columns holds the ids
    a column of pandas             by its index, where what it labels has ids as well
    a list, an array, a tensor     by position; so is a column whose index is the 0, 1, … that pandas makes alone

Where the ids are just these numbers, in another order, a data frame aligns such a column, as pandas does everywhere;
beside ids that somebody listed it is ambiguous, and refused. Ids are compared by their keys (`natsel.ids`).
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from natsel.data.frames import is_frame
from natsel.ids import IdArray, Key, as_ids, keys_of

BY_ID, BY_POSITION = "by id", "by position"


def aligned(
    values: Any, ids: Any, name: str = "labels", *, listed: bool = False, part: bool = False, what: str = "inputs"
) -> tuple[Any, str]:
    """Values in the order of some ids, and how they came into it: "by id" or "by position".

    Args:
        values: A mapping, a table, a column of pandas, or anything else that has one value for each.
        ids: The ids of what the values are for, also as an index of pandas; or how many there are, if they have none.
        name: What the caller calls the values, for the errors.
        listed: Whether somebody listed these ids in this order, so that an index that only counts is ambiguous.
        part: Whether a mapping may leave ids out, which then have the value None.
        what: What the ids name, for the errors.

    >>> aligned({"b": 1, "a": 0}, ["a", "b"]), aligned([1, 0], ["a", "b"]), aligned({"b": 1}, ["a", "b"], part=True)
    (([0, 1], 'by id'), ([1, 0], 'by position'), ([None, 1], 'by id'))
    """
    rows, own = values, index_of(values)
    wanted: Any = range(ids) if isinstance(ids, int) else ids if hasattr(ids, "equals") else as_ids(ids)
    if own is not None and hasattr(ids, "equals") and own.equals(ids):
        return values, BY_ID  # also where an entry is there twice
    is_column = own is not None and not isinstance(values, Mapping)
    if isinstance(values, Mapping):
        own, rows = list(values), list(values.values())
    elif is_frame(values) and len(values.columns) > 1:
        own, rows = _columns(values, set(_keys(wanted)), name)
    elif isinstance(ids, int):
        own = None
    elif only_counts(own):
        own = own if set(own) == set(_keys(ids)) else None
        if own is not None and listed and _keys(ids) != list(own):
            raise ValueError(
                f"{name}: its index 0..{len(own) - 1} may name the ids, which come in another order, or only count the"
                f" rows; pass {name}.to_dict() to go by id, or {name}.to_numpy() to go by position"
            )
    if own is None:
        several = hasattr(rows, "__len__") and not isinstance(rows, str) and getattr(rows, "ndim", 1) != 0
        if len(wanted) != (count := len(rows) if several else 1):
            raise ValueError(f"{name}: expected one for each of {len(wanted)} {what}, found {count}")
        return rows, BY_POSITION
    keys, wanted = _keys(own, f"{name}: its index"), _keys(wanted)
    place, known = {key: position for position, key in enumerate(keys)}, set(wanted)
    strangers, lacking = [key for key in keys if key not in known], [key for key in wanted if key not in place]
    if len(place) < len(keys):
        twice = [key for key, count in Counter(keys).items() if count > 1]
        raise ValueError(f"{name}: there is more than one for id {_three(twice)}; keep one for each id")
    if strangers:
        found = f"; they go by {lacking[0]!r} and the like" if lacking else ""
        remedy = f", or pass {name}.to_numpy() to go by position" if is_column and len(keys) == len(wanted) else ""
        raise ValueError(
            f"{name}: id {_three(strangers)} is not among the {what}{found}; name the same ids on both sides{remedy}"
        )
    if lacking and not (part and isinstance(values, Mapping)):
        remedy = ", or a mapping for a part" if part else ""
        raise ValueError(f"{name}: there is none for id {_three(lacking)}; give every id one{remedy}")
    if isinstance(rows, list):
        return [rows[place[key]] if key in place else None for key in wanted], BY_ID
    order = [place[key] for key in wanted]
    return (rows.iloc[order] if hasattr(rows, "iloc") else rows[order]), BY_ID


def index_of(values: Any) -> Any:
    """The index of a table or a column of pandas; None of anything else.

    >>> index_of([1, 2]) is None
    True
    """
    index = getattr(values, "index", None)
    return index if hasattr(index, "is_unique") and not callable(index) else None


def only_counts(index: Any) -> bool:
    """Whether an index is the one that pandas makes by itself, 0, 1, …, which names nothing.

    >>> only_counts(["a.png", "b.png"])
    False
    """
    return type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)


def or_count(ids: IdArray) -> IdArray | int:
    """Ids, or how many there are where they only count the points, which then have none.

    >>> or_count(np.arange(3)), or_count(np.array([2, 0]))
    (3, array([2, 0]))
    """
    return len(ids) if np.array_equal(ids, np.arange(len(ids))) else ids


def _columns(table: Any, wanted: set[Key], name: str) -> tuple[list[Any], Any]:
    """The ids and the values in a table of two columns: the ids come first, unless only the second holds some."""
    if len(table.columns) != 2:
        raise ValueError(f"{name}: expected a column, or a table of ids and {name}, found {len(table.columns)} columns")
    own, rows = (table[column] for column in table.columns)
    if wanted.isdisjoint(own.to_list()) and not wanted.isdisjoint(rows.to_list()):
        own, rows = rows, own
    return own.to_list(), rows


def _three(keys: list[Key]) -> str:
    """The first three ids, and how many there are."""
    return f"{', '.join(map(repr, keys[:3]))}{', …' if len(keys) > 3 else ''} ({len(keys)} in all)"


def _keys(ids: Any, name: str = "ids") -> list[Key]:
    return keys_of(as_ids(list(ids), name))
