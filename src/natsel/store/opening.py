"""How a file becomes a journal: created, recognised, looked over for damage, or refused.

**The file is the journal.** It is in SQLite's rollback mode: a commit has written its pages into the file, and flushed
them to disk, before it returns. The log beside it (`run.db-journal`) is there only while a commit is under way, or
where one was cut off, and holds the pages as they were before: whoever opens the file next puts them back.

**A copy is whole, or it is refused.** Whoever copies the file while a commit writes its pages, or takes it from beside
the log of a commit that was cut off, may get some pages of before and some of after. Either the seals
(`natsel.store.seals`) of such a file do not hold, or it has all that was acknowledged when the copying began: no page
is older than that, one of them (`sqlite_sequence`) names the last entry, and every row up to it is sealed
(docs/decisions/0013).
"""

import os
import sqlite3
import time
from pathlib import Path

from natsel.containers import own
from natsel.store import schema
from natsel.store.checking import damage, whole_until
from natsel.store.failures import FAILURES, damaged, explained, is_busy

MEMORY = ":memory:"


def connect(path: str | Path, *, create: bool = True, timeout: float = 60.0, check: bool = True) -> sqlite3.Connection:
    """A connection to the journal at `path`; without `check` it is not looked over for damage.

    >>> connect(":memory:").execute("PRAGMA user_version").fetchone()[0] == schema.VERSION
    True
    """
    if sqlite3.sqlite_version_info < (3, 37):
        raise ValueError(f"store: needs SQLite 3.37 or newer, found {sqlite3.sqlite_version}; use a newer Python")
    if str(path) != MEMORY:
        _check_place(Path(path), create)
    deadline = time.monotonic() + timeout
    while True:
        connection = None
        try:
            connection = sqlite3.connect(path, timeout=min(timeout, 0.1), isolation_level=None, check_same_thread=False)
            _prepare(connection, path, check)
            return connection
        except BaseException as failure:
            if connection is not None:
                connection.close()
            if not isinstance(failure, FAILURES):
                raise
            if not is_busy(failure) or time.monotonic() > deadline:
                raise explained(failure, path, timeout) from None
            time.sleep(0.01)  # SQLite does not wait for its turn to leave WAL, so waiting is done here


def _check_place(path: Path, create: bool) -> None:
    if path.is_dir():
        raise ValueError(f"store: {path} is a folder; name a file in it")
    if not path.exists() and not create:
        raise ValueError(f"store: there is no journal {path}; check the name")
    if not path.parent.is_dir():
        raise ValueError(f"store: there is no folder {path.parent}; make it first")
    for suffix in ("-journal", "-wal", "-shm"):  # SQLite would write through links there
        own(Path(os.path.realpath(path) + suffix))


def _prepare(connection: sqlite3.Connection, path: str | Path, check: bool) -> None:
    connection.execute("PRAGMA trusted_schema = OFF")
    # Before anything is changed in a file that may be somebody else's, and at one moment, for it may be in the making.
    connection.execute("BEGIN")
    version = _recognise(connection, path)
    connection.execute("ROLLBACK")
    (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    if mode not in ("delete", "memory"):
        raise ValueError(f"store: {path} cannot leave SQLite's mode {mode}; close other programs that have it open")
    connection.execute("PRAGMA synchronous = EXTRA")  # flushes the folder too: a log once removed must not come back
    connection.execute("PRAGMA cache_spill = OFF")  # else pages of a large commit are written before its end
    if not version:
        _make(connection, path)
    else:
        connection.execute("BEGIN")
        _refuse_damage(connection, path, check)
        connection.execute("ROLLBACK")
    connection.execute("PRAGMA foreign_keys = ON")


def _make(connection: sqlite3.Connection, path: str | Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    if not _recognise(connection, path):  # another process may have been quicker
        for statement in schema.STATEMENTS:
            connection.execute(statement)
    connection.execute("COMMIT")


def _refuse_damage(connection: sqlite3.Connection, path: str | Path, check: bool) -> None:
    reason = damage(connection, only_schema=not check)
    if reason is not None:
        raise damaged(path, reason, whole_until(connection))


def _recognise(connection: sqlite3.Connection, path: str | Path) -> int:
    """The version of a journal, 0 for an empty file; anything else is refused."""
    kind, version, tables = (
        connection.execute(query).fetchone()[0]
        for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    if kind != schema.APPLICATION and (kind or version or tables):
        raise ValueError(f"store: {path} is a database of another program; choose another file")
    if tables and not version:
        raise damaged(path, "it has tables and no version")
    if version not in (0, schema.VERSION):
        raise ValueError(
            f"store: {path} has journal version {version}, this natsel reads {schema.VERSION}; open it with the natsel"
            " that wrote it, or choose another file"
        )
    return int(version)
