"""Kinds of model for recipes: every kind builds, options reach the model, and what makes no sense is refused."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
import torch

import natsel
from natsel import models
from natsel.data import Examples
from natsel.models import Training
from natsel.models.kinds import KINDS, DataFacts, Option

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(40, 4)).astype(np.float32)
TABLE = DataFacts("two", "table", (4,), 2, training=Training(max_epochs=3), device="cpu")
TEXTS = DataFacts("letters", "text", (), 2, texts=np.array(["a b", "c d"], dtype=object), device="cpu")
PICTURES = DataFacts("digits", "image", (28, 28), 10, (0.1, 0.3), device="cpu")
EXAMPLES = Examples(INPUTS, (INPUTS[:, 0] > 0).astype(int))


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if "table" in kind.reads and name != "frozen"])
def test_every_kind_builds_a_model_that_believes(kind):
    model = KINDS[kind].build({}, TABLE)
    assert len(model.fit(EXAMPLES).believe(INPUTS[:7])) == 7


@pytest.mark.parametrize(
    ("kind", "options", "method"),
    [
        ("last-layer", {}, "badge"),
        ("last-layer", {}, "bait"),
        ("last-layer", {}, "bald"),
        ("gradients", {}, "bait"),
        ("gradients", {"sketch": 32}, "bald"),
        ("gradients", {"labels": "hard"}, "badge"),  # it chooses by the gradient under one label
    ],
)
def test_weight_space_methods_choose_from_the_kinds_of_weight_space(kind, options, method):
    belief = KINDS[kind].build(options, TABLE).fit(EXAMPLES).believe(INPUTS)
    targets = {"targets": natsel.Targets(belief)} if method == "bait" else {}
    assert len(set(natsel.select(method, belief, k=5, **targets).ids.tolist())) == 5


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_are_of_their_own_type_and_allowed(kind):
    for name, option in KINDS[kind].options.items():
        value = option.default
        if value is None:
            continue
        assert isinstance(value, option.type), name
        assert option.choices is None or value in option.choices
        for number in value if option.type is tuple else [value] if option.type is not str else []:
            assert option.least is None or number >= option.least
            assert option.most is None or number <= option.most


@pytest.mark.parametrize(
    ("kind", "make", "same"),
    [
        ("dropout", models.Dropout, ("draws",)),
        ("ensemble", models.Ensemble, ("members",)),
        ("dropout", models.mlp, ("hidden",)),
        ("last-layer", models.LastLayer, ("structure", "rank")),
        ("gradients", models.Gradients, ("structure", "rank", "labels", "sketch")),
        ("probit-gp", models.ProbitGP, ("draws", "variance", "length")),
        ("text", models.TextModel, ("words",)),
        ("text", models.dropout_head, ("draws", "hidden", "dropout")),
        ("frozen", models.ensemble_head, ("members", "hidden", "dropout")),
    ],
)
def test_defaults_are_those_of_the_models(kind, make, same):
    parameters = inspect.signature(make).parameters
    assert {name: KINDS[kind].options[name].default for name in same} == {
        name: parameters[name].default for name in same
    }


def test_options_reach_the_model():
    forest = KINDS["forest"].build({"trees": 7, "leaf": 3, "smoothing": 0.2}, TABLE)
    assert (forest.estimator.n_estimators, forest.estimator.min_samples_leaf, forest.smoothing) == (7, 3, 0.2)
    logistic = KINDS["logistic"].build({"members": 4, "strength": 0.5}, TABLE)
    assert (logistic.members, logistic.estimator.C) == (4, 0.5)
    last = KINDS["last-layer"].build({"prior_precision": 2.0, "structure": "low-rank", "rank": 3}, TABLE)
    assert (last.prior_precision, last.structure, last.rank) == (2.0, "low-rank", 3)
    assert KINDS["last-layer"].build({}, TABLE).prior_precision == "evidence"
    rows = KINDS["gradients"].build({"labels": "hard", "sketch": 9}, TABLE)
    assert (rows.labels, rows.sketch.columns) == ("hard", 9)
    network = KINDS["ensemble"].build({"hidden": (3, 2), "dropout": 0.1}, TABLE).network()
    assert [tuple(one.shape) for one in network.parameters()][::2] == [(3, 4), (2, 3), (2, 2)]
    assert KINDS["text"].build({"words": 11}, TEXTS).words == 11
    assert KINDS["dropout"].build({"network": "mnist-cnn"}, PICTURES).network()(torch.zeros(1, 28, 28)).shape == (1, 10)
    small = replace(PICTURES, inputs_shape=(16, 8, 1))
    assert KINDS["dropout"].build({"network": "emnist-cnn"}, small).network()(torch.zeros(1, 16, 8)).shape == (1, 10)
    assert KINDS["dropout"].build({}, TABLE).network()[3].p == 0.5  # the default of an mlp
    residual = KINDS["ensemble"].build({"network": "resffn", "spectral": 0.7, "dropout": 0.1}, TABLE).network()
    assert (residual[1].coefficient, residual[2].rest[1].p) == (0.7, 0.1)
    heads = (KINDS["frozen"].build({"head": head}, TEXTS).head(8, 2) for head in ("dropout", "ensemble"))
    assert [type(head).__name__ for head in heads] == ["Dropout", "Ensemble"]


@pytest.mark.parametrize("shape", [(28, 28), (28, 28, 1), (32, 32, 3), (3, 32, 32)])
@pytest.mark.parametrize("network", ["resnet18", "resnet50", "wide-resnet", "vgg16", "lenet"])
def test_networks_of_pictures_are_made_for_their_shape(network, shape):
    facts = replace(PICTURES, inputs_shape=shape)
    residual = {"sensitive": True} if "resnet" in network else {}
    make = KINDS["ensemble"].build({"network": network, **residual}, facts).network
    with torch.device("meta"):
        made = make()
        assert (made[0].channels, made[0].mean, made[-1].out_features) == (3 if 3 in shape else 1, 0.1, 10)
        assert any(isinstance(part, torch.nn.LeakyReLU) for part in made.modules()) == bool(residual)
        assert made.eval()(torch.zeros(2, *shape)).shape == (2, 10)


@pytest.mark.parametrize(
    ("kind", "options", "facts", "message"),
    [
        ("forest", {}, TEXTS, "^model.kind: forest wants numbers, and letters holds texts; use text or frozen"),
        ("text", {}, TABLE, "^model.kind: text wants texts, and two holds none; use dropout or forest"),
        ("frozen", {}, TABLE, "^model.backbone: efficientnet-lite0 reads images, and two is of kind table"),
        (
            "frozen",
            {"backbone": "minilm"},
            PICTURES,
            "^model.backbone: minilm reads texts, and digits",
        ),
        ("frozen", {"head": "ensemble", "draws": 3}, TEXTS, "^model.draws: the head ensemble does not take it"),
        ("frozen", {"members": 3}, TEXTS, "^model.members: the head dropout does not take it"),
        (
            "dropout",
            {"network": "mnist-cnn", "hidden": (3,)},
            PICTURES,
            "^model.hidden: the network mnist-cnn",
        ),
        ("dropout", {"network": "mnist-cnn"}, TABLE, r"^model.network: mnist-cnn wants grey pictures of 28×28, found"),
        ("ensemble", {"network": "resnet18"}, TABLE, r"^model.network: resnet18 wants pictures, found rows of shape"),
        ("ensemble", {"network": "vgg16", "sensitive": True}, PICTURES, "^model.sensitive: the network vgg16 does not"),
        ("ensemble", {"spectral": 3.0}, TABLE, "^model.spectral: the network mlp does not take it"),
        ("probit-gp", {}, replace(TABLE, classes=3), "^model.kind: probit-gp tells two classes apart, and there are 3"),
    ],
)
def test_what_makes_no_sense_is_refused(kind, options, facts, message):
    with pytest.raises(ValueError, match=message):
        KINDS[kind].build(options, facts)


def test_conditions_name_options_that_are_there():
    for kind in KINDS.values():
        for option in kind.options.values():
            if option.only_with is not None:
                other = kind.options[option.only_with[0]]
                assert isinstance(other, Option)
                wanted = option.only_with[1]
                assert set([wanted] if isinstance(wanted, str) else wanted) <= set(other.choices or ())


def test_the_forest_of_recipes_is_that_of_the_readme():
    """Trees, leaves and smoothing have one default; a forest handed to a learner is the same model."""
    import inspect
    import re
    from pathlib import Path

    from natsel.models import Sklearn

    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    trees, leaf = re.search(r"RandomForestClassifier\((\d+), min_samples_leaf=(\d+)\)", readme).groups()
    forest = KINDS["forest"].build({}, TABLE)
    assert (forest.estimator.n_estimators, forest.estimator.min_samples_leaf) == (int(trees), int(leaf))
    assert forest.smoothing == inspect.signature(Sklearn).parameters["smoothing"].default
