"""Virtual ensembles of boosted trees, and members weighed by validation labels."""

import inspect
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import (
    AdaBoostRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import natsel
from natsel.data import Examples
from natsel.models.estimators.sklearn import Sklearn, noise_variance
from natsel.models.estimators.virtual_ensemble import has_stages, numbers_of_trees
from natsel.models.kinds import DataFacts, kind_called

SUGAR, DIGITS = load_diabetes(), load_digits()
LABELLED = Examples(SUGAR.data[:120], SUGAR.target[:120])
POOL = SUGAR.data[200:]


@given(st.integers(4, 500), st.integers(2, 60))
@settings(deadline=None)
def test_members_stop_at_different_trees_of_the_second_half_and_the_last_has_all(trees, members):
    counts = numbers_of_trees(trees, members)
    assert counts == sorted(set(counts))
    assert (counts[-1], len(counts) >= 2, len(counts) <= members) == (trees, True, True)
    assert counts[0] > trees / 2
    if trees >= 2 * members:
        expected = [math.floor(trees / 2 + k * trees / (2 * members) + 1e-9) for k in range(1, members + 1)]
        assert counts == expected
    else:
        assert trees >= 2 * len(counts)


def refitted(estimator, trees, seed):
    """The model with fewer trees from the start: boosting adds trees one after the other."""
    name = "max_iter" if "max_iter" in estimator.get_params() else "n_estimators"
    return Sklearn(estimator.set_params(**{name: trees})).fit(LABELLED, seed=seed)


def boosted():
    lightgbm = pytest.importorskip("lightgbm")
    return {
        "trees": GradientBoostingRegressor(n_estimators=12),
        "histograms": HistGradientBoostingRegressor(max_iter=12, early_stopping=False),
        "lightgbm": lightgbm.LGBMRegressor(n_estimators=12, verbose=-1, n_jobs=1),
    }


@pytest.mark.parametrize("name", ["trees", "histograms", "lightgbm"])
def test_members_are_the_model_with_fewer_trees(name):
    model = Sklearn(boosted()[name], virtual=4).fit(LABELLED, seed=5)
    belief = model.believe(POOL)
    assert model._committee.members == [7, 9, 10, 12]
    for k, trees in enumerate([7, 9, 10, 12]):
        np.testing.assert_allclose(belief.mean_N_K[:, k], refitted(boosted()[name], trees, 5).predictive(POOL).mean)
    np.testing.assert_allclose(model.predictive(POOL).mean, belief.mean_N_K[:, -1])
    assert model.predictive(POOL).n_draws == 1
    assert float(belief.variance_N_K.min()) > 1000  # from held-out labels
    assert len(natsel.select("batchbald", belief, k=5)) == 5


def test_classes_pipelines_and_searches_have_virtual_members_too():
    inputs, labels = DIGITS.data[:90].astype(np.float32), DIGITS.target[:90] // 5 * 2  # of the classes 0, 1, 2: no 1
    labelled = Examples(inputs, labels, classes=("a", "b", "c"))
    for estimator in (
        GradientBoostingClassifier(n_estimators=8, max_depth=1),
        make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter=8)),
        GridSearchCV(GradientBoostingClassifier(n_estimators=8), {"max_depth": [1]}, cv=2),
    ):
        model = Sklearn(estimator, virtual=4).fit(labelled)
        probs_N_K_C = model.believe(DIGITS.data[200:220].astype(np.float32)).log_probs_N_K_C.exp()
        assert probs_N_K_C.shape == (20, 4, 3)
        assert float(probs_N_K_C[..., 1].max()) == 0
        own = model._fit_one(inputs, labels, 0).predict_proba(DIGITS.data[200:220].astype(np.float32))
        np.testing.assert_allclose(probs_N_K_C[:, -1, [0, 2]], own, atol=1e-6)
        assert float(probs_N_K_C.std(1).max()) > 0
    one = Examples(inputs, np.full(90, 2), classes=("a", "b", "c"))
    believed = Sklearn(GradientBoostingClassifier(), virtual=4).fit(one).believe(inputs[:2])
    assert believed.log_probs_N_K_C.exp().tolist() == [[[0, 0, 1]]] * 2


class Rounds:
    """What XGBoost and CatBoost offer: an argument of `predict` that limits the trees, here under a name of one."""

    _estimator_type = "regressor"

    def get_params(self, deep=True):
        return {}

    def set_params(self, **_):
        return self

    def fit(self, inputs, labels):
        self.calls = []
        return self


class LikeXGBoost(Rounds):
    def get_booster(self):
        return self

    def num_boosted_rounds(self):
        return 8

    def predict(self, inputs, *, iteration_range=None):
        self.calls.append(iteration_range)
        return np.full(len(inputs), float(iteration_range[1]))


class LikeXGBoostStoppedEarly(LikeXGBoost):
    best_iteration = 3  # counted from 0


class LikeCatBoost(Rounds):
    tree_count_ = 8

    def predict(self, inputs, ntree_end=0):
        return np.full((len(inputs), 1), float(ntree_end))


