"""Seals: a digest of all that a transaction wrote, so that a changed bit is seen wherever it is.

    digest_n = blake2b(digest_{n−1}, rows that transaction n wrote)

SQLite's own check knows the structure of a file and whether indexes agree with tables; it does not know whether a label
is the one that was told. A seal does. It is written in the transaction that it seals and names the last run, entry and
artefact that it covers. So a file whose seals hold, and cover every row, holds a whole number of transactions just as
they were written, however it was copied: no bit is another, no row of a transaction is missing.
"""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from natsel.store.failures import FAILURES, is_damage

# Table: (columns, the number that says which seal a row belongs to).
COVERED = {
    "runs": ("run, name, created, natsel, pool, method, k, seed, config, notes", "run"),
    "entries": ("seq, run, kind, who, at", "seq"),
    "asks": ("seq, run, ask, told, method, seed, total, log_prob, seconds, warnings", "seq"),
    "acquisitions": ("seq, step, id, score, epistemic, aleatoric", "seq"),
    "labels": ("seq, step, id, value, ask", "seq"),
    "marks": ("seq, step, id", "seq"),
    "rounds": ("seq, run, told, n_labelled, seconds", "seq"),
    "metrics": ("seq, name, value", "seq"),
    "stops": ("seq, told, rule, reason", "seq"),
    "artefacts": ("run, kind, told, hash, bytes, at", "rowid"),
    "contents": ("seq, id, digest", "seq"),
    "amendments": ("seq, run, detail", "seq"),
    "points": ("seq, run, count, ids, marks", "seq"),
}
_RARE = ("amendments", "points")  # a seal speaks of these only where they have rows
_NONE = (0, 0, 0)


class Held(NamedTuple):
    """How far the seals of a file hold."""

    run: int
    seq: int
    """Every entry up to this one is as it was written."""
    artefact: int
    problem: str | None
    """What is not; None where all is."""


def seal(database: sqlite3.Connection) -> None:
    """Seal all rows that no seal covers yet; called at the end of a transaction."""
    last = database.execute("SELECT run, seq, artefact, digest FROM seals ORDER BY seal DESC LIMIT 1").fetchone()
    *before, digest = last or (*_NONE, b"")
    now = database.execute(
        "SELECT (SELECT coalesce(max(run), 0) FROM runs), (SELECT coalesce(max(seq), 0) FROM entries),"
        " (SELECT coalesce(max(rowid), 0) FROM artefacts)"
    ).fetchone()
    if tuple(before) == now:
        return
    after, until = _limits(tuple(before)), _limits(now)
    rows = {
        table: database.execute(
            f"SELECT {columns} FROM {table} WHERE {place} > ? AND {place} <= ? ORDER BY rowid",
            (after[place], until[place]),
        ).fetchall()
        for table, (columns, place) in COVERED.items()
    }
    database.execute(
        "INSERT INTO seals (run, seq, artefact, digest) VALUES (?, ?, ?, ?)", (*now, _digest(digest, now, rows))
    )


def held(database: sqlite3.Connection) -> Held:
    """Compare every seal with what it covers; every row is read, in the order of its table and by no index."""
    takers = {
        table: (place, _taker(database.execute(f"SELECT {place}, {columns} FROM {table} ORDER BY rowid")))
        for table, (columns, place) in COVERED.items()
    }
    last, digest = _NONE, b""
    try:
        for number, (seal, *covers, sealed) in enumerate(
            database.execute("SELECT seal, run, seq, artefact, digest FROM seals ORDER BY seal"), start=1
        ):
            now = (covers[0], covers[1], covers[2])
            until = _limits(now)
            digest = _digest(digest, now, {table: take(until[place]) for table, (place, take) in takers.items()})
            if seal != number or digest != sealed:
                return Held(*last, f"what was written after entry {last[1]} is not as it was written")
            last = now
        left = [table for table, (_, take) in takers.items() if take(None)]
    except (*FAILURES, TypeError) as failure:  # damage makes something else of numbers, too
        if not isinstance(failure, TypeError) and not is_damage(failure):
            raise
        return Held(*last, f"what was written after entry {last[1]} cannot be read ({failure})")
    return Held(*last, f"rows of {left[0]} after entry {last[1]} have no seal" if left else None)


def _limits(covers: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(("run", "seq", "rowid"), covers, strict=True))


def _digest(before: bytes, covers: tuple[int, int, int], rows: dict[str, list[Any]]) -> bytes:
    # Plain ASCII with numbers in full, the same on every machine.
    content: list[Any] = [covers, [rows[table] for table in COVERED if table not in _RARE]]
    if rare := {table: rows[table] for table in _RARE if rows[table]}:
        content.append(rare)
    text = json.dumps(content, default=_bytes_as_text)
    return hashlib.blake2b(before + text.encode(), digest_size=16).digest()


def _bytes_as_text(value: Any) -> str:
    """A digest of bytes, which are no JSON."""
    return hashlib.blake2b(value, digest_size=16).hexdigest() if isinstance(value, bytes) else repr(value)


def _taker(rows: Iterator[Any]) -> Callable[[int | None], list[Any]]:
    """A function that takes rows from a table up to a limit, or all that are left."""
    following = next(rows, None)

    def take(limit: int | None) -> list[Any]:
        nonlocal following
        taken = []
        while following is not None and (limit is None or following[0] <= limit):
            taken.append(following[1:])
            following = next(rows, None)
        return taken

    return take
