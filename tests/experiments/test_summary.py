import math

import pytest

from made_experiments import made_experiment
from natsel.evaluation.savings import Known
from natsel.experiments.results.experiment import Curve, Experiment
from natsel.experiments.results.summary import (
    as_text,
    headline,
    label_table,
    labels,
    level,
    share,
    span,
    table,
    targets,
)

SIZES = range(10, 101, 10)


def runs(method, *needed, last=100, target=0.9):
    """Runs that reach the target with so many labels (None: never)."""
    sizes = [size for size in SIZES if size <= last]
    return [
        Curve(method, seed, sizes, {"accuracy": [target if one and size >= one else 0.5 for size in sizes]})
        for seed, one in enumerate(needed)
    ]


def compare(*curves, aims=(0.9,)):
    return headline(Experiment("x", [curve for part in curves for curve in part], targets=aims))


def test_the_headline_names_the_best_and_how_sure_it_is():
    found = compare(runs("random", *[80] * 6), runs("bald", *[60] * 6), runs("batchbald", 40, 40, 40, 40, 40, 60))
    assert found == (
        "batchbald reached 90 % accuracy with 40 labels where random needed 80: 50 % saved"
        " (the best of 2 methods, medians of 6 seeds, 95 % interval widened for that: 38 to 50 %)."
    )


def test_a_baseline_that_never_arrives_makes_a_bound():
    found = compare(runs("random", *[None] * 5), runs("bald", *[40] * 5))
    assert "where random needed more than 100: at least 60 % saved" in found


def test_doubt_is_said_aloud():
    found = compare(runs("random", *[50] * 6), runs("bald", 10, 20, 40, 40, 80, 90))
    assert found.endswith("95 % interval −70 to 70 %, so perhaps none).")


def test_few_seeds_get_no_interval():
    three = compare(runs("random", 80, 80, 80), runs("bald", 20, 40, 60))
    assert "(medians of 3 seeds, seeds give 25 to 75 %)" in three
    five = compare(runs("random", *[80] * 5), runs("bald", 20, 40, 40, 40, 60))
    assert "(medians of 5 seeds, seeds give 25 to 75 %)" in five
    assert compare(runs("random", 80), runs("bald", 40)).endswith("50 % saved (one seed).")


def test_losing_is_not_dressed_up():
    worse = compare(runs("random", *[40] * 5), runs("bald", *[60] * 5))
    assert worse.startswith("No method saved labels on the way to 90 % accuracy: the best, bald reached")
    never = compare(runs("random", *[40] * 5), runs("bald", *[None] * 5))
    assert never.startswith("No method was seen to reach 90 % accuracy with fewer labels than random")


def test_the_target_is_the_highest_that_the_baseline_reached():
    mixed = [
        Curve(method, 0, [10, 20, 30], {"accuracy": values})
        for method, values in (("random", [0.5, 0.8, 0.85]), ("bald", [0.8, 0.9, 0.96]))
    ]
    assert "reached 80 % accuracy" in headline(Experiment("x", mixed, targets=[0.95, 0.8, 0.9]))


def test_without_a_baseline_or_a_target_only_what_is_known_is_said():
    alone = compare(runs("bald", 40, 40))
    assert (
        alone
        == "bald reached 90 % accuracy with 40 labels (medians of 2 seeds); there is no run of random to compare with."
    )
    missed = compare(runs("random", None), runs("bald", None))
    assert missed == "random ended at accuracy 50 % with 100 labels (one seed)."
    assert headline(Experiment("x", [])) == "Nothing has been measured yet."
    assert headline(Experiment("x", [Curve("random", 0, [], {})])) == "Nothing has been measured yet."


def test_lower_is_better_where_it_is():
    falling = [
        Curve(method, 0, [10, 20, 30, 40], {"rmse": values})
        for method, values in (("random", [3, 2, 1.5, 1]), ("bald", [3, 1, 0.9, 0.8]))
    ]
    found = headline(Experiment("x", falling, metric="rmse", targets=[1.0, 2.0]))
    assert found == "bald reached 1 rmse with 20 labels where random needed 40: 50 % saved (one seed)."


def test_targets_have_a_default_in_reach():
    assert targets(Experiment("x", runs("random", 40, target=0.91))) == (0.8, 0.85, 0.9)
    assert targets(Experiment("x", [Curve("random", 0, [1], {"rmse": [2.0]})], metric="rmse")) == ()
    errors = [Curve("random", 0, [10, 20, 30, 40, 50], {"rmse": [9.0, 5.004, 3.0, 2.0, 2.5]})]
    assert targets(Experiment("x", errors, metric="rmse")) == (3.0, 2.0)  # what random comes to on the way
    assert targets(Experiment("x", [])) == ()


def test_the_table_has_a_row_for_each_method_and_target():
    made = made_experiment(methods=3, seeds=3)
    rows = table(made)
    assert [(row.method, row.target) for row in rows] == [(m, t) for m in made.methods for t in (0.8, 0.9, 0.95)]
    assert all((row.saved is None) == (row.method == "random") for row in rows)
    assert all(0 <= row.reached <= row.runs == 3 for row in rows)


def test_words_for_numbers():
    assert labels(Known(62.5, 62.5)) == "62.5"
    assert labels(Known(1030, 1030)) == "1030"
    assert share(Known(-0.001, -0.001)) == "0 %"
    assert share(Known(0.2, 0.6)) == "20 to 60 %"
    assert share(Known(-math.inf, 1.0)) == "unknown"
    assert span(Known(-math.inf, 0.5)) == "at most 50 %"
    assert level("accuracy", 1.0) == "100 %"
    assert level("rmse", -1234.5) == "−1.23e+03"


@pytest.mark.parametrize("seeds", [1, 5])
def test_the_headline_of_a_whole_experiment_is_one_sentence(seeds):
    found = headline(made_experiment(seeds=seeds))
    assert found.count(".") <= 2
    assert found.startswith(("batchbald", "power-bald"))


def test_what_is_saved_follows_from_the_two_medians_beside_it():
    """Seed by seed bald saves nothing in the median: the table once said 55 labels of 65, and 0 %."""
    curves = [*runs("random", 60, 70, 20, 90), *runs("bald", 50, 60, 30, 90)]
    made = Experiment("x", curves, targets=[0.9])
    needed = {row.method: row.needed[1].low for row in table(made)}
    assert needed == {"random": 65, "bald": 55}
    (saved,) = [row.saved for row in table(made) if row.saved is not None]
    assert saved.share == Known(1 - 55 / 65, 1 - 55 / 65)
    assert saved.seeds.low <= saved.share.low <= saved.seeds.high
    assert label_table(made)[1] == [["random", "65", "90 %"], ["bald", "55 (15 %)", "90 %"]]
    assert "bald reached 90 % accuracy with 55 labels where random needed 65: 15 % saved" in as_text(made)
    assert as_text(made).endswith(headline(made))


def test_an_interval_holds_the_saving_and_knows_of_bounds():
    curves = [*runs("random", *[80, 90, None] * 3), *runs("bald", *[40, 50, 60] * 3)]
    (saved,) = [row.saved for row in table(Experiment("x", curves, targets=[0.9])) if row.saved is not None]
    assert saved.share == Known(1 - 50 / 90, 1 - 50 / 90)
    assert saved.interval.low <= saved.share.low <= saved.interval.high == 1.0  # random may never have arrived
