"""What SQLite's errors mean for a journal: one sentence each that says what is safe and what to do."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ERROR = 1  # a statement does not fit the tables
_DENIED = (3, 8, 14, 23)  # PERM, READONLY, CANTOPEN, AUTH
_BUSY = (5, 6)
_DISK = 10
_FULL = 13
_DAMAGED = 11
_NO_DATABASE = 26
_MOVED = 1032
# What reading a damaged file raises; Unicode errors come from names in SQLite's own messages.
FAILURES = (sqlite3.Error, UnicodeDecodeError)


def kind_of(failure: BaseException) -> int | None:
    """SQLite's primary code of an error, None where it has none."""
    code = getattr(failure, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def is_busy(failure: BaseException) -> bool:
    """Whether a failure means that another program holds the file for now."""
    return isinstance(failure, sqlite3.OperationalError) and kind_of(failure) in _BUSY


def is_damage(failure: BaseException) -> bool:
    """Whether a failure means that bytes of the file are not what SQLite wrote."""
    if kind_of(failure) is None:  # Python's own: a text is none
        return isinstance(failure, sqlite3.OperationalError | UnicodeDecodeError)
    return kind_of(failure) in (_DAMAGED, _NO_DATABASE)


def damaged(path: str | Path, reason: str, whole: int = 0) -> ValueError:
    """The refusal of a damaged journal; entries up to `whole` can be trusted."""
    trusted = f"entries up to {whole} are as they were written; " if whole else ""
    return ValueError(
        f"store: {path} is damaged, or was copied in mid-write ({reason}); {trusted}copy it again from where it was"
        " written, with `natsel journal copy`, or take a backup, and keep this file: `natsel journal export --damaged`"
        " writes the labels that can be read"
    )


def explained(failure: Exception, path: str | Path, timeout: float) -> Exception:
    """An error of SQLite as one that people understand; what is no matter of files comes back as it is.

    >>> with sqlite3.connect(":memory:") as database:
    ...     try:
    ...         database.execute("PRAGMA query_only = ON").execute("CREATE TABLE a (b)")
    ...     except sqlite3.Error as failure:
    ...         explained(failure, "run.db", 60.0)
    PermissionError('store: run.db or its folder may not be written to ...
    """
    kind = kind_of(failure)
    said = "text that is none" if isinstance(failure, UnicodeDecodeError) else str(failure)
    if is_busy(failure):
        return TimeoutError(
            f"store: another program has held {path} for {timeout:g} s; nothing of this call was written, all before it"
            " is safe; look for a program that hangs, and call again"
        )
    if getattr(failure, "sqlite_errorcode", None) == _MOVED:
        return OSError(
            f"store: {path} was moved or removed while it was open; nothing of this call was written; put it back, or"
            " open it again where it is now"
        )
    if kind == _FULL:
        return OSError(
            f"store: no room is left for {path} ({said}); nothing of this call was written, all before it is safe; make"
            " room and call again"
        )
    if kind == _DISK:
        return OSError(
            f"store: the disk of {path} failed ({said}); nothing of this call was acknowledged, all before it is safe;"
            " look whether the disk is full, over a quota or gone, and call again"
        )
    if kind in _DENIED:
        return PermissionError(
            f"store: {path} or its folder may not be written to ({said}); what it holds is safe; allow writing, or copy"
            " it to a folder of yours"
        )
    if kind == _NO_DATABASE:
        return ValueError(
            f"store: {path} is no journal, or its first bytes are damaged ({said}); choose another file, or take this"
            " one from a backup"
        )
    if is_damage(failure):
        return damaged(path, said)
    if kind == _ERROR:
        return ValueError(
            f"store: {path} cannot be read as a journal ({said}); nothing in it was changed; choose another file, or"
            " take this one from a backup"
        )
    return failure


@contextmanager
def explaining(path: str | Path, timeout: float) -> Iterator[None]:
    """Errors of SQLite leave the block explained."""
    try:
        yield
    except FAILURES as failure:
        sentence = explained(failure, path, timeout)
        if sentence is failure:
            raise
        raise sentence from None
