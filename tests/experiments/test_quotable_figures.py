"""Figures that can be quoted: from seeds and sizes that methods have in common, never by leaving runs out."""

import json
import math
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import natsel
from natsel import ActiveLearner, Pool
from natsel.beliefs import CategoricalSamples
from natsel.data import load
from natsel.evaluation.of_belief import evaluate
from natsel.evaluation.savings import Known
from natsel.experiments.recipe.new_recipe import new_recipe
from natsel.experiments.recipe.plan import plan_from
from natsel.experiments.report.report import notes, report
from natsel.experiments.report.triage_page import triage_page
from natsel.experiments.results.claims import Claim, counted, judged, judged_across
from natsel.experiments.results.experiment import Curve, Experiment
from natsel.experiments.results.from_journals import read_experiment
from natsel.experiments.results.log_errors import as_lines as group_lines
from natsel.experiments.results.log_errors import curve_over_sets, group_of
from natsel.experiments.results.publish import _row
from natsel.experiments.results.summary import as_text, headline, label_table, labels, level, share, table, targets
from natsel.experiments.running.build import build_data
from natsel.experiments.running.run import run_plan

TENS = range(10, 151, 10)


def reaching(method, needed, *, seeds=None, sizes=TENS, last=150, target=0.9):
    """Runs that reach the target with so many labels (None: never), measured up to `last`."""
    sizes = [size for size in sizes if size <= last]
    return [
        Curve(method, seed, sizes, {"accuracy": [target if one and size >= one else 0.5 for size in sizes]})
        for seed, one in zip(seeds or range(len(needed)), needed, strict=True)
    ]


def ending(method, values, *, seeds=None, sizes=(10, 20, 40), metric="accuracy", **more):
    """Runs that end at these values."""
    return [
        Curve(method, seed, sizes, {metric: [0.1] * (len(sizes) - 1) + [value]}, **more)
        for seed, value in zip(seeds or range(len(values)), values, strict=True)
    ]


def experiment(*curves, aims=(0.9,), **more):
    return Experiment("made", [curve for some in curves for curve in some], targets=aims, **more)


def row_of(made, method):
    return next(row for row in table(made) if row.method == method)


def test_what_is_saved_is_of_the_seeds_that_both_have():
    """Random needs 50 with the seeds that bald has, and 100 with others: nothing was saved, and 50 % was told."""
    made = experiment(reaching("random", [50] * 6 + [100] * 8), reaching("bald", [50] * 6))
    assert row_of(made, "bald").saved.share == Known(0, 0)
    assert row_of(made, "bald").saved.interval == Known(0, 0)
    assert headline(made) == (
        "No method saved labels on the way to 90 % accuracy: the best, bald reached 90 % accuracy with 50 labels where"
        " random needed 50 (medians of 6 seeds in common, of 6 and 14)."
    )
    assert row_of(made, "random").runs == 14
    assert _row(row_of(made, "bald"))["baseline"] == [50, 50]


def test_the_seeds_of_a_saving_hold_it_between_them():
    made = experiment(reaching("random", [50] * 5 + [100] * 8), reaching("bald", [40, 50, 50, 50, 60]))
    saved = row_of(made, "bald").saved
    assert saved.seeds.low <= saved.share.low <= saved.share.high <= saved.seeds.high


def test_the_rank_at_the_end_is_of_the_seeds_that_all_have():
    """The median of six seeds of random (78.8 %) is below that of two of bald, and random is ahead in both of these."""
    made = experiment(
        ending("random", [0.80, 0.812, 0.77, 0.78, 0.785, 0.79]), ending("bald", [0.785, 0.795]), aims=[0.99]
    )
    assert headline(made).startswith("random ended at accuracy 80.6 % with 40 labels (medians of 2 seeds in common, of")
    assert [row[-1] for row in label_table(made)[1]] == ["80.6 % (2 of 6 runs)", "79 %"]
    said = "Not every method has been run with every seed: only those in common are compared."
    assert said in as_text(made)
    assert said in notes(made)


