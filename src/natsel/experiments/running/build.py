"""From a recipe to what it names: the examples, the model and the initial labels.

    published initial rows aside → validation → targets set aside → pool (and those rows again)
    → one scale → new classes → transforms of the pool

The split follows from the recipe alone, so that all methods and seeds see the same pool; the initial labels follow
from the seed, so that all methods of a seed start alike. Ids are row numbers of the training set or of the user's file,
or the ids of a pool that was given; copy c of row r is r + c · (rows of the set), as in the published logs of
Repeated-MNIST; junk from another set is numbered after them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from natsel.data import DataSet, Examples, Pool, load
from natsel.experiments.recipe.recipe import GIVEN, Counts, Recipe
from natsel.experiments.running.data_source import Array, Given, load_data
from natsel.experiments.running.table_scales import scaled
from natsel.models.kinds import DataFacts, kind_called
from natsel.seeds import derive

_LOOKED_AT = 256


@dataclass(frozen=True)
class Setting:
    """What all jobs of a recipe share; `first` are the ids that may be labelled at the start (no copies, no junk)."""

    examples: Examples
    ids: Array
    first: Array
    validation: Examples | None
    test: Examples
    kind: str
    scale: tuple[float, float]
    """Mean and standard deviation of the training pictures, in [0, 1]."""
    targets: Examples | None = None
    """Inputs set aside as targets, which are in no other part but perhaps the test."""
    original: Array | None = None
    """The classes of the pool before new ones were made of them."""

    @property
    def regression(self) -> bool:
        """Whether labels are real numbers."""
        return bool(np.asarray(self.examples.labels).dtype.kind == "f")

    def pool(self) -> Pool:
        """A pool for one job: pools remember labels."""
        return Pool.with_answers(self.examples, ids=self.ids)

    def on(self, device: str | None) -> "Setting":
        """The same with the pool's inputs on an accelerator, so that no round has to carry them there."""
        if device is None or device == "cpu":
            return self
        import torch

        return replace(self, examples=replace(self.examples, inputs=torch.as_tensor(self.examples.inputs).to(device)))


def build_data(recipe: Recipe, given: Given | None = None) -> Setting:
    """Load and split the recipe's data, give them their scale and classes, then transform the pool."""
    data = load_data(recipe, given)
    parts = _split(recipe, data)
    parts |= scaled(parts, recipe.data, data.kind, [data.train.labels, data.test.labels])
    scale = _scale(data.train.inputs) if data.kind == "image" else (0.0, 1.0)
    return _setting(recipe, data, parts, scale, lambda name: load(name).train)


def build_without_inputs(recipe: Recipe, data: DataSet, junk_of: Callable[[str], Examples]) -> Setting:
    """What `build_data` makes, as far as rows, ids and labels go: for data with anything in the place of inputs.

    `junk_of` gives the examples of a set that junk is taken from, with the same in the place of inputs.
    """
    return _setting(recipe, data, _split(recipe, data), (0.0, 1.0), junk_of)


def _split(recipe: Recipe, data: DataSet) -> dict[str, Any]:
    """The pool with the mask `row`, and the parts beside it; None for those that the recipe does without."""
    rows = len(data.train)
    id_of_row = ids_of(data.train)
    order = np.random.default_rng(derive(recipe.data.seed, "split")).permutation(rows)
    aside = np.isin(id_of_row[order], _published(recipe)) if recipe.initial.how == "ids" else np.zeros(rows, dtype=bool)
    start, rest = order[aside], order[~aside]
    validation, rest = _validation(recipe, data, rest)
    wanted: Any = recipe.data.test if recipe.data.set else None  # of other sources it was the test part from the start
    test = _random_part(data.test, wanted, derive(recipe.data.seed, "test"), "data.test")
    targets, rest = _targets(recipe, data.train, test, rest)
    chosen = np.sort(np.concatenate([start, _pool_rows(recipe, data.train, start, rest)]))
    pool = replace(data.train[chosen], masks={"row": chosen})
    return {"pool": pool, "validation": validation, "test": test, "targets": targets}


def _setting(
    recipe: Recipe,
    data: DataSet,
    parts: dict[str, Any],
    scale: tuple[float, float],
    junk_of: Callable[[str], Examples],
) -> Setting:
    """The parts with new classes and the transforms of the pool, and the ids of its rows."""
    if isinstance(recipe.data.classes, dict):
        parts = _regrouped(parts, recipe.data.classes)
    examples = _transformed_all(recipe, parts["pool"], junk_of)
    id_of_row = ids_of(data.train)
    row_N = np.asarray(examples.masks["row"])
    copy_N = np.asarray(examples.masks.get("copy", np.zeros_like(row_N)))
    junk_N = np.asarray(examples.masks.get("junk", np.zeros(len(row_N), dtype=bool)))
    ids = id_of_row[row_N]
    if ids.dtype.kind == "i":
        span = copies_apart(id_of_row)
        ids = ids + copy_N * span
        ids[junk_N] = span * (1 + copy_N.max(initial=0)) + np.arange(junk_N.sum())
    return Setting(
        examples=replace(examples, masks={}),
        ids=ids,
        first=np.flatnonzero((copy_N == 0) & ~junk_N),
        validation=parts["validation"],
        test=parts["test"],
        kind=data.kind,
        scale=scale,
        targets=parts["targets"],
        original=examples.masks.get("original"),
    )


