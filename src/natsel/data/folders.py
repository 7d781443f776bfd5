"""Where data lies on this machine: a file is found in one of these folders, or it is absent.

1. the folder given, or `$NATSEL_DATA`;
2. `data` in natsel's cache folder (`$NATSEL_CACHE`, else where the system keeps caches): `natsel data get` fills it.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path


class AbsentData(ValueError):
    """A data file that is not on this machine; the message says where it was looked for."""


def cache_folder() -> Path:
    """Where natsel keeps what it can make again; the folder need not exist.

    >>> cache_folder().name
    'natsel'
    """
    chosen = os.environ.get("NATSEL_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "natsel"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "natsel"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "natsel"


def data_folders(folder: str | Path | None = None) -> tuple[Path, ...]:
    """The folders looked in, in order; a folder that is given is the only one.

    >>> len(data_folders("there"))
    1
    """
    if folder is not None:
        return (Path(folder).expanduser(),)
    chosen = os.environ.get("NATSEL_DATA")
    return (*([Path(chosen).expanduser()] if chosen else []), cache_folder() / "data")


def find(name: str, files: Sequence[str], folder: str | Path | None = None, remedy: str = "") -> Path:
    """The path of the first of some files that is on this machine, or an error that says how to get the data set.

    Args:
        name: the data set, for the error.
        files: names of files, any of which will do.
        folder: where to look, and nowhere else; the usual places if not given.
        remedy: how to get it, where `natsel data get` does not.

    >>> find("mnist", ["mnist.npz"], "there")
    Traceback (most recent call last):
    natsel.data.folders.AbsentData: name: the file mnist.npz is not on this machine (looked in there); ...
    """
    looked = data_folders(folder)
    for path in (place / file for place in looked for file in files):
        if path.is_file():
            return path
    raise AbsentData(
        f"name: the file {' or '.join(files)} is not on this machine (looked in {', '.join(map(str, looked))}); "
        f"{remedy or f'fetch it with `natsel data get {name}`'}, or set NATSEL_DATA to the folder that holds it"
    )
