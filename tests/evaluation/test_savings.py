import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsel.evaluation.savings import ENOUGH, Known, labels_saved, labels_to, median_interval, quartiles

SIZES = tuple(range(10, 101, 10))


def run(needed, last=100):
    """A run that reaches 0.9 with `needed` labels (None: never) and ends at `last`."""
    sizes = [size for size in SIZES if size <= last]
    return sizes, [0.95 if needed is not None and size >= needed else 0.5 for size in sizes]


def runs(*needed):
    return {seed: run(one) for seed, one in enumerate(needed)}


def test_the_first_size_counts_even_where_a_run_falls_back():
    assert labels_to([10, 20, 30], [0.5, 0.9, 0.8], 0.9) == 20
    assert labels_to([10, 20], [0.5, 0.6], 0.9) is None
    assert labels_to([10, 20], [math.nan, 0.9], 0.9) == 20
    assert labels_to([10, 20, 30], [1.5, 0.4, 0.6], 0.5, higher=False) == 20


def test_quartiles_are_those_of_numpy_where_all_runs_arrive():
    needed = [20, 30, 30, 50, 90]
    found = quartiles(runs(*needed).values(), 0.9)
    assert [part.low for part in found] == np.quantile(needed, [0.25, 0.5, 0.75]).tolist()
    assert all(part.exact for part in found)


def test_runs_that_never_arrive_make_quartiles_open():
    lower, middle, upper = quartiles(runs(20, 40, 60, None, None).values(), 0.9)
    assert lower == Known(40, 40)
    assert middle == Known(60, 60)
    assert upper == Known(100, math.inf)
    even = quartiles(runs(40, None).values(), 0.9)[1]  # half way between 40 and more than 100
    assert even == Known(70, math.inf)


def test_saved_in_pairs_by_hand():
    saved = labels_saved(runs(50, 60, 20), runs(100, 80, 80), 0.9)
    assert saved is not None
    assert saved.median == Known(0.5, 0.5)  # of 0.5, 0.25 and 0.75
    assert saved.seeds == Known(0.25, 0.75)
    assert (saved.pairs, saved.fewer, saved.interval) == (3, 3, None)


def test_pairs_are_by_seed_not_by_order():
    """Where the hard seed is hard for both, a saving in pairs is sharp although the runs overlap."""
    method, random = {5: run(40), 1: run(10), 9: run(50)}, {1: run(20), 9: run(100), 5: run(80), 7: run(10)}
    saved = labels_saved(method, random, 0.9)
    assert saved is not None
    assert saved.seeds == Known(0.5, 0.5)
    assert saved.pairs == 3
    assert labels_saved({0: run(10)}, {1: run(10)}, 0.9) is None


def test_a_baseline_that_never_arrives_gives_at_least():
    saved = labels_saved(runs(*[40] * 6), runs(*[None] * 6), 0.9)
    assert saved is not None
    assert saved.median == Known(0.6, 1.0)
    assert saved.interval == Known(0.6, 1.0)


def test_a_method_that_never_arrives_gives_at_most_and_is_not_called_better():
    saved = labels_saved(runs(*[None] * 5), runs(*[80] * 5), 0.9)
    assert saved is not None
    assert saved.median == Known(-math.inf, 1 - 100 / 80)
    assert saved.fewer == 0
    neither = labels_saved(runs(None), runs(None), 0.9)
    assert neither is not None
    assert neither.median == Known(-math.inf, 1.0)


def test_a_half_done_run_is_no_proof_of_anything():
    saved = labels_saved({0: run(None, last=30)}, {0: run(80)}, 0.9)
    assert saved is not None
    assert saved.median == Known(-math.inf, 1 - 30 / 80)


def test_a_target_reached_without_labels_leaves_nothing_to_save():
    there = ([0, 10], [0.9, 0.9])
    for method, expected in ((there, Known(0, 0)), (run(20), Known(-math.inf, 0))):
        saved = labels_saved({0: method}, {0: there}, 0.9)
        assert saved is not None
        assert saved.median == expected
    saved = labels_saved({0: there}, {0: run(20)}, 0.9)
    assert saved is not None
    assert saved.median == Known(1, 1)
    assert labels_saved({0: ([], [])}, {0: ([], [])}, 0.9).median.low == -math.inf


def test_a_baseline_that_was_never_measured_tells_nothing_of_a_method_that_arrived():
    """It needed some number of labels that may be any: 1 − 40/0 is no bound."""
    saved = labels_saved(runs(40), {0: ([], [])}, 0.9)
    assert saved is not None
    assert saved.median == Known(-math.inf, 1.0)
    assert saved.fewer == 0


