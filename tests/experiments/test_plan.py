"""Plans: variants are recipes of their own, what ships is the published protocol, and slips are refused by name."""

import json

import numpy as np
import pytest

import natsel
from natsel.experiments.recipe.plan import laid_over, load_plan, plan_from
from natsel.experiments.recipe.recipe import Recipe
from natsel.experiments.report.report import report
from natsel.experiments.results.from_journals import read_experiment
from natsel.experiments.results.publish import publish
from natsel.experiments.running import run as running
from natsel.experiments.running import sizes as sizing
from natsel.experiments.running.build import build_data, initial_ids
from natsel.experiments.running.data_source import load_data
from natsel.experiments.running.folder import Job, prepare, write_json, write_outcome
from natsel.experiments.running.job import Runner
from natsel.experiments.running.run import Outcome, run_plan
from natsel.experiments.running.sizes import refuse_sizes

BASE = {
    "name": "parts",
    "data": {"set": "digits", "test": 200},
    "model": {"kind": "forest", "trees": 10},
    "methods": ["random", "bald", "epig"],
    "initial": {"per_class": 1},
    "k": 5,
    "budget": 16,
    "seeds": 2,
    "claims": [
        {"claim": "H6", "says": "above", "method": "epig", "than": "bald"},
        {"claim": "H9", "says": "only here", "method": "epig", "than": "random", "variants": ["two"]},
        {"claim": "H6", "says": "most", "kind": "gap", "method": "epig", "than": "bald", "largest": "two"},
    ],
    "variants": {
        "all": {"data": {"train": [20] * 10}, "target_inputs": {"from": "pool", "count": 40}},
        "two": {
            "data": {
                "train": [20] * 10,
                "validation": [1] * 10,
                "test": [0, "all", 0, 0, 0, 0, 0, "all", 0, 0],
                "classes": {"1": ["1"], "7": ["7"], "neither": "rest"},
            },
            "target_inputs": {"from": "train", "rows": [0, 30, 0, 0, 0, 0, 0, 30, 0, 0], "count": 40},
            "full": {"budget": 40},
        },
        "late": {"full_only": True, "k": 2},
    },
    "full": {"seeds": 4, "budget": 30},
}


def test_variants_are_laid_over_the_rest():
    plan = plan_from(BASE)
    assert list(plan.recipes) == ["all", "two"]
    assert [one.name for one in plan.recipes.values()] == ["parts-all", "parts-two"]
    assert plan.recipes["all"].data.test == 200
    assert plan.recipes["two"].data.test[:2] == (0, None)
    assert [one.claim for one in plan.recipes["all"].claims] == ["H6"]
    assert [one.claim for one in plan.recipes["two"].claims] == ["H6", "H9"]
    assert [one.kind for one in plan.claims] == ["gap"]
    full = plan_from(BASE, full=True)
    assert list(full.recipes) == ["all", "two", "late"]
    assert [one.budget for one in full.recipes.values()] == [30, 40, 30]
    assert {len(one.seeds) for one in full.recipes.values()} == {4}
    for recipe in (*plan.recipes.values(), *full.recipes.values()):
        assert Recipe.from_table(json.loads(json.dumps(recipe.as_table()))) == recipe


def test_some_variants_may_be_chosen():
    assert list(plan_from(BASE, variants="two").recipes) == ["two"]
    assert list(plan_from(BASE, variants="two, all").recipes) == ["all", "two"]
    with pytest.raises(ValueError, match=r"^variants: parts has no 'tow'; did you mean 'two'\?"):
        plan_from(BASE, variants="tow")
    with pytest.raises(ValueError, match=r"^variants: digits has none"):
        load_plan("digits", variants="two")


