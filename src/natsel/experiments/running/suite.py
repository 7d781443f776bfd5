"""Run a plan: each variant of its recipe in a folder of its own, or its study; resumable like a single recipe.

    folder/plan.json             what the parts are, and the claims that compare them
    folder/<variant>/…           an experiment each (`natsel.experiments.running.run`)
    folder/study.json            the settings and findings of a study

What is finished is not touched when a plan is run again in the same folder.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from natsel.experiments.recipe.plan import Plan
from natsel.experiments.running.folder import locked, write_json
from natsel.experiments.running.run import Outcome, Report, run
from natsel.experiments.studies import STUDIES
from natsel.provenance import versions


@dataclass(frozen=True)
class Ended:
    """How a plan ended: the outcome of each part ("" where there is only one), in the order run."""

    folder: Path
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)

    @property
    def failed(self) -> list[tuple[str, str, int, str]]:
        """(variant, method, seed, error) of all jobs that failed."""
        return [
            (name, job.method, job.seed, error)
            for name, outcome in self.outcomes.items()
            for job, error in outcome.failed.items()
        ]

    @property
    def left(self) -> int:
        """Jobs not ended when the time was up."""
        return sum(len(outcome.left) for outcome in self.outcomes.values())

    @property
    def finished(self) -> int:
        """Jobs that are finished, now or before."""
        return sum(len(outcome.done) + len(outcome.skipped) for outcome in self.outcomes.values())


def run_plan(
    plan: Plan,
    folder: str | Path,
    *,
    processes: int = 2,
    device: str | None = None,
    fresh: bool = False,
    minutes: float | None = None,
    progress: Callable[[str], Report] | None = None,
    command: Sequence[str] = (),
) -> Ended:
    """Run what is not finished of a plan; `progress` makes, for each variant, the function its events go to.

    `minutes` counts for all parts together. A study tells what it does by events of kind `said`.
    """
    folder = Path(folder)
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    report = progress or (lambda variant: lambda event: None)

    def left() -> float | None:
        return None if deadline is None else max(0.0, (deadline - time.monotonic()) / 60)

    options = {"processes": processes, "device": device, "fresh": fresh, "command": command}
    if plan.recipe is not None:
        return Ended(folder, {"": run(plan.recipe, folder, minutes=left(), progress=report(""), **options)})  # type: ignore[arg-type]
    if plan.study:
        return _run_study(plan, folder, report(""), device, fresh, command)
    outcomes = {}
    with locked(folder):
        for name, recipe in plan.recipes.items():
            noting = _noting(plan, folder, command, name, report(name))
            outcomes[name] = run(recipe, folder / name, minutes=left(), progress=noting, **options)  # type: ignore[arg-type]
    return Ended(folder, outcomes)


def read_plan(folder: Path) -> dict[str, Any] | None:
    """What `plan.json` or `study.json` holds; None where the folder is that of a single experiment."""
    for name in ("plan.json", "study.json"):
        path = folder / name
        if path.is_file():
            try:
                return dict(json.loads(path.read_text(encoding="utf-8")))
            except (ValueError, TypeError) as reason:
                raise ValueError(f"folder: {path} cannot be read ({reason}); take another folder") from None
    return None


def _noting(plan: Plan, folder: Path, command: Sequence[str], name: str, report: Report) -> Report:
    """Write the plan down at a variant's first event: then its recipe is known to be possible, and may be killed."""
    noted = False

    def note(event: dict[str, Any]) -> None:
        nonlocal noted
        if not noted:
            _write_plan(plan, folder, command, name)
            noted = True
        report(event)

    return note


def _write_plan(plan: Plan, folder: Path, command: Sequence[str], begun: str) -> None:
    before = read_plan(folder) or {}
    known = {*before.get("variants", ()), begun}
    variants = sorted(known & set(plan.order), key=plan.order.index)  # as in the file, whichever was run first
    found = {"name": plan.name, "about": plan.about, "full": plan.full, "variants": variants}
    claims = [one.as_dict() for one in plan.claims]
    write_json(folder / "plan.json", found | {"claims": claims, "command": list(command), "versions": versions()})


def _run_study(
    plan: Plan, folder: Path, report: Report, device: str | None, fresh: bool, command: Sequence[str]
) -> Ended:
    settings = json.loads(json.dumps(dict(plan.settings or {})))
    with locked(folder):
        before = None if fresh else read_plan(folder)
        if before is not None and (before.get("study"), before.get("settings")) != (plan.study, settings):
            raise ValueError(
                f"settings: {folder} holds {before.get('study', 'other runs')} with {before.get('settings')} and the"
                f" recipe says {settings}; take another folder, or throw the old runs away with --fresh"
            )
        document = {"name": plan.name, "about": plan.about, "study": plan.study, "settings": settings}
        document |= {"full": plan.full, "command": list(command), "versions": versions(), "device": device}
        write_json(folder / "study.json", document | {"findings": (before or {}).get("findings")})
        study = STUDIES[plan.study]
        findings = study.run(
            settings, folder, device=device, fresh=fresh, tell=lambda words: report({"event": "said", "text": words})
        )
        write_json(folder / "study.json", document | {"findings": findings})
    return Ended(folder)
