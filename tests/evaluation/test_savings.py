import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsel.evaluation.savings import Known, labels_saved, labels_to, quartiles

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
    saved = labels_saved(runs(*[40] * 5), runs(*[None] * 5), 0.9)
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


def test_the_interval_agrees_with_enumeration():
    """All 5⁵ resamples: the 2.5 % and 97.5 % points of their medians."""
    method, random = [50, 60, 20, 90, 70], [100, 80, 80, 90, 100]
    each = [1 - m / r for m, r in zip(method, random, strict=True)]
    grid = np.array(np.meshgrid(*[each] * 5)).reshape(5, -1)
    low, high = np.quantile(np.median(grid, axis=0), [0.025, 0.975], method="inverted_cdf")
    saved = labels_saved(runs(*method), runs(*random), 0.9)
    assert saved is not None
    assert saved.interval is not None
    assert (saved.interval.low, saved.interval.high) == pytest.approx((low, high))
    assert saved == labels_saved(runs(*method), runs(*random), 0.9)


def test_the_interval_ends_at_the_order_statistics_it_should():
    """Nine seeds: the median of a resample is at most the r-th least with probability P[Bin(9, r/9) ≥ 5]."""
    needed = [10, 20, 30, 40, 50, 60, 70, 80, 90]
    below = [sum(math.comb(9, j) * (r / 9) ** j * (1 - r / 9) ** (9 - j) for j in range(5, 10)) for r in range(1, 10)]
    least, most = (next(r for r, share in enumerate(below) if share >= point) for point in (0.025, 0.975))
    assert (least, most) == (1, 7)  # 3.0 % of the medians are at most the second
    saved = labels_saved(runs(*needed), runs(*[100] * 9), 0.9)
    assert saved is not None
    assert saved.interval == Known(1 - needed[most] / 100, 1 - needed[least] / 100)


def test_the_interval_covers_as_it_says():
    """Twelve seeds of a known median saving: of 300 experiments about 95 % hold it."""
    rng = np.random.default_rng(0)
    held = 0
    for number in range(300):
        saving = rng.normal(0.3, 0.1, 12)
        method = {seed: ([1, int(1000 * (1 - one))], [0.0, 1.0]) for seed, one in enumerate(saving)}
        random = {seed: ([1, 1000], [0.0, 1.0]) for seed in range(12)}
        saved = labels_saved(method, random, 0.9, bootstrap=500, seed=number)
        held += saved.interval.low <= 0.3 <= saved.interval.high
    assert 0.91 <= held / 300 <= 0.99


needs = st.lists(st.tuples(*[st.one_of(st.none(), st.sampled_from(SIZES))] * 2), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(needs, st.sampled_from([20, 50, 80]))
def test_stopping_earlier_never_makes_bounds_tighter_or_wrong(pairs, last):
    """Cutting runs short loses knowledge: the bounds still hold what longer runs told."""
    method, random = (runs(*column) for column in zip(*pairs, strict=True))
    whole = labels_saved(method, random, 0.9, bootstrap=50)
    cut = labels_saved(
        {seed: run(one[0], last) for seed, one in enumerate(pairs)},
        {seed: run(one[1], last) for seed, one in enumerate(pairs)},
        0.9,
        bootstrap=50,
    )
    assert cut.median.low <= whole.median.low + 1e-12
    assert cut.median.high >= whole.median.high - 1e-12
    assert cut.fewer <= whole.fewer
