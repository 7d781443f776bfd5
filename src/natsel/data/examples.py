"""Examples: inputs with their labels, the value that passes between data, models and learners.

Inputs are anything with a length that a list of positions can index: arrays, tensors, memory maps, or texts as an
array of strings. Labels are classes 0..C−1, or real numbers for regression. Masks are facts about examples that no
model sees (which are copies, which labels are wrong); they follow their examples through every selection.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np


@dataclass(frozen=True, eq=False)
class Examples:
    """N inputs, their labels (None: unknown), the names of the classes, and masks over them.

    >>> some = Examples(np.zeros((3, 2)), np.array([0, 1, 1]), classes=("cat", "dog"))
    >>> len(some[[0, 2]]), some.n_classes
    (2, 2)
    >>> inputs, labels = some
    """

    inputs: Any
    labels: Any = None
    classes: tuple[str, ...] = ()
    masks: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.inputs, list | tuple):
            texts = len(self.inputs) > 0 and isinstance(self.inputs[0], str)
            object.__setattr__(self, "inputs", np.array(self.inputs, dtype=object if texts else None))
        count = len(self.inputs)
        for name, column in {"labels": self.labels, **self.masks}.items():
            if column is not None and len(column) != count:
                raise ValueError(f"{name}: expected one for each of {count} inputs, found {len(column)}")

    def __len__(self) -> int:
        return len(self.inputs)

    def __iter__(self) -> Iterator[Any]:
        yield self.inputs
        yield self.labels

    def __getitem__(self, positions: Any) -> Self:
        """The examples at some positions, a slice or a mask."""
        if isinstance(positions, list):
            positions = np.array(positions, dtype=bool if positions and isinstance(positions[0], bool) else np.int64)
        return replace(
            self,
            inputs=self.inputs[positions],
            labels=None if self.labels is None else self.labels[positions],
            masks={name: mask[positions] for name, mask in self.masks.items()},
        )

    @property
    def n_classes(self) -> int:
        """How many classes there are: by their names, else by the largest label."""
        if self.classes:
            return len(self.classes)
        if self.labels is None or len(self.labels) == 0:
            raise ValueError("labels: the number of classes is unknown without labels; pass classes=(…) by name")
        return int(np.max(np.asarray(self.labels))) + 1
