"""The sections of a report that show results: claims, curves, labels needed, classes, and time."""

import math
from collections.abc import Sequence
from itertools import chain

import numpy as np

from natsel.evaluation.curves import Run, bands, class_counts, class_entropy, higher_is_better
from natsel.evaluation.savings import ENOUGH
from natsel.experiments.report.bars import duration, histogram, stages
from natsel.experiments.report.charts import Axes, Line, chart, small_chart
from natsel.experiments.report.method_styles import key, style
from natsel.experiments.report.page import table
from natsel.experiments.results import summary
from natsel.experiments.results.claims import Verdicts, counted
from natsel.experiments.results.experiment import BASELINE, Curve, Experiment, is_share
from natsel.texts import escape

Places = dict[str, int | None]
"""Each method's place, which decides its colour and shape; None for the baseline."""


def places_of(methods: Sequence[str]) -> Places:
    """A place for each method, in the order given.

    >>> places_of(["bald", "random", "epig"])
    {'bald': 0, 'random': None, 'epig': 1}
    """
    others = [method for method in methods if method != BASELINE]
    return {method: None if method == BASELINE else others.index(method) for method in methods}


def claims(verdicts: Verdicts) -> str:
    """The claims with pass or fail and the evidence; empty where there are none.

    >>> claims([])
    ''
    """
    if not verdicts:
        return ""
    placed = any(one.get("where") for one in verdicts)
    head = ["claim", *(["where"] if placed else []), "what it says", "verdict", "evidence"]
    rows = [
        [
            escape(str(one["claim"])),
            *([escape(str(one.get("where") or "all together"))] if placed else []),
            escape(str(one["says"])),
            f'<b class="verdict {str(one["verdict"]).replace(" ", "-")}">{one["verdict"]}</b>',
            escape(str(one["evidence"])),
        ]
        for one in verdicts
    ]
    words = f"<p>{escape(counted(verdicts))} Beside each verdict stands what it rests on.</p>"
    return f'{words}<div class="card claims">{table(head, rows, "Claims and what became of them")}</div>'


def curves(experiment: Experiment, places: Places) -> str:
    """The learning curves of all methods, of each against the baseline, and of the other metrics."""
    if not experiment.curves:
        return "<p>Nothing has been measured yet.</p>"
    metric = experiment.metric
    lines = lines_of(experiment, places, metric)
    levels = [(level, f"target {summary.level(metric, level)}") for level in summary.targets(experiment)]
    axes = axes_of(metric, levels)
    boxes = "".join(
        f'<label><input type="checkbox" id="show-{"base" if place is None else place}" checked>'
        f"{key(place)}{escape(method)}</label>"
        for method, place in places.items()
    )
    words = (
        f"<p>Each line is the median of {_range(experiment)}, each band the middle half of them"
        f" (lower to upper quartile). {_better(metric)}{_dotted(lines)}</p>"
    )
    legend = f'<fieldset class="methods"><legend>Show in all charts and tables</legend>{boxes}</fieldset>'
    main = f'<div class="card">{legend}{chart(_without_runs(lines), axes, _spoken(lines, metric))}</div>'
    return (
        words + main + _panels(experiment, lines, axes) + _other_metrics(experiment, places) + _curve_table(lines, axes)
    )


def main_chart(experiment: Experiment, places: Places, metric: str) -> str:
    """A metric of all methods in one chart, without what else a report says about them; empty where it is unknown."""
    lines = lines_of(experiment, places, metric)
    if not any(line.runs for line in lines):
        return ""
    legend = "".join(f"<li>{key(place)}{escape(method)}</li>" for method, place in places.items())
    drawing = chart(_without_runs(lines), axes_of(metric), _spoken(lines, metric))
    return f'<div class="card"><ul class="swatches">{legend}</ul>{drawing}</div>'


