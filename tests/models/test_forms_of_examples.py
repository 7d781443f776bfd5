"""Whatever is fitted to examples takes examples, pairs of inputs and labels, and torch data sets."""

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from torch import nn

from natsel import causal
from natsel.data.examples import Examples, as_labelled
from natsel.models import (
    DDU,
    Backbone,
    BayesianLinear,
    Dropout,
    Ensemble,
    Frozen,
    GaussianProcess,
    Gradients,
    LastLayer,
    ProbitGP,
    Sklearn,
    Training,
)

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(24, 2)).astype(np.float32)
ROWS[:, 1] = np.arange(24) % 2
KINDS = np.arange(24) % 2
NUMBERS = ROWS.sum(1).astype(np.float64)
BRIEF = Training(max_epochs=2)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NATSEL_CACHE", str(tmp_path))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.5), nn.ReLU(), nn.Linear(4, 2))


def fitted(model):
    return lambda labelled: model().fit(labelled)


DOORS = {
    "DDU.fit": (fitted(lambda: DDU(network, training=BRIEF, device="cpu")), KINDS),
    "DDU.around": (lambda labelled: DDU.around(network(), labelled, device="cpu"), KINDS),
    "LastLayer.fit": (fitted(lambda: LastLayer(network, training=BRIEF, device="cpu")), KINDS),
    "LastLayer.fit of an estimator": (fitted(lambda: LastLayer(LogisticRegression())), KINDS),
    "LastLayer.around": (lambda labelled: LastLayer.around(network(), labelled, device="cpu"), KINDS),
    "Gradients.fit": (fitted(lambda: Gradients(network, training=BRIEF, device="cpu")), KINDS),
    "Gradients.around": (lambda labelled: Gradients.around(network(), labelled, device="cpu"), KINDS),
    "Ensemble.fit": (fitted(lambda: Ensemble(network, 2, BRIEF, device="cpu")), KINDS),
    "Dropout.fit": (fitted(lambda: Dropout(network, 3, BRIEF, device="cpu")), KINDS),
    "Frozen.fit": (fitted(lambda: Frozen(Backbone("twice", 2, lambda rows: rows * 2), LogisticRegression())), KINDS),
    "Sklearn.fit": (fitted(lambda: Sklearn(LogisticRegression(), members=3)), KINDS),
    "BayesianLinear.fit": (fitted(BayesianLinear), NUMBERS),
    "GaussianProcess.fit": (fitted(lambda: GaussianProcess(GaussianProcessRegressor())), NUMBERS),
    "ProbitGP.fit": (fitted(ProbitGP), KINDS),
    "SLearner.fit": (fitted(lambda: causal.SLearner(Ridge(), treatment=-1)), NUMBERS),
    "TLearner.fit": (fitted(lambda: causal.TLearner(Ridge(), treatment=-1)), NUMBERS),
}


def numbers_of(belief):
    belief = getattr(belief, "treated", belief)
    return [getattr(belief, name) for name in belief.points]


@pytest.mark.parametrize("door", DOORS)
def test_every_form_of_the_same_examples_is_learned_alike(door):
    fit, labels = DOORS[door]
    dataset = torch.utils.data.TensorDataset(torch.tensor(ROWS), torch.tensor(labels))
    wanted = numbers_of(fit(Examples(ROWS, labels)).believe(ROWS[:3]))
    for form in ((ROWS, labels), [ROWS, labels.tolist()], dataset):
        found = numbers_of(fit(form).believe(ROWS[:3]))
        assert all(torch.allclose(one, other, equal_nan=True) for one, other in zip(found, wanted, strict=True))


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (ROWS, r"^labelled: expected natsel.Examples or a pair \(inputs, labels\), found ndarray; pass one"),
        (None, r"^labelled: expected natsel.Examples or a pair \(inputs, labels\), found NoneType"),
        (Examples, r"^labelled: expected natsel.Examples or a pair .*, found the class Examples"),
        ((ROWS, None), r"^labelled: found no labels; pass natsel.Examples\(inputs, labels\)"),
        ((ROWS, [0, 1]), r"^labelled: labels: expected one for each of 24 inputs, found 2"),
        (Examples(ROWS[:0], []), r"^labelled: found no examples, so there is nothing to learn from"),
    ],
    ids=["array", "none", "class", "no labels", "two labels", "no examples"],
)
def test_what_is_no_labelled_examples_is_refused_at_every_door(door, wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        DOORS[door][0](wrong)


def test_classes_of_a_pair_to_validate_with_have_the_numbers_of_the_labels():
    labelled, validation = as_labelled((ROWS[:3], ["fox", "cat", "dog"]), (ROWS[:2], ["fox", "dog"]))
    assert labelled.classes == validation.classes == ("cat", "dog", "fox")
    assert validation.labels.tolist() == [2, 1]


def test_a_table_names_its_column_of_labels():
    pandas = pytest.importorskip("pandas", reason="needs the extra tables")
    frame = pandas.DataFrame({"a": ROWS[:, 0], "kind": np.where(KINDS, "cat", "dog"), "b": ROWS[:, 1]})
    model = Sklearn(LogisticRegression()).fit((frame, "kind"))
    assert model.believe(frame[["a", "b"]]).predict().tolist() != []
    labelled, _ = as_labelled((frame[["a"]], frame["kind"][::-1]))  # by the index
    assert [labelled.classes[label] for label in labelled.labels] == frame["kind"].tolist()
