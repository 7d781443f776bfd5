"""From a recipe to what it names: the examples, the model and the initial labels.

    published initial rows aside → validation → pool (and those rows again) → transforms

The split follows from the recipe alone, so that all methods and seeds see the same pool; the initial labels follow
from the seed, so that all methods of a seed start alike. Ids are row numbers of the training set; copy c of row r is
r + c · (rows of the set), as in the published logs of Repeated-MNIST.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from natsel.data import Examples, Pool
from natsel.experiments.recipe import Recipe
from natsel.seeds import derive

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Setting:
    """What all jobs of a recipe share; `first` are the ids that may be labelled at the start (no copies)."""

    examples: Examples
    ids: Array
    first: Array
    validation: Examples | None
    test: Examples
    kind: str
    scale: tuple[float, float]
    """Mean and standard deviation of the training pictures, in [0, 1]."""

    def pool(self) -> Pool:
        """A pool for one job: pools remember labels."""
        return Pool.of(self.examples, ids=self.ids)

    def on(self, device: str | None) -> "Setting":
        """The same with the pool's inputs on an accelerator, so that no round has to carry them there."""
        if device is None or device == "cpu":
            return self
        import torch

        return replace(self, examples=replace(self.examples, inputs=torch.as_tensor(self.examples.inputs).to(device)))


def build_data(recipe: Recipe) -> Setting:
    """Load and split the recipe's data, then transform the pool."""
    from natsel.data import load

    try:
        data = load(recipe.data.set)
    except ValueError as reason:
        raise ValueError(f"data.set: {str(reason).removeprefix('name: ')}") from None
    rows = len(data.train)
    order = np.random.default_rng(derive(recipe.data.seed, "split")).permutation(rows)
    aside = np.isin(order, _published(recipe)) if recipe.initial.how == "ids" else np.zeros(rows, dtype=bool)
    start, rest = order[aside], order[~aside]
    validation, taken = _validation(recipe, data, rest)
    rest = rest[taken:]
    count = len(rest) if recipe.data.train is None else recipe.data.train - len(start)
    if count < 0:
        raise ValueError(f"data.train: {recipe.data.train} rows cannot hold the {len(start)} of initial.ids; raise it")
    if count > len(rest):
        raise ValueError(
            f"data.train: asked for {recipe.data.train} rows of {recipe.data.set}, which has {len(start) + len(rest)}"
            f" beside {taken} for validation; ask for fewer"
        )
    chosen = np.sort(np.concatenate([start, rest[:count]]))
    examples = replace(data.train[chosen], masks={"row": chosen})
    for number, transform in enumerate(recipe.data.transforms):
        try:
            examples = _transformed(examples, transform, derive(recipe.data.seed, "transform", number))
        except ValueError as reason:
            raise ValueError(f"data.transforms[{number}]: {reason}") from None
    if not len(examples):
        raise ValueError("data.transforms: they leave nothing of the pool; keep more")
    row_N = np.asarray(examples.masks["row"])
    copy_N = np.asarray(examples.masks.get("copy", np.zeros_like(row_N)))
    return Setting(
        examples=replace(examples, masks={}),
        ids=row_N + copy_N * rows,
        first=np.flatnonzero(copy_N == 0),
        validation=validation,
        test=_part(data.test, recipe.data.test, derive(recipe.data.seed, "test"), "data.test"),
        kind=data.kind,
        scale=_scale(data.train.inputs) if data.kind == "image" else (0.0, 1.0),
    )


def initial_ids(recipe: Recipe, setting: Setting, seed: int) -> Array:
    """The ids labelled before the first round: the same for every method of a seed."""
    if recipe.initial.how == "ids":
        return _published(recipe)
    ids, purpose = setting.ids[setting.first], derive(seed, "initial")
    if recipe.initial.how == "count":
        chosen: Array = np.random.default_rng(purpose).permutation(ids)[: recipe.initial.value]
        return chosen
    from natsel.data.transforms import balanced_start

    labels = np.asarray(setting.examples.labels)[setting.first]
    return np.asarray(ids[balanced_start(labels, recipe.initial.value, purpose)])