def test_seeds_that_needed_as_many_labels_are_no_wins():
    saved = labels_saved(runs(40, 40, 30, 50), runs(40, 40, 40, 40), 0.9)
    assert saved is not None
    assert saved.fewer == 1


def test_the_interval_ends_at_the_order_statistics_of_the_sign_test():
    """The number of seeds below the true median is Bin(n, ½): of 9, at most one is with probability 10/512."""
    expected = {2: None, 5: None, 6: (0, 5), 7: (0, 6), 8: (0, 7), 9: (1, 7), 11: (1, 9), 12: (2, 9), 20: (5, 14)}
    for count, ranks in expected.items():
        found = median_interval(np.random.default_rng(0).permutation(count))
        assert found == (None if ranks is None else Known(*ranks))
    needed = [10, 20, 30, 40, 50, 60, 70, 80, 90]
    saved = labels_saved(runs(*needed), runs(*[100] * 9), 0.9)
    assert saved is not None
    assert saved.interval == Known(1 - 80 / 100, 1 - 20 / 100)


LAWS = {
    "normal": (lambda rng, shape: rng.normal(size=shape), 0.0),
    "skewed": (lambda rng, shape: rng.lognormal(sigma=1.5, size=shape), 1.0),
    "two bells": (lambda rng, shape: rng.normal(size=shape) + 9 * rng.integers(2, size=shape), 4.5),
    "ties": (lambda rng, shape: rng.integers(5, size=shape), 2),
    "mostly one number": (lambda rng, shape: rng.choice([0, 1, 2], size=shape, p=[0.49, 0.02, 0.49]), 1),
}


@pytest.mark.parametrize("law", LAWS)
def test_the_interval_covers_as_it_says(law):
    """Too few seeds have no interval, and their range covers as is said of it: 1 − 2^(1−n)."""
    rng, worlds = np.random.default_rng(0), 10_000
    draw, median = LAWS[law]
    for count in range(2, 21):
        values = np.sort(draw(rng, (worlds, count)), axis=1)
        found, wanted = median_interval(range(count)), 0.95
        if found is None:
            assert count < ENOUGH
            found, wanted = Known(0, count - 1), 1 - 2 ** (1 - count)
        held = (values[:, int(found.low)] <= median) & (median <= values[:, int(found.high)])
        assert held.mean() >= wanted - 3 * math.sqrt(wanted * (1 - wanted) / worlds)
        for row in values[:20]:  # the ranks above are those of any values
            interval = median_interval(rng.permutation(row))
            assert interval is None or interval == Known(row[int(found.low)], row[int(found.high)])


@pytest.mark.parametrize("last", [1000, 750, 650])
@pytest.mark.parametrize("count", [6, 7, 8, 12])
def test_the_interval_of_savings_covers_where_runs_end_early(count, last):
    """Half of all seeds save more than 30 %. At 750 labels a third of the runs has not arrived, at 650 two thirds."""
    rng, worlds = np.random.default_rng(0), 600
    baseline = {seed: ([1, 1000], [0.0, 1.0]) for seed in range(count)}
    held = 0
    for needed in (1000 * (1 - rng.normal(0.3, 0.1, (worlds, count)))).round().astype(int):
        method = {
            seed: ([1, one], [0.0, 1.0]) if one <= last else ([1, last], [0.0, 0.0]) for seed, one in enumerate(needed)
        }
        interval = labels_saved(method, baseline, 0.9).interval
        held += interval.low <= 0.3 <= interval.high
    assert held / worlds >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / worlds)


needs = st.lists(st.tuples(*[st.one_of(st.none(), st.sampled_from(SIZES))] * 2), min_size=1, max_size=6)


@settings(deadline=None)
@given(needs, st.sampled_from([20, 50, 80]))
def test_stopping_earlier_never_makes_bounds_tighter_or_wrong(pairs, last):
    """Cutting runs short loses knowledge: the bounds still hold what longer runs told."""
    method, random = (runs(*column) for column in zip(*pairs, strict=True))
    whole = labels_saved(method, random, 0.9)
    cut = labels_saved(
        {seed: run(one[0], last) for seed, one in enumerate(pairs)},
        {seed: run(one[1], last) for seed, one in enumerate(pairs)},
        0.9,
    )
    assert cut.median.low <= whole.median.low + 1e-12
    assert cut.median.high >= whole.median.high - 1e-12
    assert cut.fewer <= whole.fewer
