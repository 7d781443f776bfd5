"""A recipe: everything that decides an experiment, read from TOML and checked before any work.

    data → model and its training → initial labels → methods × seeds, k labels a round up to a budget

The table `[full]` of a file holds what the published protocol does differently; the rest is the default, which a
laptop can run. A recipe decides its runs: the same recipe, method and seed choose the same points.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from natsel.experiments.checks import closest, each, either, number, one_of, table, text, whole
from natsel.experiments.contenders import Contender, contender

_NETWORK = {"network": one_of("mnist-cnn", "emnist-cnn", "mlp"), "hidden": each(whole(1)), "dropout": number(0, 0.99)}

MODELS: dict[str, dict[str, Any]] = {
    "dropout": _NETWORK | {"draws": whole(1)},
    "ensemble": _NETWORK | {"members": whole(1)},
    "forest": {"trees": whole(1), "leaf": whole(1)},
    "logistic": {"members": whole(1), "strength": number(0)},
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
    "validation_draws": whole(0),
}
TRANSFORMS: dict[str, dict[str, Any]] = {
    "repeated": {"copies": whole(1), "noise": number(0)},
    "noisy-labels": {"share": number(0, 1)},
    "imbalanced": {"shares": each(number(0, 1))},
}
_DATA = {
    "set": text,
    "train": either("all", whole(1)),
    "validation": whole(0),
    "test": either("all", whole(1)),
    "seed": whole(0),
    "transforms": each(lambda value, key: _transform(value, key), at_least=0),
}
_INITIAL = {"per_class": whole(1), "count": whole(0), "ids": either("published", each(whole(0)))}


@dataclass(frozen=True)
class Data:
    """Which examples: a set's name, how many of each part (None: all there are), and what is done to the pool."""

    set: str
    train: int | None = None
    validation: int = 0
    test: int | None = None
    seed: int = 0
    transforms: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Initial:
    """The labels a run starts with: so many of each class, so many at random, or these rows (None: as published)."""

    how: str = "count"
    value: Any = 0


@dataclass(frozen=True)
class Recipe:
    """An experiment: see the module. `candidates` is how many random points of the pool a round scores (None: all).

    >>> recipe = load_recipe("digits")
    >>> recipe.k, recipe.data.set
    (10, 'digits')
    """

    name: str
    data: Data
    model: dict[str, Any]
    methods: tuple[Contender, ...]
    budget: int
    about: str = ""
    k: int = 10
    initial: Initial = Initial()
    seeds: tuple[int, ...] = (0, 1, 2)
    training: dict[str, Any] = field(default_factory=dict)
    candidates: int | None = None
    targets: tuple[float, ...] = ()
    device: str | None = None

    def __post_init__(self) -> None:
        for key, listed in (("methods", self.methods), ("seeds", self.seeds)):
            if not listed:
                raise ValueError(f"{key}: found none; name one or more")
        labels = [method.label for method in self.methods]
        twice = {label for label in labels if labels.count(label) > 1}
        if twice:
            raise ValueError(f"methods: {', '.join(sorted(twice))} is named twice; name each once")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds: found {list(self.seeds)}; name each once")
        start = self.initial.value if self.initial.how == "count" else 0
        if start >= self.budget:
            raise ValueError(f"budget: {self.budget} labels are no more than the {start} it starts with; raise it")

    def as_dict(self) -> dict[str, Any]:
        """The recipe as it would stand in a file: `recipe_from` reads it back."""
        data = {key: value for key, value in asdict(self.data).items() if value not in (None, ())}
        if self.data.transforms:
            data["transforms"] = [dict(one) for one in self.data.transforms]
        value = self.initial.value
        found: dict[str, Any] = {
            "name": self.name,
            "about": self.about,
            "k": self.k,
            "budget": self.budget,
            "seeds": list(self.seeds),
            "methods": [method.as_dict() for method in self.methods],
            "targets": list(self.targets),
            "candidates": "all" if self.candidates is None else self.candidates,
            "initial": {self.initial.how: "published" if value is None else value},
            "data": data,
            "model": _plain(self.model),
            "training": {key: "all" if value is None else value for key, value in self.training.items()},
            "device": self.device,
        }
        return {key: _plain(value) for key, value in found.items() if value not in (None, "", [], {})}


def recipe_from(found: Mapping[str, Any], *, full: bool = False) -> Recipe:
    """A recipe from the tables of a TOML file; `full` lays the table `[full]` over the others.

    >>> found = {"name": "a", "data": {"set": "iris"}, "model": {"kind": "forest"}, "methods": ["bald"], "budget": 20}
    >>> recipe_from(found).methods[0].label
    'bald'
    """
    if not isinstance(found, Mapping):
        raise ValueError(f"recipe: expected a table of keys and values, found {found!r}")
    base = {key: value for key, value in found.items() if key != "full"}
    published = _laid_over(base, found.get("full", {}))
    usual = _recipe(base)
    try:
        in_full = _recipe(published)  # a slip in [full] is found now, not when it is wanted
    except ValueError as reason:
        raise ValueError(f"full.{reason}") from None
    return in_full if full else usual


