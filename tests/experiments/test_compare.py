"""`natsel.compare`: the runs, results and report of `natsel run`, for values of this process."""

import gc
import json
import sys

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.neighbors import KNeighborsClassifier

import natsel
from natsel import Method, Pool
from natsel.choose.recommended import CONTENDERS, DEFAULT
from natsel.experiments.results.from_journals import read_experiment

IRIS = natsel.data.load("iris")
SMALL = {"seeds": 2, "budget": 11, "k": 4}


def forest():
    return RandomForestClassifier(5)


def iris(**options):
    return Pool(IRIS.train.inputs, answers=IRIS.train.labels, classes=IRIS.train.classes, **options)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared") / "runs"
    return natsel.compare(forest(), iris(), ["bald"], test=IRIS.test, levels=[0.5, 0.7], folder=folder, **SMALL)


def test_random_is_added_and_everything_is_there(compared, tmp_path):
    assert compared.experiments[""].methods == ("random", "bald")
    rows = compared.rows()
    assert [(row["model"], row["method"], row["target"]) for row in rows] == [
        ("", method, level) for method in ("random", "bald") for level in (0.5, 0.7)
    ]
    needed = {(row["method"], row["target"]): row["needed"] for row in rows}
    for row in rows:
        if row["method"] == "bald" and row["needed"] is not None and row["saved"] is not None:
            assert row["saved"] == 1 - row["needed"] / needed["random", row["target"]]
    assert {entry["labels"] for entry in compared.curves()} == {3, 7, 11}
    assert len(compared.curves()) == 2 * 2 * 3
    one = next(entry for entry in compared.medians() if entry["method"] == "bald" and entry["labels"] == 7)
    values = [entry["accuracy"] for entry in compared.curves() if (entry["method"], entry["labels"]) == ("bald", 7)]
    assert one["median"] == pytest.approx(np.median(values))
    assert compared.sentence in str(compared)
    assert "Labels needed to reach a test accuracy" in str(compared)
    assert compared.report().read_text(encoding="utf-8").startswith("<!doctype html>")
    page = compared.report(tmp_path / "page.html")
    assert page.read_text(encoding="utf-8") == compared.report().read_text(encoding="utf-8")


def test_the_runs_are_those_of_natsel_run(compared):
    assert (compared.folder / "bald" / "seed-1.db").is_file()
    assert json.loads((compared.folder / "recipe.json").read_text())["recipe"]["model"]["kind"] == "given"
    again = read_experiment(compared.folder)
    assert [curve.metrics for curve in again.curves] == [curve.metrics for curve in compared.experiments[""].curves]


def test_called_again_it_goes_on_and_other_models_or_data_are_refused(compared):
    events = []
    options = {"test": IRIS.test, "folder": compared.folder, "progress": events.append, **SMALL}
    more = natsel.compare(forest(), iris(), ["bald", "margin"], **options | {"seeds": 2})
    assert [event["event"] for event in events if event["method"] == "bald"] == ["skipped", "skipped"]
    assert more.experiments[""].methods == ("random", "bald", "margin")
    with pytest.raises(
        ValueError, match=r"^model: .* holds runs of another model \(estimator.n_estimators: 5 → 6\).*fresh=True"
    ):
        natsel.compare(RandomForestClassifier(6), iris(), **options)
    with pytest.raises(ValueError, match=r"^data: .* holds runs with 105 points"):
        natsel.compare(forest(), iris(), **options | {"test": 0.5})


def test_several_models_are_variants_and_functions_make_models(tmp_path):
    facts_seen = []

    def neighbours(facts):
        facts_seen.append(facts.classes)
        return KNeighborsClassifier(2)

    own = Method(natsel.Entropy(), natsel.TopK(), name="mine")
    found = natsel.compare(
        {"forest": forest, "near": neighbours}, iris(), [own], seeds=1, budget=7, k=4, test=0.3, initial=3
    )
    assert set(facts_seen) == {3}
    assert {row["model"] for row in found.rows()} == {"forest", "near"}
    assert found.experiments["near"].methods == ("random", "mine")
    assert (found.folder / "near" / "mine" / "seed-0.db").is_file()
    assert found.sentence.startswith("forest: ")
    assert "near\n" in str(found)
    page = found.report(tmp_path / "page.html")
    assert (tmp_path / "near" / "report.html").is_file()
    assert "0 of 0 claims" not in page.read_text(encoding="utf-8")
    folder = found.folder
    del found
    gc.collect()
    assert not folder.exists()  # a temporary folder lasts as long as the result


def test_labels_there_are_serve_as_answers_and_ids_are_the_users():
    labels = [None if row % 4 == 0 else int(label) for row, label in enumerate(IRIS.train.labels)]
    pool = Pool(IRIS.train.inputs, labels, ids=[f"flower {row}" for row in range(105)])
    found = natsel.compare(forest(), pool, ["bald"], seeds=1, budget=7, k=4)
    run = found.experiments[""].of("bald")[0]
    for id, label in zip(run.acquired, run.acquired_labels, strict=True):
        assert labels[int(id.removeprefix("flower "))] == label
    assert pool.labelled_ids.tolist() == [f"flower {row}" for row in range(105) if row % 4]  # the pool is left alone


