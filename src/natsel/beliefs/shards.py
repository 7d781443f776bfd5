"""Beliefs too large for memory: written to a folder shard by shard, read back as memory maps.

A folder holds one `.npy` file for each field of each shard that runs over points, those that all points share beside
the first shard, and `manifest.json`, which names the shards that are finished and says what else a belief holds
(`natsel.beliefs.storage`). A shard's files are complete before the manifest names it, so a killed writer loses the
shard it was at and no other; the next one finds the rest done.
"""

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
from natsel.beliefs.storage import (
    FORMAT,
    IDS,
    Description,
    kind_called,
    over_points,
    put_together,
    taken_apart,
    wrong_fields,
)
from natsel.containers import atomically, digest_of, readable, sealed, unsealed

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
    >>> parts = [CategoricalSamples.from_probs([[[0.5, 0.5]]], ids=[number]) for number in range(3)]
    >>> with tempfile.TemporaryDirectory() as place:
    ...     write_shards(place, parts).belief().ids.tolist()
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
        elif not callable(belief) and not _same(manifest, found, belief):
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
        self._compared: set[str] = set()
        if not self._manifest.complete:
            raise ValueError(
                f"folder: {self.folder} holds {len(self._manifest.shards)} shards and was not finished;"
                " call the writer again, and it goes on from there"
            )

    def __len__(self) -> int:
        return sum(shard["points"] for shard in self._manifest.shards)

    def __iter__(self) -> Iterator[Belief]:
        for number, shard in enumerate(self._manifest.shards):
            yield self._belief({name: _name(number, name) for name in shard["fields"]})

    def belief(self) -> Belief:
        """One belief about all points. Several shards are joined in a file beside them, once."""
        first, *others = self._manifest.shards
        if not others:
            return next(iter(self))
        for name in over_points(self._kind()):
            if name in first["fields"] and not (self.folder / f"joined.{name}.npy").exists():
                self._join(name, first["fields"][name])
        joined = [name for name in over_points(self._kind()) if name in first["fields"]]
        return self._belief({name: f"joined.{name}.npy" for name in joined})

    def _join(self, name: str, first: list[Any]) -> None:
        dtype, shape = first[0], [len(self), *first[1][1:]]
        if name == IDS and len(shape) == 2:  # texts: each shard has the width of its longest
            shape[1] = max(shard["fields"][IDS][1][1] for shard in self._manifest.shards)
        with atomically(self.folder / f"joined.{name}.npy") as place:
            whole = np.lib.format.open_memmap(place, "w+", np.dtype(dtype), tuple(shape))
            start = 0
            for number, shard in enumerate(self._manifest.shards):
                part, stop = self._map(_name(number, name)), start + shard["points"]
                if part.shape[1:] == whole.shape[1:]:
                    whole[start:stop] = part
                else:
                    whole[start:stop] = ord(" ")
                    whole[start:stop, : part.shape[1]] = part
                start = stop
            whole.flush()
            self._manifest.digests[f"joined.{name}.npy"] = digest_of({"": np.memmap(place, mode="c")})
        _write(self.folder, self._manifest)

    def _map(self, name: str) -> np.ndarray[Any, Any]:
        path, digest = self.folder / name, self._manifest.digests.get(name)
        with readable(path):  # copy on write: torch holds only memory it may write to, and the file stays as it is
            if not (digest is None or name in self._compared) and digest_of({"": np.memmap(path, mode="c")}) != digest:
                raise ValueError("it is not as natsel wrote it")
            mapped: np.ndarray[Any, Any] = np.load(path, mmap_mode="c", allow_pickle=False)
        self._compared.add(name)
        return mapped

    def _kind(self) -> type[Belief]:
        return kind_called(self._manifest.kind, f"folder: {self.folder}")

    def _belief(self, places: dict[str, str]) -> Belief:
        """A belief from files for some of its tensors; the others lie beside the first shard."""
        kind, description = self._kind(), self._manifest.description
        wrong = wrong_fields(kind, description, self._manifest.shards[0]["fields"])
        if wrong is not None:
            raise ValueError(f"folder: {self.folder} {wrong}")
        # What was written had been checked; checking all of it again would read the whole file.
        read = lambda name: torch.from_numpy(self._map(places.get(name, _name(0, name))))  # noqa: E731
        return put_together(kind, description, read, check=False)


