"""What it costs that the file of a journal alone holds every label that was acknowledged.

    median_ms, p95_ms, max_ms   milliseconds of a `tell` of 10 labels by one process ("together_": by eight at once)
    in_copy                     labels in a copy of the file without its log / labels told
    short                       tells of the eight processes that returned before the file had them
    opening                     milliseconds of opening a journal with and without the check for damage, and its parts

Every way in which SQLite can write is timed, in a new journal and in one of 100,000 labels. Nearly all of the time of a
tell is flushes to the disk; where other programs use the cores, each flush waits for its turn too: measure on a quiet
machine. A tell is shorter than what a meter of memory takes, so that the clock alone times it.
docs/decisions/0013-the-file-is-the-journal.md.
"""

import multiprocessing
import shutil
import sqlite3
import statistics
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from natsel.store import Journal, RunState, Terms, queries, schema, seals

TERMS = Terms("a pool", "bald", 10, 0)
_AT_ONCE = 10


@dataclass(frozen=True)
class Way:
    """A way for SQLite to write, and what is done after each commit."""

    mode: str
    synchronous: str
    checkpoint: str | None = None

    def __str__(self) -> str:
        return f"{self.mode} {self.synchronous}" + (f" + checkpoint {self.checkpoint}" if self.checkpoint else "")


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
        self.journal._connection, self.journal._undo, self.journal.closed = connection, connection, False
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


def measure(labels: int = 100_000, tells: int = 300, clients: int = 8) -> dict[str, Any]:
    """Time every way.

    >>> found = measure(labels=20, tells=3, clients=2)
    >>> [row["in_copy"] for row in found["ways"] if row["way"] in ("WAL FULL", "DELETE EXTRA")]
    [0.0, 1.0, 0.0, 1.0]
    """
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for held in (0, labels):
            _fill(folder / f"{held}.db", held)
        new, old = (_alone(folder, held, tells) for held in (0, labels))
        for way, row in zip(WAYS, old, strict=True):
            row |= _together(folder, labels, way, tells // clients + 1, clients)
        opening = {str(held): _opening(folder / f"{held}.db") for held in (0, labels)}
    return {"sqlite": sqlite3.sqlite_version, "taken": str(TAKEN), "ways": new + old, "opening": opening}


def _fill(path: Path, labels: int) -> None:
    """Write a journal of so many labels, ten per entry."""
    with Journal(path) as journal:
        journal._connection.execute("PRAGMA synchronous = OFF")
        state = journal.begin("main", TERMS)
        for first in range(0, labels, _AT_ONCE):
            journal.tell(state, range(first, first + _AT_ONCE), [1] * _AT_ONCE)


def _alone(folder: Path, held: int, tells: int) -> list[dict[str, Any]]:
    """Every way by one process, in turns: what else the machine does then slows all of them alike."""
    paths = [folder / f"{held}-{number}.db" for number in range(len(WAYS))]
    for path in paths:
        shutil.copy(folder / f"{held}.db", path)
    clients = [_Client(path, way) for path, way in zip(paths, WAYS, strict=True)]
    seconds = [[client.tell(held + _AT_ONCE * number) for client in clients] for number in range(tells)]
    in_copy = [(_labels_in_copy(path) - held) / (tells * _AT_ONCE) for path in paths]
    for client in clients:
        client.journal.close()
    return [
        {"way": str(way), "labels": held, **_spread("", taken), "in_copy": share}
        for way, taken, share in zip(WAYS, zip(*seconds, strict=True), in_copy, strict=True)
    ]


def _labels_in_copy(path: Path) -> int:
    """How many labels a copy of the file alone holds."""
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    with closing(sqlite3.connect(copy)) as database:
        (found,) = database.execute("SELECT count(*) FROM labels").fetchone()
    for left in path.parent.glob("copy.db*"):
        left.unlink()
    return int(found)


def _spread(name: str, seconds: Iterable[float]) -> dict[str, float]:
    ranked = sorted(1e3 * second for second in seconds)
    return {
        f"{name}median_ms": round(statistics.median(ranked), 3),
        f"{name}p95_ms": round(ranked[int(0.95 * len(ranked))], 3),
        f"{name}max_ms": round(ranked[-1], 1),
    }


def _together(folder: Path, held: int, way: Way, tells: int, clients: int) -> dict[str, Any]:
    """One way by several processes at once."""
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
    with Journal(path, check=False) as journal:
        database = journal._connection
        parts: dict[str, Callable[[], Any]] = {
            "without_check": lambda: Journal(path, check=False).close(),
            "with_check": lambda: Journal(path).close(),
            "quick_check": lambda: database.execute("PRAGMA quick_check").fetchall(),
            "integrity_check": lambda: database.execute("PRAGMA integrity_check").fetchall(),
            "schema": schema.expected,
            "seals": lambda: seals.held(database),
            "fold": lambda: RunState(1).fold(queries.changes(database, 1, 0)),
        }
        return {name: round(1e3 * _seconds(part), 2) for name, part in parts.items()}


def _seconds(work: Callable[[], Any]) -> float:
    started = perf_counter()
    work()
    return perf_counter() - started
