"""Data sets by name.

Those inside scikit-learn and those made by a formula are always there; the others are read from files on this machine
(`natsel.data.folders` says where). `load` downloads nothing; `natsel.data.fetch` does, when it is called.
"""

from difflib import get_close_matches
from pathlib import Path

from natsel.containers import Arrays, open_arrays
from natsel.data.dataset import DataSet
from natsel.data.folders import find
from natsel.data.made import MADE, make
from natsel.data.origins import ORIGINS, Origin
from natsel.data.stored import STORED, load_stored


def load(name: str, *, folder: str | Path | None = None) -> DataSet:
    """The data set of that name; its files are looked for in `folder`, else in the usual places.

    >>> digits = load("digits")
    >>> len(digits.train), len(digits.test), digits.train.n_classes
    (1258, 539, 10)
    """
    origin_of(name)
    if name in MADE:
        return make(name)
    return load_stored(name, open_set(name, folder).__getitem__)


def names() -> dict[str, str]:
    """Every name `load` knows, each with a line about the set.

    >>> names()["digits"]
    'handwritten digits, 8×8 pixels, 10 classes (scikit-learn)'
    """
    return {name: about for sets in (MADE, STORED) for name, (_, about, _) in sets.items()}


def origin_of(name: str) -> Origin:
    """What is known of a data set, or an error that names a similar one.

    >>> origin_of("mnist").rows
    70000
    """
    if name not in ORIGINS:
        close = get_close_matches(name.lower().replace("_", "-"), names(), n=1)
        hint = f"did you mean {close[0]!r}?" if close else "natsel.data.names() lists them"
        raise ValueError(f"name: there is no data set {name!r}; {hint}")
    return ORIGINS[name]


def find_set(name: str, folder: str | Path | None = None) -> tuple[Path, ...]:
    """The paths of the files of a data set, or an error that says how to get it; none for a set that is always there.

    >>> find_set("digits")
    ()
    """
    origin = origin_of(name)
    others = (f"{origin.bundle}.npz",) if origin.bundle else ()
    return tuple(find(name, (f"{file}.npz", *others), folder) for file in origin.files)


def open_set(name: str, folder: str | Path | None = None) -> dict[str, Arrays]:
    """The files of a data set, opened; nothing is read from them yet.

    >>> open_set("digits")
    {}
    """
    paths = find_set(name, folder)
    return {file: open_arrays(path) for file, path in zip(origin_of(name).files, paths, strict=True)}
