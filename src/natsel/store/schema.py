"""The tables of a journal, and how a file becomes one: created, recognised, brought up to date or refused.

`entries` is the spine: one row for each thing that happened, numbered in the order in which it was committed. The other
tables hold the details of an entry. Every table is STRICT and append-only: triggers refuse UPDATE, DELETE and REPLACE,
whichever program tries.

    runs          what a run is of: data, method, k, seed                            the terms nobody may change
    entries       seq · run · kind · who · at                                        the order of everything
    asks          a batch: its number, method and seed, the labels its model knew
    acquisitions  the picks of a batch, in order, with scores
    labels        what was told; a correction is one more row
    marks         ids that were skipped or released
    rounds        a fit: after how many labels, how long it took
    metrics       how good that fit was
    stops         why a run ended
    artefacts     tensors kept beside the journal, by the hash of their bytes

The version of the schema is `user_version`; `application_id` spells "nats", so that no other file is taken for one.
"""

import sqlite3
import time
from pathlib import Path

MEMORY = ":memory:"
APPLICATION = int.from_bytes(b"nats", "big")

# Table: (columns, keys). Each key is unique, and guarded against REPLACE, which would delete without a trace.
_TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "runs": (
        "run INTEGER PRIMARY KEY, name TEXT NOT NULL, created TEXT NOT NULL, natsel TEXT NOT NULL, pool TEXT NOT NULL,"
        " method TEXT NOT NULL, k INTEGER NOT NULL, seed INTEGER NOT NULL, config TEXT NOT NULL, notes TEXT NOT NULL",
        ("run", "name"),
    ),
    "entries": (
        "seq INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL REFERENCES runs, kind TEXT NOT NULL CHECK (kind IN"
        " ('ask', 'tell', 'skip', 'release', 'round', 'stop')), who TEXT NOT NULL, at TEXT NOT NULL",
        ("seq",),
    ),
    "asks": (
        "seq INTEGER PRIMARY KEY REFERENCES entries, run INTEGER NOT NULL REFERENCES runs, ask INTEGER NOT NULL,"
        " told INTEGER NOT NULL, method TEXT NOT NULL, seed INTEGER NOT NULL, total REAL, log_prob REAL,"
        " seconds TEXT NOT NULL, warnings TEXT NOT NULL",
        ("seq", "run, ask"),
    ),
    "acquisitions": (
        "seq INTEGER NOT NULL REFERENCES asks, step INTEGER NOT NULL, id INTEGER NOT NULL, score REAL, epistemic REAL,"
        " aleatoric REAL",
        ("seq, step", "seq, id"),
    ),
    "labels": (
        "seq INTEGER NOT NULL REFERENCES entries, step INTEGER NOT NULL, id INTEGER NOT NULL, value ANY NOT NULL,"
        " ask INTEGER",
        ("seq, step", "seq, id"),
    ),
    "marks": (
        "seq INTEGER NOT NULL REFERENCES entries, step INTEGER NOT NULL, id INTEGER NOT NULL",
        ("seq, step", "seq, id"),
    ),
    "rounds": (
        "seq INTEGER PRIMARY KEY REFERENCES entries, run INTEGER NOT NULL REFERENCES runs, told INTEGER NOT NULL,"
        " n_labelled INTEGER NOT NULL, seconds TEXT NOT NULL",
        ("seq", "run, told"),
    ),
    "metrics": (
        "seq INTEGER NOT NULL REFERENCES rounds, name TEXT NOT NULL, value REAL",
        ("seq, name",),
    ),
    "stops": (
        "seq INTEGER PRIMARY KEY REFERENCES entries, told INTEGER NOT NULL, rule TEXT NOT NULL, reason TEXT NOT NULL",
        ("seq",),
    ),
    "artefacts": (
        "run INTEGER NOT NULL REFERENCES runs, kind TEXT NOT NULL, told INTEGER NOT NULL, hash TEXT NOT NULL,"
        " bytes INTEGER NOT NULL, at TEXT NOT NULL",
        ("run, kind, told",),
    ),
}


