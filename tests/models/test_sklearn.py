"""scikit-learn estimators: draws average to what the estimator says, columns are classes, seeds decide all."""

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import natsel
from natsel.data import Examples
from natsel.models.conversion import as_model
from natsel.models.estimators.sklearn import Sklearn, noise_variance

DIGITS = load_digits()
SUGAR = load_diabetes()


def digits(count=150, classes=()):
    return Examples(DIGITS.data[:count].astype(np.float32), DIGITS.target[:count].astype(np.int64), classes)


def sugar(count=150):
    return Examples(SUGAR.data[:count], SUGAR.target[:count])


POOL = DIGITS.data[200:260].astype(np.float32)

CLASSIFIERS = {
    "forest": RandomForestClassifier(12),
    "extra trees": ExtraTreesClassifier(9),
    "bagged trees": BaggingClassifier(n_estimators=7),
    "bagged on some features": BaggingClassifier(LogisticRegression(), 5, max_features=0.5, max_samples=0.3),
    "voting": VotingClassifier([("nb", GaussianNB()), ("tree", DecisionTreeClassifier())], voting="soft"),
    "weighted": VotingClassifier(
        [("nb", GaussianNB()), ("out", "drop"), ("tree", DecisionTreeClassifier())], voting="soft", weights=[3, 9, 1]
    ),
    "pipeline": make_pipeline(StandardScaler(), RandomForestClassifier(6)),
    "searched": GridSearchCV(RandomForestClassifier(6), {"max_depth": [2, 5]}, cv=2),
    "one": LogisticRegression(max_iter=2000),
    "boosted": GradientBoostingClassifier(n_estimators=3, max_depth=1),
}
DRAWS = {"forest": 12, "extra trees": 9, "bagged trees": 7, "bagged on some features": 5, "voting": 2, "weighted": 2}
DRAWS |= {"pipeline": 6, "searched": 6, "one": 1, "boosted": 1}


def own_clone(model):
    """What the estimator itself says when fitted with the same seeds (no part of the wrapper's reading)."""
    return model._fit_one(DIGITS.data[:150].astype(np.float32), DIGITS.target[:150], seed=3)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_mean_of_the_draws_is_what_the_estimator_says(name):
    model = Sklearn(CLASSIFIERS[name])
    belief = model.fit(digits(), seed=3).believe(POOL)
    assert belief.shape == (len(POOL), DRAWS[name], 10)
    mean = torch.einsum("nkc,k->nc", belief.log_probs_N_K_C.exp().double(), belief.log_weights_K.exp())
    np.testing.assert_allclose(mean, own_clone(model).predict_proba(POOL), atol=1e-5)


@pytest.mark.parametrize("name", ["forest", "bagged trees", "voting", "pipeline"])
def test_unseen_classes_have_a_column_and_no_probability(name):
    odd = DIGITS.target[:150] % 2 == 1
    labelled = Examples(DIGITS.data[:150][odd], DIGITS.target[:150][odd], classes=tuple("0123456789"))
    belief = Sklearn(CLASSIFIERS[name]).fit(labelled).believe(POOL)
    probs = belief.log_probs_N_K_C.exp()
    assert probs.shape[2] == 10
    assert float(probs[..., ::2].max()) == 0
    right = probs.mean(1).argmax(1).numpy() == DIGITS.target[200:260]
    assert right[DIGITS.target[200:260] % 2 == 1].mean() > 0.7  # the other columns stand where they belong


def test_members_of_a_bag_may_each_lack_classes():
    labelled = digits(30)
    model = Sklearn(BaggingClassifier(DecisionTreeClassifier(), 8, max_samples=0.2))
    probs = model.fit(labelled, seed=3).believe(POOL).log_probs_N_K_C.exp()
    np.testing.assert_allclose(
        probs.mean(1), model._fit_one(labelled.inputs, labelled.labels, 3).predict_proba(POOL), atol=1e-6
    )


@given(seed=st.integers(0, 2**62), members=st.integers(2, 5))
@settings(max_examples=15, deadline=None)
def test_every_member_knows_every_class_seen(seed, members):
    labelled = Examples(np.arange(12.0)[:, None], np.array([0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 4]))
    model = Sklearn(GaussianNB(var_smoothing=0.1), members=members).fit(labelled, seed=seed)
    assert [m.classes_.tolist() for m in model._committee.members] == [[0, 1, 2, 4]] * members


