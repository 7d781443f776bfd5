"""Figures of an experiment as files: learning curves of each metric, and labels saved against random.

    svg     drawn as the report draws them, with colours of their own, so that any program shows them alike
    pdf     drawn by matplotlib (extra `plot`)
    csv     the numbers: quartiles over seeds and every seed, for each method and number of labels

Files are called `curves-accuracy.svg`, `labels-saved.svg` …, with the name of the variant before it where it has one.
"""

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from natsel.containers import atomically
from natsel.evaluation.curves import bands
from natsel.experiments.report.charts import Axes, Frame, Line, drawing, ticks
from natsel.experiments.report.method_styles import marker, style
from natsel.experiments.report.sections import axes_of, lines_of, places_of
from natsel.experiments.results.experiment import Experiment
from natsel.experiments.results.summary import Row, labels, level, share, table
from natsel.texts import csv_lines, escape

FORMATS = ("svg", "pdf", "csv")
_LIGHT = re.compile(r"--([\w-]+):\s*(#[0-9a-f]+)")
_STYLE = (
    "text { font: 13px 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif; fill: #1d2128; }"
    " text.tick, text.name, text.level { font-size: 12px; fill: #5a6270; }"
    " path.grid { stroke: #eceae4; fill: none; } path.axis { stroke: #5a6270; fill: none; }"
    " path.level { stroke: #5a6270; stroke-dasharray: 1 4; stroke-linecap: round; fill: none; }"
    " path.line { fill: none; stroke-width: 2.2; stroke-linejoin: round; stroke-linecap: round; }"
    " path.line.base { stroke-dasharray: 6 4; } path.line.again { stroke-dasharray: 2 4; }"
    " path.line.part { stroke-dasharray: 1 5; } path.band { fill-opacity: .13; stroke: none; }"
    " path.mark { stroke: #ffffff; stroke-width: 1; } path.lead { fill: none; stroke-opacity: .55; }"
)
"""What the style sheet of the report says, without variables, which few programs know."""


def write_figures(
    experiments: Mapping[str, Experiment], folder: str | Path, formats: str | Iterable[str] = ("svg",)
) -> list[Path]:
    """Write the figures of experiments, by the names of their variants ("" for the only one); the files written."""
    wanted = [formats] if isinstance(formats, str) else list(formats)
    refuse_formats(wanted)
    place = Path(folder)
    if place.exists() and not place.is_dir():
        raise ValueError(f"figures: {place} is a file; name a folder")
    place.mkdir(parents=True, exist_ok=True)
    written = []
    for variant, experiment in experiments.items():
        before = f"{variant}-" if variant else ""
        for one in wanted:
            for name, content in _figures(experiment, one).items():
                path = place / f"{before}{name}.{one}"
                with atomically(path) as draft:
                    draft.write_bytes(content)
                written.append(path)
    return written


def refuse_formats(formats: Sequence[str]) -> None:
    """Raise an error where a format is not known, or what draws it is not installed.

    >>> refuse_formats(["svg", "png"])
    Traceback (most recent call last):
    ValueError: format: found 'png'; choose svg, pdf or csv
    """
    for one in formats or ("",):
        if one not in FORMATS:
            raise ValueError(f"format: found {one!r}; choose svg, pdf or csv")
    if "pdf" in formats:
        try:
            import matplotlib  # noqa: F401  to say now that it is missing
        except ImportError:
            raise ImportError("format: pdf needs matplotlib; install natsel[plot], or take svg") from None


def curves_csv(experiment: Experiment) -> str:
    """Every curve in numbers: a row for each metric, method and number of labels, with a column for each seed."""
    seeds = sorted({run.seed for run in experiment.curves})
    head = ["metric", "method", "labels", "runs", "lower quartile", "median", "upper quartile"]
    rows: list[list[Any]] = []
    for metric in _metrics(experiment):
        for method in experiment.methods:
            measured = [run for run in experiment.of(method) if metric in run.metrics]
            runs = {run.seed: dict(zip(run.sizes, run.metrics[metric], strict=True)) for run in measured}
            band = bands([(list(one), list(one.values())) for one in runs.values()])
            columns = (band.sizes, band.runs, band.lower, band.median, band.upper)
            for size, *values in zip(*(column.tolist() for column in columns), strict=True):
                own = [runs.get(seed, {}).get(int(size), "") for seed in seeds]
                rows.append([metric, method, int(size), *values, *("" if one != one else one for one in own)])
    return "".join(csv_lines([*head, *(f"seed {seed}" for seed in seeds)], rows))


