"""The studies there are, by name: what settings each takes, how it is run, and how its findings are shown."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from natsel.experiments.recipe.checks import Check, each, number, one_of, whole

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Study:
    """A study: `module` holds `run`, `claims` and `page`; it is imported when it is wanted."""

    module: str
    settings: Mapping[str, Check]

    def part(self, name: str) -> Any:
        """One of the functions of the module."""
        return getattr(import_module(f"natsel.experiments.studies.{self.module}"), name)

    def run(self, settings: Mapping[str, Any], folder: Path, **options: Any) -> dict[str, Any]:
        """The findings; what was found before is kept in the folder and not computed again."""
        found: dict[str, Any] = self.part("run")(settings, folder, **options)
        return found


STUDIES: dict[str, Study] = {
    "weight-space": Study(
        "weight_space",
        {
            name: whole(1)
            for name in (
                "labels",
                "validation",
                "pool",
                "targets",
                "test",
                "draws",
                "trials",
                "epoch_samples",
                "max_epochs",
            )
        },
    ),
    "gp-example": Study("gp_example", {"length_scales": each(number(1e-3)), "sizes": each(whole(1))}),
    "online-inference": Study(
        "online_inference",
        {
            "start": whole(1),
            "last": whole(2),
            "step": whole(1),
            "trials": whole(1),
            "sub_trials": whole(1),
            "draws": whole(2),
            "test": whole(1),
            "train": whole(1),
            "validation": whole(1),
            "candidates": whole(1),
            "method": one_of("batchbald", "bald", "power-bald"),
            "epoch_samples": whole(1),
            "max_epochs": whole(1),
        },
    ),
}
