"""Every option of every command changes what it says, or is refused where it would change nothing.

The options are those of the program itself: a new one without a pair of calls here fails. Of a pair, the first call is
the second without the option; what the two say, the files that they leave, or the file that is named must differ.
"""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import typer.main

import natsel
from made_originals import ORIGINALS
from natsel.cli import app, main
from natsel.experiments.recipe.plan import load_plan
from natsel.experiments.report.png import png
from natsel.experiments.running.folder import Job
from natsel.experiments.running.run import Outcome, run_plan
from natsel.store import Journal
from store.made_journals import filled, flip, page_of

TOML = """
name = "small"
k = 4
budget = 11
seeds = 1
methods = ["random", "bald"]
targets = [0.5, 0.7]
initial = {per_class = 1}
data = {set = "iris"}
model = {kind = "forest", trees = 3}
"""


COMMAND = typer.main.get_command(app)


def commands():
    """Each command by its words, with its options by their longest names."""
    waiting = [((), COMMAND)]
    while waiting:
        words, command = waiting.pop()
        waiting += [((*words, name), one) for name, one in getattr(command, "commands", {}).items()]
        options = [max(one.opts, key=len) for one in command.params if one.param_type_name == "option"]
        yield " ".join(words), options


OPTIONS = {(words, option) for words, options in commands() for option in options}

SELECT = "select preds.npz --probs -m bald -k 3"
EVALUATE = "evaluate preds.npz --probs --labels labels.txt"
TRIAGE = "triage new.safetensors"
WITH_COSTS = f"{TRIAGE} --labels four.txt"
LOSSES = "irreducible-loss table.csv --out il.safetensors --labels kind --ids name --inputs a --epochs 1 --json"
PRUNE = "prune table.csv --labels kind --ids name --inputs a,b --runs 1 --epochs 2 --network mlp --json"
RANDOM = "prune table.csv --labels kind --ids name --inputs a,b --method random --json"
NOWHERE = "--device cuda:99"  # refused on every machine, so it is looked at

