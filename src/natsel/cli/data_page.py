"""The tables of docs/data.md: the data sets, and the arrays in their files."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from natsel.data import CatalogueEntry


def data_tables(entries: "Mapping[str, CatalogueEntry]") -> str:
    """Both tables; what is on this machine has no part in them."""
    lines = ["| name | kind | what it is | rows | MB | licence | home |"]
    lines.append("| --- | --- | --- | ---: | ---: | --- | --- |")
    arrays: dict[str, str] = {}
    for entry in entries.values():
        origin = entry.origin
        home = f"<{origin.home}>" if origin.home.startswith("http") else f"`{origin.home}`"
        size = "–" if origin.download is None else f"{origin.megabytes:g}"
        cells = (f"`{entry.name}`", entry.kind, entry.about, f"{origin.rows:,}", size, origin.licence, home)
        lines.append(f"| {' | '.join(cells)} |")
        for file, shapes in origin.files.items():
            also = f" (or in `{origin.bundle}.npz`)" if origin.bundle else ""
            said = ", ".join(f"`{key}` {shape}" for key, shape in shapes.items())
            arrays[f"`{file}.npz`{also}"] = said
    lines += ["", "| file | arrays |", "| --- | --- |", *(f"| {file} | {said} |" for file, said in arrays.items())]
    return "\n".join(lines) + "\n"
