"""Studies: experiments that learn no curve, each a small program with settings, findings, charts and claims."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from natsel.experiments.recipe.checks import Check, each, number, one_of, whole


@dataclass(frozen=True)
class Study:
    """A study: `module` holds `run`, `claims` and `sections`, and is imported when it is wanted.

    `sets` are the data sets that it learns from.
    """

    module: str
    settings: Mapping[str, Check]
    sets: tuple[str, ...] = ()

    def part(self, name: str) -> Any:
        """One of the functions of the module."""
        return getattr(import_module(f"natsel.experiments.studies.{self.module}"), name)


def _counts(names: str) -> dict[str, Check]:
    return {name: whole(1) for name in names.split()}


STUDIES = {
    "weight-space": Study(
        "weight_space",
        _counts("labels validation pool targets test draws trials epoch_samples max_epochs"),
        ("mnist",),
    ),
    "gp-example": Study("gp_example", {"length_scales": each(number(1e-3)), "sizes": each(whole(1))}),
    "online-inference": Study(
        "online_inference",
        _counts("start step trials sub_trials test train validation candidates epoch_samples max_epochs")
        | {"last": whole(2), "draws": whole(2), "method": one_of("batchbald", "bald", "power-bald")},
        ("mnist",),
    ),
}
