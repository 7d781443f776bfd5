import doctest
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import choosers
import class_sets
import measured_models
import natsel
import savings_table
import units
from natsel.beliefs import GaussianFeatures, Targets
from natsel.objectives import TraceEPIG
from natsel.search import Greedy
from protocol import Protocol, Unit

FOLDER = Path(__file__).parents[2] / "benchmarks" / "labels-saved"

TINY = """
[terms]
pool = 60
test = 40
first = 4
batch = 3
labels = 10
targets = 30
embedded = 60
noise = 0.1
[plan]
seeds = 2
order = ["forest"]
methods = ["random", "margin", "bait", "prototype-trace", "prototype-coverage-even"]
peers = []
[models.forest]
sets = ["breast-cancer", "two-moons"]
trees = 5
least_leaf = 1
[judged]
at = [7, 10]
matched = 7
against = ["random", "margin"]
area = 3.0
better = 0.5
worse = 0
"""


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "protocol.toml"
    path.write_text(TINY)
    return Protocol.read(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with all units of the tiny protocol but one."""
    folder = tmp_path_factory.mktemp("units")
    path = folder / "protocol.toml"
    path.write_text(TINY)
    protocol = Protocol.read(path)
    some = [one for one in protocol.units() if one.seed == 0 or one.data == "two-moons"]
    assert [outcome for _, outcome in units.write_units(some, protocol, folder)] == ["run"] * len(some)
    return folder


def test_units_go_seed_by_seed_over_all_sets_and_methods(tiny):
    found = list(tiny.units())
    assert [one.seed for one in found] == [0] * 10 + [1] * 10
    assert {(one.data, one.method) for one in found[:10]} == {(one.data, one.method) for one in found[10:]}


def test_a_name_that_the_protocol_does_not_have_is_refused(tiny):
    with pytest.raises(ValueError, match="methods: the protocol has no 'guess'; choose from bait, margin"):
        list(tiny.units(methods=["guess"]))


def test_the_committed_protocol_names_methods_and_sets_that_exist():
    protocol = Protocol.read()
    for name in protocol.methods:
        assert name in choosers.PROTOTYPES or natsel.choose.resolve(name)
    sets = {one for model in protocol.models.values() for one in model["sets"]}
    assert sets <= natsel.data.names().keys()
    assert len(protocol.models["forest"]["sets"]) >= 10
    assert protocol.seeds >= 8


def test_methods_of_a_seed_start_from_the_same_labels_and_the_same_model(made, tiny):
    lines = [units.read_unit(one.path(made)) for one in tiny.units(sets=["two-moons"], seeds=[1])]
    assert len({one[1]["accuracy"] for one in lines}) == 1
    assert len({tuple(one[1]["chosen"]) for one in lines}) > 1
    assert [line["labels"] for line in lines[0][1:]] == [4, 7, 10]
    assert "chosen" not in lines[0][-1]


def test_a_unit_that_is_there_is_not_run_again_and_one_of_other_terms_is_refused(made, tiny, tmp_path):
    unit = Unit("forest", "two-moons", "random", 0)
    before = unit.path(made).read_bytes()
    assert list(units.write_units([unit], tiny, made)) == [(unit, "there")]
    assert unit.path(made).read_bytes() == before
    other = replace(tiny, terms=replace(tiny.terms, batch=2))
    with pytest.raises(ValueError, match="was run on other terms"):
        list(units.write_units([unit], other, made))
    again = tmp_path / "again"
    assert list(units.write_units([unit], tiny, again)) == [(unit, "run")]
    measured = [{"accuracy", "chosen"} & line.keys() for line in units.read_unit(unit.path(again))]
    for one, two in zip(units.read_unit(unit.path(again)), units.read_unit(unit.path(made)), strict=True):
        assert [one[name] for name in measured[0]] == [two[name] for name in measured[0]]


def test_a_unit_that_fails_leaves_no_file_and_the_others_go_on(tiny, tmp_path):
    wrong, right = Unit("forest", "two-moons", "no-such-method", 0), Unit("forest", "two-moons", "random", 0)
    (_, reason), (_, outcome) = units.write_units([wrong, right], tiny, tmp_path)
    assert "no-such-method" in reason
    assert outcome == "run"
    assert [path.name for path in tmp_path.rglob("*.jsonl")] == ["random-0.jsonl"]


def test_the_summary_pairs_runs_and_the_table_is_written_from_it(made, tiny, tmp_path):
    result, table = tmp_path / "result.json", tmp_path / "table.md"
    text = savings_table.write_summary(tiny, tiny.units(), made, result, table, "as asked")
    found = json.loads(result.read_text())
    assert table.read_text() == text == savings_table.as_table(found)
    forest = found["models"]["forest"]
    assert forest["seeds"] == {"fewest": 1, "most": 2}
    curves = {
        (one["set"], one["method"], one["seed"]): list(map(float, one["accuracy"].split())) for one in forest["curves"]
    }
    by_hand = [
        100 * np.mean([np.mean(curves[data, "margin", seed]) - np.mean(curves[data, "random", seed]) for seed in seeds])
        for data, seeds in (("breast-cancer", [0]), ("two-moons", [0, 1]))
    ]
    margin = forest["methods"]["margin"]["against"]["random"]
    assert margin["area"]["mean"] == pytest.approx(np.mean(by_hand), abs=0.006)
    assert margin["by_set"]["two-moons"]["mean"] == pytest.approx(by_hand[1], abs=0.006)
    assert margin["area"]["over_seeds"] is None  # one set has one seed
    assert "| `margin` |" in text


def test_differences_beyond_chance_count_as_better_and_worse(tiny):
    sizes = len(tiny.terms.sizes)

    def run(level):
        return {"accuracy": np.full(sizes, level), "balanced": np.full(sizes, level), "seconds": np.zeros(sizes)}

    levels = {"a": [0.1, 0.11, 0.12], "b": [-0.1, -0.11, -0.12], "c": [-0.1, 0.0, 0.1]}
    runs = {(data, "random", seed): run(0.5) for data in levels for seed in range(3)}
    runs |= {(data, "good", seed): run(0.5 + rise) for data, rises in levels.items() for seed, rise in enumerate(rises)}
    found = savings_table.of_model(runs, tiny)
    against = found["methods"]["good"]["against"]["random"]
    assert (against["better"], against["worse"]) == (1, 1)
    assert found["methods"]["good"]["labels_matched"] == {
        "mean": pytest.approx((4 + 10 + 4) / 3, abs=0.05),
        "never_on": 1,
        "by_set": {"a": 4.0, "b": None, "c": 4.0},
    }
    assert found["bars"]["good"] == {"area": False, "better": False, "worse": False, "at 7": False}


def test_the_prototype_is_the_trace_form_of_epig_on_features_of_leaves():
    rng = np.random.default_rng(0)
    leaf_N_T, weights_N = rng.integers(0, 4, (40, 6)), rng.random(40)
    labelled = np.array([3, 5, 11])
    features = GaussianFeatures(
        torch.from_numpy(measured_models.leaf_incidence(leaf_N_T) / np.sqrt(6)).double(), noise=0.1
    )
    wanted = natsel.select(
        natsel.Method(TraceEPIG(), Greedy()),
        features,
        8,
        targets=Targets(features, weights=weights_N),
        given=features[labelled],
        exclude=labelled,
    )
    picks = choosers.by_trace(measured_models.leaves_kernel(leaf_N_T), weights_N, labelled, 8, 0.1)
    assert picks.tolist() == wanted.ids.tolist()


def test_coverage_takes_what_covers_most_beyond_what_is_labelled():
    kernel = np.array([[1, 0.9, 0, 0], [0.9, 1, 0, 0], [0, 0, 1, 0.5], [0, 0, 0.5, 1]])
    assert choosers.by_coverage(kernel, np.ones(4), np.array([0]), 2, 0.1).tolist() == [2, 3]
    assert choosers.by_coverage(kernel, np.array([0, 9, 0, 1.0]), np.array([0]), 2, 0.1).tolist() == [3, 1]


@pytest.mark.parametrize("module", [measured_models, savings_table], ids=lambda module: module.__name__)
def test_examples_in_the_program_are_right(module):
    assert doctest.testmod(module) == (0, 1)


def test_the_command_line_runs_and_sums_up(made, tmp_path, monkeypatch, capsys):
    import importlib.util

    spec = importlib.util.spec_from_file_location("labels_saved", FOLDER / "__main__.py")
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    folder = tmp_path / "units"
    shutil.copytree(made / "forest", folder / "forest")
    common = ["--protocol", str(made / "protocol.toml"), "--folder", str(folder), "--methods", "random", "margin"]
    monkeypatch.setattr(sys, "argv", ["labels-saved", "run", *common])
    assert program.main() == 0
    assert capsys.readouterr().out.splitlines() == [
        "5 of 8: forest breast-cancer random 1: run",
        "6 of 8: forest breast-cancer margin 1: run",
    ]
    where = ["--result", str(tmp_path / "result.json"), "--table", str(tmp_path / "table.md")]
    monkeypatch.setattr(sys, "argv", ["labels-saved", "summary", *common, *where])
    assert program.main() == 0
    assert "## forest: 2 sets, 2 seeds" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["labels-saved", "run", *common, "--sets", "nowhere"])
    assert program.main() == 2


def test_the_committed_table_and_its_figures_follow_from_the_curves_of_the_result_file():
    result, protocol, models = FOLDER.parents[1] / "results" / "labels-saved.json", Protocol.read(), {}
    if result.exists():
        document = json.loads(result.read_text(encoding="utf-8"))
        assert (FOLDER / "table.md").read_text(encoding="utf-8") == savings_table.as_table(document)
        assert document["protocol"]["terms"] == vars(protocol.terms)
        models = document["models"]
    for found in models.values():
        nothing = np.zeros(len(found["labels"]))
        runs = {
            (one["set"], one["method"], one["seed"]): {
                "accuracy": np.fromstring(one["accuracy"], sep=" "),
                "balanced": nothing,
                "seconds": nothing,
            }
            for one in found["curves"]
        }
        again = json.loads(json.dumps(savings_table.of_model(runs, protocol)))
        assert again["bars"] == found["bars"]
        for method, one in found["methods"].items():
            assert again["methods"][method].get("labels_matched") == one.get("labels_matched")
            for other, compared in one["against"].items():
                for name in ("area", "better", "worse", "by_set", "at 30", "at 200"):
                    assert again["methods"][method]["against"][other][name] == compared[name]


SETTINGS = {
    "forest": {"trees": 4, "least_leaf": 1},
    "logistic": {"members": 2},
    "boosted": {"members": 2, "trees": 3, "learning_rate": 0.3, "leaves": 4, "least_leaf": 1},
    "network": {"draws": 4, "hidden": 8, "epoch_samples": 16, "max_epochs": 1},
}


@pytest.mark.parametrize("model", SETTINGS)
@pytest.mark.parametrize("one_class", [False, True], ids=["classes", "one class"])
def test_each_model_predicts_and_says_how_alike_points_are(model, one_class, tiny):
    if model == "boosted":
        pytest.importorskip("lightgbm")
    data = class_sets.drawn("two-moons", 0, tiny.terms)
    labels_N = np.asarray(data.pool.labels)
    labelled = np.flatnonzero(labels_N == 0)[:4] if one_class else np.arange(4)
    fit = measured_models.fitted(model, SETTINGS[model], "two-moons", data, labelled, seed=0)
    kernel_N_N = fit.kernel()
    assert fit.test_N_C.shape == (40, 2)
    assert np.allclose(np.diag(kernel_N_N), 1)
    assert np.linalg.eigvalsh(kernel_N_N).min() > -1e-6
    assert len(fit.embedding()) == len(data.pool)
    for method in ("badge", "bait", "prototype-trace"):
        picks = choosers.choose(method, fit, labelled, labels_N[labelled], 0, tiny.terms).positions
        assert len(set(picks.tolist()) - set(labelled.tolist())) == tiny.terms.batch
