"""Tables in CSV and Parquet files: which columns are inputs, which one is the label.

Numeric columns become one float32 table; a single column of text becomes texts. What cannot be used (gaps, text among
numbers) is refused by name, never dropped silently.
"""

import csv
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from natsel.containers import readable
from natsel.data.labels import Array, as_numpy

Columns = Mapping[str, Array]


def read_csv(path: Path) -> Columns:
    """The columns of a CSV file with a header line (tabs in a `.tsv` file), numbers as numbers."""
    with readable(path), path.open(newline="", encoding="utf-8-sig") as stream:
        lines = csv.reader(stream, delimiter="\t" if path.suffix == ".tsv" else ",")
        header = next(lines, [])
        rows = [row for row in lines if row]
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise ValueError(f"path: row {number} of {path.name} has {len(row)} fields, the header {len(header)}")
    if len(set(header)) < len(header):
        raise ValueError(f"path: two columns of {path.name} have the same name; rename one")
    fields = zip(*rows, strict=True) if rows else [()] * len(header)
    return {name: _numbers(list(column)) for name, column in zip(header, fields, strict=True)}


def read_parquet(path: Path) -> Columns:
    """The columns of a Parquet file."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Parquet files need pyarrow; install natsel[parquet]") from None
    with readable(path):
        table = parquet.read_table(path)
        return {name: as_numpy(table.column(name).to_numpy()) for name in table.column_names}


def choose(columns: Columns, inputs: str | Sequence[str] | None, labels: str | None) -> tuple[Array, Array | None]:
    """Inputs and labels from columns; without a word about inputs, all columns but the label's."""
    wanted = [inputs] if isinstance(inputs, str) else list(inputs or (name for name in columns if name != labels))
    for name in [*wanted, *([labels] if labels is not None else [])]:
        if name not in columns:
            close = get_close_matches(name, columns, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(columns)}"
            raise ValueError(f"columns: there is no column {name!r}; {hint}")
    if not wanted:
        raise ValueError("inputs: no column is left for the inputs; name one")
    texts = [name for name in wanted if columns[name].dtype.kind == "O"]
    if texts and len(wanted) == 1:
        table = columns[wanted[0]]
        if len(table) and isinstance(table[0], np.ndarray):  # a list of numbers per row: embeddings
            table = np.stack(table.tolist()).astype(np.float32)
    elif texts:
        raise ValueError(f"inputs: column {texts[0]!r} holds text; name the columns to use, numbers or one text")
    else:
        table = np.stack([columns[name].astype(np.float32) for name in wanted], axis=1)
        if np.isnan(table).any():
            row, column = np.argwhere(np.isnan(table))[0]
            raise ValueError(f"inputs: column {wanted[column]!r} has a gap in row {row + 1}; fill it or leave it out")
    return table, None if labels is None else columns[labels]


def _numbers(column: list[str]) -> Array:
    """A column as whole numbers, as real ones (an empty field is a gap) or as it stands."""
    for kind, gap in ((int, None), (float, "nan")):
        try:
            return np.array([kind(gap if not field and gap else field) for field in column])
        except (ValueError, OverflowError):
            continue
    return np.array([field or None for field in column], dtype=object)
