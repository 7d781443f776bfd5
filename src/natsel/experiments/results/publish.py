"""Write what the variants of a plan, or a study, have come to.

folder/report.html                   the page for people
folder/claims.json                   every claim with its verdict and evidence
folder/<variant>/experiment.json     the numbers of one experiment; beside it its own page and claims
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from natsel.containers import own, readable, write_text
from natsel.evaluation import Known
from natsel.experiments.report.plan_page import plan_page, study_page
from natsel.experiments.report.report import report
from natsel.experiments.results.claims import Verdicts, counted, judged_across
from natsel.experiments.results.experiment import Experiment
from natsel.experiments.results.from_journals import read_experiment
from natsel.experiments.results.log_errors import Group, group_of
from natsel.experiments.results.summary import Row, headline, table
from natsel.experiments.running.data_source import Given
from natsel.experiments.running.folder import read_plan, write_json
from natsel.experiments.studies import STUDIES
from natsel.texts import escape


@dataclass(frozen=True)
class Published:
    """The result of an experiment, of several variants of one, or of a study: where its page lies, the verdicts on its
    claims, and one sentence.
    """

    name: str
    page: Path
    sentence: str
    claims: Verdicts
    experiment: Experiment | None = None
    variants: Mapping[str, "Published"] = field(default_factory=dict)
    findings: Mapping[str, Any] = field(default_factory=dict)
    groups: Sequence[Group] = ()

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        found: dict[str, Any] = {"name": self.name, "sentence": self.sentence, "report": str(self.page)}
        found |= {} if self.experiment is None else _numbers(self.experiment)
        found |= {"claims": [dict(one) for one in self.claims]}
        found |= {"groups": {one.name: one.as_dict() for one in self.groups}} if self.groups else {}
        found |= {"variants": {name: one.as_dict() for name, one in self.variants.items()}} if self.variants else {}
        return found | ({"findings": dict(self.findings)} if self.findings else {})


def publish(
    folder: str | Path, out: str | Path | None = None, *, given: Mapping[str, Given] | None = None
) -> Published:
    """Read the runs in a folder and write their report there, or to `out`; `given` are the values of `run_plan`."""
    folder = Path(folder)
    page = folder / "report.html" if out is None else Path(out)
    document = read_plan(folder)
    if "study" in document:
        return _publish_study(document, folder, page)
    variants, refusals = {}, []
    for name in document["variants"]:
        try:
            place = own(folder / name) / "report.html" if name else page
            variants[name] = _publish_experiment(folder / name, place, (given or {}).get(name))
        except ValueError as reason:  # a variant may not be measured yet
            refusals.append(reason)
    if not variants:
        raise refusals[0]
    if "" in variants:
        return variants[""]
    experiments = {name: one.experiment for name, one in variants.items() if one.experiment is not None}
    of_grid: dict[str, Any] = document.get("groups", {})
    across = judged_across(document.get("claims", ()), experiments, of_grid)
    found = (
        group_of(
            name,
            {one: experiments[one] for one in names if one in experiments},
            document.get("published", {}).get(name),
        )
        for name, names in of_grid.items()
    )
    groups = [one for one in found if one is not None]
    each = [{**claim, "where": name} for name, one in variants.items() for claim in one.claims]
    verdicts = [*(one.as_dict() for one in across), *each]
    write_text(page, plan_page(document, experiments, verdicts, groups))
    write_json(folder / "claims.json", verdicts)
    sentence = counted(verdicts) if verdicts else "\n".join(f"{name}: {one.sentence}" for name, one in variants.items())
    return Published(document["name"], page, sentence, verdicts, variants=variants, groups=groups)


def _publish_experiment(folder: Path, page: Path, given: Given | None) -> Published:
    experiment = read_experiment(folder, given=given)
    write_text(page, report(experiment))
    write_json(folder / "experiment.json", experiment.numbers())
    if experiment.claims:
        write_json(folder / "claims.json", experiment.numbers()["claims"])
    return Published(experiment.name, page, headline(experiment), experiment.claims, experiment)


def _publish_study(document: dict[str, Any], folder: Path, page: Path) -> Published:
    findings = document.get("findings")
    if not findings:
        raise ValueError(f"folder: the study in {folder} has found nothing yet; natsel run goes on with it")
    study = STUDIES[document["study"]]
    with readable(folder / "study.json"):  # findings of another form make the parts of a study fail in any way
        shown = json.loads(escape(json.dumps(findings), quote=False))
        verdicts = [one.as_dict() for one in study.part("claims")(findings)]
        content = study_page(document, study.part("sections")(shown), verdicts)
    write_text(page, content)
    write_json(folder / "claims.json", verdicts)
    return Published(document["name"], page, counted(verdicts), verdicts, findings=findings)


def _numbers(experiment: Experiment) -> dict[str, Any]:
    """The ends of all runs, and a row for each method and target."""
    return {
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
    }


def _row(row: Row) -> dict[str, Any]:
    saved = row.saved
    return {
        "method": row.method,
        "target": row.target,
        "quartiles": [part.low if part.exact else None for part in row.needed],
        "at_least": [part.low for part in row.needed],
        "reached": row.reached,
        "runs": row.runs,
        "saved": None if saved is None else _ends(saved.share),
        "baseline": None if saved is None else _ends(saved.baseline),
        "interval": None if saved is None or saved.interval is None else _ends(saved.interval),
    }


def _ends(known: Known) -> list[float | None]:
    """Both ends of what is known, None where there is no bound (JSON has no infinity)."""
    return [end if math.isfinite(end) else None for end in (known.low, known.high)]
