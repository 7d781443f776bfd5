"""Classes by count and classes put together: every row once, every label where it belongs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsel.data import Examples, counted, regrouped

ANIMALS = Examples(np.arange(60), np.arange(60) % 3, ("cat", "dog", "car"))


@given(st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=3), st.integers(0, 5))
def test_parts_have_the_counts_asked_for_and_share_nothing(counts, seed):
    parts = counted(ANIMALS, counts, seed)
    for part, wanted in zip(parts, counts, strict=True):
        np.testing.assert_array_equal(np.bincount(part.labels, minlength=3), wanted)
        np.testing.assert_array_equal(part.inputs, part.masks["row"])
        np.testing.assert_array_equal(part.labels, part.inputs % 3)
    rows = np.concatenate([part.inputs for part in parts])
    assert len(set(rows.tolist())) == len(rows)


def test_none_is_all_that_is_left_and_seeds_decide():
    few, rest = counted(ANIMALS, [[5, 0, 0], [None, 20, 1]], seed=1)
    assert np.bincount(rest.labels).tolist() == [15, 20, 1]
    assert not set(few.inputs.tolist()) & set(rest.inputs.tolist())
    again, other = (counted(ANIMALS, [[5, 0, 0]], seed=seed)[0].inputs.tolist() for seed in (1, 2))
    assert again == few.inputs.tolist() != other


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([[1, 2]], r"^counts\[0\]: expected one for each of 3 classes, found 2"),
        ([[15, 0, 0], [6, 0, 0]], "^counts: class 0 has 5 examples left, 6 wanted; ask for fewer"),
    ],
)
def test_counts_that_cannot_be_had_are_refused(counts, words):
    with pytest.raises(ValueError, match=words):
        counted(ANIMALS, counts)


def test_new_classes_are_made_of_old_ones():
    found = regrouped(ANIMALS, {"other": "rest", "dog": ["dog"]})
    assert found.classes == ("other", "dog")
    np.testing.assert_array_equal(found.labels, ANIMALS.labels == 1)
    np.testing.assert_array_equal(found.masks["original"], ANIMALS.labels)
    by_number = regrouped(ANIMALS, {"a": [0], "b": [2, 1]})
    np.testing.assert_array_equal(by_number.labels, ANIMALS.labels > 0)
    unknown = Examples(np.zeros(4), [0, 1, 2, -1])
    assert regrouped(unknown, {"a": [0], "b": "rest"}).labels.tolist() == [0, 1, 1, -1]
    left_out = regrouped(Examples(np.zeros(4), [0, 1, 2, -1]), {"a": [0], "c": [2]})
    assert left_out.labels.tolist() == [0, -1, 1, -1]
    np.testing.assert_array_equal(ANIMALS.labels, np.arange(60) % 3)


def test_a_name_that_reads_as_a_number_is_a_name():
    odd = Examples(np.zeros(2), [0, 1], classes=("1", "0"))
    assert regrouped(odd, {"one": ["1"], "other": "rest"}).labels.tolist() == [0, 1]
    assert regrouped(odd, {"one": [1], "other": "rest"}).labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({"a": ["cat"], "b": ["cat"]}, "class 'cat' is in two groups"),
        ({"a": ["cow"]}, "there is no class 'cow'; the classes are cat, dog, car"),
        ({"a": [3]}, "there is no class 3"),
        ({"a": "rest", "b": "rest"}, "2 groups take the rest"),
        ({"a": "cat"}, "expected a list of classes or 'rest', found 'cat'"),
    ],
)
def test_groups_that_make_no_sense_are_refused(groups, words):
    with pytest.raises(ValueError, match=f"^groups: .*{words}"):
        regrouped(ANIMALS, groups)
    with pytest.raises(ValueError, match="needs a class"):
        regrouped(Examples(np.zeros(2), [0.5, 1.5]), {"a": "rest"})
