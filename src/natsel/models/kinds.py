"""The kinds of model that a recipe may name: the options of each, and how a model is built from them.

    [model]
    kind = "last-layer"        →        KINDS["last-layer"].build({"structure": "diagonal"}, facts)
    structure = "diagonal"

    kind = "sklearn.ensemble.HistGradientBoostingClassifier"     an import path: an estimator with its parameters, or
    kind = "python:my_module.make_model"                         a function or class of one's own that makes a model

This is the only table of kinds, and `register_kind` adds to it: the schema of recipes reads `Kind.options`, and runs
call `Kind.build`. Options that a recipe leaves out get their default here. Nothing is imported before a model is built.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from math import prod
from typing import Any

from natsel import models


@dataclass(frozen=True)
class Option:
    """One key of `[model]`.

    `type`: int, float, bool, str, tuple for a list of whole numbers, or dict for a table of anything. `choices` are the
    allowed texts; `least` and `most` bound a number, or each number of a list. `only_with` is the pair (other option,
    value, or values) without which the key is refused. A default of None leaves the choice to the model.
    """

    type: type
    default: Any = None
    choices: tuple[str, ...] | None = None
    least: float | None = None
    most: float | None = None
    only_with: tuple[str, str | tuple[str, ...]] | None = None


@dataclass(frozen=True)
class DataFacts:
    """What building a model needs to know about the data, and how and where the model is trained.

    `name` is that of the data set, for messages. `kind` is "image", "table" or "text". `texts` are those of the pool,
    which decide a vocabulary. `classes` is 0 where labels are real numbers. `scale` is the mean and the standard
    deviation of pictures. `training` is a `natsel.models.Training`, or None for the default.
    """

    name: str
    kind: str
    inputs_shape: tuple[int, ...]
    classes: int
    scale: tuple[float, float] = (0.0, 1.0)
    texts: Any = None
    training: Any = None
    device: str | None = None


@dataclass(frozen=True)
class Kind:
    """One kind of model: its options, and the function that makes a model, not fitted yet, from a value for each."""

    options: Mapping[str, Option]
    make: Callable[[Mapping[str, Any], DataFacts], Any]
    reads: tuple[str, ...] = ("image", "table")

    def build(self, options: Mapping[str, Any], facts: DataFacts) -> Any:
        """A model, not fitted yet, from the options that a recipe gives; one that cannot read the data is refused.

        >>> facts = DataFacts("iris", "table", (4,), 3, device="cpu")
        >>> KINDS["dropout"].build({"draws": 20}, facts).draws
        20
        """
        if facts.kind not in self.reads:
            name = next((name for name, kind in KINDS.items() if kind is self), "it")
            wants, holds = ("numbers", "texts") if facts.kind == "text" else ("texts", "none")
            others = "text or frozen" if facts.kind == "text" else "dropout or forest"
            raise ValueError(f"model.kind: {name} wants {wants}, and {facts.name} holds {holds}; use {others}")
        values = {key: option.default for key, option in self.options.items()} | dict(options)
        for key in options:
            condition = self.options[key].only_with
            if condition is None:
                continue
            other, wanted = condition[0], (condition[1],) if isinstance(condition[1], str) else condition[1]
            if values[other] not in wanted:
                raise ValueError(
                    f"model.{key}: the {other} {values[other]} does not take it; take it out, or use the {other}"
                    f" {' or '.join(wanted)}"
                )
        return _transformed(self.make(values, facts), values.get("transforms"), facts)


def kind_called(name: str) -> Kind:
    """The kind of that name: one of the table, or what an import path leads to, imported when a model is built.

    >>> sorted(kind_called("sklearn.ensemble.ExtraTreesClassifier").options)
    ['members', 'noise', 'parameters', 'smoothing', 'transforms', 'virtual']
    """
    return KINDS[name] if name in KINDS else _imported_kind(name.removeprefix(_PREFIX))


def is_import_path(name: str) -> bool:
    """Whether a kind is named by an import path.

    >>> is_import_path("python:my_module.make_model"), is_import_path("forest")
    (True, False)
    """
    path = name.removeprefix(_PREFIX)
    return name not in KINDS and "." in path and all(part.isidentifier() for part in path.split("."))


def made_by(make: Callable[..., Any], parameters: Mapping[str, Any], facts: DataFacts) -> Any:
    """What a function or a class makes of parameters; one that takes `facts` is told what is known about the data.

    >>> made_by(lambda facts, width: (facts.classes, width), {"width": 8}, DataFacts("iris", "table", (4,), 3))
    (3, 8)
    """
    takes: Mapping[str, Any]
    try:
        takes = inspect.signature(make).parameters
    except (TypeError, ValueError):  # made in C, and says nothing about itself
        takes = {}
    told = {"facts": facts} if "facts" in takes and "facts" not in parameters else {}
    return make(**parameters, **told)


def register_kind(name: str, kind: Kind) -> None:
    """Give recipes another kind of model: `kind = "name"` in `[model]`.

    >>> register_kind("my-forest", KINDS["forest"])
    >>> KINDS.pop("my-forest") is KINDS["forest"]
    True
    """
    if not isinstance(kind, Kind):
        raise ValueError(f"kind: expected natsel.models.kinds.Kind, found {type(kind).__name__}; make one first")
    if name in KINDS:
        raise ValueError(f"name: {name!r} is a kind of model already; choose another name")
    KINDS[name] = kind


def _dropout(options: Mapping[str, Any], facts: DataFacts) -> Any:
    return models.Dropout(_network(options, facts), options["draws"], facts.training, facts.device)


def _ensemble(options: Mapping[str, Any], facts: DataFacts) -> Any:
    return _noisy(
        models.Ensemble(_network(options, facts), options["members"], facts.training, facts.device), options, facts
    )


def _last_layer(options: Mapping[str, Any], facts: DataFacts) -> Any:
    return models.LastLayer(
        _network(options, facts),
        options["prior_precision"] or "evidence",
        options["structure"],
        facts.training,
        facts.device,
        rank=options["rank"],
    )


def _ddu(options: Mapping[str, Any], facts: DataFacts) -> Any:
    if options["density"] == "neighbours":
        density: Any = models.NeighbourDensity()
    else:
        density = models.GaussianDensity(options["density"], options["shrinkage"])
    network = _network(options, facts)
    return models.DDU(network, None, density, options["level"], facts.training, facts.device)


def _gradients(options: Mapping[str, Any], facts: DataFacts) -> Any:
    return models.Gradients(
        _network(options, facts),
        options["labels"],
        models.Sketch(options["sketch"], options["entries"]),
        options["prior_precision"] or "evidence",
        options["structure"],
        facts.training,
        facts.device,
        rank=options["rank"],
    )


def _forest(options: Mapping[str, Any], facts: DataFacts) -> Any:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    make = RandomForestClassifier if facts.classes else RandomForestRegressor
    forest = make(options["trees"], min_samples_leaf=options["leaf"])
    return _noisy(models.Sklearn(forest, smoothing=options["smoothing"]), options, facts)


def _logistic(options: Mapping[str, Any], facts: DataFacts) -> Any:
    from sklearn.linear_model import LogisticRegression

    estimator = LogisticRegression(C=options["strength"], max_iter=200, tol=1e-3)
    return models.Sklearn(estimator, members=options["members"])


def _probit_gp(options: Mapping[str, Any], facts: DataFacts) -> Any:
    if facts.classes != 2:
        raise ValueError(f"model.kind: probit-gp tells two classes apart, and there are {facts.classes}")
    return models.ProbitGP(options["variance"], options["length"], options["draws"])


def _text(options: Mapping[str, Any], facts: DataFacts) -> Any:
    return models.TextModel(facts.texts, words=options["words"], head=_head(options, facts))


def _frozen(options: Mapping[str, Any], facts: DataFacts) -> Any:
    name = options["backbone"] or ("minilm" if facts.kind == "text" else "efficientnet-lite0")
    wanted, backbone = _BACKBONES[name]
    if facts.kind != wanted:
        raise ValueError(
            f"model.backbone: {name} reads {wanted}s, and {facts.name} is of kind {facts.kind}; choose another model"
        )
    return models.Frozen(getattr(models, backbone)(device=facts.device), _head(options, facts))


@cache
def _imported_kind(path: str) -> Kind:
    return Kind(_IMPORTED, partial(_imported, path), reads=("image", "table", "text"))


def _imported(path: str, options: Mapping[str, Any], facts: DataFacts) -> Any:
    """What an import path leads to, called with parameters; an estimator gets members, virtual ones and smoothing."""
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except ImportError as reason:
        words = f"model.kind: {module} could not be imported ({reason}); install it, or put it beside the recipe file"
        raise ValueError(words) from reason
    except AttributeError:
        raise ValueError(f"model.kind: {module} has no {name!r}; check the name") from None
    parameters = dict(options["parameters"] or {})
    if callable(found):
        try:
            found = made_by(found, parameters, facts)
        except TypeError as reason:
            raise ValueError(f"model.parameters: {path} does not take them ({reason}); check their names") from reason
    elif parameters:
        raise ValueError(f"model.parameters: {path} is a value and takes none; name a function or a class")
    bare = hasattr(found, "get_params") and not hasattr(found, "believe")
    given = {key: options[key] for key in ("members", "virtual", "smoothing") if options[key] is not None}
    if given and not bare:
        raise ValueError(f"model.{next(iter(given))}: it is for estimators, and {path} gives none; take it out")
    if not given:
        return _noisy(found, options, facts)  # a learner makes a committee of an estimator that is none
    if not {"members", "virtual"} & set(given):
        from natsel.models.conversion import MEMBERS
        from natsel.models.estimators.committee import is_committee

        given |= {} if is_committee(found) else {"members": MEMBERS}
    return _noisy(models.Sklearn(found, **given), options, facts)


def _noisy(model: Any, options: Mapping[str, Any], facts: DataFacts) -> Any:
    """The model, with the noise that its methods are to reckon with where the recipe says so."""
    if options["noise"] is None:
        return model
    if facts.classes:
        raise ValueError("model.noise: labels are classes, which have none; take it out")
    return models.AssumedNoise(model, options["noise"])


def _transformed(model: Any, names: str | None, facts: DataFacts) -> Any:
    """A model, with transforms of its kernel where a recipe names some."""
    if not names:
        return model
    from natsel.beliefs.kernel_transforms import transforms_called

    if facts.classes:
        raise ValueError(
            f"model.transforms: they are for real labels, and {facts.name} has {facts.classes} classes; take it out"
        )
    try:
        return models.WithTransforms(model, transforms_called(names))
    except ValueError as reason:
        raise ValueError(f"model.{reason}") from None


def _head(options: Mapping[str, Any], facts: DataFacts) -> Any:
    settings = {"training": facts.training, "device": facts.device}
    if options.get("head") == "ddu":
        return models.ddu_head(density=models.GaussianDensity("shared"), **settings)
    if options.get("head") == "ensemble":
        return models.ensemble_head(options["hidden"], options["dropout"], members=options["members"], **settings)
    return models.dropout_head(options["hidden"], options["dropout"], draws=options["draws"], **settings)


def _network(options: Mapping[str, Any], facts: DataFacts) -> Callable[[], Any]:
    """What makes a network for the shape and the classes of the data."""
    name, shape, (mean, std) = options["network"], facts.inputs_shape, facts.scale
    outputs, dropout = max(1, facts.classes), options["dropout"]
    if name == "mlp":
        return lambda: models.mlp(prod(shape), outputs, options["hidden"], 0.5 if dropout is None else dropout)
    if name == "ntk-mlp":
        return lambda: models.ntk_mlp(prod(shape), outputs, options["hidden"])
    settings = {"spectral": options["spectral"]} | ({} if dropout is None else {"dropout": dropout})
    if name == "resffn":
        return lambda: models.resffn(prod(shape), outputs, **settings)
    if name in _PICTURE_NETWORKS:
        channels, height, width = _picture_of(name, shape)
        settings |= {"sensitive": options["sensitive"]} if name in _RESIDUAL else {}
        make = getattr(models, name.replace("-", "_"))
        return lambda: make(outputs, channels, (height, width), mean, std, **settings)
    sides = tuple(side for side in shape if side != 1)
    if len(sides) != 2 or (name == "mnist-cnn" and sides != (28, 28)):
        wanted = "grey pictures" + (" of 28×28" if name == "mnist-cnn" else "")
        raise ValueError(
            f"model.network: {name} wants {wanted}, found rows of shape {tuple(shape)}; use the network mlp"
        )
    if name == "mnist-cnn":
        return lambda: models.mnist_cnn(facts.classes, mean, std)
    height, width = sides
    return lambda: models.emnist_cnn(facts.classes, mean, std, (height, width))


def _picture_of(name: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Channels, height and width of pictures of a shape; channels may stand last or first, or be left out."""
    if len(shape) == 2:
        return 1, *shape
    if len(shape) == 3 and min(shape[0], shape[2]) <= 4:
        height, width, channels = shape if shape[2] <= 4 else (*shape[1:], shape[0])
        return channels, height, width
    raise ValueError(f"model.network: {name} wants pictures, found rows of shape {tuple(shape)}; use the network mlp")


