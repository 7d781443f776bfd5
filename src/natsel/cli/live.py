"""A board of runs under way: a row per method, with the labels so far, the accuracy and how it rises.

On a terminal it is drawn in place; elsewhere a finished or failed run is a line, and long silence is broken now and
then. All of it goes to stderr: stdout is for results.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from natsel.cli.output import console, say

if TYPE_CHECKING:
    from rich.table import Table

    from natsel.experiments.recipe.recipe import Recipe

_BARS = "▁▂▃▄▅▆▇█"
_PAUSE = 15.0


class Board:
    """What is known of the runs of a recipe, from the events of its runner."""

    def __init__(self, recipe: "Recipe") -> None:
        self.recipe = recipe
        self.metric = "accuracy"
        self.methods = [contender.label for contender in recipe.methods]
        self.curves: dict[str, dict[int, dict[int, float]]] = {method: {} for method in self.methods}
        self.ended: dict[str, dict[int, str]] = {method: {} for method in self.methods}
        self.began = time.monotonic()

    def take(self, event: dict[str, Any]) -> None:
        """Note an event."""
        method, seed = event.get("method"), event.get("seed")
        if method not in self.curves or seed is None:
            return
        if event["event"] == "round" and event["metrics"]:
            if self.metric not in event["metrics"]:
                self.metric = "rmse" if "rmse" in event["metrics"] else next(iter(event["metrics"]))
            self.curves[method].setdefault(seed, {})[event["labels"]] = event["metrics"][self.metric]
        elif event["event"] in ("done", "skipped", "failed"):
            self.ended[method][seed] = event["event"]

    def row(self, method: str) -> tuple[str, str, str, str]:
        """Runs ended, labels, the metric and its rise, as text; medians over the seeds that have begun."""
        ended = f"{len(self.ended[method])}/{len(self.recipe.seeds)}"
        if "failed" in self.ended[method].values():
            ended += " !"
        curves = list(self.curves[method].values())
        if not curves:
            return ended, "", "", ""
        labels = statistics.median_low([max(curve) for curve in curves])
        last = statistics.median([curve[max(curve)] for curve in curves])
        shown = f"{last:.1%}" if self.metric == "accuracy" else f"{last:.3f}"
        sizes = sorted({size for curve in curves for size in curve})
        rise = [statistics.median([curve[size] for curve in curves if size in curve]) for size in sizes]
        # One scale for all methods, or their lines could not be compared.
        seen = [value for runs in self.curves.values() for curve in runs.values() for value in curve.values()]
        return ended, f"{labels}/{self.recipe.budget}", shown, sparkline(rise, min(seen), max(seen))

    def table(self, width: int = 80) -> "Table":
        """The board for a terminal of some width; on a narrow one without the curves, then without counts of runs."""
        from rich import box
        from rich.table import Table

        spent = time.monotonic() - self.began
        table = Table(
            box=box.SIMPLE_HEAD, pad_edge=False, title=f"{self.recipe.name}  {spent:.0f} s", title_justify="left"
        )
        table.add_column("method", no_wrap=True)
        shown = [
            name for name, least in (("runs", 48), (self.recipe.budget_counts, 0), (self.metric, 0)) if width >= least
        ]
        for name in shown:
            table.add_column(name, justify="right", no_wrap=True)
        if width >= 80:
            table.add_column(f"{self.metric} as labels come in", no_wrap=True)
        for method in self.methods:
            *counts, curve = self.row(method)
            table.add_row(method, *counts[-len(shown) :], *([curve] if width >= 80 else []))
        return table


def sparkline(values: Sequence[float], low: float | None = None, high: float | None = None, width: int = 30) -> str:
    """A curve in one line of text, thinned to a width.

    >>> sparkline([0.0, 0.5, 1.0])
    '▁▅█'
    """
    if len(values) > width:
        values = [values[round(place * (len(values) - 1) / (width - 1))] for place in range(width)]
    bottom = min(values) if low is None else low
    top = max(values) if high is None else high
    spread = (top - bottom) or 1.0
    steps = len(_BARS) - 1
    return "".join(_BARS[min(steps, max(0, round(steps * (value - bottom) / spread)))] for value in values)


@contextmanager
def live(recipe: "Recipe") -> Iterator[Callable[[dict[str, Any]], None]]:
    """Something to call with each event, which shows the board as long as the block lasts."""
    board, shown = Board(recipe), console(stderr=True)
    if not shown.is_terminal:
        yield _Lines(board)
        return
    from rich.live import Live

    unicode = (shown.encoding or "").startswith("utf")
    with Live(
        console=shown,
        get_renderable=lambda: board.table(shown.width),
        refresh_per_second=4 if unicode else 1,
        transient=True,
    ) as view:

        def show(event: dict[str, Any]) -> None:
            board.take(event)
            if event["event"] == "failed":
                view.console.print(_failure(event), style="red")

        yield show


class _Lines:
    """The same as lines of text."""

    def __init__(self, board: Board) -> None:
        self.board, self.due = board, time.monotonic() + _PAUSE

    def __call__(self, event: dict[str, Any]) -> None:
        self.board.take(event)
        if event["event"] == "failed":
            self._say(_failure(event))
        elif event["event"] == "done":
            self._say(f"{event['method']} seed {event['seed']}: finished in {event['seconds']:.0f} s")
        elif event["event"] == "round" and time.monotonic() >= self.due:
            used = f"{event['labels']} of {self.board.recipe.budget} {self.board.recipe.budget_counts}"
            self._say(f"{event['method']} seed {event['seed']}: {used}")

    def _say(self, text: str) -> None:
        say(text, err=True)
        self.due = time.monotonic() + _PAUSE


def _failure(event: dict[str, Any]) -> str:
    return f"{event['method']} seed {event['seed']} failed: {event['error']}"