LIVE = {
    "": {"--version": ("", "--version"), "--plugin": ("methods", "--plugin no_such_module methods")},
    "demo": {
        "--seed": ("demo", "demo --seed 7"),
        "--folder": ("demo", "demo --folder there"),
        "--processes": ("demo", "demo --processes 5"),
        "--fresh": ("demo", "demo --fresh"),
        "--json": ("demo", "demo --json"),
    },
    "select": {
        "--method": (SELECT, SELECT.replace("bald", "entropy")),
        "--k": (SELECT, SELECT.replace("-k 3", "-k 4")),
        "--log-probs": ("select logs.npy -m bald", "select logs.npy -m bald --log-probs"),
        "--probs": ("select preds.npz -m bald", "select preds.npz -m bald --probs"),
        "--logits": ("select logits.npy -m bald", "select logits.npy -m bald --logits"),
        "--means": ("select means.npy -m lcmd -k 2", "select means.npy -m lcmd -k 2 --means"),
        "--noise": ("select means.npy --means -m bald", "select means.npy --means -m bald --noise 4"),
        "--key": ("select two.npz --probs -m bald --key a", "select two.npz --probs -m bald --key b"),
        "--single-draw": ("select flat.npy --probs -m entropy", "select flat.npy --probs -m entropy --single-draw"),
        "--targets": ("select preds.npz --probs -m epig", "select preds.npz --probs -m epig --targets about.npz"),
        "--labels": ("select preds.npz --probs -m ig", "select preds.npz --probs -m ig --labels labels.txt"),
        "--target-labels": (
            "select preds.npz --probs -m pig --targets about.npz --labels labels.txt",
            "select preds.npz --probs -m pig --targets about.npz --labels labels.txt --target-labels four.txt",
        ),
        "--given": (SELECT.replace("bald", "batchbald"), SELECT.replace("bald", "batchbald") + " --given about.npz"),
        "--exclude": (SELECT, f"{SELECT} --exclude ids.txt"),
        "--costs": (SELECT, f"{SELECT} --costs costs.txt"),
        "--budget": (f"{SELECT} --costs costs.txt", f"{SELECT} --costs costs.txt --budget 2.5"),
        "--out": (SELECT, f"{SELECT} --out picks.csv"),
        "--seed": (SELECT.replace("bald", "random"), SELECT.replace("bald", "random") + " --seed 3"),
        "--explain": (SELECT, f"{SELECT} --explain"),
        "--json": (SELECT, f"{SELECT} --json"),
    },
    "evaluate": {
        "--labels": ("evaluate preds.npz --probs", EVALUATE),
        "--outside": (EVALUATE, f"{EVALUATE} --outside about.npz"),
        "--held-out": (EVALUATE, f"{EVALUATE} --held-out preds.npz --held-out-labels labels.txt"),
        "--held-out-labels": (EVALUATE, f"{EVALUATE} --held-out about.npz --held-out-labels four.txt"),
        "--classes": (
            "evaluate preds.npz --probs --labels names.txt",
            "evaluate preds.npz --probs --labels names.txt --classes ant,bee,cat",
        ),
        "--bins": (EVALUATE, f"{EVALUATE} --bins 3"),
        "--log-probs": ("evaluate logs.npy", "evaluate logs.npy --log-probs"),
        "--probs": ("evaluate preds.npz", "evaluate preds.npz --probs"),
        "--logits": ("evaluate logits.npy", "evaluate logits.npy --logits"),
        "--means": ("evaluate means.npy --labels values.txt", "evaluate means.npy --labels values.txt --means"),
        "--noise": (
            "evaluate means.npy --labels values.txt --means",
            "evaluate means.npy --labels values.txt --means --noise 4",
        ),
        "--key": ("evaluate two.npz --probs --key a", "evaluate two.npz --probs --key b"),
        "--single-draw": ("evaluate flat.npy --probs", "evaluate flat.npy --probs --single-draw"),
        "--out": (EVALUATE, f"{EVALUATE} --out page.html"),
        "--json": (EVALUATE, f"{EVALUATE} --json"),
    },
    "triage": {
        "--reference": ("triage preds.npz --probs", "triage preds.npz --probs --reference preds.npz"),
        "--level": (
            "triage preds.npz --probs --reference preds.npz",
            "triage preds.npz --probs --reference preds.npz --level 0.5",
        ),
        "--epistemic-limit": (TRIAGE, f"{TRIAGE} --epistemic-limit 85"),
        "--aleatoric-limit": (TRIAGE, f"{TRIAGE} --aleatoric-limit 0"),
        "--labels": (TRIAGE, WITH_COSTS),
        "--classes": (
            f"{TRIAGE} --labels two-names.txt",
            f"{TRIAGE} --labels two-names.txt --classes ant,bee",
        ),
        "--error": (WITH_COSTS, f"{WITH_COSTS} --error 9"),
        "--defer": (WITH_COSTS, f"{WITH_COSTS} --defer 9"),
        "--label": (WITH_COSTS, f"{WITH_COSTS} --label 9"),
        "--log-probs": ("triage logs.npy --reference logs.npy", "triage logs.npy --reference logs.npy --log-probs"),
        "--probs": ("triage preds.npz --reference preds.npz", "triage preds.npz --reference preds.npz --probs"),
        "--logits": ("triage logits.npy --reference logits.npy", "triage logits.npy --reference logits.npy --logits"),
        "--key": (
            "triage two.npz --probs --key a --reference two.npz",
            "triage two.npz --probs --key b --reference two.npz",
        ),
        "--single-draw": (
            "triage flat.npy --probs --aleatoric-limit 0.6",
            "triage flat.npy --probs --aleatoric-limit 0.6 --single-draw",
        ),
        "--out": (TRIAGE, f"{TRIAGE} --out d.csv"),
        "--page": (TRIAGE, f"{TRIAGE} --page page.html"),
        "--pictures": (f"{TRIAGE} --page page.html", f"{TRIAGE} --page page.html --pictures pictures.npy", "page.html"),
        "--json": (TRIAGE, f"{TRIAGE} --json"),
    },
    "irreducible-loss": {
        "--out": (LOSSES, LOSSES.replace("il.", "other.")),
        "--cross-fit": (LOSSES, f"{LOSSES} --cross-fit 3"),
        "--holdout": (LOSSES, f"{LOSSES} --holdout 0.5"),
        "--network": (LOSSES, f"{LOSSES} --network lenet"),
        "--labels": (LOSSES, LOSSES.replace("--labels kind ", "")),
        "--inputs": (LOSSES, LOSSES.replace("--inputs a ", "--inputs a,b ")),
        "--ids": (LOSSES, LOSSES.replace("--ids name ", "")),
        "--epochs": (LOSSES, LOSSES.replace("--epochs 1", "--epochs 9")),
        "--seed": (LOSSES, f"{LOSSES} --seed 5"),
        "--device": (LOSSES, f"{LOSSES} {NOWHERE}"),
        "--json": (LOSSES, LOSSES.replace(" --json", "")),
    },
    "prune": {
        "--method": (RANDOM, RANDOM.replace("random", "input-norm")),
        "--keep": (RANDOM, f"{RANDOM} --keep 0.25"),
        "--labels": (PRUNE, PRUNE.replace("--labels kind ", "")),
        "--inputs": (RANDOM, RANDOM.replace("a,b", "a,no")),
        "--ids": (RANDOM, RANDOM.replace("--ids name ", "")),
        "--network": (PRUNE, PRUNE.replace("mlp", "lenet")),
        "--runs": (PRUNE, PRUNE.replace("--runs 1", "--runs 2")),
        "--epochs": (PRUNE, PRUNE.replace("--epochs 2", "--epochs 3")),
        "--at-epoch": (PRUNE, f"{PRUNE} --at-epoch 0"),
        "--balanced": (RANDOM, f"{RANDOM} --balanced"),
        "--easiest": (RANDOM, f"{RANDOM} --easiest"),
        "--seed": (RANDOM, f"{RANDOM} --seed 3"),
        "--device": (PRUNE, f"{PRUNE} {NOWHERE}"),
        "--out": (RANDOM, f"{RANDOM} --out kept.csv"),
        "--report": (RANDOM, f"{RANDOM} --report errors.html"),
        "--json": (RANDOM, RANDOM.replace(" --json", "")),
    },
    "methods": {
        "--all": ("methods", "methods --all"),
        "--json": ("methods", "methods --json"),
        "--markdown": ("methods", "methods --markdown"),
    },
    "info": {
        "--table": ("info I[X;Y]", "info I[X;Y] --table joint.csv"),
        "--at": ("info H[X|y] --table joint.csv", "info H[X|y] --table joint.csv --at y=1"),
        "--q": ("info H_q[X] --table joint.csv", "info H_q[X] --table joint.csv --q joint.csv"),
        "--unit": ("info H[X] --table joint.csv", "info H[X] --table joint.csv --unit bits"),
        "--diagram": ("info I[X;Y] --table joint.csv", "info I[X;Y] --table joint.csv --diagram d.svg"),
        "--json": ("info I[X;Y]", "info I[X;Y] --json"),
    },
    "run": {  # what is done with each: test_run.py
        "--folder": ("run small.toml", "run small.toml --folder there"),
        "--methods": ("run small.toml", "run small.toml --methods random,entropy"),
        "--seeds": ("run small.toml", "run small.toml --seeds 4-6"),
        "--variants": ("run epig-2d", "run epig-2d --variants pool-100"),
        "--budget": ("run small.toml", "run small.toml --budget 15"),
        "--processes": ("run small.toml", "run small.toml --processes 7"),
        "--device": ("run digits", "run digits --device cpu"),
        "--minutes": ("run causal-synthetic", "run causal-synthetic --minutes 3"),
        "--full": ("run causal-synthetic", "run causal-synthetic --full"),
        "--fresh": ("run small.toml", "run small.toml --fresh"),
        "--list": ("run", "run --list"),
        "--new": ("run small.toml", "run --new my.toml --data table.csv --labels kind"),
        "--data": ("run --new my.toml", "run --new my.toml --data table.csv --labels kind"),
        "--labels": ("run --new my.toml --data table.csv", "run --new my.toml --data table.csv --labels kind"),
        "--inputs": (
            "run --new my.toml --data table.csv --labels kind",
            "run --new my.toml --data table.csv --labels kind --inputs a",
            "my.toml",
        ),
        "--json": ("run small.toml", "run small.toml --json"),
    },
    "report": {
        "--out": ("report runs", "report runs --out page.html"),
        "--run": ("report two.db", "report two.db --run main"),
        "--pictures": ("report run.db", "report run.db --pictures images"),
        "--figures": ("report runs", "report runs --figures here"),
        "--format": ("report runs --figures here", "report runs --figures here --format csv"),
        "--open": ("report runs", "report runs --open"),
        "--json": ("report runs", "report runs --json"),
    },
    "bench": {  # what is done with each: tests/bench
        "--python": ("bench", "bench --python there"),
        "--setup": ("bench", "bench --setup there"),
        "--threads": ("bench", "bench --threads 2"),
        "--repeat": ("bench", "bench --repeat 2"),
        "--quality": ("bench", "bench --quality"),
        "--seeds": ("bench --quality", "bench --quality --seeds 2"),
        "--out": ("bench", "bench --out b.json"),
        "--json": ("bench", "bench --json"),
    },
    "data": {"--json": ("data", "data --json"), "--markdown": ("data", "data --markdown")},
    "data show": {"--check": ("data trec", "data trec --check"), "--json": ("data iris", "data iris --json")},
    "data get": {
        "--from": ("data get trec --unchecked --from nowhere", "data get trec --unchecked --from originals"),
        "--folder": (
            "data get trec --unchecked --from originals",
            "data get trec --unchecked --from originals --folder own",
        ),
        "--unchecked": ("data get trec --from originals", "data get trec --from originals --unchecked"),
        "--json": (
            "data get trec --unchecked --from originals",
            "data get trec --unchecked --from originals --json",
        ),
    },
    "journal copy": {"--json": ("journal copy run.db b.db", "journal copy run.db b.db --json")},
    "journal check": {"--json": ("journal check run.db", "journal check run.db --json")},
    "journal export": {
        "--damaged": ("journal export damaged.db l.csv", "journal export damaged.db l.csv --damaged"),
        "--json": ("journal export run.db l.csv", "journal export run.db l.csv --json"),
    },
}

