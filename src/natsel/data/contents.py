"""What inputs hold: a digest for each row, and one for all of them.

    row      8 bytes of blake2b over the bytes of the row
    all      blake2b over how many rows there are, what kind they are, and the digests of all rows in order
    marks    4 bytes of each row's digest: they tell which rows of another pool differ

Arrays, tensors and memory maps are gone through whole, in chunks, and so are texts and data frames, of which a row is
the bytes of its values, the same for every library and version; images of a folder are told by the bytes of their
files, which need not be decoded for that. Where a row has to be read by somebody else's code (a torch data set),
reading all of them may take as long as training: such inputs are known by their number and 64 rows, and a label by the
row it was told for.  docs/decisions/0014
"""

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from natsel.data.frames import Column, FrameRows, by_position
from natsel.data.labels import Array, as_numpy
from natsel.data.lazy import Lazy
from natsel.ids import IdArray, keys_of
from natsel.memory import rows_per_chunk

_VERSION = "2:"  # how fingerprints begin
_SAMPLE = 64
# Texts, file names and objects have no size of their own to plan chunks by.
_OBJECTS = 4096


def digests_of(inputs: Any, positions: Array | None = None) -> Array:
    """A digest of each row as int64; `positions` picks some rows.

    >>> first, second, third = digests_of(np.array([[1.0], [2.0], [1.0]]))
    >>> bool(first == third), bool(first == second)
    (True, False)
    """
    inputs = _held(inputs)
    count = len(inputs) if positions is None else len(positions)
    if isinstance(inputs, Lazy) and (content := inputs.content) is not None:
        rows = inputs.rows if positions is None else inputs.rows[positions]
        files = 64  # enough for a thread to be worth starting
        return _in_parts(lambda part: b"".join(_digest(content(row)) for row in rows[part].tolist()), count, files)
    if isinstance(inputs, FrameRows):
        rows_of = inputs if positions is None else inputs[positions]
        size = rows_per_chunk(16 * max(1, len(inputs.names)), torch.device("cpu"))
        return _in_parts(lambda part: _rows(encoded_rows(rows_of[part])), count, size, threads=False)
    one = _taken(inputs, slice(0, 1))
    size = _OBJECTS if isinstance(one, list) or len(one) == 0 else rows_per_chunk(one.nbytes, torch.device("cpu"))
    threads = not is_sampled(inputs)  # somebody else's reader may not know threads
    where: Callable[[slice], Any] = (lambda part: part) if positions is None else (lambda part: positions[part])
    return _in_parts(lambda part: _rows(_taken(inputs, where(part))), count, size, threads)


def fingerprint_of(inputs: Any) -> str:
    """A short name for all that inputs hold; each row is looked at, and read where it must be.

    >>> fingerprint_of(np.zeros((3, 2))) == fingerprint_of(np.ones((3, 2)))
    False
    """
    digest = hashlib.blake2b(repr((len(inputs), kind_of(inputs))).encode(), digest_size=16)
    digest.update(digests_of(inputs).tobytes())
    return digest.hexdigest()


def kind_of(inputs: Any) -> str:
    """What a row is: its shape and type, "text" for texts and other objects, the columns of a data frame.

    >>> kind_of(np.zeros((5, 2), dtype=np.float32)), kind_of(np.array(["a"], dtype=object))
    ('<f4 (2,)', 'text')
    """
    inputs = _held(inputs)
    if isinstance(inputs, FrameRows):
        return f"frame {[(str(name), kind) for name, kind in inputs.kinds.items()]}"
    rows = _taken(inputs, slice(0, 1))
    if isinstance(rows, list):
        return "text"
    if isinstance(rows, Tensor):
        return f"{rows.dtype} {tuple(rows.shape[1:])}"
    return f"{rows.dtype.str} {rows.shape[1:]}"


