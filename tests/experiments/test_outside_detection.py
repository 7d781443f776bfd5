"""The study of inputs from elsewhere: measured once from data to page, and judged from what was measured."""

import json
import math

import numpy as np
import pytest

from natsel.experiments.recipe.plan import load_plan, plan_from
from natsel.experiments.running.run import run_plan
from natsel.experiments.studies import outside_detection as study
from natsel.experiments.studies.units import Units

TINY = {
    **{"set": "mnist", "networks": ["lenet"], "outside": ["uniform-noise", "blur-5"], "spectral": 3.0, "width": 4},
    **{"train": 300, "validation": 100, "test": 120, "epochs": 2, "batch": 32, "learning_rate": 0.02, "members": 2},
    **{"trials": 1, "baselines": 0, "seed": 0},
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outside")
    said = []
    return folder, study.run(TINY, Units(folder, tell=said.append), device="cpu"), said


@pytest.mark.needs_data("mnist")
def test_scores_of_one_and_of_all_members_are_compared(measured):
    _, findings, said = measured
    (row,) = findings["rows"]
    assert sum("training" in words for words in said) == 2
    assert {study.ENTROPY, study.DENSITY, study.ENSEMBLE, "energy", "neighbours", "last layer entropy"} <= set(
        row["auroc"]
    )
    assert all(0 <= value <= 1 for score in row["auroc"].values() for value in score.values())
    assert row["seconds"]["forward"] > 0
    assert json.loads(json.dumps(findings)) == findings


@pytest.mark.needs_data("mnist")
def test_nothing_is_trained_twice(measured):
    folder, findings, _ = measured
    said = []
    (folder / "units" / "lenet-0.json").unlink()  # killed before the row was written
    assert (
        study.run(TINY, Units(folder, tell=said.append), device="cpu")["rows"][0]["auroc"]
        == findings["rows"][0]["auroc"]
    )
    assert not any("training" in words for words in said)


@pytest.mark.needs_data("mnist")
def test_page_and_verdicts(measured):
    _, findings, _ = measured
    assert [verdict.claim for verdict in study.claims(findings)] == ["C1", "C2"]
    (section,) = study.sections(findings)
    assert "uniform-noise" in section[2]
    assert "<svg" in section[2]


def made(density, entropy, told, untold):
    """Findings about Dirty-MNIST with these AUROCs."""
    scores = {study.DENSITY: density, study.ENTROPY: entropy}
    row = {"network": "lenet", "auroc": {name: {"fashion": value} for name, value in scores.items()}}
    row |= {"ambiguous": {study.ENTROPY: told, study.DENSITY: untold}, "accuracy": 0.9, "ece": 0.01}
    row["quantiles"] = {"test": {study.DENSITY: list(np.linspace(0, 1, 41))}}
    return {"rows": [row], "set": "dirty-mnist", "members": 1}


def test_claims_of_dirty_mnist_by_hand():
    assert [each.passed for each in study.claims(made(0.995, 0.83, 0.98, 0.5))] == [True, True, True]
    assert [each.passed for each in study.claims(made(0.98, 0.91, 0.4, 0.5))] == [False, False, False]
    pages = study.sections(made(0.995, 0.83, 0.98, 0.5))
    assert [anchor for anchor, _, _ in pages] == ["auroc-lenet", "published"]


def test_rank_correlation_and_its_interval():
    rng = np.random.default_rng(0)
    human_N = rng.random(400)
    found = study._rank_correlation(human_N + 0.3 * rng.normal(size=400), human_N)
    assert found["low"] < found["rho"] < found["high"]
    assert study._rank_correlation(np.exp(human_N), human_N)["rho"] == pytest.approx(1)
    assert math.isclose(study._entropy(np.full((1, 4), 0.25))[0], math.log(4))


def test_recipes_are_whole_and_mistakes_are_refused():
    for name in ("ddu-dirty-mnist", "ddu-cifar10"):
        for full in (False, True):
            plan = load_plan(name, full=full)
            assert set(plan.settings) == set(TINY)
    wrong = {"name": "wrong", "study": "outside-detection", "settings": TINY | {"networks": ["resnet19"]}}
    with pytest.raises(ValueError, match=r"settings\.networks.*resnet19"):
        plan_from(wrong)


def test_a_set_from_outside_that_nobody_knows_is_refused_before_data_are_looked_for(tmp_path):
    strange = {"name": "strange", "study": "outside-detection", "settings": TINY | {"outside": ["svhn"]}}
    with pytest.raises(ValueError, match="there is no 'svhn' for mnist"):
        run_plan(plan_from(strange), tmp_path / "strange", device="cpu")


@pytest.mark.slow
@pytest.mark.needs_data("mnist")
def test_every_baseline_is_measured(tmp_path):
    settings = TINY | {"networks": ["resnet18-spectral"], "baselines": 1, "members": 1, "epochs": 1, "set": "mnist"}
    (row,) = study.run(settings, Units(tmp_path), device="cpu")["rows"]
    assert {"dropout entropy", "random-features information", "centroids"} <= set(row["auroc"])