def labels(experiment: Experiment, places: Places) -> str:
    """The table of labels needed for each target, and of labels saved against the baseline."""
    rows, levels = summary.table(experiment), summary.targets(experiment)
    if not levels or not rows:
        return ""
    compared = any(row.saved for row in rows)
    head = ["method"]
    for level in levels:
        name = f"{summary.level(experiment.metric, level)} {escape(experiment.metric)}"
        head += [f"labels to<br>{name}"] + (["saved"] if compared else [])
    cells, classes = [], []
    for method, place in places.items():
        mine = {row.target: row for row in rows if row.method == method}
        line = [f"{key(place)} {escape(method)}"]
        for level in levels:
            line.append(_needed(mine[level]))
            line += [_saving(mine[level])] if compared else []
        cells.append(line)
        classes.append(style(place))
    words = (
        "<p>The first number of labels at which a run reaches the target: the median over seeds, and below it the"
        f" quartiles.{_not_reached(rows)}</p>"
    )
    body = f'<div class="card">{table(head, cells, "Labels needed for each target", classes)}</div>'
    return words + body + (_fine_print(rows) if compared else "")


def classes(experiment: Experiment, places: Places) -> str:
    """The entropy of the picked labels over time, and how often each class was picked in the end."""
    seen = [label for run in experiment.curves for label in run.acquired_labels if label is not None]
    if not seen or any(not isinstance(label, int) for label in seen):
        return ""  # numbers have no classes
    count = max(len(experiment.classes), int(max(seen)) + 1)
    names = [*experiment.classes, *map(str, range(len(experiment.classes), count))]
    lines = [
        Line(method, places[method], bands([_entropies(run) for run in experiment.of(method)])) for method in places
    ]
    most = math.log(count)
    axes = Axes(
        "labels picked",
        "entropy of picked classes (nats)",
        lambda value: f"{value:.3g}",
        [(most, f"all {count} classes alike: ln {count}")],
    )
    words = (
        "<p>How evenly each method spreads its picks over the classes, by the entropy of the labels it has picked so"
        " far (the initial set is left out). A method that leaves classes out stays low.</p>"
    )
    main = f'<div class="card">{chart(lines, axes, "Entropy of picked classes over labels picked")}</div>'
    means = {
        method: np.mean([class_counts(run.acquired_labels, count) for run in runs], axis=0)
        for method in places
        if (runs := [run for run in experiment.of(method) if run.acquired])
    }
    highest = max(float(mean.max()) for mean in means.values())
    panels = []
    for method, mean in means.items():
        never = int((mean == 0).sum())
        aside = f"{never} of {count} never picked" if never else ""
        figure = histogram(mean, names, places[method], highest, f"Picks of each class by {method}, mean over seeds")
        panels.append(_figure(method, places[method], figure, aside))
    caption = "<h3>Picks of each class, mean over seeds</h3>"
    return f'{words}{main}{caption}<div class="panels">{"".join(panels)}</div>'


def time(experiment: Experiment, places: Places) -> str:
    """Seconds of each stage in a round, and of whole runs."""
    spent = {method: _seconds(experiment.of(method)) for method in places}
    order = list(dict.fromkeys(stage for one in spent.values() for stage in one))
    if not order:
        return ""
    longest = max(sum(one.values()) for one in spent.values())
    swatches = "".join(f'<li><i class="s{number % 6}"></i>{escape(stage)}</li>' for number, stage in enumerate(order))
    cells = []
    for method, place in places.items():
        whole = [sum(map(_finite, chain(*run.seconds.values()))) for run in experiment.of(method)]
        a_round = sum(spent[method].values())
        line = [f"{key(place)} {escape(method)}", stages(spent[method], order, longest), duration(a_round)]
        cells.append([*line, duration(float(np.median(whole)))])
    head = ["method", "seconds per round, by stage", "a round", "a run"]
    body = table(head, cells, "Time of each method", [style(place) for place in places.values()])
    words = "<p>Mean time of one round over all rounds and seeds, by stage, and the median time of a whole run.</p>"
    return f'{words}<div class="card"><ul class="swatches">{swatches}</ul>{body}</div>'


