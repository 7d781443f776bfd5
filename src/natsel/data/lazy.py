"""Inputs that are read when they are asked for: a folder of images, a data set with its own reader.

Indexing reads (`images[[3, 5]]` is an array of two); `part` does not (`images.part([3, 5])` is again lazy). `Examples`
take parts, so that a set larger than memory can be split, sub-sampled and put into a pool; models read what they use.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from natsel.data.labels import Array, as_numpy


class Lazy:
    """`count` inputs, each read by `read(position)`; all must have the same shape.

    `content(position)` gives bytes that an input is made from, such as those of its file, where they cost less than
    reading it: a pool of such inputs is known by all of them. `files` are what messages call inputs that are pictures.

    >>> squares = Lazy(lambda position: np.array([position**2]), 10)
    >>> squares[[2, 3]].tolist(), len(squares.part(slice(4)))
    ([[4], [9]], 4)
    >>> squares.part(slice(4))
    Lazy(4 inputs of shape (1,), read when they are asked for)
    """

    def __init__(
        self,
        read: Callable[[int], Any],
        count: int,
        rows: Array | None = None,
        content: Callable[[int], bytes] | None = None,
        files: Sequence[Any] = (),
    ) -> None:
        self._read, self.content = read, content
        self._files = files
        self._one_shape: list[tuple[int, ...]] = []  # of one input, once it is known; parts share it
        self.rows = np.arange(count) if rows is None else rows

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        """How many inputs there are, and their shape once one was read; nothing is read for this."""
        shape = f" of shape {self._one_shape[0]}" if self._one_shape else ""
        return f"Lazy({len(self)} inputs{shape}, read when they are asked for)"

    @property
    def shape(self) -> tuple[int, ...]:
        """How many inputs there are, and the shape of one; one input is read for this, unless one was before.

        >>> Lazy(lambda position: np.zeros((28, 28)), 1000).shape
        (1000, 28, 28)
        """
        if not self._one_shape and len(self):
            self._one(int(self.rows[0]))
        return (len(self), *(self._one_shape[0] if self._one_shape else ()))

    def __getitem__(self, positions: Any) -> Array:
        """The inputs at some positions, read now; one position gives one input."""
        rows = self.rows[_index(positions)]
        if np.ndim(rows) == 0:
            return self._one(int(rows))
        if len(rows) == 0:  # the shape of nothing is still the shape of one
            return self[:1][:0] if len(self) else np.zeros(0)
        first = self._one(int(rows[0]))
        inputs = np.empty((len(rows), *first.shape), dtype=first.dtype)
        inputs[0] = first
        for place, row in enumerate(rows[1:].tolist(), start=1):
            inputs[place] = self._one(row)
        return inputs

    def __iter__(self) -> Iterator[Array]:
        return (self[position] for position in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Everything, read now: what NumPy asks for."""
        return np.asarray(self[:], dtype=dtype)

    def _one(self, row: int) -> Array:
        """One input, read now."""
        one = as_numpy(self._read(row))
        self._one_shape[:] = self._one_shape or [one.shape]
        if one.shape != self._one_shape[0]:
            name, how = (f"number {row}", "") if not self._files else (self._files[row], ": image_folder(path, size=…)")
            raise ValueError(
                f"inputs: {name} has shape {one.shape}, others {self._one_shape[0]}; bring all to one size{how}"
            )
        return one

    def part(self, positions: Any) -> Self:
        """The inputs at some positions, still unread."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.rows = self.rows[_index(positions)]
        return other


def _index(positions: Any) -> Any:
    if isinstance(positions, slice):
        return positions
    index = as_numpy(positions)
    return index if index.size else index.astype(np.int64)
