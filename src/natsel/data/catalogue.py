"""All data sets with what is known of each: what it is, its size, licence and home, and whether it is here."""

from dataclasses import dataclass
from pathlib import Path

from natsel.data.dataset import Kind
from natsel.data.folders import AbsentData
from natsel.data.load import find_set, names
from natsel.data.made import MADE
from natsel.data.origins import ORIGINS, Origin
from natsel.data.stored import STORED


@dataclass(frozen=True)
class CatalogueEntry:
    """One data set; `paths` are its files on this machine, None where they are absent and () where it needs none."""

    name: str
    kind: Kind
    about: str
    origin: Origin
    paths: tuple[Path, ...] | None


def catalogue(folder: str | Path | None = None) -> dict[str, CatalogueEntry]:
    """Every data set by name; files are looked for in `folder`, else in the usual places.

    >>> entry = catalogue()["digits"]
    >>> entry.origin.rows, entry.origin.licence, entry.paths
    (1797, 'CC BY 4.0 (UCI)', ())
    """
    return {name: _entry(name, about, folder) for name, about in names().items()}


def _entry(name: str, about: str, folder: str | Path | None) -> CatalogueEntry:
    try:
        paths = find_set(name, folder)
    except AbsentData:
        paths = None
    kind = (STORED[name] if name in STORED else MADE[name])[0]
    return CatalogueEntry(name, kind, about, ORIGINS[name], paths)
