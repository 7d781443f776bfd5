"""Models of a user's own modules, and edits of these modules that make another model of each."""

import sys
from types import ModuleType

HELPERS = """
import torch

RATE = 0.25
SCALES = (1.0, 2.0)
UNUSED = 1

def halved(x):
    return x / 2

def activated(x):
    return torch.relu(x)

class Base(torch.nn.Module):
    def scaled(self, x):
        return x * 2

def dropped(width):
    return torch.nn.Dropout(RATE)
"""

MINE = """
from functools import lru_cache, partial
from dataclasses import dataclass
from enum import Enum

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from torch import nn
from torch.nn import functional as F

import helpers
from helpers import activated, dropped
from natsel import beliefs
from natsel.models import DDU, Backbone, Deterministic, Dropout, Ensemble, Frozen, LastLayer, Sklearn, Training, mlp

WIDTH = 6
STEPS = [1, 2]
NAMES = {"ant", "bee"}
LONG = np.arange(5000.0)


class Mode(Enum):
    SOFT = 0.5


class Net(nn.Module):
    def __init__(self, activation=torch.relu, rate=0.1, mean=0.0):
        super().__init__()
        self.first, self.last = nn.Linear(2, WIDTH), nn.Linear(WIDTH, 3)
        self.drop = nn.Dropout(rate)
        self.activation = activation
        self.register_buffer("mean", torch.tensor(mean), persistent=False)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.last(self.drop(self.activation(self.first(x - self.mean))))


class Functional(helpers.Base):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 3)

    def forward(self, x):
        return F.dropout(self.layer(self.scaled(x)), p=0.3)


class Hooked(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(2, 4), nn.Dropout(), nn.Linear(4, 3))
        self[0].register_forward_hook(lambda module, inputs, output: output + 1.5)


class Own:
    def __init__(self, draws=4, *, sharp=2.0):
        self.draws, self._sharp = draws, sharp
        self.weights_C = np.ones(3)
        self.fits = []

    def fit(self, labelled, validation=None, *, seed=0):
        self.fits.append(seed)
        self.centre = labelled.inputs.mean(0)
        return self

    def believe(self, inputs):
        far = np.abs(np.asarray(inputs) - self.centre).sum(1)
        logits = np.stack([far * self._sharp, far * 0.5, far], 1)[:, None].repeat(self.draws, 1)
        return beliefs.CategoricalSamples.from_logits(logits)


class Kin(Dropout):
    def believe(self, inputs, **options):
        return super().believe(inputs, **options)  # level 1


class OwnEstimator(LogisticRegression):
    def predict_proba(self, X):
        return super().predict_proba(X) ** 1


@dataclass(frozen=True)
class Jitter:
    spread: float = 0.1
    mode: Mode = Mode.SOFT

    def __call__(self, inputs_B, generator):
        return inputs_B + self.spread


@lru_cache
def cached(width):
    return width + 1


def own_loop(module, labelled, *, steps=3):
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01)
    for _ in range(steps):
        module(torch.as_tensor(labelled.inputs)).sum().backward()
        optimiser.step()


def hinge(module, inputs, outputs):
    return 0.1 * outputs.square().mean()


def late():
    from helpers import halved
    return mlp(2, 3, (int(halved(8)),))


def relative():
    import helpers as tools
    return mlp(2, 3, (int(max(tools.SCALES)) * 4,))


def captured(hidden, deep=()):
    return lambda: mlp(2, 3, (hidden, *deep))


def thin():
    return nn.Sequential(nn.Linear(2, 3), dropped(3))


def nested():
    "What stands inside."
    def inside():
        return 5
    return mlp(2, 3, (inside(),))


def guarded():
    try:
        return mlp(2, 3, (7,))
    except ValueError:
        return None


def named(kind):
    return mlp(2, 3, (8 if kind in {"ant", "cow", "dog"} else 4,))


class Maker:
    def __init__(self, hidden):
        self.hidden = hidden

    def __call__(self):
        return mlp(2, 3, (self.hidden,))

    def made(self):
        return mlp(2, 3, (self.hidden, self.hidden))


def first(X):
    return X * 1.0


def tied(same):
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 2, bias=False), nn.Linear(2, 3))
    if same:
        net[2].weight = net[0].weight
    return net


quick = partial(Training, max_epochs=1)
LAST = nn.Linear(4, 3)
MODELS = {
    "constant of a lambda": lambda: Dropout(lambda: mlp(2, 3, (8,)), 5, quick(), "cpu"),
    "global constant": lambda: Dropout(lambda: mlp(2, 3, (WIDTH,)), 5, quick(), "cpu"),
    "constant of another module": lambda: Dropout(thin, 5, quick(), "cpu"),
    "captured": lambda: Dropout(captured(9), 5, quick(), "cpu"),
    "captured more": lambda: Dropout(captured(9, deep=(4,)), 5, quick(), "cpu"),
    "partial": lambda: Dropout(partial(mlp, 2, 3, (8,)), 5, quick(), "cpu"),
    "bound method": lambda: Dropout(Maker(8).made, 5, quick(), "cpu"),
    "callable": lambda: Dropout(Maker(10), 5, quick(), "cpu"),
    "imported when called": lambda: Dropout(late, 5, quick(), "cpu"),
    "module when called": lambda: Dropout(relative, 5, quick(), "cpu"),
    "function inside": lambda: Dropout(nested, 5, quick(), "cpu"),
    "line of code": lambda: Dropout(guarded, 5, quick(), "cpu"),
    "set of texts": lambda: Dropout(lambda: named("ant"), 5, quick(), "cpu"),
    "cache": lambda: Dropout(lambda: mlp(2, 3, (cached(7),)), 5, quick(), "cpu"),
    "list": lambda: Dropout(lambda: mlp(2, 3, tuple(STEPS)), 5, quick(), "cpu"),
    "long array": lambda: Dropout(lambda: mlp(2, 3, (int(LONG.sum()) % 7 + 1,)), 5, quick(), "cpu"),
    "network": lambda: Dropout(Net(torch.relu, 0.2), 5, quick(), "cpu"),
    "network of lambdas": lambda: Dropout(Net(lambda x: activated(x) + 0.0), 5, quick(), "cpu"),
    "functional": lambda: Dropout(Functional(), 5, quick(), "cpu"),
    "hooks": lambda: Dropout(Hooked(), 5, quick(), "cpu"),
    "plain network": lambda: Dropout(mlp(2, 3, (8,), 0.4), 5, quick(), "cpu"),
    "leaky": lambda: Deterministic(nn.Sequential(nn.Linear(2, 4), nn.LeakyReLU(0.1), LAST), quick(), "cpu"),
    "frozen layer": lambda: Deterministic(nn.Sequential(nn.Linear(2, 4).requires_grad_(True), LAST), quick(), "cpu"),
    "tied": lambda: Deterministic(tied(True), quick(), "cpu"),
    "draws": lambda: Dropout(mlp(2, 3), 6, quick(), "cpu"),
    "rate of learning": lambda: Dropout(mlp(2, 3), 5, quick(learning_rate=0.5), "cpu"),
    "penalty": lambda: Dropout(mlp(2, 3), 5, quick(penalty=hinge), "cpu"),
    "augmentation": lambda: Dropout(mlp(2, 3), 5, quick(augmentation=Jitter(0.2)), "cpu"),
    "default of a dataclass": lambda: Dropout(mlp(2, 3), 5, quick(augmentation=Jitter()), "cpu"),
    "own loop": lambda: Dropout(mlp(2, 3), 5, train=own_loop, device="cpu"),
    "own loop with options": lambda: Dropout(mlp(2, 3), 5, train=partial(own_loop, steps=4), device="cpu"),
    "members": lambda: Ensemble(Net(), 2, quick(), "cpu"),
    "inner model": lambda: LastLayer(Dropout(Net(torch.tanh), 5, quick(), "cpu"), device="cpu"),
    "level": lambda: DDU(mlp(2, 3), level=0.98, training=quick(), device="cpu"),
    "head": lambda: Frozen(Backbone("mean", 2, lambda rows: rows * 1.0), LogisticRegression()),
    "own model": lambda: Own(5),
    "own private": lambda: Own(sharp=3.0),
    "own code": lambda: Own(),
    "own kin": lambda: Kin(mlp(2, 3), 5, quick(), "cpu"),
    "own estimator": lambda: Sklearn(OwnEstimator(), members=3),
    "forest": lambda: RandomForestClassifier(30, max_depth=4),
    "pipeline": lambda: make_pipeline(StandardScaler(with_std=False), LogisticRegression()),
    "transformer": lambda: make_pipeline(FunctionTransformer(first), LogisticRegression()),
    "kernel": lambda: GaussianProcessRegressor(RBF(2.0)),
    "process": lambda: GaussianProcessRegressor(RBF(), alpha=0.1),
}
"""

