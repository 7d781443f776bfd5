"""Experiments from recipe to curves: the same whatever breaks off, side by side, and each failure its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import natsel
from natsel.cli import main
from natsel.experiments.recipe.contenders import Contender
from natsel.experiments.recipe.plan import Plan, load_plan
from natsel.experiments.recipe.recipe import Recipe
from natsel.experiments.results.from_journals import read_experiment
from natsel.experiments.results.publish import publish
from natsel.experiments.running.build import build_data, build_model, initial_ids
from natsel.experiments.running.folder import (
    Job,
    finished,
    journal_path,
    locked,
    prepare,
    read_object,
    read_outcome,
    write_outcome,
)
from natsel.experiments.running.job import Runner
from natsel.experiments.running.run import run_plan
from natsel.experiments.running.worker_pool import WorkerPool

SMALL = {
    "name": "small",
    "about": "iris, for tests",
    "data": {"set": "iris"},
    "model": {"kind": "forest", "trees": 10},
    "methods": ["random", {"method": "power-bald", "beta": 4}],
    "initial": {"per_class": 1},
    "k": 4,
    "budget": 15,
    "seeds": 2,
    "targets": [0.8],
}
RECIPE = Recipe.from_table(SMALL)
SOURCE = str(Path(natsel.__file__).parents[1])


def run(recipe, folder, *, progress=None, **options):
    """The outcome of a plan of one recipe."""
    return run_plan(Plan.of(recipe), folder, progress=progress and (lambda variant: progress), **options)[""]


def curves(folder):
    return {(curve.method, curve.seed): curve for curve in read_experiment(folder).curves}


def workers(monkeypatch, script):
    """Let processes that do something simpler stand in for the workers."""

    def started(self, slot):
        with self._log(slot).open("a") as log:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
            return subprocess.Popen([sys.executable, "-c", script, self.folder], text=True, **pipes)

    monkeypatch.setattr(WorkerPool, "_started", started)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """All jobs of the small recipe, done in this process without a break."""
    folder = tmp_path_factory.mktemp("straight")
    prepare(folder, RECIPE)
    runner = Runner(RECIPE, folder)
    events = []
    for method in RECIPE.methods:
        for seed in RECIPE.seeds:
            runner.do(method, seed, RECIPE.budget, events.append)
    return folder, events


def test_a_job_goes_from_initial_labels_to_the_budget(straight):
    folder, events = straight
    assert [event["labels"] for event in events[:4]] == [3, 7, 11, 15]
    assert all(0 <= event["metrics"]["accuracy"] <= 1 for event in events)
    assert set(events[1]["seconds"]) == {"fit", "evaluate", "believe", "select"}
    found = curves(folder)
    assert set(found) == {(method, seed) for method in ("random", "power-bald β=4") for seed in (0, 1)}
    for curve in found.values():
        assert curve.sizes == (3, 7, 11, 15)
        assert len(set(curve.initial.ids) | set(curve.acquired)) == 15
        assert sorted(curve.initial.labels) == [0, 1, 2]
        assert [len(batch.ids) for batch in curve.batches] == [4, 4, 4]
        assert all(min(batch.epistemic) >= 0 for batch in curve.batches)
        assert "budget" in curve.stopped
    assert [event["metrics"]["accuracy"] for event in events[:4]] == list(found["random", 0].metrics["accuracy"])


def test_all_methods_of_a_seed_start_alike_and_seeds_do_not(straight):
    found = curves(straight[0])
    for seed in (0, 1):
        one, other = found["random", seed], found["power-bald β=4", seed]
        assert one.initial == other.initial
        assert one.metrics["accuracy"][0] == other.metrics["accuracy"][0]
        assert one.acquired != other.acquired
    assert set(found["random", 0].initial.ids) != set(found["random", 1].initial.ids)


def test_labels_are_those_of_the_rows_the_ids_name(straight):
    train = natsel.data.load("iris").train
    for curve in curves(straight[0]).values():
        assert [train.labels[id] for id in curve.acquired] == list(curve.acquired_labels)


def test_processes_give_what_one_process_gives_and_a_failure_is_its_own(straight, tmp_path, monkeypatch):
    """They need no library of the command line: the accelerator of a cluster may have the core alone."""
    absent = tmp_path / "absent"
    absent.mkdir()
    for library in ("typer", "rich", "pydantic"):
        (absent / f"{library}.py").write_text("raise ImportError('absent')")
    monkeypatch.setenv("PYTHONPATH", str(absent))
    tmp_path = tmp_path / "out"
    broken = replace(RECIPE, methods=(*RECIPE.methods, Contender("ig")))  # needs all labels
    events = []
    outcome = run(broken, tmp_path, processes=2, device="cpu", progress=events.append)
    one = [event["event"] for event in events if (event["method"], event["seed"]) == ("random", 0)]
    assert one == ["ready", "start", "round", "round", "round", "round", "done"]
    assert len(outcome.done) == 4
    assert {(job.method, job.seed) for job in outcome.failed} == {("ig", 0), ("ig", 1)}
    assert all("labels" in error for error in outcome.failed.values())
    assert "labels" in read_outcome(tmp_path, "ig", 0)["error"]
    assert "Traceback" in "".join(path.read_text() for path in (tmp_path / "logs").glob("*.log"))
    expected, found = curves(straight[0]), curves(tmp_path)
    for key, curve in expected.items():
        assert (curve.initial, curve.batches) == (found[key].initial, found[key].batches)
        assert curve.metrics == found[key].metrics
    experiment = read_experiment(tmp_path)
    assert sum("ig with seed" in note for note in experiment.notes) == 2
    assert (experiment.pool, experiment.classes[0]) == (105, "setosa")
    again = run(RECIPE, tmp_path, processes=2, progress=events.append)  # nothing to do: no process is started
    assert (len(again.done), len(again.skipped)) == (0, 4)
    kinds = [event["event"] for event in events]
    assert {"ready", "start", "round", "done", "failed", "skipped"} == set(kinds)


KILLER = """
import os, signal
from natsel.store import Journal
record = Journal.record_round
def record_and_kill(self, *given, **named):
    record(self, *given, **named)
    if "power-bald" in str(self.path) and self.path.name == "seed-0.db":
        for process in (os.getppid(), os.getpid()):
            os.kill(process, signal.SIGKILL)