def labels_csv(experiment: Experiment) -> str:
    """Labels needed and saved in numbers: a row for each method and target; an empty cell is not known."""
    head = ["method", experiment.metric, "lower quartile", "median", "upper quartile", "more than", "runs", "reached"]
    names = ["method", "target", "lower", "needed", "upper", "more_than", "runs", "reached"]
    names += ["saved_low", "saved_high", "interval_low", "interval_high"]
    found = (row.as_dict() for row in table(experiment))
    rows = (["" if one[name] is None else one[name] for name in names] for one in found)
    return "".join(csv_lines([*head, "saved from", "saved to", "interval from", "interval to"], rows))


def _figures(experiment: Experiment, kind: str) -> dict[str, bytes]:
    if kind == "csv":
        found = {"curves": curves_csv(experiment), "labels-saved": labels_csv(experiment)}
        return {name: text.encode() for name, text in found.items()}
    places = places_of(experiment.methods)
    drawn: dict[str, bytes] = {}
    for metric in _metrics(experiment):
        lines = [line for line in lines_of(experiment, places, metric) if len(line.bands.sizes)]
        if lines:
            draw = _svg_curves if kind == "svg" else _pdf_curves
            drawn[f"curves-{metric}"] = draw(lines, axes_of(metric))
    rows = [row for row in table(experiment) if row.saved is not None and np.isfinite(row.saved.share.low)]
    if rows:
        drawn["labels-saved"] = (_svg_saved if kind == "svg" else _pdf_saved)(rows, places, experiment.metric)
    return drawn


def _metrics(experiment: Experiment) -> list[str]:
    """The metric that the experiment is judged by, then the others."""
    others = dict.fromkeys(name for run in experiment.curves for name in run.metrics if name != experiment.metric)
    return [experiment.metric, *others]


def _svg_curves(lines: Sequence[Line], axes: Axes) -> bytes:
    plain = [Line(line.name, line.place, line.bands) for line in lines]
    frame = Frame(width=760, height=400, margins=(34, 158, 46, 52))
    return _standalone(drawing(plain, axes, "learning curves", frame, "figure"), frame.width, frame.height)


def _svg_saved(rows: Sequence[Row], places: Mapping[str, int | None], metric: str) -> bytes:
    """For each target and method a mark at the share saved, and a line along its interval."""
    words = [f"{row.method} to {level(metric, row.target)}: {labels(row.needed[1])} labels" for row in rows]
    step, left, right, top = 24.0, 24.0 + 6.4 * max(map(len, words)), 110.0, 34.0
    width, height = 760.0, top + step * (len(rows) + 1) + 46
    low, high = _range(rows)

    def at(value: float) -> float:
        return left + (min(max(value, low), high) - low) / (high - low) * (width - left - right)

    floor = height - 46
    parts = ['<text class="name" x="2" y="14">labels saved against random (%)</text>']
    for value in ticks(100 * low, 100 * high, about=8):
        x = at(value / 100)
        parts.append(f'<path class="grid" d="M{x:.1f},{top}V{floor:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{floor + 18:.1f}" text-anchor="middle">{_signed(value)}</text>'
        )
    parts.append(f'<path class="axis" d="M{at(0):.1f},{top}V{floor:.1f}"/>')
    for number, (row, named) in enumerate(sorted(zip(rows, words, strict=True), key=lambda pair: pair[0].target)):
        y, saved = top + step * (number + 0.75), row.saved
        assert saved is not None
        span, place = saved.interval or saved.seeds, places[row.method]
        parts.append(f'<text class="tick" x="{left - 10:.1f}" y="{y + 4:.1f}" text-anchor="end">{escape(named)}</text>')
        parts.append(f'<path class="line {style(place)}" d="M{at(span.low):.1f},{y:.1f}H{at(span.high):.1f}"/>')
        parts.append(marker(place, at(saved.share.low), y))
        parts.append(f'<text x="{width - right + 12}" y="{y + 4:.1f}">{escape(share(saved.share))}</text>')
    svg = f'<svg viewBox="0 0 {width:g} {height:g}" role="img">{"".join(parts)}</svg>'
    return _standalone(svg, width, height)


