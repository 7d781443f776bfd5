"""What a benchmark leaves behind: the facts of machine and versions beside the numbers, and tables."""

import os
import platform
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table


def machine() -> dict[str, Any]:
    """The processor, how many there are, and the system.

    >>> machine()["cores"] >= 1
    True
    """
    model = platform.processor() or platform.machine()
    listed = Path("/proc/cpuinfo")
    if listed.is_file():
        lines = listed.read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    return {"cpu": model, "cores": os.cpu_count() or 1, "system": f"{platform.system()} {platform.machine()}"}


def show(document: dict[str, Any], console: Console | None = None) -> None:
    """Print a document of `natsel.bench.run` as tables, on stderr unless told otherwise."""
    console = console or Console(stderr=True)
    for label, rows in groupby(document["rows"], key=lambda row: row["label"]):
        console.print(_contenders(label, list(rows)))
    if document["quality"]:
        console.print(_quality(document["quality"]))
    for bar in document.get("verdict", ()):
        console.print(f"{'holds' if bar['holds'] else 'FAILS'}: {bar['bar']}; found {bar['found']:.3g} ({bar['at']})")
    facts = document["machine"]
    console.print(
        f"{facts['cpu']}, {facts['cores']} cores, {document['threads']} thread(s); x: times natsel's value;"
        f" nats: judged outside on {document['configurations']:,} label configurations",
        style="dim",
    )
    for warning in document["warnings"]:
        console.print(f"! {warning}", style="yellow")


def markdown(document: dict[str, Any]) -> str:
    """The rows of a document as a Markdown table, as the README shows it.

    >>> markdown({"rows": []}).splitlines()[0]
    '| | | CPU s | × natsel | peak extra MiB | nats | Δ mnat |'
    """
    lines = ["| | | CPU s | × natsel | peak extra MiB | nats | Δ mnat |", "|---|---|--:|--:|--:|--:|--:|"]
    for label, rows in groupby(document["rows"], key=lambda row: row["label"]):
        for number, row in enumerate(row for row in rows if row["status"] == "ok"):
            cells = (
                label if number == 0 else "",
                row["contender"],
                f"{row['cpu_s']:.3g}",
                _times(row.get("cpu_ratio")),
                f"{row['peak_extra_mib']:.0f}",
                _number(row["information"], ".4f"),
                _number(row.get("difference_mnat"), "+.1f") if number else "",
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _table(label: str, *columns: str) -> Table:
    table = Table(title=label, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("", min_width=14, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", min_width=6, no_wrap=True)
    return table


def _contenders(label: str, rows: list[dict[str, Any]]) -> Table:
    table = _table(label, "CPU s", "x", "wall s", "x", "peak MiB", "x", "nats", "Δ mnat")
    table.add_column("", style="dim")
    for row in rows:
        if row["status"] != "ok":
            table.add_row(row["contender"], row["status"], *[""] * 7, row["note"])
            continue
        table.add_row(
            row["contender"],
            f"{row['cpu_s']:.3g}",
            _times(row.get("cpu_ratio")),
            f"{row['wall_s']:.3g}",
            _times(row.get("wall_ratio")),
            f"{row['peak_extra_mib']:.0f}",
            _times(row.get("memory_ratio")),
            _number(row["information"], ".4f"),
            _number(row.get("difference_mnat"), "+.1f"),
            row["note"],
        )
    return table


def _quality(rows: list[dict[str, Any]]) -> Table:
    table = _table("worth of BatchBALD batches", "claimed", "worth", "s.e.", "top-k", "reference", "beaten", "CPU s")
    for row in rows:
        table.add_row(
            row["case"],
            f"{fmean(row['claimed']):.4f}",
            f"{fmean(row['worth']):.4f}",
            f"{row['worth_se']:.4f}",
            f"{row['top_k']:.4f}",
            f"{row['reference']:.4f}",
            f"{row['picks']['beaten_unflagged']} of {row['picks']['unflagged']}",
            f"{row['cpu_s']:.2g}",
        )
    return table


def _times(ratio: float | None) -> str:
    if ratio is None:
        return ""
    return f"{ratio:.0f}x" if ratio >= 10 else f"{ratio:.2g}x"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