def lines_of(experiment: Experiment, places: Places, metric: str) -> list[Line]:
    """The line of each method: quartiles over its runs, and the runs."""
    lines = []
    for method, place in places.items():
        runs: list[Run] = [(run.sizes, run.metrics[metric]) for run in experiment.of(method) if metric in run.metrics]
        lines.append(Line(method, place, bands(runs), runs))
    return lines


def axes_of(metric: str, levels: Sequence[tuple[float, str]] = ()) -> Axes:
    """Axes for a metric over labels."""
    if is_share(metric):
        return Axes("labels", f"{metric} (%)", lambda value: f"{100 * value:.1f}".removesuffix(".0"), levels)
    unit = " (nats)" if metric == "nll" else ""
    return Axes("labels", f"{metric}{unit}", lambda value: f"{value:.3g}", levels)


def _without_runs(lines: Sequence[Line]) -> list[Line]:
    return [Line(line.name, line.place, line.bands) for line in lines]


def _panels(experiment: Experiment, lines: Sequence[Line], axes: Axes) -> str:
    """Each method beside the baseline, every run a thin line, all to one scale; nothing for single runs."""
    others = [line for line in lines if line.place is not None]
    if len(experiment.curves) == len(experiment.methods) or not others:
        return ""
    base = [Line(line.name, None, line.bands) for line in lines if line.place is None]
    against = f" beside {BASELINE}" if base else ""
    figures = "".join(
        _figure(
            line.name, line.place, small_chart([*base, line], axes, f"Runs of {line.name}{against}", scale=lines), ""
        )
        for line in others
    )
    return f'<h3>Every run{against}</h3><div class="panels">{figures}</div>'


def _other_metrics(experiment: Experiment, places: Places) -> str:
    names = dict.fromkeys(name for run in experiment.curves for name in run.metrics if name != experiment.metric)
    figures = []
    for name in names:
        lines = _without_runs(lines_of(experiment, places, name))
        if any(len(line.bands.sizes) for line in lines):
            figures.append(
                f'<figure class="card">{small_chart(lines, axes_of(name), _spoken(lines, name), width=360)}</figure>'
            )
    return f'<h3>Also measured</h3><div class="panels two">{"".join(figures)}</div>' if figures else ""


def _curve_table(lines: Sequence[Line], axes: Axes) -> str:
    known = [line for line in lines if len(line.bands.sizes)]
    if not known:
        return ""
    sizes = np.unique(np.concatenate([line.bands.sizes for line in known]))
    medians = [dict(zip(line.bands.sizes.tolist(), line.bands.median.tolist(), strict=True)) for line in known]
    rows = [[f"{at:g}", *(axes.number(one[at]) if at in one else "" for one in medians)] for at in sizes.tolist()]
    body = table(["labels", *(escape(line.name) for line in known)], rows, f"Median {axes.y} at each number of labels")
    return f"<details><summary>The medians as a table</summary>{body}</details>"


def _figure(method: str, place: int | None, drawing: str, aside: str) -> str:
    small = f"<small>{escape(aside)}</small>" if aside else ""
    caption = f"<figcaption>{key(place)}<b>{escape(method)}</b>{small}</figcaption>"
    return f'<figure class="card {style(place)}">{caption}{drawing}</figure>'


def _needed(row: summary.Row) -> str:
    lower, middle, upper = row.needed
    ends = [summary.labels(lower), summary.labels(upper)]
    quarters = "" if row.runs == 1 or (ends[0] == ends[1] and not lower.exact) else " to ".join(ends)
    missed = f"<small>{row.reached} of {row.runs} runs</small>" if row.reached < row.runs else ""
    return f"<b>{escape(summary.labels(middle))}</b><small>{escape(quarters)}</small>{missed}"


