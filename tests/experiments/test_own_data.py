"""Recipes for the user's own files, models and folders: the same runs, found wherever the recipe lies."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import natsel
from natsel.data import Examples
from natsel.experiments.recipe.needs import in_words, needs, refuse_missing
from natsel.experiments.recipe.plan import load_plan, plan_from
from natsel.experiments.results.publish import publish
from natsel.experiments.running.build import build_data, build_model
from natsel.experiments.running.data_source import fingerprints, with_class_names
from natsel.experiments.running.run import run_plan
from natsel.store import Journal

TOML = """
name = "flowers"
k = 4
budget = 15
seeds = 1
methods = ["random", "bald"]
initial = { per_class = 1 }
[data]
file = "data/flowers.csv"
labels = "kind"
test = 0.3
[model]
kind = "python:flower_models.make_model"
parameters = { trees = 6 }
"""
MODULE = """
def make_model(facts, trees):
    from sklearn.ensemble import ExtraTreesClassifier
    assert (facts.classes, facts.kind, facts.inputs_shape) == (3, "table", (4,))
    return ExtraTreesClassifier(trees)
"""


def flowers(folder):
    """A recipe with its data and its module, as a user would have them."""
    iris = natsel.data.load("iris")
    inputs, labels = np.concatenate([iris.train.inputs, iris.test.inputs]), [*iris.train.labels, *iris.test.labels]
    kinds = [iris.train.classes[label] for label in labels]
    lines = [f"{','.join(map(str, row))},{kind}" for row, kind in zip(inputs, kinds, strict=True)]
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "flowers.csv").write_text("\n".join(["a,b,c,d,kind", *lines]) + "\n")
    (folder / "flower_models.py").write_text(MODULE)
    (folder / "flowers.toml").write_text(TOML)
    return folder / "flowers.toml"


@pytest.fixture(autouse=True)
def _paths_as_before():
    """Recipes that are run put their folders on the path."""
    before = list(sys.path)
    yield
    sys.path[:] = before
    sys.modules.pop("flower_models", None)


def test_a_file_beside_the_recipe_is_split_once_and_keeps_its_row_numbers(tmp_path):
    recipe = load_plan(flowers(tmp_path)).recipes[""].plugged_in()
    setting = build_data(recipe)
    assert (len(setting.examples), len(setting.test), setting.kind) == (105, 45, "table")
    rows = (tmp_path / "data" / "flowers.csv").read_text().splitlines()[1:]
    for id, label in zip(setting.ids[:5].tolist(), setting.examples.labels[:5].tolist(), strict=True):
        assert rows[id].endswith(setting.examples.classes[label])
    assert setting.ids.tolist() == build_data(recipe).ids.tolist()
    assert setting.ids.tolist() != build_data(replace(recipe, data=replace(recipe.data, seed=1))).ids.tolist()
    assert type(build_model(recipe, setting)).__name__ == "ExtraTreesClassifier"
    beside = replace(recipe, data=replace(recipe.data, test="data/flowers.csv"))
    assert (len(build_data(beside).examples), len(build_data(beside).test)) == (150, 150)


@pytest.mark.parametrize("processes", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_data_and_module_are_found_and_a_changed_file_is_noticed(tmp_path, monkeypatch, processes):
    monkeypatch.chdir(tmp_path)  # not where the recipe lies
    plan, out = load_plan(flowers(tmp_path / "mine")), tmp_path / "out"
    outcome = run_plan(plan, out, processes=processes, device="cpu")[""]
    assert not outcome.failed
    assert len(outcome.done) == 2
    assert publish(out).experiment.classes == ("setosa", "versicolor", "virginica")
    (tmp_path / "mine").rename(tmp_path / "moved")  # what it holds counts, not where it lies
    moved = load_plan(tmp_path / "moved" / "flowers.toml")
    assert len(run_plan(moved, out)[""].skipped) == 2
    with (tmp_path / "moved" / "data" / "flowers.csv").open("a") as file:
        file.write("1,2,3,4,setosa\n")
    with pytest.raises(ValueError, match=r"^data\.file: .*flowers\.csv has changed since the runs in .*out were made"):
        run_plan(moved, out)
    assert json.loads((out / "recipe.json").read_text())["fingerprints"] != fingerprints(moved.recipes[""])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('"data/flowers.csv"', '"data/flower.csv"'), r"^data\.file: there is no file .*flower\.csv"),
        (('labels = "kind"', 'labels = "sort"'), r"^data\.labels: there is no 'sort'"),
        (('labels = "kind"', ""), r"^data\.labels: flowers\.csv has no labels; say which column"),
        (("test = 0.3", "test = [5, 5, 5]"), r"^data\.test: a list counts rows of each class of a set"),
        (("test = 0.3", "test = 150"), r"^data\.test: asked for 150 of 150 rows"),
        (("flower_models.make", "flower_modells.make"), r"^model\.kind: flower_modells could not be imported"),
        (("make_model", "make_modell"), r"^model\.kind: flower_models has no 'make_modell'"),
        (("trees = 6", "tree = 6"), r"^model\.parameters: flower_models.make_model does not take them"),
        (("parameters = { trees", "members = 3\nparameters = { trees"), None),
    ],
)
def test_what_is_wrong_with_ones_own_files_is_said(tmp_path, change, words):
    path = flowers(tmp_path)
    path.write_text(path.read_text().replace(*change))
    recipe = load_plan(path).recipes[""].plugged_in()
    if words is None:
        assert build_model(recipe, build_data(recipe)).members == 3
        return
    with pytest.raises(ValueError, match=words):
        build_model(recipe, build_data(recipe))


def test_estimators_by_import_path_take_parameters_members_and_smoothing():
    base = {"name": "a", "data": {"set": "iris"}, "methods": ["bald"], "budget": 20}
    boosted = {"kind": "sklearn.ensemble.HistGradientBoostingClassifier", "parameters": {"max_iter": 5}}
    recipe = plan_from(base | {"model": boosted | {"smoothing": 0.1}}).recipes[""]
    model = build_model(recipe, build_data(recipe))
    assert (model.estimator.max_iter, model.members, model.smoothing) == (5, 20, 0.1)
    plain = replace(recipe, model={"kind": "sklearn.linear_model.LogisticRegression"})
    assert type(build_model(plain, build_data(recipe))).__name__ == "LogisticRegression"


def test_numbers_to_predict_and_rows_without_a_label(tmp_path):
    rows = [f"{x},{'' if x == 3 else x * 0.5}" for x in range(60)]
    (tmp_path / "line.csv").write_text("x,y\n" + "\n".join(rows) + "\n")
    (tmp_path / "line.toml").write_text(
        'name = "line"\nk = 4\nbudget = 12\nseeds = 1\nmethods = ["random", "bald"]\ninitial = {count = 4}\n'
        'targets = [5.0]\n[data]\nfile = "line.csv"\nlabels = "y"\nregression = true\n'
        '[model]\nkind = "forest"\ntrees = 5\n'
    )
    plan = load_plan(tmp_path / "line.toml")
    assert 3 not in build_data(plan.recipes[""]).ids
    outcome = run_plan(plan, tmp_path / "out", processes=0, device="cpu")[""]  # by this process
    assert len(outcome.done) == 2
    assert publish(tmp_path / "out").experiment.metric == "rmse"
    per_class = plan_from(
        {"name": "a", "data": {"set": "diabetes"}, "model": {"kind": "forest"}, "methods": ["bald"], "budget": 20}
        | {"initial": {"per_class": 1}}
    )
    with pytest.raises(ValueError, match=r"^initial\.per_class: labels are real numbers"):
        run_plan(per_class, tmp_path / "other", processes=0)


def test_this_process_does_what_workers_do_and_ends_in_time(tmp_path):
    plan = plan_from(
        {"name": "a", "data": {"set": "iris"}, "model": {"kind": "forest", "trees": 5}, "methods": ["random", "ig"]}
        | {"budget": 9, "k": 3, "seeds": 1, "initial": {"per_class": 1}}
    )
    left = run_plan(plan, tmp_path, processes=0, minutes=0)[""]
    assert len(left.left) == 2
    events = []
    outcome = run_plan(plan, tmp_path, processes=0, progress=lambda variant: events.append)[""]
    kinds = [event["event"] for event in events if event["method"] == "random"]
    assert kinds == ["ready", "start", "round", "round", "round", "done"]
    assert [job.method for job in outcome.done] == ["random"]
    assert "labels" in next(iter(outcome.failed.values()))
    assert "Traceback" in (tmp_path / "logs" / "this-process.log").read_text()


def test_whole_numbers_that_do_not_count_are_names_of_classes():
    two = with_class_names(Examples(np.zeros((4, 1)), np.array([-1, 1, 1, -1])))
    assert (two.labels.tolist(), two.classes) == ([0, 1, 1, 0], ("-1", "1"))
    wine = with_class_names(Examples(np.zeros((4, 1)), np.array([5, 7, -1, 7])))
    assert (wine.labels.tolist(), wine.classes) == ([0, 1, -1, 1], ("5", "7"))
    numbers = Examples(np.zeros((2, 1)), np.array([0.5, 1.0]))
    assert with_class_names(numbers) is numbers


def test_needs_are_named_before_anything_starts(tmp_path, monkeypatch):
    assert needs(load_plan("digits")) == []
    monkeypatch.setattr(natsel.data.folders, "data_folders", lambda folder=None: (tmp_path,))
    with pytest.raises(ValueError, match=r"^needs: the data set mnist is missing: natsel data get mnist$"):
        refuse_missing(needs(load_plan("mnist")))
    with pytest.raises(ValueError, match="natsel data get mnist"):
        refuse_missing(needs(load_plan("obi-mnist")))  # a study
    path = flowers(tmp_path / "mine")
    found = needs(load_plan(path))
    assert in_words(found).endswith("flowers.csv, the module flower_models.")
    refuse_missing(found)
    path.write_text(path.read_text().replace("flower_models.", "no_such_module."))
    with pytest.raises(ValueError, match="the module no_such_module is missing: install it, or put it into"):
        refuse_missing(needs(load_plan(path)))


def test_ids_of_the_file_are_those_in_the_journal(tmp_path):
    path = flowers(tmp_path)
    lines = (tmp_path / "data" / "flowers.csv").read_text().splitlines()
    named = ["flower," + lines[0], *(f"F{number:03}," + line for number, line in enumerate(lines[1:]))]
    (tmp_path / "data" / "flowers.csv").write_text("\n".join(named) + "\n")
    path.write_text(path.read_text().replace('labels = "kind"', 'labels = "kind"\nids = "flower"'))
    run_plan(load_plan(path).adjusted(methods="random"), tmp_path / "out", processes=0)
    with Journal(tmp_path / "out" / "random" / "seed-0.db", create=False) as journal:
        asked = [id for one in journal.rounds(journal.runs()[0].run) for ask in one.asks for id in ask.ids]
    assert all(str(id).startswith("F") for id in asked)
    curve = publish(tmp_path / "out").experiment.curves[0]
    assert set(curve.acquired) == set(map(str, asked))


def test_reading_a_recipe_of_ones_own_needs_no_torch(tmp_path):
    code = f"import sys; from natsel.experiments.recipe.plan import load_plan; load_plan({str(flowers(tmp_path))!r});"
    source = str(Path(natsel.__file__).parents[1])
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": source})
