"""Embeddings: what a frozen backbone makes of inputs, computed once and kept by content.

    key(input) = blake2b(type, shape, bytes)        embedding = cache[backbone's name][key], computed where missing

Rows are known by what is in them, never by their position: sub-samples, copies and other runs share the work. The
cache is one folder per backbone, in it segments of about five seconds' work (`.safetensors` with keys and rows), each
written all or nothing: a killed process loses its last segment and no more. Processes that need the same rows wait for
each other instead of doing the work twice.
"""

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from natsel.containers import appending, open_arrays, write_arrays
from natsel.data.contents import encoded_rows, kind_of
from natsel.data.folders import cache_folder
from natsel.data.frames import FrameRows, by_position
from natsel.models.fingerprints import fingerprint
from natsel.models.protocol import Progress
from natsel.models.rows import Array, as_array

_SECONDS = 5.0
_ROWS = 64
"""Rows of the first segment; segments double while they take less than half of `_SECONDS`."""


@dataclass(frozen=True)
class Backbone:
    """A frozen function of inputs: `embed` takes n of them and gives (n, features) in float32.

    Of a data frame it takes data frames, of all else arrays. Two backbones with one name share their cached
    embeddings where `embed` is the same, with all that it holds; with `packages`, by the name alone.

    >>> Backbone("mean", 1, lambda images: images.mean((1, 2))[:, None]).features
    1
    """

    name: str
    features: int
    embed: Callable[[Any], Array]
    packages: tuple[str, ...] = field(default=(), repr=False)  # to be installed where inputs are not in the cache


def embed(
    backbone: Backbone, inputs: Any, *, cache: str | Path | None = None, progress: Progress | None = None
) -> Array:
    """The embeddings of inputs (N, D) in float32, from the cache where they are known.

    `cache` is the folder to keep them in (None: `embeddings` in natsel's cache folder, `$NATSEL_CACHE`).

    >>> import tempfile
    >>> double = Backbone("double", 2, lambda rows: rows * 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     embed(double, np.array([[1.0, 2.0]]), cache=folder)
    array([[2., 4.]], dtype=float32)
    """
    inputs = by_position(inputs)
    keys_N_2 = keys(inputs)
    folder = _folder(backbone, cache)
    index = _Index(folder)
    if len(index.missing(keys_N_2)):
        with _locked(folder):
            index = _Index(folder)  # another process may have come first
            _fill(index, backbone, inputs, keys_N_2, progress)
    return index.gather(keys_N_2, backbone.features)


def keys(inputs: Any) -> Array:
    """A key of two 64-bit numbers for each input: equal inputs, equal keys.

    >>> keys(np.array(["one", "two", "one"], dtype=object))[:, 0].tolist().index(keys(["two"])[0, 0])
    1
    """
    digests: list[bytes] = []
    inputs = by_position(inputs)
    if isinstance(inputs, FrameRows):
        header = hashlib.blake2b(kind_of(inputs).encode(), digest_size=16)
    for start in range(0, len(inputs), 1024):
        if isinstance(inputs, FrameRows):
            digests += [_key(header, row) for row in encoded_rows(inputs[start : start + 1024])]
            continue
        part = as_array(inputs[start : start + 1024])
        if part.dtype == object or part.dtype.kind == "U":
            contents = [one if isinstance(one, str) else fingerprint(one) for one in part]  # texts by themselves
            digests += [
                hashlib.blake2b(one.encode(errors="surrogatepass"), digest_size=16).digest() for one in contents
            ]
            continue
        header = hashlib.blake2b(f"{part.dtype.str}{part.shape[1:]}".encode(), digest_size=16)
        digests += [_key(header, row) for row in np.ascontiguousarray(part)]
    return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2)


def _key(header: Any, row: Array) -> bytes:
    digest = header.copy()
    digest.update(row.tobytes())
    found: bytes = digest.digest()
    return found


