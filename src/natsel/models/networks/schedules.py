"""The learning rate along training, as a factor of its highest value.

    constant     1
    linear       1 − e/E                              e of E epochs are done; it changes from epoch to epoch
    steps        0.1^(number of drops that lie behind)     a drop is a share of the epochs, such as 0.5 and 0.8
    cosine       ½ (1 + cos π t)                      t: the share that is done of the steps after the warm-up
    one-cycle    1 − t                                after a warm-up of 0.3 of the steps, or of `warm_up`
    warm-up      rises from 0 along a straight line

The last three change from step to step, and a step counts where its middle lies, so that no step has the rate 0.
Loshchilov and Hutter 2017; Smith and Topin 2018.
"""

import math
from typing import Literal

Schedule = Literal["constant", "linear", "steps", "cosine", "one-cycle"]


def rate_factor(
    schedule: str, epoch: int, epochs: int, within: float = 0.0, *, drops: tuple[float, ...] = (), warm_up: float = 0.0
) -> float:
    """The factor of the learning rate, `within` (a share of an epoch) after the start of an epoch.

    >>> rate_factor("cosine", 5, 10), rate_factor("one-cycle", 3, 20, warm_up=0.3), rate_factor("linear", 1, 4, 0.5)
    (0.5, 0.5, 0.75)
    """
    warm_up = 0.3 if schedule == "one-cycle" and not warm_up else warm_up
    share = (epoch + within) / epochs
    if share < warm_up:
        return share / warm_up
    rest = (share - warm_up) / (1 - warm_up)
    if schedule == "linear":
        return 1 - epoch / epochs
    if schedule == "steps":
        return 0.1 ** sum(epoch >= round(drop * epochs) for drop in drops)
    if schedule == "cosine":
        return (1 + math.cos(math.pi * rest)) / 2
    return 1 - rest if schedule == "one-cycle" else 1.0


def changes_within_epochs(schedule: str, warm_up: float) -> bool:
    """Whether the rate has to be set before each step.

    >>> changes_within_epochs("steps", 0.0), changes_within_epochs("steps", 0.1)
    (False, True)
    """
    return schedule in ("cosine", "one-cycle") or warm_up > 0
