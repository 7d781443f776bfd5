"""A recipe: everything that decides an experiment, as tables of a file that are checked before any work.

    data → model and its training → initial labels → methods × seeds, k labels per round up to a budget

A recipe decides its runs: the same recipe, method and seed choose the same points. docs/recipes.md lists all keys, and
a test holds it to the tables of this file.
"""

# ruff: noqa: RUF009  `key` makes a field of a dataclass, not a value that instances share

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from natsel.experiments.recipe.checks import (
    Check,
    Table,
    any_table,
    each,
    either,
    flag,
    folder_name,
    key,
    kind_table,
    number,
    one_of,
    table,
    text,
    whole,
    written,
)
from natsel.experiments.recipe.contenders import Contender
from natsel.experiments.results.claims import Claim
from natsel.models.kinds import KINDS, Option, is_import_path, kind_called
from natsel.plugins import load, load_installed

Counts = int | tuple[int | None, ...] | None
"""How many rows: so many, so many of each class (None: all of it), or all there are."""

TRAINING: dict[str, Check] = {
    "preset": one_of("batchbald", "stochastic", "quick"),
    "learning_rate": number(0),
    "weight_decay": number(0),
    "batch": whole(1),
    "epoch_samples": either("all", whole(1)),
    "max_epochs": whole(1),
    "patience": whole(1),
    "enough": number(0),
    "keep": one_of("best", "last", "least-loss"),
    "optimiser": one_of("adam", "adamw", "sgd"),
    "momentum": number(0, 1),
    "nesterov": flag,
    "schedule": one_of("constant", "linear", "steps", "cosine", "one-cycle"),
    "drops": each(number(0, 1)),
    "warm_up": number(0, 1),
    "augmentation": one_of("crop-flip"),
    "precision": one_of("float32", "bfloat16"),
    "validation_draws": whole(0),
}
"""The keys of `[training]`: a preset, and fields of `natsel.models.Training` that differ from it."""

TRANSFORMS: dict[str, dict[str, Check]] = {
    "repeated": {"copies": whole(1), "noise": number(0)},
    "noisy-labels": {"share": number(0, 1)},
    "confused-labels": {"pairs": each(each(whole(0), at_least=2)), "share": number(0, 1)},
    "relevance": {"classes": each(whole(0)), "share": number(0, 1)},
    "imbalanced": {"shares": each(number(0, 1))},
    "junk": {"set": text, "count": whole(1)},
}
INITIAL: dict[str, Check] = {
    "per_class": whole(1),
    "count": whole(0),
    "ids": either("published", each(whole(0))),
}
_SOURCES = ("train", "test", "pool", "prior", "stream", "given")
GIVEN = "given"
"""The kind of a model, and the source of targets, that natsel.compare was handed as values of its process."""


def _counts(least: int) -> Check:
    """A number of rows, or a list with one number for each class of the set, of which some may be "all"."""

    def check(value: Any, key: str) -> Any:
        if isinstance(value, list | tuple):
            return each(either("all", whole(0)))(value, key)
        return whole(least)(value, key)

    return check


def _test(value: Any, key: str) -> Any:
    """Counts, "all", a share of the rows of a file (a number below 1), or another file."""
    if isinstance(value, str):
        return None if value == "all" else text(value, key)
    if isinstance(value, float):
        if not 0 < value < 1:
            raise ValueError(f"{key}: expected a share between 0 and 1, a whole number or a file, found {value!r}")
        return value
    return _counts(1)(value, key)


def _names(value: Any, key: str) -> tuple[str, ...]:
    """One name, or a list of them."""
    return (text(value, key),) if isinstance(value, str) else tuple(each(text)(value, key))


def _size(value: Any, key: str) -> tuple[int, ...]:
    """Height and width of pictures."""
    found = tuple(each(whole(1))(value, key))
    if len(found) != 2:
        raise ValueError(f"{key}: expected [height, width], found {value!r}")
    return found


def _classes(value: Any, key: str) -> Any:
    """New classes, each a list of old ones or "rest"; or the names of the classes of a file."""
    if isinstance(value, list | tuple):
        return tuple(each(text, at_least=2)(value, key))
    if not isinstance(value, Mapping) or len(value) < 2:
        raise ValueError(f"{key}: expected a table of two or more new classes, found {value!r}")
    old: Check = lambda one, where: one if isinstance(one, int) and not isinstance(one, bool) else text(one, where)  # noqa: E731
    return {
        str(name): "rest" if members == "rest" else each(old)(members, f"{key}.{name}")
        for name, members in value.items()
    }


def _seeds(value: Any, key: str) -> tuple[int, ...]:
    """How many seeds from 0 on, or a list of them."""
    if isinstance(value, int) and not isinstance(value, bool):
        return tuple(range(whole(1)(value, key)))
    if not isinstance(value, list | tuple):
        raise ValueError(
            f"{key}: expected how many, or a list, found {value!r}; for the seeds 0 to 3 write 4 or [0, 1, 2, 3]"
        )
    return tuple(each(whole(0))(value, key))


