"""Labels in the order of what they label: by id wherever both sides have ids, else by position.

    a mapping id → label, a table of ids and labels    by id
    a column of pandas                                 by its index, where what it labels has ids as well
    a list, an array, a tensor                         by position

An index 0, 1, … as pandas makes it names nothing, unless the ids are these numbers too: a data frame then goes by the
index, as everywhere in pandas, and ids that were listed in another order are refused. Ids are compared by their keys.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from natsel.data.frames import is_frame
from natsel.ids import IdArray, Key, as_ids, keys_of

BY_ID, BY_POSITION = "by id", "by position"


def aligned(
    values: Any,
    ids: Any,
    name: str = "labels",
    *,
    what: str = "inputs",
    listed: bool = False,
    part: bool = False,
    more: bool = False,
) -> tuple[Any, str]:
    """Values in the order of some ids, and how they came into it: "by id" or "by position".

    `ids` are also an index of pandas, or the number of points that have none; `listed`: somebody listed them in this
    order. `part`: a mapping may leave some out, which have the value None; `more`: it may have more than these. `name`
    and `what` are for the errors.

    >>> aligned({"b": 1, "a": 0}, ["a", "b"]), aligned([1, 0], ["a", "b"]), aligned({"b": 1}, ["a", "b"], part=True)
    (([0, 1], 'by id'), ([1, 0], 'by position'), ([None, 1], 'by id'))
    """
    if is_frame(values) and len(values.columns) == 1:
        values = values[values.columns[0]]
    own, rows = index_of(values), values
    if own is not None and hasattr(ids, "equals") and own.equals(ids):
        return values, BY_ID  # also where an entry is there twice
    is_mapping, is_column, is_table = isinstance(values, Mapping), own is not None, is_frame(values)
    plain = not is_mapping and not is_table and (own is None or isinstance(ids, int))
    wanted = [] if plain else list(range(ids)) if isinstance(ids, int) else _keys(ids)
    if is_mapping:
        own, rows = list(values), list(values.values())
    elif is_table:
        if len(values.columns) != 2:
            raise ValueError(f"{name}: expected one column, or two, of ids and {name}, found {len(values.columns)}")
        own, rows = (values[column] for column in values.columns)
        if set(wanted).isdisjoint(own.to_list()) and not set(wanted).isdisjoint(rows.to_list()):
            own, rows = rows, own
    elif plain or (only_counts(own) and set(own) != set(wanted)):
        own = None
    elif only_counts(own) and listed and list(own) != wanted:
        raise ValueError(
            f"{name}: its index 0..{len(own) - 1} may name the ids, which come in another order, or count the rows;"
            f" pass {name}.to_dict() to go by id, or {name}.to_numpy() to go by position"
        )
    if own is None:
        alone = not hasattr(rows, "__len__") or isinstance(rows, str) or getattr(rows, "ndim", 1) == 0
        count, found = ids if isinstance(ids, int) else len(ids), 1 if alone else len(rows)
        if found != count:
            raise ValueError(f"{name}: expected one for each of {count} {what}, found {found}")
        return rows, BY_POSITION
    keys = _keys(own, f"{name}: its index")
    place, known = dict(zip(keys, range(len(keys)), strict=True)), set(wanted)
    twice = [key for key, count in Counter(keys).items() if count > 1]
    strangers, lacking = ([key for key in of if key not in there] for of, there in ((keys, known), (wanted, place)))
    theirs = f", which go by {lacking[0]!r} and the like" if lacking else ""
    remedy = f", or pass {name}.to_numpy() to go by position" if is_column and len(keys) == len(wanted) else ""
    some = ", or a mapping of some" if part else ""
    for wrong, sentence in (
        (twice, "is there more than once; keep one for each id"),
        ([] if more else strangers, f"is not among the {what}{theirs}; name the same ids{remedy}"),
        ([] if part and is_mapping else lacking, f"has none; give every id one{some}"),
    ):
        if wrong:
            first = f"{', '.join(map(repr, wrong[:3]))}{', …' if len(wrong) > 3 else ''}"
            raise ValueError(f"{name}: id {first} ({len(wrong)} in all) {sentence}")
    if is_mapping:
        return [rows[place[key]] if key in place else None for key in wanted], BY_ID
    order = [place[key] for key in wanted]
    return (rows.iloc[order] if hasattr(rows, "iloc") else rows[order]), BY_ID


def beside(values: Any, inputs: Any, name: str, ids: Any = None, **options: Any) -> tuple[Any, str]:
    """Values in the order of inputs (`aligned`): by the index of a data frame, unless its rows have other ids and the
    values are not named as the rows are.

    >>> beside({1: "b", 0: "a"}, np.zeros((2, 1)), "labels")
    (['a', 'b'], 'by id')
    """
    own, rows = index_of(values), index_of(inputs)
    if rows is not None and (ids is None or (own is not None and len(own) == len(rows) and own.isin(rows).all())):
        return aligned(values, rows, name, **{**options, "listed": False})
    return aligned(values, len(inputs) if ids is None else ids, name, **options)


def index_of(values: Any) -> Any:
    """The index of a table or a column of pandas; None of anything else."""
    index = getattr(values, "index", None)
    return index if hasattr(index, "is_unique") and not callable(index) else None


def only_counts(index: Any) -> bool:
    """Whether an index is the one that pandas makes by itself, 0, 1, …, which names nothing."""
    return type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)


def or_none(ids: IdArray) -> IdArray | None:
    """Ids; None where they only count the points, which then have none."""
    return None if np.array_equal(ids, np.arange(len(ids))) else ids


def _keys(ids: Any, name: str = "ids") -> list[Key]:
    return keys_of(as_ids(list(ids) if hasattr(ids, "equals") else ids, name))
