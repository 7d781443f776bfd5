"""Steps of training to an accuracy, and how they compare with those of another method.

    steps_to_accuracy = the first step at which an evaluation is at or above the target; None where none is
    steps_ratio       = steps of a method / steps of the reference: below 1 the method is quicker

A run that never arrives has no number of steps. Its ratio to a reference that arrives is infinite, so that it sorts
after every run that arrives; without a reference that arrives there is no ratio. docs/theory/training-selection.md, 7.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from natsel.evaluation.savings import labels_to


def steps_to_accuracy(steps: Sequence[int], accuracies: Sequence[float], target: float) -> int | None:
    """The first step at which the accuracy is at or above the target; None where it never is.

    >>> steps_to_accuracy([100, 200, 300], [0.7, 0.91, 0.89], target=0.9)
    200
    """
    if len(steps) != len(accuracies):
        raise ValueError(f"accuracies: expected one for each of {len(steps)} steps, found {len(accuracies)}")
    if any(later <= earlier for earlier, later in pairwise(steps)):
        raise ValueError(f"steps: must grow from one evaluation to the next, found {list(steps)}; sort them")
    if math.isnan(target):
        raise ValueError("target: found nan; give an accuracy from 0 to 1")
    return labels_to(steps, accuracies, target)


def steps_ratio(needed: int | None, reference: int | None) -> float | None:
    """Steps needed over those of a reference; infinite where only the reference arrives, None where it does not.

    >>> steps_ratio(100, 400), steps_ratio(None, 400), steps_ratio(100, None)
    (0.25, inf, None)
    """
    if reference is None:
        return None
    if reference <= 0:
        raise ValueError(f"reference: expected 1 step or more, found {reference}; there is no ratio to none")
    return math.inf if needed is None else needed / reference