class Contents:
    """What a pool holds, gone through once: a name for it, for its first points alone, and a mark of each point.

    >>> one, grown = (Contents(np.arange(count), np.arange(count), ()) for count in (5, 7))
    >>> one.fingerprint() == grown.fingerprint(), one.fingerprint() == grown.fingerprint(5)
    (False, True)
    """

    def __init__(self, inputs: Any, ids: IdArray, classes: tuple[str, ...]) -> None:
        self.inputs, self.ids, self.classes = inputs, ids, classes
        self.kind = kind_of(inputs)
        self.sampled = is_sampled(inputs)
        self._digests = None if self.sampled else digests_of(inputs)

    def fingerprint(self, points: int | None = None, classes: tuple[str, ...] | None = None) -> str:
        """The name of these contents, or of the first so many points, or with other classes."""
        count = len(self.ids) if points is None else points
        named = self.classes if classes is None else classes
        digest = hashlib.blake2b(repr((count, named, self.kind, self.sampled)).encode(), digest_size=16)
        ids = self.ids[:count]
        digest.update(ids.astype("<i8").tobytes() if ids.dtype.kind == "i" else repr(keys_of(ids)).encode())
        digest.update(self._first(count).astype("<i8").tobytes())
        return _VERSION + digest.hexdigest()

    def marks(self) -> bytes:
        """4 bytes for each point, which tell whether its input is the same; none where only a sample is known.

        >>> one, other = (Contents(np.array(rows), np.arange(3), ()).marks() for rows in ([4, 5, 6], [4, 6, 6]))
        >>> one[:4] == other[:4], one[4:8] == other[4:8]
        (True, False)
        """
        return b"" if self._digests is None else self._digests.astype("<i8").astype("<u4").tobytes()

    def _first(self, count: int) -> Array:
        return digests_of(self.inputs, sample(count)) if self._digests is None else self._digests[:count]


def is_sampled(inputs: Any) -> bool:
    """Whether all there is to go by is a sample, because each row must be read by somebody else's code.

    >>> is_sampled(np.zeros((3, 2))), is_sampled(Lazy(lambda row: np.zeros(2), 3))
    (False, True)
    """
    inputs = by_position(inputs)
    if isinstance(inputs, Lazy):
        return inputs.content is None
    return not isinstance(inputs, np.ndarray | Tensor | list | tuple | FrameRows)


def sample(count: int) -> Array:
    """The positions that stand for `count` rows: up to 64, evenly spaced.

    >>> len(sample(1000)), sample(2)
    (64, array([0, 1]))
    """
    return np.unique(np.linspace(0, count - 1, num=min(count, _SAMPLE)).astype(np.int64))


def _held(inputs: Any) -> Any:
    """Lists as arrays, of objects where they are ragged; data frames as rows; anything else as it is."""
    if not isinstance(inputs, list | tuple):
        return by_position(inputs)
    try:
        return as_numpy(inputs)
    except ValueError:  # rows of different lengths
        ragged = np.empty(len(inputs), dtype=object)
        ragged[:] = inputs
        return ragged


def _taken(inputs: Any, where: Any) -> Any:
    """Some rows as an array, as a tensor of a kind that NumPy has not, or as a list of objects."""
    if isinstance(inputs, Tensor):
        tensor = inputs.detach()[where if isinstance(where, slice) else torch.from_numpy(where)].cpu()
        return tensor if tensor.dtype == torch.bfloat16 else tensor.numpy()
    if isinstance(where, slice) and not isinstance(inputs, np.ndarray | Lazy):
        where = np.arange(len(inputs))[where]  # somebody else's container may know no slices
    rows = as_numpy(inputs[where])
    return rows.tolist() if rows.dtype.hasobject else rows


def _rows(rows: Any) -> bytes:
    """The digests of some rows, one after another."""
    if isinstance(rows, list):
        return b"".join(_digest(_bytes(row)) for row in rows)
    content = rows.view(torch.int16).numpy().tobytes() if isinstance(rows, Tensor) else rows.tobytes()
    # A view spares a copy of every row.
    view, width = memoryview(content), len(content) // max(1, len(rows))
    return b"".join([_digest(view[row * width : (row + 1) * width]) for row in range(len(rows))])