Journal.record_round = record_and_kill
"""


def test_killed_and_called_again_it_goes_on(straight, tmp_path, capsys):
    """The runner and its process are killed as soon as the second of four jobs has measured its first labels."""
    toml = tmp_path / "small.toml"
    toml.write_text(
        'name = "small"\nk = 4\nbudget = 15\nseeds = 2\nmethods = ["random", {method = "power-bald", beta = 4}]\n'
        'initial = {per_class = 1}\ndata = {set = "iris"}\nmodel = {kind = "forest", trees = 10}\n'
    )
    (tmp_path / "killer.py").write_text(KILLER)
    arguments = ["run", str(toml), "--folder", str(tmp_path / "out"), "--processes", "1"]
    path = os.pathsep.join([SOURCE, str(tmp_path)])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "NATSEL_PLUGINS": "killer"}
    killed = subprocess.run([sys.executable, "-m", "natsel", *arguments], capture_output=True, env=environment)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    with locked(tmp_path / "out"):  # the dead runner holds nothing
        pass
    half = read_experiment(tmp_path / "out")
    assert any("have not begun" in note for note in half.notes)
    assert len(half.curves) == 2
    capsys.readouterr()
    code = main(arguments)
    done = capsys.readouterr()
    assert code == 0, done.err
    assert "random seed 0: finished" not in done.err, "what is finished is not done again"
    assert "power-bald β=4 seed 0: finished" in done.err
    sentence, page = done.out.splitlines()[-2:]
    assert "labels" in sentence
    assert Path(page.removeprefix("The report: ")).read_text(encoding="utf-8").startswith("<!doctype html>")
    expected, found = curves(straight[0]), curves(tmp_path / "out")
    assert {key: curve.batches for key, curve in found.items()} == {
        key: curve.batches for key, curve in expected.items()
    }


def test_a_process_that_dies_leaves_the_others_running(tmp_path, monkeypatch):
    """Seed 0 kills its process as a crash in a library would; the next job gets a new one."""
    script = (
        "import json, os, sys\nsys.stdin.readline()\nprint(json.dumps({'event': 'ready', 'data': {}}), flush=True)\n"
        "for line in sys.stdin:\n    job = json.loads(line)\n"
        "    if job['seed'] == 0:\n        print('out of memory', file=sys.stderr, flush=True)\n        os.abort()\n"
        "    print(json.dumps({'event': 'done', 'seconds': 0.0}), flush=True)\n"
    )
    workers(monkeypatch, script)
    events = []
    outcome = run(replace(RECIPE, seeds=(0, 1, 2)), tmp_path, processes=1, progress=events.append)
    assert {job.seed for job in outcome.done} == {1, 2}
    assert {job.seed for job in outcome.failed} == {0}
    assert all("out of memory" in error for error in outcome.failed.values())
    assert "out of memory" in read_outcome(tmp_path, "random", 0)["error"]


def test_a_hanging_run_ends_when_its_time_is_up(tmp_path, monkeypatch):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = []

    def hang(self, slot):
        started.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], **pipes))
        return started[-1]

    monkeypatch.setattr(WorkerPool, "_started", hang)
    outcome = run(RECIPE, tmp_path, processes=2, minutes=0.01)
    assert (outcome.done, outcome.failed, len(outcome.left)) == ((), {}, 4)
    assert all(process.returncode is not None for process in started)


def test_what_no_job_could_do_is_refused_at_once(tmp_path):
    wrong = replace(RECIPE, data=replace(RECIPE.data, set="irsi"))
    with pytest.raises(ValueError, match=r"^data.set: there is no data set 'irsi'; did you mean 'iris'\?"):
        Runner(wrong, tmp_path)
    with pytest.raises(ValueError, match=r"^methods\[0\]: no method is called 'bold'"):
        Runner(replace(RECIPE, methods=(Contender("bold"),)), tmp_path)
    with pytest.raises(ValueError, match="processes: expected 0 or more, found -1"):
        run(RECIPE, tmp_path, processes=-1)
    with pytest.raises(ValueError, match=r"^targets\[0\]: expected an accuracy from 0 to 1, found 90; 0.9 is 90 %"):
        Runner(replace(RECIPE, targets=(90.0,)), tmp_path)


def written(folder):
    """All that is in a folder but the lock and the logs, which bind nobody."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "logs")
    return {path.relative_to(folder): path.read_bytes() for path in files if path.name != ".lock"}


