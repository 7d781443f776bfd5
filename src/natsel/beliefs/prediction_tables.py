"""Predictions in tables, `.csv` or `.parquet`: a row for each (point, draw), a column for each class.

    id,draw,p0,p1            rows in any order; columns `id` (integers, or names) and `draw`, then p0..pC−1
    17,0,0.9,0.1             or, under other names, all remaining columns as classes in the order they stand

Means of a regressor have one column besides, or a row for each point and a column for each draw:

    id,draw,mean             id,tree0,tree1
    17,0,2.5                 17,2.5,2.25

Every id must have the same draws, each once. Points come out in ascending order of id, so that the order of
rows in the file never decides a tie.
"""

import csv
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from natsel.containers import readable
from natsel.texts import cell_text

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Columns:
    """Which columns hold what; `draw` is None for a table of one draw."""

    classes: tuple[str, ...]
    draw: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that are read."""
        return ("id", *((self.draw,) if self.draw else ()), *self.classes)


def read_table(path: Path, single_draw: bool) -> tuple[Array, Array]:
    """The values [N, K, C] and ids [N] of a table."""
    return _read(path, single_draw)[1:]


def read_means_table(path: Path) -> tuple[Array, Array]:
    """The means [N, K] and ids [N] of a table with a column `draw` and one of means, or with one column per draw."""
    columns, value_N_K_C, ids_N = _read(path, single_draw=True)
    if columns.draw is None:
        return value_N_K_C[:, 0], ids_N
    if len(columns.classes) > 1:
        found = ", ".join(columns.classes[:8])
        raise ValueError(f"path: {path} should have one column of means beside id and draw, found {found}; drop others")
    return value_N_K_C[..., 0], ids_N


def _read(path: Path, single_draw: bool) -> tuple[Columns, Array, Array]:
    columns, table = (_read_parquet if path.suffix == ".parquet" else _read_csv)(path, single_draw)
    id_R = table["id"]
    if len(id_R) == 0:
        raise ValueError(f"path: {path} has a header and no rows; write one row for each id and draw")
    draw_R = table[columns.draw] if columns.draw else np.zeros(len(id_R), dtype=np.int64)
    return columns, *_stacked(id_R, draw_R, np.stack([table[name] for name in columns.classes], axis=1))


def _columns(path: Path, names: list[str], single_draw: bool) -> Columns:
    missing = [name for name in ("id", "draw") if name not in names and not (single_draw and name == "draw")]
    if missing:
        found = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
        remedy = ""
        if missing == ["draw"]:
            remedy = "; one draw is read with --single-draw (single_draw=True), columns of a regressor with --means"
        raise ValueError(f"path: {path} needs columns id, draw and one per class, found {found or 'none'}{remedy}")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"path: {path} has the column {twice[0]!r} twice; rename one")
    numbered = sorted((int(name[1:]), name) for name in names if re.fullmatch(r"p\d+", name))
    last = len(numbered) - 1
    if numbered and [number for number, _ in numbered] != list(range(last + 1)):
        raise ValueError(f"path: {path} has {last + 1} class columns but not p0..p{last}; renumber them")
    rest = tuple(name for name in names if name not in ("id", "draw"))
    if not rest:
        raise ValueError(f"path: {path} has no class columns; add p0, p1 and so on")
    return Columns(tuple(name for _, name in numbered) or rest, "draw" if "draw" in names else None)


def _read_csv(path: Path, single_draw: bool) -> tuple[Columns, dict[str, Array]]:
    with readable(path), path.open(newline="", encoding="utf-8-sig") as file:
        header = [name.strip() for name in next(csv.reader([file.readline(1 << 23)]), [])]
    columns = _columns(path, header, single_draw)
    try:
        return columns, _read_rows(path, header, columns, np.int64)
    except (ValueError, Warning):
        try:
            return columns, _read_rows(path, header, columns, object)  # names
        except (ValueError, Warning) as reason:
            raise _diagnosis(path, columns, reason) from None


def _read_rows(path: Path, header: list[str], columns: Columns, id_type: type) -> dict[str, Array]:
    used = [name for name in header if name in columns.names]
    # Integers apart from floats: an id above 2^53 would change as a float.
    kinds = [np.float64 if name in columns.classes else id_type if name == "id" else np.int64 for name in used]
    dtype = np.dtype([(f"f{i}", kind) for i, kind in enumerate(kinds)])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy reads 1.5 as the integer 1 with a mere warning
            table_R = np.loadtxt(
                path,
                dtype=dtype,
                delimiter=",",
                comments=None,
                skiprows=1,
                # Given only where needed: with it, NumPy takes rows of any length.
                usecols=[header.index(name) for name in used] if len(used) < len(header) else None,
                quotechar='"',
                encoding="utf-8-sig",
                ndmin=1,
            )
    except Warning as reason:
        if "contained no data" not in str(reason):
            raise
        table_R = np.empty(0, dtype)
    rows = {name: table_R[f"f{i}"] for i, name in enumerate(used)}
    if id_type is object and not all(map(_is_id, rows["id"])):
        raise ValueError("an id is empty or a number with a point")
    return rows | ({"id": np.array([*map(cell_text, rows["id"])], dtype=object)} if id_type is object else {})


def _diagnosis(path: Path, columns: Columns, reason: Exception) -> ValueError:
    """Which line of a CSV file is wrong, found again slowly because NumPy's own words are about dtypes."""
    with readable(path), path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file)
        header = [name.strip() for name in next(lines, [])]
        for line in lines:
            if line and len(line) != len(header):
                found = f"{len(line)} values under {len(header)} columns"
                return ValueError(f"path: {path} line {lines.line_num} has {found}; complete the row")
            for name, text in zip(header, line, strict=False):
                if name not in columns.names or _parses(text, float if name in columns.classes else int):
                    continue
                if name == "id" and _is_id(text):
                    continue
                kind = "a number" if name in columns.classes else "an integer"
                kind += " or a name" if name == "id" else ""
                where = f"line {lines.line_num}, column {name}"
                return ValueError(
                    f"path: {path} {where} should hold {kind}, found {text!r};"
                    " correct it, or call the class columns p0, p1 and so on"
                )
    found = " ".join(str(reason).split())
    return ValueError(f"path: {path} could not be read as a table ({found}); check the file")


