"""Charts of scores and probabilities as SVG: how many points lie where, two scores against each other, reliability.

Some scores are many times larger for some inputs than for all others. Ranges therefore end a little beyond the limit
that decides; points beyond are drawn on the edge.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from natsel.evaluation import Reliability
from natsel.evaluation.curves import Bands, Floats
from natsel.experiments.report.charts import Axes, Frame, Line, drawing, drawn_axes
from natsel.experiments.report.method_styles import key, marker, style
from natsel.texts import escape

Numbers = Floats | Sequence[float] | Sequence[int]

_DOTS = 900
"""Most points of a chart: each costs some bytes."""
_BLANK = Frame(width=420, height=300, margins=(28, 14, 42, 48))


def histogram_of(values_N: Numbers, x: str, limit: float | None = None, bins: int = 30) -> str:
    """How many points have which score, with the limit as a line where there is one.

    >>> histogram_of([0.0, 1.0, 1.0], "entropy", limit=0.5).count("<rect")
    2
    """
    values_N = np.asarray(values_N, dtype=np.float64)
    low, high = score_range(values_N, limit)
    edges = np.linspace(low, high, bins + 1)
    counts = np.histogram(values_N.clip(low, high), edges)[0]
    return columns(edges, counts, x, limit)


def columns(edges: Floats, counts: np.ndarray[Any, Any], x: str, limit: float | None = None) -> str:
    """Columns between edges, as high as their counts."""
    frame = Frame((float(edges[0]), float(edges[-1])), (0.0, max(1.0, float(np.max(counts)))), *_shape())
    floor = frame.at(0, 0)[1]
    parts = [drawn_axes(frame, Axes(x, "points"), "small")]
    for left, right, count in zip(edges[:-1], edges[1:], np.asarray(counts).tolist(), strict=True):
        (from_x, top), (to_x, _) = frame.at(float(left), count), frame.at(float(right), count)
        if count:
            parts.append(
                f'<rect class="bar {style(0)}" x="{from_x + 0.5:.1f}" y="{top:.1f}" width="{to_x - from_x - 1:.1f}"'
                f' height="{floor - top:.1f}"><title>{left:.4g} to {right:.4g}: {count:,}</title></rect>'
            )
    if limit is not None:
        parts.append(_limit_line(frame, x=limit))
    words = f"How many of {int(np.sum(counts)):,} points have which {x}" + (
        "" if limit is None else f"; limit {limit:.4g}"
    )
    return _svg(parts, words)


def scatter(
    groups: Mapping[str, tuple[Numbers, Numbers]], names: tuple[str, str], limits: tuple[float | None, float | None]
) -> str:
    """Two scores of each point against each other, a shape and a colour for each group, limits as lines.

    >>> "a: 1 point" in scatter({"a": ([0.0], [1.0])}, ("x", "y"), (None, None))
    True
    """
    arrays = {name: np.asarray(both, dtype=np.float64) for name, both in groups.items() if len(both[0])}
    all_2_N = np.concatenate(list(arrays.values()), axis=1)
    (left, right), (low, high) = (score_range(all_2_N[axis], limits[axis]) for axis in (0, 1))
    frame = Frame((left, right), (low, high), *_shape())
    parts = [drawn_axes(frame, Axes(*names, lambda value: f"{value:.3g}"), "small")]
    every = max(1, math.ceil(all_2_N.shape[1] / _DOTS))
    places = {name: place for place, name in enumerate(groups)}
    for name, both_2_n in arrays.items():
        step = every if both_2_n.shape[1] > every else 1
        for x, y in both_2_n[:, ::step].T.tolist():
            parts.append(marker(places[name], *frame.at(min(max(x, left), right), min(max(y, low), high))))
    if limits[0] is not None:
        parts.append(_limit_line(frame, x=limits[0]))
    if limits[1] is not None:
        parts.append(_limit_line(frame, y=limits[1]))
    spoken = "; ".join(
        f"{name}: {len(both[0])} point{'' if len(both[0]) == 1 else 's'}" for name, both in groups.items()
    )
    legend = "".join(f"<li>{key(place)}{escape(name)}</li>" for name, place in places.items())
    drawn = _svg(parts, f"{names[1]} against {names[0]}: {spoken}.")
    some = f'<p class="quiet">Every {every}th point is drawn.</p>' if every > 1 else ""
    return f'<ul class="swatches">{legend}</ul>{drawn}{some}'


def reliability_chart(found: Reliability) -> str:
    """How often the most probable class is right against how probable the model held it, and how many points are where.

    >>> from natsel.evaluation import reliability
    >>> reliability_chart(reliability([[0.9, 0.1], [0.6, 0.4]], [0, 1])).count("<figure")
    2
    """
    filled = found.counts > 0
    ends = np.array([0.0, 1.0])
    lines = [
        _line("as often as said", None, ends, ends),
        _line("right", 0, found.confidence[filled], found.accuracy[filled]),
    ]
    spoken = "; ".join(
        f"{said:.2f} said, {seen:.2f} right"
        for said, seen in zip(found.confidence[filled].tolist(), found.accuracy[filled].tolist(), strict=True)
    )
    axes = Axes("probability of the most probable class", "share right")
    drawn = drawing(lines, axes, f"Reliability: {spoken}.", _BLANK, "small")
    counts = columns(found.edges, found.counts, "probability of the most probable class")
    return f'<div class="panels two"><figure class="card">{drawn}</figure><figure class="card">{counts}</figure></div>'


def score_range(values_N: Numbers, limit: float | None) -> tuple[float, float]:
    """From the least value to the largest, or to thrice the distance of the limit from the median beyond the limit.

    >>> score_range([0.0, 1.0, 2.0, 1e9], limit=3.0)
    (0.0, 7.5)
    """
    finite_n = np.asarray(values_N, dtype=np.float64)
    finite_n = finite_n[np.isfinite(finite_n)]
    if not len(finite_n):
        return (0.0, 1.0) if limit is None else (limit - 1.0, limit + 1.0)
    low, high = float(finite_n.min()), float(finite_n.max())
    if limit is not None:
        middle = float(np.median(finite_n))
        low, high = min(low, limit), max(limit, min(high, limit + 3 * abs(limit - middle)))
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _line(name: str, place: int | None, x_n: Floats, y_n: Floats) -> Line:
    return Line(name, place, Bands(x_n, y_n, y_n, y_n, np.ones(len(x_n), dtype=np.int64)))


def _shape() -> tuple[float, float, tuple[float, float, float, float]]:
    return _BLANK.width, _BLANK.height, _BLANK.margins


def _limit_line(frame: Frame, x: float | None = None, y: float | None = None) -> str:
    (left, floor), (right, top) = frame.at(frame.x[0], frame.y[0]), frame.at(frame.x[1], frame.y[1])
    if x is not None:
        at = frame.at(x, 0)[0]
        path, words = f"M{at:.1f},{floor:.1f}V{top:.1f}", f'x="{at + 4:.1f}" y="{top + 9:.1f}"'
    else:
        at = frame.at(0, y or 0.0)[1]
        path, words = f"M{left:.1f},{at:.1f}H{right:.1f}", f'x="{left + 4:.1f}" y="{at - 4:.1f}"'
    return f'<path class="level" d="{path}"/><text class="level" {words}>limit</text>'


def _svg(parts: Sequence[str], label: str) -> str:
    return (
        f'<svg class="chart small" viewBox="0 0 {_BLANK.width:g} {_BLANK.height:g}" role="img"'
        f' aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )
