"""Line charts as SVG: medians with bands over labels, drawn without a library and readable without a script.

Where fewer runs were measured than elsewhere the median is dotted: runs that ended early may differ from those that go
on, and a median over the rest is another median. Every chart has words for those who cannot see it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from natsel.evaluation.curves import Bands, Run
from natsel.experiments.report.method_styles import marker, short, style
from natsel.texts import escape

Format = Callable[[float], str]
_STRIPS = 40
"""Most places of a chart that answer when pointed at: each costs some bytes for every line."""


@dataclass(frozen=True)
class Line:
    """A method in a chart: its place among the methods (None: baseline), its band, and single runs as thin lines."""

    name: str
    place: int | None
    bands: Bands
    runs: Sequence[Run] = ()

    @property
    def style(self) -> str:
        return style(self.place)


@dataclass(frozen=True)
class Frame:
    """Where a chart lies: the size of the picture, its margins (top, right, bottom, left), the range of the data."""

    x: tuple[float, float] = (0, 1)
    y: tuple[float, float] = (0, 1)
    width: float = 960
    height: float = 430
    margins: tuple[float, float, float, float] = (34, 158, 46, 46)

    def at(self, x: float, y: float) -> tuple[float, float]:
        top, right, bottom, left = self.margins
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return left + across * (self.width - left - right), self.height - bottom - up * (self.height - top - bottom)


@dataclass(frozen=True)
class Axes:
    """What the axes say. `levels` are horizontal lines worth naming: targets, or the most there can be."""

    x: str
    y: str
    number: Format = field(default=lambda value: f"{value:g}")
    levels: Sequence[tuple[float, str]] = ()


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between two values: steps of 1, 2 or 5 times a power of ten.

    >>> ticks(0.0, 1.0), ticks(20, 300)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [50.0, 100.0, 150.0, 200.0, 250.0, 300.0])
    """
    rough = (high - low) / about
    power = 10 ** math.floor(math.log10(rough))
    step = next(step * power for step in (1, 2, 5, 10) if step * power >= 0.75 * rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def chart(lines: Sequence[Line], axes: Axes, label: str) -> str:
    """A chart twice over, wide and narrow; the style sheet shows the one that fits the window."""
    wide = drawing(lines, axes, label, Frame(), "wide")
    narrow = Frame(width=360, height=300, margins=(30, 14, 42, 38))
    return wide + drawing(lines, axes, label, narrow, "narrow")


def small_chart(
    lines: Sequence[Line], axes: Axes, label: str, *, width: float = 300, scale: Sequence[Line] = ()
) -> str:
    """A chart for a grid of several, which share the scale that holds the lines `scale` where these are given."""
    frame = Frame(width=width, height=100 + 0.4 * width, margins=(28, 12, 38, 38))
    return drawing(lines, axes, label, frame, "small", scale)


def line_chart(lines: Mapping[str, Sequence[tuple[float, float]]], x: str, y: str) -> str:
    """Lines of points by name in one chart.

    >>> line_chart({"one": [(0, 1.0), (1, 2.0)]}, "x", "y").startswith('<div class="card"><svg')
    True
    """
    drawn = []
    for place, (name, points) in enumerate(lines.items()):
        x_N, y_N = np.array(points, dtype=np.float64).reshape(-1, 2).T
        drawn.append(Line(name, place, Bands(x_N, y_N, y_N, y_N, np.ones(len(x_N), dtype=np.int64))))
    spoken = "; ".join(
        f"{name} from {points[0][1]:.3g} at {points[0][0]:g} to {points[-1][1]:.3g} at {points[-1][0]:g}"
        for name, points in lines.items()
        if points
    )
    axes = Axes(x, y, lambda value: f"{value:.3g}")
    return f'<div class="card">{chart(drawn, axes, f"{y} over {x}: {spoken}.")}</div>'


def drawing(lines: Sequence[Line], axes: Axes, label: str, blank: Frame, kind: str, scale: Sequence[Line] = ()) -> str:
    """One chart in a frame. `kind` is "wide", "narrow" or "small" in a page, "figure" in a file of its own."""
    lines, scale = ([line for line in some if len(line.bands.sizes)] for some in (lines, scale))
    if not lines:
        return '<p class="quiet">Nothing has been measured yet.</p>' if kind != "narrow" else ""
    frame = _framed(scale or lines, blank)
    baseline_first = sorted(lines, key=lambda line: line.place is not None)
    parts = [drawn_axes(frame, axes, kind)]
    parts += [_band(line, frame) for line in baseline_first]
    parts += [_thin(line, frame) for line in baseline_first]
    parts += [_median(line, frame, number, len(lines)) for number, line in enumerate(baseline_first)]
    if kind in ("wide", "figure"):
        parts.append(_names(lines, frame))
    if kind == "wide":
        parts.append(_readings(lines, frame, axes))
    return (
        f'<svg class="chart {kind}" viewBox="0 0 {frame.width:g} {frame.height:g}" role="img"'
        f' aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _framed(lines: Sequence[Line], blank: Frame) -> Frame:
    """The blank with the range that holds all lines, a little air above and below."""
    sizes = np.concatenate([line.bands.sizes for line in lines])
    heights = np.concatenate(
        [np.concatenate([line.bands.lower, line.bands.upper]) for line in lines]
        + [np.asarray([value for value in values if math.isfinite(value)]) for line in lines for _, values in line.runs]
    )
    low, high = float(heights.min()), float(heights.max())
    first, last = float(sizes.min()), float(sizes.max())
    air = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
    across = (first, last) if last > first else (first - 1, last + 1)
    return Frame(across, (low - air, high + air), blank.width, blank.height, blank.margins)


def drawn_axes(frame: Frame, axes: Axes, kind: str) -> str:
    """The lines, the round numbers and the words of both axes."""
    parts = []
    left, right = frame.at(frame.x[0], 0)[0], frame.at(frame.x[1], 0)[0]
    floor = frame.at(0, frame.y[0])[1]
    for value in ticks(*frame.y, about=6 if kind in ("wide", "figure") else 4):
        y = frame.at(0, value)[1]
        parts.append(f'<path class="grid" d="M{left:.1f},{y:.1f}H{right:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{left - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{axes.number(value)}</text>'
        )
    for value in ticks(*frame.x, about=8 if kind in ("wide", "figure") else 4):
        x = frame.at(value, 0)[0]
        parts.append(f'<path class="axis" d="M{x:.1f},{floor:.1f}v5"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{floor + 19:.1f}" text-anchor="middle">{value:g}</text>')
    parts.append(f'<path class="axis" d="M{left:.1f},{floor:.1f}H{right:.1f}"/>')
    middle = (left + right) / 2
    parts.append(
        f'<text class="name" x="{middle:.1f}" y="{frame.height - 5:.1f}" text-anchor="middle">{escape(axes.x)}</text>'
    )
    parts.append(f'<text class="name" x="2" y="14">{escape(axes.y)}</text>')
    for value, name in axes.levels:
        if frame.y[0] <= value <= frame.y[1]:
            y = frame.at(0, value)[1]
            parts.append(f'<path class="level" d="M{left:.1f},{y:.1f}H{right:.1f}"/>')
            if kind != "small":
                parts.append(f'<text class="level" x="{left + 6:.1f}" y="{y - 5:.1f}">{escape(name)}</text>')
    return "".join(parts)


def _band(line: Line, frame: Frame) -> str:
    upper = [frame.at(x, y) for x, y in zip(line.bands.sizes, line.bands.upper, strict=True)]
    lower = [frame.at(x, y) for x, y in zip(line.bands.sizes, line.bands.lower, strict=True)]
    return f'<path class="band {line.style}" d="{_path([*upper, *reversed(lower)])}z"/>'


def _thin(line: Line, frame: Frame) -> str:
    paths = []
    for sizes, values in line.runs:
        known = [frame.at(x, y) for x, y in zip(sizes, values, strict=True) if math.isfinite(y)]
        paths.append(f'<path class="thin {line.style}" d="{_path(known)}"/>' if known else "")
    return "".join(paths)


def _median(line: Line, frame: Frame, number: int, of: int) -> str:
    """The median, dotted from where runs are missing, with some six markers, shifted so that lines take turns."""
    places = [frame.at(x, y) for x, y in zip(line.bands.sizes, line.bands.median, strict=True)]
    whole = line.bands.runs == line.bands.runs.max()
    end = int(np.flatnonzero(whole)[-1]) + 1
    parts = [f'<path class="line {line.style}" d="{_path(places[:end])}"/>']
    if end < len(places):
        parts.append(f'<path class="line part {line.style}" d="{_path(places[end - 1 :])}"/>')
    if line.place is None:  # dashes are its shape
        return "".join(parts)
    every = max(1, round(len(places) / 6))
    shown = places[(number * every // of) :: every]
    return "".join(parts) + "".join(marker(line.place, *place) for place in shown)


def _names(lines: Sequence[Line], frame: Frame) -> str:
    """Names at the ends of the lines, pushed apart where they would meet."""
    ends = sorted(((frame.at(0, line.bands.median[-1])[1], line) for line in lines), key=lambda end: end[0])
    heights: list[float] = []
    for y, _ in ends:
        heights.append(max(y, heights[-1] + 17) if heights else y)
    over = max(0.0, heights[-1] - (frame.height - frame.margins[2]))
    heights = [y - over for y in heights]
    edge = frame.width - frame.margins[1]
    parts = []
    for (y, line), spread in zip(ends, heights, strict=True):
        x_end = frame.at(line.bands.sizes[-1], 0)[0]
        parts.append(
            f'<g class="{line.style}"><path class="lead {line.style}"'
            f' d="M{x_end + 5:.1f},{y:.1f}L{edge + 13:.1f},{spread:.1f}"/>'
            f"{marker(line.place, edge + 20, spread)}"
            f'<text class="end" x="{edge + 29:.1f}" y="{spread + 4:.1f}">{escape(short(line.name))}</text></g>'
        )
    return "".join(parts)


def _readings(lines: Sequence[Line], frame: Frame, axes: Axes) -> str:
    """For each size a strip that, pointed at, shows all values there: style alone, no script."""
    sizes = np.unique(np.concatenate([line.bands.sizes for line in lines]))
    sizes = sizes[:: -(-len(sizes) // _STRIPS)]
    edges = np.concatenate([sizes[:1], (sizes[1:] + sizes[:-1]) / 2, sizes[-1:]])
    top, floor = frame.margins[0], frame.height - frame.margins[2]
    parts = []
    for number, size in enumerate(sizes):
        x, left, right = (frame.at(value, 0)[0] for value in (size, edges[number], edges[number + 1]))
        strip = f'<rect class="strip" x="{left:.1f}" y="{top}" width="{max(1.0, right - left):.1f}"'
        strip += f' height="{floor - top:.1f}"/>'
        guide = f'<path d="M{x:.1f},{top}V{floor:.1f}"/>'
        tip = _tip(lines, float(size), x, frame, axes)
        parts.append(f'<g class="at">{strip}<g class="tip">{guide}{tip}</g></g>')
    return f'<g class="readings" aria-hidden="true">{"".join(parts)}</g>'


def _tip(lines: Sequence[Line], size: float, x: float, frame: Frame, axes: Axes) -> str:
    """A box beside x with the value of every line at one size, the highest first."""
    found = [(line, int(np.searchsorted(line.bands.sizes, size))) for line in lines if size in line.bands.sizes]
    found.sort(key=lambda entry: -float(entry[0].bands.median[entry[1]]))
    width, row, top = 268, 17, frame.margins[0]
    box = x + 12 if x + 12 + width < frame.width - 2 else max(2, x - 12 - width)
    parts = [f'<rect x="{box:.1f}" y="{top + 2}" width="{width}" height="{30 + row * len(found)}" rx="6"/>']
    parts.append(f'<text class="head" x="{box + 10:.1f}" y="{top + 19}">{size:g} {escape(axes.x)}</text>')
    for number, (line, at) in enumerate(found, start=1):
        y = top + 21 + number * row
        bands = line.bands
        middle, lower, upper = (axes.number(float(part[at])) for part in (bands.median, bands.lower, bands.upper))
        spread = f"{lower} – {upper}" if bands.lower[at] < bands.upper[at] else ""  # one run has none
        parts.append(
            f'<g class="{line.style}">{marker(line.place, box + 15, y - 4)}'
            f'<text x="{box + 25:.1f}" y="{y:.1f}">{escape(short(line.name))}</text>'
            f'<text x="{box + width - 92:.1f}" y="{y:.1f}" text-anchor="end" class="middle">{middle}</text>'
            f'<text x="{box + width - 10:.1f}" y="{y:.1f}" text-anchor="end" class="quiet">{spread}</text></g>'
        )
    return "".join(parts)


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in places)
