"""Whether a journal is as it was written: on every opening in short, and in full on demand.

    structure   SQLite's own check: pages, keys, and indexes that agree with their tables
    schema      tables, indexes and triggers are natsel's
    seals       every row is the one that was written, and none is missing (`natsel.store.seals`)

The full check also looks at references, folds every run and reads the artefacts back.
"""

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from natsel.store import queries, schema, seals
from natsel.store.artefacts import Artefacts
from natsel.store.failures import FAILURES, is_damage
from natsel.store.state import RunState


@dataclass(frozen=True)
class Report:
    """What a check of a journal found."""

    path: Path | str
    runs: int
    entries: int
    labels: int
    artefacts: int
    whole: int
    """Entries up to this one are as they were written."""
    problems: tuple[str, ...]
    """What is damaged; empty where all is sound."""
    notes: tuple[str, ...] = ()
    """What is missing and can be made again: artefacts."""

    @property
    def sound(self) -> bool:
        """Whether nothing is damaged."""
        return not self.problems


def damage(database: sqlite3.Connection, only_schema: bool = False) -> str | None:
    """What is first found to be wrong with a journal, None where nothing is; one moment of it must be open."""
    checks = [_schema] if only_schema else [_schema, _structure, _numbering, _seals]
    return next((problem for check in checks for problem in _tried(check, database)), None)


def whole_until(database: sqlite3.Connection) -> int:
    """The last entry up to which a damaged journal is as it was written, as far as can be told."""
    try:
        return seals.held(database).seq
    except FAILURES:
        return 0


def report(database: sqlite3.Connection, artefacts: Artefacts, path: Path | str) -> Report:
    """Check everything there is to check."""
    checks = [_schema, _structure, _numbering, _seals, _references, _folds]
    problems = tuple(problem for check in checks for problem in _tried(check, database))
    names = _tried(lambda _: [name for (name,) in database.execute("SELECT DISTINCT hash FROM artefacts")], database)
    states = {name: artefacts.look(name) for name in names} if not problems else {}
    notes = tuple(
        f"artefact {name} is {state}; it is made again when it is needed"
        for name, state in states.items()
        if state != "sound"
    )
    counts = {table: _count(database, table) for table in ("runs", "entries", "labels")}
    return Report(path, **counts, artefacts=len(names), whole=whole_until(database), problems=problems, notes=notes)


def _tried(check: Callable[[sqlite3.Connection], Iterable[str]], database: sqlite3.Connection) -> list[str]:
    """What a check finds; that it cannot read the file is a finding too."""
    try:
        return list(check(database))
    except FAILURES as failure:
        if not is_damage(failure):
            raise
        return [str(failure)]


def _structure(database: sqlite3.Connection) -> list[str]:
    return [line for (line,) in database.execute("PRAGMA integrity_check(9)") if line != "ok"]


def _schema(database: sqlite3.Connection) -> list[str]:
    other = sorted(schema.expected() ^ schema.found(database), key=repr)  # a flipped bit makes other kinds of values
    return [f"{kind} {name} is not natsel's" for kind, name, _ in other if not str(name).startswith("sqlite_")]


def _numbering(database: sqlite3.Connection) -> list[str]:
    """SQLite's own note of the last entry is the last entry."""
    (last,) = database.execute("SELECT max(seq) FROM entries").fetchone()
    noted = database.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
    return [] if noted == ([] if last is None else [("entries", last)]) else [f"the last entry is not {last}"]


def _seals(database: sqlite3.Connection) -> list[str]:
    problem = seals.held(database).problem
    return [] if problem is None else [problem]


def _references(database: sqlite3.Connection) -> list[str]:
    rows = database.execute("PRAGMA foreign_key_check").fetchmany(9)
    return [f"row {row} of {table} belongs to a row of {parent} that is not there" for table, row, parent, _ in rows]


def _folds(database: sqlite3.Connection) -> list[str]:
    problems = []
    try:
        for run in queries.runs(database):
            RunState(run.run).fold(queries.changes(database, run.run, 0))
            queries.rounds(database, run.run)
    except (ValueError, TypeError, AssertionError) as failure:  # what numbers and texts of another kind lead to
        problems.append(f"runs cannot be read ({failure})")
    return problems


def _count(database: sqlite3.Connection, table: str) -> int:
    def count(database: sqlite3.Connection) -> list[Any]:
        return list(database.execute(f"SELECT count(*) FROM {table}").fetchone())

    (found,) = _tried(count, database)
    return found if isinstance(found, int) else 0