CHOOSY = """
import json, pathlib, sys
def say(**event):
    print(json.dumps(event), flush=True)
if "bold" in json.loads(sys.stdin.readline())["methods"]:
    say(event="refused", error="no bold")
    sys.exit()
say(event="ready", data={"pool": 105})
for line in sys.stdin:
    job = json.loads(line)
    path = pathlib.Path(sys.argv[1]) / job["method"] / f"seed-{job['seed']}.db"
    path.parent.mkdir(exist_ok=True)
    path.touch(exist_ok=False)  # what was to be thrown away is gone before a job begins
    path.with_suffix(".json").write_text(json.dumps({"budget": job["budget"]}))
    say(event="done", seconds=0.0)
"""


def test_a_refusal_leaves_the_folder_as_it_was(tmp_path, monkeypatch):
    """Whether the process refuses in a new folder, in one with runs, or in one with runs that were to go."""
    workers(monkeypatch, CHOOSY)
    short = replace(RECIPE, methods=RECIPE.methods[:1], seeds=(0,))
    wrong = replace(short, methods=(Contender("bold"),))
    with pytest.raises(ValueError, match="no bold"):
        run(wrong, tmp_path)
    assert written(tmp_path) == {}
    assert len(run(short, tmp_path).done) == 1
    before = written(tmp_path)
    assert {path.name for path in before} == {"recipe.json", "data.json", "seed-0.db", "seed-0.json"}
    for fresh in (False, True):
        with pytest.raises(ValueError, match="no bold"):
            run(wrong, tmp_path, fresh=fresh)
        assert written(tmp_path) == before
    document = json.loads((tmp_path / "recipe.json").read_text())
    del document["natsel_digest"]
    document["recipe"]["methods"].append("bold")  # as a refusal once left it
    (tmp_path / "recipe.json").write_text(json.dumps(document))
    assert len(run(replace(short, seeds=(1,)), tmp_path).done) == 1
    assert [job.seed for job in run(short, tmp_path, fresh=True).done] == [0]
    assert not journal_path(tmp_path, "random", 1).exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"initial": {"per_class": 10}, "budget": 6}, "^budget: expected more than the 30 labels of initial.per_class"),
        ({"initial": {"count": 1000}, "budget": 2000}, "^initial.count: asked for 1000 of 105 rows"),
        ({"initial": {"per_class": 50}}, "^initial.per_class: asked for 50 of each class, but one has 32 rows"),
        ({"initial": {"ids": [3, 105]}}, "^initial.ids: row 105 is not in the pool"),
        ({"initial": {"ids": [3, 4, 3]}}, r"^initial.ids: found \[3, 4, 3\]; name each row once"),
        ({"initial": {"ids": list(range(15))}}, "^budget: expected more than the 15 labels of initial.ids"),
        ({"initial": {"ids": [3, 4]}, "data": {"set": "iris", "train": 1}}, "^data.train: 1 rows cannot hold the 2"),
        ({"budget": 106}, "^budget: .* at most the 105 rows of the pool, found 106"),
        ({"data": {"set": "iris", "transforms": [{"kind": "imbalanced", "shares": [0, 0, 0]}]}}, "^data.transforms: "),
        (
            {"data": {"set": "iris", "transforms": [{"kind": "imbalanced", "shares": [1]}]}},
            r"^data.transforms\[0\]: shares: ",
        ),
        ({"model": {"kind": "text"}}, "^model.kind: text wants texts, and iris holds none"),
        ({"model": {"kind": "frozen"}}, "^model.backbone: efficientnet-lite0 reads images, and iris is of kind table"),
        (
            {"model": {"kind": "dropout", "network": "emnist-cnn"}},
            r"^model.network: emnist-cnn wants grey pictures, found rows of shape \(4,\); use the network mlp",
        ),
        (
            {"data": {"set": "digits"}, "model": {"kind": "ensemble", "network": "mnist-cnn"}},
            r"^model.network: mnist-cnn wants grey pictures of 28×28, found rows of shape \(8, 8\)",
        ),
    ],
)
def test_what_does_not_fit_the_data_is_refused_by_name(tmp_path, change, words):
    with pytest.raises(ValueError, match=words):
        Runner(Recipe.from_table(SMALL | change), tmp_path, "cpu")


