"""Target inputs of a recipe: the inputs predictions are wanted for, as the learner takes them.

    from = "train"     rows of the training part set aside for it, unlabelled
    from = "test"      inputs of the test part (their labels stay unseen)
    from = "pool"      the pool itself: nothing is known about the targets
    from = "prior"     the pool, weighted to given shares of the classes
    from = "stream"    fresh draws from the formula that made the set
    from = "given"     what natsel.compare was given as targets

`count` of them (100 by default, as published) are drawn for each ask.
docs/theory/epig-jepig.md, 10.
"""

from typing import Any

from natsel.experiments.recipe.recipe import Recipe
from natsel.experiments.running.build import Setting
from natsel.experiments.running.data_source import Given

_COUNT = 100


def build_targets(recipe: Recipe, setting: Setting, given: Given | None = None) -> Any:
    """What `ActiveLearner(targets=…)` takes; None where the recipe names no targets."""
    wanted = recipe.target_inputs
    if wanted is None:
        return None
    from natsel.learning import TargetInputs

    source, count = wanted["from"], wanted.get("count", _COUNT)
    if source == "given":
        if given is None:
            raise ValueError(
                "target_inputs.from: natsel.compare was given targets that only its process had; call it again"
            )
        return given.targets
    try:
        if source == "pool":
            return TargetInputs("pool", count=count)
        if source == "prior":
            classes = setting.examples.n_classes
            if len(wanted["prior"]) != classes:
                raise ValueError(f"expected a share for each of {classes} classes, found {len(wanted['prior'])}")
            return TargetInputs("pool", class_prior=list(wanted["prior"]), count=count)
        if source == "stream":
            return TargetInputs(_stream(recipe), count=count)
        assert setting.targets is not None
        return TargetInputs(setting.targets.inputs, count=count)
    except ValueError as reason:
        raise ValueError(f"target_inputs: {str(reason).removeprefix('targets: ')}") from None


def _stream(recipe: Recipe) -> Any:
    from natsel.data.made import STREAMS

    if recipe.data.set not in STREAMS or recipe.data.standardise:
        known = ", ".join(STREAMS)
        raise ValueError(f"{recipe.data.set} is drawn from no formula as it stands; streams come from {known}")
    make = STREAMS[recipe.data.set]
    return lambda count, seed: make(count, seed=seed).inputs