def other(**change):
    return BASE | change


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (other(variants={}), "^variants: expected a table for each"),
        (other(variants={"a": 3}), "^variants.a: expected a table"),
        (other(variants={"a/b": {}}), "^variants: 'a/b' reads as a path"),
        (other(variants={"all": {"bugdet": 3}}, claims=[]), r"^variants.all.bugdet: .*did you mean 'budget'\?"),
        (other(variants={"all": {"full": {"k": 0}}}, claims=[]), "^variants.all.full.k: expected a whole number"),
        (other(variants={"all": {}}), "^claims: there is no variant 'two'"),
        (other(variants={"all": {"full_only": 1}}, claims=[]), "^variants.all.full_only: expected true or false"),
        ({"name": "a", "study": "gp"}, r"^study: found 'gp'"),
        ({"name": "a", "study": "gp-example", "settings": {"size": [2]}}, r"^settings.size: .*did you mean 'sizes'\?"),
        ({"name": "a", "study": "gp-example", "full": {"sizes": [0]}}, "^settings.sizes"),
        ({"study": "gp-example"}, "^name: the recipe does not say"),
        (3, "^recipe: expected a table"),
    ],
)
def test_a_slip_in_a_plan_is_refused_by_name(found, words):
    with pytest.raises(ValueError, match=words):
        plan_from(found)


def test_a_study_takes_no_methods_and_a_plan_is_no_recipe():
    with pytest.raises(ValueError, match=r"^methods: epig-1d is a study, which takes none"):
        load_plan("epig-1d").adjusted(methods="bald")
    with pytest.raises(ValueError, match=r"^variants: there is no such key"):
        Recipe.from_table({key: value for key, value in BASE.items() if key != "full"})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"from": "here"}, "target_inputs.from: found 'here'"),
        ({"count": 3}, "target_inputs.from: the recipe does not say"),
        ({"from": "prior"}, "target_inputs.prior: needs the share of each class; add it"),
        ({"from": "pool", "prior": [1.0]}, "target_inputs.prior: is for from = 'prior' only; drop it"),
        ({"from": "pool", "rows": 3}, "target_inputs.rows: pool sets no rows aside"),
    ],
)
def test_a_slip_in_targets_is_refused_by_name(change, words):
    with pytest.raises(ValueError, match=words):
        plan_from(BASE | {"variants": {"all": {"target_inputs": change}}, "claims": []})


def small(**change):
    return Recipe.from_table(
        {key: value for key, value in BASE.items() if key not in ("variants", "full", "claims")} | change
    )


def test_parts_are_disjoint_and_counted_by_the_sets_own_classes():
    recipe = plan_from(BASE).recipes["two"]
    setting = build_data(recipe)
    assert len(setting.ids) == 200
    assert np.bincount(setting.original).tolist() == [20] * 10
    assert setting.examples.classes == setting.test.classes == ("1", "7", "neither")
    assert np.bincount(setting.examples.labels).tolist() == [20, 20, 160]
    assert set(setting.test.labels.tolist()) == {0, 1}
    assert (len(setting.validation), len(setting.targets)) == (10, 60)
    assert np.bincount(setting.validation.labels).tolist() == [1, 1, 8]
    rows = {
        name: {row.tobytes() for row in part.inputs} for name, part in vars(setting).items() if hasattr(part, "inputs")
    }
    assert not rows["examples"] & rows["targets"]
    assert not rows["examples"] & rows["validation"]
    assert not rows["targets"] & rows["validation"]


def test_the_start_takes_different_old_classes_of_a_new_one():
    recipe = plan_from(BASE | {"initial": {"per_class": 5}, "budget": 40}).recipes["two"]
    setting = build_data(recipe)
    for seed in range(5):
        ids = initial_ids(recipe, setting, seed)
        places = [int(np.flatnonzero(setting.ids == id)[0]) for id in ids]
        assert np.bincount(setting.examples.labels[places]).tolist() == [5, 5, 5]
        others = setting.original[places][setting.examples.labels[places] == 2]
        assert len(set(others.tolist())) == 5
    assert set(initial_ids(recipe, setting, 0)) != set(initial_ids(recipe, setting, 1))