def test_members_disagree_even_with_one_label_a_class():
    labelled = Examples(np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 2]))
    belief = Sklearn(LogisticRegression(), members=10).fit(labelled).believe(np.array([[0.5]]))
    assert float(belief.log_probs_N_K_C.exp().std(1).max()) > 0.01


def test_bagging_by_members_helps_bald_to_see_something():
    belief = Sklearn(LogisticRegression(max_iter=500), members=5).fit(digits()).believe(POOL)
    assert belief.shape == (60, 5, 10)
    assert float(natsel.score("bald", belief).max()) > 0.05


def test_a_linear_classifier_without_probabilities_votes_in_a_committee():
    with pytest.raises(ValueError, match=r"^estimator: LinearSVC has no predict_proba; pass members=20"):
        Sklearn(LinearSVC()).fit(digits())
    probs = Sklearn(LinearSVC(), members=3).fit(digits()).believe(POOL).log_probs_N_K_C.exp()
    assert set(probs.unique().tolist()) == {0.0, 1.0}
    assert (probs.mean(1).argmax(1).numpy() == DIGITS.target[200:260]).mean() > 0.7


@pytest.mark.parametrize("members", [None, 4])
def test_one_class_is_believed_and_not_refused(members):
    labelled = Examples(np.zeros((3, 2)), np.array([1, 1, 1]), classes=("a", "b"))
    probs = Sklearn(LogisticRegression(), members=members).fit(labelled).believe(np.ones((5, 2))).log_probs_N_K_C.exp()
    assert probs[..., 1].tolist() == [[1.0] * (members or 1)] * 5


def test_what_scikit_learn_refuses_is_said_in_one_sentence():
    hopeless = Examples(np.array([[0.0], [np.nan]]), np.array([0, 1]))
    with pytest.raises(ValueError, match=r"^estimator: LogisticRegression cannot be fitted to these 2 .*NaN") as error:
        Sklearn(LogisticRegression()).fit(hopeless)
    assert str(error.value).endswith("check what it expects: it was given an array of float64, shape (2, 1)")


SEARCHED = GridSearchCV(LogisticRegression(max_iter=500), {"C": [1.0]}, cv=5, error_score="raise")


class Counted(DecisionTreeClassifier):
    """Counts its fits, all of which fail."""

    fits = 0

    def fit(self, rows, labels):
        Counted.fits += 1
        raise ValueError("not these")


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (SEARCHED, "n_splits=5.*; label more, or check what it expects"),
        (BaggingClassifier(SEARCHED, 2), "; use members= in place of a bagging estimator, label more, or check"),
        (make_pipeline(ColumnTransformer([("a", StandardScaler(), ["age"])]), LogisticRegression()), "what it expects"),
    ],
)
def test_a_fit_that_failed_says_why_and_what_may_help(estimator, words):
    labelled = Examples(DIGITS.data[:3], np.array([0, 1, 1]))
    with pytest.raises(ValueError, match=rf"^estimator: \w+ cannot be fitted to these 3 examples.*{words}"):
        Sklearn(estimator).fit(labelled)


def test_no_fit_is_made_for_the_words_of_an_error():
    with pytest.raises(ValueError, match=r"^estimator: Counted cannot be fitted to these 3 examples \(not these\)"):
        Sklearn(Counted()).fit(Examples(DIGITS.data[:3], np.array([0, 1, 1])))
    assert Counted.fits == 1


class Altered(DecisionTreeClassifier):
    """Keeps a parameter in another form than it was given, as CatBoost does: scikit-learn refuses to clone it."""

    def __init__(self, cat_features=(), random_state=None):
        super().__init__(random_state=random_state)
        self.cat_features = list(cat_features)


def test_estimators_that_cannot_be_cloned_are_copied():
    mine = Altered(("city",), random_state=5)
    with pytest.raises(RuntimeError, match="Cannot clone"):
        clone(mine)
    for estimator in (mine, make_pipeline(StandardScaler(), mine)):
        assert Sklearn(estimator, members=3).fit(digits()).believe(POOL).shape == (60, 3, 10)
    assert mine.random_state == 5
    assert not hasattr(mine, "tree_")


class Strict(DecisionTreeClassifier):
    """Wants the classes 0..c−1, as XGBoost does."""

    def fit(self, rows, labels):
        if np.unique(labels).tolist() != list(range(len(np.unique(labels)))):
            raise ValueError("Invalid classes inferred from unique values of `y`.")
        return super().fit(rows, labels)


