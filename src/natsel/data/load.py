"""Data sets by name.

Those inside scikit-learn and those made by a formula are always there; the others are read from files on this machine
(`natsel.data.folders` says where). Nothing is downloaded.
"""

from difflib import get_close_matches
from pathlib import Path

from natsel.containers import Arrays, open_arrays
from natsel.data.dataset import DataSet
from natsel.data.folders import find
from natsel.data.made import ABOUT, MADE
from natsel.data.stored import STORED, load_stored


def load(name: str, *, folder: str | Path | None = None) -> DataSet:
    """The data set of that name; its files are looked for in `folder`, else in the usual places.

    >>> digits = load("digits")
    >>> len(digits.train), len(digits.test), digits.train.n_classes
    (1258, 539, 10)
    """
    if name in MADE:
        return MADE[name]()
    if name not in STORED:
        close = get_close_matches(name.lower().replace("_", "-"), names(), n=1)
        hint = f"did you mean {close[0]!r}?" if close else "natsel.data.names() lists them"
        raise ValueError(f"name: there is no data set {name!r}; {hint}")

    def files(file: str) -> Arrays:
        return open_arrays(find(f"{file}.npz", folder))

    return load_stored(name, files)


def names() -> dict[str, str]:
    """Every name `load` knows, each with a line about the set.

    >>> names()["digits"]
    'handwritten digits, 8×8 pixels, 10 classes (scikit-learn)'
    """
    return {**ABOUT, **{name: about for name, (_, about, _) in STORED.items()}}