def test_one_scale_over_the_pool():
    setting = build_data(small(data={"set": "wine", "standardise": True, "validation": 20}))
    np.testing.assert_allclose(setting.examples.inputs.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(setting.examples.inputs.std(0), 1, atol=1e-5)
    assert 0.01 < abs(setting.test.inputs.mean(0)).max() < 1  # the pool's scale, not its own
    with pytest.raises(ValueError, match=r"^data.standardise: image data keep their scale"):
        build_data(small(data={"set": "digits", "standardise": True}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"data": {"set": "digits", "train": [20, 20]}},
            "^data.train: expected a count for each of 10 classes, found 2",
        ),
        ({"data": {"set": "digits", "train": [900] + [1] * 9}}, "^data.train: asked for 900 of the .* rows of class 0"),
        ({"data": {"set": "digits", "validation": [900] + [1] * 9}}, "^data.validation: asked for 900"),
        ({"data": {"set": "diabetes", "train": [3]}}, "^data.train: a list counts rows of each class"),
        ({"data": {"set": "digits", "classes": {"a": ["x"], "b": "rest"}}}, "^data.classes: there is no class 'x'"),
        ({"target_inputs": {"from": "train"}}, "^target_inputs.rows: all rows as targets leave none"),
        ({"target_inputs": {"from": "train", "rows": 5000}}, "^target_inputs.rows: asked for 5000 of"),
    ],
)
def test_counts_that_cannot_be_had_are_refused_by_name(change, words):
    with pytest.raises(ValueError, match=words):
        build_data(small(**change))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"target_inputs": {"from": "prior", "prior": [0.5, 0.5]}}, "^target_inputs: expected a share for each of 10"),
        ({"target_inputs": {"from": "stream"}}, "^target_inputs: digits is drawn from no formula"),
    ],
)
def test_targets_that_cannot_be_had_are_refused_by_name(change, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        Runner(small(**change), tmp_path, "cpu")


def test_targets_come_from_where_the_recipe_says(tmp_path):
    def targets(**change):
        return Runner(small(**change), tmp_path, "cpu").targets

    assert targets() is None
    assert (targets(target_inputs={"from": "pool"}).kind, targets(target_inputs={"from": "pool"}).count) == (
        "pool",
        100,
    )
    prior = targets(target_inputs={"from": "prior", "prior": [0.5, 0.5] + [0.0] * 8, "count": 7})
    assert (prior.kind, prior.class_prior[:3], prior.count) == ("pool", (0.5, 0.5, 0.0), 7)
    test = targets(target_inputs={"from": "test", "rows": 30})
    assert len(test.inputs) == 30
    bells = targets(data={"set": "two-bells", "train": 100, "test": 50}, target_inputs={"from": "stream", "count": 9})
    assert bells.inputs(9, 4).shape == (9, 2)
    np.testing.assert_array_equal(bells.inputs(9, 4), bells.inputs(9, 4))
    assert not np.array_equal(bells.inputs(9, 4), bells.inputs(9, 5))


QUICK = {"max_epochs": 1, "epoch_samples": 64}


def test_junk_is_set_aside_or_shown(tmp_path):
    junk = {"kind": "junk", "set": "digits", "count": 300}
    data = {"set": "digits", "train": 60, "transforms": [junk]}
    model = {"kind": "dropout", "network": "mlp", "hidden": [16], "draws": 4}
    for how in ("reject", "expose"):
        recipe = small(data=data, model=model, junk=how, training=QUICK, methods=["random"])
        assert Recipe.from_table(recipe.as_table()).junk == how
        runner = Runner(recipe, tmp_path / how, "cpu")
        runner.do(recipe.methods[0], 0, 16, lambda event: None)
        with natsel.store.Journal(tmp_path / how / "random" / "seed-0.db") as journal:
            run = journal.runs()[0].run
            asked = [pick for one in journal.rounds(run) for ask in one.asks for pick in ask.ids]
        assert any(id >= 1258 for id in asked)
    with pytest.raises(ValueError, match="junk: found 'keep'"):
        small(junk="keep")


def junky(tmp_path, junk, labels=20, **change):
    """A run on digits of which most of the pool is junk: its experiment, read from the folder."""
    data = {"set": "digits", "train": 60, "test": 50, "transforms": [{"kind": "junk", "set": "digits", "count": 300}]}
    recipe = small(data=data, methods=["random"], junk=junk, seeds=1, budget=labels, **change)
    tmp_path.mkdir(exist_ok=True)
    runner, events = Runner(recipe, tmp_path, "cpu"), []
    prepare(tmp_path, recipe)
    runner.do(recipe.methods[0], 0, labels, events.append)
    return read_experiment(tmp_path), events


def test_junk_uses_up_queries_and_costs_no_labels(tmp_path):
    free, _ = junky(tmp_path / "labels", "reject")
    assert free.curves[0].sizes[-1] == 20
    paid, events = junky(tmp_path / "queries", "reject", budget_counts="queries")
    assert Recipe.from_table(paid.recipe).budget_counts == "queries"
    run = paid.curves[0]
    assert len(run.initial.ids) + len(run.acquired) == 20
    assert run.sizes[-1] == 20 - sum(label is None for label in run.acquired_labels) < 20
    assert events[-1]["labels"] == 20
    assert any("Runs end after 20 queries" in note for note in paid.notes)
    assert not any("queries" in note for note in free.notes)


@pytest.mark.parametrize("junk", ["reject", "expose"])
def test_the_share_of_junk_is_measured_at_every_size(tmp_path, junk):
    model = {"kind": "dropout", "network": "mlp", "hidden": [16], "draws": 4}
    found, _ = junky(tmp_path, junk, budget_counts="queries", labels=40, model=model, training=QUICK)
    run = found.curves[0]
    held, picked, junk_picked, expected = len(run.initial.ids), 0, 0, {}
    for batch in run.batches:
        picked, junk_picked = picked + len(batch.ids), junk_picked + sum(label is None for label in batch.labels)
        expected[held] = junk_picked / picked
        held += sum(label is not None for label in batch.labels)
    assert [expected.get(size, junk_picked / picked) for size in run.sizes] == pytest.approx(run.metrics["junk"])
    assert run.final("junk") == pytest.approx(30 / 30 - (run.sizes[-1] - 10) / 30)
    assert all(found.thumbnails[id].shape == (8, 8) for id in run.acquired)  # pictures of the junk too
    assert "(nan" not in report(found)
    assert "junk (%)" in report(found)


def test_junk_from_another_set_has_ids_of_its_own():
    junk = {"kind": "junk", "set": "digits", "count": 30}
    setting = build_data(small(data={"set": "digits", "train": 100, "transforms": [junk]}))
    assert len(np.unique(setting.ids)) == len(setting.ids) == 130
    assert (setting.examples.labels[100:] == -1).all()
    assert setting.ids[100:].min() >= 1258
    assert setting.first.tolist() == list(range(100))


@pytest.fixture
def in_process(monkeypatch):
    """Jobs are done by this process: what is tried is the plan, not the workers."""

    def run_recipe(recipe, folder, *, deadline, report, **options):
        jobs = [Job(one.label, one.slug, seed) for seed in recipe.seeds for one in recipe.methods]
        if deadline is not None:
            return Outcome(left=tuple(jobs))
        folder.mkdir(parents=True, exist_ok=True)
        runner = Runner(recipe, folder, "cpu")
        prepare(folder, recipe, command=options["command"])
        write_json(folder / "data.json", runner.described())
        for job in jobs:
            contender = next(one for one in recipe.methods if one.slug == job.slug)
            runner.do(contender, job.seed, recipe.budget, report)
            write_outcome(folder, job, {"budget": recipe.budget})
        return Outcome(done=tuple(jobs))

    monkeypatch.setattr(running, "run_recipe", run_recipe)


def test_a_plan_becomes_pages_and_verdicts(tmp_path, in_process):
    events = []
    outcomes = run_plan(
        plan_from(BASE), tmp_path, progress=lambda name: lambda event: events.append((name, event)), command=["natsel"]
    )
    assert {name: (one.finished, one.left, one.failed) for name, one in outcomes.items()} == {
        "all": (6, (), {}),
        "two": (6, (), {}),
    }
    assert {name for name, _ in events} == {"all", "two"}
    published = publish(tmp_path)
    verdicts = json.loads((tmp_path / "claims.json").read_text())
    assert [(one["claim"], one["where"], one["verdict"] != "open") for one in verdicts] == [
        ("H6", "", True),
        ("H6", "all", True),
        ("H6", "two", True),
        ("H9", "two", True),
    ]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'href="two/report.html"' in page
    assert page.count('class="verdict') == 4
    assert page.count('<svg class="chart wide"') == 2
    assert (tmp_path / "two" / "report.html").read_text(encoding="utf-8").count('class="verdict') == 2
    assert json.loads((tmp_path / "two" / "experiment.json").read_text())["claims"][1]["claim"] == "H9"
    found = published.as_dict()
    assert set(found["variants"]) == {"all", "two"}
    assert found["variants"]["two"]["report"] == str(tmp_path / "two" / "report.html")
    assert published.sentence.startswith(f"{sum(one['verdict'] == 'pass' for one in verdicts)} of 4")


def test_variants_may_come_one_by_one_and_time_is_shared(tmp_path, in_process):
    outcomes = run_plan(plan_from(BASE), tmp_path, minutes=0)
    assert [len(one.left) for one in outcomes.values()] == [6, 6]
    assert not (tmp_path / "plan.json").exists()  # what never began binds nobody
    run_plan(plan_from(BASE, variants="two"), tmp_path)
    assert set(publish(tmp_path).variants) == {"two"}
    verdicts = json.loads((tmp_path / "claims.json").read_text())
    assert verdicts[0]["verdict"] == "open"  # a gap needs the other variant
    run_plan(plan_from(BASE, variants="all"), tmp_path)
    assert json.loads((tmp_path / "plan.json").read_text())["variants"] == ["all", "two"]
    assert set(publish(tmp_path).variants) == {"all", "two"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"data": {"train": 5000}},
            "^variants.two.data.train: asked for 5000 rows of digits, which has .*; ask for fewer",
        ),
        ({"data": {"validation": 5000}}, "^variants.two.data.validation: asked for 5000"),
        ({"data": {"test": 5000}}, "^variants.two.data.test: asked for 5000 of"),
        ({"initial": {"per_class": 500}}, "^variants.two.initial.per_class: asked for 500 of each class"),
        ({"budget": 201}, "^variants.two.budget: .* at most the 200 rows of the pool, found 201; lower it"),
        (
            {"budget": 251, "data": {"transforms": [{"kind": "junk", "set": "digits", "count": 50}]}},
            "^variants.two.budget: .* at most the 250 rows of the pool, found 251; lower it",
        ),
    ],
)
def test_a_variant_that_its_data_cannot_fill_is_refused_before_any_run(tmp_path, change, words, in_process):
    two = {"data": {"train": [20] * 10}}
    right, wrong = (
        plan_from(BASE | {"variants": {"all": two, "two": one}, "claims": []}) for one in (two, laid_over(two, change))
    )
    with pytest.raises(ValueError, match=words):
        run_plan(wrong, tmp_path)
    assert not list(tmp_path.rglob("*.json"))
    assert not list(tmp_path.rglob("*.db"))
    refuse_sizes(right)  # without the change it can be filled