STUDY = "is a study"


def named(option):
    """As an error names it."""
    return option.split()[0].lstrip("-").replace("digits", "recipe")


REFUSED = [
    ("select preds.npz --probs -m bald --noise 2", "noise", "--means"),
    ("select preds.npz --probs -m bald --budget 2", "budget", "--costs"),
    ("select preds.npz --probs -m bald --targets about.npz", "targets", "no use"),
    ("select preds.npz --probs -m bald --labels labels.txt", "labels", "no use"),
    ("select preds.npz --probs -m random --given about.npz", "given", "no use"),
    (
        "select preds.npz --probs -m epig --targets about.npz --target-labels four.txt",
        "target-labels",
        "changes nothing without --labels",
    ),
    ("select flat.npy --probs --single-draw --key a -m entropy", "key", "leave it out"),
    ("select saved.npz -m bald --key probs", "key", "is a belief"),
    ("select saved.npz -m bald --single-draw", "single_draw", "is a belief"),
    ("evaluate new.safetensors --key a", "key", "is a belief"),
    ("evaluate preds.npz --probs --bins 3", "bins", "without --labels"),
    ("evaluate preds.npz --probs --classes a,b,c", "classes", "without --labels or --held-out-labels"),
    ("evaluate means.npy --means --labels values.txt --bins 3", "bins", "those of classes"),
    ("evaluate means.npy --means --labels values.txt --classes a,b", "classes", "about numbers"),
    ("evaluate preds.npz --probs --held-out preds.npz", "held-out", "go together"),
    (f"{EVALUATE} --out page.txt", "out", "ends in .html"),
    (f"{TRIAGE} --level 0.9", "level", "without --reference"),
    (f"{TRIAGE} --classes a,b", "classes", "without --labels"),
    (f"{TRIAGE} --error 9", "error", "without --labels"),
    (f"{TRIAGE} --defer 9", "defer", "without --labels"),
    (f"{TRIAGE} --label 9", "label", "without --labels"),
    (f"{TRIAGE} --pictures pictures.npy", "pictures", "without --page"),
    (f"{TRIAGE} --page page.txt", "page", "ends in .html"),
    (
        "triage preds.npz --probs --reference preds.npz --epistemic-limit 1 --aleatoric-limit 1",
        "reference",
        "leave --reference out",
    ),
    ("irreducible-loss digits --out il.safetensors --labels kind", "labels", "take it out"),
    ("irreducible-loss digits --out il.safetensors --ids name", "ids", "take it out"),
    ("irreducible-loss digits --out il.safetensors --holdout 0.1 --cross-fit 2", "holdout", "one of the two"),
    ("prune digits --method random --inputs a", "inputs", "leave --inputs out"),
    *((f"{RANDOM} {option}", option.split()[0][2:], "random needs no network; leave")
      for option in ("--network mlp", "--runs 2", "--epochs 3", "--at-epoch 1", "--device cpu")),
    (f"{RANDOM.replace('random', 'input-norm')} --runs 2", "runs", "leave --runs out"),
    ("methods --markdown --json", "json", "beside --markdown"),
    ("methods --markdown --all", "all", "beside --markdown"),
    ("info I[X;Y] --at y=1", "at", "without --table"),
    ("info I[X;Y] --q joint.csv", "q", "without --table"),
    ("info I[X;Y] --unit bits", "unit", "without --table"),
    ("info I[X;Y] --diagram d.svg", "diagram", "without --table"),
    ("info I[X;Y] --table joint.csv --q joint.csv", "q", "names no law"),
    ("info H[X]=H[X] --table joint.csv --diagram d.svg", "diagram", "no picture"),
    *((f"run causal-synthetic {option}", option.split()[0][2:], STUDY)
      for option in ("--methods bald", "--seeds 1", "--budget 40", "--processes 2")),
    ("run causal-synthetic --device cuda", "device", "computes on the CPU"),
    ("run epig-1d --device cuda", "device", "computes on the CPU"),
    ("run small.toml --device cuda", "device", "computes on the CPU"),
    ("run digits --variants a", "variants", "leave --variants out"),
    *((f"run {name} --full", "full", "one protocol")
      for name in ("digits", "badge-digits", "boosted-tables", "causal-ihdp", "small.toml")),
    ("run small.toml --folder runs --budget 7", "budget", "have 11 labels"),
    *((f"run --list {option}", named(option), "beside --list")
      for option in ("digits", "--folder x", "--minutes 1", "--fresh", "--new a.toml")),
    *((f"run --new my.toml --data table.csv --labels kind {option}", named(option), "beside --new")
      for option in ("digits", "--budget 9", "--json", "--processes 3")),
    ("report runs --format csv", "format", "without --figures"),
    ("report run.db --figures here", "figures", "leave --figures out"),
    ("report runs --run main", "run", "no journal"),
    ("report runs --pictures images", "pictures", "no journal"),
    ("bench --seeds 2", "seeds", "without --quality"),
    ("bench --setup there --repeat 2", "repeat", "beside --setup"),
    ("bench epig --quality", "quality", "no use"),
    ("bench epig --python there", "python", "no use"),
    ("bench --quality --repeat 2", "repeat", "no use"),
    ("bench --quality --python there", "python", "no use"),
    ("data --json iris", "json", "before a name"),
    ("data --markdown get trec", "markdown", "before a name"),
    ("data --markdown --json", "json", "beside --markdown"),
]  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One of each that a command reads."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), (12, 4))
    np.savez(folder / "preds.npz", probs=probs)
    np.savez(folder / "two.npz", a=probs, b=np.roll(probs, 1, 2) / 2 + 1 / 6)
    np.savez(folder / "about.npz", probs=rng.dirichlet(np.ones(3), (4, 4)))
    np.save(folder / "logs.npy", np.log(probs))
    np.save(folder / "logits.npy", rng.normal(size=(12, 4, 3)))
    np.save(folder / "means.npy", rng.normal(size=(12, 4)))
    np.save(folder / "flat.npy", probs[:, 0])
    np.save(folder / "pictures.npy", rng.uniform(size=(4, 8, 8)))
    natsel.CategoricalSamples.from_probs(probs).save(folder / "saved.npz")
    density = {"threshold": -50.0, "entropy_threshold": 0.5}
    logits = [[9.0, 0.0], [9.0, 0.0], [0.1, 0.0], [0.0, 0.0]]
    natsel.FeatureDensity([-1.0, -90.0, -2.0, -80.0], logits, **density).save(folder / "new.safetensors")
    labels = [0, 1, 2, 2, 1, 0, 0, 1, 2, 0, 1, 1]
    for name, values in {
        "labels": labels, "four": [0, 1, 1, 0], "names": [("ant", "bee", "cat")[one] for one in labels],
        "two-names": ["ant", "bee", "bee", "ant"], "values": rng.normal(size=12).tolist(), "ids": [0, 1, 2],
        "costs": rng.uniform(1, 2, 12).tolist(),
    }.items():  # fmt: skip
        (folder / f"{name}.txt").write_text("\n".join(map(str, values)) + "\n")
    rows = [
        f"r{row},{rng.normal() + row % 2:.3f},{rng.normal():.3f},{'cat' if row % 2 else 'dog'}" for row in range(30)
    ]
    (folder / "table.csv").write_text("name,a,b,kind\n" + "\n".join(rows) + "\n")
    (folder / "joint.csv").write_text("X,Y,p\n0,0,.4\n0,1,.1\n1,0,.2\n1,1,.3\n")
    (folder / "small.toml").write_text(TOML)
    (folder / "images").mkdir()
    (folder / "images" / "c.png").write_bytes(png(np.zeros((4, 4), np.uint8)))
    (folder / "originals").mkdir()
    for name, content in next(one.files for one in ORIGINALS if one.name == "trec").items():
        (folder / "originals" / name).write_bytes(content)
    for name, runs in {"run.db": ["main"], "two.db": ["main", "other"], "damaged.db": ["main"]}.items():
        with Journal(folder / name) as journal:
            for run in runs:
                filled(journal, run)
    damaged = folder / "damaged.db"
    with Journal(damaged) as journal:
        journal.tell(journal.replay("main"), [1], [2], who="chris")
    place, content = page_of(damaged, "labels"), damaged.read_bytes()
    cell = place + int.from_bytes(content[place + 12 : place + 14], "big")
    flip(damaged, cell + 1 + content[cell])
    run_plan(load_plan(folder / "small.toml"), folder / "runs", processes=0)
    return folder