@dataclass
class _Manifest:
    key: str | None = None
    kind: str = ""
    description: Description = field(default_factory=dict)
    shared: str = ""
    """What names everything that does not run over points."""
    complete: bool = False
    shards: list[dict[str, Any]] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)  # of files by their names


def _read(folder: Path) -> _Manifest:
    path = folder / _MANIFEST
    with readable(path):
        found = unsealed(json.loads(path.read_text()))
        version = found.pop("format")
    if version != FORMAT:
        raise ValueError(
            f"folder: {folder} has format {version!r}, this natsel reads {FORMAT}; write it with this natsel"
        )
    with readable(path):
        return _Manifest(**found)


def _write(folder: Path, manifest: _Manifest) -> None:
    with atomically(folder / _MANIFEST) as place:
        place.write_text(json.dumps(sealed({"format": FORMAT, **vars(manifest)})) + "\n")


def _add(folder: Path, manifest: _Manifest, number: int, belief: Belief) -> None:
    """Write a shard's files, then name it in the manifest."""
    kind = type(belief).__name__
    tensors, description = taken_apart(belief)
    fingerprint, shared = _fingerprints(belief, tensors, description)
    if not manifest.shards:
        manifest.kind, manifest.description, manifest.shared = kind, description, shared
    first_id = manifest.description["draws_id"]
    if (kind, belief.draws_id) != (manifest.kind, first_id):
        raise ValueError(
            f"beliefs: shard {number} is {kind} from draws {belief.draws_id!r}, the first was {manifest.kind} from"
            f" {first_id!r}; one folder holds the predictions of one model"
        )
    fields = {}
    for name, tensor in tensors.items():
        if number > 0 and name not in over_points(type(belief)):
            continue
        array = tensor.numpy()
        with atomically(folder / _name(number, name)) as place, place.open("wb") as stream:
            np.lib.format.write_array(stream, array, allow_pickle=False)
        manifest.digests[_name(number, name)] = digest_of({"": np.memmap(folder / _name(number, name), mode="c")})
        fields[name] = [array.dtype.str, list(array.shape)]
    shard = {"points": len(belief), "fingerprint": fingerprint, "fields": fields}
    first = manifest.shards[0]["fields"] if manifest.shards else fields
    for name in over_points(type(belief)):
        (dtype, shape), (wanted, like) = fields[name], first[name]
        if dtype != wanted or (shape[1:] != like[1:] and name != IDS):
            raise ValueError(
                f"beliefs: {name} of shard {number} is {fields[name]}, of the first {first[name]}; all shards need the"
                " same type, draws and classes"
            )
    if manifest.shared != shared:
        raise ValueError(
            f"beliefs: shard {number} differs from the first in what all points share, such as weights of draws or"
            " labels seen; one folder holds one belief of one model"
        )
    for old in folder.glob("joined.*.npy"):
        old.unlink()
        manifest.digests.pop(old.name, None)
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


def _same(manifest: _Manifest, shard: dict[str, Any], belief: Belief) -> bool:
    fingerprint, shared = _fingerprints(belief, *taken_apart(belief))
    return fingerprint == shard["fingerprint"] and shared == manifest.shared


def _fingerprints(belief: Belief, tensors: dict[str, Tensor], description: Description) -> tuple[str, str]:
    """Of what runs over points or draws, and of all that points share."""
    kept = {name: tensors[name] for name in over_points(type(belief)) + belief.draws if name in tensors}
    shared = {name: tensors[name] for name in tensors if name not in over_points(type(belief))}
    return digest_of(kept), digest_of(shared, json.dumps(description))


def _name(number: int, field: str) -> str:
    return f"{number:05d}.{field}.npy"


def _other(folder: Path, what: str) -> ValueError:
    return ValueError(f"folder: {folder} already holds predictions {what}; name another folder or empty this one")
