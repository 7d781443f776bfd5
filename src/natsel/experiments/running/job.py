"""One job of an experiment: a method with a seed, from its initial labels to the budget, kept in its journal."""

import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from natsel.experiments.recipe.checks import closest
from natsel.experiments.recipe.contenders import Contender
from natsel.experiments.recipe.recipe import GIVEN, Recipe
from natsel.experiments.running.build import Setting, build_data, build_model, initial_ids
from natsel.experiments.running.data_source import Given
from natsel.experiments.running.folder import Job, journal_path, write_outcome
from natsel.experiments.running.sizes import check_sizes
from natsel.experiments.running.target_inputs import build_targets
from natsel.models.kinds import kind_called
from natsel.models.networks.inputs import as_device

if TYPE_CHECKING:
    from natsel.choose import Method
    from natsel.learning import ActiveLearner

Emit = Callable[[dict[str, Any]], None]


class Runner:
    """Does jobs of a recipe one after another; the data are loaded once.

    What no job could do is refused here with the recipe's key, once and before anything is written.
    """

    def __init__(self, recipe: Recipe, folder: Path, device: str | None = None, given: Given | None = None) -> None:
        self.recipe, self.folder, self.device, self.given = recipe, folder, device, given
        as_device(device)  # refuses a device that is not there
        for index, contender in enumerate(recipe.methods):
            try:
                self._method(contender)
            except ValueError as reason:
                raise ValueError(f"methods[{index}]: {str(reason).removeprefix('method: ')}") from None
        self.setting = build_data(recipe, given)
        check_sizes(recipe, self.setting)
        _check_targets(recipe, self.setting)
        _check_metric(recipe, self.setting)
        kind = recipe.model["kind"]
        if kind != GIVEN and "network" in kind_called(kind).options:  # networks take their inputs from any device
            self.setting = self.setting.on(device)
        build_model(recipe, self.setting, device, given)
        self.targets = build_targets(recipe, self.setting, given)

    def described(self) -> dict[str, Any]:
        """What a report says about the data."""
        setting = self.setting
        ((largest, count),) = Counter[Any](setting.test.labels).most_common(1)
        return {
            "pool": len(setting.ids),
            "validation": 0 if setting.validation is None else len(setting.validation),
            "test": len(setting.test),
            "kind": setting.kind,
            "targets": None if setting.targets is None else len(setting.targets),
            "classes": list(setting.examples.classes),
            "majority": count / len(setting.test),
            "majority_class": dict(enumerate(setting.examples.classes)).get(largest),
        }

    def contender(self, label: str) -> Contender:
        """The contender of that name."""
        return next(one for one in self.recipe.methods if one.label == label)

    def _method(self, contender: Contender) -> "Method":
        return (self.given.methods if self.given else {}).get(contender.label) or contender.build()

    def do(self, contender: Contender, seed: int, budget: int, emit: Emit) -> str:
        """Run or resume a job; the reason why it stopped."""
        from natsel.learning import ActiveLearner, Queries

        in_queries = self.recipe.budget_counts == "queries"
        path = journal_path(self.folder, contender.slug, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        learner = ActiveLearner(
            build_model(self.recipe, self.setting, self.device, self.given),
            self.setting.pool(),
            method=self._method(contender),
            k=contender.k or self.recipe.k,
            store=path,
            seed=seed,
            validation=self.setting.validation,
            test=self.setting.test,
            candidates=self.recipe.candidates,
            targets=self.targets,
            junk=self.recipe.junk,
            progress=lambda labels, total: emit(_measured(learner, labels, in_queries)),
        )
        with learner:
            if learner.n_labelled == 0:
                ids = initial_ids(self.recipe, self.setting, seed)
                if len(ids):
                    learner.tell(ids, learner.pool.answers(ids))
                elif not len(learner.outstanding):  # all methods start alike, also one with a k of its own
                    learner.ask(min(self.recipe.k, budget))
            return learner.run(stop=Queries(budget)) if in_queries else learner.run(budget)


def do_job(runner: Runner, job: Job, budget: int, emit: Emit, log: IO[str] | None = None) -> None:
    """Do a job and write down how it ended; events say how it goes, the last of them is `done` or `failed`.

    What led to a failure goes to `log` (None: stderr).
    """
    began = time.perf_counter()
    emit({"event": "start"})
    try:
        stopped = runner.do(runner.contender(job.method), job.seed, budget, emit)
    except Exception as failure:
        traceback.print_exc(file=log)
        error = f"{type(failure).__name__}: {failure}"
        write_outcome(runner.folder, job, {"error": error})
        emit({"event": "failed", "error": error})
        return
    seconds = round(time.perf_counter() - began, 3)
    write_outcome(runner.folder, job, {"budget": budget, "stopped": stopped, "seconds": seconds})
    emit({"event": "done", "seconds": seconds})


def _measured(learner: "ActiveLearner", labels: int, in_queries: bool) -> dict[str, Any]:
    """What a round has come to: what it used of the budget, its metrics, and the seconds since the batch before it was
    asked for.
    """
    rounds = learner.history
    last = rounds[-1] if rounds else None
    chosen = rounds[-2].seconds if len(rounds) > 1 else {}
    seconds = {stage: spent for stage, spent in chosen.items() if stage in ("believe", "select")}
    return {
        "event": "round",
        "labels": labels + learner.summary()["n_skipped"] if in_queries else labels,
        "metrics": dict(last.metrics) if last else {},
        "seconds": seconds | (dict(last.seconds) if last else {}),
    }


def _check_metric(recipe: Recipe, setting: Setting) -> None:
    """Refuse a metric that is not measured."""
    from natsel.evaluation.classification import rare_class
    from natsel.evaluation.of_belief import METRICS, OF_TWO

    two = not setting.regression and rare_class(setting.test.labels) is not None
    known = [one for one in METRICS[setting.regression] if two or one not in OF_TWO]
    if recipe.metric and recipe.metric not in known:
        raise ValueError(f"metric: {recipe.metric!r} is not measured; {closest(recipe.metric, known)}")
    for claim in recipe.claims:
        if claim.metric not in (*known, "junk"):
            raise ValueError(f"claims.metric: {claim.metric!r} is not measured; {closest(claim.metric, known)}")


def _check_targets(recipe: Recipe, setting: Setting) -> None:
    """Refuse levels that no accuracy can have."""
    for index, target in enumerate(recipe.targets):
        if target > 1 and not setting.regression and recipe.metric != "positives found":
            raise ValueError(f"targets[{index}]: expected an accuracy from 0 to 1, found {target:g}; 0.9 is 90 %")