def build_model(recipe: Recipe, setting: Setting, device: str | None = None) -> Any:
    """A model as the recipe describes it, not fitted yet; one that cannot read the data is refused."""
    arguments = dict(recipe.model)
    kind, texts = arguments.pop("kind"), setting.kind == "text"
    if texts and kind not in ("text", "frozen"):
        raise ValueError(f"model.kind: {kind} wants numbers, and {recipe.data.set} holds texts; use text or frozen")
    if kind == "text" and not texts:
        raise ValueError(f"model.kind: text wants texts, and {recipe.data.set} holds none; use dropout or forest")
    return _MODELS[kind](arguments, recipe, setting, device)


def build_training(recipe: Recipe) -> Any:
    """How the recipe trains: a preset, with whatever the recipe sets otherwise."""
    from natsel.models.training import BATCHBALD, QUICK, STOCHASTIC, Training

    settings = dict(recipe.training)
    presets = {"batchbald": BATCHBALD, "stochastic": STOCHASTIC, "quick": QUICK, None: Training()}
    preset = presets[settings.pop("preset", None)]
    return replace(preset, **settings)


def _dropout(arguments: dict[str, Any], recipe: Recipe, setting: Setting, device: str | None) -> Any:
    from natsel.models.dropout import Dropout

    draws = arguments.pop("draws", 100)
    return Dropout(_network(arguments, setting), draws=draws, training=build_training(recipe), device=device)


def _ensemble(arguments: dict[str, Any], recipe: Recipe, setting: Setting, device: str | None) -> Any:
    from natsel.models.ensemble import Ensemble

    members = arguments.pop("members", 5)
    return Ensemble(_network(arguments, setting), members=members, training=build_training(recipe), device=device)


def _forest(arguments: dict[str, Any], recipe: Recipe, setting: Setting, device: str | None) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    from natsel.models.sklearn import Sklearn

    forest = RandomForestClassifier(arguments.get("trees", 100), min_samples_leaf=arguments.get("leaf", 1))
    return Sklearn(forest, smoothing=0.01)  # a leaf of one label is no certainty


def _logistic(arguments: dict[str, Any], recipe: Recipe, setting: Setting, device: str | None) -> Any:
    from sklearn.linear_model import LogisticRegression

    from natsel.models.sklearn import Sklearn

    estimator = LogisticRegression(C=arguments.get("strength", 1.0), max_iter=200, tol=1e-3)
    return Sklearn(estimator, members=arguments.get("members", 20))


def _text(arguments: dict[str, Any], recipe: Recipe, setting: Setting, device: str | None) -> Any:
    from natsel.models.text import TextModel

    words = {"words": arguments.pop("words")} if "words" in arguments else {}
    return TextModel(texts=setting.examples.inputs, head=_head(arguments, recipe, device), **words)


def _frozen(arguments: dict[str, Any], recipe: Recipe, setting: Setting, device: str | None) -> Any:
    from natsel.models.pretrained import BACKBONES, Frozen

    usual = "minilm" if setting.kind == "text" else "efficientnet-lite0"
    backbone = arguments.pop("backbone", usual)
    wanted = "text" if backbone == "minilm" else "image"
    if setting.kind != wanted:
        raise ValueError(
            f"model.backbone: {backbone} reads {wanted}s, and {recipe.data.set} is of kind {setting.kind};"
            " choose another model"
        )
    make: Any = BACKBONES[backbone]
    return Frozen(make(device=device), _head(arguments, recipe, device))


def _head(arguments: dict[str, Any], recipe: Recipe, device: str | None) -> Any:
    from natsel.models.heads import dropout_head, ensemble_head

    ensemble = arguments.pop("head", "dropout") == "ensemble"
    stranger = "draws" if ensemble else "members"
    if stranger in arguments:
        raise ValueError(f"model.{stranger}: this head does not take it; take it out, or choose the other head")
    make: Callable[..., Any] = ensemble_head if ensemble else dropout_head
    return make(**arguments, training=build_training(recipe), device=device)


