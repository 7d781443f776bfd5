"""Examples: inputs with their labels, the value that passes between data, models and learners.

Inputs are anything with a length that an array of positions can index: arrays, tensors, memory maps, folders of images,
data frames (`natsel.data.frames`), or texts as an array of strings. Labels are classes 0..C−1 (−1: unknown; names are
turned into numbers), or real numbers for regression. Masks are facts about examples that no model sees (which are
copies, which labels are wrong); they follow their examples through every selection.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from natsel.data.frames import by_position
from natsel.data.labels import as_numpy, read_labels
from natsel.data.lazy import Lazy


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
        inputs = by_position(self.inputs)  # data frames index by other rules
        if isinstance(inputs, list | tuple) or hasattr(inputs, "to_numpy"):  # and so do columns
            inputs = as_numpy(inputs)
        object.__setattr__(self, "inputs", inputs)
        if self.labels is not None:
            labels, classes = read_labels(self.labels, self.classes)
            # A column of pandas gives memory that may not be written to, which torch would warn about.
            object.__setattr__(self, "labels", labels if labels.flags.writeable else labels.copy())
            object.__setattr__(self, "classes", classes)
        object.__setattr__(self, "masks", {name: as_numpy(mask) for name, mask in self.masks.items()})
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
            inputs=self.inputs.part(positions) if isinstance(self.inputs, Lazy) else self.inputs[positions],
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
        return int(self.labels.max()) + 1