def _is_id(text: str) -> bool:
    """Whether a text names a point. Numbers with a point are refused: 7.0 would be another id than 7."""
    return bool(text.strip()) and (_parses(text, int) or not _parses(text, float))


def _parses(text: str, kind: type[int] | type[float]) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path, single_draw: bool) -> tuple[Columns, dict[str, Array]]:
    try:
        from pyarrow import parquet, types
    except ImportError:
        raise ImportError("path: reading .parquet needs pyarrow; pip install 'natsel[parquet]'") from None
    with readable(path), parquet.ParquetFile(path) as file:
        header = list(file.schema_arrow.names)
    columns = _columns(path, header, single_draw)
    with readable(path), parquet.ParquetFile(path) as file:
        table = file.read(columns=list(columns.names))
    for name in columns.names:
        column = table.column(name)
        whole, real = types.is_integer(column.type), types.is_floating(column.type)
        if column.null_count:
            raise ValueError(f"path: {path} has empty cells in column {name}; fill them or drop the rows")
        text = name == "id" and (types.is_string(column.type) or types.is_large_string(column.type))
        if not whole and not text and not (real and name in columns.classes):
            wanted = "numbers" if name in columns.classes else "integers"
            raise ValueError(
                f"path: {path} column {name} should hold {wanted}, found {column.type};"
                " convert it, or call the class columns p0, p1 and so on"
            )
    return columns, {name: table.column(name).to_numpy() for name in columns.names}


def _stacked(id_R: Array, draw_R: Array, value_R_C: Array) -> tuple[Array, Array]:
    """Rows of (id, draw) as [N, K, C], or a refusal that names an id whose draws differ from the others'."""
    ids_N, place_R, count_N = np.unique(id_R, return_inverse=True, return_counts=True)
    order_R = np.lexsort((draw_R, place_R))
    place_R, draw_R = place_R[order_R], draw_R[order_R]
    twice = ((place_R[1:] == place_R[:-1]) & (draw_R[1:] == draw_R[:-1])).nonzero()[0]
    if len(twice):
        row = twice[0]
        raise ValueError(f"id: point {ids_N[place_R[row]]} has draw {draw_R[row]} twice; every (id, draw) is one row")
    draws_K = np.unique(draw_R)
    short = (count_N != len(draws_K)).nonzero()[0]
    if len(short):  # no (id, draw) is there twice, so an id with too few draws lacks one of the others'
        lacks = np.setdiff1d(draws_K, draw_R[place_R == short[0]])[0]
        raise ValueError(
            f"id: point {ids_N[short[0]]} has no draw {lacks}, unlike others; every id needs the same draws"
        )
    return value_R_C[order_R].reshape(len(ids_N), len(draws_K), -1), ids_N
