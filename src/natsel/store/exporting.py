"""Labels as rows for people and other programs: `.csv` or `.json`."""

import csv
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from natsel.containers import atomically
from natsel.store import queries
from natsel.store.checking import whole_until
from natsel.store.failures import FAILURES, explaining
from natsel.store.history import Label, Run
from natsel.store.state import RunState

Row = dict[str, Any]
COLUMNS = ("run", "id", "value", "class", "who", "at", "ask", "superseded")


def label_rows(database: sqlite3.Connection) -> list[Row]:
    """Every label of every run in the order told; all of an id but the one that counts are superseded."""
    runs = queries.runs(database)
    return [
        row for one in runs for row in rows_of(one, queries.labels(database, one.run), queries.state(database, one))
    ]


def salvage(journal: str | Path, path: str | Path) -> int:
    """Write what labels can be read from a damaged journal, which is left as it is; how many they are is returned.

    The column `sound` says which of them are as they were written for certain.

    >>> salvage("none.db", "labels.csv")
    Traceback (most recent call last):
    ValueError: journal: there is no file none.db; check the name
    """
    if not Path(journal).is_file():
        raise ValueError(f"journal: there is no file {journal}; check the name")
    with explaining(journal, 0):
        rows = _salvaged(Path(journal))
    write_rows(rows, path)
    return len(rows)


def write_rows(rows: Sequence[Row], path: str | Path) -> None:
    """Write rows to a `.csv` or `.json` file, all or nothing.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_rows([{"id": 3, "value": 1}], f"{folder}/labels.csv")
    ...     Path(f"{folder}/labels.csv").read_text().split()
    ['id,value', '3,1']
    """
    path = Path(path)
    if path.suffix not in (".csv", ".json"):
        raise ValueError(f"path: expected a name that ends in .csv or .json, found {path.name}; rename it")
    with atomically(path) as place, place.open("w", encoding="utf-8", newline="") as stream:
        if path.suffix == ".json":
            json.dump(rows, stream, indent=1, ensure_ascii=False, default=repr)
        else:
            writer = csv.DictWriter(stream, list(rows[0]) if rows else COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def _salvaged(path: Path) -> list[Row]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
        database.text_factory = lambda text: text.decode(errors="replace")
        database.execute("SELECT count(*) FROM sqlite_master")  # a file that is no database fails here
        whole = whole_until(database)
        entries = {row[0]: row[1:] for row in _readable(database, "entries", "seq, run, who, at")}
        try:
            runs = {run.run: run for run in queries.runs(database)}
        except (*FAILURES, ValueError):  # terms that are no JSON
            runs = {}
        labels_of_run: dict[Any, list[Label]] = {}
        for seq, id, value, ask in _readable(database, "labels", "seq, id, value, ask"):
            run, who, at = entries.get(seq, (None, None, None))
            labels_of_run.setdefault(run, []).append(Label(seq, id, value, who, at, ask))
    return [
        {**row, "sound": isinstance(label.seq, int) and label.seq <= whole}
        for run, labels in labels_of_run.items()
        for row, label in zip(rows_of(runs.get(run), labels), labels, strict=True)
    ]


def rows_of(run: Run | None, labels: Sequence[Label], state: RunState | None = None) -> list[Row]:
    """Labels of a run as rows, in the order told; without the state of the run the last of an id counts.

    >>> [row["superseded"] for row in rows_of(None, [Label(1, 7, 0, "ann", "", 1), Label(2, 7, 1, "bob", "", None)])]
    [True, False]
    """
    last = {
        one.id: number for number, one in enumerate(labels) if state is None or state.counts(one.id, one.value, one.who)
    }
    classes = () if run is None else run.classes
    number_of = {name: number for number, name in enumerate(dict.fromkeys(classes))}
    return [
        {
            "run": None if run is None else run.name,
            "id": label.id,
            "value": number_of.get(_name(classes, label.value) or "", label.value),
            "class": _name(classes, label.value),
            "who": label.who,
            "at": label.at,
            "ask": label.ask,
            "superseded": last.get(label.id) != number,
        }
        for number, label in enumerate(labels)
    ]


def _name(classes: Sequence[str], value: Any) -> str | None:
    return classes[value] if isinstance(value, int) and 0 <= value < len(classes) else None


def _readable(database: sqlite3.Connection, table: str, columns: str) -> list[Any]:
    """The rows of a table before the first page that cannot be read, and those after the last such page."""
    found: dict[int, Any] = {}

    def read(order: str) -> Iterator[tuple[int, Any]]:
        try:
            for rowid, *row in database.execute(f"SELECT rowid, {columns} FROM {table} ORDER BY rowid {order}"):
                if rowid in found:
                    return
                yield rowid, row
        except FAILURES:
            return

    for order in ("ASC", "DESC"):
        for rowid, row in read(order):
            found[rowid] = row
    return [found[rowid] for rowid in sorted(found)]
