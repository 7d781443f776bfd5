"""Four strangers, from their own files to labels saved: each journey in programs of its own, on real data."""

import csv
import json
import os
import signal

import numpy as np
import pytest

import fresh_python
import natsel
from natsel.data.load import open_set


def commands(*lines):
    """A script of natsel's commands one after the other, in one process."""
    calls = [f"assert main({line.split()!r}) == 0\n" for line in lines]
    return "from natsel.cli import main\n\n" + "".join(calls)


def python(folder, text, *arguments, code=0):
    """What a program printed, run in a folder; it must end with this code."""
    (folder / "script.py").write_text(text)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    done = fresh_python.run(["script.py", *arguments], cwd=folder, env=environment)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


# A data scientist with a CSV, pandas and boosted trees.


def diamonds(path, rows=700):
    """Diamonds as people export them: names of columns, words for categories, gaps, an id of the shop."""
    arrays = open_set("reg-diamonds")["reg_diamonds"]
    some = np.random.default_rng(0).permutation(len(arrays.read("y")))[:rows]
    numbers, codes, price = (arrays.read(name)[some] for name in ("x", "x_cat", "y"))
    names = [[str(level) for level in arrays.read(key).tolist()] for key in ("cut", "color", "clarity")]
    header = ["stone", *map(str, arrays.read("x_names").tolist()), "cut", "color", "clarity", "dear"]
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        for row in range(rows):
            words = [names[column][code] for column, code in enumerate(codes[row])]
            values = ["" if (row + column) % 17 == 0 else value for column, value in enumerate(numbers[row].tolist())]
            words[2] = "" if row % 13 == 0 else words[2]
            writer.writerow([f"D{row:05d}", *values, *words, "yes" if price[row] > 2400 else "no"])


@pytest.mark.needs_data("reg-diamonds")
def test_a_data_scientist_with_a_csv_and_boosted_trees(tmp_path):
    pytest.importorskip("pandas")
    pytest.importorskip("lightgbm")
    diamonds(tmp_path / "diamonds.csv")
    (tmp_path / "my_models.py").write_text(
        "import lightgbm\n\n\ndef trees():\n"
        "    return lightgbm.LGBMClassifier(n_estimators=8, min_child_samples=3, verbose=-1, n_jobs=1)\n"
    )
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nk = 15\nbudget = 45\nseeds = 2\nmethods = ["random", "power-bald"]\ntargets = [0.8]\n'
        '[data]\nfile = "diamonds.csv"\nlabels = "dear"\nids = "stone"\ntest = 0.3\n'
        '[model]\nkind = "python:my_models.trees"\nmembers = 5\n'
    )
    said = python(
        tmp_path,
        commands("run mine.toml --processes 1", "report runs/mine --figures figures --format svg,csv")
        + "print('her loop:')\n"
        "import pandas, natsel\nfrom my_models import trees\n"
        "table = pandas.read_csv('diamonds.csv', index_col='stone')\n"
        "for name in ('cut', 'color', 'clarity'):\n    table[name] = table[name].astype('category')\n"
        "table.loc[table.index[40:], 'dear'] = None\n"  # forty are labelled, as in life
        "with natsel.ActiveLearner(trees(), natsel.Pool(table, labels='dear'), k=5, store='run.db') as learner:\n"
        "    batch = learner.ask()\n"
        "    print(learner.n_labelled, list(batch.ids)[0], table.loc[batch.ids].shape, learner.pool.classes)\n",
    )
    experiment, _, again = said.partition("her loop:")
    assert "power-bald" in experiment
    page = (tmp_path / "runs" / "mine" / "report.html").read_text()
    assert "power-bald" in page
    assert "D0" in page, "picks go by the shop's own ids"
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} == {".svg", ".csv"}
    assert again.split()[0] == "40"
    assert "D0" in again
    assert "(5, " in again
    assert "('no', 'yes')" in again


# An engineer with a folder of pictures and a network and loop of her own.

ENGINEER = """
import os, signal, sys
import torch, natsel
from natsel.models import Dropout, inputs_of

KIND = {"0": "round", "1": "straight", "6": "hook", "7": "late"}


def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Dropout(0.3), torch.nn.Linear(288, 4)
    )


def train(module, labelled, validation, seed):
    if sys.argv[-2:] == ["killed-at", str(len(labelled))] and store == "run.db":
        os.kill(os.getpid(), signal.SIGKILL)
    inputs, labels = inputs_of(module, labelled.inputs), torch.as_tensor(labelled.labels)
    optimiser = torch.optim.AdamW(module.parameters(), lr=0.01)
    module.train()
    for _ in range(25):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(module(inputs), labels).backward()
        optimiser.step()


def opened(store):
    pool = natsel.Pool("scans")
    model = Dropout(network, draws=10, train=train, device="cpu")
    return natsel.ActiveLearner(model, pool, method="batchbald", k=6, store=store, who="eve")


for store in sys.argv[2].split("+"):
    with opened(store) as learner:
        if learner.n_labelled == 0:
            first = learner.ask()
            for half in (first.ids[:3], first.ids[3:]):  # in parts
                learner.tell(half, [KIND[name[0]] for name in half])
        while learner.n_labelled < int(sys.argv[1]):
            waiting = learner.outstanding if len(learner.outstanding) else learner.ask().ids
            learner.tell(waiting, [KIND[name[0]] for name in waiting])
        print(*learner.labelled_ids, sep="\\n")
        print(learner.pool.classes, flush=True)
"""


