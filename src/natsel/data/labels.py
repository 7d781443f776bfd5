"""Labels as natsel keeps them: class numbers 0..C−1 as int64, or real numbers; −1 and NaN stand for "unknown".

People have labels as names, as whole floats (a table with gaps), as pandas columns or tensors: all are read here, once,
so that every other part sees one kind of array.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from natsel.data.written_numbers import written_numbers
from natsel.integers import refuse_beyond

# Floats beyond this one skip whole numbers: what was meant is no longer known.
_EXACT = float(1 << 53)
_PLAIN = re.compile(r"[-+]?\d+(\.\d+)?")

Array = np.ndarray[Any, Any]


def as_numpy(column: Any) -> Array:
    """Anything with entries as an array of NumPy; what is one already is passed through.

    >>> as_numpy([1, 2]).dtype, as_numpy(["one", "two"]).dtype
    (dtype('int64'), dtype('O'))
    """
    if hasattr(column, "detach"):  # a tensor, on any device
        column = column.detach().cpu()
        column = column.float() if str(column.dtype) == "torch.bfloat16" else column  # NumPy has no such type
    if hasattr(column, "to_numpy") and not isinstance(getattr(column, "dtype", np.dtype(float)), np.dtype):
        # A kind of column that pandas or polars has and NumPy has not: whole numbers with gaps.
        is_polars = type(column).__module__.startswith("polars")
        column = np.array(column.to_list(), dtype=object) if is_polars else column.to_numpy(dtype=object)
    if isinstance(column, list | tuple) and any(isinstance(entry, str) for entry in column):
        return np.array(column, dtype=object)  # NumPy would turn the numbers among names into names
    array = np.asarray(column)
    return array.astype(object) if array.dtype.kind in "UT" else array


def class_names_in(labels: Any) -> set[str]:
    """The names among labels; numbers as people write them are refused, as nobody means 1,046 for a name.

    >>> sorted(class_names_in(["dog", None, "cat", ""])), class_names_in([0, 1])
    (['cat', 'dog'], set())
    """
    column = as_numpy(labels)
    entries = column.reshape(-1).tolist() if column.dtype == object else []
    texts = [entry if isinstance(entry, str) and not _missing(entry) else None for entry in entries]
    others = [row for row, entry in enumerate(entries) if not isinstance(entry, str) and not _missing(entry)]
    if others and any(texts):
        found = f"{entries[others[0]]!r} in row {others[0]} beside names; write names or numbers alone, None for a gap"
        raise ValueError(f"labels: found {found}")
    odd = [row for row, text in enumerate(texts) if text and not _PLAIN.fullmatch(text)]
    if odd and written_numbers(texts, "labels", first=0) is not None:
        found = f"{texts[odd[0]]!r} in row {odd[0]}, a number as a text"
        raise ValueError(f"labels: found {found}; pass numbers, or regression=True, or name the classes: classes=(…)")
    return set(filter(None, texts))


def read_labels(
    labels: Any, classes: Sequence[str] = (), name: str = "labels", adding: str = ""
) -> tuple[Array, tuple[str, ...]]:
    """The labels as numbers, and the names of the classes: those given, else those found among the labels, sorted.

    `adding` is the name of what adds a class, for the refusal of a name that is none.

    >>> read_labels(["dog", "cat", None])
    (array([ 1,  0, -1]), ('cat', 'dog'))
    >>> read_labels([2.0, 0.5])
    (array([2. , 0.5]), ())
    """
    classes = tuple(classes)
    column = as_numpy(labels)
    refuse_beyond(column, name, labels)
    if column.dtype.kind == "O":
        column, classes = _read_objects(column, classes, name, adding)
    if column.dtype.kind in "biu":
        column = column.astype(np.int64, copy=False)
    elif column.dtype.kind != "f":
        raise ValueError(f"{name}: expected class numbers, class names or real numbers, found {column.dtype}")
    elif classes and column.ndim <= 1:
        column = whole(column, name)
    if classes and column.dtype.kind == "i" and column.size and not -1 <= column.min() <= column.max() < len(classes):
        wrong = column[(column < -1) | (column >= len(classes))].flat[0]
        raise ValueError(f"{name}: found class {wrong}, but there are {len(classes)} classes, 0..{len(classes) - 1}")
    return column, classes


def read_numbers(labels: Any, name: str = "labels", first: int = 0) -> Array:
    """Labels as real numbers, also where all of them are whole, below zero or texts; None, NaN and "" are unknown.

    >>> read_numbers([-1, None, 2.5, "1 046"])  # `first` is the number of the first row, for messages
    array([-1.000e+00,        nan,  2.500e+00,  1.046e+03])
    """
    column = as_numpy(labels)
    if column.dtype.kind == "O":
        entries = [np.nan if _missing(entry) else entry for entry in column.reshape(-1).tolist()]
        texts = [entry if isinstance(entry, str) else None for entry in entries]
        read = written_numbers(texts, name, first) if any(texts) else None
        for row, entry in enumerate(entries):
            try:
                entries[row] = float(entry if read is None or texts[row] is None else read[row])
            except (TypeError, ValueError, OverflowError):
                found = f"{entry!r} in row {row + first}; correct it, or leave regression out for classes"
                raise ValueError(f"{name}: expected real numbers, found {found}") from None
        column = np.array(entries, dtype=np.float64).reshape(column.shape)
    if column.dtype.kind not in "biuf":
        raise ValueError(f"{name}: expected real numbers, found {column.dtype}; leave regression out for classes")
    column = column.astype(np.float64)
    for row in np.flatnonzero(np.isinf(column))[:1]:
        raise ValueError(f"{name}: found {column.flat[row]} in row {row + first}; check it")
    return column


def unknown(labels: Array) -> Array:
    """Which labels are not known: −1 among classes, NaN among real numbers.

    >>> unknown(np.array([0, -1])).tolist(), unknown(np.array([np.nan, 1.0])).tolist()
    ([False, True], [True, False])
    """
    return np.isnan(labels) if labels.dtype.kind == "f" else labels < 0


def refuse_class_beyond(labels: Array, points: int, name: str, ids: Any = None) -> None:
    """Raise a ValueError where a class has a number that a pool of so many points will hardly need: a slip of the hand,
    after which every model would be made for millions of classes.

    Classes without names are numbered below the number of points, but below 1,000 in smaller pools and below 100,000
    in larger ones.

    >>> refuse_class_beyond(np.array([0, 3_000_000]), 60, "labels", ids=[7, 9])
    Traceback (most recent call last):
    ValueError: labels: found class 3000000 for id 9, and 60 points without names for their classes may have classes
    0..999; check it, or make the pool with classes=(…), or with regression=True if labels are real numbers
    """
    most = max(1_000, min(points, 100_000))
    wrong = (labels < -1) | (labels >= most)
    if labels.dtype.kind == "f" or not wrong.any():
        return
    place = int(wrong.argmax())
    where = f"in row {place}" if ids is None else f"for id {np.atleast_1d(as_numpy(ids))[place]}"
    raise ValueError(
        f"{name}: found class {labels[place]} {where}, and {points} points without names for their classes may have"
        f" classes 0..{most - 1}; check it, or make the pool with classes=(…), or with regression=True if labels are"
        " real numbers"
    )


def is_whole(column: Array) -> bool:
    """Whether all floats are whole, gaps (NaN) aside.

    >>> is_whole(np.array([2.0, np.nan])), is_whole(np.array([2.5]))
    (True, False)
    """
    known = column[~np.isnan(column)]
    return bool(((known == np.floor(known)) & (np.abs(known) <= _EXACT)).all())


def whole(column: Array, name: str) -> Array:
    """Whole floats as int64, NaN as −1.

    >>> whole(np.array([2.0, np.nan]), "labels").tolist()
    [2, -1]
    """
    filled = np.where(np.isnan(column), -1, column)
    wrong_N = (filled != np.floor(filled)) | (np.abs(filled) > _EXACT)
    if wrong_N.any():
        wrong = filled[wrong_N].flat[0]
        raise ValueError(
            f"{name}: expected classes, found {wrong}; pass whole numbers or the names of the classes, or make the pool"
            " with regression=True if labels are real numbers"
        )
    return filled.astype(np.int64)


def _read_objects(column: Array, classes: tuple[str, ...], name: str, adding: str) -> tuple[Array, tuple[str, ...]]:
    """Names to numbers; a column of plain numbers that only came as objects keeps its numbers, None is unknown."""
    entries = [None if _missing(entry) else entry for entry in column.reshape(-1).tolist()]
    names = {entry for entry in entries if isinstance(entry, str)} if classes else class_names_in(column)
    if not names:
        integers = all(entry is None or isinstance(entry, int | np.integer) for entry in entries)
        filled = [(-1 if integers else np.nan) if entry is None else entry for entry in entries]
        try:
            return np.array(filled, dtype=np.int64 if integers else np.float64).reshape(column.shape), classes
        except (TypeError, ValueError):
            raise ValueError(f"{name}: expected one class or one number each, found {column.flat[0]!r}") from None
    classes = classes or tuple(sorted(names))
    number_of = {label: number for number, label in enumerate(classes)}
    if len(number_of) < len(classes):
        raise ValueError("classes: two classes have the same name; give each its own")
    strangers = sorted(names - number_of.keys())
    if strangers:
        close = get_close_matches(strangers[0], classes, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"the classes are {', '.join(classes[:10])}"
        hint += f"; if it is new, call {adding}([{strangers[0]!r}]) first" if adding else ""
        raise ValueError(f"{name}: there is no class {strangers[0]!r}; {hint}")
    numbers = [-1 if entry is None else number_of.get(entry, entry) for entry in entries]
    return whole(np.array(numbers, dtype=np.float64), name).reshape(column.shape), classes


def _missing(entry: Any) -> bool:
    """None, NaN, an empty text, and the marks pandas has for a gap (which have no truth value, but a name)."""
    empty = entry != entry if isinstance(entry, float) else isinstance(entry, str) and not entry.strip()
    return entry is None or empty or type(entry).__name__ in ("NAType", "NaTType")
