"""The regression benchmark: its plan, its data, its tables beside published numbers, and a small run of its shape."""

import json
import math

import numpy as np
import pytest

from natsel.data import Examples
from natsel.experiments.recipe.plan import load_plan, plan_from
from natsel.experiments.recipe.recipe import Data, Recipe
from natsel.experiments.results.claims import Claim, judged_across
from natsel.experiments.results.experiment import Curve, Experiment
from natsel.experiments.results.log_errors import group_of
from natsel.experiments.results.publish import publish
from natsel.experiments.running.build import build_data, build_model
from natsel.experiments.running.run import run_plan
from natsel.experiments.running.table_scales import scaled

MODELS = ("ensemble", "forest", "boosted")


@pytest.mark.parametrize("full", [False, True])
def test_the_plan_is_every_model_on_every_table(full):
    plan = load_plan("regression-benchmark", full=full)
    tables = 9 if full else 8
    assert [len(plan.groups[model]) for model in MODELS] == [tables] * 3
    assert len(plan.recipes) == 3 * tables
    for recipe in plan.recipes.values():
        assert Recipe.from_table(json.loads(json.dumps(recipe.as_table()))) == recipe
        assert [one.label for one in recipe.methods][:2] == ["random", "bald"]
        assert all(one.build() for one in recipe.methods)
        assert (recipe.budget - recipe.initial.value) % recipe.k == 0
    network = plan.recipes["ensemble-fried"]
    sizes = (network.initial.value, network.k, network.budget, network.model["hidden"], network.training["max_epochs"])
    assert sizes == ((256, 256, 4352, (512, 512), 256) if full else (100, 50, 500, (128, 128), 100))
    assert network.metric == "member rmse"
    rows = {method for one in plan.published.values() for method in one} - {"source", "columns"}
    assert rows == {one.label for one in network.methods}


def test_parts_of_a_grid_may_be_named_by_a_value():
    assert list(load_plan("regression-benchmark", variants="fried").recipes) == [f"{one}-fried" for one in MODELS]
    with pytest.raises(ValueError, match=r"^variants: regression-benchmark has no 'forst'"):
        load_plan("regression-benchmark", variants="forst")


def test_tables_come_to_one_scale():
    rng = np.random.default_rng(0)
    inputs = np.stack([rng.normal(3, 2, 50), np.full(50, 7.0), rng.integers(0, 3, 50), rng.standard_cauchy(50)], 1)
    pool = Examples(inputs, rng.normal(5, 3, 50))
    wanted = Data("a", one_hot=(2,), standardise=True, squash=5.0, standardise_labels=True)
    test = Examples(np.array([[3.0, 7.0, 9.0, 1e9]]), np.array([5.0]))
    found = scaled({"pool": pool, "test": test, "targets": None}, wanted, "table", [pool.labels])
    assert found["pool"].inputs.shape == (50, 5)  # two numbers that vary, three categories
    plain = (inputs[:, 0] - inputs[:, 0].mean()) / inputs[:, 0].std()
    np.testing.assert_allclose(found["pool"].inputs[:, 0], 5 * np.tanh(plain / 5), rtol=1e-5)
    assert found["test"].inputs[0, 1] == 5  # an outlier ends at the bound
    assert len(np.unique(found["test"].inputs[0, 2:] < 0)) == 1  # a category that the pool does not know
    np.testing.assert_allclose([found["pool"].labels.mean(), found["pool"].labels.std()], [0, 1], atol=1e-12)
    with pytest.raises(ValueError, match=r"^data.one_hot: there is no column 7"):
        scaled({"pool": pool}, Data("a", one_hot=(7,)), "table", [])
    with pytest.raises(ValueError, match=r"^data.standardise_labels: labels are classes"):
        scaled({"pool": pool}, Data("a", standardise_labels=True), "table", [np.array([0, 1])])


def sets(**ends):
    """Two data sets with two seeds; the error of each method falls from 1 to what `ends` says, by data set and seed."""
    return {
        name: Experiment(
            name,
            [
                Curve(method, seed, [10, 20, 30], {"rmse": [9.0, 1.0, math.exp(2 * ends[method][place][seed])]})
                for method in ends
                for seed in range(2)
            ],
            metric="rmse",
        )
        for place, name in enumerate(("a", "b"))
    }


