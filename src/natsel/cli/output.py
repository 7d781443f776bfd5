"""What commands print: JSON for machines and tables for people on stdout, all else on stderr."""

import json
import math
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from natsel.texts import csv_lines, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

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
    sys.stdout.write(json_text(value))


def json_text(value: Any) -> str:
    r"""One JSON value as a line; numbers JSON does not know become null, ids of other kinds their texts.

    >>> json_text([float("nan"), 1])
    '[null, 1]\n'
    """
    return json.dumps(_plain(value), allow_nan=False, ensure_ascii=False, default=str) + "\n"


def say(text: object, *, err: bool = False) -> None:
    """Lines for people, whose control characters are shown; all that commands print goes through here or `console`."""
    print(visible(text, keep="\n"), file=sys.stderr if err else sys.stdout, flush=True)


def console(*, stderr: bool = False) -> "Console":
    """A console of rich that finds no markup in texts, and shows their control characters."""
    from rich.console import Console

    class Plain(Console):
        def render_str(self, text: str, **options: Any) -> "Text":
            return super().render_str(visible(text, keep="\n"), **options)

    return Plain(stderr=stderr, highlight=False, markup=False, emoji=False)


def warn(warnings: Sequence[str]) -> None:
    """Warnings for people, on stderr."""
    for warning in warnings:
        say(f"warning: {warning}", err=True)


def rows(explanation: "Explanation") -> list[dict[str, Any]]:
    """The picks of an explanation as plain rows, ranked from 1."""
    return [
        {"rank": rank, **{name: getattr(pick, name) for name in COLUMNS[1:]}}
        for rank, pick in enumerate(explanation.picks, start=1)
    ]


def picks_table(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> "Table":
    """Picks as a table for people."""

    def cell(value: Any) -> str:
        return f"{value:.4f}" if isinstance(value, float) else "–" if value is None else str(value)

    return text_table(columns, [[cell(row[name]) for name in columns] for row in rows], words=0)


def text_table(names: Sequence[str], rows: Sequence[Sequence[str]], words: int | None = None) -> "Table":
    """Ready cells as a table for people; words stand at the left, numbers at the right. `words` is how many of the
    columns are words where no cell is to be broken.

    >>> text_table(("metric", "value"), [("accuracy", "0.9")]).row_count
    1
    """
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column, name in enumerate(names):
        begins = [row[column][:1] for row in rows]
        numbers = all(one.isdigit() or one in "-–" for one in begins) if words is None else column >= words
        table.add_column(name, justify="right" if numbers else "left", no_wrap=numbers or words is not None)
    for row in rows:
        table.add_row(*map(visible, row))
    return table


def fitted(table: "Table", width: int) -> "RenderableType":
    """A table, or, where a terminal is too narrow for it, each row as words with their names, so that nothing is cut.

    >>> from rich.console import Console
    >>> Console(width=20).print(fitted(picks_table([{"id": "a.png", "score": 0.25}], ("id", "score")), width=12))
    a.png  score: 0.2500
    """
    from rich.cells import cell_len
    from rich.console import Group
    from rich.text import Text

    columns = [[str(column.header), *map(visible, column.cells)] for column in table.columns]
    least = [
        max(map(cell_len, cells))
        if column.no_wrap
        else max(cell_len(word) for cell in cells for word in cell.split(" "))
        for column, cells in zip(table.columns, columns, strict=True)
    ]
    between = sum(table.padding[index] for index in (1, 3)) + (1 if table.box else 0)
    if sum(least) + between * len(least) <= width:
        return table
    lines = []
    names = [cells[0] for cells in columns]
    for first, *others in zip(*(cells[1:] for cells in columns), strict=True):
        named = [f"{name}: {cell}" for name, cell in zip(names[1:], others, strict=True) if cell]
        lines.append(Text.assemble((first, "bold"), "  ", " · ".join(named)))
    return Group(*lines)


def in_lines(text: str, width: int) -> str:
    """A text whose lines are no longer than a width, broken between words; 0 leaves it as it is.

    >>> print(in_lines("natsel   0.12 s  a note that is long", 24))
    natsel   0.12 s  a note
        that is long
    """
    if width <= 0:
        return text
    wrapper = textwrap.TextWrapper(width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(part for line in text.splitlines() for part in (wrapper.wrap(line) or [""]))


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Picks as CSV, every number in full."""
    return "".join(csv_lines(list(rows[0]) if rows else COLUMNS, rows))


@contextmanager
def progress(total: int, label: str) -> Iterator[Callable[[int], None]]:
    """A bar on stderr that vanishes when done; where stderr is no terminal, a line when it takes long."""
    shown = console(stderr=True)
    if not shown.is_terminal:
        yield _Lines(total, label)
        return
    from rich.progress import Progress

    with Progress(console=shown, transient=True) as bar:
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
            say(f"{self.label}: {self.done} of {self.total}", err=True)
            self.due = time.monotonic() + _PAUSE


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
