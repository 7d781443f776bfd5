"""The first labels of a run may be of one class: every classifier then says that class, with and without members."""

import inspect
import warnings

import numpy as np
import pytest
import sklearn.base
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import all_estimators

import natsel
from natsel import Examples, Pool
from natsel.models import Sklearn

INPUTS = np.abs(np.random.default_rng(0).normal(size=(30, 3)))
CLASSES = ("ant", "bee", "cat")


def says_the_only_class(estimator, *, only, **settings):
    model = Sklearn(estimator, **settings)
    found = model.fit(Examples(INPUTS, np.full(30, only), CLASSES)).believe(INPUTS[:4]).log_probs_N_K_C.exp()
    assert found.shape[2] == 3
    assert np.allclose(found[..., only], 1)


QUICK = {
    "boosted histograms": lambda: HistGradientBoostingClassifier(max_iter=4),
    "discriminant": LinearDiscriminantAnalysis,
    "perceptron": lambda: MLPClassifier((2,), max_iter=2),
    "one against the rest": lambda: OneVsRestClassifier(GaussianNB()),
    "pipeline": lambda: make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter=4)),
    "stack": lambda: StackingClassifier([("a", GaussianNB()), ("b", DecisionTreeClassifier())]),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:Label not . is present in all training examples")
@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("settings", [{}, {"members": 2}], ids=str)
def test_a_classifier_of_one_class_says_that_class(name, settings):
    for only in (0, 2):
        says_the_only_class(QUICK[name](), only=only, **settings)


def test_virtual_members_of_one_class_say_that_class():
    for only in (0, 2):
        says_the_only_class(HistGradientBoostingClassifier(max_iter=8), only=only, virtual=2)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_boosted_trees_of_one_class_say_that_class(library):
    there = pytest.importorskip(library, reason="needs the extra gbdt")
    make = {
        "lightgbm": lambda: there.LGBMClassifier(n_estimators=8, verbose=-1),
        "xgboost": lambda: there.XGBClassifier(n_estimators=8),
        "catboost": lambda: there.CatBoostClassifier(iterations=8, verbose=False, allow_writing_files=False),
    }[library]
    for only in (0, 2):
        for settings in ({}, {"members": 2}, {"virtual": 2}):
            says_the_only_class(make(), only=only, **settings)


def test_a_run_goes_on_where_the_first_labels_are_of_one_class():
    pool = Pool(INPUTS, answers=np.r_[np.zeros(24, int), np.ones(6, int)])
    learner = natsel.ActiveLearner(HistGradientBoostingClassifier(max_iter=4), pool, "bald", k=3, seed=1)
    learner.run(budget=6)
    assert len(learner.pool.labelled_ids) == 6


NEEDED = {
    "estimator": LogisticRegression(),
    "estimators": [("a", GaussianNB()), ("b", DecisionTreeClassifier())],
    "param_grid": {},
    "param_distributions": {},
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), all_estimators(type_filter="classifier"))
@pytest.mark.parametrize("members", [None, 3])
@pytest.mark.parametrize("only", [0, 1, 2])
def test_every_classifier_of_one_class_says_that_class(name, kind, members, only):
    takes = inspect.signature(kind).parameters
    estimator = kind(
        **{one: NEEDED[one] for one in takes if one in NEEDED and takes[one].default in (None, inspect._empty)}
    )
    assert sklearn.base.is_classifier(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if members is None and name in ("OutputCodeClassifier", "RidgeClassifier", "RidgeClassifierCV"):
            with pytest.raises(ValueError, match=r"^estimator: \w+ has no predict_proba; pass members=20"):
                says_the_only_class(estimator, only=only, members=members)
        else:
            says_the_only_class(estimator, only=only, members=members)