def _statements(table: str, columns: str, keys: tuple[str, ...]) -> list[str]:
    """A table with its triggers."""
    refuse = f"BEGIN SELECT RAISE(ABORT, 'natsel: {table} are written once and never changed'); END"
    unique = "".join(f", UNIQUE ({key})" for key in keys if f"{key} INTEGER PRIMARY KEY" not in columns)
    made = [f"CREATE TABLE {table} ({columns}{unique}) STRICT"]
    made += [f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table} {refuse}" for verb in ("UPDATE", "DELETE")]
    for number, key in enumerate(keys):
        same = " AND ".join(f"{column} = NEW.{column}" for column in key.split(", "))
        made.append(
            f"CREATE TRIGGER {table}_no_REPLACE_{number} BEFORE INSERT ON {table}"
            f" WHEN EXISTS (SELECT 1 FROM {table} WHERE {same}) {refuse}"
        )
    return made


# One step a version: a journal of version v has had the first v of them. A new step is added at the end, and none that
# was ever released is changed.
MIGRATIONS: list[list[str]] = [
    [statement for table, (columns, keys) in _TABLES.items() for statement in _statements(table, columns, keys)]
    + [
        "CREATE INDEX entries_of_a_run ON entries (run, seq)",
        "CREATE INDEX labels_of_an_id ON labels (id, seq)",
        f"PRAGMA application_id = {APPLICATION}",
    ],
]


def connect(path: str | Path, *, create: bool = True, timeout: float = 60.0) -> sqlite3.Connection:
    """A connection to the journal at `path`, made or brought up to date where needed.

    >>> connect(":memory:").execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS)
    True
    """
    if sqlite3.sqlite_version_info < (3, 37):
        raise ValueError(f"store: needs SQLite 3.37 or newer, found {sqlite3.sqlite_version}; use a newer Python")
    if str(path) != MEMORY:
        _check_place(Path(path), create)
    deadline = time.monotonic() + timeout
    while True:
        connection = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
        try:
            _prepare(connection, path)
            return connection
        except BaseException as failure:
            connection.close()
            if is_busy(failure):
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"store: {path} has been busy for {timeout:g} s; look for what holds it"
                    ) from None
                time.sleep(0.01)  # SQLite does not wait for its turn to make a file WAL, so waiting is done here
            elif isinstance(failure, sqlite3.DatabaseError):
                raise ValueError(
                    f"store: {path} cannot be read as a journal ({failure}); choose another file"
                ) from None
            else:
                raise


def is_busy(failure: BaseException) -> bool:
    """Whether a failure means that another program holds the file for now."""
    code = getattr(failure, "sqlite_errorcode", None)
    return isinstance(failure, sqlite3.OperationalError) and code is not None and code & 0xFF in (5, 6)


def _check_place(path: Path, create: bool) -> None:
    if path.is_dir():
        raise ValueError(f"store: {path} is a folder; name a file in it")
    if not path.exists() and not create:
        raise ValueError(f"store: there is no journal {path}; check the name")
    if not path.parent.is_dir():
        raise ValueError(f"store: there is no folder {path.parent}; make it first")


def _prepare(connection: sqlite3.Connection, path: str | Path) -> None:
    # Before anything is changed in a file that may be somebody else's, and at one moment, for it may be in the making.
    connection.execute("BEGIN")
    version = _recognise(connection, path)
    connection.execute("ROLLBACK")
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode not in ("wal", "memory"):
        raise ValueError(f"store: {path} lies where SQLite cannot share a log (WAL); choose a local disk")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    if version == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    version = _recognise(connection, path)  # another process may have been quicker
    for step in MIGRATIONS[version:]:
        for statement in step:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    connection.execute("COMMIT")


def _recognise(connection: sqlite3.Connection, path: str | Path) -> int:
    """The version of a journal, 0 for an empty file; anything else is refused."""
    kind, version, tables = (
        connection.execute(query).fetchone()[0]
        for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    if kind != APPLICATION and (kind or version or tables):
        raise ValueError(f"store: {path} is a database of another program; choose another file")
    if version > len(MIGRATIONS):
        raise ValueError(
            f"store: {path} was written by a newer natsel (journal version {version}, this one reads up to"
            f" {len(MIGRATIONS)}); upgrade natsel"
        )
    return int(version)
