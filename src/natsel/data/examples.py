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

from natsel.data.frames import FrameRows, by_position, require_columns
from natsel.data.labels import as_numpy, read_labels, read_numbers
from natsel.data.lazy import Lazy
from natsel.options import Rows


@dataclass(frozen=True)
class InputForm:
    """The form of the inputs of a fit: the names of their columns, in their order, and the numbers of pictures.

    >>> import pandas
    >>> form = InputForm.of(pandas.DataFrame({"age": [41], "arm": [1]}))
    >>> form.read(pandas.DataFrame({"arm": [0], "age": [29]})).names
    ('age', 'arm')
    """

    names: tuple[Any, ...] = ()
    is_frame: bool = False
    pictures: str = ""

    @classmethod
    def of(cls, inputs: Any) -> Self:
        """The form that inputs have; what would have to be read for it is not."""
        rows = by_position(inputs)
        one = as_numpy(rows[:1]) if isinstance(rows, list | tuple) else rows
        kind = str(getattr(one, "dtype", "")).removeprefix("torch.") if getattr(one, "ndim", 0) > 2 else ""
        pictures = "bytes" if kind == "uint8" else "whole numbers" if kind.startswith(("int", "uint")) else ""
        return cls(getattr(rows, "names", ()), isinstance(rows, FrameRows), pictures)

    def read(self, inputs: Any) -> Any:
        """Inputs with their columns in the order of the fit; refused where they have others, or others of pictures."""
        rows, found = by_position(inputs), InputForm.of(inputs)
        if self.is_frame and not found.is_frame:
            wanted = ", ".join(map(str, self.names[:12]))
            raise ValueError(f"inputs: fitted to a data frame, found none; pass one with the columns {wanted}")
        if self.pictures and found.pictures and self.pictures != found.pictures:
            one, two = (f"pictures in {form.pictures}" for form in (self, found))
            raise ValueError(f"inputs: fitted to {one}, found {two}, and bytes alone are divided by 255; pass one type")
        if self.names and found.names and self.names != found.names:
            require_columns(rows, self.names)
            return rows.with_columns(self.names)
        return rows


def as_examples(value: Any, name: str = "labelled", *, numbers: bool = False) -> "Examples":
    """Examples from whatever holds labelled ones: examples, a pair (inputs, labels), of which a table's labels may be
    the name of a column, or a torch data set. `numbers`: the labels are real numbers.

    >>> as_examples(([[0.0], [1.0]], ["dog", "cat"])).labels
    array([1, 0])
    """
    from natsel.data.any_source import examples_from

    pair, found = isinstance(value, tuple | list) and len(value) == 2, value
    no_dataset = hasattr(value, "ndim") or isinstance(value, tuple | list | str | type) or not hasattr(value, "__len__")
    if no_dataset and not pair:
        kind = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
        raise ValueError(f"{name}: expected natsel.Examples or a pair (inputs, labels), found {kind}; pass one")
    try:
        if not isinstance(value, Examples):
            came = examples_from(*(value if pair else (value,)), regression=numbers or None)
            labels = read_numbers(came.labels) if numbers and came.labels is not None else came.labels
            found = Examples(came.inputs, labels, came.classes)
        if found.labels is None and len(found):
            raise ValueError("found no labels; pass natsel.Examples(inputs, labels)")
        shape = np.shape(found.labels)
        if len(shape) == 2 and (shape[1] == 1 or found.labels.dtype.kind != "f"):
            raise ValueError(f"expected one label for each of {len(found)} inputs, found shape {shape}; pass a vector")
    except ValueError as reason:
        raise ValueError(f"{name}: {reason}") from None
    examples: Examples = found
    return examples


def as_labelled(labelled: Any, validation: Any = None) -> "tuple[Examples, Examples | None]":
    """What a model is fitted to, and what it is validated by: its classes as numbered, its columns as ordered there."""
    found = as_examples(labelled)
    if not len(found):
        raise ValueError("labelled: found no examples, so there is nothing to learn from; label some points first")
    if validation is None:
        return found, None
    others = numbered_like(as_examples(validation, "validation"), found.classes)
    inputs = InputForm.of(found.inputs).read(others.inputs)
    return found, others if inputs is others.inputs else replace(others, inputs=inputs)


def numbered_like(examples: "Examples", classes: tuple[str, ...]) -> "Examples":
    """Examples whose classes have the numbers that they have among `classes`; classes that are not there come after.

    >>> numbered_like(Examples([[0.0]], ["cat"], classes=("cat", "dog")), ("dog", "cat")).labels
    array([1])
    """
    if not classes or not examples.classes or examples.classes == classes:
        return examples
    order = (*classes, *(name for name in examples.classes if name not in classes))
    number_of = {name: number for number, name in enumerate(order)}
    new_C = np.array([number_of[name] for name in examples.classes] + [-1])  # −1, unknown, stays unknown
    return replace(examples, labels=new_C[examples.labels], classes=order)


@dataclass(frozen=True, eq=False)
class Examples:
    """N inputs, their labels (None: unknown), the names of the classes, and masks over them.

    >>> some = Examples(np.zeros((3, 2)), np.array([0, 1, 1]), classes=("cat", "dog"))
    >>> len(some[[0, 2]]), some.n_classes
    (2, 2)
    >>> inputs, labels = some
    """

    inputs: Rows
    labels: Rows = None
    classes: tuple[str, ...] = ()
    masks: Mapping[str, Rows] = field(default_factory=dict)

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