def test_at_the_end_only_runs_at_the_last_size_count():
    """Runs that died with 30 of 60 labels are no ends."""
    whole = ending("bald", [0.68, 0.69, 0.70, 0.70], sizes=(10, 30, 60))
    dead = ending("bald", [0.60, 0.61], seeds=[4, 5], sizes=(10, 30))
    made = experiment(ending("random", [0.66] * 6, sizes=(10, 30, 60)), whole, dead, aims=[0.99])
    assert [row[-1] for row in label_table(made)[1]] == ["66 % (4 of 6 runs)", "69.5 % (4 of 6 runs)"]
    assert headline(made).endswith("at 66 % (medians of 4 seeds in common, of 6).")
    missing = ending("bald", [math.nan], seeds=[0], sizes=(10, 30, 60))
    both = experiment(
        ending("random", [0.5, 0.7], sizes=(10, 30, 60)), missing, ending("bald", [0.8], seeds=[1], sizes=(10, 30, 60))
    )
    assert [row[-1] for row in label_table(both)[1]] == ["70 % (1 of 2 runs)", "80 % (1 of 2 runs)"]


def test_methods_under_way_are_compared_where_all_have_come_to():
    made = experiment(ending("random", [0.9]), ending("bald", [0.4], sizes=(10, 20)), aims=[0.99])
    assert label_table(made)[0][-1] == "at 20 labels"
    assert headline(made) == "bald was at accuracy 40 % with 20 labels, random at 10 % (one seed)."


def test_who_is_measured_more_often_saves_nothing_by_it():
    """The same curves with noise of the test set, measured after each label or after each ten."""
    flattered = 0
    for repeat in range(60):
        rng = np.random.default_rng(repeat)
        values = 0.5 + 0.3 * np.arange(10, 151) / 150 + rng.normal(0, 0.012, (2, 8, 141))
        finely = [Curve("bald", seed, range(10, 151), {"accuracy": one}) for seed, one in enumerate(values[0])]
        coarse = [Curve("random", seed, TENS, {"accuracy": one[::10]}) for seed, one in enumerate(values[1])]
        saved = row_of(experiment(finely, coarse, aims=[0.7]), "bald").saved
        flattered += saved.interval.low > 0
    assert flattered <= 6
    assert "Not every method has been measured at the same numbers of labels" in as_text(experiment(finely, coarse))


def test_a_target_may_be_reached_beyond_the_end_of_the_other():
    made = experiment(reaching("random", [60] * 6), reaching("bald", [None] * 6, last=30))
    assert row_of(made, "bald").saved.share == Known(-math.inf, 0.5)
    turned = experiment(reaching("random", [None] * 6, last=30), reaching("bald", [60] * 6))
    assert (row_of(turned, "bald").needed[1], row_of(turned, "bald").saved.share) == (Known(60, 60), Known(-1.0, 1.0))


def test_the_best_of_several_has_a_wider_interval_and_says_of_how_many():
    rng = np.random.default_rng(0)
    needed = {name: rng.choice([40, 50, 60, 70, 80], 9).tolist() for name in ("random", "a", "b", "c", "d")}
    made = experiment(*(reaching(name, some) for name, some in needed.items()))
    alone = experiment(reaching("random", needed["random"]), reaching("b", needed["b"]))
    assert "the best of 4 methods, medians of 9 seeds, 95 % interval widened for that: " in headline(made)
    assert "best of" not in headline(alone)
    told = headline(made).split(" reached")[0]
    saved = row_of(made, told).saved
    low, high = (float(one) for one in headline(made).replace("−", "-").split("that: ")[1].split(" %")[0].split(" to "))
    assert low <= 100 * saved.interval.low + 0.5
    assert high >= 100 * saved.interval.high - 0.5
    assert high - low > 100 * (saved.interval.high - saved.interval.low)