def _standalone(svg: str, width: float, height: float) -> bytes:
    """A drawing of the report as a file of its own, on white, with the colours of the report on paper."""
    colours = _colours()
    of_methods = [
        f"path.line.{name}, path.lead.{name} {{ stroke: {colours[name]}; }}"
        f" path.band.{name}, path.mark.{name} {{ fill: {colours[name]}; }}"
        for name in sorted(set(re.findall(r"\b(m\d|base) p-", svg)))
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}"'
    opened = svg.replace("<svg", head, 1)
    start = opened.index(">") + 1
    paper = f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>'
    style_sheet = f"<style>{_STYLE} {' '.join(of_methods)}</style>"
    return (opened[:start] + style_sheet + paper + opened[start:]).encode()


def _colours() -> dict[str, str]:
    """The colours of the report on white."""
    sheet = resources.files("natsel.experiments.report").joinpath("report.css").read_text(encoding="utf-8")
    return dict(_LIGHT.findall(sheet.partition("@media")[0]))


def _pdf_curves(lines: Sequence[Line], axes: Axes) -> bytes:
    figure, plot = _blank(6.4, 4.0)
    scale = 100 if axes.y.endswith("(%)") else 1
    for line in lines:
        band, colour = line.bands, _colour(line.place)
        plot.fill_between(band.sizes, scale * band.lower, scale * band.upper, color=colour, alpha=0.13, linewidth=0)
        plot.plot(band.sizes, scale * band.median, color=colour, linestyle=_dash(line.place), label=line.name)
    plot.set_xlabel(axes.x)
    plot.set_ylabel(axes.y)
    plot.legend(frameon=False)
    return _saved_pdf(figure)


def _pdf_saved(rows: Sequence[Row], places: Mapping[str, int | None], metric: str) -> bytes:
    figure, plot = _blank(6.4, 1.0 + 0.3 * len(rows))
    low, high = _range(rows)
    ordered = sorted(rows, key=lambda one: one.target)
    for number, row in enumerate(ordered):
        assert row.saved is not None
        span, colour = row.saved.interval or row.saved.seeds, _colour(places[row.method])
        plot.plot([100 * max(span.low, low), 100 * min(span.high, high)], [-number] * 2, color=colour)
        plot.plot([100 * row.saved.share.low], [-number], "o", color=colour)
    words = [f"{row.method} to {level(metric, row.target)}: {labels(row.needed[1])} labels" for row in ordered]
    plot.set_yticks([-number for number in range(len(rows))], words)
    plot.axvline(0, color="0.5", linewidth=0.8)
    plot.set_xlabel("labels saved against random (%)")
    return _saved_pdf(figure)


def _blank(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasPdf(figure)
    plot = figure.add_subplot()
    plot.spines[["top", "right"]].set_visible(False)
    return figure, plot


def _saved_pdf(figure: Any) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format="pdf", metadata={"CreationDate": None})
    return content.getvalue()


def _colour(place: int | None) -> str:
    return _colours()[style(place).split()[0]]


def _dash(place: int | None) -> str:
    return "--" if place is None else ":" if place >= 6 else "-"


def _range(rows: Sequence[Row]) -> tuple[float, float]:
    """The least and the greatest share to show: all marks, and of intervals what lies between −100 % and 100 %."""
    ends = [0.0]
    for row in rows:
        assert row.saved is not None
        span = row.saved.interval or row.saved.seeds
        ends += [row.saved.share.low, max(span.low, -1.0), min(span.high, 1.0)]
    low, high = min(ends), max(ends)
    return low - 0.03, max(high, low + 0.1) + 0.03


def _signed(value: float) -> str:
    return f"{value:g}".replace("-", "−")