@pytest.mark.parametrize("members", [None, 3])
def test_classes_that_are_missing_among_labels_do_not_stop_a_strict_classifier(members):
    odd = DIGITS.target[:150] % 2 == 1
    labelled = Examples(DIGITS.data[:150][odd], DIGITS.target[:150][odd], classes=tuple("0123456789"))
    ours, theirs = (
        Sklearn(estimator, members=members).fit(labelled, seed=1).believe(POOL).log_probs_N_K_C
        for estimator in (Strict(), DecisionTreeClassifier())
    )
    assert torch.equal(ours, theirs)


class OwnError(Exception):
    pass


class Failing(DecisionTreeClassifier):
    def fit(self, rows, labels):
        raise OwnError("Target contains only one unique value")


def test_errors_that_libraries_have_of_their_own_are_read_like_others():
    one = Examples(np.zeros((3, 2)), np.array([1, 1, 1]), classes=("a", "b"))
    assert Sklearn(Failing()).fit(one).believe(np.zeros((2, 2))).log_probs_N_K_C.exp().tolist() == [[[0, 1]]] * 2
    with pytest.raises(ValueError, match=r"^estimator: Failing cannot be fitted .*\(Target contains only one"):
        Sklearn(Failing()).fit(Examples(np.zeros((3, 2)), np.array([0, 1, 1])))


@pytest.mark.parametrize("members", [None, 3])
def test_the_seed_decides_everything_and_nothing_else_does(members):
    model = Sklearn(make_pipeline(StandardScaler(), RandomForestClassifier(5)), members=members)
    before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002  the point of the test
    one, same, other = (model.fit(digits(), seed=seed).believe(POOL) for seed in (7, 7, 8))
    assert torch.equal(one.log_probs_N_K_C, same.log_probs_N_K_C)
    assert one.draws_id == same.draws_id != other.draws_id
    assert not torch.equal(one.log_probs_N_K_C, other.log_probs_N_K_C)
    assert np.array_equal(before[0], np.random.get_state()[1])  # noqa: NPY002
    assert torch.equal(before[1], torch.get_rng_state())


def test_the_users_estimator_stays_as_it_is():
    mine = RandomForestClassifier(3, random_state=5)
    Sklearn(mine).fit(digits(), seed=1)
    assert mine.random_state == 5
    assert not hasattr(mine, "estimators_")


def test_draws_are_the_same_function_for_every_point_and_chunk(monkeypatch):
    model = Sklearn(RandomForestClassifier(20)).fit(digits())
    whole = model.believe(POOL).log_probs_N_K_C
    with natsel.memory_budget(20_000):
        calls = []
        parts = model.believe(POOL, progress=lambda done, total: calls.append((done, total))).log_probs_N_K_C
    assert torch.equal(whole, parts)
    assert len(calls) > 3
    assert calls[-1] == (60, 60)
    assert torch.equal(model.believe(POOL[[5, 5, 9]]).log_probs_N_K_C, whole[[5, 5, 9]])


def test_smoothing_takes_away_the_zeros():
    sharp = Sklearn(DecisionTreeClassifier()).fit(digits()).believe(POOL).log_probs_N_K_C.exp()
    soft = Sklearn(DecisionTreeClassifier(), smoothing=0.1).fit(digits()).believe(POOL).log_probs_N_K_C.exp()
    assert float(sharp.min()) == 0
    np.testing.assert_allclose(soft, 0.9 * sharp + 0.01, rtol=1e-5)


def test_images_are_flattened_and_scaled_and_tensors_are_read():
    images = (DIGITS.images[:150] * 15).astype(np.uint8)
    model = Sklearn(KNeighborsClassifier()).fit(Examples(images, DIGITS.target[:150].astype(np.int64)))
    assert model.believe(images[:4]).shape == (4, 1, 10)
    scaled = images[:4].reshape(4, 64) / np.float32(255)
    assert torch.equal(
        model.believe(torch.from_numpy(images[:4])).log_probs_N_K_C, model.believe(scaled).log_probs_N_K_C
    )