def test_methods_that_tie_are_named_together():
    made = experiment(reaching("random", [90] * 3), reaching("batchbald", [70] * 3), reaching("power-bald", [70] * 3))
    assert headline(made).startswith(
        "batchbald and power-bald reached 90 % accuracy with 70 labels where random needed 90"
    )


def test_numbers_are_written_so_that_they_can_be_read():
    assert labels(Known(12345, 12345)) == "12345"
    assert labels(Known(123456.5, math.inf)) == ">123456.5"
    assert (level("accuracy", 0.9996), level("accuracy", 1.0), level("accuracy", 0.99999)) == (
        "99.96 %",
        "100 %",
        "99.999 %",
    )
    assert share(Known(0.996, 0.996)) == "99.6 %"
    made = experiment(reaching("random", [80, 90, None, None], last=100), reaching("bald", [40] * 4, last=100))
    page = report(made)
    assert "“&gt;95” means more than 95: runs ended before they had reached it." in page
    assert "All seeds share one split into pool and test examples" in page


def test_levels_are_above_the_share_of_the_largest_class():
    curves = ending("random", [0.98] * 3)
    assert targets(experiment(curves, aims=())) == (0.95, 0.97, 0.98)
    assert targets(experiment(curves, aims=(), majority=0.96)) == (0.97, 0.98)
    assert targets(experiment(curves, aims=(), majority=0.985)) == ()


ABOVE = Claim("A", "bald is above random", "bald", "random")


def test_a_claim_that_its_interval_does_not_decide_is_not_beyond_chance():
    down, level_, up = (
        experiment(ending("random", [0.5] * 6), ending("bald", [0.5 + shift + one for one in spread]))
        for shift, spread in ((-0.1, np.linspace(0, 0.05, 6)), (0.0, np.linspace(-0.02, 0.06, 6)), (0.1, np.zeros(6)))
    )
    found = [judged([ABOVE], one)[0] for one in (down, level_, up)]
    assert [one.word for one in found] == ["fail", "not beyond chance", "pass"]
    assert [one.passed for one in found] == [False, None, True]
    worse = judged([replace(ABOVE, margin=-0.03)], level_)[0]  # not worse by more than three points
    assert worse.word == "pass"
    few = experiment(ending("random", [0.5] * 5), ending("bald", [0.4, 0.51, 0.52, 0.53, 0.54]))
    assert judged([ABOVE], few)[0].word == "pass"  # five seeds have no interval
    verdicts = [one.as_dict() for one in found]
    assert counted(verdicts) == "1 of 3 claims held, 1 is not beyond chance, 1 did not hold."
    assert 'class="verdict not-beyond-chance"' in report(replace(up, claims=verdicts))


@pytest.mark.parametrize("at", ["end", "all"])
def test_a_claim_about_runs_under_way_is_open(at):
    made = experiment(ending("random", [0.9]), ending("bald", [0.8], sizes=(10, 20)))
    assert judged([replace(ABOVE, at=at)], made)[0].word == "open"
    recipe = {"recipe": {"budget": 80}}  # of journals, all of which are under way
    both = experiment(ending("random", [0.9]), ending("bald", [0.8]), **recipe)
    assert judged([replace(ABOVE, at=at)], both)[0].word == "open"
    stopped = experiment(ending("random", [0.9], stopped="80"), ending("bald", [0.8], stopped="80"), **recipe)
    assert judged([replace(ABOVE, at=at)], stopped)[0].word == "fail"


def test_nobody_gains_by_runs_that_died_or_have_no_finite_value():
    random, bald = ending("random", [0.7] * 3), ending("bald", [0.8] * 2)
    died = ending("bald", [0.2], seeds=[2], sizes=(10, 20))
    found = judged([ABOVE], experiment(random, bald, died))[0]
    assert found.word == "open"
    assert "a run of bald or random with seed 2 has not come so far" in found.evidence
    error = Claim("A", "s", "bald", "random", metric="rmse")
    grew = [*ending("bald", [0.5] * 2, metric="rmse"), *ending("bald", [math.inf], seeds=[2], metric="rmse")]
    made = experiment(ending("random", [0.7] * 3, metric="rmse"), grew, metric="rmse")
    assert judged([error], made)[0].word == "open"


