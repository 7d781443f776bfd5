"""Inserts: an entry and its details. Each is called inside a transaction that nobody else can write in."""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from natsel.ids import Key
from natsel.store.history import Ask, Stop, Terms
from natsel.store.points import Points, packed
from natsel.store.state import RunState


def now() -> str:
    """This moment, for people to read; nothing is ever decided by it."""
    return datetime.now(UTC).isoformat()


def run(database: sqlite3.Connection, name: str, terms: Terms) -> None:
    """A new run."""
    row = (name, now(), terms.natsel, terms.pool, terms.method, terms.k, terms.seed)
    database.execute(
        "INSERT INTO runs (name, created, natsel, pool, method, k, seed, config, notes)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*row, json.dumps(dict(terms.config)), json.dumps(dict(terms.notes))),
    )


def ask(database: sqlite3.Connection, state: RunState, ask: Ask) -> int:
    """A batch and its picks; the batch's number is returned."""
    seq, number = _entry(database, state.run, "ask", ask.who), state.asks + 1
    row = (seq, state.run, number, ask.revision, ask.method, ask.seed, ask.total, ask.log_prob)
    database.execute(
        "INSERT INTO asks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*row, json.dumps(dict(ask.seconds)), json.dumps(list(ask.warnings))),
    )
    database.executemany(
        "INSERT INTO acquisitions VALUES (?, ?, ?, ?, ?, ?)",
        [(seq, step, p.id, p.score, p.epistemic, p.aleatoric) for step, p in enumerate(ask.picks)],
    )
    return number


def labels(
    database: sqlite3.Connection,
    state: RunState,
    values: Mapping[Key, int | float],
    who: str,
    digests: Mapping[Key, int] | None = None,
) -> None:
    """Labels, each with the batch that it answers and, where it is known, a digest of the input that it is for."""
    if values:
        seq = _entry(database, state.run, "tell", who)
        asks = {id: asked.ask for id, asked in state.outstanding.items()}
        database.executemany(
            "INSERT INTO labels VALUES (?, ?, ?, ?, ?)",
            [(seq, step, id, value, asks.get(id)) for step, (id, value) in enumerate(values.items())],
        )
        held = [(seq, id, digests[id]) for id in values if id in digests] if digests else []
        if held:
            database.executemany("INSERT INTO contents VALUES (?, ?, ?)", held)


def marks(database: sqlite3.Connection, state: RunState, kind: str, ids: Iterable[Key], who: str) -> None:
    """Ids that were skipped or released; those skipped before are left out."""
    new = [id for id in ids if id not in state.skipped]
    if new:
        seq = _entry(database, state.run, kind, who)
        database.executemany("INSERT INTO marks VALUES (?, ?, ?)", [(seq, step, id) for step, id in enumerate(new)])


def round(
    database: sqlite3.Connection,
    run: int,
    revision: int,
    n_labelled: int,
    metrics: Mapping[str, float],
    seconds: Mapping[str, float],
) -> None:
    """A fit and how good it was."""
    seq = _entry(database, run, "round", "")
    row = (seq, run, revision, n_labelled, json.dumps(dict(seconds)))
    database.execute("INSERT INTO rounds VALUES (?, ?, ?, ?, ?)", row)
    database.executemany("INSERT INTO metrics VALUES (?, ?, ?)", [(seq, *item) for item in metrics.items()])


def stop(database: sqlite3.Connection, run: int, stop: Stop) -> None:
    """Why a run ended."""
    seq = _entry(database, run, "stop", "")
    database.execute("INSERT INTO stops VALUES (?, ?, ?, ?)", (seq, stop.revision, stop.rule, stop.reason))


def amendment(database: sqlite3.Connection, run: int, detail: Mapping[str, Any], who: str) -> int:
    """What changed about a run; the number of the entry is returned."""
    seq = _entry(database, run, "amend", who)
    database.execute("INSERT INTO amendments VALUES (?, ?, ?)", (seq, run, json.dumps(dict(detail))))
    return seq


def points(database: sqlite3.Connection, run: int, joined: Points, known: int, who: str) -> None:
    """Points that joined, after those known."""
    seq = amendment(database, run, {"points": len(joined)}, who)
    row = (seq, run, len(joined), packed(joined.keys, known), joined.marks)
    database.execute("INSERT INTO points VALUES (?, ?, ?, ?, ?)", row)


def artefact(database: sqlite3.Connection, run: int, kind: str, revision: int, name: str, size: int) -> None:
    """Tensors of a round, by the hash of their bytes."""
    database.execute("INSERT INTO artefacts VALUES (?, ?, ?, ?, ?, ?)", (run, kind, revision, name, size, now()))


def _entry(database: sqlite3.Connection, run: int, kind: str, who: str) -> int:
    cursor = database.execute("INSERT INTO entries (run, kind, who, at) VALUES (?, ?, ?, ?)", (run, kind, who, now()))
    assert cursor.lastrowid is not None
    return cursor.lastrowid
