"""The tables of a journal. `natsel.store.opening` says how a file gets them.

`entries` is the spine: one row for each thing that happened, numbered in the order in which it was committed. The other
tables hold the details of an entry. Every table is STRICT and append-only: triggers refuse UPDATE, DELETE and REPLACE,
whichever program tries.

    runs          what a run is of: data, method, k, seed                            the terms it began on
    entries       seq · run · kind · who · at                                        the order of everything
    asks          a batch: its number, method and seed, the labels its model knew
    acquisitions  the picks of a batch, in order, with scores
    labels        what was told; a correction is one more row
    marks         ids that were skipped or released
    rounds        a fit: after how many labels, how long it took
    metrics       how good that fit was
    stops         why a run ended
    artefacts     tensors kept beside the journal, by the hash of their bytes
    contents      a digest of the input that a label was told for
    amendments    what changed about a run: points that joined, classes that were added, another method or k
    points        the ids of points that joined, in order, and a mark of the input of each
    seals         a digest of all that one transaction wrote, chained to the one before (`natsel.store.seals`)

The version of the schema is `user_version`, and files of another are refused; `application_id` spells "nats", so that
no other file is taken for a journal.
"""

import sqlite3
from contextlib import closing

APPLICATION = int.from_bytes(b"nats", "big")
VERSION = 3
_ID = "id ANY NOT NULL CHECK (typeof(id) IN ('integer', 'text'))"

# Table: (columns, keys). Each key is unique, and guarded against REPLACE, which would delete without a trace.
_TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "runs": (
        "run INTEGER PRIMARY KEY, name TEXT NOT NULL, created TEXT NOT NULL, natsel TEXT NOT NULL, pool TEXT NOT NULL,"
        " method TEXT NOT NULL, k INTEGER NOT NULL, seed INTEGER NOT NULL, config TEXT NOT NULL, notes TEXT NOT NULL",
        ("run", "name"),
    ),
    "entries": (
        "seq INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL REFERENCES runs, kind TEXT NOT NULL CHECK (kind IN"
        " ('ask', 'tell', 'skip', 'release', 'round', 'stop', 'amend')), who TEXT NOT NULL, at TEXT NOT NULL",
        ("seq",),
    ),
    "asks": (
        "seq INTEGER PRIMARY KEY REFERENCES entries, run INTEGER NOT NULL REFERENCES runs, ask INTEGER NOT NULL,"
        " told INTEGER NOT NULL, method TEXT NOT NULL, seed INTEGER NOT NULL, total REAL, log_prob REAL,"
        " seconds TEXT NOT NULL, warnings TEXT NOT NULL",
        ("seq", "run, ask"),
    ),
    "acquisitions": (
        f"seq INTEGER NOT NULL REFERENCES asks, step INTEGER NOT NULL, {_ID}, score REAL, epistemic REAL,"
        " aleatoric REAL",
        ("seq, step", "seq, id"),
    ),
    "labels": (
        f"seq INTEGER NOT NULL REFERENCES entries, step INTEGER NOT NULL, {_ID}, value ANY NOT NULL, ask INTEGER",
        ("seq, step", "seq, id"),
    ),
    "marks": (
        f"seq INTEGER NOT NULL REFERENCES entries, step INTEGER NOT NULL, {_ID}",
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
    "contents": (f"seq INTEGER NOT NULL REFERENCES entries, {_ID}, digest INTEGER NOT NULL", ("seq, id",)),
    "amendments": (
        "seq INTEGER PRIMARY KEY REFERENCES entries, run INTEGER NOT NULL REFERENCES runs, detail TEXT NOT NULL",
        ("seq",),
    ),
    "points": (
        "seq INTEGER PRIMARY KEY REFERENCES amendments, run INTEGER NOT NULL REFERENCES runs,"
        " count INTEGER NOT NULL, ids BLOB NOT NULL, marks BLOB NOT NULL",
        ("seq",),
    ),
    "seals": (
        "seal INTEGER PRIMARY KEY, run INTEGER NOT NULL, seq INTEGER NOT NULL, artefact INTEGER NOT NULL,"
        " digest BLOB NOT NULL",
        ("seal",),
    ),
}


def _statements(table: str, columns: str, keys: tuple[str, ...]) -> list[str]:
    """A table with its triggers."""
    refuse = f"BEGIN SELECT RAISE(ABORT, 'natsel: {table} are written once and never changed'); END"
    unique = "".join(f", UNIQUE ({key})" for key in keys if f"{key} INTEGER PRIMARY KEY" not in columns)
    name = f'"{table}"' if _ID in columns or table == "entries" else table  # files are compared with it as a text
    made = [f"CREATE TABLE {name} ({columns}{unique}) STRICT"]
    made += [f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table} {refuse}" for verb in ("UPDATE", "DELETE")]
    for number, key in enumerate(keys):
        same = " AND ".join(f"{column} = NEW.{column}" for column in key.split(", "))
        made.append(
            f"CREATE TRIGGER {table}_no_REPLACE_{number} BEFORE INSERT ON {table}"
            f" WHEN EXISTS (SELECT 1 FROM {table} WHERE {same}) {refuse}"
        )
    return made


STATEMENTS = [
    *(statement for table, (columns, keys) in _TABLES.items() for statement in _statements(table, columns, keys)),
    "CREATE INDEX entries_of_a_run ON entries (run, seq)",
    "CREATE INDEX labels_of_an_id ON labels (id, seq)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
]
"""What makes a journal of an empty file."""


def expected() -> set[tuple[str, str, str]]:
    """Tables, indexes and triggers of a journal: kind, name and the text that makes each.

    >>> sorted(name for kind, name, text in expected() if kind == "table")[:3]
    ['acquisitions', 'amendments', 'artefacts']
    """
    with closing(sqlite3.connect(":memory:")) as fresh:
        for statement in STATEMENTS:
            fresh.execute(statement)
        return found(fresh)


def found(database: sqlite3.Connection) -> set[tuple[str, str, str]]:
    """The same, of a file that is open."""
    return {*database.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master")}