def test_a_whole_pool_may_be_labelled(tmp_path):
    runner = Runner(replace(RECIPE, budget=105), tmp_path, "cpu")
    assert len(runner.setting.ids) == runner.recipe.budget == 105


@pytest.mark.parametrize("device", ["cpuu", "cuda:99"])
def test_a_device_that_is_not_there_is_refused(tmp_path, device):
    with pytest.raises(ValueError, match=f"^device: '{device}' cannot be used here .*; name another, such as 'cpu'$"):
        Runner(RECIPE, tmp_path, device)


def test_a_process_that_ends_is_given_the_time_to_say_why(tmp_path, monkeypatch):
    """Its pipes close before it is gone: its own exit code is told, not that of being killed."""
    script = (
        "import os, sys, time\nsys.stdin.readline()\nos.close(1)\ntime.sleep(0.3)\n"
        "print('no luck', file=sys.stderr, flush=True)\nos._exit(3)"
    )
    workers(monkeypatch, script)
    outcome = run(replace(RECIPE, methods=RECIPE.methods[:1], seeds=(0,)), tmp_path, processes=1)
    (error,) = outcome.failed.values()
    assert error.startswith("the process ended with code 3;")
    assert "no luck" in error
    assert written(tmp_path) == {}  # it never said that the recipe can be run


def test_a_folder_without_runs_is_free(tmp_path):
    prepare(tmp_path, replace(RECIPE, data=replace(RECIPE.data, set="iriss")))
    prepare(tmp_path, RECIPE)
    document = json.loads((tmp_path / "recipe.json").read_text())
    assert document["recipe"]["data"]["set"] == "iris"


def begin(folder, slug="random"):
    """As if a run had begun."""
    (folder / slug).mkdir()
    journal_path(folder, slug, 0).write_bytes(b"")


@pytest.mark.parametrize("found", ["{", "[]", "{}", '{"recipe": {"name": "a"}}', '{"recipe": 3}'])
def test_a_folder_whose_recipe_cannot_be_read_says_so(tmp_path, found):
    begin(tmp_path)
    (tmp_path / "recipe.json").write_text(found)
    for act in (read_experiment, lambda folder: run(RECIPE, folder)):
        with pytest.raises(
            ValueError, match=r"^folder: .*recipe.json is no recipe of natsel \(.*; take another folder"
        ):
            act(tmp_path)
    prepare(tmp_path, RECIPE, fresh=True)
    assert not (tmp_path / "random").exists()


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "in"):
        with pytest.raises(ValueError, match=r"^folder: .* is a file, or lies in one; name a folder"):
            run(RECIPE, place)


