"""One file from the web: what has arrived is kept in `NAME.part`, so that a later call goes on from there.

A server that cannot send the rest of a file (HTTP range requests) sends all of it again. The file gets its name when it
is complete and has the checksum that is expected; a file with another one is removed.
"""

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from natsel.progress import ProgressBar

_BLOCK = 1 << 16
_TIMEOUT = 30.0  # seconds without a byte
_TRIES = 5  # in one call, as long as each brings something
_LARGEST = 400_000_000  # bytes; the largest original has 170 million
_FULL = (errno.ENOSPC, errno.EDQUOT)


class UnreachableFile(ValueError):
    """A file that could not be had from an address; another address may have it."""


def download(url: str, target: Path, md5: str | None = None) -> None:
    """Fetch a file to `target`; a `.part` beside it that an earlier call left is completed.

    >>> download("file:///no/such/file", Path("copy"))
    Traceback (most recent call last):
    natsel.data.download.UnreachableFile: url: file:///no/such/file cannot be had (...); check the network, or ...
    """
    part = target.with_name(f"{target.name}.part")
    with enough_room(target.parent):
        for _ in range(_TRIES):
            before = _size(part)
            complete = _receive(url, part)
            if complete or _size(part) <= before:
                break
        if not complete:
            raise UnreachableFile(
                f"url: the connection to {url} ended after {_size(part):,} bytes; they are kept, call again to go on"
            )
        if md5 is not None and (found := _md5(part)) != md5:
            part.unlink()
            raise ValueError(
                f"url: {url} gave a file with the MD5 {found} where {md5} is published; try later, or another "
                "address with --from URL (url= in Python)"
            )
        os.replace(part, target)


@contextmanager
def enough_room(folder: Path) -> Iterator[None]:
    """A disk that is full becomes a ValueError in one sentence.

    >>> with enough_room(Path("here")):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    ValueError: folder: the disk of here is full; free some space and call again, or set NATSEL_CACHE to a folder ...
    """
    try:
        yield
    except OSError as reason:
        if reason.errno not in _FULL:
            raise
        raise ValueError(_no_room(folder, "is full")) from None


def _receive(url: str, part: Path) -> bool:
    """Append what is missing of a file; whether it is complete now."""
    start = _size(part)
    headers = {"User-Agent": "natsel"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        response = urlopen(Request(url, headers=headers), timeout=_TIMEOUT)
    except HTTPError as reason:
        reason.close()
        if reason.code == 416 and start:  # nothing follows what is here: begin again
            part.unlink()
            return _receive(url, part)
        raise _unreachable(url, f"the server answers {reason.code} {reason.reason}") from None
    except (OSError, HTTPException) as reason:
        raise _unreachable(url, str(getattr(reason, "reason", reason)) or type(reason).__name__) from None
    with response:
        if response.status == 206 and _first_byte(response) != start:
            part.unlink(missing_ok=True)
            raise _unreachable(url, "the server sends another part of the file than the one asked for")
        resumed = response.status == 206
        return _append(response, part, start if resumed else 0)


def _append(response: Any, part: Path, start: int) -> bool:
    length = response.headers.get("Content-Length")
    total = start + int(length) if length and length.isdecimal() else None
    if total is not None and total - start > shutil.disk_usage(part.parent).free:
        raise ValueError(_no_room(part.parent, f"has less than the {(total - start) / 1e6:,.0f} MB that are to come"))
    bar, arrived, broken = ProgressBar(f"{part.stem} (kB)"), start, False
    with part.open("ab" if start else "wb") as stream:
        while True:
            try:
                block = response.read(_BLOCK)
            except (OSError, HTTPException):  # what has arrived is kept
                broken = True
                break
            if not block:
                break
            stream.write(block)
            arrived += len(block)
            if arrived > _LARGEST:
                part.unlink()
                raise _unreachable(response.url, f"it sends more than {_LARGEST:,} bytes, which no original has")
            if total is not None:
                bar(arrived // 1000, max(1, total // 1000))
    bar.wipe()
    return not broken and (total is None or arrived >= total)


def _first_byte(response: Any) -> int:
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(found[1]) if found else -1


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _md5(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _no_room(folder: Path, found: str) -> str:
    return (
        f"folder: the disk of {folder} {found}; free some space and call again, or set NATSEL_CACHE to a folder on "
        "another disk"
    )


def _unreachable(url: str, reason: str) -> UnreachableFile:
    return UnreachableFile(
        f"url: {url} cannot be had ({reason}); check the network, or name another address with --from URL (url= in "
        "Python)"
    )