EDITS = [
    ("constant of a lambda", "lambda: mlp(2, 3, (8,))", "lambda: mlp(2, 3, (512,))"),
    ("global constant", "WIDTH = 6", "WIDTH = 7"),
    ("constant of another module", "RATE = 0.25", "RATE = 0.75"),
    ("captured", "captured(9), 5", "captured(90), 5"),
    ("captured more", "deep=(4,)", "deep=(5,)"),
    ("partial", "partial(mlp, 2, 3, (8,))", "partial(mlp, 2, 3, (9,))"),
    ("bound method", "Maker(8)", "Maker(9)"),
    ("bound method", "self.hidden, self.hidden", "self.hidden, 4"),
    ("callable", "Maker(10)", "Maker(11)"),
    ("callable", "return mlp(2, 3, (self.hidden,))", "return mlp(2, 3, (self.hidden,), 0.1)"),
    ("imported when called", "return x / 2", "return x / 4"),
    ("imported when called", "halved(8)", "halved(10)"),
    ("module when called", "SCALES = (1.0, 2.0)", "SCALES = (1.0, 3.0)"),
    ("function inside", "return 5", "return 6"),
    ("line of code", "except ValueError", "except KeyError"),
    ("set of texts", '"ant", "cow", "dog"', '"emu", "cow", "dog"'),
    ("cache", "return width + 1", "return width + 2"),
    ("list", "STEPS = [1, 2]", "STEPS = [1, 3]"),
    ("long array", "LONG = np.arange(5000.0)", "LONG = np.arange(5000.0)\nLONG[2500] += 1"),
    ("network", "Net(torch.relu, 0.2)", "Net(torch.tanh, 0.2)"),
    ("network", "Net(torch.relu, 0.2)", "Net(torch.relu, 0.9)"),
    ("network", "Net(torch.relu, 0.2)", "Net(torch.relu, 0.2, mean=0.5)"),
    ("network", "self.drop(self.activation(", "self.activation(self.drop("),
    ("network of lambdas", "return torch.relu(x)", "return torch.tanh(x)"),
    ("network of lambdas", "activated(x) + 0.0", "activated(x) + 1.0"),
    ("functional", "p=0.3", "p=0.6"),
    ("functional", "return x * 2\n", "return x * 3\n"),
    ("hooks", "output + 1.5", "output - 1.5"),
    ("plain network", "(8,), 0.4)", "(8,), 0.8)"),
    ("leaky", "LeakyReLU(0.1)", "LeakyReLU(0.9)"),
    ("leaky", "LeakyReLU(0.1)", "ELU(0.1)"),
    ("frozen layer", "requires_grad_(True)", "requires_grad_(False)"),
    ("tied", "tied(True)", "tied(False)"),
    ("draws", "mlp(2, 3), 6", "mlp(2, 3), 7"),
    ("rate of learning", "learning_rate=0.5", "learning_rate=0.25"),
    ("penalty", "0.1 * outputs", "0.2 * outputs"),
    ("augmentation", "Jitter(0.2)", "Jitter(0.3)"),
    ("augmentation", "inputs_B + self.spread", "inputs_B - self.spread"),
    ("augmentation", "SOFT = 0.5", "SOFT = 0.6"),
    ("default of a dataclass", "spread: float = 0.1", "spread: float = 0.2"),
    ("own loop", "lr=0.01", "lr=0.02"),
    ("own loop", "steps=3", "steps=5"),
    ("own loop with options", "steps=4", "steps=6"),
    ("members", "rate=0.1", "rate=0.2"),
    ("members", "self.drop = nn.Dropout(rate)", "self.drop = nn.AlphaDropout(rate)"),
    ("inner model", "Net(torch.tanh)", "Net(torch.sigmoid)"),
    ("level", "level=0.98", "level=0.97"),
    ("head", "rows * 1.0", "rows * 3.0"),
    ("own model", "Own(5)", "Own(6)"),
    ("own private", "sharp=3.0)", "sharp=4.0)"),
    ("own code", "far * 0.5", "far * 0.25"),
    ("own code", "self.weights_C = np.ones(3)", "self.weights_C = np.zeros(3)"),
    ("own kin", "return super().believe(inputs, **options)", "return super().believe(2 * inputs, **options)"),
    ("own estimator", "** 1", "** 2"),
    ("forest", "max_depth=4", "max_depth=5"),
    ("pipeline", "with_std=False", "with_mean=False"),
    ("transformer", "return X * 1.0", "return X * 0.0"),
    ("kernel", "RBF(2.0)", "RBF(3.0)"),
    ("process", "alpha=0.1", "alpha=0.2"),
]  # fmt: skip


def modules(old: str = "", new: str = "") -> ModuleType:
    """The user's module, imported afresh; with `old` in it, or in the one that it imports, replaced by `new`."""
    assert not old or (HELPERS + MINE).count(old) == 1, old
    for name, text in (("helpers", HELPERS), ("mine", MINE)):
        module = sys.modules[name] = ModuleType(name)
        exec(compile(text.replace(old, new) if old else text, f"{name}.py", "exec"), module.__dict__)
    return sys.modules["mine"]