_BACKBONES = {"efficientnet-lite0": ("image", "efficientnet_lite0"), "minilm": ("text", "minilm")}
"""Frozen networks: what each reads, and the function of natsel.models that makes it."""

_RESIDUAL = ("resnet18", "resnet50", "wide-resnet")
_PICTURE_NETWORKS = (*_RESIDUAL, "vgg16", "lenet")
_NETWORK = {
    "network": Option(str, "mlp", choices=("mnist-cnn", "emnist-cnn", "mlp", "ntk-mlp", *_PICTURE_NETWORKS, "resffn")),
    "hidden": Option(tuple, (128,), least=1, only_with=("network", ("mlp", "ntk-mlp"))),
    # None: the half for an mlp, none for the others
    "dropout": Option(float, None, least=0, most=0.99, only_with=("network", ("mlp", *_RESIDUAL, "vgg16", "resffn"))),
    "spectral": Option(float, None, least=0.01, only_with=("network", (*_PICTURE_NETWORKS, "resffn"))),
    "sensitive": Option(bool, False, only_with=("network", _RESIDUAL)),
}
_HEAD = {"hidden": Option(tuple, (256,), least=1), "dropout": Option(float, 0.5, least=0, most=0.99)}
_WEIGHTS = {
    "prior_precision": Option(float, None, least=0),  # None: it maximises the evidence
    "rank": Option(int, None, least=1),
}
# Of the kernel of a regressor, by their names with commas between (natsel.beliefs.kernel_transforms).
_TRANSFORMS = {"transforms": Option(str)}
_STRUCTURES = ("full", "diagonal", "low-rank", "identity")
_COVARIANCES = ("per-class", "shared", "diagonal")
_PREFIX = "python:"
_NOISE = {"noise": Option(float, least=0)}
_IMPORTED = {
    **_NOISE,
    **_TRANSFORMS,
    "parameters": Option(dict),
    "members": Option(int, least=2),
    "virtual": Option(int, least=2),
    "smoothing": Option(float, least=0, most=0.99),
}

