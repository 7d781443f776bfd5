"""Errors that an ensemble predicts of itself, and pixels: what the two studies measure, keep, and conclude."""

import copy
import json

import numpy as np
import pytest
import torch

import natsel
from natsel.evaluation import calibration_error, one_hot_members
from natsel.experiments.recipe.plan import load_plan, plan_from
from natsel.experiments.results.publish import publish
from natsel.experiments.running.run import run_plan
from natsel.experiments.studies import disagreement_study, scene_segmentation
from natsel.experiments.studies.units import Units

SMALL = {
    "name": "gde-small",
    "study": "disagreement",
    "settings": {
        **{
            "set": "digits",
            "network": "resnet18",
            "width": 1,
            "members": 2,
            "train": 100,
            "validation": 50,
            "test": 80,
        },
        **{"epochs": 1, "batch": 50, "learning_rate": 0.1, "augmentation": False, "shifts": ["noise-5"], "seed": 0},
    },
}


def made_members(count=1500, classes=5, members=5):
    """Logits of members who are too sure where they are uncertain, and more so on a copy that they know less about."""
    generator = np.random.default_rng(0)
    truth = generator.normal(size=(count, classes)) * generator.uniform(0, 8, size=(count, 1))
    labels = np.array(
        [generator.choice(classes, p=np.exp(row) / np.exp(row).sum()) for row in truth - truth.max(1)[:, None]]
    )
    found = [{} for _ in range(members)]
    for where, noise in (("validation", 1.0), ("inside", 1.0), ("blur-2", 2.5)):
        for member in found:
            member[f"{where}/labels"] = labels
            member[f"{where}/logits"] = 1.5 * (truth + noise * generator.normal(size=truth.shape))
    return found


@pytest.fixture(scope="module")
def made():
    members = made_members()
    rows = [disagreement_study._measured(members, where) for where in ("inside", "shifted", "blur-2")]
    return {"rows": rows, "set": "made", "members": 5, "shifts": ["blur-2"]}


def test_numbers_over_all_points_end_the_curves_and_keep_the_bound(made):
    for row in made["rows"]:
        for kind in disagreement_study.KINDS:
            found = row[kind]
            for curve in found["curves"].values():
                assert curve["count"][-1] == row["points"]
                assert curve["sampling error"][-1] == found["sampling error"]
            assert found["gap"] == abs(found["sampling error"] - found["predicted error"])
            assert found["gap"] <= found["bound"]
            assert found["ece"] <= found["cace"] <= found["cwce"]
    assert {name: made["rows"][1][name] for name in ("one-hot", "atc")} == {
        name: made["rows"][2][name] for name in ("one-hot", "atc")
    }, "one changed copy is all changed copies"


def test_fifteen_bins_are_the_levels_of_one_hot_members(made):
    log_probs, labels = disagreement_study._log_probs(made_members(200), "inside")
    probs = one_hot_members(log_probs).exp().mean(1)
    row = disagreement_study._of_kind(one_hot_members(log_probs), labels, one_hot=True)
    for kind in disagreement_study.CALIBRATION:
        assert row[kind] == pytest.approx(float(calibration_error(probs, labels, kind, levels=5)), abs=1e-12)
    assert row["bound"] == pytest.approx(row["cace"] / 2)


def test_changed_copies_are_put_together():
    members = made_members(30)
    for member in members:
        member["noise-1/logits"], member["noise-1/labels"] = -member["inside/logits"], (member["inside/labels"] + 1) % 5
    log_probs, labels = disagreement_study._log_probs(members, "shifted")
    assert log_probs.shape == (60, 5, 5)
    assert torch.equal(log_probs[:30], disagreement_study._log_probs(members, "blur-2")[0])
    np.testing.assert_array_equal(labels[30:], (members[0]["inside/labels"] + 1) % 5)


@pytest.mark.parametrize("held", [True, False])
def test_claims_about_disagreement_hold_and_fail(made, held):
    findings, along = copy.deepcopy(made), np.linspace(0, 1, 9)
    for row in findings["rows"]:
        for kind in disagreement_study.KINDS:
            level = 0.1 * (kind == "one-hot") + 0.1 * ((row["where"] == "inside") != held)
            for score, curve in row[kind]["curves"].items():
                other = score == "information" and not held
                curve["count"] = (row["points"] * np.linspace(0.2, 1, 9)).tolist()
                curve["predicted error"] = (0.1 + 0.3 * along).tolist()
                gap = np.minimum(along, 0.5) / 10 if held else along**2 / 10
                bent = 0 if held else 0.4 * (along > 0.9)
                curve["sampling error"] = (0.5 * other + 0.1 + 0.3 * along + gap + bent).tolist()
                for name in disagreement_study.CALIBRATION:
                    curve[name] = (0.5 * other + level + along * (0.1 if held else -0.1)).tolist()
            for name in disagreement_study.CALIBRATION:
                row[kind][name] = level if held else 0.5 - level
                if not held and row["where"] == "inside":
                    row[kind][name] += 0.3
            row[kind]["sampling error"] = 0.4 if (kind == "one-hot") == held else 0.5
            row[kind]["certain"] = {"count": 9, "sampling error": 0.2 if (kind == "one-hot") == held else 0.1}
    assert [one.passed for one in disagreement_study.claims(findings)] == [held] * 15
    findings["rows"][0]["probabilities"]["certain"] = {"count": 0, "sampling error": None}
    assert [one.word for one in disagreement_study.claims(findings)].count("open") == 1