def test_regression_and_targets():
    x = np.random.default_rng(0).normal(size=(80, 2))
    pool = Pool(x, answers=np.round(10 * x[:, 0]).astype(int))  # whole numbers, and a regressor
    found = natsel.compare(RandomForestRegressor(5), pool, ["epig"], seeds=1, budget=13, k=3, initial=4)
    assert found.experiments[""].metric == "rmse"
    assert {entry["labels"] for entry in found.curves()} == {4, 7, 10, 13}
    assert json.loads((found.folder / "recipe.json").read_text())["recipe"]["target_inputs"] == {"from": "pool"}
    given = natsel.compare(RandomForestRegressor(5), pool, ["epig"], seeds=1, budget=8, k=4, initial=4, targets=x[:9])
    assert len(given.curves()) == 2 * 2


def test_what_only_this_process_has_is_not_for_others():
    with pytest.raises(ValueError, match=r"^processes: no other process can make RandomForestClassifier; "):
        natsel.compare(forest(), iris(), processes=2)
    with pytest.raises(ValueError, match=r"^processes: methods and targets that are values live in this process"):
        natsel.compare({"kind": "forest"}, iris(), [Method(natsel.Entropy(), natsel.TopK(), name="mine")], processes=2)


@pytest.mark.slow
def test_other_processes_get_what_can_be_imported(tmp_path):
    table = {"kind": "forest", "trees": 5}
    options = {"seeds": 1, "budget": 7, "k": 4, "folder": tmp_path / "runs", "test": IRIS.test}
    found = natsel.compare(table, iris(ids=np.arange(1000, 1105)), ["bald"], processes=1, **options)
    run = found.experiments[""].of("bald")[0]
    assert [IRIS.train.labels[id - 1000] for id in run.acquired] == list(run.acquired_labels)
    here = natsel.compare(table, iris(ids=np.arange(1000, 1105)), ["bald"], **options | {"folder": None})
    assert here.experiments[""].of("bald")[0].acquired == run.acquired
    again = []
    natsel.compare(table, iris(ids=np.arange(1000, 1105)), ["bald"], processes=1, progress=again.append, **options)
    assert {event["event"] for event in again} == {"skipped"}


def test_bad_input_is_refused_before_work(tmp_path):
    with pytest.raises(ValueError, match=r"^models: found none"):
        natsel.compare({}, iris())
    with pytest.raises(ValueError, match=r"^pool: it knows neither answers nor labels"):
        natsel.compare(forest(), Pool(IRIS.train.inputs))
    with pytest.raises(ValueError, match=r"^pool: expected a natsel.Pool"):
        natsel.compare(forest(), IRIS.train.inputs)
    with pytest.raises(ValueError, match="no method is called 'bold'"):
        natsel.compare(forest(), iris(), ["bold"])
    with pytest.raises(ValueError, match=r"^budget: expected more than the 3 labels"):
        natsel.compare(forest(), iris(), budget=3)
    with pytest.raises(ValueError, match=r"^test: asked for 105 of 105"):
        natsel.compare(forest(), iris(), test=105)
    with pytest.raises(ValueError, match=r"^models: all runs failed, the first with RuntimeError: no luck"):
        natsel.compare(_Unlucky(), iris(), seeds=1, budget=7, folder=tmp_path)


class _Unlucky:
    def fit(self, labelled, validation=None):
        raise RuntimeError("no luck")

    def believe(self, inputs):
        raise RuntimeError("no luck")


def test_a_frame_needs_pandas(compared, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"^frame: pandas is not installed; install it, or use rows\(\)"):
        compared.frame()
    with pytest.raises(ValueError, match=r"^of: found 'columns'"):
        compared.frame("columns")
    monkeypatch.undo()
    pandas = pytest.importorskip("pandas")
    assert isinstance(compared.frame("curves"), pandas.DataFrame)


def test_whole_numbers_below_0_are_numbers_to_a_regressor():
    degrees = np.arange(40) % 8 - 1
    pool = Pool(np.arange(40.0)[:, None], answers=degrees)
    with pytest.warns(UserWarning, match="−1 is a number to a regressor"):
        result = natsel.compare(RandomForestRegressor(3), pool, [], seeds=1, budget=8, k=4, test=0.25)
    assert result.experiments[""].methods == ("random",)
    assert pool.answers(pool.ids) == degrees.tolist()


def test_what_is_compared_by_default_takes_no_copies():
    """Of classes and of numbers: batches by `bald` pick copies of one point."""
    pool = natsel.Pool(np.arange(40.0)[:, None], answers=np.arange(40) // 20)
    found = natsel.compare(RandomForestClassifier(5), pool, seeds=1, budget=5, k=3).experiments[""]
    assert found.methods == CONTENDERS[False]
    assert {name for names in CONTENDERS.values() for name in names} == {"random", "margin", "batchbald", DEFAULT}
