"""ActiveRegressor and ActiveClassifier: scikit-learn's own checks, frames in and ids out, the same model by any way."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import check_dataframe_column_names_consistency, parametrize_with_checks

from natsel import ActiveClassifier, ActiveRegressor

pandas = pytest.importorskip("pandas", reason="needs the extra tables")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = X[:, 0] ** 2 + X[:, 1]
FRAME = pandas.DataFrame(
    {
        "age": np.where(RNG.random(80) < 0.1, np.nan, X[:, 0]),
        "rooms": X[:, 1],
        "city": pandas.Categorical(RNG.choice(["Bonn", "Ulm", "Wien"], 80)),
    },
    index=[f"home-{number}" for number in range(80)],
)
KINDS = np.where(Y > 1, "dear", "cheap")
STEPS = {"max_iter": 5, "min_samples_leaf": 3}


class CountedRidge(Ridge):
    """Counts the fits of all copies."""

    fits = 0

    def fit(self, X, y):
        type(self).fits += 1
        return super().fit(X, y)


@parametrize_with_checks(
    [
        ActiveRegressor(Ridge()),
        ActiveRegressor(RandomForestRegressor(5)),
        ActiveClassifier(LogisticRegression()),
        ActiveClassifier(make_pipeline(StandardScaler(), LinearSVC())),
    ]
)
def test_scikit_learn_takes_it_for_an_estimator(estimator, check):
    check(estimator)


def test_names_of_columns_are_checked_as_scikit_learn_does():
    check_dataframe_column_names_consistency("ActiveRegressor", ActiveRegressor(Ridge()))


def test_frames_keep_categories_and_gaps_and_their_index_names_the_rows():
    model = HistGradientBoostingRegressor(categorical_features="from_dtype", **STEPS)
    active = ActiveRegressor(model, k=6, members=4, random_state=0).fit(FRAME[:30], Y[:30])
    batch = active.ask(FRAME[30:])
    assert len(set(batch)) == 6
    assert set(batch) <= set(FRAME.index[30:])
    np.testing.assert_array_equal(active.predict(FRAME), clone(model).fit(FRAME[:30], Y[:30]).predict(FRAME))
    assert active.tell(FRAME.loc[batch.ids], Y[FRAME.index.get_indexer(batch.ids)]).n_features_in_ == 3
    assert active.feature_names_in_.tolist() == ["age", "rooms", "city"]


def test_boosted_trees_of_another_library_and_labels_as_texts():
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMClassifier(n_estimators=3, min_child_samples=3, n_jobs=1, verbose=-1)
    active = ActiveClassifier(model, k=4, members=3, random_state=0).fit(FRAME[:30], KINDS[:30])
    assert set(active.ask(FRAME[30:])) <= set(FRAME.index[30:])
    assert set(active.predict(FRAME)) == {"cheap", "dear"} == set(active.classes_)
    assert active.score(FRAME, KINDS) > 0.6
    np.testing.assert_allclose(active.predict_proba(FRAME).sum(1), 1)


def test_polars_frames_get_row_numbers():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"age": X[:, 0], "rooms": X[:, 1]})
    active = ActiveRegressor(HistGradientBoostingRegressor(**STEPS), k=5, members=3, random_state=0)
    ids = active.fit(frame[:30], Y[:30]).tell(frame[30:40], Y[30:40]).ask(frame[40:]).ids
    assert len(set(ids.tolist())) == 5
    assert set(ids.tolist()) <= set(range(40))


@pytest.mark.parametrize("method", ["lcmd", "core-set", "badge", "batchbald", "bald", "random", "acs-fw", "bait"])
def test_no_row_is_asked_for_twice_and_all_are_in_the_end(method):
    active = ActiveRegressor(Ridge(), method, k=8, members=3, random_state=0).fit(X[:16], Y[:16])
    left, asked = np.arange(16, 48), []
    while len(left):
        found = left[active.ask(X[left]).ids]
        active.tell(X[found], Y[found])
        left, asked = np.setdiff1d(left, found), asked + found.tolist()
    assert sorted(asked) == list(range(16, 48))


def test_searches_fit_once_and_asking_fits_a_committee_once():
    CountedRidge.fits = 0
    active = ActiveRegressor(CountedRidge(), random_state=0).fit(X[:30], Y[:30])
    active.predict(X)
    assert CountedRidge.fits == 1
    first = active.ask(X[30:])
    assert CountedRidge.fits == 21
    assert active.ask(X[30:]).ids.tolist() == first.ids.tolist()
    assert CountedRidge.fits == 21
    active.tell(X[30:40], Y[30:40])
    assert CountedRidge.fits == 22
    active.ask(X[40:])
    assert CountedRidge.fits == 42
    search = GridSearchCV(active, {"estimator__alpha": [0.1, 1000.0]}, cv=2).fit(X, X[:, 0])
    assert CountedRidge.fits == 42 + 5
    assert search.best_params_ == {"estimator__alpha": 0.1}
    assert len(search.best_estimator_.ask(X)) == 10


@pytest.mark.parametrize(
    ("estimator", "members", "draws"),
    [(RandomForestRegressor(7), None, 7), (RandomForestRegressor(2), 3, 3), (DecisionTreeRegressor(), None, 20)],
)
def test_a_forest_is_a_committee_and_one_tree_is_bagged(estimator, members, draws):
    few_digits = Y[:30].round(1) // 0.5  # sums of such labels are exact: rounding decides between no two splits
    active = ActiveRegressor(estimator, members=members, random_state=0).fit(X[:30], few_digits)
    batch = active.ask(X[30:], k=3)
    assert batch.picked.n_draws == draws
    assert float(batch.picked.mean_N_K.std(1).min()) > 0
    if members is None and draws == 7:
        own_N_K = np.stack([tree.predict(X[30:][batch.ids]) for tree in active.estimator_.estimators_], 1)
        np.testing.assert_allclose(batch.picked.mean_N_K, own_N_K, atol=1e-6)


@pytest.mark.parametrize(
    "active",
    [
        ActiveRegressor(RandomForestRegressor(5), random_state=3),
        ActiveRegressor(make_pipeline(StandardScaler(), Ridge()), "batchbald", members=3, random_state=3),
    ],
)
def test_telling_goes_on_where_fit_left(active):
    at_once = clone(active).fit(X[:40], Y[:40])
    told = clone(active).tell(X[:20], Y[:20]).tell(X[20:30], Y[20:30])
    told = pickle.loads(pickle.dumps(told.tell(X[30:40], Y[30:40])))
    np.testing.assert_array_equal(told.predict(X), at_once.predict(X))
    assert told.ask(X[40:]).ids.tolist() == at_once.ask(X[40:]).ids.tolist()
    assert pickle.loads(pickle.dumps(told)).ask(X[40:]).ids.tolist() == at_once.ask(X[40:]).ids.tolist()
    assert told.fit(X[:20], Y[:20]).predict(X).tolist() == clone(active).fit(X[:20], Y[:20]).predict(X).tolist()


def test_rows_that_change_after_a_fit_are_not_learned():
    rows = X[:30].copy()
    active = ActiveRegressor(Ridge(), members=3, random_state=0).fit(rows, Y[:30])
    rows[:] = 0
    fresh = ActiveRegressor(Ridge(), members=3, random_state=0).fit(X[:30], Y[:30])
    assert active.ask(X[30:]).ids.tolist() == fresh.ask(X[30:]).ids.tolist()
    np.testing.assert_array_equal(active.tell(X[30:], Y[30:]).predict(X), fresh.tell(X[30:], Y[30:]).predict(X))


def test_random_state_means_what_it_means_in_scikit_learn():
    def predictions(random_state, fits=1):
        active = ActiveRegressor(RandomForestRegressor(3), random_state=random_state)
        return [active.fit(X[:30], Y[:30]).predict(X).tolist() for _ in range(fits)]

    first, second = predictions(np.random.RandomState(0), fits=2)
    assert first != second
    assert predictions(np.random.RandomState(0)) == [first]
    assert predictions(7) == predictions(7) != predictions(8)
    assert predictions(None) != predictions(None)


def test_rows_like_the_labelled_ones_come_last():
    pool = np.concatenate([X[:20], X[40:60]])  # its first half has labels
    active = ActiveRegressor(Ridge(), "lcmd", random_state=0).fit(X[:20], Y[:20])
    assert min(active.ask(pool, k=4)) >= 20
    assert min(active.set_params(method="batchbald").ask(pool, k=20)) < 20  # which does not look at them


@pytest.mark.parametrize("estimator", [RandomForestRegressor(6), GaussianProcessRegressor(alpha=0.1, optimizer=None)])
def test_targets_are_rows_and_the_pool_where_none_are_given(estimator):
    active = ActiveRegressor(estimator, "epig", k=3, random_state=0).fit(X[:20], Y[:20])
    of_pool = active.ask(X[20:]).ids.tolist()
    assert active.ask(X[20:], targets=X[20:]).ids.tolist() == of_pool
    assert active.ask(X[20:], targets=X[-1:]).ids.tolist() != of_pool
    assert len(active.set_params(method="lcmd").ask(X[20:], targets=X[-1:])) == 3  # has no use for them


def test_in_a_pipeline_the_steps_before_prepare_the_pool():
    table = FRAME[["rooms"]].assign(age=FRAME["age"].fillna(0))
    pipeline = make_pipeline(StandardScaler(), ActiveRegressor(Ridge(), k=3, members=3, random_state=0))
    pipeline.set_output(transform="pandas").fit(table[:30], Y[:30])
    np.testing.assert_allclose(
        pipeline.predict(table), make_pipeline(StandardScaler(), Ridge()).fit(table[:30], Y[:30]).predict(table)
    )
    assert set(pipeline[-1].ask(pipeline[:-1].transform(table[30:]))) <= set(FRAME.index[30:])
    inner = make_pipeline(StandardScaler(), Ridge()).set_output(transform="pandas")
    around = ActiveRegressor(inner, k=3, members=3, random_state=0).fit(table[:30], Y[:30])
    assert set(around.ask(table[30:])) <= set(FRAME.index[30:])


def test_texts_go_to_a_vectoriser():
    texts = pandas.Series(["good dog", "bad cat", "good cat", "bad dog"] * 4, index=range(100, 116))
    model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    active = ActiveClassifier(model, k=2, members=3, random_state=0).fit(texts[:8], ["good", "bad"] * 4)
    assert set(active.ask(texts[8:])) <= set(range(108, 116))
    assert active.predict(["good bird"]).tolist() == ["good"]


def test_new_classes_come_with_tell_and_weights_of_classes_go_by_label():
    active = ActiveClassifier(RandomForestClassifier(5), k=3, random_state=0).fit(X[:20], KINDS[:20])
    assert not hasattr(ActiveClassifier(LinearSVC()), "predict_proba")
    assert active.tell(X[20:22], ["absurd", "dear"]).classes_.tolist() == ["absurd", "cheap", "dear"]
    assert active.predict_proba(X).shape == (80, 3)
    assert active.ask(X[30:]).picked.shape[2] == 3
    weighted = LogisticRegression(class_weight={2: 100.0, 1: 1.0})  # 1 and 2 are labels, and 1 is a place among them
    active = ActiveClassifier(weighted, k=3, members=3, random_state=0).fit(X, 1 + (KINDS == "dear"))
    assert active.predict(X).tolist() == weighted.fit(X, 1 + (KINDS == "dear")).predict(X).tolist()
    assert len(active.ask(X)) == 3


def test_bytes_are_numbers_and_not_pictures():
    whole = RNG.integers(0, 200, size=(60, 2))
    asked = [
        ActiveRegressor(Ridge(1e4), members=3, random_state=0).fit(rows[:20], Y[:20]).ask(rows[20:]).scores.tolist()
        for rows in (whole, whole.astype(np.uint8))
    ]
    np.testing.assert_allclose(*asked)


def test_a_fit_that_fails_changes_nothing():
    active = ActiveRegressor(Ridge(), members=3, random_state=0).fit(X[:20], Y[:20])
    before = active.predict(X).tolist()
    with pytest.raises(ValueError, match="NaN"):
        active.tell(np.full((2, 3), np.nan), [1.0, 2.0])
    assert active.predict(X).tolist() == before
    assert len(active.tell(X[20:30], Y[20:30]).ask(X[30:])) == 10


FITTED = ActiveRegressor(Ridge(), k=4, members=3, random_state=0).fit(X[:20], Y[:20])
NAMED = ActiveClassifier(HistGradientBoostingClassifier(**STEPS), k=4, members=3).fit(FRAME[:30], KINDS[:30])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: FITTED.ask(X[:3]), "k: asked for 4 of the 3 rows of X_pool to label; pass a smaller k or more rows"),
        (lambda: FITTED.ask(X, k=0), "k: expected a whole number of at least 1, found 0"),
        (
            lambda: FITTED.ask(X[:, :2]),
            r"X_pool: the labelled rows have shape \(3,\) each, found \(2,\); pass the same",
        ),
        (
            lambda: FITTED.ask(FRAME),
            "X_pool: the labelled rows are an array, found a data frame; pass rows of the same",
        ),
        (lambda: FITTED.tell(X[:2, :2], Y[:2]), r"X: the labelled rows have shape \(3,\) each, found \(2,\)"),
        (lambda: FITTED.tell(X[:2], Y[:3]), "Found input variables with inconsistent numbers of samples"),
        (lambda: clone(FITTED).set_params(method="pig").fit(X, Y).ask(X), "method: pig weighs labels that are known"),
        (lambda: clone(FITTED).set_params(method="jepig-distil").fit(X, Y).ask(X), "method: jepig-distil has students"),
        (lambda: clone(FITTED).set_params(method="epig").fit(X, Y).ask(X, targets=X[:, :1]), r"targets: .* \(1,\);"),
        (lambda: clone(FITTED).set_params(members=1).fit(X, Y), "members: a committee needs at least 2, found 1"),
        (lambda: NAMED.tell(FRAME[["age"]][:2], KINDS[:2]), "inputs: the column 'rooms' is missing; pass the same"),
        (lambda: NAMED.tell(FRAME.assign(new=1)[:2], KINDS[:2]), "inputs: the column 'new' is new; pass the same"),
        (lambda: NAMED.tell(FRAME[:2], [0, 1]), "y: the labels so far are texts, found numbers; pass labels of the"),
        (lambda: NAMED.tell(FRAME[:2], ["dear", None]), "y: found rows without a label; leave them out"),
        (lambda: NAMED.ask(pandas.concat([FRAME, FRAME])), r"X_pool: its index .* twice\); X_pool.reset_index"),
        (lambda: ActiveRegressor(LogisticRegression()).fit(X, KINDS), "estimator: LogisticRegression classifies; use"),
        (lambda: ActiveClassifier(Ridge()).fit(X, KINDS), "estimator: Ridge regresses; use natsel.ActiveRegressor"),
        (lambda: ActiveRegressor(Ridge).fit(X, Y), r"estimator: found the class Ridge; pass one of it: Ridge\(\)"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}"):
        call()


@pytest.mark.parametrize("verb", ["ask", "predict"])
def test_nothing_can_be_asked_before_a_fit(verb):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(ActiveRegressor(Ridge()), verb)(X)


@pytest.mark.parametrize("active", [ActiveRegressor(Ridge(), random_state=0), ActiveClassifier(LogisticRegression())])
def test_labels_of_a_column_go_by_the_index_of_a_frame(active):
    rows = pandas.DataFrame(X[:40], index=[f"r{place}" for place in range(40)], columns=list("abc"))
    labels = pandas.Series(np.round(Y[:40]) if isinstance(active, ActiveRegressor) else KINDS[:40], index=rows.index)
    mixed = labels.sample(frac=1, random_state=0)
    wanted = clone(active).fit(rows, labels.to_numpy()).predict(rows)
    for told in (mixed, mixed.to_dict(), mixed.to_frame().squeeze()):
        assert np.array_equal(clone(active).fit(rows, told).predict(rows), wanted)
    assert np.array_equal(
        clone(active)
        .fit(rows[:20], labels[:20])
        .tell(rows[20:], mixed[mixed.index.isin(rows.index[20:])])
        .predict(rows),
        wanted,
    )
    with pytest.raises(ValueError, match=r"y: id 'q0' \(1 in all\) is not among the rows of X, which go by 'r0'"):
        clone(active).fit(rows, mixed.rename({"r0": "q0"}))


def test_beside_an_array_labels_go_by_position_whatever_their_index():
    labels = pandas.Series(Y, index=RNG.permutation(80))
    fitted = ActiveRegressor(Ridge(), random_state=0).fit(X, labels)
    assert np.array_equal(fitted.predict(X), ActiveRegressor(Ridge(), random_state=0).fit(X, Y).predict(X))


@pytest.mark.parametrize("verb", ["fit", "tell"])
@pytest.mark.parametrize(
    ("active", "labels"), [(ActiveRegressor(Ridge()), Y), (ActiveClassifier(LogisticRegression()), KINDS)]
)
def test_labels_that_change_after_a_fit_are_not_learned(active, labels, verb):
    mine, kept, active = labels[:30].copy(), labels[:30].copy(), clone(active).set_params(random_state=0, k=5)
    other = clone(active)
    getattr(active, verb)(X[:30], mine)
    getattr(other, verb)(X[:30], kept)
    mine[:] = mine[::-1].copy()
    assert active.ask(X[30:]).ids.tolist() == other.ask(X[30:]).ids.tolist()
    mine[:] = mine[0]
    assert np.array_equal(
        active.tell(X[30:40], labels[30:40]).predict(X), other.tell(X[30:40], labels[30:40]).predict(X)
    )


def test_a_row_of_a_frame_that_is_told_again_takes_its_new_label():
    active = ActiveRegressor(HistGradientBoostingRegressor(**STEPS), k=3, members=3, random_state=0)
    active.fit(FRAME[:30], np.zeros(30)).tell(FRAME[20:40], Y[20:40])
    assert len(active._labelled) == 40
    assert active._labels_N.tolist() == [0.0] * 20 + Y[20:40].tolist()
    others = FRAME[:5].assign(rooms=0.5)  # the same index, and other values: other rows
    assert len(active.tell(others, Y[:5])._labelled) == 45


def test_rows_of_a_frame_that_have_a_label_are_not_asked_for():
    active = ActiveRegressor(Ridge(), k=40, members=3, random_state=0).fit(X[:40], Y[:40])
    assert len(active.ask(X)) == 40  # rows of an array have no names
    rows = pandas.DataFrame(X)
    active.fit(rows[:40], Y[:40])
    assert min(active.ask(rows)) == 40
    with pytest.raises(ValueError, match="k: asked for 41 of the 40 rows of X_pool to label"):
        active.ask(rows, k=41)
