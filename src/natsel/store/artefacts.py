"""Tensors beside a journal, as safetensors files named by the hash of their bytes.

The same tensors are the same file; a file is written whole or not at all, and what is read back must have the hash it
is named by. They can all be made again from the labels: one that is missing or damaged is a reason to fit again, never
to stop.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from natsel.containers import atomically, own, remove_leftovers
from natsel.options import warn


def folder_of(journal: Path) -> Path:
    """The folder for the artefacts of a journal: `run.artefacts` for `run.db`, unless that is a file.

    >>> folder_of(Path("run.db")).name, folder_of(Path("run.artefacts")).name
    ('run.artefacts', 'run.artefacts.artefacts')
    """
    usual = journal.with_suffix(".artefacts")
    return journal.with_name(f"{journal.name}.artefacts") if usual == journal or usual.is_file() else usual


class Artefacts:
    """Files in a folder, which is made when the first is written; without a journal they are kept in memory.

    >>> kept = Artefacts(None)
    >>> name, size = kept.write({"weights": torch.ones(2)})
    >>> kept.read(name)["weights"].tolist()
    [1.0, 1.0]
    """

    def __init__(self, journal: Path | None) -> None:
        self.journal = journal
        self._memory: dict[str, bytes] = {}

    def write(self, tensors: Mapping[str, Tensor]) -> tuple[str, int]:
        """Keep tensors; their hash, and how many bytes they take."""
        from safetensors.torch import save

        # Copies, because safetensors refuses tensors that share memory; in order, because the bytes name the file.
        plain = {
            name: tensors[name].detach().cpu().clone(memory_format=torch.contiguous_format) for name in sorted(tensors)
        }
        content = save(plain)
        return self.take(content), len(content)

    def take(self, content: bytes) -> str:
        """Keep the bytes of a file, in place of a damaged one if there is one; their hash is returned."""
        name = _hash(content)
        if self.journal is None:
            self._memory[name] = content
        elif self.look(name) != "sound":
            path = self._path(name)
            try:
                own(path.parent).mkdir(exist_ok=True)
                remove_leftovers(path.parent)
                with atomically(path) as place:
                    place.write_bytes(content)
            except OSError as failure:
                raise OSError(
                    f"store: {path} cannot be written ({failure.strerror or failure}); labels are safe in the journal;"
                    " make room or allow writing, and call again"
                ) from None
        return name

    def content(self, name: str) -> bytes | None:
        """The bytes of this hash; None where they are missing or damaged."""
        content = self._memory.get(name)
        if content is None and self.journal is not None:
            try:
                content = self._path(name).read_bytes()
            except OSError:
                return None
        return content if content is not None and _hash(content) == name else None

    def look(self, name: str) -> str:
        """Whether what has this hash is sound, missing or damaged."""
        if self.content(name) is not None:
            return "sound"
        return "damaged" if self.journal is not None and self._path(name).is_file() else "missing"

    def read(self, name: str) -> dict[str, Tensor] | None:
        """The tensors of this hash; None, with a warning, where they are missing or damaged."""
        from safetensors.torch import load

        content = self.content(name)
        if content is None:
            warn(
                f"store: {self._path(name)} is {self.look(name)}; it is made again from the labels, which are safe in"
                " the journal"
            )
            return None
        tensors: dict[str, Tensor] = load(content)
        return tensors

    def _path(self, name: str) -> Path:
        # Looked up each time: a file may have taken the name of a folder that is not made yet.
        return (Path() if self.journal is None else folder_of(self.journal)) / f"{name}.safetensors"


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=20).hexdigest()
