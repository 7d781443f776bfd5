"""Beliefs too large for memory: written to a folder shard by shard, read back as memory maps.

A folder holds one `.npy` file for each field of each shard, and `manifest.json`, which names the shards that are
finished. A shard's files are complete before the manifest names it, so a killed writer loses the shard it was at and no
other; the next one finds the rest done.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from natsel.beliefs.base import Belief
from natsel.containers import atomically, readable

FORMAT = 1
_MANIFEST = "manifest.json"


def write_shards(
    folder: str | Path, beliefs: Iterable[Belief | Callable[[], Belief]], *, key: str | None = None
) -> "Shards":
    """Write beliefs about successive points, of one model, to a folder; shards found finished are not written again.

    Give functions that make the beliefs, and those of finished shards are not called; `key` must then say what is
    predicted (model and inputs), for nothing else tells another's shards apart. Beliefs given as they are get compared
    with what is there. Either way a folder of other predictions is refused.

    >>> import tempfile
    >>> from natsel.beliefs import CategoricalSamples
    >>> parts = [CategoricalSamples.from_probs([[[0.5, 0.5]]], ids_N=[number]) for number in range(3)]
    >>> with tempfile.TemporaryDirectory() as place:
    ...     write_shards(place, parts).belief().ids_N.tolist()
    [0, 1, 2]
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = _read(folder) if (folder / _MANIFEST).exists() else _Manifest(key=key)
    if manifest.key != key:
        raise _other(folder, "of another model, of other inputs or in other shards")
    count = 0
    for count, belief in enumerate(beliefs, 1):
        found = _finished(folder, manifest, count - 1)
        if callable(belief) and key is None:
            raise ValueError("key: functions need one to tell their shards from others; name the model and the inputs")
        if found is None:
            _add(folder, manifest, count - 1, belief() if callable(belief) else belief)
        elif not callable(belief) and found["fingerprint"] != _fingerprint(belief):
            raise _other(folder, f"whose shard {count - 1} differs")
    if count == 0:
        raise ValueError("beliefs: found none to write; pass at least one")
    if count < len(manifest.shards):
        raise _other(folder, f"in {len(manifest.shards)} shards instead of {count}")
    if not manifest.complete:
        manifest.complete = True
        _write(folder, manifest)
    return Shards(folder)


