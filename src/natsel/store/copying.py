"""A journal copied whole, with its artefacts, while others may be writing to it."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from natsel.containers import atomically
from natsel.store.artefacts import Artefacts
from natsel.store.checking import Report, report
from natsel.store.failures import damaged, explaining


def copy(database: sqlite3.Connection, artefacts: Artefacts, target: Path) -> Report:
    """Copy one moment of a journal to a new file, check it there, and only then let it have its name.

    Nothing is ever replaced: another process may have the file open that is there.
    """
    if os.path.lexists(target):
        raise ValueError(f"path: {target} is there already; choose another name, such as one with the date in it")
    for log in (Path(f"{target}-journal"), Path(f"{target}-wal")):
        if log.exists():  # SQLite would take it for the log of the copy, and put its pages into it
            raise ValueError(f"path: {log} is left over from another journal; choose another name")
    beside = Artefacts(target)
    with atomically(target) as place, explaining(target, 0):
        with closing(sqlite3.connect(place, isolation_level=None)) as copied:
            copied.execute("PRAGMA journal_mode = OFF")  # a copy that fails is thrown away
            copied.execute("PRAGMA synchronous = OFF")  # flushed when it is whole
            database.backup(copied)
            for (name,) in copied.execute("SELECT DISTINCT hash FROM artefacts"):
                content = artefacts.content(name)
                if content is not None:
                    beside.take(content)
            found = report(copied, beside, target)
        if not found.sound:
            raise damaged(target, found.problems[0], found.whole)
    return found
