"""Learners hand methods that read a geometry the one of their model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

import natsel
from natsel import ActiveClassifier, ActiveLearner, Pool, TargetInputs
from natsel.beliefs import Targets
from natsel.beliefs.geometry import Geometry
from natsel.seeds import derive
from natsel.store import Journal

INPUTS, LABELS = load_iris(return_X_y=True)
METHODS = ["reach", "uherding"]


def forest() -> RandomForestClassifier:
    return RandomForestClassifier(15, min_samples_leaf=2)


def learner_of(method: str, labelled: Any = slice(None, None, 15), model: Any = None, **options: Any) -> ActiveLearner:
    pool = Pool(INPUTS, answers=LABELS, classes=("a", "b", "c"))
    learner = ActiveLearner(forest() if model is None else model, pool, method, 5, **options)
    learner.tell(pool.ids[labelled], LABELS[labelled])
    return learner


@pytest.mark.parametrize("method", METHODS)
def test_a_learner_chooses_in_the_geometry_of_its_model_given_the_labels(method: str) -> None:
    learner = learner_of(method)
    asked = learner.ask()
    free = np.setdiff1d(np.arange(150), np.arange(150)[::15])
    pool, given = natsel.models.ModelAdapter(learner.model).geometry(INPUTS[free], INPUTS[::15])
    seed = derive(0, "select", 1)
    assert asked.ids.tolist() == natsel.select(method, pool.with_ids(free), 5, given=given, seed=seed).ids.tolist()
    assert isinstance(asked.picked, Geometry)
    assert not [warning for warning in asked.warnings if "ties" not in warning]


@pytest.mark.parametrize("method", METHODS)
def test_targets_of_the_user_and_their_weights_are_used(method: str) -> None:
    where = np.flatnonzero(LABELS == 2)
    weights = np.ones(len(where))
    weights[0] = 50
    targets = TargetInputs(INPUTS[where], weights=weights)
    learner = learner_of(method, targets=targets)
    asked = learner.ask()
    free = np.setdiff1d(np.arange(150), np.arange(150)[::15])
    pool, given, about = natsel.models.ModelAdapter(learner.model).geometry(INPUTS[free], INPUTS[::15], INPUTS[where])
    chosen = natsel.select(
        method, pool.with_ids(free), 5, given=given, targets=Targets(about, weights), seed=derive(0, "select", 1)
    )
    assert asked.ids.tolist() == chosen.ids.tolist()
    assert asked.ids.tolist() != learner_of(method).ask().ids.tolist()


def test_the_pool_as_targets_is_what_there_is_without_any() -> None:
    assert learner_of("reach", targets="pool").ask().ids.tolist() == learner_of("reach").ask().ids.tolist()


def test_costs_and_candidates_are_looked_at() -> None:
    cheap = np.where(np.arange(150) % 2, 1.0, 1000.0)
    assert (learner_of("reach", costs=cheap).ask().ids % 2 == 1).all()
    asked = learner_of("uherding", candidates=30).ask()
    assert len(set(asked)) == 5


def test_only_one_class_so_far_is_said_and_coverage_goes_on() -> None:
    asked = learner_of("reach", slice(10)).ask()
    assert any("apart: they are compared by their inputs" in one for one in asked.warnings)
    assert any("sure of every target" in one for one in asked.warnings)
    assert len(set(LABELS[asked.ids])) > 1  # and no longer the one class


def test_boosted_trees_below_their_least_leaf_cover_the_inputs() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    learner = learner_of("reach", model=lightgbm.LGBMClassifier(n_estimators=3, verbose=-1))
    asked = learner.ask()
    assert asked.warnings == ("nothing learnt yet that tells points apart: they are compared by their inputs",)
    assert len(set(asked)) == 5
    assert asked.scores[0] > asked.scores[-1] > 0


def test_figures_that_are_no_nats_are_not_recorded_as_such(tmp_path: Path) -> None:
    learner = learner_of("reach", store=tmp_path / "run.db")
    first = learner.ask()
    picks = learner.history[-1].asks[0].picks
    assert [pick.epistemic for pick in picks] == [None] * 5
    assert [pick.score for pick in picks] == first.scores.tolist()
    learner.close()
    again = ActiveLearner(forest(), Pool(INPUTS, answers=LABELS, classes=("a", "b", "c")), store=tmp_path / "run.db")
    assert again.method.name == "reach"
    assert again.ask().ids.tolist() == first.ids.tolist()


def test_estimators_that_ask_choose_in_the_geometry_too() -> None:
    active = ActiveClassifier(forest(), "reach", 4, random_state=0).fit(INPUTS[::15], LABELS[::15])
    rest = np.setdiff1d(np.arange(150), np.arange(150)[::15])
    asked = active.ask(INPUTS[rest])
    assert isinstance(asked.picked, Geometry)
    assert len(set(asked)) == 4
    assert asked.ids.tolist() != active.ask(INPUTS[rest], targets=INPUTS[100:]).ids.tolist()


def test_comparisons_hand_targets_on_to_a_method_that_can_do_without(tmp_path: Path) -> None:
    pool = Pool(INPUTS, answers=LABELS, classes=("a", "b", "c"))
    known: dict[str, Any] = {"methods": "reach", "k": 2, "initial": 3, "budget": 5, "seeds": 1, "targets": INPUTS[100:]}
    natsel.compare(RandomForestClassifier(3), pool, folder=tmp_path / "run", **known)
    with Journal(tmp_path / "run" / "reach" / "seed-0.db") as journal:
        assert journal.runs()[0].terms.config["targets"]["kind"] == "set"


def test_a_method_reads_a_geometry_where_nothing_else_serves_it() -> None:
    named = natsel.methods()
    assert [name for name in METHODS if named[name].reads_geometry] == METHODS
    assert not any(named[name].reads_geometry for name in ("lcmd", "bait", "random", "bald", "el2n"))


@pytest.mark.parametrize("method", ["bait", "lcmd", "core-set", "facility-location", "logdet", "badge-dpp"])
def test_other_methods_read_the_geometry_of_a_model_as_a_view(method: str) -> None:
    pool, given = (
        natsel.models.ModelAdapter(forest())
        .fit((INPUTS[::15], LABELS[::15]), seed=0)
        .geometry(INPUTS[1::15], INPUTS[::15])
    )
    known: dict[str, Any] = {"targets": pool} if method == "bait" else {}
    known |= {"given": given} if method in ("lcmd", "core-set") else {}
    assert len(set(natsel.select(method, pool, 3, **known))) == 3
    assert torch.isfinite(natsel.select(method, pool, 3, **known).scores).all()
