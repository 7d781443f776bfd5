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

from natsel.experiments.recipe import schema
from natsel.experiments.recipe.checks import closest, each, either, number, one_of, table, text, whole
from natsel.experiments.recipe.contenders import Contender, contender
from natsel.experiments.recipe.declared_claims import Claim, claim
from natsel.experiments.recipe.schema import MODELS as MODELS
from natsel.experiments.recipe.schema import TRAINING as TRAINING

Counts = int | tuple[int | None, ...] | None
"""How many rows: so many, so many of each class (None: all of it), or all there are."""


@dataclass(frozen=True)
class Data:
    """Which examples: a set's name, how many of each part (None: all there are), and what is done to them.

    Counts may be lists, one for each class of the set. `classes` are new classes made of old ones, made after
    counting; `standardise` gives every feature mean 0 and deviation 1 over the pool; `transforms` change the pool.
    """

    set: str
    train: Counts = None
    validation: Counts = 0
    test: Counts = None
    seed: int = 0
    standardise: bool = False
    classes: dict[str, Any] | None = None
    transforms: tuple[dict[str, Any], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """As it would stand in a file."""
        found = {key: value for key, value in asdict(self).items() if value not in (None, (), False)}
        for key in ("train", "validation", "test"):
            if isinstance(found.get(key), tuple):
                found[key] = written(found[key])
        return found


@dataclass(frozen=True)
class Initial:
    """The labels a run starts with: so many of each class, so many at random, or these rows (None: as published)."""

    how: str = "count"
    value: Any = 0


@dataclass(frozen=True)
class Recipe:
    """An experiment: see the module. `candidates` is how many random points of the pool a round scores (None: all).

    `targets` are levels of the metric that labels are counted to; `target_inputs` says for which inputs predictions are
    wanted, where a method asks; `junk` says what becomes of points nobody can label: set aside ("reject"), or shown to
    the model as belonging to no class ("expose"); `budget_counts` says whether the budget is one of "labels", which
    junk costs nothing of, or of "queries", which it uses up; `claims` are what the runs are expected to show.

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
    target_inputs: dict[str, Any] | None = None
    junk: str = "reject"
    budget_counts: str = "labels"
    claims: tuple[Claim, ...] = ()

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
            "data": self.data.as_dict(),
            "model": _plain(self.model),
            "training": {key: "all" if value is None else value for key, value in self.training.items()},
            "device": self.device,
            "target_inputs": {key: written(value) for key, value in (self.target_inputs or {}).items()},
            "junk": "" if self.junk == "reject" else self.junk,
            "budget_counts": "" if self.budget_counts == "labels" else self.budget_counts,
            "claims": [one.as_dict() for one in self.claims],
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
    if "variants" in base or "study" in base:
        raise ValueError(f"recipe: {base.get('name', 'it')} is a plan of several parts; natsel run takes it as a whole")
    usual = _recipe(base)
    try:
        in_full = _recipe(laid_over(base, found.get("full", {})))  # a slip in [full] is found now
    except ValueError as reason:
        raise ValueError(f"full.{reason}") from None
    return in_full if full else usual


def load_recipe(name: str | Path, *, full: bool = False) -> Recipe:
    """A recipe that ships with natsel, by name, or one from a `.toml` file.

    >>> load_recipe("mnist", full=True).candidates is None
    True
    """
    return recipe_from(read_toml(name), full=full)


def read_toml(name: str | Path) -> dict[str, Any]:
    """The tables of a recipe that ships with natsel, by name, or of a `.toml` file.

    >>> read_toml("digits")["name"]
    'digits'
    """
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():
        return _parsed(path)
    known = recipe_names()
    if str(name) not in known:
        raise ValueError(f"recipe: there is no recipe or file {str(name)!r}; {closest(str(name), known)}")
    shipped = resources.files("natsel.experiments") / "recipes" / f"{name}.toml"
    return tomllib.loads(shipped.read_text(encoding="utf-8"))


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


def laid_over(base: Mapping[str, Any], other: Any) -> dict[str, Any]:
    """Tables with what others say otherwise: a value replaces a value, a table adds to a table.

    >>> laid_over({"k": 1, "data": {"set": "iris"}}, {"data": {"train": 10}})
    {'k': 1, 'data': {'set': 'iris', 'train': 10}}
    """
    if not isinstance(other, Mapping):
        raise ValueError(f"full: expected a table of what differs, found {other!r}")
    merged = dict(base)
    for key, value in other.items():
        both = isinstance(value, Mapping) and isinstance(base.get(key), Mapping)
        # An initial set or a model of another kind replaces the whole table: its keys are not the old one's.
        whole_table = key in ("initial", "target_inputs", "classes") or (
            key == "model" and both and value.get("kind", "") not in ("", base[key].get("kind"))
        )
        merged[key] = laid_over(base[key], value) if both and not whole_table else value
    return merged


def _data(value: Any, key: str) -> Data:
    values = table(schema.DATA, value, f"{key}.")
    if "set" not in values:
        raise ValueError(f"{key}.set: the recipe does not say which data; name a set, for example 'digits'")
    return Data(**values)


def _initial(value: Any, key: str) -> Initial:
    values = table(schema.INITIAL, value, f"{key}.")
    if len(values) != 1:
        raise ValueError(f"{key}: expected one of {', '.join(schema.INITIAL)}, found {sorted(values) or 'none'}")
    return Initial(*values.popitem())


_RECIPE = {
    "name": schema.name,
    "about": text,
    "data": _data,
    "model": lambda value, key: schema.kind_of(MODELS, value, key),
    "training": lambda value, key: table(TRAINING, value, f"{key}."),
    "initial": _initial,
    "k": whole(1),
    "budget": whole(1),
    "methods": each(contender),
    "seeds": schema.seeds,
    "candidates": either("all", whole(1)),
    "targets": each(number(0, 1)),
    "device": text,
    "target_inputs": schema.target_inputs,
    "junk": one_of("reject", "expose"),
    "budget_counts": one_of("labels", "queries"),
    "claims": each(claim, at_least=0),
}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, Sequence) and not isinstance(value, str) else value


def written(counts: Any) -> Any:
    """Counts as a file has them.

    >>> written((10, None)), written(None)
    ([10, 'all'], 'all')
    """
    if isinstance(counts, tuple):
        return [written(one) for one in counts]
    return "all" if counts is None else counts
