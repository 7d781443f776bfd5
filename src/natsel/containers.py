"""Arrays in files: `.npz`, `.safetensors` and `.npy`, read without unpickling and written all or nothing.

Only headers are read when a file is opened, so that one array can be picked out of a large file. What is
written goes to a temporary file in the same folder, is flushed to disk and replaces the old file in one step.
Arrays, and objects of JSON, are kept with digests, which are compared when they are read.
"""

import errno
import hashlib
import json
import math
import os
import re
import secrets
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # writing a file of text does not wait for torch
    from torch import Tensor

_FLOATS = {"F64", "F32", "F16", "BF16"}
# Arrays beyond this size that a file holds in less than a thousandth of it: numbers that were worked for say more.
_LARGE, _SQUEEZED = 1 << 30, 1000
_LEFTOVER = re.compile(r"\.natsel-([0-9a-f]{8})[0-9a-f]{8}\.tmp")
_DAY = 24 * 3600.0
_DIGEST = "natsel_digest"
_blake2b = partial(hashlib.blake2b, digest_size=16)


@dataclass(frozen=True)
class Arrays:
    """What a file holds: the shapes of its arrays, which are floats, its texts, and a way to read one."""

    shapes: dict[str, tuple[int, ...]]
    floats: frozenset[str]
    texts: dict[str, str]
    read: Callable[[str], Any]

    def __str__(self) -> str:
        return ", ".join(f"{key} {list(shape)}" for key, shape in self.shapes.items()) or "nothing"


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Whatever goes wrong while reading a file becomes a ValueError in one sentence that names it."""
    try:
        yield
    except FileNotFoundError:
        raise ValueError(f"path: there is no file {path}; check the name") from None
    except OSError as reason:
        raise ValueError(f"path: {path} cannot be read ({reason.strerror or reason}); check the file") from None
    except Exception as reason:  # damaged bytes make readers fail in every way there is
        found = " ".join(str(reason).split()).split(". ")[0].rstrip(".") or type(reason).__name__
        raise ValueError(f"path: {path} is damaged or not {path.suffix} ({found}); write it again") from None


def bytes_of_lines(path: Path) -> bytes:
    """The bytes of a text; one with a line that does not end is refused before more of it is read."""
    parts = []
    with path.open("rb") as stream:
        while part := stream.read(1 << 23):
            if len(part) == 1 << 23 and not re.search(b"[\r\n]", part):
                raise ValueError("a line is longer than 8 MB")
            parts.append(part)
    return b"".join(parts)


@contextmanager
def atomically(path: str | Path) -> Iterator[Path]:
    """A place to write: what lies there becomes `path` when the block ends, and is thrown away when it fails. A link
    at `path` is replaced like a file; what it leads to stays as it is.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomically(f"{folder}/a.txt") as place:
    ...         written = place.write_text("all or nothing")
    ...     os.listdir(folder)
    ['a.txt']
    """
    target = Path(path).absolute()
    if target.exists() and not target.is_file():
        raise ValueError(f"path: {path} is no regular file and would be replaced; name a file")
    if not target.parent.is_dir():
        raise ValueError(f"path: there is no folder {target.parent} to write to; make it first")
    place = target.with_name(f".natsel-{os.getpid():08x}{secrets.token_hex(4)}.tmp")
    try:
        place.touch(exist_ok=False)
        mode = (target if target.exists() and not target.is_symlink() else place).stat().st_mode
        yield place
        place.chmod(mode)  # writers that make a file of their own may close it to others
        _flush(place, os.O_RDWR)
        os.replace(place, target)
        if os.name == "posix":  # elsewhere folders cannot be opened
            _flush(target.parent, os.O_RDONLY)
    except OSError as reason:
        if reason.errno is not None and str(reason.filename or place) == str(place):
            reason.filename = str(path)  # the name that its user knows
        raise
    finally:
        place.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> Path:
    """Write a file of text, all or nothing."""
    with atomically(path) as place:
        place.write_text(text, encoding="utf-8")
    return Path(path)


def own(path: Path) -> Path:
    """A path to write to as it stands; a link there is refused, for what it leads to may be anybody's."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link, and natsel writes through none; remove it", str(path))
    return path


