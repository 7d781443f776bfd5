"""From a recipe to the model it names, not fitted yet."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from natsel.experiments.recipe.recipe import Recipe

if TYPE_CHECKING:
    from natsel.experiments.running.build import Setting


def build_model(recipe: Recipe, setting: "Setting", device: str | None = None) -> Any:
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
    from natsel.models.networks.training import BATCHBALD, QUICK, STOCHASTIC, Training

    settings = dict(recipe.training)
    presets = {"batchbald": BATCHBALD, "stochastic": STOCHASTIC, "quick": QUICK, None: Training()}
    preset = presets[settings.pop("preset", None)]
    return replace(preset, **settings)


def _dropout(arguments: dict[str, Any], recipe: Recipe, setting: "Setting", device: str | None) -> Any:
    from natsel.models.dropout.dropout import Dropout

    draws = arguments.pop("draws", 100)
    return Dropout(_network(arguments, setting), draws=draws, training=build_training(recipe), device=device)


def _ensemble(arguments: dict[str, Any], recipe: Recipe, setting: "Setting", device: str | None) -> Any:
    from natsel.models.networks.ensemble import Ensemble

    members = arguments.pop("members", 5)
    return Ensemble(_network(arguments, setting), members=members, training=build_training(recipe), device=device)


def _forest(arguments: dict[str, Any], recipe: Recipe, setting: "Setting", device: str | None) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    from natsel.models.estimators.sklearn import Sklearn

    forest = RandomForestClassifier(arguments.get("trees", 100), min_samples_leaf=arguments.get("leaf", 1))
    smoothing = arguments.get("smoothing", 0.01)  # a leaf of one label is no certainty
    return Sklearn(forest, smoothing=smoothing)


def _logistic(arguments: dict[str, Any], recipe: Recipe, setting: "Setting", device: str | None) -> Any:
    from sklearn.linear_model import LogisticRegression

    from natsel.models.estimators.sklearn import Sklearn

    estimator = LogisticRegression(C=arguments.get("strength", 1.0), max_iter=200, tol=1e-3)
    return Sklearn(estimator, members=arguments.get("members", 20))


def _probit_gp(arguments: dict[str, Any], recipe: Recipe, setting: "Setting", device: str | None) -> Any:
    try:
        from natsel.models.processes.probit_gp import ProbitGP
    except ImportError:
        raise ValueError("model.kind: probit-gp is not in this build of natsel; choose another model") from None
    if setting.examples.n_classes != 2:
        raise ValueError(f"model.kind: probit-gp tells two classes apart, and there are {setting.examples.n_classes}")
    return ProbitGP(**arguments)


def _text(arguments: dict[str, Any], recipe: Recipe, setting: "Setting", device: str | None) -> Any:
    from natsel.models.features.text import TextModel

    words = {"words": arguments.pop("words")} if "words" in arguments else {}
    return TextModel(texts=setting.examples.inputs, head=_head(arguments, recipe, device), **words)


def _frozen(arguments: dict[str, Any], recipe: Recipe, setting: "Setting", device: str | None) -> Any:
    from natsel.models.features.pretrained import BACKBONES, Frozen

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
    from natsel.models.features.heads import dropout_head, ensemble_head

    ensemble = arguments.pop("head", "dropout") == "ensemble"
    stranger = "draws" if ensemble else "members"
    if stranger in arguments:
        raise ValueError(f"model.{stranger}: this head does not take it; take it out, or choose the other head")
    make: Callable[..., Any] = ensemble_head if ensemble else dropout_head
    return make(**arguments, training=build_training(recipe), device=device)


def _network(arguments: dict[str, Any], setting: "Setting") -> Callable[[], Any]:
    """What makes a network for the shape and the classes of the data."""
    from natsel.models.networks import architectures as networks

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


_MODELS: dict[str, Callable[[dict[str, Any], Recipe, "Setting", str | None], Any]] = {
    "dropout": _dropout,
    "ensemble": _ensemble,
    "forest": _forest,
    "logistic": _logistic,
    "probit-gp": _probit_gp,
    "text": _text,
    "frozen": _frozen,
}
