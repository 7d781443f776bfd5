"""Pruning curves on a toy, and the study of them: measured from data to page, and judged from what was measured."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import natsel
from natsel.experiments import pruning_curve
from natsel.experiments.pruning_curve import kept_set
from natsel.experiments.recipe.plan import load_plan, plan_from
from natsel.experiments.results.publish import publish
from natsel.experiments.running.run import run_plan
from natsel.experiments.studies import STUDIES
from natsel.experiments.studies import pruning_curves as study
from natsel.experiments.studies.picture_training import picture_training
from natsel.experiments.studies.units import Units

TINY = {
    **{"methods": ["random", "el2n", "grand-initial"], "keeps": [0.5], "policy": "steps", "trials": 1, "runs": 2},
    **{"initial_runs": 1, "forgetting_runs": 1, "score_epoch": 1, "train": 600, "test": 40, "width": 1, "epochs": 1},
    **{"batch": 512, "learning_rate": 0.05, "augmentation": False, "seed": 3},
}
PLAN = {"name": "diet-tiny", "study": "pruning-curves", "settings": TINY}


def test_a_curve_is_trained_on_what_scores_keep():
    score_N = np.arange(10.0)
    seen = []

    def train(kept):
        seen.append(kept)
        return kept.positions_n.mean() / 10

    curve = pruning_curve(train, {"last": score_N, "first": -score_N, "random": None}, [0.5, 0.3], 2, seed=1)
    assert curve.mean("last", 0.5) == pytest.approx(0.7)
    assert curve.mean("first", 0.3) == pytest.approx(0.1)
    assert {len(kept.positions_n) for kept in seen} == {5, 3}
    assert {kept.passes for kept in seen} == {1.0}
    # A trial has one seed for all methods and shares; random examples are others in each trial, and nested in one.
    assert {(kept.trial, kept.seed) for kept in seen} == {(kept.trial, kept.seed) for kept in seen[:2]}
    random = {(kept.keep, kept.trial): set(kept.positions_n.tolist()) for kept in seen if kept.method == "random"}
    assert random[0.5, 0] != random[0.5, 1]
    assert random[0.3, 1] < random[0.5, 1]


def test_equally_many_steps_are_more_passes():
    assert kept_set("a", np.arange(10), 10, 0.3, 0, same="steps").passes == pytest.approx(10 / 3)
    assert kept_set("a", np.arange(10), 10, 0.3, 0, same="epochs").passes == 1


@pytest.mark.parametrize(
    ("scores", "keeps", "words"),
    [
        ({"random": None}, [0.5], "scores: .* found none"),
        ({"a": [1.0, 2.0], "b": [1.0]}, [0.5], r"scores: .* found {'a': 2, 'b': 1}"),
        ({"a": [1.0, 2.0]}, [], "keeps: found"),
        ({"a": [1.0, 2.0]}, [0.5, 0.1], "keep: 0.1 of 2 examples keeps none"),
        ({"a": [1.0, float("nan")]}, [0.5], "score_N: found NaN"),
    ],
)
def test_nothing_is_trained_where_something_is_wrong(scores, keeps, words):
    with pytest.raises(ValueError, match=words):
        pruning_curve(lambda kept: pytest.fail("trained"), scores, keeps)


@pytest.fixture(scope="module")
def pictures():
    """Pictures of 8 × 8 whose colour says the class, more or less."""
    rng = np.random.default_rng(0)
    labels_N = np.arange(660) % 3
    inputs = rng.integers(0, 200, (660, 8, 8, 3)) + 50 * np.eye(3, dtype=np.int64)[labels_N][:, None, None]
    whole = natsel.Examples(inputs.astype(np.uint8), labels_N)
    return SimpleNamespace(train=whole[np.arange(600)], test=whole[np.arange(600, 660)])


@pytest.fixture(scope="module")
def measured(pictures, tmp_path_factory):
    folder = tmp_path_factory.mktemp("diet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(natsel.data, "load", lambda name: pictures)
        study._parts.cache_clear()
        run_plan(plan_from(PLAN), folder, device="cpu")
        yield folder, json.loads((folder / "study.json").read_text())["findings"]
    study._parts.cache_clear()


def test_units_are_made_one_by_one_and_only_once(measured, tmp_path, monkeypatch):
    folder, findings = measured
    names = study.unit_names(TINY)
    assert names == [
        *("forgetting-0", "scored-0", "scored-1", "initial-0", "input"),
        *("trained-random-0.5-0", "trained-el2n-0.5-0", "trained-grand-initial-0.5-0"),
    ]
    assert all(study.is_made(folder, name) for name in names)
    assert not study.is_made(tmp_path, names[0])
    with pytest.raises(ValueError, match=r"trained-el2n-0\.5-0 needs scored-0, scored-1, which is not made yet"):
        study.make_unit(TINY, tmp_path, "trained-el2n-0.5-0", device="cpu")
    with pytest.raises(ValueError, match="no unit of these settings"):
        study.make_unit(TINY, tmp_path, "trained-el2n-0.7-0", device="cpu")
    monkeypatch.setattr(study, "_data", lambda settings: pytest.fail("everything was measured"))
    assert study.run(TINY, Units(folder), device="cpu") == findings


def test_scores_are_those_of_prune(measured, pictures):
    folder, _ = measured
    learn = study._data(TINY)[0]
    scores = study._scores(TINY, folder)
    training = picture_training(TINY, False, "cpu")
    settings = {"training": training, "seed": TINY["seed"], "device": "cpu"}
    network = lambda: study._network(TINY, learn)  # noqa: E731
    for name, method, epoch, runs in (("el2n", "el2n", 1, 2), ("grand-initial", "grand", 0, 1)):
        pruned = natsel.prune(learn, method, 0.5, network=network, runs=runs, at_epoch=epoch, **settings)
        np.testing.assert_allclose(scores[name], pruned.score_N, rtol=1e-5)
    pixels = (learn.inputs / 255 - study._MEAN) / study._STD
    np.testing.assert_allclose(scores["input-norm"], np.sqrt((pixels**2).sum((1, 2, 3))), rtol=1e-6)
    assert (scores["forgetting"] >= 0).all()


def test_networks_learn_from_the_highest_scores(measured, monkeypatch):
    import natsel.models

    folder, findings = measured
    row = next(row for row in findings["rows"] if row["method"] == "el2n")
    assert (row["kept"], row["epochs"]) == (300, 2)  # as many steps: twice as many passes over half
    score_N, learned = study._scores(TINY, folder)["el2n"], []
    monkeypatch.setattr(natsel.models, "train", lambda module, labelled, **given: learned.append(labelled))
    study._trained(TINY, kept_set("el2n", score_N, 600, 0.5, 0), "cpu")
    best = np.argsort(-score_N, kind="stable")[:300]
    np.testing.assert_array_equal(learned[0].inputs, study._data(TINY)[0].inputs[best])


def test_page_and_verdicts(measured):
    folder, _ = measured
    page = publish(folder).page.read_text(encoding="utf-8")
    assert "0.9354" in page  # published
    assert page.count("<caption>") >= 5
    found = [one["claim"] for one in json.loads((folder / "claims.json").read_text())]
    assert found == ["DD 1", "DD 1", "DD 2", "DD 2", "DD 3", "DD 4", "DD 5"]


def made(held):
    """Findings with which all claims hold, or none of them."""
    accuracy = {"random": 0.92, "el2n": 0.95, "grand": 0.949, "grand-initial": 0.9, "input-norm": 0.901}
    if not held:
        accuracy = {"random": 0.92, "el2n": 0.8, "grand": 0.9, "grand-initial": 0.95, "input-norm": 0.93}
    rows = [{"method": name, "keep": 0.5, "trial": 0, "accuracy": value} for name, value in accuracy.items()]
    much = dict(accuracy, el2n=0.91, grand=0.905) if held else dict(accuracy, el2n=0.93, grand=0.945)
    rows += [{"method": name, "keep": 0.4, "trial": 0, "accuracy": value} for name, value in much.items()]
    names = ["input-norm", "grand-initial", "grand", "el2n", "forgetting"]
    group_S = np.array([0, 0, 1, 1, 1])
    same_S_S = group_S[:, None] == group_S
    matrix = np.where(same_S_S, 0.95, -0.02) if held else np.where(same_S_S, 0.3, 0.2)
    ratio = {"distance": 0.02 if held else 0.2, "skew": 0.1}
    return {"rows": rows, "ranks": {"names": names, "matrix": matrix.tolist()}, "ratio": ratio}


@pytest.mark.parametrize("held", [True, False])
def test_claims_hold_and_fail(held):
    verdicts = study.claims(made(held))
    assert [one.claim for one in verdicts] == [*["DD 1"] * 2, *["DD 2"] * 2, *["DD 3"] * 6, *["DD 4"] * 6, "DD 5"]
    assert [one.passed for one in verdicts] == [held] * 17
    assert "original: 0.9522, 0.9354; hlb: 0.9256, 0.9139" in next(
        one.evidence for one in verdicts if one.says == "el2n beats random"
    )


def test_the_recipe_is_whole_and_mistakes_are_refused():
    for full in (False, True):
        settings = load_plan("datadiet-cifar10", full=full).settings
        assert set(settings) == set(TINY)
        study.check(settings)
    networks = len(settings["methods"]) * len(settings["keeps"]) * settings["trials"]
    assert len([name for name in study.unit_names(settings) if name.startswith("trained-")]) == networks
    checks = STUDIES["pruning-curves"].settings
    assert checks["methods"](list(study.METHODS), "methods") == study.METHODS
    for change, words in (
        ({"methods": ["el2n"]}, "methods: .* compared with random"),
        ({"methods": ["random", "forgetting"], "forgetting_runs": 0}, "forgetting_runs: found 0"),
        ({"score_epoch": 2}, "score_epoch: expected 1 to the 1 epochs"),
    ):
        with pytest.raises(ValueError, match=words):
            study.check(TINY | change)