class _Index:
    """Where the embeddings lie: segments in a folder, their keys sorted by the first half."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: list[str] = []
        self.keys_M_2 = np.empty((0, 2), dtype="<u8")
        self.place_M_2 = np.empty((0, 2), dtype=np.int64)  # segment, row
        for path in sorted(folder.glob("*.safetensors")):
            self._add(path.name, open_arrays(path).read("keys_m_2").numpy().view("<u8"))
        self._sort()

    def write(self, keys_m_2: Array, rows_m_D: Array) -> None:
        """Keep a segment."""
        name = f"{hashlib.blake2b(keys_m_2.tobytes(), digest_size=12).hexdigest()}.safetensors"
        arrays = {"keys_m_2": keys_m_2.view(np.int64), "rows_m_D": rows_m_D}
        write_arrays(self.folder / name, {key: torch.tensor(array) for key, array in arrays.items()}, {})
        self._add(name, keys_m_2)
        self._sort()

    def missing(self, keys_N_2: Array) -> Array:
        """Positions of inputs that are not known, one for each content, in order."""
        unknown_n = np.flatnonzero(self._find(keys_N_2) < 0)
        first = np.unique(keys_N_2[unknown_n], axis=0, return_index=True)[1]
        return unknown_n[np.sort(first)]

    def gather(self, keys_N_2: Array, features: int) -> Array:
        """The embeddings, one segment after the other."""
        place_N_2 = self.place_M_2[self._find(keys_N_2)]
        rows_N_D = np.empty((len(keys_N_2), features), dtype=np.float32)
        for segment in np.unique(place_N_2[:, 0]):
            rows = open_arrays(self.folder / self.names[segment]).read("rows_m_D").numpy()
            here_n = np.flatnonzero(place_N_2[:, 0] == segment)
            rows_N_D[here_n] = rows[place_N_2[here_n, 1]]
        return rows_N_D

    def _find(self, keys_N_2: Array) -> Array:
        """Where each key stands among the sorted ones; −1: nowhere. Both halves must agree."""
        if not len(self.keys_M_2):
            return np.full(len(keys_N_2), -1)
        at_N = np.searchsorted(self.keys_M_2[:, 0], keys_N_2[:, 0]).clip(max=len(self.keys_M_2) - 1)
        return np.where((self.keys_M_2[at_N] == keys_N_2).all(1), at_N, -1)

    def _add(self, name: str, keys_m_2: Array) -> None:
        place_m_2 = np.stack([np.full(len(keys_m_2), len(self.names)), np.arange(len(keys_m_2))], axis=1)
        self.names.append(name)
        self.keys_M_2 = np.concatenate([self.keys_M_2, keys_m_2])
        self.place_M_2 = np.concatenate([self.place_M_2, place_m_2])

    def _sort(self) -> None:
        order = np.argsort(self.keys_M_2[:, 0], kind="stable")
        self.keys_M_2, self.place_M_2 = self.keys_M_2[order], self.place_M_2[order]


def _fill(index: _Index, backbone: Backbone, inputs: Any, keys_N_2: Array, progress: Progress | None) -> None:
    """Embed what is missing, segment by segment."""
    missing_n = index.missing(keys_N_2)
    done, size = 0, _ROWS
    while done < len(missing_n):
        part = missing_n[done : done + size]
        began = time.monotonic()
        rows_m_D = np.ascontiguousarray(backbone.embed(_seen(inputs[part])), dtype=np.float32)
        if rows_m_D.shape != (len(part), backbone.features) or not np.isfinite(rows_m_D).all():
            found = f"shape {rows_m_D.shape}" if np.isfinite(rows_m_D).all() else "NaN or infinity"
            wanted = f"{len(part)} finite rows of {backbone.features}"
            raise ValueError(f"backbone: {backbone.name} should give {wanted}, found {found}; check what it computes")
        index.write(keys_N_2[part], rows_m_D)
        done += len(part)
        if progress is not None:
            progress(done, len(missing_n))
        if time.monotonic() - began < _SECONDS / 2:
            size *= 2


def _seen(inputs: Any) -> Any:
    """Inputs as a backbone gets them: an array, or a data frame where the user has one."""
    return inputs.frame if isinstance(inputs, FrameRows) else as_array(inputs)


def _folder(backbone: Backbone, cache: str | Path | None) -> Path:
    """The backbone's folder, made where it is not there."""
    root = cache_folder() / "embeddings" if cache is None else Path(cache).expanduser()
    known = "" if backbone.packages else f" {fingerprint(backbone.embed)}"
    mark = hashlib.blake2b(f"{backbone.name} {backbone.features}{known}".encode(), digest_size=4).hexdigest()
    folder = root / f"{re.sub(r'[^A-Za-z0-9.@-]+', '-', backbone.name)}-{mark}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise ValueError(
            f"cache: {folder} cannot be made ({reason.strerror}); pass cache= or set NATSEL_CACHE to a folder of yours"
        ) from None
    return folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time, where the system has locks that end with a process; elsewhere work may be done twice."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with appending(folder / "lock") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