def initial_ids(recipe: Recipe, setting: Setting, seed: int) -> Array:
    """The ids labelled before the first round: the same for every method of a seed.

    Of a new class that was made of several old ones, each is of another old class as far as these go.
    """
    if recipe.initial.how == "ids":
        return _published(recipe)
    ids, purpose = setting.ids[setting.first], derive(seed, "initial")
    if recipe.initial.how == "count":
        chosen: Array = np.random.default_rng(purpose).permutation(ids)[: recipe.initial.value]
        return chosen
    from natsel.data.transforms import balanced_start

    labels = np.asarray(setting.examples.labels)[setting.first]
    if setting.original is None:
        return np.asarray(ids[balanced_start(labels, recipe.initial.value, purpose)])
    order = np.random.default_rng(derive(purpose, "balanced")).permutation(len(labels))
    order = order[np.argsort(_turns(np.asarray(setting.original)[setting.first][order]), kind="stable")]
    known = np.unique(labels[labels >= 0])
    return np.asarray(ids[np.concatenate([order[labels[order] == one][: recipe.initial.value] for one in known])])


def ids_of(train: Examples) -> Array:
    """The id of each training row: its mask `ids`, else its number."""
    return np.asarray(train.masks.get("ids", np.arange(len(train))))


def copies_apart(id_of_row: Array) -> int:
    """What the ids of two copies of a row differ by."""
    return int(id_of_row.max(initial=-1)) + 1


def build_model(recipe: Recipe, setting: Setting, device: str | None = None, given: Given | None = None) -> Any:
    """A model as the recipe describes it, not fitted yet; one that cannot read the data is refused."""
    facts = DataFacts(
        name=recipe.data.name,
        kind=setting.kind,
        inputs_shape=np.shape(setting.examples.inputs[:1])[1:],
        classes=0 if setting.regression else setting.examples.n_classes,
        scale=setting.scale,
        texts=setting.examples.inputs if setting.kind == "text" else None,
        training=build_training(recipe),
        device=device,
    )
    if recipe.model["kind"] == GIVEN:
        if given is None:
            raise ValueError("model.kind: natsel.compare was given a model that only its process had; call it again")
        return given.model(facts)
    options = {name: value for name, value in recipe.model.items() if name != "kind"}
    return kind_called(recipe.model["kind"]).build(options, facts)


def build_training(recipe: Recipe) -> Any:
    """How the recipe trains: a preset, with whatever the recipe sets differently."""
    from natsel.models.networks.augmentation import CropFlip
    from natsel.models.networks.training import BATCHBALD, QUICK, STOCHASTIC, Training

    settings = dict(recipe.training)
    settings |= {"augmentation": CropFlip()} if "augmentation" in settings else {}
    presets = {"batchbald": BATCHBALD, "stochastic": STOCHASTIC, "quick": QUICK, None: Training()}
    return replace(presets[settings.pop("preset", None)], **settings)


def _rows(order: Array, examples: Examples, counts: Counts, key: str) -> tuple[Array, Array]:
    """The first rows in an order that make up the counts, and those that are left, in the order given.

    >>> _rows(np.array([2, 0, 1, 3]), Examples(np.zeros(4), [0, 1, 0, 1]), (1, None), "data.train")
    (array([2, 1, 3]), array([0]))
    """
    if counts is None:
        return order, order[:0]
    if isinstance(counts, int):
        if counts > len(order):
            raise ValueError(f"{key}: asked for {counts} of {len(order)} rows; ask for fewer")
        return order[:counts], order[counts:]
    if examples.labels is None or np.asarray(examples.labels).dtype.kind != "i":
        raise ValueError(f"{key}: a list counts rows of each class, and these have none; give one number")
    if len(counts) != examples.n_classes:
        raise ValueError(f"{key}: expected a count for each of {examples.n_classes} classes, found {len(counts)}")
    labels, wanted = np.asarray(examples.labels)[order], np.zeros(len(order), dtype=bool)
    for one, count in enumerate(counts):
        places = np.flatnonzero(labels == one)
        if count is not None and count > len(places):
            raise ValueError(f"{key}: asked for {count} of the {len(places)} rows of class {one}; ask for fewer")
        wanted[places[:count]] = True
    return order[wanted], order[~wanted]


def _random_part(examples: Examples, counts: Counts, seed: int, key: str) -> Examples:
    """A random part of some examples by counts, in their own order."""
    if counts is None or counts == len(examples):
        return examples
    order = np.random.default_rng(seed).permutation(len(examples))
    return examples[np.sort(_rows(order, examples, counts, key)[0])]


