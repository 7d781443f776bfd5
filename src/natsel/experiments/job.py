"""One job of an experiment: a method with a seed, from its initial labels to the budget, kept in its journal."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from natsel.experiments.build import build_data, build_model, initial_ids
from natsel.experiments.contenders import Contender
from natsel.experiments.folder import journal_path
from natsel.experiments.recipe import Recipe

if TYPE_CHECKING:
    from natsel.learning import ActiveLearner


class Runner:
    """Does jobs of a recipe one after another; the data are loaded once."""

    def __init__(self, recipe: Recipe, folder: Path, device: str | None = None) -> None:
        self.recipe, self.folder, self.device = recipe, folder, device
        for contender in recipe.methods:
            contender.build()  # refuses an unknown method before any work
        self.setting = build_data(recipe)
        if recipe.model["kind"] in ("dropout", "ensemble"):  # networks, which take their inputs from any device
            self.setting = self.setting.on(device)

    def described(self) -> dict[str, Any]:
        """What a report says about the data."""
        setting = self.setting
        return {
            "pool": len(setting.ids),
            "validation": 0 if setting.validation is None else len(setting.validation),
            "test": len(setting.test),
            "kind": setting.kind,
            "classes": list(setting.examples.classes),
        }

    def do(self, contender: Contender, seed: int, budget: int, emit: Callable[[dict[str, Any]], None]) -> str:
        """Run or resume a job; the reason why it stopped."""
        from natsel.learning import ActiveLearner

        path = journal_path(self.folder, contender.slug, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        learner = ActiveLearner(
            build_model(self.recipe, self.setting, self.device),
            self.setting.pool(),
            method=contender.build(),
            k=contender.k or self.recipe.k,
            store=path,
            seed=seed,
            validation=self.setting.validation,
            test=self.setting.test,
            candidates=self.recipe.candidates,
            progress=lambda done, total: emit(_measured(learner, done)),
        )
        with learner:
            if learner.n_labelled == 0:
                ids = initial_ids(self.recipe, self.setting, seed)
                if len(ids):
                    learner.tell(ids, learner.pool.answers(ids))
            return learner.run(budget)


def _measured(learner: "ActiveLearner", labels: int) -> dict[str, Any]:
    """What a round has come to: its metrics, and the seconds since the batch before it was asked for."""
    rounds = learner.history
    last = rounds[-1] if rounds else None
    chosen = rounds[-2].seconds if len(rounds) > 1 else {}
    seconds = {stage: spent for stage, spent in chosen.items() if stage in ("believe", "select")}
    return {
        "event": "round",
        "labels": labels,
        "metrics": dict(last.metrics) if last else {},
        "seconds": seconds | (dict(last.seconds) if last else {}),
    }
