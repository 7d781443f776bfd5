"""Arrays that take minutes to make: made once, then kept in natsel's cache folder and compared when they are read.

The file `made/NAME.npz` holds the arrays and the SHA-256 of their bytes (`natsel.data.digests`). A file that is damaged
or does not match is made again. It is written all or nothing, so that two processes that make it at once do no harm.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from natsel.containers import atomically, open_arrays, remove_leftovers
from natsel.data.digests import digest
from natsel.data.folders import cache_folder
from natsel.data.labels import Array


def made_once(name: str, make: Callable[[], Mapping[str, Array]]) -> Mapping[str, Array]:
    """The arrays of that name, from the cache folder, else from `make`."""
    path = cache_folder() / "made" / f"{name}.npz"
    if path.is_file():
        try:
            opened = open_arrays(path)
            arrays = {key: opened.read(key) for key in opened.shapes}
            if opened.texts.get("sha256") == digest({name: arrays}):
                return arrays
        except ValueError:  # a damaged file is no loss: it can be made again
            pass
    made = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path.parent)
    with atomically(path) as place, place.open("wb") as stream:
        entries: dict[str, Any] = {**made, "sha256": np.array(digest({name: made}))}
        np.savez_compressed(stream, **entries)
    return made
