"""Run a plan: the recipe of each variant in its folder, or a study.

    folder/<variant>/recipe.json               the recipe, fingerprints of data files, versions and commands
    folder/<variant>/data.json                 what a report says about the data
    folder/<variant>/<method>/seed-<n>.db      the journal of one job; beside it seed-<n>.json once it has ended
    folder/<variant>/logs/worker-<n>.log       what the processes printed
    folder/plan.json                           the variants and the claims that compare them, where variants have names
    folder/study.json                          the settings and findings of a study

The only variant of a recipe without variants has the name "": its files lie in the folder itself. Whatever was broken
off goes on from its journal when the plan is run again in the same folder; what is finished is not touched.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from natsel.containers import own, sealed
from natsel.experiments.recipe.plan import Plan
from natsel.experiments.recipe.recipe import Recipe
from natsel.experiments.running.data_source import Given
from natsel.experiments.running.folder import Job, finished, locked, prepare, read_plan, with_earlier_runs, write_json
from natsel.experiments.running.this_process import ThisProcess
from natsel.experiments.running.worker_pool import Report, WorkerPool
from natsel.experiments.studies import STUDIES
from natsel.experiments.studies.units import TimeIsUp, Units
from natsel.provenance import versions


@dataclass(frozen=True)
class Outcome:
    """How the jobs of a recipe ended: done now, done before, failed with the error, or left when the time was up."""

    done: tuple[Job, ...] = ()
    skipped: tuple[Job, ...] = ()
    failed: dict[Job, str] = field(default_factory=dict)
    left: tuple[Job, ...] = ()

    @property
    def finished(self) -> int:
        """How many jobs are finished, now or before."""
        return len(self.done) + len(self.skipped)


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
    given: Mapping[str, Given] | None = None,
) -> dict[str, Outcome]:
    """Run what is not finished of a plan; the outcome of each variant. `fresh` throws away what the folder holds first.

    `device` is where models run (None: as the recipe says, else the best there is). `minutes` ends it early, to be
    resumed; a study ends the measurement it is at. `processes` is how many work side by side; 0 has this process do the
    work. `given` has, for each variant, values that no file can name and no other process has: those variants are done
    by this process too. `progress` makes, for each variant, the function its events go to; a study sends events of kind
    `said`. An interruption (Ctrl-C) ends the processes and loses no label.

    >>> import tempfile
    >>> from natsel.experiments.recipe.plan import load_plan
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     len(run_plan(load_plan("digits"), folder, minutes=0)[""].left)
    40
    """
    if processes < 0:
        raise ValueError(f"processes: expected 0 or more, found {processes}")
    folder = Path(folder)
    deadline = None if minutes is None or minutes > 1e6 else time.monotonic() + 60 * minutes
    reports = progress or (lambda variant: lambda event: None)
    options: dict[str, Any] = {"processes": processes, "device": device, "fresh": fresh, "command": command}
    outcomes: dict[str, Outcome] = {}
    with ExitStack() as locks:
        for place in dict.fromkeys([folder, *(folder / name for name in plan.recipes)]):
            locks.enter_context(locked(place if place == folder else own(place)))
        if "" in plan.recipes and "name" in read_plan(folder):
            raise ValueError(f"folder: {folder} holds variants of a recipe, or a study; take another folder")
        if len(plan.recipes) > 1 and not given:  # a variant alone, or data that all share, is refused before a job
            from natsel.experiments.running.sizes import refuse_sizes

            refuse_sizes(plan)
        if plan.study:
            outcomes |= _run_study(plan, folder, reports(""), deadline, device, fresh, command)
        for name, recipe in plan.recipes.items():
            report = _with_note(plan, folder, command, name, reports(name)) if name else reports(name)
            outcomes[name] = run_recipe(
                recipe, folder / name, report=report, deadline=deadline, given=(given or {}).get(name), **options
            )
    return outcomes


def run_recipe(
    recipe: Recipe,
    folder: Path,
    *,
    processes: int,
    device: str | None,
    fresh: bool,
    deadline: float | None,
    report: Report,
    command: Sequence[str],
    given: Given | None = None,
) -> Outcome:
    """Run the jobs of a recipe that are not finished yet, methods × seeds, side by side in processes of their own, or
    one after another in this one.

    The folder becomes the recipe's when the first process has found that its data, its model and its methods can be
    had; a recipe that is refused leaves the folder as it was.
    """
    if not fresh:
        with_earlier_runs(folder, recipe)  # refuses a folder of another recipe before anything of this one is imported
    recipe = recipe.plugged_in()
    parts = dict(given.parts) if given is not None and given.parts else _model_parts(recipe.model["kind"])
    if not fresh:
        with_earlier_runs(folder, recipe, parts)
    jobs = [Job(contender.label, contender.slug, seed) for seed in recipe.seeds for contender in recipe.methods]
    skipped = [job for job in jobs if not fresh and finished(folder, job, recipe.budget)]
    for job in skipped:
        report({"event": "skipped", **job.named()})
    waiting = [job for job in jobs if job not in skipped]

    def begin(data: dict[str, Any] | None) -> None:
        prepare(folder, recipe, parts, device=device, fresh=fresh, command=command)
        if data is not None:
            write_json(folder / "data.json", sealed(data))

    if not waiting:
        begin(None)
    where, beside = device or recipe.device, min(processes, len(waiting))
    workers: ThisProcess | WorkerPool
    if given is not None or processes == 0:
        workers = ThisProcess(folder, recipe, waiting, where, begin, given)
    else:
        workers = WorkerPool(folder, recipe, waiting, beside, where, begin)
    done, failed = workers.work(report, deadline)
    left = [job for job in waiting if job not in done and job not in failed]
    return Outcome(tuple(done), tuple(skipped), failed, tuple(left))


def _model_parts(kind: str) -> dict[str, str]:
    """What the code that makes models of a kind is made of, where it is not natsel's own."""
    from natsel.models.fingerprints import parts_of  # these bring torch
    from natsel.models.kinds import is_import_path, kind_called

    with suppress(ImportError, AttributeError):  # of which whoever makes the model says more
        make = resolve_name(kind.removeprefix("python:")) if is_import_path(kind) else kind_called(kind).make
        return {} if getattr(make, "__module__", "").startswith("natsel.") else parts_of(make)
    return {}


