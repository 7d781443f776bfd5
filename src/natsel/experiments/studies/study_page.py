"""The page of a study: its claims, its charts, and the settings in full."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from natsel.evaluation.curves import Bands
from natsel.experiments.report.charts import Axes, Line, chart
from natsel.experiments.report.page import outline, page
from natsel.experiments.results import verdicts

Points = Sequence[tuple[float, float]]


def study_page(
    document: Mapping[str, Any], sections: Sequence[tuple[str, str, str]], claims: Sequence[Mapping[str, Any]]
) -> str:
    """The page as HTML."""
    header = (
        f'<p class="eyebrow">natsel report</p><h1>{escape(str(document["name"]))}</h1>'
        f'<p class="headline">{escape(verdicts.counted(claims))}</p>'
        f'<p class="about">{escape(str(document.get("about", "")))}</p>'
    )
    command = " ".join(document.get("command", ()))
    protocol = f"<pre><code>{escape(command)}</code></pre>" if command else ""
    protocol += f'<div class="card recipe">{outline(document.get("settings", {}))}</div>'
    versions = ", ".join(f"{name} {version}" for name, version in document.get("versions", {}).items())
    protocol += f'<p class="quiet">{escape(versions)}</p>' if versions else ""
    parts = [("claims", "Claims", verdicts.table_of(claims)), *sections, ("protocol", "Protocol", protocol)]
    return page(f"{document['name']} – natsel report", header, parts, [])


def line_chart(lines: Mapping[str, Points], x: str, y: str, bands: Mapping[str, Sequence[Points]] | None = None) -> str:
    """Lines by name in one chart; `bands` are single runs of each, whose quartiles are drawn around its line.

    >>> line_chart({"one": [(0, 1.0), (1, 2.0)]}, "x", "y").startswith('<div class="card"><svg')
    True
    """
    drawn = [
        Line(name, place, _bands(points, (bands or {}).get(name, ())))
        for place, (name, points) in enumerate(lines.items())
    ]
    axes = Axes(x, y, lambda value: f"{value:.3g}")
    spoken = "; ".join(
        f"{name} from {points[0][1]:.3g} at {points[0][0]:g} to {points[-1][1]:.3g} at {points[-1][0]:g}"
        for name, points in lines.items()
        if points
    )
    return f'<div class="card">{chart(drawn, axes, f"{y} over {x}: {spoken}.")}</div>'


def _bands(points: Points, runs: Sequence[Points]) -> Bands:
    x = np.array([one[0] for one in points], dtype=np.float64)
    middle = np.array([one[1] for one in points], dtype=np.float64)
    if not runs:
        return Bands(x, middle, middle, middle, np.ones(len(x), dtype=np.int64))
    values = np.array([[one[1] for one in run] for run in runs])
    lower, upper = np.quantile(values, [0.25, 0.75], axis=0)
    return Bands(x, lower, middle, upper, np.full(len(x), len(runs)))
