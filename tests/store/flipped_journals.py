"""Single bits of a journal flipped: what is seen on opening, and by which check.

    unseen       flips after which the journal opens without an error, and a row of any table, or what is read through
                 an index, is not what was written
    no matter    flips of bits that nothing is read from: free space in pages, counters for caches
    refused      flips that natsel refuses in a sentence

Every flip has a journal with rows in every table to itself: one random bit of its file is flipped, and it is opened.
`of_these_missed_by` counts, of the flips that change content without an error of SQLite, those that each check alone
would have missed.
"""

import json
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch

from natsel.provenance import versions
from natsel.store import Acquisition, Ask, Journal, Stop, Terms, seals
from natsel.store.failures import FAILURES


def written(path: Path, rounds: int = 40, seed: int = 0) -> None:
    """Write a journal of two runs with rows in every table.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written(Path(folder) / "run.db", rounds=2)
    ...     len(Journal(Path(folder) / "run.db").labels(1))
    15
    """
    draw = np.random.default_rng(seed)
    with Journal(path) as journal:
        for name, method in (("main", "batchbald"), ("baseline", "random")):
            notes = {"classes": ["cat", "dog"], "points": 1000}
            state = journal.begin(name, Terms("a pool", method, 8, seed, {"candidates": None}, notes, "1"))
            for number in range(rounds):
                ids = range(8 * number, 8 * number + 8)
                picks = tuple(Acquisition(id, *draw.random(3).tolist()) for id in ids)
                seconds = {"select": float(draw.random())}
                journal.ask(state, Ask(picks, method, number, 7 * number, 0.5, -1.25, seconds, ("careful",), who="é"))
                values = draw.integers(2, size=7).tolist() if name == "main" else draw.normal(size=7).tolist()
                digests = draw.integers(-(2**62), 2**62, size=7).tolist()
                aside = [ids[7]] if number % 2 else []
                journal.tell(state, ids[:7], values, skipped=aside, who="anna", digests=digests)
                if not number % 2:
                    journal.release(state, [ids[7]])
                metrics = {"accuracy": float(draw.random()), "nll": float("nan")}
                journal.record_round(state.run, 7 * number + 7, 7 * number + 7, metrics, {"fit": 0.25})
                journal.keep(state.run, "weights", number, {"w": torch.tensor(draw.random(3))})
            journal.tell(state, [3], [0], who="ben")
            journal.record_stop(state.run, Stop(9, "Budget(labels=9)", "enough"))


def content(database: sqlite3.Connection) -> list[Any]:
    """Every row of every table, by the table and by the indexes that natsel reads through."""
    tables = (*seals.COVERED, "seals", "sqlite_sequence")
    queries = [f"SELECT rowid, * FROM {table} ORDER BY rowid" for table in tables]
    queries += [
        "SELECT * FROM entries JOIN labels USING (seq) ORDER BY seq, step",
        "SELECT * FROM entries JOIN marks USING (seq) ORDER BY seq, step",
        "SELECT * FROM asks JOIN acquisitions USING (seq) ORDER BY seq, step",
        "SELECT id, seq FROM labels INDEXED BY labels_of_an_id ORDER BY id, seq",
        "SELECT run, seq FROM entries INDEXED BY entries_of_a_run ORDER BY run, seq",
    ]
    return [repr(database.execute(query).fetchall()) for query in queries]


def measure(count: int = 10_000, seed: int = 0, rounds: int = 40) -> dict[str, Any]:
    """Flip so many random bits, one at a time.

    >>> found = measure(count=40, rounds=2)
    >>> found["flips"], found["unseen"]
    (40, 0)
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.db"
        written(path, rounds)
        sound = path.read_bytes()
        with closing(sqlite3.connect(path)) as database:
            expected = content(database)
        bits = np.random.default_rng(seed).integers(8 * len(sound), size=count).tolist()
        outcomes, missed = [], []
        for bit in bits:
            flipped = bytearray(sound)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            missed.append(_missed_by(path, expected))
            outcomes.append(_opened(path, expected))
            for left in Path(folder).glob("run.db-*"):
                left.unlink()
    silent = [checks for checks in missed if checks is not None]
    unseen = [bit for bit, outcome in zip(bits, outcomes, strict=True) if outcome == "unseen"]
    return {
        "sqlite": sqlite3.sqlite_version,
        "bytes": len(sound),
        "flips": count,
        "unseen": len(unseen),
        "unseen_bits": unseen,
        "outcomes": dict(sorted(Counter(outcomes).items())),
        "silently_changed_without_checks": len(silent),
        "of_these_missed_by": {name: sum(name in checks for checks in silent) for name in _CHECKS},
    }


def _opened(path: Path, expected: list[Any]) -> str:
    """What comes of opening a flipped journal."""
    try:
        with Journal(path, create=False, timeout=0.2) as journal:
            same = content(journal._connection) == expected
    except (ValueError, OSError) as refusal:
        return "refused" if str(refusal).startswith("store: ") else f"raw {type(refusal).__name__}"
    except sqlite3.Error as failure:
        return f"raw {type(failure).__name__}"
    return "no matter" if same else "unseen"


def _missed_by(path: Path, expected: list[Any]) -> list[str] | None:
    """The checks that would not see a flip that changes what is read without an error; None for any other flip."""
    try:
        with closing(sqlite3.connect(path)) as database:
            if content(database) == expected:
                return None
            return [name for name, check in _CHECKS.items() if _passes(check, database)]
    except FAILURES:
        return None


_CHECKS: dict[str, Callable[[sqlite3.Connection], bool]] = {
    "quick_check": lambda database: database.execute("PRAGMA quick_check").fetchall() == [("ok",)],
    "integrity_check": lambda database: database.execute("PRAGMA integrity_check").fetchall() == [("ok",)],
    "seals": lambda database: seals.held(database).problem is None,
}


def _passes(check: Callable[[sqlite3.Connection], bool], database: sqlite3.Connection) -> bool:
    try:
        return check(database)
    except FAILURES:
        return False


if __name__ == "__main__":
    count = int((sys.argv[1:] or ["10000"])[0])
    command = f"PYTHONPATH=src:tests python tests/store/flipped_journals.py {count}"
    document = {"command": command, "versions": versions(), "seed": 0, "rounds": 40, **measure(count)}
    print(json.dumps(document, indent=1))
