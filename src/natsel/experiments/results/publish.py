"""Write what an experiment, a plan of several, or a study has come to.

report.html        the page for people
experiment.json    the numbers of one experiment
claims.json        every claim with its verdict and evidence
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from natsel.containers import atomically
from natsel.evaluation import Known
from natsel.experiments.recipe.declared_claims import claim
from natsel.experiments.report.plan_page import plan_page
from natsel.experiments.report.report import report
from natsel.experiments.results.claims import judged_across
from natsel.experiments.results.experiment import Experiment
from natsel.experiments.results.reading import read_experiment
from natsel.experiments.results.summary import Row, headline, table
from natsel.experiments.results.verdicts import counted, lines_of
from natsel.experiments.running.folder import write_json
from natsel.experiments.running.suite import read_plan
from natsel.experiments.studies import STUDIES
from natsel.experiments.studies.study_page import study_page

Verdicts = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Published:
    """An experiment as read, where its page lies, and what it says in a sentence."""

    experiment: Experiment
    page: Path
    sentence: str

    def as_dict(self) -> dict[str, Any]:
        """For `--json`: the sentence, where the page is, and a row for each method and target."""
        experiment = self.experiment
        return {
            "name": experiment.name,
            "sentence": self.sentence,
            "report": str(self.page),
            "methods": {
                method: {
                    "seeds": [curve.seed for curve in experiment.of(method)],
                    "labels": [curve.sizes[-1] for curve in experiment.of(method)],
                    experiment.metric: [curve.final(experiment.metric) for curve in experiment.of(method)],
                }
                for method in experiment.methods
            },
            "labels_needed": [_row(row) for row in table(experiment)],
            "notes": list(experiment.notes),
            "claims": [dict(one) for one in experiment.claims],
        }

    def told(self) -> str:
        """The result in lines of plain text."""
        return "\n".join([self.sentence, *lines_of(self.experiment.claims), f"The report: {self.page}"])


@dataclass(frozen=True)
class PublishedPlan:
    """Several experiments, or a study: its page, its claims, and what it says in a sentence."""

    name: str
    page: Path
    sentence: str
    claims: Verdicts
    parts: Mapping[str, Published] = field(default_factory=dict)
    findings: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For `--json`: the sentence, where the page is, the claims, and what each part came to."""
        found: dict[str, Any] = {"name": self.name, "sentence": self.sentence, "report": str(self.page)}
        found |= {"claims": [dict(one) for one in self.claims]}
        found |= {"variants": {name: part.as_dict() for name, part in self.parts.items()}} if self.parts else {}
        return found | ({"findings": dict(self.findings)} if self.findings else {})

    def told(self) -> str:
        """The result in lines of plain text."""
        parts = [f"{name}: {part.sentence}" for name, part in self.parts.items()]
        return "\n".join([*parts, *lines_of(self.claims), self.sentence, f"The report: {self.page}"])


def publish(folder: str | Path, out: str | Path | None = None) -> "Published | PublishedPlan":
    """Read the runs in a folder and write their report there, or to `out`."""
    folder = Path(folder)
    page = folder / "report.html" if out is None else Path(out)
    document = read_plan(folder)
    if document is None:
        return publish_experiment(folder, page)
    return _publish_study(document, page, folder) if "study" in document else _publish_plan(document, page, folder)


def publish_experiment(folder: Path, page: Path) -> Published:
    """The report of one experiment."""
    experiment = read_experiment(folder)
    _write(page, report(experiment))
    write_json(folder / "experiment.json", experiment.numbers())
    if experiment.claims:
        write_json(folder / "claims.json", experiment.numbers()["claims"])
    return Published(experiment, page, headline(experiment))


def _publish_plan(document: dict[str, Any], page: Path, folder: Path) -> PublishedPlan:
    parts: dict[str, Published] = {}
    for name in document["variants"]:
        try:
            parts[name] = publish_experiment(folder / name, folder / name / "report.html")
        except ValueError:
            continue  # not measured yet
    if not parts:
        raise ValueError(f"folder: no run in {folder} has been measured yet; natsel run goes on with it")
    experiments = {name: part.experiment for name, part in parts.items()}
    own = [{**one, "where": name} for name, part in parts.items() for one in part.experiment.claims]
    across = judged_across([claim(one) for one in document.get("claims", ())], experiments)
    verdicts = [*(one.as_dict() for one in across), *own]
    sentences = {name: part.sentence for name, part in parts.items()}
    _write(page, plan_page(document, experiments, sentences, verdicts))
    write_json(folder / "claims.json", verdicts)
    return PublishedPlan(document["name"], page, counted(verdicts), verdicts, parts)


def _publish_study(document: dict[str, Any], page: Path, folder: Path) -> PublishedPlan:
    findings = document.get("findings")
    if not findings:
        raise ValueError(f"folder: the study in {folder} has found nothing yet; natsel run goes on with it")
    study = STUDIES[document["study"]]
    verdicts = [one.as_dict() for one in study.part("claims")(findings)]
    _write(page, study_page(document, study.part("sections")(findings), verdicts))
    write_json(folder / "claims.json", verdicts)
    return PublishedPlan(document["name"], page, counted(verdicts), verdicts, {}, findings)


def _write(page: Path, content: str) -> None:
    with atomically(page) as place:
        place.write_text(content, encoding="utf-8")


def _row(row: Row) -> dict[str, Any]:
    saved = row.saved
    return {
        "method": row.method,
        "target": row.target,
        "quartiles": [part.low if part.exact else None for part in row.needed],
        "at_least": [part.low for part in row.needed],
        "reached": row.reached,
        "runs": row.runs,
        "saved": None if saved is None else _ends(saved.median),
        "interval": None if saved is None or saved.interval is None else _ends(saved.interval),
    }


def _ends(known: Known) -> list[float | None]:
    """Both ends of what is known, None where there is no bound (JSON has no infinity)."""
    return [end if math.isfinite(end) else None for end in (known.low, known.high)]
