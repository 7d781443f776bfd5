"""Whether data can give all the rows that recipes ask for, found for every variant of a plan before the first run.

Rows of the parts, the start and the budget follow from the rows and labels of the data alone. So each set and each file
is read once for all variants, and one zero stands for each input while variants are split and transformed.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from natsel.data import DataSet, Examples, load
from natsel.experiments.recipe.plan import Plan
from natsel.experiments.recipe.recipe import Recipe
from natsel.experiments.running.build import Setting, build_without_inputs, initial_ids
from natsel.experiments.running.data_source import load_data


def refuse_sizes(plan: Plan) -> None:
    """Refuse a plan with a variant whose data cannot give the rows that it asks for; the error names the variant.

    >>> from natsel.experiments.recipe.plan import plan_from
    >>> iris = {"name": "a", "data": {"set": "iris"}, "model": {"kind": "forest"}, "methods": ["margin"], "budget": 20}
    >>> refuse_sizes(plan_from(iris | {"variants": {"few": {}, "many": {"budget": 50}}}))
    """
    read: dict[str, DataSet] = {}

    def once(source: str, load_source: Callable[[], DataSet]) -> DataSet:
        if source not in read:
            read[source] = _without_inputs(load_source())
        return read[source]

    def junk_of(name: str) -> Examples:
        return once(name, lambda: load(name)).train

    for name, recipe in plan.recipes.items():
        try:
            data = once(_source(recipe), partial(load_data, recipe))
            check_sizes(recipe, build_without_inputs(recipe, data, junk_of))
        except ValueError as reason:
            raise ValueError(f"{f'variants.{name}.' if name else ''}{reason}") from None


def _source(recipe: Recipe) -> str:
    """What decides the examples that `load_data` gives: a set has its parts from the start, a file is split by keys."""
    data = recipe.data
    keys = (data.file, data.labels, data.inputs, data.ids, data.regression, data.size, data.classes)
    return data.set or repr((recipe.home, *keys, data.test, data.seed))


def _without_inputs(data: DataSet) -> DataSet:
    """The same rows and labels, with one zero for each input."""
    parts = {"train": data.train, "test": data.test, "validation": data.validation}
    zeros: dict[str, Any] = {
        name: None if part is None else replace(part, inputs=np.zeros((len(part), 1), dtype=np.float32))
        for name, part in parts.items()
    }
    return replace(data, **zeros)


def check_sizes(recipe: Recipe, setting: Setting) -> None:
    """Refuse a start or a budget that the pool cannot give."""
    how, wanted = recipe.initial.how, recipe.initial.value
    ids, labels = setting.ids[setting.first], np.asarray(setting.examples.labels)[setting.first]
    if how == "per_class" and setting.regression:
        raise ValueError("initial.per_class: labels are real numbers, which have no classes; use count")
    if how == "ids":
        rows = initial_ids(recipe, setting, 0)
        strangers = rows[~np.isin(rows, ids)]
        if len(strangers):
            raise ValueError(f"initial.ids: row {strangers[0]} is not in the pool; name rows of {recipe.data.name}")
        if len(np.unique(rows)) < len(rows):
            raise ValueError(f"initial.ids: found {rows.tolist()}; name each row once")
        start = len(rows)
    elif how == "count":
        if wanted > len(ids):
            raise ValueError(f"initial.count: asked for {wanted} of {len(ids)} rows; ask for fewer")
        start = wanted
    else:
        counts = np.unique(labels[labels >= 0], return_counts=True)[1]
        if wanted > counts.min():
            raise ValueError(
                f"initial.per_class: asked for {wanted} of each class, but one has {counts.min()} rows; ask for fewer"
            )
        start = wanted * len(counts)
    if not start < recipe.budget <= len(setting.ids):
        raise ValueError(
            f"budget: expected more than the {start} labels of initial.{how} and at most the {len(setting.ids)} rows"
            f" of the pool, found {recipe.budget}; {'lower' if recipe.budget > start else 'raise'} it"
        )
