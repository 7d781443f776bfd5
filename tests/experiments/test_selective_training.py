"""The study of training on selected points: measured once from data to page, and judged from what was measured."""

import json
import math

import numpy as np
import pytest

import natsel
from natsel.data import dataset, load
from natsel.experiments.recipe.plan import load_plan, plan_from
from natsel.experiments.recipe.recipe import Recipe
from natsel.experiments.results.publish import publish
from natsel.experiments.running.build import _transformed_all
from natsel.experiments.running.run import run_plan
from natsel.experiments.studies import STUDIES
from natsel.experiments.studies import selective_training as study
from natsel.experiments.studies.selection_tasks import CONDITIONS, SETS, selection_task
from natsel.experiments.studies.units import Units

TINY = {
    **{"conditions": ["noise-0.4"], "methods": list(study.METHODS), "pool": 1000, "held_out": 400, "test": 200},
    **{
        "steps": 5,
        "uniform_steps": 5,
        "evaluate_every": 2,
        "batch": 32,
        "keep": 0.1,
        "width": 8,
        "learning_rate": 0.001,
    },
    **{"weight_decay": 0.01, "irreducible_width": 8, "irreducible_epochs": 2, "irreducible_batch": 64},
    **{"trials": 1, "seed": 0, "set": "mnist", "targets": [0.1]},
}
PLAN = {"name": "rho-tiny", "study": "selective-training", "settings": TINY}


@pytest.fixture(scope="module")
def digits():
    return load("mnist")