@pytest.mark.parametrize("last", [LogisticRegression(), RandomForestClassifier(15)])
def test_texts_go_to_pipelines_as_they_are(last):
    texts = ["good film", "great film", "fine story", "bad film", "awful film", "poor story"]
    labelled = Examples(texts, np.array([1, 1, 1, 0, 0, 0]))
    belief = Sklearn(make_pipeline(TfidfVectorizer(), last)).fit(labelled).believe(np.array(texts, dtype=object))
    assert belief.log_probs_N_K_C.exp().mean(1)[:, 1].gt(0.5).tolist() == [True] * 3 + [False] * 3


def test_an_empty_pool_gives_an_empty_belief():
    assert Sklearn(RandomForestClassifier(4)).fit(digits()).believe(POOL[:0]).shape == (0, 4, 10)


REGRESSORS = {
    "forest": (RandomForestRegressor(20), 20),
    "extra trees": (ExtraTreesRegressor(8), 8),
    "bagging": (BaggingRegressor(n_estimators=25), 25),
    "voting": (VotingRegressor([("a", Ridge()), ("b", RandomForestRegressor(4))], weights=[1, 3]), 2),
    "pipeline": (make_pipeline(StandardScaler(), RandomForestRegressor(5)), 5),
    "one": (Ridge(), 1),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors_give_means_and_a_noise_that_fits(name):
    estimator, draws = REGRESSORS[name]
    model = Sklearn(estimator).fit(sugar(), seed=2)
    belief = model.believe(SUGAR.data[200:])
    assert belief.mean_N_K.shape == (242, draws)
    mean, deviation = sugar().labels.mean(), sugar().labels.std()
    seen = np.round((sugar().labels - mean) / deviation * 2**24) / 2**24  # labels without their units, to seven digits
    own = model._fit_one(sugar().inputs, seen, 2).predict(SUGAR.data[200:]) * deviation + mean
    np.testing.assert_allclose(belief.mean_N_K @ belief.log_weights_K.exp(), own, rtol=1e-6)
    errors = SUGAR.target[200:] - own
    total = float(belief.variance_N_K.mean()) + float(belief.mean_N_K.var(1, correction=0).mean())
    assert 0.6 < total / np.mean(errors**2) < 1.7  # about as sure as it is right


def test_bagged_regressors_and_validation():
    model = Sklearn(Ridge(), members=9).fit(sugar(), seed=1)
    belief = model.believe(SUGAR.data[200:])
    assert belief.mean_N_K.shape == (242, 9)
    assert 2000 < float(belief.variance_N_K[0, 0]) < 8000  # residual variance of a ridge on these data: about 4,000
    wild = Examples(sugar().inputs, sugar().labels + np.where(np.arange(150) % 2, 1000, -1000))
    loud = Sklearn(Ridge(), members=9).fit(sugar(), wild, seed=1).believe(SUGAR.data[200:])
    assert float(loud.variance_N_K[0, 0]) > 9e5
    assert torch.equal(loud.mean_N_K, belief.mean_N_K)


def test_out_of_bag_residuals_leave_out_the_members_that_saw_a_label():
    """Unpruned trees fit their own labels perfectly: with them the noise would look far smaller than it is."""
    generator = np.random.default_rng(0)
    noisy = Examples(generator.normal(size=(300, 3)), generator.normal(size=300))
    assert Sklearn(BaggingRegressor(n_estimators=2)).fit(noisy)._variance > 0.5


@given(st.integers(1, 30), st.integers(1, 5), st.integers(0, 2**32))
@example(1, 3, 1647)
@settings(max_examples=40, deadline=None)
def test_the_noise_makes_held_out_labels_likeliest(count, draws, seed):
    generator = np.random.default_rng(seed)
    residuals = generator.normal(size=(count, draws)) * generator.choice([0.3, 3.0], size=(count, draws))
    residuals[(generator.random((count, draws)) < 0.3) & (np.arange(draws) > 0)] = np.nan

    def likelihood(variance):
        exponents = np.where(np.isnan(residuals), -np.inf, -(residuals**2) / (2 * variance))
        return (np.logaddexp.reduce(exponents, axis=1) - 0.5 * math.log(variance)).sum()

    labels = generator.normal(size=9)
    best = noise_variance([residuals], labels)
    floored = best <= 1.001e-6 * np.var(labels)  # a fit so good that less noise would be likelier still
    assert all(
        likelihood(best) >= likelihood(best * nearby) - 1e-3 for nearby in ((1.03,) if floored else (0.97, 1.03))
    )


def test_noise_without_anything_held_out():
    assert noise_variance([], np.array([0.0, 2.0])) == 1.0
    assert noise_variance([], np.array([5.0])) == 1.0
    assert noise_variance([np.zeros((3, 2))], np.array([0.0, 2.0])) == 1e-6
    assert len(Sklearn(Ridge()).fit(sugar(1)).believe(SUGAR.data[:2])) == 2


def test_selection_by_gaussian_bald_from_a_forest():
    belief = as_model(RandomForestRegressor(30)).fit(sugar()).believe(SUGAR.data[200:])
    picks = natsel.select("batchbald", belief, k=5)
    spread = belief.mean_N_K.var(1)
    assert picks.ids[0] == int(spread.argmax())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: as_model(RandomForestClassifier), "^model: found the class RandomForestClassifier; pass one of it"),
        (
            lambda: as_model(torch.nn.Linear(2, 2)),
            r"^model: a bare Linear makes no draws; .*models.Dropout\(net",
        ),
        (lambda: as_model("batchbald"), "^model: str cannot be made to believe; pass a scikit-learn estimator"),
        (lambda: as_model(KMeans()), "^estimator: KMeans neither classifies nor regresses"),
        (lambda: Sklearn(StandardScaler()), "^estimator: expected a scikit-learn classifier or regressor, found Stand"),
        (lambda: Sklearn(Ridge), "^estimator: found the class Ridge; pass one of it"),
        (lambda: Sklearn(Ridge(), members=1), "^members: a committee needs at least 2, found 1"),
        (lambda: Sklearn(GaussianNB(), smoothing=1.0), "^smoothing: must be at least 0 and below 1, found 1.0"),
        (lambda: Sklearn(GaussianNB()).believe(POOL), "^model: .*fit the model first"),
        (lambda: Sklearn(GaussianNB()).fit(Examples(POOL)), "^labelled: found no labels"),
        (lambda: Sklearn(GaussianNB()).fit(Examples(POOL, np.linspace(0, 1, 60))), "^labels: .*found float64"),
        (
            lambda: Sklearn(GaussianNB()).fit(Examples(POOL, np.arange(60) % 3 - 1)),
            "^labelled: found 20 examples without a class",
        ),
        (
            lambda: Sklearn(RandomForestClassifier(2)).fit(digits()).believe(POOL[:, :9]),
            r"^inputs: fitted to rows of shape \(64,\), found \(9,\)",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_models_pass_through():
    class Mine:
        def fit(self, labelled, validation=None):
            return self

        def believe(self, inputs):
            return natsel.CategoricalSamples.from_probs(np.full((len(inputs), 1, 2), 0.5))

    mine = Mine()
    assert as_model(mine) is mine


def test_boosting_libraries_without_scikit_learns_tags_are_known_by_their_older_sign():
    class Foreign:
        _estimator_type = "regressor"

        def get_params(self, deep=True):
            return {}

        def set_params(self, **_):
            return self

        def fit(self, inputs, labels):
            self.mean = labels.mean()
            return self

        def predict(self, inputs):
            return np.full((len(inputs), 1), self.mean)

    belief = Sklearn(Foreign()).fit(sugar(10)).believe(SUGAR.data[:3])
    np.testing.assert_allclose(belief.mean_N_K[:, 0], sugar(10).labels.mean())


@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(max_iter=500), make_pipeline(StandardScaler(), GaussianNB()), DecisionTreeClassifier()],
)
def test_an_estimator_of_one_draw_becomes_a_committee_that_sees_something(estimator):
    belief = as_model(estimator).fit(digits()).believe(POOL)
    assert belief.shape[1] == 20
    assert natsel.score("bald", belief).max() > 0.01
    assert Sklearn(estimator).fit(digits()).believe(POOL).shape[1] == 1, "said so, it stays as it is"


def test_regressors_of_one_draw_become_committees_too():
    belief = as_model(Ridge()).fit(sugar()).believe(SUGAR.data[200:])
    assert belief.mean_N_K.shape[1] == 20
    assert natsel.score("bald", belief).max() > 0


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(7),
        BaggingClassifier(DecisionTreeClassifier(), 7),
        make_pipeline(StandardScaler(), RandomForestClassifier(7)),
        GridSearchCV(RandomForestClassifier(7), {"max_depth": [2]}, cv=2),
    ],
)
def test_committees_are_left_as_they_are(estimator):
    model = as_model(estimator)
    assert model.members is None
    assert model.fit(digits()).believe(POOL).shape[1] == 7