def test_claims_compare_at_sizes_that_both_have_measured():
    """Over all labels, a curve that is measured more often at its beginning seems lower."""
    often = [Curve("bald", 0, [1, 2, 3, 10, 20], {"accuracy": [0.1, 0.1, 0.1, 0.6, 0.8]})]
    seldom = [Curve("random", 0, [10, 20], {"accuracy": [0.5, 0.7]})]
    assert judged([replace(ABOVE, at="all")], experiment(often, seldom))[0].numbers["difference"] == pytest.approx(0.1)


def test_the_evidence_does_not_contradict_itself():
    """The median of differences is no difference of medians, and both stood side by side as if it were."""
    made = experiment(ending("random", [0.1, 0.5, 0.9]), ending("bald", [0.2, 0.4, 1.0]))
    found = judged([ABOVE], made)[0].evidence
    assert found.startswith("bald against random at the end: median difference +10.0 points")
    assert "medians of each 40.0 % and 50.0 %" in found


def test_a_claim_says_where_runs_were_measured():
    made = experiment(ending("random", [0.9]), ending("bald", [0.8]))
    assert judged([replace(ABOVE, at=25)], made)[0].evidence.endswith("they were measured at 10, 20, 40")


def test_a_gap_is_compared_among_the_variants_that_it_names():
    gap = Claim("G", "largest in a", "bald", "random", kind="gap", largest="a", variants=("a", "b"))
    parts = {
        name: experiment(ending("random", [0.5]), ending("bald", [0.5 + one]))
        for name, one in (("a", 0.2), ("b", 0.1), ("c", 0.3))
    }
    assert judged_across([gap], parts)[0].passed is True
    assert judged_across([replace(gap, variants=())], parts)[0].passed is False


def test_a_fall_is_open_while_a_variant_is_under_way():
    falls = Claim("F", "falls", "bald", kind="falls")
    parts = {name: experiment(ending("bald", [one] * 2)) for name, one in (("a", 0.9), ("b", 0.8), ("c", 0.85))}
    assert judged_across([falls], parts)[0].passed is False
    parts["c"] = experiment(ending("bald", [0.85] * 2), ending("random", [0.5], sizes=(10, 20, 40, 50)))
    assert judged_across([falls], parts)[0].word == "open"


def errors(**runs):
    return [
        Curve(method, seed, [10, 20, 30][: len(one)], {"rmse": one})
        for method, some in runs.items()
        for seed, one in enumerate(some)
    ]


LOG = Claim("B", "bald beats random", "bald", "random", kind="log-error", metric="rmse")
GROUP = {"all": ["wine", "beer"]}


def judged_errors(wine, beer):
    sets = {name: Experiment(name, some, metric="rmse") for name, some in (("wine", wine), ("beer", beer))}
    return judged_across([LOG], sets, GROUP)[0], group_of("all", sets), sets


@pytest.mark.parametrize("bad", [math.inf, math.nan, 0.0])
def test_a_method_that_diverges_never_gains(bad):
    """[9, ∞, 1] against [9, 2, 2] was better by ln 2, on two of two data sets; an error of 0 ended the page."""
    one = errors(random=[[9.0, 2.0, 2.0]] * 2, bald=[[9.0, bad, 1.0], [9.0, 2.0, 2.0]])
    other = errors(random=[[9.0, 2.0, 2.0]] * 2, bald=[[9.0, 1.0, 1.0]] * 2)
    found, group, sets = judged_errors(one, other)
    assert found.word == "open"
    assert "bald on wine with seed 0" in found.evidence
    assert group.entries["bald"]["rmse"].difference is None
    assert group_lines(group)[1].split() == ["random", "+0.693"]
    assert group_lines(group)[-1] == "  no mean can be told of bald on wine with seed 0"
    json.dumps(group.as_dict(), allow_nan=False)
    values = curve_over_sets(sets, "bald", "rmse")[0][1]
    assert not math.isfinite(values[1])
    assert values[2] == 0