def _network(arguments: dict[str, Any], setting: Setting) -> Callable[[], Any]:
    """What makes a network for the shape and the classes of the data."""
    from natsel.models import networks

    name, classes, shape = (
        arguments.pop("network", "mlp"),
        setting.examples.n_classes,
        setting.examples.inputs.shape[1:],
    )
    mean, std = setting.scale
    if name == "mlp":
        features = int(np.prod(shape))
        return lambda: networks.mlp(features, classes, **arguments)
    if arguments:
        raise ValueError(f"model.{next(iter(arguments))}: {name} does not take it; take it out, or use the network mlp")
    sides = tuple(side for side in shape if side != 1)
    if len(sides) != 2 or (name == "mnist-cnn" and sides != (28, 28)):
        wanted = "grey pictures" + (" of 28×28" if name == "mnist-cnn" else "")
        raise ValueError(
            f"model.network: {name} wants {wanted}, found rows of shape {tuple(shape)}; use the network mlp"
        )
    if name == "mnist-cnn":
        return lambda: networks.mnist_cnn(classes, mean=mean, std=std)
    height, width = sides
    return lambda: networks.emnist_cnn(classes, mean=mean, std=std, shape=(height, width))


_MODELS: dict[str, Callable[[dict[str, Any], Recipe, Setting, str | None], Any]] = {
    "dropout": _dropout,
    "ensemble": _ensemble,
    "forest": _forest,
    "logistic": _logistic,
    "text": _text,
    "frozen": _frozen,
}


def _published(recipe: Recipe) -> Array:
    if recipe.initial.value is not None:
        return np.array(recipe.initial.value, dtype=np.int64)
    if recipe.data.set != "mnist":
        raise ValueError(f"initial.ids: no published rows are known for {recipe.data.set}; list some or use per_class")
    from natsel.data.transforms import MNIST_INITIAL

    return np.array(MNIST_INITIAL, dtype=np.int64)


def _validation(recipe: Recipe, data: Any, rest: Array) -> tuple[Examples | None, int]:
    """The validation examples, and how many of the rest they take; a set's own validation part takes none."""
    count = recipe.data.validation
    if count == 0:
        return None, 0
    if data.validation is not None:
        seed = derive(recipe.data.seed, "validation")
        return _part(data.validation, count, seed, "data.validation"), 0
    if count >= len(rest):
        raise ValueError(f"data.validation: asked for {count} of {len(rest)} rows of {recipe.data.set}; ask for fewer")
    return data.train[np.sort(rest[:count])], count


def _part(examples: Examples, count: int | None, seed: int, key: str) -> Examples:
    if count is None or count == len(examples):
        return examples
    if count > len(examples):
        raise ValueError(f"{key}: asked for {count} of {len(examples)} rows; ask for fewer")
    return examples[np.sort(np.random.default_rng(seed).permutation(len(examples))[:count])]


def _transformed(examples: Examples, transform: dict[str, Any], seed: int) -> Examples:
    from natsel.data import transforms

    arguments = dict(transform)
    change = getattr(transforms, arguments.pop("kind").replace("-", "_"))
    return change(examples, **arguments, seed=seed)  # type: ignore[no-any-return]


def _scale(pictures: Any) -> tuple[float, float]:
    """Mean and standard deviation in [0, 1], by the counts of the 256 values where pictures are bytes."""
    pixels = np.asarray(pictures)
    if pixels.dtype != np.uint8:
        return round(float(pixels.mean()), 4), round(float(pixels.std()), 4)
    counts = np.bincount(pixels.reshape(-1), minlength=256) / pixels.size
    values = np.arange(256) / 255
    mean = float(counts @ values)
    return round(mean, 4), round(float(np.sqrt(counts @ (values - mean) ** 2)), 4)
