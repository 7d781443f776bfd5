"""When to stop: rules that look at a run after each fit and give a reason, or None to go on.

    Budget(n)                  n labels are there
    CostBudget(c)              labels cost c
    Queries(n)                 n points were labelled or set aside
    TargetAccuracy(a)          the test accuracy is at least a
    GainBelow(ε)               the picks of the last batch were expected to tell less than ε nats each
    Stabilised(κ, rounds)      predictions no longer change: mean Cohen's κ between successive fits is at least κ

    κ = (p_same − p_chance) / (1 − p_chance)         Bloodgood & Vijay-Shanker 2009

A rule is a frozen value that sees only what the journal holds, so that a run that was killed and resumed stops where
it would have stopped. Any function of a `View` is a rule too.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from natsel.options import check_options
from natsel.store import Round

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class View:
    """What a rule may look at."""

    n_labelled: int
    rounds: Sequence[Round]
    """All rounds, the last one being the fit just made."""
    gain: float | None
    """The mean gain per pick of the last batch, in nats; None where nothing was believed when it was asked for, NaN
    where the model makes a single draw, which can tell nothing about gains.
    """
    predictions: Callable[[int], list[Array]]
    """Given a number of points: the classes that each fit so far predicted for that many points of the pool. The points
    are the same every time.
    """
    n_skipped: int = 0
    """How many points were set aside."""
    gain_available: bool = True
    """Whether the model's belief says what a label tells about the parameters."""
    cost: float | None = None
    """What all labels so far cost; None where the learner knows of no costs."""


Rule = Callable[[View], str | None]


@dataclass(frozen=True)
class Budget:
    """Stop when so many labels are there, those from before the run included.

    >>> Budget(10)(View(10, [], None, lambda points: []))
    'the budget of 10 labels is used'
    """

    labels: int

    def __post_init__(self) -> None:
        check_options(self, labels=0)

    def __call__(self, view: View) -> str | None:
        return f"the budget of {self.labels} labels is used" if view.n_labelled >= self.labels else None


@dataclass(frozen=True)
class CostBudget:
    """Stop when the labels cost so much in all, those from before the run included.

    `learner.run(budget=…)` of a learner with costs has this rule, and also keeps its batches within the budget.

    >>> CostBudget(10.0)(View(4, [], None, lambda points: [], cost=12.5))
    'the budget of 10 is used: 4 labels cost 12.5'
    """

    cost: float

    def __post_init__(self) -> None:
        check_options(self, cost=0)

    def __call__(self, view: View) -> str | None:
        if view.cost is None:
            raise ValueError("stop: CostBudget needs to know what labels cost; pass costs=… to the learner")
        # The last digits of a sum of costs depend on their order.
        if view.cost < self.cost * (1 - 1e-9):
            return None
        return f"the budget of {self.cost:g} is used: {view.n_labelled} labels cost {view.cost:g}"


@dataclass(frozen=True)
class Queries:
    """Stop when so many points were labelled or set aside: a budget that junk uses up as well.

    >>> Queries(3)(View(2, [], None, lambda points: [], n_skipped=1))
    'the budget of 3 queries is used'
    """

    queries: int

    def __post_init__(self) -> None:
        check_options(self, queries=0)

    def __call__(self, view: View) -> str | None:
        used = view.n_labelled + view.n_skipped >= self.queries
        return f"the budget of {self.queries} queries is used" if used else None


@dataclass(frozen=True)
class TargetAccuracy:
    """Stop when the test accuracy was at least `accuracy` in each of the last `patience` rounds.

    >>> rounds = [Round(0, 5, 5, {"accuracy": 0.96}, {})]
    >>> TargetAccuracy(0.95)(View(5, rounds, None, lambda points: []))
    'accuracy 0.9600 reached the target 0.95 with 5 labels'
    """

    accuracy: float
    patience: int = 1

    def __post_init__(self) -> None:
        check_options(self, patience=1)
        if not 0 < self.accuracy <= 1:
            raise ValueError(f"accuracy: expected a share above 0 and up to 1, found {self.accuracy}; 0.95 is 95 %")

    def __call__(self, view: View) -> str | None:
        fits = [fit for fit in view.rounds if fit.revision]
        last = [fit.metrics.get("accuracy") for fit in fits[-self.patience :]]
        if fits and last[-1] is None:
            raise ValueError("stop: TargetAccuracy needs the test accuracy; pass test=… with classes to the learner")
        if len(last) < self.patience or not all(found is not None and found >= self.accuracy for found in last):
            return None
        return f"accuracy {last[-1]:.4f} reached the target {self.accuracy:g} with {view.n_labelled} labels"


