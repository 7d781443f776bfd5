"""What a recipe's file may say: the keys of each table, each with its check."""

from collections.abc import Mapping
from typing import Any

from natsel.experiments.recipe.checks import Check, closest, each, either, flag, number, one_of, table, text, whole

_NETWORK = {"network": one_of("mnist-cnn", "emnist-cnn", "mlp"), "hidden": each(whole(1)), "dropout": number(0, 0.99)}

MODELS: dict[str, dict[str, Any]] = {
    "dropout": _NETWORK | {"draws": whole(1)},
    "ensemble": _NETWORK | {"members": whole(1)},
    "forest": {"trees": whole(1), "leaf": whole(1), "smoothing": number(0, 0.99)},
    "logistic": {"members": whole(1), "strength": number(0)},
    "probit-gp": {"draws": whole(1), "variance": number(0), "length": number(0)},
    "text": {"draws": whole(1), "hidden": each(whole(1)), "dropout": number(0, 0.99), "words": whole(1)},
    "frozen": {
        **{"backbone": one_of("efficientnet-lite0", "minilm"), "head": one_of("dropout", "ensemble")},
        **{"draws": whole(1), "members": whole(1), "hidden": each(whole(1)), "dropout": number(0, 0.99)},
    },
}
"""The kinds of model a recipe may name, and the arguments of each."""

TRAINING = {
    "preset": one_of("batchbald", "stochastic", "quick"),
    "learning_rate": number(0),
    "weight_decay": number(0),
    "batch": whole(1),
    "epoch_samples": either("all", whole(1)),
    "max_epochs": whole(1),
    "patience": whole(1),
    "optimiser": one_of("adam", "adamw", "sgd"),
    "validation_draws": whole(0),
}
TRANSFORMS: dict[str, dict[str, Any]] = {
    "repeated": {"copies": whole(1), "noise": number(0)},
    "noisy-labels": {"share": number(0, 1)},
    "imbalanced": {"shares": each(number(0, 1))},
    "junk": {"set": text, "count": whole(1)},
}
INITIAL = {"per_class": whole(1), "count": whole(0), "ids": either("published", each(whole(0)))}

SOURCES = ("train", "test", "pool", "prior", "stream")
"""Where target inputs may come from: see `natsel.experiments.running.target_inputs`."""


def counts(least: int) -> Check:
    """A number of rows, or a list with one for each class of the set, of which some may be "all"."""

    def check(value: Any, key: str) -> Any:
        if isinstance(value, list | tuple):
            return each(either("all", whole(0)))(value, key)
        return whole(least)(value, key)

    return check


def _groups(value: Any, key: str) -> dict[str, Any]:
    """New classes, each a list of old ones or "rest"."""
    if not isinstance(value, Mapping) or len(value) < 2:
        raise ValueError(f"{key}: expected a table of two or more new classes, found {value!r}")
    member: Check = lambda one, where: one if isinstance(one, int) and not isinstance(one, bool) else text(one, where)  # noqa: E731
    return {
        str(name): "rest" if members == "rest" else each(member)(members, f"{key}.{name}")
        for name, members in value.items()
    }


def _transform(value: Any, key: str) -> dict[str, Any]:
    found = kind_of(TRANSFORMS, value, key)
    for name in TRANSFORMS[found["kind"]]:
        if name not in found:
            raise ValueError(f"{key}.{name}: the recipe does not say; {found['kind']} needs it")
    return found


DATA = {
    "set": text,
    "train": either("all", counts(1)),
    "validation": counts(0),
    "test": either("all", counts(1)),
    "seed": whole(0),
    "standardise": flag,
    "classes": _groups,
    "transforms": each(_transform, at_least=0),
}
_TARGET_INPUTS = {
    "from": one_of(*SOURCES),
    "rows": either("all", counts(1)),
    "prior": each(number(0, 1)),
    "count": whole(1),
}


def kind_of(kinds: Mapping[str, Mapping[str, Any]], value: Any, key: str) -> dict[str, Any]:
    """A table whose key `kind` decides which others it may have."""
    kind = str(value.get("kind")) if isinstance(value, Mapping) else str(value)
    if kind not in kinds:
        raise ValueError(f"{key}.kind: found {kind!r}; {closest(kind, kinds)}")
    return table({"kind": text, **kinds[kind]}, value, f"{key}.")


def target_inputs(value: Any, key: str) -> dict[str, Any]:
    """The inputs that predictions are wanted for: where they come from, and how many are drawn for each ask."""
    found = table(_TARGET_INPUTS, value, f"{key}.")
    source = found.get("from")
    if source is None:
        raise ValueError(f"{key}.from: the recipe does not say; name one of {', '.join(SOURCES)}")
    if (source == "prior") != ("prior" in found):
        words = "needs the share of each class" if source == "prior" else "is for from = 'prior' only"
        raise ValueError(f"{key}.prior: {words}; {'add' if source == 'prior' else 'drop'} it")
    if "rows" in found and source not in ("train", "test"):
        raise ValueError(f"{key}.rows: {source} sets no rows aside; take it out")
    return found


def seeds(value: Any, key: str) -> tuple[int, ...]:
    """How many seeds from 0 on, or a list of them."""
    if isinstance(value, int) and not isinstance(value, bool):
        return tuple(range(whole(1)(value, key)))
    if not isinstance(value, list | tuple):
        raise ValueError(
            f"{key}: expected how many, or a list, found {value!r}; for the seeds 0 to 3 write 4 or [0, 1, 2, 3]"
        )
    return tuple(each(whole(0))(value, key))


def name(value: Any, key: str) -> str:
    """A name that can also be the name of a folder."""
    found = text(value, key)
    if "/" in found or "\\" in found or found in (".", ".."):
        raise ValueError(f"{key}: {found!r} reads as a path; write it without slashes")
    return found