def test_groups_average_over_seeds_then_sets_beside_published_numbers():
    experiments = sets(random=[[0.0, 0.2], [0.4, 0.4]], lcmd=[[-0.1, -0.1], [0.1, 0.3]])
    published = {"source": "a paper", "columns": ["mae", "rmse"], "lcmd": [-9.0, -0.5], "random": [-8.0, -0.25]}
    group = group_of("forest", experiments, published)
    entry = group.entries["lcmd"]["rmse"]
    np.testing.assert_allclose(group.entries["random"]["rmse"].log_error, (0.1 + 0.4) / 2)
    np.testing.assert_allclose(entry.difference.mean, ((-0.1 - 0.3) / 2 + (-0.3 - 0.1) / 2) / 2)
    assert (entry.published, entry.difference.pairs, entry.difference.below) == (-0.5, 4, 2)
    half = 4.302652729911275 * math.sqrt(2 * (0.02 / 2) / 4)  # t with 2 degrees; each set has the variance 0.02
    np.testing.assert_allclose(entry.difference.over_seeds.high, entry.difference.mean + half)
    np.testing.assert_allclose(entry.difference.over_sets.high, entry.difference.mean, atol=1e-12)  # both sets agree
    json.dumps(group.as_dict(), allow_nan=False)
    claim = {"claim": "B", "says": "better", "kind": "log-error", "metric": "rmse", "method": "lcmd", "than": "random"}
    verdicts = judged_across([Claim.from_table(claim)], experiments, {"forest": ["a", "b"], "boosted": ["a", "c"]})
    assert [(one.where, one.word) for one in verdicts] == [("forest", "not beyond chance"), ("boosted", "open")]
    turned = Claim.from_table(claim | {"method": "random", "than": "lcmd"})
    assert judged_across([turned], experiments, {"forest": ["a", "b"]})[0].word == "not beyond chance"
    with pytest.raises(ValueError, match=r"^claims.metric: 'log-error' speaks of an error"):
        Claim.from_table(claim | {"metric": "accuracy"})


SMALL = {
    "name": "small",
    "data": {"train": 200, "validation": 30, "test": 50, "standardise": True, "squash": 5, "standardise_labels": True},
    "methods": ["random", "lcmd"],
    "initial": {"count": 20},
    "k": 10,
    "budget": 30,
    "seeds": 2,
    "grid": {
        "models": {
            "ensemble": {
                "metric": "member rmse",
                "model": {"kind": "ensemble", "members": 3, "network": "ntk-mlp", "hidden": [16], "noise": 1e-6},
                "training": {"learning_rate": 0.3, "schedule": "linear", "max_epochs": 4, "epoch_samples": 64},
            },
            "forest": {"model": {"kind": "forest", "trees": 10, "noise": 0.01}},
        },
        "tables": {"line": {"data": {"file": "line.npz"}}, "bend": {"data": {"file": "bend.npz"}}},
    },
    "published": {"forest": {"source": "a paper", "columns": ["rmse"], "random": [-0.25], "lcmd": [-0.5]}},
    "claims": [
        {
            **{"claim": "B", "says": "LCMD", "kind": "log-error", "metric": "rmse", "method": "lcmd"},
            **{"than": "random", "variants": ["forest"]},
        }
    ],
}


def test_a_small_benchmark_from_data_to_page(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3)).astype(np.float32)
    np.savez(tmp_path / "line.npz", x=x, y=x @ [1.0, 2.0, 3.0] + 100)
    np.savez(tmp_path / "bend.npz", x=x, y=np.sin(3 * x[:, 0]) + x[:, 1] ** 2)
    plan = plan_from(SMALL, str(tmp_path))
    setting = build_data(plan.recipes["ensemble-line"])
    model = build_model(plan.recipes["ensemble-line"], setting, "cpu").fit(setting.examples[:20], setting.validation)
    assert float(model.believe(setting.test.inputs).variance_N_K.max()) < 1e-5
    assert float(model.predictive(setting.test.inputs).variance_N_K.max()) > 1e-3  # as it has found itself
    outcomes = run_plan(plan, tmp_path / "out", processes=0)
    assert {name: len(one.done) for name, one in outcomes.items()} == dict.fromkeys(plan.recipes, 4)
    found = publish(tmp_path / "out")
    assert [(one.name, len(one.variants), one.main) for one in found.groups] == [
        ("ensemble", 2, "member rmse"),
        ("forest", 2, "rmse"),
    ]
    assert len(found.groups[0].metrics) == 5
    assert set(found.groups[1].entries) == {"random", "lcmd"}
    assert [(one["where"], one["verdict"] != "open") for one in found.claims] == [("forest", True)]
    page = found.page.read_text(encoding="utf-8")
    assert page.count("All of ") >= 2
    assert "lcmd, published" in page
    assert "−0.500" in page
    json.dumps(found.as_dict()["groups"], allow_nan=False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"grid": {}}, "^grid: expected axes"),
        ({"grid": {"models": {"forest": 3}}}, "^grid.models.forest: expected a table"),
        ({"variants": {"a": {}}}, "^grid: found beside variants"),
        ({"published": {"forst": {"source": "a", "columns": ["rmse"]}}}, "^published: there is no group of a grid"),
        (
            {"published": {"forest": {"source": "a", "columns": ["rmse"], "lcmd": [1.0, 2.0]}}},
            "^published.forest.lcmd: expected 1 numbers, found 2",
        ),
        ({"data": {"squash": 5}}, "data.squash: found 5 without standardise"),
    ],
)
def test_a_slip_in_a_grid_is_refused_by_name(change, words):
    with pytest.raises(ValueError, match=words):
        plan_from(SMALL | change)


def test_a_metric_that_is_not_measured_is_refused(tmp_path):
    np.savez(tmp_path / "line.npz", x=np.random.default_rng(0).normal(size=(300, 3)), y=np.arange(300.0))
    plan = plan_from(SMALL | {"metric": "rsme"}, str(tmp_path), variants="forest-line")
    with pytest.raises(ValueError, match=r"^metric: 'rsme' is not measured; did you mean 'rmse'"):
        run_plan(plan, tmp_path / "out", processes=0)