def appending(path: Path) -> IO[str]:
    """A file opened at its end, as locks and logs are, and never what a link leads to."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(own(path), flags, 0o666), "a", encoding="utf-8")


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed `atomically` left in a folder: files of its own names that nobody wrote to for a day.

    >>> remove_leftovers(Path("no such folder"))
    """
    try:
        for place in folder.glob(".natsel-*.tmp"):
            found = _LEFTOVER.fullmatch(place.name)
            days = 30 if found and Path(f"/proc/{int(found[1], 16)}").exists() else 1  # the clock may have jumped
            if found and time.time() - place.lstat().st_mtime > days * _DAY:
                place.unlink()
    except OSError:  # another process was quicker, or the folder is not ours: no reason to fail
        return


def sealed(found: Mapping[str, Any]) -> dict[str, Any]:
    """An object of JSON with a digest of its other entries; `unsealed(sealed({"k": 1}))` is `{"k": 1}`."""
    rest = {name: value for name, value in found.items() if name != _DIGEST}
    text = json.dumps(json.loads(json.dumps(rest, default=repr)), sort_keys=True)
    return {**rest, _DIGEST: _blake2b(text.encode()).hexdigest()}


def unsealed(found: Mapping[str, Any]) -> dict[str, Any]:
    """The other entries, refused where the digest is not of them."""
    if found.get(_DIGEST) not in (None, sealed(found)[_DIGEST]):
        raise ValueError(f"it is not as natsel wrote it; where that is meant, remove {_DIGEST} from it")
    return {name: value for name, value in found.items() if name != _DIGEST}


def digest_of(arrays: Mapping[str, Any], text: str = "") -> str:
    """A digest of a text, and of tensors or arrays by names, types, shapes and bytes."""
    import torch

    digest = _blake2b(text.encode())
    for name, array in arrays.items():
        tensor = torch.as_tensor(array)
        digest.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        digest.update(tensor.contiguous().reshape(-1)[:, None].view(torch.uint8).numpy().data)
    return digest.hexdigest()


def open_arrays(path: str | Path) -> Arrays:
    """What a `.npz` or `.safetensors` file holds."""
    path = Path(path)
    if path.suffix not in (".npz", ".safetensors"):
        raise ValueError(f"path: expected a .npz or .safetensors file, found {path.name}; convert it to one of them")
    found = (_open_npz if path.suffix == ".npz" else _open_safetensors)(path)
    with readable(path):
        texts = unsealed(found.texts)
        digests = json.loads(texts.pop("natsel_arrays", "{}"))
        if digests and digests.keys() != found.shapes.keys():
            raise ValueError("it is not as natsel wrote it")

    def read(key: str) -> Any:
        array = found.read(key)
        if digests and digest_of({key: array}) != digests[key]:
            raise ValueError(f"path: {path} is damaged ({key} is not as natsel wrote it); write it again")
        return array

    return replace(found, texts=texts, read=read)


def write_arrays(path: str | Path, arrays: Mapping[str, "Tensor"], texts: Mapping[str, str]) -> None:
    """Write tensors and texts to `.npz` or `.safetensors`."""
    path = Path(path)
    if path.suffix not in (".npz", ".safetensors"):
        raise ValueError(f"path: expected a name that ends in .npz or .safetensors, found {path.name}; rename it")
    texts = sealed({**texts, "natsel_arrays": json.dumps({key: digest_of({key: one}) for key, one in arrays.items()})})
    with atomically(path) as place:
        (_write_npz if path.suffix == ".npz" else _write_safetensors)(place, arrays, texts)


def read_npy(path: str | Path) -> np.ndarray[Any, Any]:
    """The array of a `.npy` file."""
    path = Path(path)
    with readable(path), path.open("rb") as stream:
        header = _header(stream)
        held = os.fstat(stream.fileno()).st_size - stream.tell()
    _refuse_objects(path, header[1])
    _refuse_size(path, path.name, header, held, held)
    with readable(path), path.open("rb") as stream:
        array: np.ndarray[Any, Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def _open_npz(path: Path) -> Arrays:
    with readable(path), zipfile.ZipFile(path) as archive:
        headers = {}
        for name in archive.namelist():
            if name.endswith(".npy"):
                with archive.open(name) as stream:
                    headers[name.removesuffix(".npy")] = _header(stream)
    read = partial(_read_npz, path)
    texts = {key: str(read(key)) for key, (shape, dtype) in headers.items() if dtype.kind == "U" and shape == ()}
    shapes = {key: shape for key, (shape, _) in headers.items() if key not in texts}
    return Arrays(shapes, frozenset(key for key in shapes if headers[key][1].kind == "f"), texts, read)


def _read_npz(path: Path, key: str) -> Any:
    name = f"{key}.npy"
    with readable(path), zipfile.ZipFile(path) as archive, archive.open(name) as stream:
        header, member = _header(stream), archive.getinfo(name)
        held = member.file_size - stream.tell()
    _refuse_objects(path, header[1])
    _refuse_size(path, key, header, held, min(member.compress_size, path.stat().st_size))
    if _size(header) < held:
        raise ValueError(f"path: {path} is damaged ({key} goes on after its numbers); write it again")
    with readable(path), zipfile.ZipFile(path) as archive, archive.open(name) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)


