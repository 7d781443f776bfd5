"""A data set: what to learn from, what to be judged by, and what kind of inputs it has."""

from dataclasses import dataclass
from typing import Literal

from natsel.data.examples import Examples
from natsel.data.transforms import split
from natsel.seeds import derive

Kind = Literal["image", "text", "table"]


@dataclass(frozen=True, eq=False)
class DataSet:
    """Examples to train on, to test on, and to validate with where the set comes with such a part."""

    name: str
    train: Examples
    test: Examples
    validation: Examples | None
    kind: Kind
    about: str

    def __repr__(self) -> str:
        checked = "" if self.validation is None else f"{len(self.validation)} validation, "
        return f"DataSet({self.name!r}: {len(self.train)} train, {checked}{len(self.test)} test; {self.about})"


def fixed_split(name: str, examples: Examples, share: float = 0.2) -> tuple[Examples, Examples]:
    """Train and test parts of a set that comes without: always the same ones, by the set's name.

    >>> import numpy as np
    >>> [len(part) for part in fixed_split("a", Examples(np.zeros(10)))]
    [8, 2]
    """
    train, test = split(examples, (None, round(share * len(examples))), derive(0, "data", name))
    return train, test