def _turns(classes: Array) -> Array:
    """For each entry how many of its class come before it."""
    turns = np.zeros(len(classes), dtype=np.int64)
    for one in np.unique(classes):
        members = np.flatnonzero(classes == one)
        turns[members] = np.arange(len(members))
    return turns


def _published(recipe: Recipe) -> Array:
    if recipe.initial.value is not None:
        return np.array(recipe.initial.value, dtype=np.int64)
    if recipe.data.set != "mnist":
        raise ValueError(f"initial.ids: no published rows are known for {recipe.data.name}; list some or use per_class")
    from natsel.data.transforms import MNIST_INITIAL

    return np.array(MNIST_INITIAL, dtype=np.int64)


def _validation(recipe: Recipe, data: Any, rest: Array) -> tuple[Examples | None, Array]:
    """The validation examples, and what they leave of the rest; a set's own validation part leaves all."""
    count = recipe.data.validation
    if count == 0:
        return None, rest
    if data.validation is not None:
        seed = derive(recipe.data.seed, "validation")
        return _random_part(data.validation, count, seed, "data.validation"), rest
    if isinstance(count, int) and count >= len(rest):
        raise ValueError(f"data.validation: asked for {count} of {len(rest)} rows of {recipe.data.name}; ask for fewer")
    chosen, rest = _rows(rest, data.train, count, "data.validation")
    return data.train[np.sort(chosen)], rest


def _targets(recipe: Recipe, train: Examples, test: Examples, rest: Array) -> tuple[Examples | None, Array]:
    """The inputs set aside as targets, and what they leave of the training rows."""
    wanted = recipe.target_inputs or {}
    source, rows = wanted.get("from"), wanted.get("rows")
    if source == "test":
        return _random_part(test, rows, derive(recipe.data.seed, "targets"), "target_inputs.rows"), rest
    if source != "train":
        return None, rest
    if rows is None:
        raise ValueError("target_inputs.rows: all rows as targets leave none for the pool; say how many")
    chosen, rest = _rows(rest, train, rows, "target_inputs.rows")
    return train[np.sort(chosen)], rest


def _pool_rows(recipe: Recipe, train: Examples, start: Array, rest: Array) -> Array:
    wanted = recipe.data.train
    if not isinstance(wanted, int):
        return _rows(rest, train, wanted, "data.train")[0]
    count = wanted - len(start)
    if count < 0:
        raise ValueError(f"data.train: {wanted} rows cannot hold the {len(start)} of initial.ids; raise it")
    if count > len(rest):
        beside = len(train) - len(start) - len(rest)
        raise ValueError(
            f"data.train: asked for {wanted} rows of {recipe.data.name}, which has {len(start) + len(rest)}"
            f" beside {beside} for validation and targets; ask for fewer"
        )
    return rest[:count]


def _regrouped(parts: dict[str, Any], groups: dict[str, Any]) -> dict[str, Any]:
    from natsel.data.groups import regrouped

    try:
        return {name: None if part is None else regrouped(part, groups) for name, part in parts.items()}
    except ValueError as reason:
        raise ValueError(f"data.classes: {str(reason).removeprefix('groups: ')}") from None


def _transformed_all(recipe: Recipe, examples: Examples, junk_of: Callable[[str], Examples]) -> Examples:
    for number, transform in enumerate(recipe.data.transforms):
        try:
            examples = _transformed(examples, transform, junk_of, derive(recipe.data.seed, "transform", number))
        except ValueError as reason:
            raise ValueError(f"data.transforms[{number}]: {reason}") from None
    if not len(examples):
        raise ValueError("data.transforms: they leave nothing of the pool; keep more")
    return examples


def _transformed(
    examples: Examples, transform: dict[str, Any], junk_of: Callable[[str], Examples], seed: int
) -> Examples:
    from natsel.data import transforms

    arguments = dict(transform)
    if arguments["kind"] == "junk":
        junk = transforms.subsampled(junk_of(arguments["set"]), arguments["count"], seed)
        return transforms.with_junk(examples, junk)
    change = getattr(transforms, arguments.pop("kind").replace("-", "_"))
    return change(examples, **arguments, seed=seed)  # type: ignore[no-any-return]


def _scale(pictures: Any) -> tuple[float, float]:
    """Mean and standard deviation in [0, 1], by the counts of the 256 values where pictures are bytes.

    Of pictures that are read from files when they are asked for, some at the beginning have to do.
    """
    pixels = np.asarray(pictures if isinstance(pictures, np.ndarray) else pictures[:_LOOKED_AT])
    if pixels.dtype != np.uint8:
        return round(float(pixels.mean()), 4), round(float(pixels.std()), 4)
    counts = np.bincount(pixels.reshape(-1), minlength=256) / pixels.size
    values = np.arange(256) / 255
    mean = float(counts @ values)
    return round(mean, 4), round(float(np.sqrt(counts @ (values - mean) ** 2)), 4)
