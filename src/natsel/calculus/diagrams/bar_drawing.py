"""Drawing a bar diagram: one row under the other on a common scale, dotted lines where ends meet.

A quantity is written in its bar where it fits, else just above it or beside it. A negative one is hatched and red, and
runs to the left of where it starts.  Spec 01, 5.
"""

import math
from typing import TYPE_CHECKING, Any

from natsel.calculus.diagrams.figures import (
    COLOURS,
    HATCH,
    INK,
    NEGATIVE,
    SOFT,
    WIDTH,
    canvas,
    need_matplotlib,
    text_size,
    tint,
)
from natsel.calculus.diagrams.labels import ZERO, maths, number
from natsel.calculus.expressions import Expression

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from natsel.calculus.diagrams.bars import Bar, Bars

_LEFT, _RIGHT = 0.45, 0.45
_ROW, _BAR = 0.66, 0.36
_FOOT = 0.62
_SHADES = {
    "both": tint(["#777777"], 0.3),
    "x": tint([COLOURS[0]], 0.36),
    "y": tint([COLOURS[1]], 0.42),
    "shared": tint([COLOURS[0], COLOURS[1]], 0.4),
}


def draw_bars(diagram: "Bars", highlight: Expression | None = None, title: str | None = None) -> "Figure":
    """The figure of a bar diagram."""
    need_matplotlib()
    every = [bar for row in diagram.rows for bar in row]
    low = min(0.0, *(min(bar.start, bar.end) for bar in every))
    high = max(max(bar.start, bar.end) for bar in every)
    if not math.isfinite(high - low):
        raise ValueError("joint: a bar diagram needs finite values, found an infinite one; choose another outcome")
    scale = (WIDTH - _LEFT - _RIGHT) / max(high - low, 1e-9)
    if highlight is not None and title is None:
        shown = [bar for bar in every if bar.expression == highlight]
        title = f"{maths(highlight)} = {number(shown[0].value)} {diagram.unit}" if shown else None
    head = 0.55 if title else 0.15
    height = _FOOT + len(diagram.rows) * _ROW + head
    figure, axes = canvas(WIDTH, 0.0, height)

    def place(value: float) -> float:
        return _LEFT + (value - low) * scale

    ends = {round(place(end), 4) for bar in every for end in (bar.start, bar.end)}
    for x in ends:
        axes.plot(
            [x, x], [_FOOT - 0.08, height - head - 0.2], color="#b8bcc2", linewidth=0.8, linestyle=(0, (1, 2)), zorder=0
        )
    for count, row in enumerate(diagram.rows):
        y = height - head - (count + 1) * _ROW + _BAR / 2 + 0.02
        ordered = sorted(row, key=lambda bar: bar.start + bar.end)
        for bar in row:
            side = "alone" if len(row) == 1 else ("left" if bar is ordered[0] else "right")
            _draw_bar(axes, bar, place(bar.start), place(bar.end), y, bar.expression == highlight)
            _draw_label(axes, bar, place(bar.start), place(bar.end), y, side)
    _draw_scale(axes, low, high, place, diagram.unit, diagram.note)
    if title:
        axes.text(WIDTH / 2, height - 0.28, title, size=13, color=INK, ha="center", va="center")
    return figure


def _draw_bar(axes: "Axes", bar: "Bar", start: float, end: float, y: float, strong: bool) -> None:
    from matplotlib.patches import Rectangle

    style: dict[str, Any] = {"facecolor": _SHADES[bar.kind], "edgecolor": "#4a4a4a", "linewidth": 0.9}
    if bar.value < -ZERO:
        style = {"facecolor": "white", "edgecolor": HATCH, "hatch": "////", "linewidth": 1.0}
    axes.add_patch(Rectangle((min(start, end), y - _BAR / 2), abs(end - start), _BAR, zorder=1, **style))
    if strong:
        outline = Rectangle((min(start, end), y - _BAR / 2), abs(end - start), _BAR, zorder=3)
        outline.set(facecolor="none", edgecolor=INK, linewidth=2.6)
        axes.add_patch(outline)


def _draw_label(axes: "Axes", bar: "Bar", start: float, end: float, y: float, side: str) -> None:
    name = maths(bar.expression)
    text = f"{name} = {number(bar.value)}" + (f"  {bar.word}" if bar.word else "")
    colour = NEGATIVE if bar.value < -ZERO else INK
    style: dict[str, Any] = {"size": 10, "color": colour, "va": "center_baseline", "zorder": 4}
    width = text_size(text, 10)[0]
    left, right = min(start, end), max(start, end)
    if colour == NEGATIVE:
        style["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    if width + 0.16 <= right - left and (colour == INK or not bar.word):
        axes.text((left + right) / 2, y, text, ha="center", **style)
    elif side != "alone":
        x = left if side == "left" else right
        axes.text(x, y + _BAR / 2 + 0.12, text, ha=side, **(style | {"size": 9}))
    elif right + 0.1 + width <= WIDTH - 0.1:
        axes.text(right + 0.1, y, text, ha="left", **style)
    else:
        axes.text(left - 0.1, y, text, ha="right", **style)


def _draw_scale(axes: "Axes", low: float, high: float, place: Any, unit: str, note: str) -> None:
    from matplotlib.ticker import MaxNLocator

    y = _FOOT - 0.1
    axes.plot([place(low), place(high)], [y, y], color=SOFT, linewidth=0.9)
    ticks = [tick for tick in MaxNLocator(7).tick_values(low, high) if low - 1e-9 <= tick <= high + 1e-9]
    for tick in ticks:
        axes.plot([place(tick)] * 2, [y, y - 0.05], color=SOFT, linewidth=0.9)
        label = f"{tick:g}".replace("-", "−")
        axes.text(place(tick), y - 0.14, label, size=8.5, color=SOFT, ha="center", va="center")
    words = unit + (f"; {note}" if note else "")
    axes.text(WIDTH / 2, 0.14, words, size=8.5, color=SOFT, ha="center", va="center")
