"""The report of an experiment: one HTML file that says what was saved, how sure that is, and how it was found out.

It opens with the sentence a reader came for, then shows what stands behind it: the curves, the labels each method
needed, what was picked, how evenly over classes, where the time went, and the protocol in full with all numbers.
"""

import json
from collections import Counter
from typing import Any

from natsel.experiments.report import sections
from natsel.experiments.report.page import outline, page
from natsel.experiments.report.picks import picks
from natsel.experiments.report.png import data_address
from natsel.experiments.results.experiment import BASELINE, Experiment
from natsel.experiments.results.summary import headline, unlike
from natsel.texts import escape

_NUMBERS = 400_000
"""Most bytes of numbers that a page carries; details of picks are left out where there are more."""


def report(experiment: Experiment) -> str:
    """The page as HTML: write it to a file and open it in any browser.

    >>> from natsel.experiments.results.experiment import Curve
    >>> runs = [Curve(method, 0, [10, 20], {"accuracy": [0.5, 0.9]}) for method in ("random", "bald")]
    >>> report(Experiment("digits", runs)).splitlines()[0]
    '<!doctype html>'
    """
    places = sections.places_of(experiment.methods)
    parts = [
        ("claims", "Claims", sections.claims(experiment.claims)),
        ("curves", "Learning curves", sections.curves(experiment, places)),
        ("labels", "Labels needed", sections.labels(experiment, places)),
        ("picks", "What was picked", _picks(experiment, places)),
        ("classes", "How evenly over classes", sections.classes(experiment, places)),
        ("time", "Where the time went", sections.time(experiment, places)),
        ("protocol", "Protocol", _protocol(experiment)),
        ("numbers", "All numbers", _numbers(experiment)),
    ]
    shown = [part for part in parts if part[2]]
    return page(f"{experiment.name} – natsel report", _header(experiment), shown, list(places.values()))


def _header(experiment: Experiment) -> str:
    sentence = headline(experiment).replace(" %", "\u00a0%")
    about = f'<p class="about">{escape(experiment.about)}</p>' if experiment.about else ""
    facts = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in _facts(experiment).items())
    return (
        f'<p class="eyebrow">natsel report</p><h1>{escape(experiment.name)}</h1>'
        f'<p class="headline{" long" * (len(sentence) > 170)}">{escape(sentence)}</p>'
        f'{about}{notes(experiment)}<dl class="facts">{facts}</dl>'
    )


def _facts(experiment: Experiment) -> dict[str, str]:
    curves = experiment.curves
    sizes = [size for curve in curves for size in curve.sizes]
    batches = Counter(len(batch.ids) for curve in curves for batch in curve.batches)
    facts = {"methods": str(len(experiment.methods)), "seeds": str(len({curve.seed for curve in curves}))}
    if sizes:
        facts["labels"] = f"{min(sizes):,} to {max(sizes):,}"
    if batches:
        facts["a batch"] = f"{batches.most_common(1)[0][0]:,}"
    rest = {
        "pool": experiment.pool,
        "scored a round": experiment.candidates,
        "classes": len(experiment.classes) or None,
    }
    return facts | {name: f"{count:,}" for name, count in rest.items() if count is not None}


def notes(experiment: Experiment) -> str:
    """What is missing from an experiment, so that nobody reads more into it than there is, and its own notes."""
    found = []
    open_runs = sum(not curve.stopped for curve in experiment.curves)
    if open_runs:
        of = len(experiment.curves)
        found.append(f"{open_runs} of {of} runs had not finished when this page was made: what it says may change.")
    found += unlike(experiment)
    if experiment.curves and BASELINE not in experiment.methods:
        found.append(f"There is no run of {BASELINE} here, so that labels saved cannot be told.")
    return "".join(f'<p class="note">{escape(note)}</p>' for note in (*found, *experiment.notes))


def _picks(experiment: Experiment, places: sections.Places) -> str:
    blocks = picks(experiment, places)
    words = "<p>The first and the last batch of each method, in the order picked, with the label that came back.</p>"
    return f'{words}<div class="card">{blocks}</div>' if blocks else ""


def _protocol(experiment: Experiment) -> str:
    seeds = sorted({curve.seed for curve in experiment.curves})
    words = (
        f"<p>Seeds {', '.join(map(str, seeds)) or '–'}; every run of a method is a function of the recipe and its seed."
    )
    if experiment.candidates is not None:
        of = f" of the {experiment.pool:,} points" if experiment.pool is not None else ""
        words += f" Each round scores a random part of the pool: {experiment.candidates:,}{of}, drawn anew."
    elif experiment.pool is not None:
        words += f" Each round scores the whole pool of {experiment.pool:,} points."
    reasons = Counter(curve.stopped for curve in experiment.curves if curve.stopped)
    stopped = "; ".join(f"{escape(reason.rstrip('.'))} ({count} runs)" for reason, count in reasons.items())
    words += f" Runs ended because: {stopped}.</p>" if stopped else "</p>"
    command = f"<pre><code>{escape(experiment.command)}</code></pre>" if experiment.command else ""
    recipe = f'<div class="card recipe">{outline(experiment.recipe)}</div>' if experiment.recipe else ""
    versions = ", ".join(f"{name} {version}" for name, version in experiment.versions.items())
    return words + command + recipe + (f'<p class="quiet">{escape(versions)}</p>' if versions else "")


def _numbers(experiment: Experiment) -> str:
    numbers = _rounded(experiment.numbers())
    left_out = ""
    for columns, words in (
        (("scores", "epistemic", "aleatoric"), "the scores of single picks"),
        (("batches",), "picks"),
    ):
        content = json.dumps(numbers, ensure_ascii=False, separators=(",", ":"))
        if len(content.encode()) <= _NUMBERS:
            break
        left_out = f" To keep the page small, {words} are left out; the journals of the runs hold them."
        for curve in numbers["curves"]:
            for place in (curve, *curve["batches"]):
                for column in columns:
                    place.pop(column, None)
    content = json.dumps(numbers, ensure_ascii=False, separators=(",", ":"))
    address = data_address("application/json", content.encode())
    name = "".join(letter if letter.isalnum() else "-" for letter in experiment.name) or "experiment"
    size = f"{max(1, round(len(content.encode()) / 1000)):,} kB"
    return (
        f"<p>Every measurement, pick and label behind this page, as JSON.{left_out}</p>"
        f'<p><a class="button" download="{escape(name)}.json" href="{address}">Download the numbers ({size})</a></p>'
    )


def _rounded(value: Any) -> Any:
    """Six digits are more than any of these numbers is worth."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _rounded(entry) for name, entry in value.items()}
    return [_rounded(entry) for entry in value] if isinstance(value, list) else value
