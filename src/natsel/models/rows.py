"""Inputs as rows of numbers, for models that are no networks.

Inputs are flattened, and the bytes of pictures scaled to [0, 1]; other numbers keep their value, and so do those of a
data frame, whatever their type.
"""

from typing import Any

import numpy as np
from torch import Tensor

from natsel.data.frames import FrameRows, by_position

Array = np.ndarray[Any, Any]


def as_array(values: Any) -> Array:
    """Arrays, lists, tensors on any device or data frames of numbers as an array of NumPy.

    >>> as_array([1, 2])
    array([1, 2])
    """
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(by_position(values))


def rows_as_given(inputs: Any, dtype: Any = None) -> Array:
    """Rows in a type (None: as they are, bytes as float32); texts stay as they are.

    >>> rows_as_given(np.array([[[0], [255]]], dtype=np.uint8))
    array([[0., 1.]], dtype=float32)
    """
    array = as_array(inputs)
    if array.dtype.kind in "OUS":
        return array
    if array.dtype == np.uint8:
        real = np.dtype(dtype or np.float32).type
        array = array.astype(real) / real(255)
    elif dtype is not None:
        array = array.astype(dtype)
    return array.reshape(len(array), int(np.prod(array.shape[1:])))


def rows_of(inputs: Any, columns: int | None = None) -> Array:
    """Rows of finite numbers in float64; `columns` is how many numbers a row must have.

    >>> rows_of(np.array([[0, 255]], dtype=np.uint8))
    array([[0., 1.]])
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
