"""A study obeys `--minutes`: it ends the measurement it is at, and the same call goes on there."""

import json

import numpy as np
import pytest

import natsel.data.folders
from natsel.experiments.recipe.needs import needs, refuse_missing
from natsel.experiments.recipe.plan import load_plan, plan_from, recipe_names
from natsel.experiments.running.run import run_plan
from natsel.experiments.studies import units
from natsel.experiments.studies.units import TimeIsUp, Units

STUDIES = [name for name in recipe_names() if load_plan(name).study]
SETTINGS = {"set": "synthetic", "methods": ["random", "mu-rho-bald"], "search": "top", "seed": 0}
SMALL = plan_from({
    "name": "small", "study": "causal-acquisition",
    "settings": SETTINGS | {"pool": 30, "start": 4, "k": 2, "labels": 8, "trials": 3},
})  # fmt: skip


@pytest.fixture
def nothing(tmp_path, monkeypatch):
    """A machine without any data set."""
    monkeypatch.setattr(natsel.data.folders, "data_folders", lambda folder=None: (tmp_path,))


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_without_time_measures_nothing_and_reads_no_data(name, tmp_path, nothing):
    (outcome,) = run_plan(load_plan(name), tmp_path, minutes=0).values()
    assert (len(outcome.left), outcome.finished) == (1, 0)
    assert not list((tmp_path / "units").iterdir())


def test_a_study_that_is_broken_off_by_the_clock_finds_the_same(tmp_path, monkeypatch):
    def findings(name, minutes=None):
        left = run_plan(SMALL, tmp_path / name, minutes=minutes)
        held = sorted(path.name for path in (tmp_path / name / "units").iterdir())
        return left, held, json.loads((tmp_path / name / "study.json").read_text())["findings"]

    left, every, whole = findings("whole")
    assert (left, len(every)) == ({}, 6)
    clock = iter([0.0, 0.0, 1.0, 2.0, 59.0, 60.0])
    with monkeypatch.context() as patch:
        patch.setattr(units.time, "monotonic", lambda: next(clock))
        left, some, found = findings("part", 1)
    assert (len(left[""].left), some, found) == (1, ["0-mu-rho-bald.json", "0-random.json", "1-random.json"], None)
    left, held, found = findings("part")
    assert (left, held, found["rows"]) == ({}, every, whole["rows"])
    assert findings("part", 0)[0] == {}, "what is measured needs no time"


def test_what_is_chosen_before_the_first_measurement_obeys_too(tmp_path):
    """The labels of online inference are chosen in rounds, and the clock is looked at after each."""
    place = Units(tmp_path, deadline=0.0)
    with natsel.ActiveLearner(_Constant(), natsel.Pool(np.zeros((9, 1)), answers=np.arange(9) % 2), "random", 1) as run:
        with pytest.raises(TimeIsUp):
            run.run(6, stop=lambda view: place.go_on())
        assert run.n_labelled == 0


class _Constant:
    def fit(self, labelled, validation=None, seed=0):
        return self

    def believe(self, inputs):
        return natsel.CategoricalSamples.from_probs(np.full((len(inputs), 2, 2), 0.5))


def test_a_study_thrown_away_begins_again(tmp_path):
    run_plan(SMALL, tmp_path)
    kept = tmp_path / "units" / "0-random.json"
    kept.write_text("{}")
    run_plan(SMALL, tmp_path, fresh=True)
    assert json.loads(kept.read_text())["method"] == "random"


def test_the_command_ends_with_one_and_says_that_it_goes_on(tmp_path, capsys):
    from natsel.cli import main

    command = ["run", "causal-synthetic", "--folder", str(tmp_path / "out"), "--minutes", "0"]
    assert main(command) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "has found nothing yet; natsel run goes on with it" in said.err


@pytest.mark.parametrize("name", ["rho-cifar10n", "label-errors-cifar10n", "ddu-cifar10"])
def test_what_no_command_fetches_is_said_before_anything_else(name, nothing):
    with pytest.raises(
        ValueError, match=r"^needs: the file cifar10_human_labels\.npz is missing: no command fetches it"
    ):
        refuse_missing(needs(load_plan(name)))


def test_all_sets_that_are_missing_are_fetched_by_one_command(nothing):
    with pytest.raises(ValueError, match=r"the data set fashion are missing: natsel data get mnist fashion$"):
        refuse_missing(needs(load_plan("epig-junk")))
    with pytest.raises(ValueError, match=r"natsel data get dirty-mnist fashion kmnist notmnist$"):
        refuse_missing(needs(load_plan("ddu-dirty-mnist")))  # those from outside too


def test_the_list_says_which_recipes_need_nothing(nothing, capsys):
    from natsel.cli import main

    main(["run", "--list", "--json"])
    bare = [one["name"] for one in json.loads(capsys.readouterr().out) if not one["needs"]]
    assert bare == ["badge-digits", "causal-synthetic", "ddu-scenes", "digits", "epig-1d", "epig-2d"]
    main(["run", "--list"])
    said = " ".join(capsys.readouterr().out.split())
    assert f"{len(bare)} of {len(recipe_names())} run with nothing downloaded: {', '.join(bare)}" in said
    assert "needs the data set cifar10, natsel[pretrained]" in said
