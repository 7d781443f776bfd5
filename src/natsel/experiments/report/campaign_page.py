"""The page of a labelling campaign: how good the model has become, what was asked and why, who labelled, what changed.

It is made from the journal alone, so that anybody who has the file can make it, also while people go on labelling.
Inputs are not in a journal: points are shown by their ids, and as pictures where ids are names of image files.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from natsel.evaluation.curves import Bands, class_counts, class_entropy, higher_is_better
from natsel.evaluation.curves import Run as CurvePoints
from natsel.experiments.report.bars import duration, histogram, legend_of_bars, split
from natsel.experiments.report.campaign import Campaign, Pace, curve, described_changes, main_metric
from natsel.experiments.report.charts import Axes, Line, chart, small_chart
from natsel.experiments.report.method_styles import key
from natsel.experiments.report.page import page, table
from natsel.experiments.report.pictures_of_ids import PicturesOfIds
from natsel.experiments.report.png import data_address
from natsel.experiments.report.sections import axes_of
from natsel.experiments.results.summary import level
from natsel.ids import Key
from natsel.learning.fitted_model import VALIDATION
from natsel.learning.run_tables import mean_gain
from natsel.store import Ask
from natsel.store.exporting import rows_of
from natsel.texts import csv_lines, escape

_BATCHES, _SHOWN, _PICKS, _IDS = 200, 12, 50, 200
"""Most batches in the table, batches shown pick by pick, picks shown of a batch, and ids in a list."""
_CSV = 400_000
"""Most bytes of labels that a page carries."""


def campaign_page(campaign: Campaign, pictures: PicturesOfIds | None = None) -> str:
    """The page as HTML: write it to a file and open it in any browser."""
    parts = [
        ("curves", "How good the model is", _curves(campaign)),
        ("gain", "What is left to learn", _gain(campaign)),
        ("batches", "What was asked, and why", _batches(campaign, pictures)),
        ("people", "Who labelled, and how fast", _people(campaign)),
        ("disagreements", "Where people disagree", _disagreements(campaign)),
        ("classes", "What the labels are", _balance(campaign)),
        ("open", "Outstanding and skipped", _open(campaign)),
        ("changes", "What changed, and stops", _changes(campaign)),
        ("runs", "All runs of this journal", _runs(campaign)),
        ("export", "Take the labels with you", _export(campaign)),
    ]
    title = f"{Path(campaign.journal).name} – natsel report"
    return page(title, _header(campaign), [part for part in parts if part[2]], [])


def sentence(campaign: Campaign) -> str:
    """Where the campaign stands, in one sentence."""
    count, metric = len(campaign.values), campaign.main_metric
    if not count:
        return "No label has been told yet."
    labels = _counted(count, "label")
    sizes, values = curve(campaign.rounds, metric) if metric else ([], [])
    if metric is None or not sizes:
        return f"{labels} for {campaign.n_points:,} points." if campaign.n_points else f"{labels}."
    examples, name = _examples_and_name(metric)
    after = "" if sizes[-1] == count else f" with the first {sizes[-1]:,}"
    first = f"; with {sizes[0]:,} it was {level(name, values[0])}" if len(sizes) > 1 else ""
    return f"{labels}: {name} on the {examples} examples is {level(name, values[-1])}{after}{first}."


def _header(campaign: Campaign) -> str:
    terms, run = campaign.run.current_terms, campaign.run
    notes = []
    if campaign.others:
        notes.append(
            f"The journal holds {len(campaign.others) + 1} runs; this page is about {run.name!r}. --run NAME shows"
            " another one."
        )
    if campaign.outstanding:
        notes.append(f"Handed out and waiting for a label: {_counted(len(campaign.outstanding), 'id')}.")
    found = {
        "labels": f"{len(campaign.values):,}",
        "points": f"{campaign.n_points:,}" if campaign.n_points else "–",
        "batches": f"{len(campaign.asks):,}",
        "method": terms.method,
        "a batch": f"{terms.k:,}",
        "model": str(terms.notes.get("model", "–")),
        "begun": _time(run.created),
        **{f"{name} given": str(terms.notes[name]) for name in ("labels", "answers") if name in terms.notes},
    }
    facts = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in found.items())
    said = "".join(f'<p class="note">{escape(note)}</p>' for note in notes)
    return (
        f'<p class="eyebrow">natsel report</p><h1>{escape(Path(campaign.journal).name)}: run {escape(run.name)}</h1>'
        f'<p class="headline">{escape(sentence(campaign)).replace(" %", "&nbsp;%")}</p>'
        f'{said}<dl class="facts">{facts}</dl>'
    )


def _curves(campaign: Campaign) -> str:
    if not campaign.metrics:
        return (
            "<p>Nothing has been measured: give the learner <code>test=(inputs, labels)</code> or"
            " <code>validation=(inputs, labels)</code>, and every fit is evaluated.</p>"
        )
    names = dict.fromkeys(_examples_and_name(metric)[1] for metric in campaign.metrics)
    main = _examples_and_name(campaign.main_metric or "")[1]
    large, small = "", ""
    for name in names:
        whose = {"test": curve(campaign.rounds, name), "validation": curve(campaign.rounds, VALIDATION + name)}
        lines = _lines({examples: points for examples, points in whose.items() if len(points[0])})
        spoken = f"{name} over labels: {_spoken(lines, name)}"
        if name == main:
            large = f'<div class="card">{_legend(lines)}{chart(lines, axes_of(name), spoken)}</div>'
        elif lines:
            small += f'<figure class="card">{small_chart(lines, axes_of(name), spoken, width=360)}</figure>'
    better = "" if higher_is_better(main) else f" Lower {escape(main)} is better."
    words = (
        "<p>How good each fit was on examples that it did not learn from, over the number of labels that it knew."
        f" Validation examples may have guided the fit, test examples have not.{better}</p>"
    )
    others = f'<div class="panels two">{small}</div>' if small else ""
    return words + large + others + _rounds_table(campaign)


def _rounds_table(campaign: Campaign) -> str:
    fits = [one for one in campaign.rounds if one.metrics][-_BATCHES:]
    rows = [
        [
            f"{one.n_labelled:,}",
            *(level(_examples_and_name(name)[1], one.metrics.get(name, math.nan)) for name in campaign.metrics),
            duration(sum(one.seconds.values())),
        ]
        for one in fits
    ]
    body = table(["labels", *map(escape, campaign.metrics), "time"], rows, "Metrics after each fit")
    return f"<details><summary>Every fit as a table</summary>{body}</details>"


def _gain(campaign: Campaign) -> str:
    alone = campaign.gains_alone
    if not len(alone[0]):
        return ""
    first, last = alone[1][0], alone[1][-1]
    both = {"each alone": alone, "in its batch": campaign.gains_in_batch}
    lines = _lines({name: points for name, points in both.items() if len(points[0])})
    words = (
        "<p>What a label was expected to tell about the model’s parameters when its batch was chosen: the mean over the"
        f" picks, each taken alone. The last batch: <b>{last:.3g}&nbsp;nats</b> per label"
        + (f"; the first: {first:.3g}&nbsp;nats." if len(alone[0]) > 1 else ".")
        + (
            " Picks of one batch may tell the same: “in its batch” counts each after those before it."
            * (len(lines) > 1)
        )
        + " It falls in the end, when labels of this kind tell the model little that it does not know.</p>"
    )
    axes = Axes("labels known", "nats per label", lambda value: f"{value:.3g}")
    spoken = f"Mean gain in nats per label, each alone, from {first:.3g} to {last:.3g}"
    return f'{words}<div class="card">{_legend(lines)}{chart(lines, axes, spoken)}</div>'


def _batches(campaign: Campaign, pictures: PicturesOfIds | None) -> str:
    asks, known = campaign.asks, campaign.known_before
    if not asks:
        return "<p>Nothing has been asked yet.</p>"
    rows = [_batch_row(campaign, ask, known[ask.number]) for ask in asks[-_BATCHES:]]
    head = ["batch", "when", "labels known", "method", "asked by", "ids", "answered", "nats per label", "to choose"]
    left_out = len(asks) - len(rows)
    before = f"<p>The last {len(rows)} of {len(asks):,} batches.</p>" if left_out else ""
    shown = asks if len(asks) <= _SHOWN else [asks[0], *asks[1 - _SHOWN :]]
    scale = _scale(shown)
    details = "".join(
        _details(campaign, ask, known[ask.number], scale, pictures, is_open=ask is shown[-1]) for ask in reversed(shown)
    )
    some = f"The first batch and the last {_SHOWN - 1}" if len(asks) > _SHOWN else "All batches"
    return (
        f'{before}<div class="card">{table(head, rows, "Batches in the order asked")}</div>'
        f"<h3>Pick by pick</h3><p>{some}, the latest first: what each pick scored under the method, and the two parts"
        f" of its uncertainty when it was picked.</p>{legend_of_bars(scale)}{details}"
    )


def _batch_row(campaign: Campaign, ask: Ask, known: int) -> list[str]:
    gain, answered = mean_gain([ask]), sum(id in campaign.values for id in ask.ids)
    warned = f"<br><small>{_counted(len(ask.warnings), 'warning')}</small>" if ask.warnings else ""
    return [
        f"{ask.number}{warned}",
        _time(ask.at),
        f"{known:,}",
        escape(ask.method),
        escape(_name(ask.who)),
        f"{len(ask.picks):,}",
        f"{answered:,}",
        "–" if gain is None else f"{gain:.3g}",
        duration(sum(ask.seconds.values())) if ask.seconds else "–",
    ]


def _details(
    campaign: Campaign,
    ask: Ask,
    known: int,
    scale: float | None,
    pictures: PicturesOfIds | None,
    *,
    is_open: bool,
) -> str:
    who_told = {label.id: label.who for label in campaign.labels}
    gallery, rows = [], []
    for number, pick in enumerate(ask.picks[:_PICKS], start=1):
        label, state = campaign.label_name(campaign.values.get(pick.id)), _state(campaign, pick.id)
        bar = ""
        if scale and pick.epistemic is not None and pick.aleatoric is not None:
            bar = split(pick.epistemic, pick.aleatoric, scale)
        address = pictures.address(pick.id) if pictures is not None else None
        if address is not None:
            name = escape(str(pick.id))
            gallery.append(f'<li title="{name}"><img src="{address}" alt="{name}"><b>{escape(label)}</b>{bar}</li>')
        wide = f'<span style="display:inline-block;min-width:6rem;width:100%">{bar}</span>' if bar else ""
        rows.append(
            [
                f"{number}. {_id(pick.id)}",
                _number(pick.score),
                wide,
                _number(pick.epistemic),
                _number(pick.aleatoric),
                f"<b>{escape(label)}</b>" if label else state,
                escape(_name(who_told[pick.id])) if pick.id in who_told else "",
            ]
        )
    more = len(ask.picks) - len(rows)
    rest = f'<p class="quiet">and {more:,} more</p>' if more > 0 else ""
    said = "".join(f'<p class="note">{escape(warning)}</p>' for warning in ask.warnings)
    head = ["id", "score", "uncertainty", "epistemic", "aleatoric", "label", "told by"]
    body = table(head, rows, f"Picks of batch {ask.number}")
    shown = f'<ol class="pictures" style="margin:.4rem 0 1rem">{"".join(gallery)}</ol>' if gallery else ""
    by = f" asked by {escape(_name(ask.who))}," if ask.who else ""
    return (
        f'<details class="card"{" open" * is_open}><summary>Batch {ask.number}: {_counted(len(ask.picks), "id")},{by}'
        " chosen by"
        f" {escape(ask.method)} with {known:,} labels</summary>{said}{shown}{body}{rest}</details>"
    )


def _state(campaign: Campaign, id: Key) -> str:
    """What became of an id without a label."""
    if id in campaign.values:
        return ""
    if id in campaign.outstanding:
        return "outstanding"
    return "skipped" if id in set(campaign.skipped) else "disputed" if id in campaign.disagreements else "released"


def _people(campaign: Campaign) -> str:
    paces = campaign.paces
    if not paces:
        return ""
    rows = [_pace_row(_name(pace.who), pace) for pace in paces]
    waits = [wait for pace in paces for wait in pace.waits]
    words = (
        "<p>From the ask of a batch to each label that answers it: the median, and below it the quartiles. Labels per"
        " hour count the time from an ask, or from what the same person told before, to a label; more than 30 minutes"
        " count as a pause.</p>"
    )
    if waits and float(np.median(waits)) < 1:
        words += '<p class="note">Most labels came within a second: a program gave them, and times say little.</p>'
    head = ["who", "labels", "answers to batches", "from ask to label", "labels per hour"]
    return f'{words}<div class="card">{table(head, rows, "Labels of each person")}</div>{_days(campaign)}'


def _pace_row(name: str, pace: Pace) -> list[str]:
    wait = "–"
    if pace.waits:
        lower, middle, upper = (duration(float(part)) for part in np.quantile(pace.waits, [0.25, 0.5, 0.75]))
        wait = f"<b>{middle}</b><small>{lower} to {upper}</small>"
    per_hour = "–" if pace.per_hour is None else f"{pace.per_hour:,.3g}" if pace.per_hour < 100 else ""
    per_hour = per_hour or f"{pace.per_hour:,.0f}"
    return [escape(name), f"{pace.n_labels:,}", f"{len(pace.waits):,}", wait, per_hour]


def _days(campaign: Campaign) -> str:
    days = Counter(label.at[:10] for label in campaign.labels)
    if len(days) < 2:
        return ""
    rows = [[escape(day), f"{count:,}"] for day, count in sorted(days.items())[-60:]]
    return (
        f"<details><summary>Labels per day (UTC)</summary>{table(['day', 'labels'], rows, 'Labels per day')}</details>"
    )


def _disagreements(campaign: Campaign) -> str:
    twice, found = campaign.told_twice, campaign.disagreements
    if not twice:
        return ""
    rule = campaign.run.terms.config.get("resolve", "last")
    rules = {"last": "The label told last counts.", "majority": "The majority counts, and no label where votes tie."}
    own = f"The run goes by the function {escape(rule)}, which no journal holds: here the label told last counts."
    words = (
        f"<p>Labels from more than one person: {_counted(twice, 'id')}, and people agree on {twice - len(found):,} of"
        f" them. {rules.get(rule, own)}</p>"
    )
    if not found:
        return words
    rows = [
        [
            _id(id),
            "; ".join(
                f"{escape(_name(who))}: <b>{escape(campaign.label_name(value))}</b>" for who, value in said.items()
            ),
            escape(campaign.label_name(campaign.values.get(id))) or "open",
        ]
        for id, said in list(found.items())[:_IDS]
    ]
    more = f'<p class="quiet">and {len(found) - len(rows):,} more</p>' if len(found) > len(rows) else ""
    return f'{words}<div class="card">{table(["id", "who said what", "counts"], rows, "Disagreements")}{more}</div>'


def _balance(campaign: Campaign) -> str:
    values = list(campaign.values.values())
    if not values:
        return ""
    if any(isinstance(value, float) for value in values):
        edges = np.histogram_bin_edges(np.array(values, dtype=np.float64), bins=min(12, max(3, len(values) // 4)))
        counts_C, _ = np.histogram(values, bins=edges)
        names = [f"{low:.3g} to {high:.3g}" for low, high in pairwise(edges.tolist())]
        words = (
            f"<p>{_counted(len(values), 'number')} from {min(values):.4g} to {max(values):.4g}, mean"
            f" {sum(values) / len(values):.4g}.</p>"
        )
        rows = [[escape(name), f"{count:,}"] for name, count in zip(names, counts_C.tolist(), strict=True)]
        return f'{words}<div class="card">{table(["label", "count"], rows, "How often labels fall where")}</div>'
    count = max(len(campaign.run.classes), int(max(values)) + 1)
    named = {campaign.label_name(number): number for number in reversed(range(count))}  # merged classes share a name
    numbers = sorted(named.values())
    counts_C, count = class_counts(values, count)[numbers], len(numbers)
    names = [campaign.label_name(number) for number in numbers]
    words = (
        f"<p>{int((counts_C > 0).sum())} of {count} classes have labels. The entropy of the labels is"
        f" {class_entropy(values):.3g}&nbsp;nats, at most ln&nbsp;{count}&nbsp;=&nbsp;{math.log(count):.3g}"
        " where all classes have as many. A method that looks for information need not pick classes as often as they"
        " occur.</p>"
    )
    figure = histogram(counts_C.astype(np.float64), names, 0, float(counts_C.max()), "Labels of each class")
    rows = [
        [escape(names[number]), f"{int(counts_C[number]):,}", f"{100 * counts_C[number] / len(values):.1f} %"]
        for number in np.argsort(-counts_C, kind="stable").tolist()
    ]
    body = table(["class", "labels", "share"], rows, "Labels of each class")
    return (
        f'{words}<div class="panels two"><figure class="card">{figure}</figure></div>'
        f"<details><summary>As a table</summary>{body}</details>"
    )


def _open(campaign: Campaign) -> str:
    if not campaign.outstanding and not campaign.skipped:
        return "<p>No id is outstanding, and none was skipped.</p>"
    parts = []
    if campaign.outstanding:
        rows = [
            [_id(id), f"{asked.ask}", escape(_name(asked.who))]
            for id, asked in list(campaign.outstanding.items())[:_IDS]
        ]
        body = table(["id", "batch", "asked by"], rows, "Outstanding ids")
        more = len(campaign.outstanding) - len(rows)
        rest = f'<p class="quiet">and {more:,} more</p>' if more else ""
        waiting = f"<p>Waiting for a label: {_counted(len(campaign.outstanding), 'id')}.</p>"
        parts.append(f'{waiting}<div class="card">{body}{rest}</div>')
    if campaign.skipped:
        ids = ", ".join(escape(str(id)) for id in campaign.skipped[:_IDS])
        after = f" and {len(campaign.skipped) - _IDS:,} more" if len(campaign.skipped) > _IDS else ""
        parts.append(
            f"<p>Set aside and not asked for again: {_counted(len(campaign.skipped), 'id')}.</p>"
            f'<div class="card"><p style="overflow-wrap:anywhere;margin:0">{ids}{after}</p></div>'
        )
    return "".join(parts)


def _changes(campaign: Campaign) -> str:
    rows: list[list[str]] = [[_time(campaign.run.created), "", "0", f"begun: {escape(_begun(campaign))}"]]
    points_seen = False
    for amendment in campaign.run.amendments:
        if "points" in amendment.detail and not points_seen:  # the points that the run began with
            points_seen = True
            continue
        for phrase in described_changes(amendment.detail):
            known = f"{campaign.n_labelled_before(amendment.seq):,}"
            rows.append([_time(amendment.at), escape(_name(amendment.who)), known, escape(phrase)])
    sizes = {one.revision: one.n_labelled for one in campaign.rounds}
    stops = [
        ["", "", f"{sizes[stop.revision]:,}" if stop.revision in sizes else "–", f"stopped: {escape(stop.reason)}"]
        for stop in campaign.stops
    ]
    head = ["when", "who", "labels then", "what"]
    return f'<div class="card claims">{table(head, [*rows, *stops], "What changed, and stops")}</div>'


def _begun(campaign: Campaign) -> str:
    terms, classes = campaign.run.terms, campaign.run.terms.notes.get("classes", ())
    points = terms.notes.get("points")
    parts = [f"method {terms.method}", f"batches of {terms.k}", f"seed {terms.seed}"]
    parts += [f"{points:,} points"] if points else []
    parts += [f"{len(classes)} classes"] if classes else []
    return ", ".join(parts) + (f", natsel {terms.natsel}" if terms.natsel else "")


def _runs(campaign: Campaign) -> str:
    if not campaign.others:
        return ""
    runs = {campaign.run.name: campaign.rounds, **campaign.others}
    metric = campaign.main_metric
    points = {name: curve(rounds, metric) for name, rounds in runs.items()} if metric else {}
    lines = _lines({name: found for name, found in points.items() if len(found[0])})
    drawn = ""
    if len(lines) > 1 and metric:
        spoken = f"{metric} over labels: {_spoken(lines, metric)}"
        drawn = f'<div class="card">{_legend(lines)}{chart(lines, axes_of(metric), spoken)}</div>'
    rows = []
    for name, rounds in runs.items():
        own = main_metric(rounds)
        values = curve(rounds, own)[1] if own else []
        said = (
            f"{level(_examples_and_name(own)[1], values[-1])} <small>{escape(own)}</small>" if own and values else "–"
        )
        most = max((one.n_labelled for one in rounds), default=0)
        rows.append([escape(name), f"{sum(len(one.asks) for one in rounds):,}", f"{most:,}", said])
    body = table(["run", "batches", "labels at the last fit", "last fit"], rows, "Runs of this journal")
    return f'{drawn}<div class="card">{body}</div>'


def _export(campaign: Campaign) -> str:
    path = str(campaign.journal)
    words = (
        "<p>Every label ever told, with who told it and when, as a table; and the journal itself, copied safely also"
        " while people go on:</p>"
        f"<pre><code>natsel journal export {escape(path)} labels.csv\nnatsel journal copy {escape(path)} backup.db"
        "</code></pre>"
        "<p>In Python <code>learner.labels().to_csv(path)</code>, <code>learner.history.to_csv(path)</code>, and"
        " <code>to_frame()</code> for pandas.</p>"
    )
    rows = rows_of(campaign.run, campaign.labels)
    if not rows:
        return words
    content = "".join(csv_lines(list(rows[0]), rows)).encode()
    if len(content) > _CSV:
        return words
    address = data_address("text/csv", content)
    size = f"{max(1, round(len(content) / 1000)):,} kB"
    return f'{words}<p><a class="button" download="labels.csv" href="{address}">Download the labels ({size})</a></p>'


def _lines(found: Mapping[str, CurvePoints]) -> list[Line]:
    """Lines of a chart by name; `test` and `validation` keep their colours whichever of them is there."""
    fixed = {"test": 0, "validation": 1}
    lines = []
    for place, (name, (sizes, values)) in enumerate(found.items()):
        x_n, y_n = np.array(sizes, dtype=np.float64), np.array(values, dtype=np.float64)
        bands = Bands(x_n, y_n, y_n, y_n, np.ones(len(x_n), dtype=np.int64))
        lines.append(Line(name, fixed.get(name, place), bands))
    return lines


def _legend(lines: Sequence[Line]) -> str:
    return f'<ul class="swatches">{"".join(f"<li>{key(line.place)}{escape(line.name)}</li>" for line in lines)}</ul>'


def _spoken(lines: Sequence[Line], metric: str) -> str:
    ends = [
        f"{line.name} from {level(metric, line.bands.median[0])} at {line.bands.sizes[0]:g} labels to"
        f" {level(metric, line.bands.median[-1])} at {line.bands.sizes[-1]:g}"
        for line in lines
    ]
    return "; ".join(ends) + "."


def _scale(asks: Sequence[Ask]) -> float | None:
    """The largest uncertainty of a pick; None where there is none, or where it is no length (below zero, infinite)."""
    pairs = [(pick.epistemic, pick.aleatoric) for ask in asks for pick in ask.picks]
    known = [(one, other) for one, other in pairs if one is not None and other is not None]
    if any(not math.isfinite(part) or part < -1e-6 for pair in known for part in pair):
        return None
    return max((one + other for one, other in known), default=0.0) or None


def _examples_and_name(metric: str) -> tuple[str, str]:
    """Which examples a metric is about, and its name.

    >>> _examples_and_name("validation nll"), _examples_and_name("rmse")
    (('validation', 'nll'), ('test', 'rmse'))
    """
    return ("validation" if metric.startswith(VALIDATION) else "test"), metric.removeprefix(VALIDATION)


def _id(id: Key) -> str:
    """An id in a cell: long ones are broken, so that they leave room for the columns after them."""
    style = "display:inline-block;width:max-content;max-width:min(22rem,38vw);white-space:normal;overflow-wrap:anywhere"
    return f'<span style="{style}">{escape(str(id))}</span>'


def _counted(count: int, noun: str) -> str:
    """A number of things.

    >>> _counted(1, "id"), _counted(1200, "id")
    ('1 id', '1,200 ids')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _number(value: float | None) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.3g}".replace("-", "−")


def _name(who: str) -> str:
    return who or "no name"


def _time(at: str) -> str:
    """A time for people: to the minute, in UTC as the journal has it."""
    return escape(at[:16].replace("T", " ")) or "–"