@pytest.fixture
def say(made, monkeypatch, capsys):
    """What a command says where the files lie that were made: its code, both streams, and the files that it leaves."""
    monkeypatch.chdir(made)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NATSEL_CACHE", "cache")
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.delenv("NATSEL_DATA", raising=False)
    monkeypatch.setattr("natsel.cli.app", COMMAND)  # made once, not for each call
    monkeypatch.setattr("webbrowser.open", lambda page: print("opened"))

    def files():
        return {str(path) for path in Path().rglob("*")}

    def run(line, read=""):
        before = files()
        capsys.readouterr()
        code = main(shlex.split(line))
        said = capsys.readouterr()
        left = sorted(files() - before)
        held = Path(read).read_text(encoding="utf-8") if read and Path(read).exists() else ""
        for name in reversed(left):
            Path(name).rmdir() if Path(name).is_dir() else Path(name).unlink()
        return code, *said, left, held

    return run


@pytest.fixture
def heard(monkeypatch):
    """Long work is not done: what it was asked for is said."""

    def told(plan, folder, progress=None, **options):
        options.pop("command")
        print(json.dumps([plan.as_dict(), str(folder), options], default=str, sort_keys=True))
        return {"": Outcome(left=(Job("random", "random", 0),))}

    def measure(case, **options):
        options.pop("progress")
        print(case, options)
        return {"rows": [], "machine": {"cpu": "a", "cores": 2}, "threads": 1}

    monkeypatch.setattr("natsel.experiments.running.run.run_plan", told)
    monkeypatch.setattr("natsel.bench.measure", measure)
    monkeypatch.setattr("natsel.bench.setup", lambda folder: folder)


