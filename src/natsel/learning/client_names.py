"""The name of a client, which no other live client has on the same run.

    who="anna"     the name given. A second live client of that name may ask and tell, but neither run nor step.
    who=""         the first free one of "", "unnamed 2", "unnamed 3" …

A run answers what is outstanding under its name, so two clients that share a name would put the same id to two oracles.
A name in use is a lock on a file beside the journal; the operating system unlocks it when the process ends, also when
it is killed. A client that starts again without a name finds the old name free, and answers what is outstanding under
it, or is asked it again. It also answers for other clients without a name that have ended since.
docs/decisions/0015, 0021
"""

import errno
import hashlib
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import IO
from weakref import WeakKeyDictionary

from natsel.containers import appending
from natsel.store import Journal

LetGo = Callable[[], None]

# Only threads share a journal in memory; their names are locked here.
_in_memory: "WeakKeyDictionary[Journal, dict[str, threading.Lock]]" = WeakKeyDictionary()
_making = threading.Lock()


class ClientNames:
    """The names that a client holds on a run, until it is closed, garbage-collected or its process ends.

    >>> journal = Journal()
    >>> one, two = ClientNames(journal, "main"), ClientNames(journal, "main")
    >>> one.take(), two.take()
    ('', 'unnamed 2')
    >>> one.let_go()
    >>> sorted(two.answering({"", "anna"}))
    ['', 'unnamed 2']
    """

    def __init__(self, journal: Journal, run: str, who: str = "") -> None:
        if not isinstance(who, str):
            raise ValueError(f"who: expected the name of a client or a person, found {who!r}")
        self.given, self._journal, self._run = who, journal, run
        # Resolved now: a relative path leads elsewhere once the working folder of the process is changed.
        self._beside = os.path.realpath(journal.path) if isinstance(journal.path, Path) else None
        self._held: dict[str, LetGo] = {}
        self._lock = threading.Lock()
        weakref.finalize(self, _let_go, self._held)

    @property
    def name(self) -> str:
        """The name to write under."""
        with self._lock:
            return self.given or next(iter(self._held), "")

    def take(self) -> str:
        """The name to ask under, held from now on where nobody else holds it."""
        with self._lock:
            if self.given:
                self._hold(self.given)
            elif not self._held:
                next(name for name in map(_unnamed, count(1)) if self._hold(name))
        return self.name

    def held(self, others: Iterable[str]) -> set[str]:
        """The names that no other client has: of its own and, where it has none, those of others that have ended."""
        self.take()
        with self._lock:
            return {
                *self._held,
                *(name for name in others if not self.given and _is_unnamed(name) and self._hold(name)),
            }

    def answering(self, others: Iterable[str]) -> set[str]:
        """The names whose outstanding ids are this client's to answer, of its own and some others."""
        owners = self.held(others)
        if not owners:
            raise ValueError(
                f"who: another live client on {self._journal.path} is called {self.given!r}, and a run answers all"
                " that is outstanding under its name; give this one another name, or end the other"
            )
        return owners

    def let_go(self) -> None:
        """Leave the names to others."""
        with self._lock:
            _let_go(self._held)

    def _hold(self, name: str) -> bool:
        if name not in self._held:
            key = hashlib.blake2b(repr((self._run, name)).encode(), digest_size=4).hexdigest()
            if self._beside is None:
                let_go = _lock_in_memory(self._journal, key)
            else:
                let_go = _lock_file(Path(f"{self._beside}.{key}.lock"))
            if let_go is None:
                return False
            self._held[name] = let_go
        return True


def _unnamed(number: int) -> str:
    return "" if number == 1 else f"unnamed {number}"


def _is_unnamed(name: str) -> bool:
    return name == "" or re.fullmatch(r"unnamed \d+", name) is not None


def _let_go(held: dict[str, LetGo]) -> None:
    while held:
        held.popitem()[1]()


def _lock_in_memory(journal: Journal, key: str) -> LetGo | None:
    with _making:
        lock = _in_memory.setdefault(journal, {}).setdefault(key, threading.Lock())
    return lock.release if lock.acquire(blocking=False) else None


def _lock_file(path: Path) -> LetGo | None:
    """A function that unlocks the file again; None where another process holds the lock."""
    while True:
        try:
            file = appending(path)
            if not _locked(file):
                file.close()
                return None
        except OSError as reason:
            raise ValueError(
                f"store: {path} cannot be locked ({reason.strerror}); choose a folder on a local disk that you may"
                " write to"
            ) from None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return partial(_unlock, file, path, os.getpid())
        file.close()  # its last holder removed the file in between: what is locked here has no path any more


def _unlock(file: IO[str], path: Path, process: int) -> None:
    if os.getpid() == process:  # a child made by fork has the file open too, but does not hold the name
        with suppress(OSError):
            path.unlink()
    file.close()


def _locked(file: IO[str]) -> bool:
    """Lock a file until it is closed or the process ends; False where it is locked."""
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as reason:
        if reason.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise
    return True