def test_sizes_are_those_of_the_runs(monkeypatch):
    """Transforms and new classes count; each set is read once for all variants."""
    grown = {
        "transforms": [{"kind": "repeated", "copies": 3, "noise": 0.1}, {"kind": "junk", "set": "digits", "count": 9}]
    }
    plan = plan_from(BASE | {"variants": BASE["variants"] | {"grown": {"data": grown}}, "claims": []})
    read, sizes, checked = [], {}, sizing.check_sizes
    monkeypatch.setattr(sizing, "load_data", lambda recipe: read.append(recipe.name) or load_data(recipe))
    monkeypatch.setattr(sizing, "check_sizes", lambda recipe, setting: sizes.update({recipe.name: setting}))
    refuse_sizes(plan)
    assert read == ["parts-all"]
    for recipe in plan.recipes.values():
        built, found = build_data(recipe), sizes[recipe.name]
        checked(recipe, found)
        np.testing.assert_array_equal(found.ids, built.ids)
        np.testing.assert_array_equal(found.examples.labels, built.examples.labels)
        assert [len(found.test), len(found.first)] == [len(built.test), len(built.first)]


def test_a_plan_that_is_killed_can_be_reported(tmp_path, in_process):
    class Killed(BaseException):
        pass

    def dying(variant):
        def report(event):
            if event["event"] == "round" and event["labels"] == 15:
                raise Killed

        return report

    with pytest.raises(Killed):
        run_plan(plan_from(BASE), tmp_path, progress=dying)
    published = publish(tmp_path)
    assert set(published.variants) == {"all"}
    assert published.variants["all"].experiment.curves[0].sizes == (10, 15)
    assert {one["verdict"] for one in published.claims} == {"open"}
    page = published.page.read_text(encoding="utf-8")
    assert "1 of 1 runs had not finished" in page
    assert "5 of 6 runs have not begun" in page


