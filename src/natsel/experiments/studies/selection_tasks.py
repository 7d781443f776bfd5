"""What selective training learns: pool, held-out part, test set and networks, by the names that recipes use.

    mnist     rows of normalised pixels, a perceptron with two hidden layers of `width` units
    cifar10   pictures, cropped and flipped at random in training; ResNet-18 whose first stage has `width` channels
    cola, sst2   sentences (`selection_texts.py`), by a pretrained encoder of `width` layers. CoLA is tested by its
                 validation and test parts together, which are the validation set of GLUE that published runs test by

    clean        labels as they are
    noise-s      a share s of the labels of the pool replaced by another class, each other class alike; the held-out
                 part is as clean as the test set, as the further digits of published runs are
    noise-s-everywhere   the held-out part has such labels too
    structured   half of the labels of some classes replaced by a class that looks alike, in the held-out part too:
                 2, 3, 4 and 9 by 5, 5, 9 and 7
    relevance    all points of two classes and 6 % of the others, in the test set too
    human-aggregate, human-worst   labels that people gave to CIFAR-10 (Wei et al. 2022): of three votes the most
                 frequent, or one that is wrong where any is; in the held-out part too

With `held_out` 0 there is no held-out part: irreducible losses are cross-fitted within the pool.
docs/theory/training-selection.md, 4 and 7; Mindermann et al. 2022.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from natsel.seeds import derive

NOISE = tuple(f"noise-{share}{where}" for where in ("", "-everywhere") for share in (0.1, 0.2, 0.4))
HUMAN = ("human-aggregate", "human-worst")
CONDITIONS = ("clean", *NOISE, "structured", "relevance", *HUMAN)
TEXTS = ("cola", "sst2")
SETS = ("mnist", "cifar10", *TEXTS)
_CONFUSED = {2: 5, 3: 5, 4: 9, 9: 7}
_RELEVANT, _SHARE = 2, 0.06
_MEAN, _DEVIATION = 0.1307, 0.3081  # of the pixels of MNIST's training set


class SelectionTask(NamedTuple):
    """Examples and untrained networks of one condition and trial."""

    pool: Any
    held_out: Any | None
    test: Any
    network: Callable[[], Any]
    reference: Callable[[], Any]
    """The network whose losses are the irreducible ones."""
    augmentation: Any | None


def selection_task(settings: Mapping[str, Any], condition: str, trial: int) -> SelectionTask:
    """Wrong labels are drawn for pool and held-out part by itself; the test set has none."""
    from natsel.data import load, split
    from natsel.models import CropFlip

    name = settings["set"]
    data, seed = load(name), derive(settings["seed"], "data", trial)
    train = _with_human_labels(data.train, name, condition) if condition in HUMAN else data.train
    pool, held_out = split(train, (settings["pool"], settings["held_out"]), seed)
    judged = _joined(data.validation, data.test) if name == "cola" else data.test
    # One test set for all trials.
    (test,) = split(judged, (min(settings["test"], len(judged)),), derive(settings["seed"], "test"))
    parts = {"pool": pool, "test": test} | ({"held out": held_out} if settings["held_out"] else {})
    parts = {part: _ready(found, name) for part, found in _changed(parts, condition, seed).items()}
    return SelectionTask(
        parts["pool"],
        parts.get("held out"),
        parts["test"],
        _network(settings, parts["pool"], settings["width"]),
        _network(settings, parts["pool"], settings["irreducible_width"]),
        CropFlip() if name == "cifar10" else None,
    )


def _changed(parts: dict[str, Any], condition: str, seed: int) -> dict[str, Any]:
    """The parts of the data under a condition."""
    from natsel.data import confused_labels, noisy_labels, relevance

    if condition == "relevance":
        classes = parts["pool"].n_classes
        relevant = np.random.default_rng(seed).permutation(classes)[:_RELEVANT].tolist()
        return {name: relevance(part, relevant, _SHARE, derive(seed, name)) for name, part in parts.items()}
    for name in [name for name in ("pool", "held out") if name in parts]:
        if condition in NOISE and (name == "pool" or condition.endswith("-everywhere")):
            share = float(condition.removeprefix("noise-").removesuffix("-everywhere"))
            parts[name] = noisy_labels(parts[name], share, derive(seed, name))
        if condition == "structured":
            parts[name] = confused_labels(parts[name], _CONFUSED, seed=derive(seed, name))
    return parts


def _with_human_labels(examples: Any, name: str, condition: str) -> Any:
    """Labels of people; the true ones stay known as the mask `clean`."""
    from natsel.data import human_labels

    labels_N = human_labels(name, "worst" if condition == "human-worst" else "aggregate")
    masks = {"noisy": labels_N != examples.labels, "clean": examples.labels}
    return replace(examples, labels=labels_N, masks={**examples.masks, **masks})


def _joined(one: Any, other: Any) -> Any:
    inputs, labels = (np.concatenate(pair) for pair in zip(one, other, strict=True))
    return replace(one, inputs=inputs, labels=labels, masks={})


def _ready(examples: Any, name: str) -> Any:
    """Pictures of digits as rows of normalised numbers, sentences as numbers of word pieces; others as they are."""
    if name in TEXTS:
        from natsel.experiments.studies.selection_texts import tokens_of

        return replace(examples, inputs=tokens_of(examples.inputs))
    if name != "mnist":
        return examples
    pixels_N_D = np.asarray(examples.inputs).reshape(len(examples), -1).astype(np.float32) / np.float32(255)
    return replace(examples, inputs=(pixels_N_D - np.float32(_MEAN)) / np.float32(_DEVIATION))


def _network(settings: Mapping[str, Any], pool: Any, width: int) -> Callable[[], Any]:
    from natsel.models import mlp, resnet18

    if settings["set"] in TEXTS:
        from natsel.experiments.studies.selection_texts import sentence_network

        return sentence_network(pool.n_classes, width)
    if settings["set"] == "mnist":
        return lambda: mlp(pool.inputs.shape[1], pool.n_classes, (width, width), dropout=0.0)
    return lambda: resnet18(pool.n_classes, width=width)