class LikeCatBoostWithPosteriorSampling(LikeCatBoost):
    def get_all_params(self):
        return {"posterior_sampling": True}

    def virtual_ensembles_predict(self, inputs, prediction_type, virtual_ensembles_count):
        assert prediction_type == "VirtEnsembles"
        return np.tile(np.arange(virtual_ensembles_count)[None, :, None] + 50.0, (len(inputs), 1, 1))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (LikeXGBoost, [5, 6, 7, 8]),
        (LikeXGBoostStoppedEarly, [3, 4]),
        (LikeCatBoost, [5, 6, 7, 8]),
        (LikeCatBoostWithPosteriorSampling, [50, 51, 52, 53]),
    ],
)
def test_other_libraries_are_asked_in_their_own_words(make, expected):
    labelled, validation = Examples(np.zeros((3, 1)), np.arange(3.0)), Examples(np.zeros((2, 1)), np.ones(2))
    model = Sklearn(make(), virtual=4).fit(labelled, validation)
    assert model.believe(np.zeros((1, 1))).mean_N_K.tolist() == [expected]
    if make is LikeXGBoost:
        assert model._committee.fitted.calls[-4:] == [(0, 5), (0, 6), (0, 7), (0, 8)]


def test_names_of_draws_tell_virtual_members_apart():
    names = {
        Sklearn(GradientBoostingRegressor(n_estimators=8), virtual=virtual).fit(LABELLED, seed=1).believe(POOL).draws_id
        for virtual in (None, 2, 4, 2)
    }
    assert len(names) == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sklearn(RandomForestRegressor(), virtual=20), "^virtual: RandomForestRegressor has no stages to cut"),
        (lambda: Sklearn(Ridge(), virtual=20), "^virtual: Ridge has no stages"),
        (lambda: Sklearn(GradientBoostingRegressor(), virtual=1), "^virtual: expected a number of members from 2 on"),
        (lambda: Sklearn(GradientBoostingRegressor(), virtual=3, members=2), "^virtual: found with members=2"),
        (
            lambda: Sklearn(GradientBoostingRegressor(n_estimators=3), virtual=20).fit(LABELLED),
            "^virtual: GradientBoostingRegressor ended with 3 trees, and a virtual ensemble needs at least 4; label",
        ),
        (lambda: numbers_of_trees(3, 2), "^trees: expected at least 4, found 3"),
        (
            lambda: Sklearn(RandomForestRegressor(), weigh_members=True).fit(LABELLED),
            "^validation: members are weighed by labels that none of them was fitted to, found none",
        ),
        (
            lambda: Sklearn(GradientBoostingClassifier(), weigh_members=True),
            "^weigh_members: it is for regressors, found GradientBoostingClassifier",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_parts_with_fewer_members_count_in_the_noise():
    few, many = np.array([[1.0, 2.0]]), np.array([[3.0]])
    padded = noise_variance([np.array([[1.0, 2.0], [3.0, np.nan]])], np.array([0.0, 9.0]))
    assert noise_variance([few, many], np.array([0.0, 9.0])) == padded


def test_what_has_stages():
    assert has_stages(AdaBoostRegressor())
    assert has_stages(make_pipeline(StandardScaler(), HistGradientBoostingRegressor()))
    assert not has_stages(VotingRegressor([("a", Ridge())]))


def test_recipes_name_virtual_members():
    facts = DataFacts("sugar", "table", (10,), 0)
    kind = kind_called("sklearn.ensemble.HistGradientBoostingRegressor")
    model = kind.build({"virtual": 6, "parameters": {"max_iter": 20}}, facts)
    assert (model.virtual, model.members) == (6, None)
    assert model.fit(LABELLED).believe(POOL).n_draws == 6
    assert "virtual" in inspect.signature(Sklearn).parameters


def test_members_are_weighed_by_the_likelihood_of_validation_labels():
    validation = Examples(SUGAR.data[120:124], SUGAR.target[120:124])
    plain, weighed = (
        Sklearn(Ridge(), members=10, weigh_members=weigh).fit(LABELLED, validation, seed=2) for weigh in (False, True)
    )
    belief = weighed.believe(POOL)
    assert torch.equal(belief.mean_N_K, plain.believe(POOL).mean_N_K)
    residuals_V_K = SUGAR.target[120:124, None] - plain.believe(validation.inputs).mean_N_K.numpy()
    log_weights_K = -0.5 * (residuals_V_K**2).sum(0) / weighed._variance
    expected_K = np.exp(log_weights_K - np.logaddexp.reduce(log_weights_K))
    np.testing.assert_allclose(belief.log_weights_K.exp(), expected_K, rtol=1e-9)
    assert 1.5 < belief.effective_draws() < 9.9
    conditioned = plain.believe(validation.inputs).condition(range(4), validation.labels)
    torch.testing.assert_close(belief.log_weights_K, conditioned.log_weights_K)
    assert belief.features().draws_id != plain.believe(POOL).features().draws_id
    assert len(natsel.select("batchbald", belief, k=4)) == 4


def test_validation_that_leaves_one_member_is_told():
    many = Examples(SUGAR.data[120:200], SUGAR.target[120:200])
    belief = Sklearn(RandomForestRegressor(10), weigh_members=True).fit(LABELLED, many).believe(POOL)
    assert belief.warnings[0].startswith("labels: they told ")