def _size(header: tuple[tuple[int, ...], np.dtype[Any]]) -> int:
    """The bytes of numbers that a header announces."""
    return math.prod(header[0]) * header[1].itemsize


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    return tuple(shape), dtype


def _refuse_objects(path: Path, dtype: np.dtype[Any]) -> None:
    if dtype.hasobject:
        raise ValueError(f"path: {path} holds pickled Python objects, which are never loaded; save plain numbers")


def _refuse_size(path: Path, name: str, header: tuple[tuple[int, ...], np.dtype[Any]], held: int, packed: int) -> None:
    """Refuse, before a byte of it is read, an array that is less than its header says or more than memory holds.

    `held` are the bytes that follow the header, `packed` those that they take in the file.
    """
    size = _size(header)
    if min(header[0], default=0) < 0 or size > held:
        raise ValueError(
            f"path: {path} is damaged ({name}: {list(header[0])} of {header[1]} are {size:,} bytes, found {held:,});"
            " write it again"
        )
    room = _available()
    if room is not None and size > room:
        raise ValueError(
            f"path: {path} holds {size / 2**20:,.0f} MiB in {name} and {room / 2**20:,.0f} MiB of memory are free; read"
            " it on a larger machine, or write fewer points to a file"
        )
    if size > max(_LARGE, _SQUEEZED * packed):
        raise ValueError(
            f"path: {path} holds {size / 2**20:,.0f} MiB in {name} packed into {packed / 2**20:,.1f} MiB, which is next"
            " to nothing but one number repeated; if it is meant, write it unpacked with numpy.savez"
        )


def _available() -> int | None:
    """Bytes that the machine could still give; None where it does not say."""
    try:
        with open("/proc/meminfo") as lines:
            fields = {name: 1024 * int(value.split()[0]) for name, value in (line.split(":", 1) for line in lines)}
        free = fields["MemAvailable"] + fields.get("SwapFree", 0)
    except (OSError, KeyError, ValueError, IndexError):
        return None
    try:
        return min(free, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no limit for this process
        return free


def _open_safetensors(path: Path) -> Arrays:
    from safetensors import safe_open

    with readable(path), safe_open(path, framework="pt") as file:
        slices = {key: file.get_slice(key) for key in sorted(file.keys())}
        shapes = {key: tuple(part.get_shape()) for key, part in slices.items()}
        floats = frozenset(key for key, part in slices.items() if part.get_dtype() in _FLOATS)
        return Arrays(shapes, floats, dict(file.metadata() or {}), partial(_read_safetensors, path))


def _read_safetensors(path: Path, key: str) -> "Tensor":
    from safetensors import safe_open

    with readable(path), safe_open(path, framework="pt") as file:
        mapped: Tensor = file.get_tensor(key)
        return mapped.clone()  # a mapped file may change under the tensor


def _write_npz(place: Path, arrays: Mapping[str, "Tensor"], texts: Mapping[str, str]) -> None:
    entries: dict[str, Any] = {key: array.numpy() for key, array in arrays.items()}
    entries |= {key: np.array(text) for key, text in texts.items()}
    with place.open("wb") as stream:
        np.savez(stream, **entries)


def _write_safetensors(place: Path, arrays: Mapping[str, "Tensor"], texts: Mapping[str, str]) -> None:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    seen: set[int] = set()
    separate: dict[str, Tensor] = {}
    for key, array in arrays.items():  # safetensors refuses tensors that share memory
        storage = array.untyped_storage().data_ptr()
        separate[key] = array.clone(memory_format=torch.contiguous_format) if storage in seen else array.contiguous()
        seen.add(storage)
    try:
        save_file(separate, place, metadata=dict(texts))
    except SafetensorError as reason:
        raise OSError(f"{place.parent} could not be written to ({reason})") from None


def _flush(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
