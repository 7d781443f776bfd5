"""The page of a plan: its claims, the curves of every variant and the way to the report of each, or its study."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from natsel.experiments.report import sections
from natsel.experiments.report.group_section import group_section
from natsel.experiments.report.page import outline, page
from natsel.experiments.report.report import notes
from natsel.experiments.results.claims import Verdicts, counted
from natsel.experiments.results.experiment import Experiment
from natsel.experiments.results.log_errors import Group
from natsel.experiments.results.summary import headline
from natsel.texts import escape

Section = tuple[str, str, str]
"""Anchor, heading, content."""


def plan_page(
    document: Mapping[str, Any],
    experiments: Mapping[str, Experiment],
    verdicts: Verdicts,
    groups: Sequence[Group] = (),
) -> str:
    """The page of several variants as HTML; `document` is what `plan.json` holds, `groups` what they say together."""
    methods = list(dict.fromkeys(method for one in experiments.values() for method in one.methods))
    places = sections.places_of(methods)
    facts = (
        f'<dl class="facts"><div><dt>variants</dt><dd>{len(experiments)}</dd></div>'
        f"<div><dt>methods</dt><dd>{len(methods)}</dd></div></dl>"
    )
    parts = [(f"group-{n}", f"All of {g.name}", group_section(g, experiments, places)) for n, g in enumerate(groups)]
    for number, (name, experiment) in enumerate(experiments.items()):
        own = {method: places[method] for method in methods if method in experiment.methods}
        link = f'<a href="{quote(name, safe="")}/report.html">The whole report of {escape(name)}</a>'
        words = f"<p>{escape(headline(experiment))} {link}</p>{notes(experiment)}"
        drawn = [sections.main_chart(experiment, own, metric) for metric in (experiment.metric, "junk")]
        parts.append((f"variant-{number}", f"Variant {name}", words + "".join(drawn)))
    return _page(
        document, facts, verdicts, [*parts, ("protocol", "Protocol", _command(document))], list(places.values())
    )


def study_page(document: Mapping[str, Any], found: Sequence[Section], verdicts: Verdicts) -> str:
    """The page of a study as HTML; `document` is what `study.json` holds, `found` are the sections of the study."""
    protocol = f'{_command(document)}<div class="card recipe">{outline(document.get("settings", {}))}</div>'
    versions = ", ".join(f"{name} {version}" for name, version in document.get("versions", {}).items())
    protocol += f'<p class="quiet">{escape(versions)}</p>' if versions else ""
    return _page(document, "", verdicts, [*found, ("protocol", "Protocol", protocol)], [])


def _page(
    document: Mapping[str, Any],
    facts: str,
    verdicts: Verdicts,
    parts: Sequence[Section],
    places: Sequence[int | None],
) -> str:
    headline_of_all = f'<p class="headline">{escape(counted(verdicts))}</p>' if verdicts else ""
    header = (
        f'<p class="eyebrow">natsel report</p><h1>{escape(str(document["name"]))}</h1>{headline_of_all}'
        f'<p class="about">{escape(document.get("about") or "")}</p>{facts}'
    )
    shown = [part for part in (("claims", "Claims", sections.claims(verdicts)), *parts) if part[2]]
    return page(f"{document['name']} – natsel report", header, shown, places)


def _command(document: Mapping[str, Any]) -> str:
    command = " ".join(document.get("command", ()))
    return f"<pre><code>{escape(command)}</code></pre>" if command else ""