class Shards:
    """The beliefs in a folder that `write_shards` finished; each shard, and all of them as one, memory-mapped.

    `len` counts points, and iteration gives one belief a shard.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._manifest = _read(self.folder)
        if not self._manifest.complete:
            raise ValueError(
                f"folder: {self.folder} holds {len(self._manifest.shards)} shards and was not finished;"
                " call the writer again, and it goes on from there"
            )

    def __len__(self) -> int:
        return sum(shard["points"] for shard in self._manifest.shards)

    def __iter__(self) -> Iterator[Belief]:
        for number, shard in enumerate(self._manifest.shards):
            yield self._belief({name: self._map(_name(number, name)) for name in shard["fields"]})

    def belief(self) -> Belief:
        """One belief about all points. Several shards are joined in a file beside them, once."""
        first, *others = self._manifest.shards
        if not others:
            return next(iter(self))
        kind = _kind(self._manifest.kind, self.folder)
        fields = {name: self._map(_name(0, name)) for name in kind.draws}
        for name in kind.points:
            if not (self.folder / f"joined.{name}.npy").exists():
                self._join(name, first["fields"][name])
            fields[name] = self._map(f"joined.{name}.npy")
        return self._belief(fields)

    def _join(self, name: str, first: list[Any]) -> None:
        dtype, shape = first
        with atomically(self.folder / f"joined.{name}.npy") as place:
            whole = np.lib.format.open_memmap(place, "w+", np.dtype(dtype), (len(self), *shape[1:]))
            start = 0
            for number, shard in enumerate(self._manifest.shards):
                whole[start : start + shard["points"]] = self._map(_name(number, name))
                start += shard["points"]
            whole.flush()

    def _map(self, name: str) -> np.ndarray[Any, Any]:
        path = self.folder / name
        with readable(path):  # copy on write: torch holds only memory it may write to, and the file stays as it is
            mapped: np.ndarray[Any, Any] = np.load(path, mmap_mode="c", allow_pickle=False)
        return mapped

    def _belief(self, fields: dict[str, np.ndarray[Any, Any]]) -> Belief:
        kind = _kind(self._manifest.kind, self.folder)
        tensors = {name: torch.from_numpy(array) for name, array in fields.items()}
        # What was written had been checked; checking all of it again would read the whole file.
        few = {name: tensor[:1] if name in kind.points else tensor for name, tensor in tensors.items()}
        made = kind(**few, draws_id=self._manifest.draws_id)  # type: ignore[call-arg]
        return made._trusted(**tensors)


def fingerprint_of(inputs: Any) -> str:
    """A short name for inputs, from their number, type and up to 64 of them: to tell data sets apart, not to prove.

    >>> fingerprint_of(np.zeros((3, 2))) == fingerprint_of(np.ones((3, 2)))
    False
    """
    where = np.unique(np.linspace(0, len(inputs) - 1, num=min(len(inputs), 64)).astype(np.int64))
    found = inputs[where] if not isinstance(inputs, list | tuple) else [inputs[place] for place in where]
    some = found.detach().cpu().numpy() if isinstance(found, Tensor) else np.asarray(found)
    digest = hashlib.blake2b(repr((len(inputs), some.dtype.str, some.shape[1:])).encode(), digest_size=16)
    digest.update(repr(some.tolist()).encode() if some.dtype.hasobject else np.ascontiguousarray(some).tobytes())
    return digest.hexdigest()


@dataclass
class _Manifest:
    key: str | None = None
    kind: str = ""
    draws_id: str | None = None
    complete: bool = False
    shards: list[dict[str, Any]] = field(default_factory=list)


def _read(folder: Path) -> _Manifest:
    path = folder / _MANIFEST
    with readable(path):
        found = json.loads(path.read_text())
        version = found.pop("format")
    if version != FORMAT:
        raise ValueError(f"folder: {folder} has format {version!r}, this natsel reads {FORMAT}; upgrade natsel")
    with readable(path):
        return _Manifest(**found)


def _write(folder: Path, manifest: _Manifest) -> None:
    with atomically(folder / _MANIFEST) as place:
        place.write_text(json.dumps({"format": FORMAT, **vars(manifest)}) + "\n")


def _add(folder: Path, manifest: _Manifest, number: int, belief: Belief) -> None:
    """Write a shard's files, then name it in the manifest."""
    kind = type(belief).__name__
    if number == 0:
        manifest.kind, manifest.draws_id = kind, belief.draws_id
    if (kind, belief.draws_id) != (manifest.kind, manifest.draws_id):
        raise ValueError(
            f"beliefs: shard {number} is {kind} from draws {belief.draws_id!r}, the first was {manifest.kind} from"
            f" {manifest.draws_id!r}; one folder holds the predictions of one model"
        )
    fields = {}
    for name, array in _arrays(belief).items():
        with atomically(folder / _name(number, name)) as place, place.open("wb") as stream:
            np.lib.format.write_array(stream, array, allow_pickle=False)
        fields[name] = [array.dtype.str, list(array.shape)]
    shard = {"points": len(belief), "fingerprint": _fingerprint(belief), "fields": fields}
    first = manifest.shards[0]["fields"] if manifest.shards else fields
    for name in belief.points:
        if (fields[name][0], fields[name][1][1:]) != (first[name][0], first[name][1][1:]):
            raise ValueError(
                f"beliefs: {name} of shard {number} is {fields[name]}, of the first {first[name]}; all shards need the"
                " same type, draws and classes"
            )
    for old in folder.glob("joined.*.npy"):
        old.unlink()
    manifest.shards[number : number + 1] = [shard]
    manifest.complete = False
    _write(folder, manifest)


def _finished(folder: Path, manifest: _Manifest, number: int) -> dict[str, Any] | None:
    """What the manifest says of a shard, None where it names none or a file of it is gone or cut short."""
    if number >= len(manifest.shards):
        return None
    shard = manifest.shards[number]
    for name, (dtype, shape) in shard["fields"].items():
        path = folder / _name(number, name)
        if not path.is_file() or path.stat().st_size < math.prod(shape) * np.dtype(dtype).itemsize:
            return None
    return shard


def _arrays(belief: Belief) -> dict[str, np.ndarray[Any, Any]]:
    return {name: getattr(belief, name).detach().cpu().numpy() for name in belief.points + belief.draws}


def _fingerprint(belief: Belief) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, array in _arrays(belief).items():
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _name(number: int, field: str) -> str:
    return f"{number:05d}.{field}.npy"


def _kind(name: str, folder: Path) -> type[Belief]:
    kinds = {kind.__name__: kind for kind in Belief.__subclasses__()}  # natsel.beliefs has imported them all
    if name not in kinds:
        known = ", ".join(sorted(kinds))
        raise ValueError(f"folder: {folder} holds an unknown kind of belief {name!r}; known are {known}")
    return kinds[name]


def _other(folder: Path, what: str) -> ValueError:
    return ValueError(f"folder: {folder} already holds predictions {what}; name another folder or empty this one")
