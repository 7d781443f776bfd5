"""Rows of named values for people and other programs: a file of comma-separated values, or a data frame of pandas."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from natsel.containers import atomically
from natsel.texts import csv_lines

Row = dict[str, Any]


class Tabular(ABC):
    """Something that is a table as well: it says its `rows`, and the names of its columns."""

    @abstractmethod
    def columns(self) -> Sequence[str]:
        """The names of the columns, in order."""

    @abstractmethod
    def rows(self) -> Sequence[Row]:
        """The rows, each with a value for every column; None where there is none."""

    def to_frame(self) -> Any:
        """The rows as a data frame of pandas (extra `tables`)."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_frame needs pandas; install natsel[tables], or use to_csv(path)") from None
        return pandas.DataFrame(list(self.rows()), columns=list(self.columns()))

    def to_csv(self, path: str | Path) -> None:
        """Write the rows to a file, all or nothing: a line of names, then a line per row, with every number in full.

        >>> import tempfile
        >>> from natsel import CategoricalSamples, select
        >>> selection = select("entropy", CategoricalSamples.from_probs([[[0.5, 0.5]]], ids=["a.png"]), k=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     selection.to_csv(f"{folder}/picks.csv")
        ...     Path(f"{folder}/picks.csv").read_text().split(",")[:3]
        ['rank', 'id', 'score']
        """
        with atomically(path) as place, place.open("w", encoding="utf-8", newline="") as stream:
            stream.writelines(csv_lines(self.columns(), self.rows()))
