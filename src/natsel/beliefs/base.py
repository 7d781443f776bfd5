"""What every belief shares: it is a frozen value over N points that can be sliced, moved, saved and loaded.

A belief declares which of its fields run over points, which belong to the draws (or to the weights: a precision), and
which are words (`named`); slicing, moving and storing follow from that. Its ids travel with its points, so that a pick
from a slice still names the user's own datum.
"""

from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from natsel.beliefs.arrays import as_device, as_indices


class Belief:
    """Base of the beliefs; see `natsel.CategoricalSamples` for the usual one."""

    points: ClassVar[tuple[str, ...]] = ()
    draws: ClassVar[tuple[str, ...]] = ()
    named: ClassVar[tuple[str, ...]] = ()

    ids_N: Tensor
    draws_id: str | None

    def __len__(self) -> int:
        return self.ids_N.shape[0]

    def __getitem__(self, which: Any) -> Self:
        """The belief about some of the points, by position: a slice, integers or a mask. Ids come along."""
        if isinstance(which, slice) and (which.step or 1) < 0:  # torch has no views that run backwards
            which = list(range(*which.indices(len(self))))
        index = which if isinstance(which, slice) else as_indices(which, len(self), self.device)
        return self._trusted(**{name: getattr(self, name)[index] for name in self.points})

    @property
    def device(self) -> torch.device:
        """Where the numbers lie."""
        return self.ids_N.device

    def with_ids(self, ids_N: Any) -> Self:
        """The same belief about points that go by these ids."""
        from natsel.beliefs.draws import checked_ids

        return self._trusted(ids_N=checked_ids(ids_N, len(self), self.device))

    def to(self, device: torch.device | str) -> Self:
        """The same belief on another device."""
        device = as_device(device)
        return self._trusted(**{name: getattr(self, name).to(device) for name in self.points + self.draws})

    def save(self, path: str | Path) -> None:
        """Write every field to `.safetensors` or `.npz`; nothing is pickled."""
        from natsel.beliefs.files import save

        save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read back what `save` wrote."""
        from natsel.beliefs.files import load

        belief = load(path)
        if not isinstance(belief, cls):
            raise ValueError(f"path: {path} holds {type(belief).__name__}, not {cls.__name__}; load it as that")
        return belief

    def _trusted(self, **changes: Tensor) -> Self:
        """A copy with changed fields that need no second check (parts of what was checked before)."""
        other = object.__new__(type(self))
        for field in fields(self):  # type: ignore[arg-type]
            object.__setattr__(other, field.name, changes.get(field.name, getattr(self, field.name)))
        return other

    def _set(self, **values: Any) -> None:
        """Fill fields of a frozen dataclass while it is being made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)