def test_a_run_that_died_leaves_a_claim_about_errors_open():
    one = errors(random=[[9.0, 2.0, 2.0]] * 2, bald=[[9.0, 2.0], [9.0, 1.0, 1.0]])
    other = errors(random=[[9.0, 2.0, 2.0]] * 2, bald=[[9.0, 1.0, 1.0]] * 2)
    found = judged_errors(one, other)[0]
    assert found.word == "open"
    assert "bald on wine with seed 0" in found.evidence


def test_a_claim_about_errors_is_decided_by_its_interval_over_seeds():
    rng = np.random.default_rng(0)

    def noisy(shift):
        return errors(
            random=[[9.0, *np.exp(rng.normal(0, 0.1, 2))] for _ in range(5)],
            bald=[[9.0, *np.exp(shift + rng.normal(0, 0.1, 2))] for _ in range(5)],
        )

    words = [judged_errors(noisy(shift), noisy(shift))[0].word for shift in (-0.5, -0.01, 0.5)]
    assert words == ["pass", "not beyond chance", "fail"]


IRIS = {"name": "a", "data": {"set": "iris"}, "model": {"kind": "forest", "trees": 3}}


def test_all_methods_start_alike_also_one_with_a_number_of_its_own(tmp_path):
    """The first batch, drawn at random, had the method's own number: it was measured sooner, and saved labels."""
    iris = {
        "name": "a",
        "data": {"set": "iris"},
        "model": {"kind": "forest", "trees": 3},
        "budget": 12,
        "k": 4,
        "seeds": 1,
    }
    run_plan(plan_from(iris | {"methods": ["random", "bald", {"method": "bald", "k": 3}]}), tmp_path, processes=0)
    made = read_experiment(tmp_path)
    assert {run.method: run.sizes for run in made.curves} == {
        "random": (4, 8, 12),
        "bald": (4, 8, 12),
        "bald k=3": (4, 7, 10, 12),
    }
    assert len({run.batches[0].ids for run in made.curves}) == 1


@pytest.fixture
def unequal(tmp_path):
    """A table of which 92 % is of one class, and the recipe that natsel writes for it."""
    rows = [f"{place % 7},{place % 11},{'rare' if place % 25 < 2 else 'usual'}" for place in range(100)]
    (tmp_path / "data.csv").write_text("\n".join(["a,b,kind", *rows]))
    return new_recipe(tmp_path / "data.csv", tmp_path / "new.toml", "kind")


def test_a_new_recipe_judges_unequal_classes_by_balanced_accuracy(unequal, tmp_path):
    assert 'metric = "balanced accuracy"   # 92 % are of one class, which accuracy would be without a label' in unequal
    assert plan_from(tomllib.loads(unequal), str(tmp_path)).recipes[""].metric == "balanced accuracy"
    (tmp_path / "data.csv").write_text(
        (tmp_path / "data.csv").read_text().replace("5,", "5.5,").replace("usual", "rare", 50)
    )
    assert "metric" not in new_recipe(tmp_path / "data.csv", tmp_path / "new.toml", "kind")


def test_a_page_says_what_accuracy_is_worth_without_a_label(unequal, tmp_path):
    recipe = tomllib.loads(unequal) | {"metric": "accuracy", "budget": 12, "seeds": 1, "methods": ["random"]}
    run_plan(plan_from(recipe, str(tmp_path)), tmp_path / "runs", processes=0)
    made = read_experiment(tmp_path / "runs")
    share_ = made.majority
    assert share_ == pytest.approx(np.mean([label == "usual" for label in _tested(tmp_path)]))
    said = f"{100 * share_:.3g} % of the test examples are of the class usual: who always says so has that accuracy"
    assert said in notes(made)
    assert all(one > share_ for one in targets(made))


