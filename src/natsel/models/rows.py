"""Inputs as rows of numbers, for models that are no networks.

Inputs are flattened, and the bytes of pictures (two axes or more for each) scaled to [0, 1]; other numbers keep their
value, and so do the bytes of a table.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from natsel.data.frames import FrameRows, by_position
from natsel.data.labels import as_numpy
from natsel.options import Rows
from natsel.rounding import ROUNDING

Array = np.ndarray[Any, Any]


def as_array(values: Any) -> Array:
    """Arrays, lists, tensors on any device or data frames of numbers as an array of NumPy.

    >>> as_array([1, 2])
    array([1, 2])
    """
    return as_numpy(values) if isinstance(values, Tensor) else np.asarray(by_position(values))


def rows_as_given(inputs: Any, dtype: Any = None) -> Array:
    """Rows in a type (None: as they are, pictures in bytes as float32); texts stay as they are.

    >>> rows_as_given(np.array([[[0], [255]]], dtype=np.uint8))
    array([[0., 1.]], dtype=float32)
    """
    array = as_array(inputs)
    if array.dtype.kind in "OUS":
        return array
    if array.dtype == np.uint8 and array.ndim > 2:
        real = np.dtype(dtype or np.float32).type
        array = array.astype(real) / real(255)
    elif dtype is not None:
        array = array.astype(dtype)
    return array.reshape(len(array), int(np.prod(array.shape[1:])))


def rows_of(inputs: Any, columns: int | None = None) -> Array:
    """Rows of finite numbers in float64; `columns` is how many numbers a row must have.

    >>> rows_of(np.array([[0, 255]], dtype=np.uint8)), rows_of(np.array([[[0, 255]]], dtype=np.uint8))
    (array([[  0., 255.]]), array([[0., 1.]]))
    """
    array = as_array(inputs)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"inputs: expected numbers, found {array.dtype}; embed texts and categories first")
    rows_N_D = rows_as_given(array, np.float64)
    if not np.isfinite(rows_N_D).all():
        row, column = np.argwhere(~np.isfinite(rows_N_D))[0]
        table = by_position(inputs)
        where = f", column {table.names[column]!r}" if isinstance(table, FrameRows) else ""
        raise ValueError(f"inputs: found NaN or infinity in row {row}{where}; fill or leave out such values")
    if columns is not None and rows_N_D.shape[1] != columns:
        raise ValueError(
            f"inputs: fitted to rows of {columns} numbers, found {rows_N_D.shape[1]}; pass the same features"
        )
    return rows_N_D


def numbers_of(labels: Any) -> Array:
    """Labels as one vector of finite float64."""
    numbers_N: Array = np.asarray(labels, dtype=np.float64)
    if numbers_N.ndim != 1 or not np.isfinite(numbers_N).all():
        raise ValueError(f"labels: expected one finite number per example, found shape {numbers_N.shape}; check them")
    return numbers_N


def place_and_spread(labels_N: Array) -> tuple[float, float]:
    """The mean of labels and their standard deviation; 1 in its place where they differ by rounding alone.

    >>> place_and_spread(np.array([1e9, 3e9])), place_and_spread(np.full(10, 0.1))[1]
    ((2000000000.0, 1000000000.0), 1.0)
    """
    place, spread = float(labels_N.mean()), float(labels_N.std())
    return place, (spread if spread > ROUNDING * abs(place) else 1.0)


def reads_numbers(model: Any, inputs: Rows, words: Sequence[str] = ("text", "category"), *, gaps: bool = True) -> None:
    """The `check_inputs` of a model without use for texts that are no numbers, in columns of these kinds, or for gaps.

    >>> reads_numbers(None, [[1.0]])
    """
    rows, who = by_position(inputs), type(model).__name__
    if isinstance(rows, FrameRows):
        found = zip(rows.names, rows.columns(), strict=True)
        columns = [(f"column {name!r}", one.kind, one.levels or one.values, one.gaps_N.sum()) for name, one in found]
    else:  # what is read when it is asked for is not gone through
        held = isinstance(rows, np.ndarray) and not isinstance(rows, np.memmap)
        if isinstance(rows, Tensor) and rows.is_floating_point():
            held, rows = True, rows.float()
        table = as_array(rows if held else rows[:1])
        columns = [("one of them", "text", table[:100].ravel() if table.dtype.kind in "OUS" else (), 0)]
        if held and table.dtype.kind == "f" and np.isnan(table.sum()):  # a sum takes no memory
            gaps_D, names = np.isnan(table).sum(0).ravel(), getattr(rows, "names", ())
            columns = [(f"column {name!r}", "", (), gaps_D[n]) for n, name in enumerate(names or range(len(gaps_D)))]
    for where, kind, entries, missing in columns:
        texts = (one for one in entries if kind in words and isinstance(one, str))
        for text in (one for one in texts if not one.strip().lstrip("+-").replace(".", "", 1).isdigit()):
            what = f"{where} holds {text[:40]!r}, and {who} takes numbers"
            raise ValueError(f"inputs: {what}; encode texts, leave them out, or use natsel.models.TextModel()")
        if gaps and missing:
            what = f"{where} has {missing} gaps (NaN) in {len(rows)} rows, and {who} takes none"
            raise ValueError(f"inputs: {what}; fill them in or leave it out")
