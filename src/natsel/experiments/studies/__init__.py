"""Studies: experiments that learn no curve, each a small program with settings, findings, charts and claims."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from natsel.experiments.recipe.checks import Check, each, flag, number, one_of, text, whole


@dataclass(frozen=True)
class Study:
    """A study: `module` holds `run`, `claims` and `sections`, and is imported when it is wanted.

    `sets` are the data sets that it learns from, `made` those that its module makes by a formula.
    """

    module: str
    settings: Mapping[str, Check]
    sets: tuple[str, ...] = ()
    made: tuple[str, ...] = ()

    def part(self, name: str) -> Any:
        """One of the functions of the module."""
        return getattr(import_module(f"natsel.experiments.studies.{self.module}"), name)


def _counts(names: str) -> dict[str, Check]:
    return {name: whole(1) for name in names.split()}


_NETWORKS = [
    f"{name}{norm}" for name in ("lenet", "vgg16", "resnet18", "resnet50", "wide-resnet") for norm in ("", "-spectral")
]

_CONDITIONS = (
    *("clean", "noise-0.1", "noise-0.2", "noise-0.4"),
    *("noise-0.1-everywhere", "noise-0.2-everywhere", "noise-0.4-everywhere", "structured", "relevance"),
    *("human-aggregate", "human-worst"),
)
_SELECTING = ("random", "rho-loss", "loss", "grad-norm", "gradient-norm-importance", "negative-irreducible-loss")
_PRUNING = (
    *("random", "el2n", "grand", "grand-initial", "grand-last-layer", "forgetting", "input-norm", "noisy-input-norm"),
)
_CAUSAL = (
    *("random", "propensity", "sign-error", "tau-bald", "mu-bald", "rho-bald", "mu-rho-bald", "mu-pi-bald"),
    "rho-exact",
)

STUDIES = {
    "weight-space": Study(
        "weight_space",
        _counts("labels validation pool targets test draws trials epoch_samples max_epochs"),
        ("mnist",),
    ),
    "outside-detection": Study(
        "outside_detection",
        _counts("width validation test epochs batch members trials")
        | {
            "train": whole(0),
            "seed": whole(0),
            "spectral": number(0),
            "learning_rate": number(0),
            "baselines": whole(0),
        }
        | {
            "set": one_of("dirty-mnist", "mnist", "cifar10"),
            "networks": each(one_of(*_NETWORKS)),
            "outside": each(text),
        },
        ("mnist",),
    ),
    "disagreement": Study(
        "disagreement_study",
        _counts("width members validation test epochs batch")
        | {"train": whole(0), "seed": whole(0), "learning_rate": number(0), "augmentation": flag}
        | {"set": one_of("cifar10", "mnist", "fashion", "digits"), "shifts": each(text)}
        | {"network": one_of("lenet", "vgg16", "resnet18", "resnet50", "wide-resnet")},
        ("cifar10",),
    ),
    "segmentation": Study(
        "scene_segmentation",
        _counts("train validation test size shapes unknown_shapes width members epochs batch window")
        | {"seed": whole(0), "border_width": number(0), "learning_rate": number(0)},
    ),
    "selective-training": Study(
        "selective_training",
        _counts("pool test steps uniform_steps batch evaluate_every trials width")
        | _counts("irreducible_width irreducible_epochs irreducible_batch")
        | {"set": one_of("mnist", "cifar10", "cola", "sst2"), "targets": each(number(0, 1), at_least=0)}
        | {"held_out": whole(0)}
        | {"seed": whole(0), "keep": number(0, 1), "learning_rate": number(0), "weight_decay": number(0)}
        | {"conditions": each(one_of(*_CONDITIONS))}
        | {"methods": each(one_of(*_SELECTING))},
        ("mnist",),
    ),
    "pruning-curves": Study(
        "pruning_curves",
        _counts("test width epochs batch trials runs initial_runs score_epoch")
        | {"train": whole(0), "seed": whole(0), "forgetting_runs": whole(0), "learning_rate": number(0)}
        | {"augmentation": flag, "policy": one_of("epochs", "steps"), "keeps": each(number(1e-3, 1))}
        | {"methods": each(one_of(*_PRUNING))},
        ("cifar10",),
    ),
    "label-errors": Study(
        "label_errors",
        _counts("width epochs early_epoch runs trials batch")
        | {"train": whole(0), "seed": whole(0), "folds": whole(2), "learning_rate": number(0), "augmentation": flag}
        | {"kind": one_of("aggregate", "worst"), "network": one_of("lenet", "resnet18")},
        ("cifar10",),
    ),
    "approximation-ladder": Study(
        "approximation_ladder",
        _counts("pool held_out candidates copies members hidden small_hidden batch epochs irreducible_epochs trials")
        | {"seed": whole(0), "noise": number(0, 1), "keep": number(0, 1), "enough": number(0)}
        | {"learning_rate": number(0), "weight_decay": number(0), "sequences": each(one_of("own", "gold"))},
        ("mnist",),
    ),
    "causal-acquisition": Study(
        "causal_acquisition",
        _counts("pool start k labels trials")
        | {"seed": whole(0), "set": one_of("synthetic", "ihdp"), "search": one_of("top", "softmax")}
        | {"methods": each(one_of(*_CAUSAL))},
        made=("synthetic",),
    ),
    "causal-pictures": Study(
        "causal_pictures",
        _counts("pool validation test start k labels trials members epochs patience batch")
        | {"seed": whole(0), "set": one_of("mnist"), "search": one_of("top", "softmax")}
        | {"methods": each(one_of(*_CAUSAL))},
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