def _tested(folder):
    """The classes of the examples that runs were judged by."""
    recipe = plan_from(json.loads((folder / "runs" / "recipe.json").read_text())["recipe"]).recipes[""]
    setting = build_data(recipe)
    return [setting.test.classes[label] for label in setting.test.labels]


def test_balanced_accuracy_is_the_mean_over_classes():
    belief = CategoricalSamples.from_probs([[[0.9, 0.1]]] * 10)  # always the first of two classes
    found = evaluate(belief, [0] * 8 + [1] * 2, details=True)
    assert (found["accuracy"], found["balanced accuracy"]) == (0.8, 0.5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "bladd"}, r"claims: no variant has a method 'bladd'; did you mean 'bald'\?"),
        ({"than": "epig"}, "claims: no variant has a method 'epig'"),
    ],
)
def test_a_claim_about_a_method_that_nobody_runs_is_refused(change, words):
    recipe = IRIS | {"methods": ["random", "bald"], "budget": 20}
    claim = {"claim": "A", "says": "s", "method": "bald", "than": "random"}
    assert plan_from(recipe | {"claims": [claim]})
    with pytest.raises(ValueError, match=words):
        plan_from(recipe | {"claims": [claim | change]})


def test_a_claim_about_a_metric_that_is_not_measured_is_refused(tmp_path):
    claim = {"claim": "A", "says": "s", "method": "bald", "than": "random", "metric": "acuracy"}
    recipe = IRIS | {"methods": ["random", "bald"], "budget": 20, "claims": [claim]}
    with pytest.raises(ValueError, match=r"claims.metric: 'acuracy' is not measured; did you mean 'accuracy'\?"):
        run_plan(plan_from(recipe), tmp_path, processes=0)


def test_a_run_that_goes_on_after_it_had_stopped_is_under_way(tmp_path):
    recipe = IRIS | {"methods": ["random"], "k": 4, "seeds": 1}
    run_plan(plan_from(recipe | {"budget": 8}), tmp_path, processes=0)
    assert read_experiment(tmp_path).curves[0].stopped
    iris = load("iris")
    pool = Pool(iris.train.inputs, answers=iris.train.labels)
    with ActiveLearner(RandomForestClassifier(3), pool, store=tmp_path / "b.db", k=4, test=iris.test) as learner:
        learner.run(budget=8)
        learner.step()
    (tmp_path / "b.db").replace(tmp_path / "random" / "seed-0.db")
    assert read_experiment(tmp_path).curves[0].stopped == ""


def test_a_triage_page_names_its_prices():
    belief = natsel.FeatureDensity([-1.0, -90.0], [[9.0, 0.0], [9.0, 0.0]])
    found = natsel.triage(belief, epistemic_limit=50.0, aleatoric_limit=0.5)
    page = triage_page(found, [0, -1], error=2.0, defer=0.3, label=0.25)
    assert "Per point; accepting a wrong prediction costs 2, deferring 0.3, a label 0.25." in page


def test_tests_of_the_causal_studies_say_that_they_are_one_sided():
    studies = Path(natsel.__file__).parent / "experiments" / "studies" / "causal_acquisition.py"
    text = studies.read_text()
    assert text.count("paired one-sided t-test") == 2
    for name in ("causal-ihdp", "causal-synthetic", "causal-mnist"):
        said = (Path(__file__).parents[2] / "results" / f"{name}.json").read_text()
        assert "paired t-test" not in said


def test_what_is_measured_of_two_classes_is_refused_for_three(tmp_path):
    recipe = IRIS | {"methods": ["random"], "budget": 20, "metric": "positives found", "targets": [5]}
    with pytest.raises(ValueError, match="metric: 'positives found' is not measured"):
        run_plan(plan_from(recipe), tmp_path, processes=0)