def test_an_ensemble_is_measured_once_and_ends_in_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(natsel.models, "train", lambda *given, **options: [], raising=False)  # the slow test trains
    run_plan(plan_from(SMALL), tmp_path, device="cpu")
    findings = json.loads((tmp_path / "study.json").read_text())["findings"]
    assert [row["where"] for row in findings["rows"]] == ["inside", "shifted", "noise-5"]
    with np.load(tmp_path / "units" / "member-1.npz") as held:
        assert held["inside/logits"].shape == held["noise-5/logits"].shape == (80, 10)
        np.testing.assert_array_equal(held["inside/labels"], held["noise-5/labels"])
        assert not np.array_equal(held["inside/logits"], held["noise-5/logits"])
    assert publish(tmp_path).page.read_text(encoding="utf-8").count('class="chart wide"') == 10
    for path in (tmp_path / "units").glob("*.json"):
        path.unlink()
    monkeypatch.setattr(disagreement_study, "_trained_logits", lambda *_: pytest.fail("trained again"))
    run_plan(plan_from(SMALL), tmp_path, device="cpu")
    assert json.loads((tmp_path / "study.json").read_text())["findings"] == findings


@pytest.mark.parametrize("shifts", [[], ["blur-9"]])
def test_unknown_shifts_are_refused_before_training(tmp_path, monkeypatch, shifts):
    monkeypatch.setattr(natsel.models, "train", None, raising=False)
    with pytest.raises(ValueError, match=r"^shifts: found none|^change: there is no 'blur-9'"):
        disagreement_study.run({**SMALL["settings"], "shifts": shifts}, Units(tmp_path), device="cpu")


@pytest.mark.slow
def test_trained_members_are_nearly_right_inside_and_wrong_under_noise(tmp_path):
    settings = {**SMALL["settings"], "width": 4, "train": 1000, "epochs": 8, "test": 400}
    run_plan(plan_from({**SMALL, "settings": settings}), tmp_path, device="cpu")
    inside, shifted, _ = json.loads((tmp_path / "study.json").read_text())["findings"]["rows"]
    assert inside["top-1 error"] < 0.1
    assert shifted["top-1 error"] > inside["top-1 error"]


SCENES = {
    "name": "scenes-small",
    "study": "segmentation",
    "settings": {
        **{"train": 10, "validation": 4, "test": 6, "size": 12, "shapes": 2, "unknown_shapes": 1, "border_width": 3.0},
        **{"width": 4, "members": 2, "epochs": 2, "batch": 5, "learning_rate": 0.02, "window": 3, "seed": 0},
    },
}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes")
    run_plan(plan_from(SCENES), folder, device="cpu")
    return folder, json.loads((folder / "study.json").read_text())["findings"]


def test_pixels_are_measured_and_end_in_a_page(scenes):
    folder, findings = scenes
    assert list(findings["auroc"]) == ["density", "softmax entropy", "ensemble entropy", "ensemble information"]
    assert all(0 <= value <= 1 for tasks in findings["auroc"].values() for value in tasks.values())
    assert sum(findings["pixels"].values()) <= 6 * 12 * 12
    assert publish(folder).page.read_text(encoding="utf-8").count('class="chart wide"') == 5


def test_claims_about_pixels_hold_and_fail(scenes):
    findings = copy.deepcopy(scenes[1])
    for held in (True, False):
        high, low = (0.9, 0.5) if held else (0.5, 0.9)
        for score in findings["auroc"]:
            first = score == "density"
            by_density, by_entropy = (high, low) if first else (low, high)
            findings["auroc"][score] = {"unknown": by_density, "ambiguous": by_entropy, "apart": by_density}
            findings["spearman"][score] = by_entropy
            findings["patches"][score] = {name: [by_density] * 19 for name in scene_segmentation.PATCHES}
        assert {one.passed for one in scene_segmentation.claims(findings)} == {held}


def test_unknown_pixels_are_always_wrong(scenes):
    """So that a score which marks them, and them alone, finds every inaccurate patch."""
    settings = {**SCENES["settings"], "window": 1}
    test = scene_segmentation._test_scenes(settings)
    right = np.where(test.labels >= 0, test.labels, 0)
    unknown = test.masks["unknown"].astype(float)
    noise = np.random.default_rng(0).uniform(0, 0.5, size=unknown.shape)
    found = scene_segmentation._patches(settings, test, right, unknown + noise)
    share = test.masks["unknown"].sum() / ((test.labels >= 0) | test.masks["unknown"]).sum()
    at = np.searchsorted(scene_segmentation._SHARES, share)
    assert found["uncertain_if_inaccurate"][at] > 0.99
    assert found["accurate_if_certain"][at] > 0.99


@pytest.mark.parametrize("name", ["gde-cifar10", "ddu-scenes"])
@pytest.mark.parametrize("full", [False, True])
def test_the_recipes_of_both_studies_are_whole(name, full):
    plan = load_plan(name, full=full)
    assert plan.name == name
    assert "minute" in plan.about
    if plan.study == "disagreement":
        assert plan.settings["members"] < 15, "more levels than bins"
