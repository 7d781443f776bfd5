"""What commands print: JSON for machines and tables for people on stdout, all else on stderr."""

import csv
import io
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from natsel import Explanation

COLUMNS = ("rank", "id", "score", "gain", "epistemic", "aleatoric", "overlap")

# Off a terminal: say nothing about quick work, then a line now and then.
_PATIENCE = 2.0
_PAUSE = 10.0


def print_json(value: Any) -> None:
    """One JSON value on stdout; numbers JSON does not know become null.

    >>> print_json({"total": 1.5, "gap": float("inf")})
    {"total": 1.5, "gap": null}
    """
    sys.stdout.write(json.dumps(_plain(value), allow_nan=False, ensure_ascii=False) + "\n")


def warn(warnings: Sequence[str]) -> None:
    """Warnings for people, on stderr."""
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)


def rows(explanation: "Explanation") -> list[dict[str, Any]]:
    """The picks of an explanation as plain rows, ranked from 1."""
    return [
        {"rank": rank, **{name: getattr(pick, name) for name in COLUMNS[1:]}}
        for rank, pick in enumerate(explanation.picks, start=1)
    ]


def picks_table(rows: Sequence[dict[str, Any]], columns: Sequence[str], title: str | None = None) -> "Table":
    """Picks as a table for people."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        cells = (row[name] for name in columns)
        table.add_row(
            *(f"{cell:.4f}" if isinstance(cell, float) else "–" if cell is None else str(cell) for cell in cells)
        )
    return table


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Picks as CSV, every number in full."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


@contextmanager
def progress(total: int, label: str) -> Iterator[Callable[[int], None]]:
    """A bar on stderr that vanishes when done; where stderr is no terminal, a line when it takes long."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(total, label)
        return
    from rich.progress import Progress

    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda step: bar.advance(task, step)


class _Lines:
    """Progress as lines of text."""

    def __init__(self, total: int, label: str) -> None:
        self.total = total
        self.label = label
        self.done = 0
        self.due = time.monotonic() + _PATIENCE

    def __call__(self, step: int) -> None:
        self.done += step
        if time.monotonic() >= self.due and self.done < self.total:
            print(f"{self.label}: {self.done} of {self.total}", file=sys.stderr, flush=True)
            self.due = time.monotonic() + _PAUSE


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
