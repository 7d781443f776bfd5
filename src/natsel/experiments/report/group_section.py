"""The section of a report on a group of variants: mean logarithms of errors over its data sets, beside published ones.

What is computed stands in `natsel.experiments.results.log_errors`.
"""

from collections.abc import Mapping

from natsel.evaluation.curves import bands
from natsel.experiments.report.charts import Axes, Line, chart
from natsel.experiments.report.method_styles import key, style
from natsel.experiments.report.page import table
from natsel.experiments.report.sections import Places
from natsel.experiments.results.experiment import BASELINE, Experiment
from natsel.experiments.results.log_errors import Entry, Group, curve_over_sets, interval, signed
from natsel.texts import escape


def group_section(group: Group, experiments: Mapping[str, Experiment], places: Places) -> str:
    """What the methods came to over all data sets of a group, data set by data set, and along the way."""
    known = {method: place for method, place in places.items() if method in group.entries}
    return _all_errors(group, known) + _by_set(group, known) + _chart(group, experiments, known)


def _all_errors(group: Group, places: Places) -> str:
    """A row for each method and, below its own, the published one: mean logarithms and differences from random."""
    base = group.entries.get(BASELINE, {})
    best = {
        metric: min(row[metric].log_error for row in group.entries.values() if metric in row)
        for metric in group.metrics
    }
    rows, classes = [], []
    for method, place in places.items():
        row = group.entries[method]
        cells = [_cell(row[metric], best[metric]) if metric in row else "–" for metric in group.metrics]
        rows.append([f"{key(place)} {escape(method)}", *cells])
        classes.append(style(place))
        if any(entry.published is not None for entry in row.values()):
            cells = [_published(row.get(metric), base.get(metric)) for metric in group.metrics]
            rows.append([f"<small>{escape(method)}, published</small>", *cells])
            classes.append(style(place))
    words = (
        f"<p>Mean of ln(error) over all rounds but the first, over seeds and over {len(group.variants)} data sets;"
        f" lower is better, and the lowest is bold. Below it: minus {BASELINE}, with 95 % intervals over seeds (these"
        " data sets, other seeds) and over data sets (other data sets of this kind).</p>"
    )
    source = f'<p class="quiet">Published: {escape(group.source)}.</p>' if group.source else ""
    if group.untold:
        source = f'<p class="note">No mean can be told of {escape(", ".join(group.untold))}.</p>{source}'
    head = ["method", *map(escape, group.metrics)]
    return f'{words}<div class="card">{table(head, rows, f"Mean log errors, {group.name}", classes)}</div>{source}'


def _cell(entry: Entry, best: float) -> str:
    number = signed(entry.log_error)
    shown = f"<b>{number}</b>" if entry.log_error == best else number
    found = entry.difference
    if found is None:
        return shown
    seeds, sets = interval(found.over_seeds, "seeds "), interval(found.over_sets, "data sets ")
    lines = (signed(found.mean), seeds, sets)
    return shown + "".join(f"<small>{line}</small>" for line in lines if line)


def _published(entry: Entry | None, base: Entry | None) -> str:
    if entry is None or entry.published is None:
        return "–"
    number = f"<small>{signed(entry.published)}</small>"
    if base is None or base.published is None or base is entry:
        return number
    return f"{number}<small>{signed(entry.published - base.published)}</small>"


def _by_set(group: Group, places: Places) -> str:
    """The difference from random on each data set, for the main error."""
    rows, classes = [], []
    for method, place in places.items():
        entry = group.entries[method].get(group.main)
        if entry is None or entry.difference is None:
            continue
        values = entry.difference.by_set
        cells = [
            (f"<b>{signed(values[name])}</b>" if values[name] < 0 else signed(values[name])) if name in values else "–"
            for name in group.variants
        ]
        rows.append([f"{key(place)} {escape(method)}", *cells])
        classes.append(style(place))
    if not rows:
        return ""
    names = [escape(name.removeprefix(f"{group.name}-")) for name in group.variants]
    body = table(["method", *names], rows, f"ln({group.main}) minus {BASELINE} on each data set", classes)
    what = f"ln({escape(group.main)}) minus that of {BASELINE} on each data set"
    words = f"<p>{what}, mean over seeds; below 0 is bold.</p>"
    return f'{words}<div class="card">{body}</div>'


def _chart(group: Group, experiments: Mapping[str, Experiment], places: Places) -> str:
    chosen = {name: experiments[name] for name in group.variants}
    lines = [
        Line(method, place, bands(curve_over_sets(chosen, method, group.main))) for method, place in places.items()
    ]
    if not any(len(line.bands.sizes) for line in lines):
        return ""
    axes = Axes("labels", f"ln({group.main}), mean over data sets", lambda value: f"{value:.3g}")
    legend = "".join(f"<li>{key(place)}{escape(method)}</li>" for method, place in places.items())
    words = "; ".join(
        f"{line.name} ends at {signed(float(line.bands.median[-1]))}" for line in lines if len(line.bands.sizes)
    )
    drawing = chart(lines, axes, f"Mean log {group.main} over labels: {words}.")
    return f'<div class="card"><ul class="swatches">{legend}</ul>{drawing}</div>'
