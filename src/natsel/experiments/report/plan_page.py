"""The page of a plan: its claims, the curves of every variant, and the way to the report of each."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from natsel.experiments.report import sections
from natsel.experiments.report.page import page
from natsel.experiments.report.report import warnings_of
from natsel.experiments.results import verdicts
from natsel.experiments.results.experiment import BASELINE, Experiment


def plan_page(
    document: Mapping[str, Any],
    experiments: Mapping[str, Experiment],
    sentences: Mapping[str, str],
    claims: Sequence[Mapping[str, Any]],
) -> str:
    """The page as HTML."""
    methods = list(dict.fromkeys(method for one in experiments.values() for method in one.methods))
    others = [method for method in methods if method != BASELINE]
    places = {method: None if method == BASELINE else others.index(method) for method in methods}
    header = (
        f'<p class="eyebrow">natsel report</p><h1>{escape(str(document["name"]))}</h1>'
        f'<p class="headline">{escape(verdicts.counted(claims))}</p>'
        f'<p class="about">{escape(str(document.get("about", "")))}</p>'
        f'<dl class="facts"><div><dt>variants</dt><dd>{len(experiments)}</dd></div>'
        f"<div><dt>methods</dt><dd>{len(methods)}</dd></div></dl>"
    )
    parts = [("claims", "Claims", verdicts.table_of(claims))]
    for name, experiment in experiments.items():
        own = {method: places[method] for method in places if method in experiment.methods}
        link = f'<a href="{escape(name)}/report.html">The whole report of {escape(name)}</a>'
        words = f"<p>{escape(sentences[name])} {link}</p>"
        words += "".join(
            f'<p class="note">{escape(note)}</p>' for note in (*warnings_of(experiment), *experiment.notes)
        )
        drawn = [sections.main_chart(experiment, own, metric) for metric in (experiment.metric, "junk")]
        parts.append((name, f"Variant {name}", words + "".join(drawn)))
    command = " ".join(document.get("command", ()))
    if command:
        parts.append(("protocol", "Protocol", f"<pre><code>{escape(command)}</code></pre>"))
    shown = [part for part in parts if part[2]]
    return page(f"{document['name']} – natsel report", header, shown, list(places.values()))
