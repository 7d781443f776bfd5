"""`natsel run` and `natsel report`: a recipe becomes curves, a page and a sentence; what goes wrong is said."""

import json
import os
import re

import pytest

from natsel.cli.live import Board, live, sparkline
from natsel.experiments.recipe.plan import load_plan, recipe_names
from natsel.experiments.recipe.recipe import Recipe
from natsel.experiments.running.worker_pool import WorkerPool

TOML = """
name = "small"
k = 4
budget = 11
seeds = 2
methods = ["random", "bald"]
targets = [0.5, 0.7]
initial = {per_class = 1}
data = {set = "iris"}
model = {kind = "forest", trees = 10}
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    (folder / "small.toml").write_text(TOML)
    return folder


def test_from_a_mistyped_recipe_to_a_page(small, call, refused, monkeypatch):
    """A mistyped method costs nothing: the same folder then serves the recipe as it was meant."""
    out = small / "out"
    options = ("--folder", out, "--processes", 1)
    assert "methods[0]: no method is called 'bold'" in refused(
        "run", small / "small.toml", "--methods", "bold", *options
    )
    chosen = ("--methods", "random,bald", "--seeds", "0-1")
    done = call("run", small / "small.toml", *chosen, *options, "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["finished"] == 4
    assert result["failed"] == []
    assert result["methods"]["bald"]["labels"] == [11, 11]
    assert {(row["method"], row["target"]) for row in result["labels_needed"]} == {
        (method, target) for method in ("random", "bald") for target in (0.5, 0.7)
    }
    assert len(re.findall("finished in", done.err)) == 4
    page = (out / "report.html").read_text(encoding="utf-8")
    assert result["sentence"].split(" with ")[0] in page.replace("\u00a0", " ")
    assert "natsel run" in page
    assert json.loads((out / "experiment.json").read_text())["name"] == "small"

    monkeypatch.setenv("COLUMNS", "80")
    again = call("run", small / "small.toml", "--folder", out)  # all there: no process is started
    assert again.code == 0
    assert result["sentence"] in again.out
    assert max(map(len, again.out.splitlines()[:8])) <= 80
    assert "bald" in again.out
    report = call("report", out, "--out", small / "page.html", "--json")
    assert json.loads(report.out)["sentence"] == result["sentence"]
    assert (small / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "k: " in refused("run", _other(small, "k = 4", "k = 5"), "--folder", out)


def test_an_interruption_is_130_and_says_that_nothing_is_lost(small, call, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(WorkerPool, "work", interrupted)
    done = call("run", small / "small.toml", "--folder", small / "broken-off")
    assert done.code == 130
    assert "no label is lost" in done.err


def test_runs_that_fail_make_exit_code_one(small, call, monkeypatch):
    def fail(self, report, deadline):
        failed = {}
        while not self.jobs.empty():
            job = self.jobs.get()
            failed[job] = "it was not to be"
            report({"event": "failed", "error": failed[job], **job.named()})
        return [], failed

    monkeypatch.setattr(WorkerPool, "work", fail)
    done = call("run", small / "small.toml", "--folder", small / "failing")
    assert (done.code, done.out) == (1, "")
    assert done.err.count("warning: ") == 4
    assert "bald seed 1 failed: it was not to be" in done.err
    found = json.loads(call("run", small / "small.toml", "--folder", small / "failing", "--json").out)
    assert {entry["method"] for entry in found["failed"]} == {"random", "bald"}


def test_when_the_time_is_up_the_exit_code_is_one_and_the_same_command_goes_on(small, call, monkeypatch):
    monkeypatch.setattr(WorkerPool, "work", lambda self, report, deadline: ([], {}))
    done = call("run", small / "small.toml", "--folder", small / "short", "--minutes", 0)
    assert (done.code, done.out) == (1, "")
    assert "warning: folder: " in done.err


def test_the_list_of_recipes(call):
    listed = call("run", "--list")
    assert all(name in listed.out for name in recipe_names())
    assert "natsel[pretrained]" in " ".join(listed.out.split())
    assert [entry["name"] for entry in json.loads(call("run", "--list", "--json").out)] == recipe_names()


def test_bad_input_is_refused(refused, tmp_path):
    assert "recipe: name one" in refused("run")
    assert "did you mean 'digits'?" in refused("run", "digit")
    assert "no such key" in refused("run", _other(tmp_path, "k = 4", "kk = 4"))
    assert "seeds: found 'two'" in refused("run", "digits", "--seeds", "two")
    assert "methods: found none" in refused("run", "digits", "--methods", ",")
    assert "budget: 3 labels are no more" in refused(
        "run", _other(tmp_path, "per_class = 1", "count = 5"), "--budget", 3
    )
    assert "holds no recipe.json" in refused("report", tmp_path)
    assert "seeds: '4-2' counts down" in refused("run", "digits", "--seeds", "4-2")
    (tmp_path / "file").write_text("mine")
    assert "is a file, or lies in one; name a folder" in refused("run", "digits", "--folder", tmp_path / "file")


def test_a_report_says_what_lies_there_instead_of_an_experiment(refused, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "empty").touch()
    sentences = {
        "notes.txt": "is a file and no folder",
        "empty": "is a file and no folder",
        "nothing": f"there is no folder {tmp_path / 'nothing'}",
        ".": "holds no recipe.json",
    }
    for name, sentence in sentences.items():
        found = refused("report", tmp_path / name)
        assert sentence in found
        assert "name the folder of an experiment, which natsel run makes, or the journal of a learner" in found


def test_the_board_shows_medians_over_seeds():
    recipe = Recipe.from_table({"name": "a", "data": {"set": "iris"}, "model": {"kind": "forest"}, "seeds": 3,
                          "methods": ["random", "bald"], "budget": 30})  # fmt: skip
    board = Board(recipe)
    for seed, accuracy in enumerate((0.2, 0.5, 0.9)):
        for labels in (10, 20):
            event = {"event": "round", "method": "bald", "seed": seed, "labels": labels}
            board.take(event | {"metrics": {"accuracy": accuracy / (30 // labels)}})
    board.take({"event": "done", "method": "bald", "seed": 0, "seconds": 1.0})
    assert board.row("bald") == ("1/3", "20/30", "50.0%", "▂▅")  # from 0.07 (▁) to 0.9 (█)
    assert board.row("random") == ("0/3", "", "", "")
    board.take({"event": "failed", "method": "bald", "seed": 1, "error": "x"})
    assert board.row("bald")[0] == "2/3 !"
    assert board.table().row_count == 2


def test_sparklines_keep_their_width():
    assert sparkline([0.0, 1.0], 0.0, 1.0) == "▁█"
    assert sparkline([2.0, 2.0]) == "▁▁"
    assert len(sparkline([float(value) for value in range(500)], width=30)) == 30


def test_off_a_terminal_progress_is_lines(capsys):
    recipe = load_plan("digits").recipes[""]
    with live(recipe) as progress:
        named = {"method": "bald", "seed": 0}
        progress({"event": "round", "labels": 10, "metrics": {"accuracy": 0.5}, "seconds": {}, **named})
        progress({"event": "done", "seconds": 3.2, **named})
        progress({"event": "failed", "error": "no luck", **named})
    assert capsys.readouterr().err.splitlines() == ["bald seed 0: finished in 3 s", "bald seed 0 failed: no luck"]


def _other(folder, old, new):
    path = folder / f"other-{abs(hash((old, new)))}.toml"
    path.write_text(TOML.replace(old, new))
    return os.fspath(path)


def test_a_study_and_a_plan_from_the_command_line(call, refused, in_process, tmp_path):
    done = call("run", "epig-1d", "--folder", tmp_path / "line", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert [one["verdict"] for one in found["claims"]] == ["pass"] * 5
    assert "5 of 5 claims held" in call("report", tmp_path / "line").out
    assert "is a study" in refused("run", "epig-1d", "--seeds", "0")
    plan = TOML + (
        '[variants.few]\nbudget = 7\n[variants.many]\n[[claims]]\nclaim = "A"\nsays = "bald is above random"\n'
        'method = "bald"\nthan = "random"\n'
    )
    (tmp_path / "plan.toml").write_text(plan)
    done = call("run", tmp_path / "plan.toml", "--variants", "few", "--folder", tmp_path / "out", "--processes", 1)
    assert done.code == 0, done.err
    assert "small: few" in done.err
    assert " A  few: bald is above random: " in done.out
    assert "The report: " in done.out
    assert not (tmp_path / "out" / "many").exists()
    assert set(json.loads(call("report", tmp_path / "out", "--json").out)["variants"]) == {"few"}
    assert "did you mean 'many'?" in refused("run", tmp_path / "plan.toml", "--variants", "mny")
    assert "holds variants of a recipe, or a study" in refused("run", "digits", "--folder", tmp_path / "out")