def scans(folder, kinds, count):
    image = pytest.importorskip("PIL.Image")
    folder.mkdir(exist_ok=True)
    digits = natsel.data.load("digits").train
    for kind in kinds:
        for number, row in enumerate(np.flatnonzero(digits.labels == kind)[:count]):
            picture = np.repeat(np.asarray(digits.inputs[row], dtype=np.uint8)[:, :, None], 3, axis=2)
            image.fromarray(picture).save(folder / f"{kind} scan {number:03d}.png")


def test_an_engineer_with_pictures_and_a_loop_of_her_own(tmp_path):
    scans(tmp_path / "scans", (0, 1, 6), 12)
    whole = python(tmp_path, ENGINEER, "18", "whole.db+run.db", "killed-at", "12", code=-signal.SIGKILL)
    with natsel.Journal(tmp_path / "run.db") as journal:
        journal.export(tmp_path / "before.csv")
    assert len(list(csv.DictReader((tmp_path / "before.csv").open()))) == 12, "it was killed in mid-run"
    again = python(tmp_path, ENGINEER, "18", "run.db")
    assert again == whole, "what was killed in mid-fit goes on to the same batches"
    assert "0 scan" in whole
    scans(tmp_path / "scans", (0, 1, 6, 7), 16)  # more files, among them a kind that nobody had seen
    grown = python(tmp_path, ENGINEER + commands("report run.db --pictures scans"), "36", "run.db").splitlines()
    assert grown[:18] == whole.splitlines()[:18]
    assert "'late'" in grown[36]
    page = (tmp_path / "run.html").read_text()
    assert "28 points joined" in page
    assert "7 scan" in page
    assert page.count("data:image/") >= 30, "the pictures themselves"
    with natsel.Journal(tmp_path / "run.db") as journal:
        journal.export(tmp_path / "labels.csv")
    rows = list(csv.DictReader((tmp_path / "labels.csv").open()))
    assert {row["class"] for row in rows} == {"round", "straight", "hook", "late"}
    assert all((tmp_path / "scans" / row["id"]).exists() for row in rows)


# A person with texts.


@pytest.mark.needs_data("trec")
def test_a_person_with_texts(tmp_path):
    arrays = open_set("trec")["trec"]
    texts = arrays.read("text_train").tobytes().decode().split("\n")[:400]
    kinds = np.array(arrays.read("classes").tolist())[arrays.read("y_train")[:400]]
    with (tmp_path / "questions.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["question", "kind"])
        writer.writerows([text, kinds[row] if row < 30 else ""] for row, text in enumerate(texts))
    (tmp_path / "answers.json").write_text(json.dumps(dict(zip(texts, kinds.tolist(), strict=True))))
    said = python(
        tmp_path,
        "import json, natsel\nfrom natsel.models import TextModel\n"
        "answers = json.load(open('answers.json'))\n"
        "pool = natsel.Pool('questions.csv', labels='kind')\n"
        "with natsel.ActiveLearner(TextModel(), pool, method='bald', k=10, store='run.db') as learner:\n"
        "    batch = learner.ask()\n"
        "    questions = pool.inputs_of(batch.ids)\n"
        "    learner.tell(batch.ids, [answers[question] for question in questions])\n"
        "    print(learner.n_labelled, learner.predict(['How far is the moon ?', 'Who wrote Faust ?']))\n"
        "    batch.to_csv('picks.csv')\n",
    )
    assert said.startswith("40 [")
    assert len((tmp_path / "picks.csv").read_text().splitlines()) == 11


# A student with a method of her own.

STUDENT = '''
"""Her own objective: the Gini index of the mean prediction."""
import natsel


class GiniIndex(natsel.Objective):
    """1 − Σ p²."""

    facts = natsel.Facts("1 − Σ p²", reason="an impurity, not an information quantity")


@natsel.pointwise(GiniIndex, natsel.ClassProbabilities, natsel.PairFacts(cost="N C"))
def gini_index(objective, belief, context):
    return 1 - belief.log_probs_N_C.exp().square().sum(-1)


natsel.register(natsel.Method(GiniIndex(), natsel.TopK(), "gini-index", source="Breiman et al. 1984"))
'''


def test_a_student_with_a_method_of_her_own_in_a_figure(tmp_path):
    (tmp_path / "her_method.py").write_text(STUDENT)
    (tmp_path / "thesis.toml").write_text(
        'name = "thesis"\nk = 5\nbudget = 15\nseeds = 2\nplugins = ["her_method"]\n'
        'methods = ["random", "batchbald", "gini-index"]\n'
        '[data]\nset = "iris"\n[model]\nkind = "forest"\ntrees = 8\n'
    )
    python(
        tmp_path,
        commands("run thesis.toml --processes 1", "report runs/thesis --figures figures --format svg,pdf"),
    )
    curves = next(path for path in (tmp_path / "figures").glob("*.svg") if "curve" in path.name)
    assert all(name in curves.read_text() for name in ("random", "batchbald", "gini-index"))
    assert any(path.suffix == ".pdf" and path.stat().st_size > 1000 for path in (tmp_path / "figures").iterdir())