@dataclass(frozen=True)
class GainBelow:
    """Stop when the picks of the last batch were expected to tell less than `nats` each.

    >>> GainBelow(0.01)(View(5, [], 0.002, lambda points: []))
    'the last batch was expected to tell 0.002 nats a label, below 0.01'
    """

    nats: float

    def __post_init__(self) -> None:
        if not 0 <= self.nats < math.inf:
            raise ValueError(f"nats: expected a finite number of at least 0, found {self.nats}; try 0.01")

    def __call__(self, view: View) -> str | None:
        if view.gain is not None and math.isnan(view.gain):
            raise ValueError(
                "stop: GainBelow needs a model of several draws, for the gain of a single one is always 0; use a"
                " committee such as natsel.models.Sklearn(estimator, members=20), or another rule"
            )
        if not view.gain_available:
            raise ValueError(
                "stop: GainBelow needs to know what a label tells about the parameters, which this model's belief does"
                " not say; use a model of several draws, or another rule"
            )
        if view.gain is None or not view.gain < self.nats:
            return None
        return f"the last batch was expected to tell {view.gain:.3g} nats a label, below {self.nats:g}"


@dataclass(frozen=True)
class Stabilised:
    """Stop when over the last `rounds` fits Cohen's κ with the fit before was on average at least `agreement`.

    >>> same = [np.array([0, 1])] * 4
    >>> Stabilised()(View(5, [], None, lambda points: same))
    'predictions have stabilised: mean kappa 1.0000 over 3 rounds, at least 0.99'
    """

    agreement: float = 0.99
    rounds: int = 3
    points: int = 1000
    """How many points of the pool are looked at."""

    def __post_init__(self) -> None:
        check_options(self, rounds=1, points=1)
        if not -1 <= self.agreement <= 1:
            raise ValueError(f"agreement: expected Cohen's kappa, at most 1, found {self.agreement}; try 0.99")

    def __call__(self, view: View) -> str | None:
        predictions = view.predictions(self.points)[-self.rounds - 1 :]
        if len(predictions) <= self.rounds:
            return None
        mean = float(np.mean([kappa(a, b) for a, b in pairwise(predictions)]))
        if mean < self.agreement:
            return None
        return (
            f"predictions have stabilised: mean kappa {mean:.4f} over {self.rounds} rounds, at least {self.agreement:g}"
        )


def kappa(first_N: Array, second_N: Array) -> float:
    """Cohen's κ: how far two lists of classes agree beyond chance. 1: the same.

    >>> kappa(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 0]))
    0.5
    """
    count = 1 + max(int(first_N.max()), int(second_N.max()))
    same = float((first_N == second_N).mean())
    share_C, other_C = (np.bincount(classes, minlength=count) / len(classes) for classes in (first_N, second_N))
    chance = float(share_C @ other_C)
    return 1.0 if chance == 1 else (same - chance) / (1 - chance)


def as_rules(stop: Any, name: str = "stop") -> list[Rule]:
    """One rule or several, as a list.

    >>> as_rules(3)
    Traceback (most recent call last):
    ValueError: stop: found 3, which is no rule; pass one like natsel.GainBelow(0.01), or a list of them
    """
    rules = list(stop) if isinstance(stop, Iterable) and not callable(stop) else [stop]
    for rule in rules:
        if isinstance(rule, type):
            raise ValueError(f"{name}: found the class {rule.__name__}; pass one of it: {rule.__name__}(…)")
        if not callable(rule):
            raise ValueError(
                f"{name}: found {rule!r}, which is no rule; pass one like natsel.GainBelow(0.01), or a list of them"
            )
    return rules