def _option(option: Option) -> Check:
    """The check of an option of a model."""
    if option.choices is not None:
        return one_of(*option.choices)
    if option.type is float:
        return number(option.least or 0.0, float("inf") if option.most is None else option.most)
    if option.type in (dict, bool):
        return any_table if option.type is dict else flag
    least = whole(int(option.least or 0))
    return each(least) if option.type is tuple else least if option.type is int else text


def _model(value: Any, key: str) -> dict[str, Any]:
    wanted = value.get("kind") if isinstance(value, Mapping) else None
    kinds = KINDS | ({wanted: kind_called(wanted)} if isinstance(wanted, str) and is_import_path(wanted) else {})
    checks = {name: {option: _option(one) for option, one in kind.options.items()} for name, kind in kinds.items()}
    checks |= {GIVEN: {"text": text}} if wanted == GIVEN else {}
    return kind_table(checks, value, key, whole_table=False)


TARGET_INPUTS: dict[str, Check] = {
    "from": one_of(*_SOURCES),
    "rows": either("all", _counts(1)),
    "prior": each(number(0, 1)),
    "count": whole(1),
}


def _target_inputs(value: Any, key: str) -> dict[str, Any]:
    """The inputs that predictions are wanted for: where they come from, and how many are drawn for each ask."""
    found = table(TARGET_INPUTS, value, key, needed=["from"])
    source = found["from"]
    if (source == "prior") != ("prior" in found):
        words = "needs the share of each class" if source == "prior" else "is for from = 'prior' only"
        raise ValueError(f"{key}.prior: {words}; {'add' if source == 'prior' else 'drop'} it")
    if "rows" in found and source not in ("train", "test"):
        raise ValueError(f"{key}.rows: {source} sets no rows aside; take it out")
    return found


@dataclass(frozen=True)
class Data(Table):
    """Which examples: those of a set, of a file or given, how many of each part (None: all there are), and what is
    done to them.

    A `file` is whatever `natsel.data.read_examples` reads, with its `labels`, `inputs`, `ids` and `regression` (and
    `size` for a folder of pictures); its test part is a share of it, so many rows, or another file. `given` is the
    fingerprint of what natsel.compare was handed. Counts may be lists, one number for each class of the set. `classes`
    are new classes made of old ones, made after counting, or the names of the classes of a file. `one_hot` are columns,
    by number, that hold categories; `standardise` gives every feature mean 0 and deviation 1 over the pool, `squash`
    then bends it within ±squash, and `standardise_labels` does the same to labels that are numbers, over the whole set.
    `transforms` change the pool.
    """

    set: str = key(text, default="")
    file: str = key(text, default="")
    given: str = key(text, default="")
    labels: str = key(text, default="")
    inputs: tuple[str, ...] = key(_names, default=())
    ids: str = key(text, default="")
    regression: bool = key(flag, default=False)
    size: tuple[int, ...] = key(_size, default=())
    train: Counts = key(either("all", _counts(1)), default=None)
    validation: Counts = key(_counts(0), default=0)
    test: Counts | float | str = key(_test, default=None)
    seed: int = key(whole(0), default=0)
    one_hot: tuple[int, ...] = key(each(whole(0)), default=())
    standardise: bool = key(flag, default=False)
    squash: float = key(number(0), default=0.0)
    standardise_labels: bool = key(flag, default=False)
    classes: dict[str, Any] | tuple[str, ...] | None = key(_classes, default=None)
    transforms: tuple[dict[str, Any], ...] = key(
        each(lambda value, key: kind_table(TRANSFORMS, value, key, whole_table=True), at_least=0), default=()
    )

    @classmethod
    def from_table(cls, found: Any, where: str = "data") -> Self:
        """From a table that names one source."""
        made = super().from_table(found, where)
        sources = [name for name in ("set", "file", GIVEN) if getattr(made, name)]
        if not sources:
            raise ValueError(f'{where}.set: the recipe does not say; add it, or file = "…" for a file of your own')
        if len(sources) > 1:
            raise ValueError(f"{where}.{sources[1]}: found beside {sources[0]}; name one of them")
        of_files = {name: bool(getattr(made, name)) for name in ("labels", "inputs", "ids", "regression", "size")}
        of_files |= {"test": isinstance(made.test, float | str), "classes": isinstance(made.classes, tuple)}
        for name in (name for name, used in of_files.items() if used and not made.file):
            raise ValueError(f"{where}.{name}: found {found[name]!r}, which is for a file; take it out, or name a file")
        if made.squash and not made.standardise:
            raise ValueError(f"{where}.squash: found {made.squash:g} without standardise; add standardise = true")
        return made

    @property
    def name(self) -> str:
        """What messages call the data."""
        return self.set or Path(self.file).name or "the pool"