def test_a_folder_keeps_to_its_recipe(tmp_path):
    prepare(tmp_path, RECIPE)
    begin(tmp_path)
    more = replace(RECIPE, seeds=(5,), budget=20, methods=RECIPE.methods[:1], about="other", targets=())
    prepare(tmp_path, more)
    document = json.loads((tmp_path / "recipe.json").read_text())
    assert document["recipe"]["seeds"] == [0, 1, 5]
    assert (document["recipe"]["budget"], len(document["recipe"]["methods"]), len(document["runs"])) == (20, 2, 2)
    for change, words in (
        ({"k": 5}, "k: .* holds runs with 4 and the recipe says 5"),
        ({"model": {"kind": "forest"}}, "model: "),
        ({"candidates": 10}, "candidates: "),
    ):
        with pytest.raises(ValueError, match=words):
            prepare(tmp_path, replace(RECIPE, **change))
        with pytest.raises(ValueError, match=words):  # before any process is started
            run(replace(RECIPE, **change), tmp_path, minutes=0)
    (tmp_path / "mine.txt").write_text("kept")
    write_outcome(tmp_path, Job("random", "random", 0), {"budget": 15})
    assert finished(tmp_path, Job("random", "random", 0), 15)
    assert not finished(tmp_path, Job("random", "random", 0), 16)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "seed-oils.txt").write_text("kept")
    prepare(tmp_path, replace(RECIPE, k=5), fresh=True)
    assert not (tmp_path / "random").exists()
    assert (tmp_path / "notes" / "seed-oils.txt").exists()
    assert (tmp_path / "mine.txt").exists()


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system")
def test_one_runner_at_a_time(tmp_path):
    with locked(tmp_path), pytest.raises(ValueError, match="another process runs experiments in"), locked(tmp_path):
        pass


def test_reading_says_what_is_missing(tmp_path):
    with pytest.raises(ValueError, match=r"holds no recipe\.json"):
        read_experiment(tmp_path)
    prepare(tmp_path, RECIPE)
    with pytest.raises(ValueError, match="has been measured yet"):
        read_experiment(tmp_path)
    assert journal_path(tmp_path, "a", 3).name == "seed-3.db"


def test_the_split_keeps_initial_rows_and_leaves_validation_out():
    rows = [3, 700, 41]
    recipe = Recipe.from_table(SMALL | {"data": {"set": "digits", "validation": 100, "train": 400, "test": 50},
                                  "initial": {"ids": rows}})  # fmt: skip
    setting, again = build_data(recipe), build_data(recipe)
    assert (len(setting.ids), len(setting.validation), len(setting.test)) == (400, 100, 50)
    assert set(rows) <= set(setting.ids.tolist())
    assert initial_ids(recipe, setting, 7).tolist() == rows
    train = natsel.data.load("digits").train
    assert np.array_equal(setting.examples.inputs, train.inputs[setting.ids])
    whole = build_data(replace(recipe, data=replace(recipe.data, train=None)))
    assert len(whole.ids) == len(train) - 100
    flat = whole.examples.inputs.reshape(len(whole.ids), -1)
    held = {row.tobytes() for row in setting.validation.inputs}
    assert sum(row.tobytes() in held for row in flat) <= 2  # the set itself holds hardly any picture twice
    assert np.array_equal(setting.ids, again.ids)
    assert setting.pool().fingerprint() == again.pool().fingerprint()
    for wrong, words in (({"train": 5000}, "data.train: asked for 5000"), ({"test": 5000}, "data.test: asked for 5000"),
                         ({"validation": 5000}, "data.validation: asked for 5000")):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            build_data(replace(recipe, data=replace(recipe.data, **wrong)))
    with pytest.raises(ValueError, match="no published rows are known for digits"):
        build_data(Recipe.from_table(SMALL | {"data": {"set": "digits"}, "initial": {"ids": "published"}}))


