"""The ladder of approximations of RHO-LOSS: measured once from data to page, and judged from what was measured."""

import copy
import json

import numpy as np
import pytest
import torch

import natsel
from natsel.data import load
from natsel.experiments.recipe.plan import load_plan, plan_from
from natsel.experiments.results.publish import publish
from natsel.experiments.running.run import run_plan
from natsel.experiments.studies import approximation_ladder as study
from natsel.experiments.studies.units import Units

TINY = {
    **{"pool": 300, "held_out": 200, "noise": 0.1, "candidates": 100, "keep": 0.1, "sequences": ["own", "gold"]},
    **{"members": 2, "hidden": 8, "small_hidden": 4, "learning_rate": 0.01, "weight_decay": 0.01, "batch": 50},
    **{"epochs": 2, "enough": 0.01, "copies": 2, "irreducible_epochs": 2, "trials": 1, "seed": 0},
}
NAMES = [rung.name for rung in study.RUNGS]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    digits = load("mnist")
    folder = tmp_path_factory.mktemp("ladder")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(natsel.data, "load", lambda name: digits)  # read once
        run_plan(plan_from({"name": "tiny", "study": "approximation-ladder", "settings": TINY}), folder, device="cpu")
        yield folder, json.loads((folder / "study.json").read_text())["findings"]


@pytest.mark.needs_data("mnist")
def test_each_rung_is_compared_on_each_batch(measured):
    folder, findings = measured
    rows = findings["rows"]
    assert [(row["sequence"], row["rung"]) for row in rows] == [
        (one, name) for one in ("own", "gold") for name in NAMES
    ]
    assert all(len(row[name]) == 3 for row in rows for name in ("correlation", "common", "noisy"))
    own, gold = ({row["rung"]: row["correlation"] for row in part} for part in (rows[:4], rows[4:]))
    # The first batch is scored before any rung was trained, by the same two networks but for the small one.
    assert own["one-network"][0] == own["not-converged"][0] == own["frozen-il"][0] == gold["frozen-il"][0]
    assert own["small-il"][0] != own["frozen-il"][0]
    # After it they differ: by convergence, by updates of the IL model, by the points trained on.
    seconds = {own["one-network"][1], own["not-converged"][1], own["frozen-il"][1], gold["frozen-il"][1]}
    assert len(seconds) == 4
    with np.load(folder / "units" / "0-gold-ensemble.npz") as held:
        assert held["score_T_B"].shape == (3, 100)
        assert len(np.unique(held["top_T_b"])) == 30  # no point is a candidate twice
    page = publish(folder).page.read_text(encoding="utf-8")
    assert page.count('class="chart wide"') == 2
    assert "Mindermann" in page


@pytest.mark.needs_data("mnist")
def test_nothing_is_trained_twice(measured, monkeypatch):
    folder, findings = measured
    (folder / "units" / "0-gold-frozen-il.json").unlink()  # killed before the row was written
    monkeypatch.setattr(study._Networks, "converge", lambda *given: pytest.fail("the gold ensemble was kept"))
    assert study.run(TINY, Units(folder), device="cpu") == findings
    monkeypatch.setattr(study, "_data", lambda *given: pytest.fail("everything was measured"))
    assert study.run(TINY, Units(folder), device="cpu") == findings


def test_networks_learn_and_their_copies_learn_by_themselves():
    generator = torch.Generator().manual_seed(0)
    inputs_N_D = torch.randn(60, 5, generator=generator)
    points = study._Labelled(inputs_N_D, (inputs_N_D[:, 0] > 0).long())
    networks = study._Networks(TINY, points, 2, 8, seed=0)
    before = networks.losses(points)
    other = copy.deepcopy(networks)
    other.converge(points, 20)
    np.testing.assert_array_equal(networks.losses(points), before)
    assert other.losses(points).mean() < 0.5 * before.mean()
    probs_K_N = np.exp(-np.stack([study._losses([module], points).numpy() for module in networks.modules]))
    np.testing.assert_allclose(before, -np.log(probs_K_N.mean(0)), rtol=1e-6)  # not the mean of the losses

    # The judge has the opposite labels: every further epoch raises its loss, and all but the first are taken back.
    judge = study._Labelled(inputs_N_D, 1 - points.labels_N)
    once, often = copy.deepcopy(other), copy.deepcopy(other)
    once.converge_for(judge, points, 1)
    often.converge_for(judge, points, 9)
    np.testing.assert_array_equal(once.losses(points), often.losses(points))


def made(own, gold):
    """Findings of two trials with these correlations of the four rungs."""
    rows = [
        {"trial": trial, "sequence": sequence, "rung": name, "correlation": [value - 0.05, value + 0.05]}
        | {"common": [0.5, 0.5], "noisy": [0.0, 0.1]}
        for trial in range(2)
        for sequence, values in (("own", own), ("gold", gold))
        for name, value in zip(NAMES, values, strict=True)
    ]
    return {"rows": rows, "gold": [{"trial": 0, "noisy": [0.0, 0.0]}], "trials": 2, "candidates": 9, "noise": 0.1}


@pytest.mark.parametrize(
    ("own", "gold", "held"),
    [
        ((0.75, 0.76, 0.63, 0.51), (0.9, 0.85, 0.8, 0.7), True),
        ((-0.1, -0.3, -0.1, -0.05), (-0.2, -0.4, -0.2, -0.06), False),
    ],
)
def test_claims_hold_and_fail(own, gold, held):
    verdicts = study.claims(made(own, gold))
    assert len(verdicts) == 8 + 3 + 4 + 3 + 4
    assert [one.passed for one in verdicts] == [held] * len(verdicts)
    body = study.sections(made(own, gold) | {"members": 5})[0][2]
    assert f"{own[1]:.3f}" in body
    assert "0.76" in body


def test_the_recipe_is_whole_and_mistakes_are_refused(tmp_path):
    for full in (False, True):
        settings = load_plan("rho-ladder", full=full).settings
        assert set(settings) == set(TINY)
        assert (settings["members"], settings["hidden"], settings["small_hidden"]) == (5, 512, 256)
        assert settings["pool"] % settings["candidates"] == 0
    with pytest.raises(ValueError, match="candidates: expected 2 or more that divide the 300 points"):
        study.run(TINY | {"candidates": 70}, Units(tmp_path))
