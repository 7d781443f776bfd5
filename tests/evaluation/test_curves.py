import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsel.evaluation import area_under, bands, class_entropy, higher_is_better, interpolate
from natsel.evaluation.curves import class_counts

runs = st.lists(
    st.integers(1, 12).flatmap(
        lambda count: st.tuples(
            st.lists(st.integers(0, 500), min_size=count, max_size=count, unique=True).map(sorted),
            st.lists(st.floats(0, 1), min_size=count, max_size=count),
        )
    ),
    min_size=1,
    max_size=5,
)


@settings(deadline=None)
@given(runs)
def test_bands_are_ordered_and_agree_with_brute_force(made):
    found = bands(made)
    assert found.sizes.tolist() == sorted({size for sizes, _ in made for size in sizes})
    assert (found.lower <= found.median).all()
    assert (found.median <= found.upper).all()
    for at, median, count in zip(found.sizes, found.median, found.runs, strict=True):
        column = [np.interp(at, sizes, values) for sizes, values in made if sizes[0] <= at <= sizes[-1]]
        assert count == len(column) >= 1
        assert median == pytest.approx(np.median(column))


def test_bands_of_nothing_and_of_holes():
    assert len(bands([]).sizes) == 0
    assert len(bands([([], [])]).sizes) == 0
    holed = bands([([1, 2, 3], [0.0, math.nan, 1.0])])
    assert holed.sizes.tolist() == [1, 3]
    assert len(bands([([1], [math.inf])]).sizes) == 0  # no line can be drawn to infinity


def test_curves_are_never_extended():
    assert np.isnan(interpolate([10, 20], [0.5, 0.7], [9, 21])).all()
    assert np.isnan(interpolate([], [], [1])).all()


def test_area_is_the_mean_height():
    assert area_under([0, 1, 4], [1.0, 1.0, 1.0]) == pytest.approx(1)
    assert area_under([10, 20, 40], [0.0, 1.0, 0.0]) == pytest.approx((5 + 10) / 30)
    assert math.isnan(area_under([10], [1.0]))


@pytest.mark.parametrize("sizes", [[1, 1], [2, 1]])
def test_sizes_must_grow(sizes):
    with pytest.raises(ValueError, match="must grow"):
        area_under(sizes, [0.0, 1.0])
    with pytest.raises(ValueError, match="one for each"):
        bands([([1, 2, 3], [0.0])])


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_class_entropy_is_bounded_and_blind_to_names(labels):
    entropy = class_entropy(labels, 6)
    assert 0 <= entropy <= math.log(6) + 1e-12
    assert class_entropy([5 - label for label in labels]) == pytest.approx(entropy)
    assert class_entropy([*labels, None]) == entropy
    assert class_entropy([0, 1, 2, 3, 4, 5] * 3) == pytest.approx(math.log(6))


def test_class_counts_refuse_unknown_classes():
    assert math.isnan(class_entropy([]))
    assert class_counts([2], None).tolist() == [0, 0, 1]
    with pytest.raises(ValueError, match="classes 0 to 2"):
        class_counts([2], 2)


@pytest.mark.parametrize(
    ("metric", "higher"), [("accuracy", True), ("nll", False), ("RMSE", False), ("test_loss", False), ("f1", True)]
)
def test_which_way_is_better(metric, higher):
    assert higher_is_better(metric) is higher