def test_the_published_pools_of_mnist():
    plan = load_plan("epig-mnist", full=True)
    assert list(plan.recipes)[:3] == list(load_plan("epig-mnist").recipes) == ["curated", "unbalanced", "redundant"]
    for recipe in plan.recipes.values():
        assert (recipe.k, recipe.budget, recipe.candidates, len(recipe.seeds)) == (1, 300, None, 20)
        assert (recipe.model["draws"], recipe.target_inputs["count"]) == (100, 100)
    curated, unbalanced, redundant, prior, proxy = plan.recipes.values()
    assert (prior.target_inputs["prior"], proxy.target_inputs["from"]) == ((0.5, 0.5, 0.0), "pool")
    assert prior.data == proxy.data == redundant.data
    assert curated.data.train == redundant.data.train == (4000,) * 10
    assert unbalanced.data.train == (400,) * 5 + (4000,) * 5
    assert (sum(curated.data.validation), sum(unbalanced.data.validation)) == (60, 55)
    assert curated.target_inputs["rows"] == (1000,) * 10
    assert redundant.target_inputs["rows"] == (0, 1000, 0, 0, 0, 0, 0, 1000, 0, 0)
    assert redundant.data.test == (0, None, 0, 0, 0, 0, 0, None, 0, 0)


def test_digits_and_clothes_with_rejection_and_exposure():
    for full, count, targets in ((False, 2000, 1000), (True, 60000, 2000)):
        plan = load_plan("epig-junk", full=full)
        ways = {name: (one.data.set, one.junk, one.data.transforms[0]["set"]) for name, one in plan.recipes.items()}
        assert ways == {
            "reject": ("mnist", "reject", "fashion"),
            "expose": ("mnist", "expose", "fashion"),
            "fashion-reject": ("fashion", "reject", "mnist"),
            "fashion-expose": ("fashion", "expose", "mnist"),
        }
        for recipe in plan.recipes.values():
            assert (recipe.data.transforms[0]["count"], recipe.target_inputs["rows"]) == (count, targets)
            assert [(one.method, one.than, one.metric) for one in recipe.claims[:2]] == [
                ("epig", "bald", "junk"),
                ("epig", "bald", "accuracy"),
            ]
            assert recipe.budget_counts == "queries"
    assert all(recipe.model["draws"] == 100 and len(recipe.seeds) == 5 for recipe in plan.recipes.values())
    assert "jepig-distil" in {one.label for one in plan.recipes["reject"].methods}