def test_copies_keep_the_row_they_come_from():
    transform = {"kind": "repeated", "copies": 3, "noise": 0.1}
    recipe = Recipe.from_table(SMALL | {"data": {"set": "digits", "train": 200, "transforms": [transform]}})
    setting = build_data(recipe)
    rows = len(natsel.data.load("digits").train)
    assert len(setting.ids) == len(set(setting.ids.tolist())) == 600
    assert sorted(set((setting.ids // rows).tolist())) == [0, 1, 2]
    labels = natsel.data.load("digits").train.labels
    assert np.array_equal(setting.examples.labels, labels[setting.ids % rows])
    start = initial_ids(recipe, setting, 0)
    assert (start < rows).all()
    assert sorted(setting.pool().answers(start)) == list(range(10))


@pytest.mark.parametrize(
    "model",
    [
        {"kind": "dropout", "network": "mlp", "hidden": [8], "draws": 3},
        {"kind": "ensemble", "network": "mlp", "members": 2},
        {"kind": "dropout", "network": "emnist-cnn", "draws": 3},
        {"kind": "logistic", "members": 3},
        {"kind": "forest", "trees": 3},
    ],
)
def test_every_model_of_pictures_believes(model):
    recipe = Recipe.from_table(SMALL | {"data": {"set": "digits"}, "model": model, "training": {"max_epochs": 1}})
    setting = build_data(recipe)
    pool, start = setting.pool(), initial_ids(recipe, setting, 0)
    pool.label(start, pool.answers(start))
    belief = build_model(recipe, setting, "cpu").fit(pool.labelled(), None, seed=0).believe(setting.test.inputs[:5])
    assert belief.shape[0] == 5
    assert belief.shape[2] == 10


def test_methods_of_weight_space_are_compared_on_one_last_layer(tmp_path):
    """A tiny version of the recipe that ships."""
    shipped = load_plan("badge-digits").recipes[""]
    data = replace(shipped.data, train=80, test=40)
    recipe = replace(shipped, data=data, budget=14, k=4, seeds=(0,), training={"max_epochs": 1, "epoch_samples": 64})
    runner = Runner(recipe, tmp_path, "cpu")
    prepare(tmp_path, recipe)
    for method in recipe.methods:
        runner.do(method, 0, recipe.budget, lambda event: None)
    found = curves(tmp_path)
    assert [method for method, _ in found] == ["random", "badge", "bait-det", "logdet", "trace-eig"]
    for curve in found.values():
        assert (curve.sizes, len(set(curve.acquired))) == ((10, 14), 4)
        assert 0 <= curve.final("accuracy") <= 1
    assert len({curve.initial for curve in found.values()}) == 1
    assert len({frozenset(curve.acquired) for curve in found.values()}) > 1


def test_a_model_for_texts(monkeypatch):
    texts = np.array(["play a song", "stop it", "play music", "stop now"] * 5, dtype=object)
    examples = natsel.data.Examples(texts, np.array([0, 1, 0, 1] * 5), classes=("play", "stop"))
    data = natsel.data.DataSet("texts", examples, examples, None, "text", "texts for a test")
    monkeypatch.setattr(natsel.data, "load", lambda name: data)
    recipe = Recipe.from_table(
        SMALL | {"data": {"set": "texts"}, "model": {"kind": "text", "draws": 4}, "training": {"max_epochs": 3}}
    )
    setting = build_data(recipe)
    with pytest.raises(ValueError, match=r"^model.kind: forest wants numbers, and texts holds texts"):
        build_model(replace(recipe, model={"kind": "forest"}), setting)
    model = build_model(recipe, setting, "cpu").fit(setting.examples, None, seed=0)
    assert model.believe(setting.test.inputs).shape == (20, 4, 2)


@pytest.mark.slow
@pytest.mark.needs_data("mnist")
def test_published_mnist_rows():
    setting = build_data(load_plan("mnist").recipes[""])
    start = initial_ids(load_plan("mnist").recipes[""], setting, 3)
    assert len(start) == 20
    assert sorted(setting.pool().answers(start)) == sorted(2 * list(range(10)))
    assert setting.scale == (0.1307, 0.3081)
    assert len(setting.ids) == 60_000 - 512


@pytest.mark.parametrize(("name", "content"), [("data.json", "null"), ("data.json", "[1"), ("random/seed-0.json", "")])
def test_a_file_that_holds_no_object_is_named(tmp_path, name, content):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=rf"^folder: .*{name} cannot be read .*; remove that file"):
        read_object(tmp_path / name)


def test_a_report_of_damaged_data_says_which_file(straight, tmp_path):
    shutil.copytree(straight[0], tmp_path, dirs_exist_ok=True)
    publish(tmp_path)
    (tmp_path / "data.json").write_text("null")
    with pytest.raises(ValueError, match=r"^folder: .*data\.json cannot be read"):
        publish(tmp_path)