@pytest.fixture(scope="module")
def measured(digits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("selective")
    run_plan(plan_from(PLAN), folder, device="cpu")
    return folder, json.loads((folder / "study.json").read_text())["findings"]


@pytest.mark.needs_data("mnist")
def test_each_method_is_measured_over_all_steps(measured):
    _, findings = measured
    assert [row["method"] for row in findings["rows"]] == list(study.METHODS)
    for row in findings["rows"]:
        curve = row["curve"]
        assert curve["step"] == [2, 4, 5]
        # 1,000 points are three batches of 320 candidates and one of 40, of which 4 are kept.
        assert curve["selected"] == [64, 36, 32]
        assert all(0 <= found <= 1 for found in curve["accuracy"])
        assert curve["seconds"] == sorted(curve["seconds"])
        assert all(found <= most for found, most in zip(curve["noisy"], curve["selected"], strict=True))
        assert row["base"] == {"noisy": 0.4, "irrelevant": 0.0}
        assert ("irreducible" in row) == (row["method"] in (study.RHO, study.NEGATIVE))


@pytest.mark.needs_data("mnist")
def test_nothing_is_trained_twice(measured, monkeypatch):
    folder, findings = measured
    (folder / "units" / "noise-0.4-0-rho-loss.json").unlink()  # killed before the row was written
    monkeypatch.setattr(study, "_irreducible", lambda *given: pytest.fail("these losses were kept"))
    again = study.run(TINY, Units(folder), device="cpu")
    one, other = (found["rows"][1]["curve"] for found in (again, findings))
    assert {name: one[name] for name in one if name != "seconds"} == {
        name: other[name] for name in other if name != "seconds"
    }
    monkeypatch.setattr(study, "selection_task", lambda *given: pytest.fail("everything was measured"))
    assert study.run(TINY, Units(folder), device="cpu") == again


@pytest.mark.needs_data("mnist")
def test_masks_of_dropout_come_from_the_seed(digits, tmp_path, monkeypatch):
    monkeypatch.setattr(natsel.data, "load", lambda name: digits)
    settings = TINY | {"methods": ["random"], "held_out": 0, "conditions": ["relevance"], "learning_rate": 0.1}
    task = selection_task(settings, "relevance", 0)
    assert task.held_out is None
    task = task._replace(network=lambda: natsel.models.mlp(784, 10, (8,), dropout=0.5))
    monkeypatch.setattr(study, "selection_task", lambda *given: task)
    one, other = (study.run(settings, Units(tmp_path / name), device="cpu")["rows"][0]["curve"] for name in "ab")
    assert one["accuracy"] == other["accuracy"]


@pytest.mark.needs_data("mnist")
def test_page_and_verdicts(measured):
    folder, _ = measured
    published = publish(folder)
    page = published.page.read_text(encoding="utf-8")
    assert page.count('class="chart wide"') == 3  # accuracy, wrong labels, right already
    assert "Mindermann" in page
    assert [one["claim"] for one in json.loads((folder / "claims.json").read_text())] == [
        *["R1"] * 4,
        *["R2"] * 3,
        *["R4"] * 2,
        *["R5"] * 2,
    ]


@pytest.mark.needs_data("mnist")
def test_conditions_change_pool_and_held_out_part(digits, monkeypatch):
    monkeypatch.setattr(natsel.data, "load", lambda name: digits)
    settings = TINY | {"pool": 3000, "held_out": 2000, "test": 2000}
    for condition, *shares in (
        ("clean", 0, 0),
        ("noise-0.1", 0.1, 0),
        ("noise-0.1-everywhere", 0.1, 0.1),
        ("structured", 0.2, 0.2),
    ):
        pool, held_out, test = selection_task(settings, condition, 0)[:3]
        for part, share in zip((pool, held_out), shares, strict=True):
            assert study._mask(part, "noisy").mean() == pytest.approx(share, abs=0.015)
        assert not study._mask(test, "noisy").any()
    assert pool.inputs.dtype == np.float32
    assert pool.inputs.mean() == pytest.approx(0, abs=0.05)
    rows = [set(part.masks["row"].tolist()) for part in (pool, held_out)]
    assert not rows[0] & rows[1]
    parts = selection_task(settings, "relevance", 0)[:3]
    relevant = [set(part.labels[~part.masks["irrelevant"]].tolist()) for part in parts]
    assert len(relevant[0]) == 2
    assert relevant[0] == relevant[1] == relevant[2]  # the test set is as the pool is
    assert parts[0].masks["irrelevant"].mean() == pytest.approx(8 * 0.06 / (2 + 8 * 0.06), abs=0.04)


def row(condition, method, accuracy, noisy, correct, *, base=0.1, mark="noisy", trial=0, irreducible=None):
    """What a method measured: evaluated after 10, 20, … steps of one second each, 100 points selected in each."""
    count = len(accuracy)
    marks = {"noisy": [0] * count, "irrelevant": [0] * count} | {mark: noisy}
    curve = {"step": [10 * (one + 1) for one in range(count)], "accuracy": accuracy, "correct": correct, **marks}
    curve |= {"selected": [100] * count, "seconds": [float(one + 1) for one in range(count)]}
    found = {"condition": condition, "method": method, "trial": trial, "curve": curve}
    found["base"] = {"noisy": 0.0, "irrelevant": 0.0} | {mark: base}
    return found | (
        {} if irreducible is None else {"irreducible": {"seconds": irreducible, "right": 0.2, "wrong": 4.0}}
    )


def made(held, condition="noise-0.1", targets=(), **given):
    """Findings with which all claims hold, or none of them."""
    uniform = row(condition, study.UNIFORM, [0.5, 0.7, 0.8, 0.8], [10] * 4, [60] * 4, **given)
    quick, slow = [0.8, 0.85, 0.9, 0.9], [0.4, 0.5, 0.6, 0.7]
    bad = row(condition, study.LOSS, slow if held else quick, [60 if held else 9] * 4, [1 if held else 90] * 4, **given)
    norm = bad | {"method": study.NORM}
    good = row(condition, study.RHO, quick if held else slow, [4 if held else 11] * 4, [2 if held else 90] * 4, **given)
    good["irreducible"] = {"seconds": 5.0, "right": 0.2, "wrong": 4.0}
    easy = good | {"method": study.NEGATIVE}
    return {"rows": [uniform, good, bad, norm, easy], "trials": 1, "targets": targets}


@pytest.mark.parametrize("held", [True, False])
def test_claims_hold_and_fail(held):
    verdicts = study.claims(made(held))
    assert [one.claim for one in verdicts] == [*["R1"] * 4, *["R2"] * 3, *["R4"] * 2, "R5"]
    assert [one.passed for one in verdicts] == [held] * 10
    steps = study.claims(made(held, targets=(0.75,)))[-1]
    assert steps.says == "RHO-LOSS reaches 75 % in 0.6 of uniform's steps or fewer"
    assert (steps.passed, steps.evidence) == (held, f"steps {10 if held else 'never'}, uniform 30 of 40")
    of_classes = study.claims(made(held, "relevance", mark="irrelevant"))
    assert [one.claim for one in of_classes] == [*["R3"] * 3, *["R4"] * 2, "R5"]
    assert [one.passed for one in of_classes] == [held] * 6


def test_half_of_the_noise_is_another_claim_than_less_noise():
    findings = made(True)
    findings["rows"][1]["curve"]["noisy"] = [6] * 4
    assert [one.passed for one in study.claims(findings) if one.claim == "R1"] == [True, True, True, False]


def test_steps_and_seconds_to_the_best_of_uniform():
    findings = made(True)
    rows = findings["rows"]
    assert study._uniform(rows, 0) == (0.8, 30)  # the first of two steps that have it
    assert study._ratios(rows, study.RHO) == [pytest.approx(1 / 3)]
    assert study._seconds_ratio(rows, 0, study.RHO) == pytest.approx((1 + 5) / 3)  # with the irreducible losses
    assert study._ratios(rows, study.LOSS) == [math.inf]
    (anchor, _, body), _ = study.sections(findings)
    assert anchor == "condition-noise-0-1"
    assert "never" in body
    # Of RHO-LOSS only the first interval starts below 0.7, where the weakest ends.
    rows[1]["curve"]["correct"] = [7, 90, 90, 90]
    assert study._already_right(rows, study.RHO) == pytest.approx(0.07)
    rows[1]["curve"]["noisy"] = [3, 90, 90, 90]
    assert study._share_until_target(rows, 0, study.RHO, "noisy") == pytest.approx(0.03)


def test_more_noise_is_compared_with_less():
    clean, noise = made(True, "clean", base=0.0), made(True, "noise-0.4", base=0.4)
    clean["rows"][1]["curve"]["accuracy"] = [0.5, 0.8, 0.9, 0.9]
    last = study.claims({"rows": [*noise["rows"], *clean["rows"]], "trials": 1})[-1]
    assert (last.passed, last.evidence) == (True, "median ratio of steps: clean 0.67, noise-0.4 0.33")
    quick = study.claims(clean | {"rows": clean["rows"]})
    assert [one.passed for one in quick if one.claim == "R2"] == [False, False]  # loss never arrives here


def test_the_recipe_is_whole_and_mistakes_are_refused(tmp_path):
    for full in (False, True):
        settings = load_plan("rho-mnist", full=full).settings
        assert set(settings) == set(TINY)
        assert settings["trials"] >= 3
        assert tuple(settings["methods"]) == study.METHODS
        assert settings["pool"] + settings["held_out"] <= 60_000
    for name, words in (("conditions", "noise-0.3"), ("methods", "losses")):
        with pytest.raises(ValueError, match=rf"settings\.{name}.*{words}"):
            plan_from(PLAN | {"settings": TINY | {name: [words]}})
    checks = STUDIES["selective-training"].settings
    assert checks["conditions"](list(CONDITIONS), "conditions") == CONDITIONS
    assert [checks["set"](name, "set") for name in SETS] == list(SETS)
    with pytest.raises(ValueError, match="methods: all are compared with random"):
        study.run(TINY | {"methods": ["loss"]}, Units(tmp_path), device="cpu")


def test_recipes_reach_the_transforms_by_name():
    transforms = [
        {"kind": "relevance", "classes": [0, 1], "share": 0.5},
        {"kind": "confused-labels", "pairs": [[0, 1]], "share": 0.25},
    ]
    found = {"name": "a", "data": {"set": "iris", "transforms": transforms}, "model": {"kind": "forest"}}
    recipe = Recipe.from_table(found | {"methods": ["random"], "budget": 20})
    assert Recipe.from_table(recipe.as_table()) == recipe
    flowers = natsel.Examples(np.zeros((60, 1)), np.arange(60) % 3)
    changed = _transformed_all(recipe, flowers, lambda name: flowers)
    assert np.bincount(changed.labels).tolist() == [15, 25, 10]
    assert (int(changed.masks["noisy"].sum()), int(changed.masks["irrelevant"].sum())) == (5, 10)


def test_pictures_with_labels_of_people_and_cross_fitted_losses(tmp_path, monkeypatch):
    generator = np.random.default_rng(0)
    pictures = natsel.Examples(generator.integers(0, 256, (300, 32, 32, 3), dtype=np.uint8), np.arange(300) % 10)
    data = dataset.DataSet("cifar10", pictures, pictures[:50], None, "image", "")
    people_N = np.where(np.arange(300) % 5 < 2, (pictures.labels + 1) % 10, pictures.labels)
    monkeypatch.setattr(natsel.data, "load", lambda name: data)
    monkeypatch.setattr(natsel.data, "human_labels", lambda name, kind: {"worst": people_N}[kind])
    settings = TINY | {"set": "cifar10", "conditions": ["human-worst"], "methods": ["random", "rho-loss"], "width": 1}
    settings |= {
        "pool": 300,
        "held_out": 0,
        "test": 50,
        "irreducible_width": 1,
        "steps": 2,
        "uniform_steps": 3,
        "irreducible_epochs": 1,
    }
    rows = study.run(settings, Units(tmp_path), device="cpu")["rows"]
    assert rows[1]["base"]["noisy"] == pytest.approx(0.4)
    assert rows[1]["irreducible"]["wrong"] > 0
    assert rows[0]["curve"]["step"] == [2, 3]  # uniform goes on
    assert rows[1]["curve"]["selected"] == [60]  # 30 of 300 in each step
