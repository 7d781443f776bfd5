"""Predictions of a learner, metrics on validation and test examples, and its labels and rounds as tables."""

import csv
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from learning.committee import Committee, Lines, blobs, pool
from natsel.beliefs import CategoricalSamples
from natsel.data.pool import Pool
from natsel.learning import ActiveLearner, TargetAccuracy

NAMES = ("left", "right", "top")


def named_pool(count=30):
    some = blobs(count)
    return Pool(some.inputs, ids=[f"img/é {n}.png" for n in range(count)], answers=some.labels, classes=NAMES)


def read_csv(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_classes_are_predicted_by_name_as_the_belief_says_and_by_inputs_or_ids():
    learner = ActiveLearner(Committee(), named_pool(), k=5)
    learner.run(budget=15)
    ids = learner.pool.ids[:7]
    belief = learner.belief(ids=ids)
    probs_N_C = learner.predict_proba(ids=ids)
    np.testing.assert_allclose(probs_N_C, belief.log_probs_N_K_C.exp().mean(1).numpy(), rtol=1e-6)
    found = learner.predict(ids=ids)
    assert isinstance(found, np.ndarray)
    assert isinstance(probs_N_C, np.ndarray)
    assert found.tolist() == [NAMES[c] for c in probs_N_C.argmax(1)]
    assert len(set(found.tolist())) > 1
    np.testing.assert_array_equal(learner.predict(learner.pool.inputs_of(ids)), found)
    np.testing.assert_array_equal(learner.predict(learner.pool.inputs_of(ids).tolist()), found)


def test_the_model_knows_all_labels_so_far_and_the_test_accuracy_is_that_of_the_predictions():
    test = blobs(40, seed=1)
    learner = ActiveLearner(Committee(), pool(), k=5, test=test)
    learner.tell([0, 1, 2], [0, 1, 2])
    right = learner.predict(test.inputs) == test.labels  # numbers, for the classes have no names
    assert learner.history[-1].metrics["accuracy"] == right.mean()
    learner.tell([3, 4], [0, 1])
    learner.predict(ids=[5])
    assert learner.history[-1].n_labelled == 5


def test_classes_that_no_label_has_yet_are_columns_of_their_own():
    inputs = np.arange(10.0)[:, None]
    learner = ActiveLearner(RandomForestClassifier(20, random_state=0), Pool(inputs, classes=("a", "b", "c")))
    learner.tell(range(10), ["a"] * 5 + ["c"] * 5)
    assert learner.predict(ids=[0, 9]).tolist() == ["a", "c"]
    learner.add_classes(["d"])
    probs_N_C = learner.predict_proba(ids=[0, 9])
    assert probs_N_C.shape == (2, 4)
    assert (probs_N_C[:, [1, 3]] == 0).all()


def test_numbers_are_predicted_as_numbers():
    inputs = np.linspace(0, 1, 20)[:, None]
    learner = ActiveLearner(Lines(), Pool(inputs, answers=2 * inputs[:, 0] + 0.5), k=4)
    learner.run(budget=8)
    np.testing.assert_allclose(learner.predict([[0.0], [1.0]]), [0.5, 2.5], atol=1e-6)
    np.testing.assert_allclose(learner.belief([[0.0]]).std, np.sqrt(0.1), rtol=1e-6)
    with pytest.raises(ValueError, match="predict_proba: the belief is about numbers; use mean, std or interval"):
        learner.predict_proba(ids=[0])


def test_predictions_are_refused_before_there_are_labels_and_without_inputs():
    learner = ActiveLearner(Committee(), pool())
    for ask in (learner.predict, learner.predict_proba):
        with pytest.raises(ValueError, match=rf"{ask.__name__}: pass either inputs or ids=…"):
            ask()
        with pytest.raises(ValueError, match=rf"{ask.__name__}: there are no labels to learn from yet; tell some"):
            ask(ids=[0])
    learner.tell([0], [1])
    with pytest.raises(ValueError, match="ids: 99 is not in the pool"):
        learner.predict(ids=[99])


def test_metrics_of_validation_and_test_examples_stand_side_by_side():
    test, validation = blobs(40, seed=1), blobs(30, seed=2)
    learner = ActiveLearner(Committee(), pool(), k=5, test=test, validation=validation)
    learner.run(budget=10, stop=TargetAccuracy(1.0))
    metrics = learner.history[-1].metrics
    assert list(metrics) == [
        "accuracy",
        "nll",
        "brier",
        "ece",
        "balanced accuracy",
        "validation accuracy",
        "validation nll",
    ]
    for name, examples in (("accuracy", test), ("validation accuracy", validation)):
        assert metrics[name] == (learner.predict(examples.inputs) == examples.labels).mean()


def test_without_test_examples_the_validation_metrics_are_not_taken_for_theirs():
    learner = ActiveLearner(Committee(), pool(), k=5, validation=blobs(30, seed=2))
    learner.run(budget=5)
    assert list(learner.history[-1].metrics) == ["validation accuracy", "validation nll"]
    with pytest.raises(ValueError, match="TargetAccuracy needs the test accuracy"):
        learner.run(budget=10, stop=TargetAccuracy(0.9))


def test_labels_are_rows_with_names_of_people_and_classes_and_corrections(tmp_path):
    learner = ActiveLearner(Committee(), named_pool(), k=2, resolve="last")
    batch = learner.ask()
    learner.tell(batch.ids, ["left", "top"], who="ann")
    learner.tell(batch.ids[:1], ["right"], who="bob")
    labels = learner.labels()
    first, second = batch.ids.tolist()
    columns = ("id", "value", "class", "who", "ask", "superseded")
    assert [tuple(row[name] for name in columns) for row in labels] == [
        (first, 0, "left", "ann", 1, True),
        (second, 2, "top", "ann", 1, False),
        (first, 1, "right", "bob", None, False),
    ]
    labels.to_csv(tmp_path / "labels.csv")
    rows = read_csv(tmp_path / "labels.csv")
    assert list(rows[0]) == ["id", "value", "class", "who", "at", "ask", "superseded"]
    assert [row["id"] for row in rows] == [first, second, first]
    assert rows[2]["ask"] == ""


def test_ids_in_tables_are_those_of_the_pool(tmp_path):
    paths = [Path("img") / f"{n}.png" for n in range(4)]
    learner = ActiveLearner(Committee(), Pool(np.eye(4), ids=paths), k=2)
    learner.tell(paths[:1], [0])
    assert learner.labels()[0]["id"] is paths[0]
    learner.labels().to_csv(tmp_path / "labels.csv")
    assert read_csv(tmp_path / "labels.csv")[0]["id"] == str(paths[0])


def test_history_is_a_list_and_a_table(tmp_path):
    learner = ActiveLearner(Committee(), pool(), "bald", k=5, test=blobs(40, seed=1))
    learner.run(budget=10)
    history = learner.history
    assert isinstance(history, list)
    assert [one.n_labelled for one in history] == [0, 5, 10]
    history.to_csv(tmp_path / "rounds.csv")
    start, second, last = read_csv(tmp_path / "rounds.csv")
    assert list(start)[:9] == [
        "round",
        "n_labelled",
        "accuracy",
        "nll",
        "brier",
        "ece",
        "balanced accuracy",
        "n_picks",
        "mean_gain",
    ]
    assert (start["accuracy"], start["mean_gain"], start["n_picks"]) == ("", "", "5")
    (ask,) = history[1].asks
    assert float(second["mean_gain"]) == pytest.approx(np.mean([pick.score for pick in ask.picks]))
    assert float(second["fit_seconds"]) == history[1].seconds["fit"]
    assert (last["n_picks"], float(last["accuracy"])) == ("0", history[2].metrics["accuracy"])


def test_frames_have_the_same_rows_and_a_missing_pandas_is_named(monkeypatch):
    learner = ActiveLearner(Committee(), named_pool(), "bald", k=5)
    learner.run(budget=10)
    tables = (learner.labels(), learner.history)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pandas", None)
        for table in tables:
            with pytest.raises(ImportError, match=r"to_frame needs pandas; install natsel\[tables\], or use to_csv"):
                table.to_frame()
    pytest.importorskip("pandas", reason="needs the extra tables")
    for table in tables:
        frame = table.to_frame()
        assert list(frame.columns) == list(table.columns())
        assert len(frame) == len(table)
    assert tables[0].to_frame()["id"].tolist() == [row["id"] for row in tables[0]]


def test_a_list_of_texts_reaches_the_model_as_the_pool_gives_it():
    texts = ["a b", "b c", "c d", "d e"]

    class ByLength:
        def fit(self, labelled):
            self.labels = labelled.labels

        def believe(self, inputs):
            assert isinstance(inputs, np.ndarray)
            return CategoricalSamples.from_probs([[[0.9, 0.1]] if len(text) > 3 else [[0.2, 0.8]] for text in inputs])

    learner = ActiveLearner(ByLength(), Pool(texts, labels=["no", None, "yes", None]))
    assert learner.predict(["longer", "ab"]).tolist() == ["no", "yes"]