KINDS: dict[str, Kind] = {
    "dropout": Kind(_NETWORK | _TRANSFORMS | {"draws": Option(int, 100, least=1)}, _dropout),
    "ensemble": Kind(_NETWORK | _NOISE | _TRANSFORMS | {"members": Option(int, 5, least=1)}, _ensemble),
    "last-layer": Kind(
        {
            **_NETWORK,
            **_WEIGHTS,
            **_TRANSFORMS,
            "structure": Option(str, "full", choices=(*_STRUCTURES, "kronecker")),
        },
        _last_layer,
    ),
    "ddu": Kind(
        {
            **_NETWORK,
            "density": Option(str, "per-class", choices=(*_COVARIANCES, "neighbours")),
            "shrinkage": Option(float, 0.0, least=0, most=1, only_with=("density", ("per-class", "diagonal"))),
            "level": Option(float, 0.99, least=0.5, most=0.9999),
        },
        _ddu,
    ),
    "gradients": Kind(
        {
            **_NETWORK,
            **_WEIGHTS,
            **_TRANSFORMS,
            "structure": Option(str, "full", choices=_STRUCTURES),
            "labels": Option(str, "expected", choices=("expected", "hard", "sampled")),
            "sketch": Option(int, 512, least=1),
            "entries": Option(str, "rademacher", choices=("rademacher", "gaussian", "products")),  # of the sketch
        },
        _gradients,
    ),
    "forest": Kind(
        {
            **_NOISE,
            "trees": Option(int, 100, least=1),
            # The forest of the README: a leaf of one label is no certainty. Smoothing as in `models.Sklearn`: none.
            "leaf": Option(int, 3, least=1),
            "smoothing": Option(float, 0.0, least=0, most=0.99),
            **_TRANSFORMS,
        },
        _forest,
    ),
    "logistic": Kind({"members": Option(int, 20, least=1), "strength": Option(float, 1.0, least=0)}, _logistic),
    "probit-gp": Kind(
        {
            "draws": Option(int, 1000, least=1),
            "variance": Option(float, 10.0, least=0),
            "length": Option(float, 1.0, least=0),
        },
        _probit_gp,
    ),
    "text": Kind(
        _HEAD | {"draws": Option(int, 100, least=1), "words": Option(int, 5_000, least=1)}, _text, reads=("text",)
    ),
    "frozen": Kind(
        {
            **_HEAD,
            "backbone": Option(str, None, choices=tuple(_BACKBONES)),
            "head": Option(str, "dropout", choices=("dropout", "ensemble", "ddu")),
            "draws": Option(int, 100, least=1, only_with=("head", "dropout")),
            "members": Option(int, 5, least=1, only_with=("head", "ensemble")),
        },
        _frozen,
        reads=("image", "table", "text"),
    ),
}
