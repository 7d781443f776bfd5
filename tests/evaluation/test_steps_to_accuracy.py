"""Steps to an accuracy: the first evaluation counts, never is none, and a higher target is never reached sooner."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsel.evaluation import steps_ratio, steps_to_accuracy


def test_the_first_evaluation_at_or_above_the_target():
    steps, accuracies = [10, 20, 30], [0.5, 0.9, 0.8]
    assert steps_to_accuracy(steps, accuracies, 0.9) == 20
    assert steps_to_accuracy(steps, accuracies, 0.7) == 20
    assert steps_to_accuracy(steps, accuracies, 0.91) is None
    assert steps_to_accuracy(steps, [math.nan, 0.9, 0.9], 0.0) == 20
    assert steps_to_accuracy([], [], 0.5) is None


@given(st.lists(st.floats(0, 1), max_size=8), st.floats(0, 1), st.floats(0, 1))
@settings(deadline=None)
def test_a_higher_target_is_never_reached_sooner(accuracies, one, other):
    steps = [3 * number + 1 for number in range(len(accuracies))]
    low, high = (steps_to_accuracy(steps, accuracies, target) for target in sorted((one, other)))
    ratios = [steps_ratio(needed, 7) for needed in (low, high)]
    assert ratios == sorted(ratios)
    if low is None:
        assert high is None


def test_never_sorts_last_and_has_no_ratio_as_a_reference():
    assert sorted([steps_ratio(None, 50), steps_ratio(500, 50), steps_ratio(25, 50)]) == [0.5, 10.0, math.inf]
    assert steps_ratio(25, None) is None
    assert steps_ratio(None, None) is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: steps_to_accuracy([1, 2], [0.5], 0.5), "accuracies: expected one for each of 2 steps, found 1"),
        (lambda: steps_to_accuracy([2, 2], [0.5, 0.5], 0.5), "steps: must grow"),
        (lambda: steps_to_accuracy([1], [0.5], math.nan), "target: found nan"),
        (lambda: steps_ratio(5, 0), "reference: expected 1 step or more, found 0"),
    ],
)
def test_mistakes_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