def test_every_option_of_every_command_has_a_pair_of_calls():
    assert {(words, option) for words, options in LIVE.items() for option in options} == OPTIONS


KNOWN = {}


def test_what_a_folder_holds_besides_is_said(say):
    """Methods and seeds add to the runs of a folder, and the report shows all of them."""
    kept = "run small.toml --folder runs --seeds 0 --methods random"
    code, _, err, *_ = say(kept)
    assert (code, err) == (0, "warning: runs holds runs of other methods or seeds too, and the report shows them\n")
    assert say("run small.toml --folder runs")[2] == ""


PAIRS = {f"{words} {option}".strip(): pair for words, options in LIVE.items() for option, pair in options.items()}


@pytest.mark.parametrize("name", PAIRS)
def test_an_option_changes_what_its_command_says(name, say, heard):
    without, with_it, *read = PAIRS[name]
    if (without, *read) not in KNOWN:  # many pairs begin with the same call
        KNOWN[without, *read] = say(without, *read)
    assert say(with_it, *read) != KNOWN[without, *read]


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_the_same_call_says_the_same_again(name, say, heard):
    _, line, *read = PAIRS[name]
    assert say(line, *read) == say(line, *read)


@pytest.mark.parametrize(("line", "option", "why"), REFUSED, ids=[line for line, *_ in REFUSED])
def test_an_option_that_would_change_nothing_is_refused_by_its_name(line, option, why, say):
    code, out, err, *_ = say(line)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith(f"natsel: {option}: ") or f"--{option} " in err
    assert why in err