def load_recipe(name: str | Path, *, full: bool = False) -> Recipe:
    """A recipe that ships with natsel, by name, or one from a `.toml` file.

    >>> load_recipe("mnist", full=True).candidates is None
    True
    """
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():
        return recipe_from(_parsed(path), full=full)
    known = recipe_names()
    if str(name) not in known:
        raise ValueError(f"recipe: there is no recipe or file {str(name)!r}; {closest(str(name), known)}")
    shipped = resources.files("natsel.experiments") / "recipes" / f"{name}.toml"
    return recipe_from(tomllib.loads(shipped.read_text(encoding="utf-8")), full=full)


def recipe_names() -> list[str]:
    """The recipes that ship with natsel.

    >>> "digits" in recipe_names()
    True
    """
    folder = resources.files("natsel.experiments") / "recipes"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"recipe: there is no file {path}; natsel run --list shows the recipes that ship") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as reason:
        raise ValueError(f"recipe: {path} is no TOML ({reason}); mend that line") from None


def _recipe(found: Mapping[str, Any]) -> Recipe:
    values = table(_RECIPE, found)
    for key in ("name", "data", "model", "methods", "budget"):
        if key not in values:
            raise ValueError(f"{key}: the recipe does not say; add it")
    return Recipe(**values)


def _laid_over(base: Mapping[str, Any], other: Any) -> dict[str, Any]:
    if not isinstance(other, Mapping):
        raise ValueError(f"full: expected a table of what differs, found {other!r}")
    merged = dict(base)
    for key, value in other.items():
        both = isinstance(value, Mapping) and isinstance(base.get(key), Mapping)
        # An initial set or a model of another kind replaces the whole table: its keys are not the old one's.
        whole_table = key == "initial" or (
            key == "model" and both and value.get("kind", "") not in ("", base[key].get("kind"))
        )
        merged[key] = _laid_over(base[key], value) if both and not whole_table else value
    return merged


def _kind(kinds: Mapping[str, Mapping[str, Any]], value: Any, key: str) -> dict[str, Any]:
    kind = str(value.get("kind")) if isinstance(value, Mapping) else str(value)
    if kind not in kinds:
        raise ValueError(f"{key}.kind: found {kind!r}; {closest(kind, kinds)}")
    return table({"kind": text, **kinds[kind]}, value, f"{key}.")


def _transform(value: Any, key: str) -> dict[str, Any]:
    found = _kind(TRANSFORMS, value, key)
    for name in TRANSFORMS[found["kind"]]:
        if name not in found:
            raise ValueError(f"{key}.{name}: the recipe does not say; {found['kind']} needs it")
    return found


def _data(value: Any, key: str) -> Data:
    values = table(_DATA, value, f"{key}.")
    if "set" not in values:
        raise ValueError(f"{key}.set: the recipe does not say which data; name a set, for example 'digits'")
    return Data(**values)


def _initial(value: Any, key: str) -> Initial:
    values = table(_INITIAL, value, f"{key}.")
    if len(values) != 1:
        raise ValueError(f"{key}: expected one of {', '.join(_INITIAL)}, found {sorted(values) or 'none'}")
    return Initial(*values.popitem())


def _seeds(value: Any, key: str) -> tuple[int, ...]:
    if isinstance(value, int) and not isinstance(value, bool):
        return tuple(range(whole(1)(value, key)))
    if not isinstance(value, list | tuple):
        raise ValueError(
            f"{key}: expected how many, or a list, found {value!r}; for the seeds 0 to 3 write 4 or [0, 1, 2, 3]"
        )
    return tuple(each(whole(0))(value, key))


def _name(value: Any, key: str) -> str:
    """A name that can also be the name of a folder."""
    name = text(value, key)
    if "/" in name or "\\" in name or name in (".", ".."):
        raise ValueError(f"{key}: {name!r} reads as a path; write it without slashes")
    return name


_RECIPE = {
    "name": _name,
    "about": text,
    "data": _data,
    "model": lambda value, key: _kind(MODELS, value, key),
    "training": lambda value, key: table(TRAINING, value, f"{key}."),
    "initial": _initial,
    "k": whole(1),
    "budget": whole(1),
    "methods": each(contender),
    "seeds": _seeds,
    "candidates": either("all", whole(1)),
    "targets": each(number(0, 1)),
    "device": text,
}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, Sequence) and not isinstance(value, str) else value