def encoded_rows(rows: FrameRows) -> Array:
    """The rows of a data frame as bytes [N, W], equal where values are equal, whatever rows stand beside them.

    A number or a date is its bytes, a text or a category a digest of its value. One more byte for each value tells
    whether it is missing.
    """
    parts = [part for column in rows.columns() for part in (_encoded(column), column.gaps_N[:, None].view(np.uint8))]
    return np.concatenate(parts, axis=1) if parts else np.zeros((len(rows), 0), dtype=np.uint8)


def _encoded(column: Column) -> Array:
    """The values of a column as bytes [N, W], zero where one is missing."""
    values_N, gaps_N = column.values, column.gaps_N
    if column.kind == "category":
        used_U, places_N = np.unique(np.where(gaps_N, -1, values_N), return_inverse=True)
        digests_U = b"".join(_digest(_bytes(column.levels[code]) if code >= 0 else b"") for code in used_U.tolist())
        encoded_N_W = np.frombuffer(digests_U, dtype=np.uint8).reshape(-1, 8)[places_N]
    elif column.kind == "text":
        known = _KnownTexts()
        texts = ["" if gap else value for value, gap in zip(values_N.tolist(), gaps_N.tolist(), strict=True)]
        plain = all(type(text) is str for text in texts)  # other objects that are equal, 1 and True, are not the same
        digests_N = [known[text] for text in texts] if plain else [_digest(_bytes(one)) for one in texts]
        encoded_N_W = np.frombuffer(b"".join(digests_N), dtype=np.uint8).reshape(-1, 8)
    elif values_N.dtype.kind in "mM":
        # Seconds and nanoseconds: the unit that a library counts in may change with its version.
        seconds_N = values_N.astype(f"{values_N.dtype.kind}8[s]")
        rest_N = (values_N - seconds_N).astype("m8[ns]")
        encoded_N_W = np.stack([seconds_N.view(np.int64), rest_N.view(np.int64)], axis=1).astype("<i8").view(np.uint8)
    else:
        numbers_N = np.ascontiguousarray(values_N, dtype=np.dtype(column.kind).newbyteorder("<"))
        encoded_N_W = numbers_N.view(np.uint8).reshape(len(numbers_N), -1)
    return np.where(gaps_N[:, None], np.uint8(0), encoded_N_W) if gaps_N.any() else encoded_N_W


class _KnownTexts(dict[str, bytes]):
    """The digest of each text, made when it is first asked for: most columns hold few different ones."""

    def __missing__(self, text: str) -> bytes:
        digest = self[text] = _digest(_bytes(text))
        return digest


def _bytes(row: Any) -> bytes:
    """An object as bytes, the same in every process."""
    if isinstance(row, str):
        return row.encode("utf-8", "surrogatepass")
    if isinstance(row, bytes):
        return b"bytes" + row
    if isinstance(row, np.ndarray) and row.dtype.hasobject:
        return _bytes(row.tolist())
    if hasattr(row, "tobytes"):  # arrays and pictures of different sizes
        facts = [str(getattr(row, name, "")) for name in ("shape", "dtype", "size", "mode")]
        return repr(facts).encode() + bytes(row.tobytes())
    if isinstance(row, Tensor):
        return _bytes(row.detach().cpu().numpy())
    if isinstance(row, list | tuple):
        return b"".join(len(inner := _bytes(entry)).to_bytes(8, "little") + inner for entry in row)
    if isinstance(row, dict):
        return _bytes([entry for pair in row.items() for entry in pair])
    shown = "" if " at 0x" in (text := repr(row)) else text
    return f"{type(row).__name__} {shown}".encode("utf-8", "surrogatepass")


def _digest(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=8).digest()


def _in_parts(work: Callable[[slice], bytes], count: int, rows: int, threads: bool = True) -> Array:
    """Digests of `count` rows, part by part; hashing lets go of Python's lock, so that threads share the work."""
    parts = [slice(start, min(start + rows, count)) for start in range(0, count, rows)]
    workers = min(len(parts), os.cpu_count() or 1, 8) if threads else 1
    if workers < 2:
        found = list(map(work, parts))
    else:
        with ThreadPoolExecutor(workers) as pool:
            found = list(pool.map(work, parts))
    return np.frombuffer(b"".join(found), dtype="<i8").astype(np.int64)