@pytest.mark.needs_data("uci-magic", "uci-satellite", "uci-vowel")
def test_the_published_splits_of_uci():
    plan = load_plan("epig-uci", full=True)
    settings = {name: build_data(recipe) for name, recipe in plan.recipes.items()}
    sizes = {
        name: (len(one.ids), len(one.test), len(one.validation), len(one.targets)) for name, one in settings.items()
    }
    assert sizes["magic"] == sizes["magic-network"] == (7680, 2640, 60, 2640)
    assert sizes["satellite"] == (2219, 2000, 59, 399)
    assert sizes["vowels"] == (286, 462, 66, 110)
    assert np.bincount(settings["magic"].test.labels).tolist() == [660, 1980]
    assert settings["magic-network"].examples.inputs.std() == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("name", ["epig-mnist", "epig-uci", "epig-2d", "epig-junk"])
@pytest.mark.parametrize("full", [False, True])
def test_a_shipped_plan_is_whole(name, full):
    plan = load_plan(name, full=full)
    assert "minute" in plan.about
    assert len(plan.recipes) >= 3
    methods = {one.label for recipe in plan.recipes.values() for one in recipe.methods}
    assert {"random", "bald", "epig"} <= methods
    for recipe in plan.recipes.values():
        assert all(method.build() for method in recipe.methods)
        assert recipe.target_inputs is not None
        assert recipe.claims or plan.claims
        assert len(recipe.seeds) >= 5
        assert Recipe.from_table(recipe.as_table()) == recipe


def test_later_axes_of_a_grid_add_to_the_model_of_earlier_ones():
    recipes = load_plan("large-batches", full=True).recipes
    assert recipes["letters-1000-draws-20"].model["draws"] == 20
    assert recipes["intents-100-draws-50"].model == {"kind": "frozen", "backbone": "minilm", "draws": 50}
    assert (recipes["letters-1000-draws-100"].k, recipes["letters-1000-draws-100"].budget) == (1000, 3200)
    assert set(load_plan("large-batches").recipes) == {"letters-100-draws-20", "letters-100-draws-100"}
