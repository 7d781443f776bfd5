"""The document of a measurement: how, when, where and with what it was made, and its figures as text.

One form for all: command, date, threads, versions (with the commit), machine and its load before; then `rows`,
`quality`, `jepig` and `verdict` of a comparison with peers, or `settings` and `found` of any other measurement.
"""

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any, TextIO

from natsel.provenance import versions

_COLUMNS = ("", "CPU s", "× CPU", "wall s", "× wall", "peak extra MiB", "× peak", "nats", "Δ mnat", "note")


def about(command: str, threads: int) -> dict[str, Any]:
    """What every document begins with.

    >>> about("natsel bench epig", 1)["machine"]["cores"] >= 1
    True
    """
    model = platform.processor() or platform.machine()
    listed = Path("/proc/cpuinfo")
    if listed.is_file():
        lines = listed.read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    machine = {"cpu": model, "cores": os.cpu_count() or 1, "system": f"{platform.system()} {platform.machine()}"}
    return {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "seed": 0,
        "threads": threads,
        "versions": versions(),
        "machine": machine,
        "load_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def show(document: dict[str, Any], file: TextIO | None = None) -> None:
    """Print a document as tables, on stderr unless told otherwise."""
    print("\n".join(_lines(document)), file=file or sys.stderr)


def markdown(document: dict[str, Any]) -> str:
    """The rows of a document as a Markdown table, as docs/benchmarks.md shows it.

    >>> markdown({"rows": []}).splitlines()[0]
    '| | | CPU s | × natsel | peak extra MiB | nats | Δ mnat |'
    """
    lines = ["| | | CPU s | × natsel | peak extra MiB | nats | Δ mnat |", "|---|---|--:|--:|--:|--:|--:|"]
    for label, rows in groupby(document["rows"], key=lambda row: row["label"]):
        for number, row in enumerate(row for row in rows if row["status"] == "ok"):
            cells = _cells(row)
            shown = (cells[name] for name in ("", "CPU s", "× CPU", "peak extra MiB", "nats", "Δ mnat"))
            lines.append(f"| {' | '.join((label if number == 0 else '', *shown))} |")
    return "\n".join(lines)


def _lines(document: dict[str, Any]) -> Iterator[str]:
    for label, rows in groupby(document.get("rows", ()), key=lambda row: row["label"]):
        yield from (f"\n{label}", *_table([_cells(row) for row in rows]))
    if document.get("quality"):
        yield from ("\nworth of BatchBALD batches", *_table([_quality(row) for row in document["quality"]]))
    for bar in document.get("verdict", ()):
        yield f"{'holds' if bar['holds'] else 'FAILS'}: {bar['bar']}; found {bar['found']:.3g} ({bar['at']})"
    if "found" in document:
        yield from (document["command"], *_figures(document["settings"]), "", *_figures(document["found"]))
    facts = document["machine"]
    yield f"\n{facts['cpu']}, {facts['cores']} cores, {document['threads']} thread(s)"
    if "configurations" in document:
        yield f"×: times natsel's value; nats: judged outside on {document['configurations']:,} label configurations"
    yield from (f"! {warning}" for warning in document.get("warnings", ()))


def _table(rows: Sequence[dict[str, str]]) -> Iterator[str]:
    """Rows as lines with aligned columns: words to the left, numbers to the right."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [names, *([row.get(name, "") for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        first, *others = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        yield "  ".join((first.strip().ljust(widths[0]), *others[:-1], others[-1].strip())).rstrip()


def _cells(row: dict[str, Any]) -> dict[str, str]:
    """What a reader sees of one contender."""
    if row["status"] != "ok":
        return dict.fromkeys(_COLUMNS, "") | {"": row["contender"], "CPU s": row["status"], "note": row["note"]}
    ratios = [row.get(name) for name in ("cpu_ratio", "wall_ratio", "memory_ratio")]
    by_cpu, by_wall, by_peak = ["" if x is None else f"{x:.0f}x" if x >= 10 else f"{x:.2g}x" for x in ratios]
    nats = "" if row["information"] is None else f"{row['information']:.4f}"
    more = f"{row['difference_mnat']:+.1f}" if "difference_mnat" in row and row["contender"] != "natsel" else ""
    taken = (f"{row['cpu_s']:.3g}", by_cpu, f"{row['wall_s']:.3g}", by_wall, f"{row['peak_extra_mib']:.0f}", by_peak)
    return dict(zip(_COLUMNS, (row["contender"], *taken, nats, more, row["note"]), strict=True))


def _quality(row: dict[str, Any]) -> dict[str, str]:
    return {
        "": row["case"],
        **{name: f"{fmean(row[name]):.4f}" for name in ("claimed", "worth")},
        **{name: f"{row[name]:.4f}" for name in ("worth_se", "top_k", "reference")},
        "beaten": f"{row['picks']['beaten_unflagged']} of {row['picks']['unflagged']}",
        "CPU s": f"{row['cpu_s']:.2g}",
    }


def _figures(value: Any, name: str = "") -> Iterator[str]:
    """Names and values of nested figures, one per line; a list of rows as a table."""
    if isinstance(value, dict):
        for key in _shown(value):
            yield from _figures(value[key], f"{name} {key}".strip())
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield from (name, *_table([{key: _short(row[key]) for key in _shown(row)} for row in value]))
    else:
        yield f"{name:36}{_short(value)}"


def _shown(figures: dict[str, Any]) -> list[str]:
    return [key for key in figures if not key.endswith("_runs")]  # single runs are for the file


def _short(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_short, value)) if len(value) < 10 else f"{len(value)} values"
    return f"{value:.4g}" if isinstance(value, float) else f"{value}"
