"""What it costs that a journal's file alone holds all that was acknowledged.

    python -m natsel.bench.journal --json

SQLite can write in several ways. Each is timed with `tell` of 10 labels: in a new journal and in one of 100,000 labels,
by one process and by eight at once. Then the file is copied without its log: `in_copy` is the share of the labels told
that the copy holds, `short` how many tells of eight processes returned before the file had them. Opening a journal is
timed with and without the look for damage. Flushes make up nearly all of the time of a tell; where the cores are taken,
each of them waits for its turn as well, so that this is for a quiet machine.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import sqlite3
import statistics
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from natsel.bench.result_table import machine
from natsel.provenance import versions
from natsel.store import Journal, State, Terms, reading, schema, seals

TERMS = Terms("a pool", "bald", 10, 0)
_AT_ONCE = 10


@dataclass(frozen=True)
class Way:
    """A way for SQLite to write, and what is done after each commit."""

    mode: str
    synchronous: str
    checkpoint: str | None = None

    def __str__(self) -> str:
        return " ".join(
            [self.mode, self.synchronous, *([f"+ checkpoint {self.checkpoint}"] if self.checkpoint else [])]
        )


WAYS = (
    Way("WAL", "FULL"),
    *(Way("WAL", "FULL", checkpoint) for checkpoint in ("PASSIVE", "FULL", "TRUNCATE")),
    *(Way(mode, synchronous) for mode in ("DELETE", "TRUNCATE", "PERSIST") for synchronous in ("FULL", "EXTRA")),
)
TAKEN = Way("DELETE", "EXTRA")


class _Client:
    """A journal whose connection writes in some way."""

    def __init__(self, path: Path, way: Way) -> None:
        self.journal = Journal()
        self.journal.close()
        connection = sqlite3.connect(path, timeout=60.0, isolation_level=None)
        connection.execute(f"PRAGMA journal_mode = {way.mode}").fetchone()
        connection.execute(f"PRAGMA synchronous = {way.synchronous}")
        self.journal._connection, self.journal.closed = connection, False
        self.way, self.state, self.short = way, self.journal.replay("main"), 0

    def tell(self, first: int) -> float:
        """Tell ten labels; how long it took until they were as safe as this way makes them."""
        started = perf_counter()
        self.journal.tell(self.state, range(first, first + _AT_ONCE), [1] * _AT_ONCE)
        if self.way.checkpoint:
            query = f"PRAGMA wal_checkpoint({self.way.checkpoint})"
            busy, pages, written = self.journal._connection.execute(query).fetchone()
            # The others return only when all is in the file that was written before; more may come after.
            self.short += bool(busy) or (self.way.checkpoint == "PASSIVE" and written < pages)
        return perf_counter() - started


def filled(path: Path, labels: int) -> None:
    """Write a journal of so many labels, ten an entry."""
    with Journal(path) as journal:
        journal._connection.execute("PRAGMA synchronous = OFF")
        state = journal.begin("main", TERMS)
        for first in range(0, labels, _AT_ONCE):
            journal.tell(state, range(first, first + _AT_ONCE), [1] * _AT_ONCE)


def measure(labels: int = 100_000, tells: int = 300, clients: int = 8, progress: Callable[[str], None] = print) -> Any:
    """Time every way.

    >>> found = measure(labels=20, tells=3, clients=2, progress=lambda line: None)
    >>> [row["in_copy"] for row in found["ways"] if row["way"] in ("WAL FULL", "DELETE EXTRA")]
    [0.0, 1.0, 0.0, 1.0]
    """
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for held in (0, labels):
            filled(folder / f"{held}.db", held)
            rows += _alone(folder, held, tells)
            for row in rows[-len(WAYS) :]:
                progress(_told(row))
        for way, row in zip(WAYS, rows[-len(WAYS) :], strict=True):
            row |= _together(folder, labels, way, tells // clients + 1, clients)
        opening = {str(held): _opening(folder / f"{held}.db") for held in (0, labels)}
    return {"tells": tells, "clients": clients, "taken": str(TAKEN), "ways": rows, "opening": opening}


def _alone(folder: Path, held: int, tells: int) -> list[dict[str, Any]]:
    """Every way by one process, in turns, so that what else the machine does falls on all alike."""
    paths = [folder / f"{held}-{number}.db" for number in range(len(WAYS))]
    for path in paths:
        shutil.copy(folder / f"{held}.db", path)
    clients = [_Client(path, way) for path, way in zip(paths, WAYS, strict=True)]
    seconds: list[list[float]] = [[] for _ in WAYS]
    for number in range(tells):
        for client, taken in zip(clients, seconds, strict=True):
            taken.append(client.tell(held + _AT_ONCE * number))
    found = [_in_copy(path) - held for path in paths]
    for client in clients:
        client.journal.close()
    return [
        {"way": str(way), "labels": held, **_spread("", taken), "in_copy": count / (tells * _AT_ONCE)}
        for way, taken, count in zip(WAYS, seconds, found, strict=True)
    ]


def _in_copy(path: Path) -> int:
    """How many labels a copy of the file alone holds."""
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    with closing(sqlite3.connect(copy)) as database:
        (found,) = database.execute("SELECT count(*) FROM labels").fetchone()
    for left in path.parent.glob("copy.db*"):
        left.unlink()
    return int(found)


def _spread(name: str, seconds: list[float]) -> dict[str, float]:
    ranked = sorted(seconds)
    return {
        f"{name}median_ms": round(1e3 * statistics.median(ranked), 3),
        f"{name}p95_ms": round(1e3 * ranked[int(0.95 * len(ranked))], 3),
        f"{name}max_ms": round(1e3 * ranked[-1], 1),
    }


def _together(folder: Path, held: int, way: Way, tells: int, clients: int) -> dict[str, Any]:
    path = folder / "together.db"
    for left in folder.glob("together.db*"):
        left.unlink()
    shutil.copy(folder / f"{held}.db", path)
    _Client(path, way).journal.close()  # so that the file is of this way before they meet
    context = multiprocessing.get_context()
    gate, answers = context.Barrier(clients), context.Queue()
    work = partial(_client, path, way, held, tells, gate, answers)
    started = perf_counter()
    processes = [context.Process(target=work, args=(name,)) for name in range(clients)]
    for process in processes:
        process.start()
    found = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    seconds = [second for part, _ in found for second in part]
    return {
        **_spread("together_", seconds),
        "together_seconds": round(perf_counter() - started, 2),
        "together_tells": len(seconds),
        "short": len(seconds) if way == WAYS[0] else sum(short for _, short in found),
    }


def _client(path: Path, way: Way, held: int, tells: int, gate: Any, answers: Any, name: int) -> None:
    client = _Client(path, way)
    gate.wait()
    first = held + name * tells * _AT_ONCE
    seconds = [client.tell(first + _AT_ONCE * number) for number in range(tells)]
    answers.put((seconds, client.short))


def _opening(path: Path) -> dict[str, float]:
    """Milliseconds that opening a journal takes, and what each part of it takes."""

    def timed(work: Callable[[], Any]) -> float:
        started, done = perf_counter(), work()
        if isinstance(done, Journal):
            done.close()
        return round(1e3 * (perf_counter() - started), 2)

    with Journal(path, check=False) as journal:
        database = journal._connection
        return {
            "without_check": timed(lambda: Journal(path, check=False)),
            "with_check": timed(lambda: Journal(path)),
            "quick_check": timed(lambda: database.execute("PRAGMA quick_check").fetchall()),
            "integrity_check": timed(lambda: database.execute("PRAGMA integrity_check").fetchall()),
            "schema": timed(schema.expected),
            "seals": timed(lambda: seals.held(database)),
            "fold": timed(lambda: State(1).fold(reading.changes(database, 1, 0))),
        }


def _told(row: dict[str, Any]) -> str:
    return (
        f"{row['way']:28} {row['labels']:>8,} labels {row['median_ms']:7.2f} ms (95 %: {row['p95_ms']:.2f});"
        f" in a copy {row['in_copy']:.0%}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=100_000, help="labels in the larger journal")
    parser.add_argument("--tells", type=int, default=300, help="tells of ten labels that are timed")
    parser.add_argument("--clients", type=int, default=8, help="processes at once")
    parser.add_argument("--json", action="store_true", help="print a document for machines")
    chosen = parser.parse_args()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    found = measure(chosen.labels, chosen.tells, chosen.clients, progress=(lambda line: None) if chosen.json else print)
    if not chosen.json:
        print(json.dumps(found["opening"], indent=1))
        return
    options = " ".join(f"--{name} {getattr(chosen, name)}" for name in ("labels", "tells", "clients"))
    made_with = versions() | {"sqlite": sqlite3.sqlite_version}
    about = {"command": f"python -m natsel.bench.journal {options} --json", "seed": 0, "versions": made_with}
    print(json.dumps({**about, "machine": {**machine(), "load_before": load}, **found}, indent=1))


if __name__ == "__main__":
    main()
