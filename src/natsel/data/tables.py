"""Tables in CSV and Parquet files: which columns are inputs, which one is the label, which one the ids.

    numbers without gaps          one float32 table [N, D], float64 where that alone holds all whole numbers
    one column of texts           texts
    anything else                 a data frame (extra `tables`): gaps, texts beside other columns, categories, dates

Without pandas, numbers with gaps become a float32 table with NaN in them, and texts beside other columns are refused.
Of a CSV file, a column of texts that repeat (at most 255 different ones, each twice or more on average) becomes one of
categories, which boosted trees read; other texts stay texts. An empty field is a gap. In a column that holds nothing
else but numbers the usual words for a gap (NA, null, ?) are gaps too; in a column of texts they are texts. What
spreadsheets leave of errors (#N/A) is a gap everywhere. Numbers are read as people write them (`written_numbers`).
"""

import csv
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from natsel.containers import bytes_of_lines, readable
from natsel.data.frames import Column, FrameRows, NamedColumns
from natsel.data.labels import Array, as_numpy, read_numbers
from natsel.data.written_numbers import parts_of, written_numbers
from natsel.ids import as_ids, refuse_repeats
from natsel.texts import cell_text

_ERRORS = frozenset(("", "#N/A", "#NV", "#DIV/0!", "#VALUE!", "#WERT!", "#REF!", "#NAME?", "#NUM!", "#NULL!"))
_GAPS = _ERRORS | {"NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "?"}
_MOST_CATEGORIES = 255  # what boosted trees take
_TRUTHS = {"True": True, "False": False, "true": True, "false": False, "TRUE": True, "FALSE": False}


@dataclass(frozen=True, eq=False)
class FileTable:
    """The columns of a file by name, and what makes a data frame of pandas of some of them."""

    columns: Mapping[str, Column]
    frame: Callable[[Sequence[str]], Any]


def read_csv(path: Path, texts: Iterable[str | None] = ()) -> FileTable:
    """A CSV file with a header line, numbers as numbers but for columns named in `texts`. What separates fields is
    found: a comma, a semicolon, a tab or a bar, whichever parts all rows alike.
    """
    text, separator = _text(path)
    lines = csv.reader(StringIO(text, newline=""), delimiter=separator, strict=True)
    fields: list[list[str]] = []
    uneven: list[tuple[int, int]] = []
    try:
        header = [name.strip() for name in next(lines, [])]
        if len(header) > 100_000:
            raise csv.Error(f"{len(header):,} fields, more than 100,000")
        # Column by column, a block of rows at a time: a million lists of rows would take long to make and to free.
        while not uneven and (block := list(islice(filter(None, lines), 1024))):
            fields = fields or [[] for _ in block[0]]
            rows = enumerate(block, len(fields[0]) + 1)
            uneven = [(number, len(row)) for number, row in rows if not len(header) <= len(row) == len(fields)]
            if not uneven:
                for column, part in zip(fields, zip(*block, strict=True), strict=True):
                    column.extend(part)
    except csv.Error as reason:
        raise ValueError(f"path: line {lines.line_num} of {path.name} is no CSV ({reason}); close its quotes") from None
    while len(fields) > 1 and fields[0] and not any(column[-1] for column in fields):  # as spreadsheets end
        fields = [column[:-1] for column in fields]
    while len(fields) > 1 and not any(fields[-1]) and not any(header[len(fields) - 1 :]):  # and lines do
        del fields[-1], header[len(fields) :]
    if uneven or len(fields) > len(header):
        number, found = (1, len(fields)) if len(fields) > len(header) else uneven[0]
        where = f"row {number} of {path.name} has {found} fields, the header {len(header)}"
        raise ValueError(f"path: {where}; put what holds a {separator!r} between double quotes")
    if not fields or not fields[0]:
        raise ValueError(f"path: {path.name} has no rows; write a line of names, and a row for each input")
    if twice := [name for name in header if header.count(name) > 1]:
        raise ValueError(f"path: two columns of {path.name} have the same name, {twice[0]!r}; rename one")
    kept = set(texts)
    columns = {
        name: _texts(column) if name in kept else _typed(column, separator)
        for name, column in zip(header, fields, strict=True)
    }

    def frame(names: Sequence[str]) -> Any:
        import pandas

        return pandas.DataFrame({name: values_of(_truths(columns[name])) for name in names})

    def values_of(column: Column) -> Any:
        import pandas

        if _is_numeric(column):
            return _numbers(column)
        return pandas.Categorical(column.objects()) if holds_categories(column) else column.objects()

    return FileTable(columns, frame)


def _text(path: Path) -> tuple[str, str]:
    """A file of text from its header on, and what separates its fields."""
    with readable(path):
        data = bytes_of_lines(path)
        code = "utf-16" if data[:2] in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8-sig"
        text = data.decode(code, "surrogateescape")
    if strange := re.search("[\0\udc80-\udcff]", text):
        line = text.count("\n", 0, strange.start()) + 1
        raise ValueError(f"path: line {line} of {path.name} is no text in UTF-8; save the table as CSV in UTF-8")
    if said := re.match(r'"?sep=(.)"?\r?\n', text):  # as Excel writes and reads
        return text[said.end() :], said[1]
    lengths: dict[str, list[int]] = {}
    for one in "\t,;|" if path.suffix.lower() == ".tsv" else ",;\t|":
        with suppress(csv.Error):
            rows = filter(None, csv.reader(StringIO(text, newline=""), delimiter=one, strict=True))
            lengths[one] = [len(row) for row in islice(rows, 99)]
    several = [one for one, found in lengths.items() if found and found[0] > 1]
    even = [one for one in several if len(set(lengths[one])) == 1]
    if len(even) > 1:
        found = f"by {even[0]!r} or by {even[1]!r}; say which in a first line, sep={even[0]}"
        raise ValueError(f"path: {path.name} may be separated {found}")
    return text, (even or several or [","])[0]


def read_parquet(path: Path) -> FileTable:
    """A Parquet file."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Parquet files need pyarrow; install natsel[parquet]") from None
    with readable(path):
        table = parquet.read_table(path)

    def column(name: str) -> Column:
        found = table.column(name)
        gaps_N = found.is_null().to_numpy()
        if pyarrow.types.is_boolean(found.type) or pyarrow.types.is_integer(found.type):
            values_N = found.fill_null(False if pyarrow.types.is_boolean(found.type) else 0).to_numpy()
            return Column(values_N.dtype.name, values_N, gaps_N)
        values_N = as_numpy(found.to_numpy())
        if values_N.dtype.kind == "f":
            return Column(values_N.dtype.name, values_N, np.isnan(values_N))
        return Column({"M": "date", "m": "duration"}.get(values_N.dtype.kind, "text"), values_N, gaps_N)

    # The index that pandas notes in a file would take its columns out of the table.
    return FileTable(
        {name: column(name) for name in table.column_names},
        lambda names: table.select(list(names)).to_pandas(ignore_metadata=True),
    )


def inputs_of(table: FileTable, wanted: Sequence[str]) -> Array | FrameRows:
    """The columns that are inputs, in the simplest form that holds them."""
    if not wanted:
        raise ValueError("inputs: no column is left for the inputs; name one")
    if "" in wanted:
        raise ValueError("inputs: a column has no name; give it one in the header, or say ids='' or inputs=[…]")
    columns = {name: _truths(table.columns[name]) for name in wanted}
    others = [name for name, column in columns.items() if not _is_numeric(column)]
    for name in others:
        written_numbers(columns[name].objects().tolist(), f"inputs: column {name!r}")  # a doubt is refused
    alone = columns[wanted[0]]
    if others and len(wanted) == 1 and alone.kind == "text":
        values_N = alone.objects()
        if len(values_N) and isinstance(alone.values[0], np.ndarray):  # a list of numbers per row: embeddings
            return np.stack(alone.values.tolist()).astype(np.float32)
        return values_N
    if others or any(column.gaps_N.any() for column in columns.values()):
        try:
            return FrameRows(table.frame(wanted))
        except ImportError:
            if others:
                raise ImportError(
                    f"inputs: column {others[0]!r} holds {columns[others[0]].kind}s beside other columns, for which"
                    " natsel uses a data frame; install natsel[tables], or name the columns to use"
                ) from None
    numbers = [_numbers(one) for one in columns.values()]
    # Whole numbers beyond 16,777,216, such as dates, would become equal in float32.
    large = any(((one % 1 == 0) & (one.astype(np.float32) != one)).any() for one in numbers)
    return NamedColumns(np.stack([one.astype("f8" if large else "f4") for one in numbers], axis=1), wanted)


def labels_of(column: Column, name: str, regression: bool | None, classes: Sequence[str] = ()) -> Array:
    """A column as labels, gaps as unknown ones: −1 among classes, NaN among numbers, None among names.

    Whole numbers with gaps are classes, also where a program has written them as 1.0, unless `regression` says that
    labels are real numbers, or not yet what they are (None). A text among numbers and a word for a gap are no names,
    but for those of `classes`.

    >>> labels_of(Column("float64", np.array([1.0, np.nan]), np.array([False, True])), "kind", False)
    array([ 1, -1])
    """
    said = f"labels: column {name!r}"
    if column.kind in ("date", "duration"):
        raise ValueError(f"{said} holds {column.kind}s; name one of classes or numbers")
    if not _is_numeric(column):
        if regression:
            return read_numbers(column.objects(), said, first=1)
        written_numbers(column.objects().tolist(), said)  # a doubt is refused
        texts = {row: one for row, one in enumerate(column.objects().tolist(), 1) if isinstance(one, str)}
        odd = [row for row, one in texts.items() if one.strip() and not parts_of(one)[2]]
        odd = odd if 2 * len(odd) < len(texts) else [row for row, one in texts.items() if one in _GAPS]
        if odd and not classes:
            found = f"{texts[odd[0]]!r} in row {odd[0]}, which may be a gap or a slip"
            raise ValueError(f"{said} holds {found}; empty the field or correct it, or name all classes=(…)")
        return column.objects()
    known, gaps = column.values[~column.gaps_N], bool(column.gaps_N.any())
    real = known.dtype.kind == "f" and not (gaps and np.array_equal(known, np.round(known)))
    if regression or (regression is None and gaps) or real:
        return _numbers(column).astype(np.float64)
    return np.where(column.gaps_N, -1, column.values).astype(np.int64)


def ids_of(column: Column, name: str) -> Array:
    """A column as ids: whole numbers where all are written as such, else texts; a gap is refused.

    >>> ids_of(Column("text", np.array(["7", "12"], dtype=object), np.array([False, False])), "id")
    array([ 7, 12])
    """
    if column.gaps_N.any():
        row = int(np.flatnonzero(column.gaps_N)[0]) + 1
        raise ValueError(f"ids: column {name!r} has a gap in row {row}; give every row an id of its own")
    refuse_repeats(as_ids(column.values), f"ids: column {name!r}", first=1)
    if np.issubdtype(column.values.dtype, np.integer):
        return column.values.astype(np.int64)
    texts = list(map(str, column.objects().tolist()))
    try:
        numbers = np.array(list(map(int, texts)), dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(texts, dtype=object)
    return numbers if list(map(str, numbers.tolist())) == texts else np.array(texts, dtype=object)  # 007 is no number


def require_names(columns: Iterable[str], wanted: Iterable[str]) -> None:
    """Refuse names that no column has, with the nearest one that there is."""
    there = list(columns)
    for name in wanted:
        if name not in there:
            close = get_close_matches(str(name), list(map(str, there)), n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(map(str, there))}"
            raise ValueError(f"columns: there is no column {name!r}; {hint}")


def holds_categories(column: Column) -> bool:
    """Whether a column of texts is one of categories: at most 255 different ones, each twice or more on average.

    >>> holds_categories(Column("text", np.array(["red", "blue"] * 2, dtype=object), np.zeros(4, dtype=bool)))
    True
    """
    known = column.values[~column.gaps_N].tolist()
    different = len(set(known))
    return different <= _MOST_CATEGORIES and 2 * different <= len(known)


def _is_numeric(column: Column) -> bool:
    return column.values.dtype.kind in "biuf"


def _numbers(column: Column) -> Array:
    """The numbers of a column, in float with NaN where some are missing."""
    if not column.gaps_N.any():
        return column.values
    return np.where(column.gaps_N, np.nan, column.values)


def _truths(column: Column) -> Column:
    """A column of the words true and false as such; any other as it is."""
    if column.kind != "text" or not all(type(value) is str for value in column.values[~column.gaps_N][:1]):
        return column
    found = [_TRUTHS.get(value) if type(value) is str else None for value in column.values.tolist()]
    if any(truth is None and not gap for truth, gap in zip(found, column.gaps_N.tolist(), strict=True)):
        return column
    return column if column.gaps_N.all() else Column("bool", np.array(found, dtype=bool), column.gaps_N)


def _typed(fields: Sequence[str], separator: str) -> Column:
    """A column as whole numbers, as real ones or as texts. Numbers whose form leaves a doubt are texts, and refused
    where they are used; between semicolons 1.046 is one, as a comma marks decimals there.
    """
    gaps_N, found = np.array(list(map(_GAPS.__contains__, fields))), None
    with suppress(ValueError, OverflowError):
        found = _of_numbers(["0" if field in _GAPS else field for field in fields] if gaps_N.any() else fields, gaps_N)
    if found is None or (separator == ";" and found.kind == "float64"):
        try:
            values_N = written_numbers([None if field in _GAPS else field for field in fields], "")
        except ValueError:
            return Column("text", _texts(fields).values, gaps_N)
        found = found if values_N is None else Column(values_N.dtype.name, values_N, gaps_N)
    return found or _texts(fields)


def _of_numbers(fields: Sequence[str], gaps_N: Array) -> Column:
    if "_" in "".join(fields):
        raise ValueError("Python would read 1_000 as a number")
    try:
        return Column("int64", np.fromiter(map(int, fields), dtype=np.int64, count=len(fields)), gaps_N)
    except (ValueError, OverflowError):
        values_N = np.fromiter(map(float, fields), dtype=np.float64, count=len(fields))
        return Column("float64", values_N, gaps_N | np.isnan(values_N))


def _texts(fields: Sequence[str]) -> Column:
    values_N = np.empty(len(fields), dtype=object)
    values_N[:] = list(map(cell_text, fields))
    return Column("text", values_N, np.array(list(map(_ERRORS.__contains__, fields))))
