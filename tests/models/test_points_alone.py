"""What a model says about a point does not depend on the points beside it: alone or among others, or it is refused."""

import inspect

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from torch import nn

from natsel import models
from natsel.data import Examples
from natsel.models import Training, mlp
from natsel.models.adapter import ModelAdapter

RNG = np.random.default_rng(0)
TABLE, NUMBERS = RNG.normal(size=(16, 3)).astype(np.float32), RNG.normal(size=16)
PICTURES = RNG.normal(size=(16, 1, 4, 4)).astype(np.float32)
CLASSES = np.arange(16) % 2
BRIEF = Training(max_epochs=2)


def network():
    return mlp(3, 2, (8,), 0.2)


MODELS = {
    "BayesianLinear": (models.BayesianLinear, NUMBERS),
    "DDU": (lambda: models.DDU(network, training=BRIEF, device="cpu"), CLASSES),
    "Deterministic": (lambda: models.Deterministic(network, BRIEF, device="cpu"), CLASSES),
    "Dropout": (lambda: models.Dropout(network, 4, BRIEF, device="cpu"), CLASSES),
    "Ensemble": (lambda: models.Ensemble(network, 3, BRIEF, device="cpu"), CLASSES),
    "Gradients": (lambda: models.Gradients(network, sketch=16, training=BRIEF, device="cpu"), CLASSES),
    "LastLayer": (lambda: models.LastLayer(network, training=BRIEF, device="cpu"), CLASSES),
    "Sklearn": (lambda: models.Sklearn(RandomForestRegressor(4)), NUMBERS),
    # As the models that they are made of:
    "AssumedNoise": (lambda: models.AssumedNoise(Ridge(), 0.1), NUMBERS),
    "Frozen": (lambda: models.Frozen(models.Backbone("as they are", 3, np.asarray), LogisticRegression()), CLASSES),
    "WithTransforms": (
        lambda: models.WithTransforms(models.BayesianLinear(), models.with_transforms.Transforms()),
        NUMBERS,
    ),
}
IN_ONE_CALL = {"GaussianProcess", "GPyTorch", "ProbitGP"}  # their draws belong to the points of a call
OF_OTHER_INPUTS = {"TextModel", "PixelDDU"}


def test_every_model_that_declares_consistent_draws_is_here():
    found = {
        name
        for name in dir(models)
        if inspect.isclass(one := getattr(models, name)) and hasattr(one, "consistent_draws") and hasattr(one, "fit")
    }
    assert found - IN_ONE_CALL - OF_OTHER_INPUTS <= set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_a_belief_about_a_point_alone_is_the_one_among_others(name):
    make, labels = MODELS[name]
    model = ModelAdapter(make()).fit(Examples(TABLE, labels), seed=0)
    among = model.believe(TABLE)
    for place in (0, 5):
        alone = model.believe(TABLE[place : place + 1])
        for field in among.points:
            torch.testing.assert_close(getattr(alone, field)[0], getattr(among, field)[place], rtol=1e-4, atol=1e-5)


class OfTheBatch(nn.Sequential):
    """Batch statistics, also after training."""

    def __init__(self):
        norm = nn.BatchNorm2d(2, track_running_stats=False)
        super().__init__(nn.Conv2d(1, 2, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(8, 2))


def flat():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.ReLU(), nn.Linear(4, 2))


@pytest.mark.parametrize(("make", "inputs"), [(OfTheBatch, PICTURES), (flat, TABLE)])
@pytest.mark.parametrize("name", ["Ensemble", "Deterministic", "LastLayer", "Gradients", "DDU"])
def test_batch_statistics_are_refused(name, make, inputs):
    examples, sketched = Examples(inputs, CLASSES), models.Sketch(8, "products")
    around = {
        "Ensemble": lambda: models.Ensemble.around([make()], device="cpu").believe(inputs[:1]),
        "Deterministic": lambda: models.Deterministic(make, BRIEF, device="cpu").fit(examples).believe(inputs),
        "LastLayer": lambda: models.LastLayer.around(make(), examples, device="cpu"),
        "Gradients": lambda: models.Gradients.around(make(), examples, sketch=sketched, device="cpu"),
        "DDU": lambda: models.DDU.around(make(), examples, device="cpu"),
    }
    with pytest.raises(ValueError, match=r"^network: what it says about a point depends on the other points"):
        around[name]()
