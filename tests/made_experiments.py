"""Experiments made up for tests and for looking at pages: curves of a known shape, with pictures or texts."""

import math

import numpy as np

from natsel.experiments.results.experiment import Batch, Curve, Experiment, Thumbnail

SPEEDS = {"random": 1.0, "bald": 1.3, "batchbald": 1.9, "power-bald β=4": 1.8, "entropy": 1.15, "badge": 1.6}


def made_curve(
    method: str,
    seed: int,
    *,
    speed: float,
    sizes: range,
    classes: int,
    pool: int,
    noise: float = 0.008,
    stopped: str = "budget reached",
) -> Curve:
    """A run whose error falls as exp(−speed·labels/scale), with noise; picks and their uncertainty fall with it."""
    rng = np.random.default_rng([seed, sum(map(ord, method))])
    labels = np.array(sizes)
    accuracy = 0.975 - 0.5 * np.exp(-speed * labels / 90) + rng.normal(0, noise, len(labels))
    k = sizes.step
    skew = np.ones(classes) if speed > 1.5 else rng.dirichlet(np.ones(classes) * 4) * classes
    batches = []
    for number in range(len(labels) - 1):
        left = math.exp(-number / len(labels) * 1.2)
        batches.append(
            Batch(
                ids=rng.integers(0, pool, k),
                labels=rng.choice(classes, k, p=skew / skew.sum()),
                scores=left * rng.gamma(4, 0.2, k),
                epistemic=left * rng.gamma(4, 0.08 * speed, k),
                aleatoric=rng.gamma(2, 0.15, k),
            )
        )
    return Curve(
        method,
        seed,
        labels,
        {"accuracy": np.clip(accuracy, 0, 1), "nll": 3 * (1 - accuracy) + 0.1},
        Batch(range(sizes.start), np.arange(sizes.start) % classes),
        batches,
        {
            "fit": rng.gamma(20, 0.1, len(labels)),
            "evaluate": rng.gamma(10, 0.03, len(labels)),
            "believe": rng.gamma(20, 0.06, len(labels)),
            "select": rng.gamma(10, 0.002 if method == "random" else 0.05, len(labels)),
        },
        stopped,
    )


def made_experiment(methods: int = 5, seeds: int = 5, *, texts: bool = False, classes: int = 10) -> Experiment:
    """Some methods × seeds, with digits of scikit-learn as pictures or made-up requests as texts."""
    pool = 1797
    speeds = dict(list(SPEEDS.items())[:methods])
    curves = [
        made_curve(method, seed, speed=speed, sizes=range(20, 201, 10), classes=classes, pool=pool)
        for method, speed in speeds.items()
        for seed in range(seeds)
    ]
    picked = {id for curve in curves if curve.seed == 0 for id in curve.acquired}
    names = [str(number) for number in range(classes)]
    if texts:
        names = [f"intent {number}" for number in range(classes)]
    return Experiment(
        "digits",
        curves,
        about="Handwritten digits of 8×8 pixels; a dropout network, trained afresh each round.",
        recipe={
            "name": "digits",
            "data": {"set": "digits", "validation": 200, "transforms": [{"kind": "repeated", "copies": 2}]},
            "model": {"kind": "dropout", "network": "mlp", "hidden": [128, 128], "draws": 100},
            "k": 10,
            "budget": 200,
            "full": False,
        },
        classes=names,
        targets=[0.8, 0.9, 0.95],
        pool=pool,
        candidates=500,
        thumbnails=_texts(picked) if texts else _digits(picked),
        versions={"natsel": "0.1.0", "python": "3.11.7", "torch": "2.13.0"},
        command="natsel run digits --folder runs/digits",
    )


def _digits(ids: set[int]) -> dict[int, Thumbnail]:
    from sklearn.datasets import load_digits

    images = load_digits().images
    return {id: (images[id] * 15.9).astype(np.uint8) for id in ids}


def _texts(ids: set[int]) -> dict[int, Thumbnail]:
    verbs = ("book a table", "move ten pounds", "tell me a joke", "how far is it", "set an alarm")
    ends = (
        "for tonight",
        "to my savings, and do it before the shops close on Saturday if that can be",
        "in Italian",
        "",
    )
    return {id: f"{verbs[id % 5]} {ends[id % 4]} <{id}>" for id in ids}