def _saving(row: summary.Row) -> str:
    if row.saved is None:
        return "–"
    share = summary.share(row.saved.share)
    below = "" if share == "unknown" or row.saved.pairs == 1 else summary.span(row.saved.interval or row.saved.seeds)
    return f"<b>{_tied(share)}</b><small>{_tied(below)}</small>"


def _not_reached(rows: Sequence[summary.Row]) -> str:
    """What a number behind > means, with one that the table shows; nothing where it shows none."""
    bounds = [part for row in rows for part in (row.needed[1], row.needed[2], row.needed[0]) if not part.exact]
    if not bounds:
        return ""
    above = summary.labels(bounds[0]).removeprefix(">")
    return f" “&gt;{above}” means more than {above}: runs ended before they had reached it."


def _tied(text: str) -> str:
    return text.replace(" %", "\u00a0%")


def _fine_print(rows: Sequence[summary.Row]) -> str:
    saved = [row.saved for row in rows if row.saved is not None]
    pairs = sorted(one.pairs for one in saved if one.pairs > 1)
    text = (
        f"Saved: 1 − labels of the method / labels of {BASELINE}, from the two medians. A run that ends before the"
        " target counts as needing more than it had, so some savings are bounds."
    )
    if pairs and pairs[-1] >= ENOUGH:
        text += " Below it a 95 % interval: a bootstrap over seeds, drawn in pairs."
    if pairs and pairs[0] < ENOUGH:
        text += " Below it" if pairs[-1] < ENOUGH else f" For fewer than {ENOUGH} seeds it is"
        text += f" the least and the greatest saving of a single seed: {pairs[0]} seeds are too few for a 95 %"
        text += " interval."
    text += " All seeds share one split into pool and test examples: what another would change is left out."
    methods = len({row.method for row in rows if row.saved is not None})
    if methods > 1:
        text += f" The sentence at the top names the best of {methods} methods; being the best is partly luck, so that"
        text += " an interval there is wider than the one here."
    return f'<p class="quiet">{_tied(text)}</p>'


def _entropies(run: Curve) -> Run:
    """The entropy of picked labels after each batch."""
    so_far: list[float] = []
    found: dict[int, float] = {}
    for batch in run.batches:
        so_far += [label for label in batch.labels if label is not None]
        if so_far:
            found[len(so_far)] = class_entropy(so_far)
    return list(found), list(found.values())


def _seconds(runs: Sequence[Curve]) -> dict[str, float]:
    """Mean seconds of each stage in a round."""
    rounds = sum(len(run.sizes) for run in runs) or 1
    names = dict.fromkeys(stage for run in runs for stage in run.seconds)
    return {name: sum(_finite(value) for run in runs for value in run.seconds.get(name, ())) / rounds for name in names}


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _range(experiment: Experiment) -> str:
    counts = sorted({len(experiment.of(method)) for method in experiment.methods})
    return "one run" if counts == [1] else f"{' to '.join(map(str, counts[:1] + counts[1:][-1:]))} runs"


def _better(metric: str) -> str:
    return "" if higher_is_better(metric) else f"Lower {escape(metric)} is better. "


def _dotted(lines: Sequence[Line]) -> str:
    gaps = any(len(line.bands.runs) and (line.bands.runs < line.bands.runs.max()).any() for line in lines)
    return "A line is dotted where some runs have ended already. " if gaps else ""


def _spoken(lines: Sequence[Line], metric: str) -> str:
    """The chart in words: where each line starts and ends."""
    ends = [
        f"{line.name} from {summary.level(metric, line.bands.median[0])} at {line.bands.sizes[0]:g} labels to"
        f" {summary.level(metric, line.bands.median[-1])} at {line.bands.sizes[-1]:g}"
        for line in lines
        if len(line.bands.sizes)
    ]
    return f"Median {metric} over labels: {'; '.join(ends)}."
