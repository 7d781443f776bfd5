"""Data frames on their way to models: estimators get them whole, models of numbers get numbers or refuse by name."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    BaggingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import natsel
from natsel.data import Examples, Pool
from natsel.data.frames import FrameRows
from natsel.learning.students import extended
from natsel.models import Backbone, BayesianLinear, Dropout, GaussianProcess, Sklearn, TextModel, Training, mlp
from natsel.models.features.embeddings import embed, keys

pandas = pytest.importorskip("pandas", reason="needs the extra tables")


def made(count=120, seed=0):
    """A table with numbers, gaps, categories and texts, an index that is no position, and two classes."""
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame(
        {
            "age": rng.normal(size=count),
            "rooms": rng.integers(0, 5, count),
            "city": pandas.Categorical(rng.choice(["Bonn", "Ulm", "Wien"], count)),
            "owner": rng.choice(["me", "you"], count),
        },
        index=rng.permutation(count) * 3,
    )
    labels = ((frame["age"] > 0) ^ (frame["city"] == "Ulm")).to_numpy().astype(int)
    return frame.assign(age=frame["age"].where(rng.random(count) > 0.1)), labels


FRAME, LABELS = made()
TYPED = ["age", "rooms", "city"]


def by_name():
    return make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "rooms"]),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    )


class Witness(ClassifierMixin, BaseEstimator):
    """Remembers what it was given."""

    seen = ()

    def fit(self, rows, labels):
        type(self).seen += (rows,)
        self.classes_ = np.unique(labels)
        return self

    def predict_proba(self, rows):
        type(self).seen += (rows,)
        return np.full((len(rows), len(self.classes_)), 1 / len(self.classes_))

    def predict(self, rows):
        return self.classes_[np.zeros(len(rows), dtype=int)]


@pytest.mark.parametrize("members", [None, 3])
def test_an_estimator_gets_frames_with_their_columns_and_natsel_makes_no_array_of_them(members, monkeypatch):
    def refuse(*arguments, **keywords):
        raise AssertionError("a frame was turned into an array")

    monkeypatch.setattr(pandas.DataFrame, "to_numpy", refuse)
    monkeypatch.setattr(pandas.DataFrame, "__array__", refuse)
    Witness.seen = ()
    model = Sklearn(Witness(), members=members).fit(Examples(FRAME[:50], LABELS[:50]))
    with natsel.memory_budget(3000):
        model.believe(FRAME[50:])
    assert len(Witness.seen) > 2 * (members or 1)  # the fits, and several chunks of the pool
    for rows in Witness.seen:
        assert isinstance(rows, pandas.DataFrame)
        assert list(rows.dtypes) == list(FRAME.dtypes)
        assert list(rows["city"].cat.categories) == ["Bonn", "Ulm", "Wien"]


ESTIMATORS = {
    "by name": (lambda: make_pipeline(by_name(), LogisticRegression()), list(FRAME)),
    "forest by name": (lambda: make_pipeline(by_name(), RandomForestClassifier(10)), list(FRAME)),
    "voting by name": (
        lambda: VotingClassifier([("a", make_pipeline(by_name(), LogisticRegression()))], voting="soft"),
        list(FRAME),
    ),
    "categories": (lambda: HistGradientBoostingClassifier(max_iter=3, categorical_features="from_dtype"), TYPED),
    "forest": (lambda: RandomForestClassifier(10), ["age", "rooms"]),
    "bagging": (lambda: BaggingClassifier(DecisionTreeClassifier(), 5), ["age", "rooms"]),
}


def own_clone(model, rows, labels):
    return model._fit_one(FrameRows(rows), labels, seed=3)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_mean_of_the_draws_is_what_the_estimator_says_of_the_frame(name):
    make, columns = ESTIMATORS[name]
    frame, model = FRAME[columns], Sklearn(make())
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # scikit-learn warns where names of features get lost
        belief = model.fit(Examples(frame[:60], LABELS[:60]), seed=3).believe(frame[60:])
    mean = torch.einsum("nkc,k->nc", belief.log_probs_N_K_C.exp().double(), belief.log_weights_K.exp())
    own = own_clone(model, frame[:60], LABELS[:60]).predict_proba(frame[60:])
    np.testing.assert_allclose(mean, own, atol=1e-5)
    shuffled = frame[60:][columns[::-1]]
    assert torch.equal(model.believe(shuffled).log_probs_N_K_C, belief.log_probs_N_K_C)
    again = Sklearn(make()).fit(Examples(frame[:60], LABELS[:60]), seed=3).believe(frame[60:])
    assert again.draws_id == belief.draws_id
    changed = frame[:60].assign(rooms=frame["rooms"][:60] + 1)
    assert Sklearn(make()).fit(Examples(changed, LABELS[:60]), seed=3).believe(frame).draws_id != belief.draws_id


@pytest.mark.parametrize("method", ["bald", "epig"])
def test_a_learner_over_a_frame_asks_evaluates_and_looks_at_targets(method):
    frame, labels = FRAME[:80], LABELS[:80]
    test = (FRAME[80:], LABELS[80:])
    learner = natsel.ActiveLearner(
        make_pipeline(by_name(), RandomForestClassifier(10)),
        Pool(frame, answers=labels),
        method=method,
        k=20,
        test=test,
        validation=test,
        targets=FRAME[80:] if method == "epig" else None,
    )
    learner.run(budget=60)
    assert learner.history[-1].metrics["accuracy"] > 0.6
    assert all(np.isfinite(fit.metrics["nll"]) for fit in learner.history if fit.metrics)


def test_regressors_read_frames_for_their_noise_too():
    numbers = FRAME["rooms"].to_numpy() + 0.1 * LABELS
    for model in (
        Sklearn(RandomForestRegressor(10)),
        Sklearn(HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=2)),
    ):
        examples = Examples(FRAME[TYPED if "Hist" in repr(model.estimator) else ["age", "rooms"]], numbers)
        held_out = model.fit(examples[:80]).believe(examples.inputs[80:])
        assert held_out.mean_N_K.shape[0] == 40
        model.fit(examples[:80], examples[80:])


def test_other_columns_and_arrays_are_refused_by_name():
    model = Sklearn(make_pipeline(by_name(), LogisticRegression())).fit(Examples(FRAME, LABELS))
    with pytest.raises(
        ValueError, match=r"^inputs: the column 'city' is missing; pass the same columns as before: age"
    ):
        model.believe(FRAME.drop(columns="city"))
    with pytest.raises(ValueError, match=r"^inputs: the column 'price' is new"):
        model.believe(FRAME.assign(price=1))
    with pytest.raises(ValueError, match=r"^inputs: fitted to a data frame, found none; pass one with the columns age"):
        model.believe(np.zeros((3, 4)))
    numbers = FRAME[["rooms"]]
    fitted = Sklearn(RandomForestClassifier(3)).fit(Examples(numbers.to_numpy(), LABELS))
    assert torch.equal(fitted.believe(numbers).log_probs_N_K_C, fitted.believe(numbers.to_numpy()).log_probs_N_K_C)


def test_advice_about_frames_names_what_the_estimator_was_given():
    with pytest.raises(ValueError, match=r"'Ulm'\); .* it was given a frame .*city category, owner text"):
        Sklearn(LogisticRegression()).fit(Examples(FRAME.fillna({"age": 0.0}), LABELS))
    bagged = BaggingClassifier(make_pipeline(by_name(), LogisticRegression()), 3)
    with pytest.raises(ValueError, match=r"; use members= in place of a bagging estimator"):
        Sklearn(bagged).fit(Examples(FRAME, LABELS))


BOOSTED = {
    "lightgbm": ("LGBMClassifier", {"n_estimators": 5, "min_child_samples": 2, "verbose": -1, "n_jobs": 1}),
    "xgboost": ("XGBClassifier", {"n_estimators": 5, "enable_categorical": True, "n_jobs": 1}),
    "catboost": (
        "CatBoostClassifier",
        {"iterations": 5, "cat_features": ["city"], "verbose": 0, "allow_writing_files": False, "thread_count": 1},
    ),
}


@pytest.mark.parametrize("library", BOOSTED)
def test_boosted_trees_read_frames_with_categories_and_gaps(library):
    module = pytest.importorskip(library, reason="needs the extra gbdt")
    name, settings = BOOSTED[library]
    frame = FRAME[TYPED]
    learner = natsel.ActiveLearner(
        Sklearn(getattr(module, name)(**settings), members=3),
        Pool(frame[:80], answers=LABELS[:80] * 2),  # class 1 never comes
        method="bald",
        k=30,
        test=(frame[80:], LABELS[80:] * 2),
    )
    learner.run(budget=60)
    assert learner.history[-1].metrics["accuracy"] > 0.6


def test_frames_of_polars_reach_estimators_and_never_those_that_they_crash():
    polars = pytest.importorskip("polars", reason="needs the package polars")
    frame = polars.from_pandas(FRAME[TYPED])
    model = Sklearn(HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2))
    found = model.fit(Examples(frame, LABELS)).believe(frame).log_probs_N_K_C
    assert torch.equal(found, model.fit(Examples(FRAME[TYPED], LABELS)).believe(FRAME[TYPED]).log_probs_N_K_C)
    lightgbm = pytest.importorskip("lightgbm", reason="needs the extra gbdt")
    with pytest.raises(ValueError, match=r"^estimator: lightgbm ends the process .*; pass frame.to_pandas\(\)"):
        Sklearn(lightgbm.LGBMClassifier()).fit(Examples(frame, LABELS))


def test_models_of_numbers_take_frames_of_numbers_and_name_what_is_none():
    frame, numbers = FRAME[["rooms"]].assign(old=FRAME["owner"] == "me"), FRAME["rooms"].to_numpy(dtype=float)
    network = Dropout(mlp(2, 2, (4,)), draws=3, training=Training(max_epochs=2), device="cpu")
    for model, labels in (
        (BayesianLinear(noise=1.0), numbers),
        (GaussianProcess(GaussianProcessRegressor(alpha=0.1, optimizer=None)), numbers),
        (network, LABELS),
    ):
        ours = model.fit(Examples(frame[:60], labels[:60])).believe(Examples(frame[60:]).inputs)
        table = frame.to_numpy(dtype=np.float64)
        theirs = model.fit(Examples(table[:60], labels[:60])).believe(table[60:])
        for name in ours.points:
            assert torch.equal(getattr(ours, name), getattr(theirs, name))
        with pytest.raises(ValueError, match=r"^inputs: column 'city' holds categories, and only numbers can be used"):
            model.fit(Examples(FRAME[["rooms", "city"]], labels))
    with pytest.raises(ValueError, match=r"^inputs: found NaN or infinity in row \d+, column 'age'"):
        BayesianLinear().fit(Examples(FRAME[["rooms", "age"]], numbers))
    with pytest.raises(ValueError, match=r"^labelled: expected a list of texts, found a data frame"):
        TextModel().fit(Examples(FRAME[["owner"]], LABELS))


def test_students_and_backbones_see_frames(tmp_path):
    both = extended(Examples(FRAME[:2], [0, 1]), Examples(FRAME[5:6]).inputs, np.array([1]))
    assert both.inputs.frame.equals(FRAME.iloc[[0, 1, 5]])
    assert both.labels.tolist() == [0, 1, 1]
    assert len(np.unique(keys(FRAME)[:, 0])) == len(FRAME.drop_duplicates())
    assert keys(FRAME[3:4]).tolist() == keys(FRAME)[3:4].tolist()
    rooms = Backbone("rooms", 1, lambda frame: frame[["rooms"]].to_numpy())
    assert embed(rooms, FRAME, cache=tmp_path)[:, 0].tolist() == FRAME["rooms"].tolist()


def test_the_example_of_the_page_survives_a_city_that_no_label_has(capsys):
    page = (Path(__file__).parents[2] / "docs" / "tables.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(import natsel.*?)```", page, re.DOTALL)[1]
    known = "np.arange(400) < 30, kinds"
    unseen = code.replace(known, '(np.arange(400) < 30) & (homes["city"] != "Wien"), kinds')
    assert unseen != code
    exec(unseen, {"__name__": "page"})
    assert "ActiveLearner(power-bald: 2" in capsys.readouterr().out
