"""Tensors beside a journal, as safetensors files named by the hash of their bytes.

The same tensors are the same file; a file is written whole or not at all, and what is read back must have the hash it
is named by.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from natsel.containers import atomically


class Artefacts:
    """Files in a folder, which is made when the first is written; without a folder they are kept in memory.

    >>> kept = Artefacts(None)
    >>> name, size = kept.write({"weights": torch.ones(2)})
    >>> kept.read(name)["weights"].tolist()
    [1.0, 1.0]
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._memory: dict[str, bytes] = {}

    def write(self, tensors: Mapping[str, Tensor]) -> tuple[str, int]:
        """Keep tensors; their hash, and how many bytes they take."""
        from safetensors.torch import save

        # Copies, because safetensors refuses tensors that share memory; in order, because the bytes name the file.
        plain = {
            name: tensors[name].detach().cpu().clone(memory_format=torch.contiguous_format) for name in sorted(tensors)
        }
        content = save(plain)
        name = hashlib.blake2b(content, digest_size=20).hexdigest()
        if self.folder is None:
            self._memory[name] = content
        elif not (path := self._path(name)).exists():
            self.folder.mkdir(exist_ok=True)
            with atomically(path) as place:
                place.write_bytes(content)
        return name, len(content)

    def read(self, name: str) -> dict[str, Tensor]:
        """The tensors of this hash."""
        from safetensors.torch import load

        content = self._memory.get(name)
        if content is None:
            path = self._path(name)
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                raise ValueError(f"store: {path} is missing; keep the folder beside the journal") from None
            if hashlib.blake2b(content, digest_size=20).hexdigest() != name:
                raise ValueError(f"store: {path} is damaged; take it from a backup, or remove it and its journal")
        tensors: dict[str, Tensor] = load(content)
        return tensors

    def _path(self, name: str) -> Path:
        return (self.folder or Path()) / f"{name}.safetensors"