@dataclass(frozen=True)
class Initial(Table):
    """The labels a run starts with: so many of each class, so many at random, or these rows (None: as published)."""

    how: str = "count"
    value: Any = 0

    @classmethod
    def from_table(cls, found: Any, where: str = "initial") -> Self:
        """From a table with one key, which is `how`."""
        values = table(INITIAL, found, where)
        if len(values) != 1:
            raise ValueError(f"{where}: expected one of {', '.join(INITIAL)}, found {sorted(values) or 'none'}")
        return cls(*values.popitem())

    def as_table(self) -> dict[str, Any]:
        """As it stands in a file."""
        return {self.how: "published" if self.value is None else written(self.value)}


@dataclass(frozen=True, kw_only=True)
class Recipe(Table):
    """An experiment: see the module. `candidates` is how many random points of the pool a round scores (None: all).

    `metric` is what curves show, `targets` are its levels that labels are counted to; `target_inputs` says for which
    inputs predictions are wanted, where a method asks; `junk` says what becomes of points nobody can label: set aside
    ("reject"), or shown to the model as belonging to no class ("expose"); `budget_counts` says whether the budget is
    one of "labels", which junk costs nothing of, or of "queries", which it uses up; `claims` are what the runs are
    expected to show; `plugins` are modules that bring methods and kinds of model of their own; `home` is the folder
    where relative paths start and where modules may lie, that of the recipe's file.

    >>> found = {"name": "a", "data": {"set": "iris"}, "model": {"kind": "forest"}, "methods": ["margin"], "budget": 20}
    >>> Recipe.from_table(found).methods[0].label
    'margin'
    """

    home: str = key(text, default="")
    plugins: tuple[str, ...] = key(each(text), default=())
    name: str = key(folder_name)
    about: str = key(text, default="")
    k: int = key(whole(1), default=10, always=True)
    budget: int = key(whole(1))
    seeds: tuple[int, ...] = key(_seeds, default=(0, 1, 2), always=True)
    methods: tuple[Contender, ...] = key(each(Contender.from_table))
    metric: str = key(text, default="")
    targets: tuple[float, ...] = key(each(number(0)), default=())
    candidates: int | None = key(either("all", whole(1)), default=None, always=True)
    initial: Initial = key(Initial.from_table, default=Initial(), always=True)
    data: Data = key(Data.from_table)
    model: dict[str, Any] = key(_model)
    training: dict[str, Any] = key(lambda value, key: table(TRAINING, value, key), default_factory=dict)
    device: str | None = key(text, default=None)
    target_inputs: dict[str, Any] | None = key(_target_inputs, default=None)
    junk: str = key(one_of("reject", "expose"), default="reject")
    budget_counts: str = key(one_of("labels", "queries"), default="labels")
    claims: tuple[Claim, ...] = key(each(Claim.from_table, at_least=0), default=())

    def __post_init__(self) -> None:
        for name, listed in (("methods", self.methods), ("seeds", self.seeds)):
            if not listed:
                raise ValueError(f"{name}: found none; name one or more")
        labels = [method.label for method in self.methods]
        twice = {label for label in labels if labels.count(label) > 1}
        if twice:
            raise ValueError(f"methods: {', '.join(sorted(twice))} is named twice; name each once")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds: found {list(self.seeds)}; name each once")
        start = self.initial.value if self.initial.how == "count" else 0
        if start >= self.budget:
            raise ValueError(f"budget: {self.budget} labels are no more than the {start} it starts with; raise it")

    @classmethod
    def from_table(cls, found: Any, where: str = "", *, begun: bool = False) -> Self:
        """From a table, which runs no code: kinds of model of plug-ins stay as they are, also if runs have `begun`."""
        load_installed()
        model = any_table(found, where or "recipe").get("model")
        kind = model.get("kind") if isinstance(model, Mapping) else None
        known = not isinstance(kind, str) or kind in (*KINDS, GIVEN) or is_import_path(kind)
        if known or not (begun or found.get("plugins")):
            return super().from_table(found, where)
        return replace(super().from_table({**found, "model": {"kind": GIVEN}}, where), model=any_table(model, "model"))

    def plugged_in(self) -> Self:
        """The recipe with its plug-ins imported and its home within reach: only where the user has said to run it."""
        home = self.home or (str(Path.cwd()) if self.model["kind"].startswith("python:") else "")
        if home not in ("", *sys.path):
            sys.path.append(home)  # after all others: nothing there takes their place
        load(*self.plugins)
        return replace(self, model=_model(self.model, "model"))

    def path(self, name: str) -> Path:
        """Where a file that the recipe names lies: relative to its home.

        >>> Recipe.from_table({"home": "/a", "name": "a", "data": {"file": "b.csv"}, "model": {"kind": "forest"},
        ...                    "methods": ["margin"], "budget": 20}).path("b.csv").as_posix()
        '/a/b.csv'
        """
        return Path(self.home, os.path.expanduser(name))
