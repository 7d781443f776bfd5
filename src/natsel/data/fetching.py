"""Fetch a data set from its public home: download, convert, compare, keep. Nothing else in natsel fetches data.

The files of the home are downloaded (`natsel.data.download`), turned into the arrays that `natsel.data.load` reads
(`natsel.data.originals`) and compared with those that natsel's published results were made with
(`natsel.data.digests`). What is the same is kept in natsel's cache folder, all or nothing.
"""

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from natsel.containers import atomically, remove_leftovers
from natsel.data.digests import Contents, digest
from natsel.data.download import UnreachableFile, download, enough_room
from natsel.data.folders import AbsentData, cache_folder
from natsel.data.load import find_set, open_set, origin_of
from natsel.data.origins import Download, Origin


def fetch(
    name: str, *, url: str | None = None, folder: str | Path | None = None, check: bool = True
) -> tuple[Path, ...]:
    """The files of a data set, downloaded if they are not on this machine.

    `url` is another place to take it from: a folder on the web or on this machine with the files of its public home, or
    the file itself where it is only one. They are kept in `folder`, or in `data` in natsel's cache folder. With
    `check=False` a set that differs from the one that natsel's results were made with is kept all the same.

    >>> fetch("digits")
    Traceback (most recent call last):
    ValueError: name: digits is always there; natsel.data.load("digits") gives it
    """
    origin = origin_of(name)
    if origin.download is None:
        raise ValueError(f'name: {name} is always there; natsel.data.load("{name}") gives it')
    with suppress(AbsentData):
        return find_set(name, folder)
    places = origin.download.addresses if url is None else (_address(url),)
    home = cache_folder() / "data" if folder is None else Path(folder).expanduser()
    waiting = home / "downloads" / name
    try:
        waiting.mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise ValueError(f"folder: {home} cannot be made ({reason.strerror}); set NATSEL_CACHE to another") from None
    try:
        paths = _downloaded(origin.download, places, waiting)
        try:
            contents = _converted(name, origin, paths, " or ".join(places), check)
        except ValueError:  # another call would find the same
            shutil.rmtree(waiting)
            raise
        files = _written(contents, home)
        shutil.rmtree(waiting)
        return files
    finally:
        _remove_if_empty(waiting, waiting.parent)


def is_as_published(name: str, folder: str | Path | None = None) -> bool:
    """Whether the arrays on this machine are those that natsel's published results were made with.

    >>> is_as_published("digits")
    True
    """
    origin = origin_of(name)
    if origin.download is None:
        return True
    opened = open_set(name, folder)
    return digest({file: {key: opened[file].read(key) for key in keys} for file, keys in origin.files.items()}) == (
        origin.digest
    )


def _address(url: str) -> str:
    """A folder or file as an address; a path on this machine becomes one."""
    scheme = urlsplit(url).scheme
    if scheme in ("http", "https", "file"):
        return url
    if "://" in url:
        raise ValueError(f"url: expected an address that begins with http, https or file, found {url}; name such a one")
    path = Path(url).expanduser().resolve()
    if not path.exists():
        raise ValueError(f"url: there is no file or folder {path}; check it, or give an address that begins with http")
    return path.as_uri() + ("/" if path.is_dir() else "")


def _downloaded(needed: Download, places: tuple[str, ...], waiting: Path) -> dict[str, Path]:
    """The files of the home, each from the first place that has it; those of an earlier call are kept."""
    paths = {}
    for file, md5 in needed.files.items():
        paths[file] = waiting / file
        for place in places:
            whole = len(needed.files) == 1 and not place.endswith("/")
            try:
                if not paths[file].exists():
                    download(place if whole else f"{place.rstrip('/')}/{file}", paths[file], md5)
                break
            except UnreachableFile:
                if place == places[-1]:
                    raise
    return paths


def _converted(name: str, origin: Origin, paths: dict[str, Path], place: str, check: bool) -> Contents:
    """The arrays of the set, refused where they are not what they should be."""
    assert origin.download is not None
    try:
        contents = origin.download.convert(paths)
    except Exception as reason:  # wrong bytes make readers fail in every way there is
        found = " ".join(str(reason).split()) or type(reason).__name__
        raise ValueError(
            f"name: what came from {place} is not {name} as its home has it ({found}); name another address with "
            "--from URL (url= in Python)"
        ) from None
    found = digest(contents)
    if check and found != origin.digest:
        raise ValueError(
            f"name: what came from {place} is not the {name} that natsel's results were made with (SHA-256 "
            f"{found[:12]}…, expected {origin.digest[:12]}…); name another address with --from URL, or keep it with "
            "--unchecked (url= and check=False in Python)"
        )
    return contents


def _written(contents: Contents, home: Path) -> tuple[Path, ...]:
    remove_leftovers(home)
    files = []
    with enough_room(home):
        for file, arrays in contents.items():
            with atomically(home / f"{file}.npz") as place, place.open("wb") as stream:
                entries: dict[str, Any] = dict(arrays)
                np.savez_compressed(stream, **entries)
            files.append(home / f"{file}.npz")
    return tuple(files)


def _remove_if_empty(*folders: Path) -> None:
    for folder in folders:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