def _with_note(plan: Plan, folder: Path, command: Sequence[str], name: str, report: Report) -> Report:
    """Write `plan.json` at a variant's first event: then its recipe is known to be possible, and may be killed."""
    noted = False

    def note(event: dict[str, Any]) -> None:
        nonlocal noted
        if not noted:
            before = read_plan(folder).get("variants", ())
            begun = [one for one in plan.order if one in before or one == name]  # as in the file, whichever ran first
            about = {"name": plan.name, "about": plan.about, "full": plan.full, "variants": begun}
            about |= {"claims": [one.as_table() for one in plan.claims], "command": list(command)}
            about |= {"groups": plan.groups, "published": plan.published} if plan.groups else {}
            write_json(folder / "plan.json", sealed(about | {"versions": versions()}))
            noted = True
        report(event)

    return note


def _run_study(
    plan: Plan, folder: Path, report: Report, deadline: float | None, device: str | None, fresh: bool, command: Any
) -> dict[str, Outcome]:
    """Run a study in this process; an outcome only where the time was up, with the study as what is left."""
    settings = json.loads(json.dumps(dict(plan.settings)))
    before = {} if fresh else read_plan(folder)
    if "name" in before and (before.get("study"), before.get("settings")) != (plan.study, settings):
        raise ValueError(
            f"settings: {folder} holds {before.get('study', 'other runs')} with {before.get('settings')} and the"
            f" recipe says {settings}; take another folder, or throw the old runs away with --fresh"
        )
    document = {"name": plan.name, "about": plan.about, "study": plan.study, "settings": settings}
    document |= {"full": plan.full, "command": list(command), "versions": versions(), "device": device}
    write_json(folder / "study.json", sealed(document | {"findings": before.get("findings")}))
    units = Units(folder, fresh, deadline, lambda words: report({"event": "said", "text": words}))
    try:
        if not before.get("findings"):
            units.go_on()
        findings = STUDIES[plan.study].part("run")(settings, units, device)
    except TimeIsUp:
        return {"": Outcome(left=(Job(plan.study, plan.study, 0),))}
    write_json(folder / "study.json", sealed(document | {"findings": findings}))
    return {}
