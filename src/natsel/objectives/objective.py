"""The objective axis: what is wanted, stated as facts, and the table (objective, belief) → state.

An objective is a frozen value without data. Reading it from a belief gives a state that scores points and, where the
objective is defined on sets, gives gains conditional on the points added so far. `@serves(Objective, Belief)` enters a
state class in the table; searches run on any state that offers what they need.

Objectives say what they are in the notation of `natsel.calculus`: the exact quantity as an expression, or
why there is none, and on which side of an exact quantity the score lies.
docs/theory/information-quantities.md, 3 and 4 (the notation) and 13 (scores).
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import torch
from torch import Tensor

from natsel.beliefs import Belief, Targets
from natsel.beliefs.targets import check_shared
from natsel.capabilities import Capability
from natsel.options import check_options


@dataclass(frozen=True)
class Bound:
    """A proven inequality between a score and an exact quantity: factor · C^classes · score^power on one side of it.

    >>> str(Bound("I[Y;Omega|x,D]", "lower", power=2, classes=-1))
    '1/C · score² ≤ I[Y;Omega|x,D]'
    """

    expression: str
    """The exact quantity, in the notation of the calculus."""
    direction: Literal["lower", "upper"]
    """Where the score lies: an upper bound is never below the quantity."""
    beliefs: tuple[type[Belief], ...] = ()
    """The beliefs on which it holds; none named: all from which the objective is read."""
    factor: float = 1.0
    power: int = 1
    classes: int = 0
    """The power of the number of classes C that goes in."""
    vanishes: bool = False
    """Whether score and quantity are 0 at the same points, and only there."""
    why: str = ""

    def side(self, scores_N: Tensor, classes: int) -> Tensor:
        """What bounds the quantity, in nats: factor · C^classes · score^power.

        >>> Bound("H[Y|x,D]", "lower", factor=2.0).side(torch.tensor([0.25]), classes=3)
        tensor([0.5000])
        """
        return self.factor * float(classes) ** self.classes * scores_N**self.power

    def holds(self, belief: type[Belief]) -> bool:
        """Whether the bound is claimed on this kind of belief."""
        return not self.beliefs or belief in self.beliefs

    def __str__(self) -> str:
        score = "score" + {1: "", 2: "²"}.get(self.power, f"^{self.power}")
        named = {1.0: "", math.log(2): "ln 2 · ", 2 * math.log(2): "2 ln 2 · "}
        factor = named.get(self.factor, f"{self.factor:.4g} · ")
        classes = {0: "", 1: "C · ", -1: "1/C · "}.get(self.classes, f"C^{self.classes} · ")
        return f"{factor}{classes}{score} {'≤' if self.direction == 'lower' else '≥'} {self.expression}"


@dataclass(frozen=True)
class Facts:
    """What an objective needs and guarantees; shown by `natsel methods`, and every claim is verified by the tests."""

    quantity: str
    """What the score is, as short as it can be said; the score equals it, or bounds it as `bound` says."""
    expression: str | None = None
    """The exact quantity of one point in the notation of the calculus: `natsel.info(expression).on(belief)`."""
    jointly: bool = False
    """Whether a set is worth the quantity of all its labels together; else it is worth the sum over its points."""
    reason: str = ""
    """Why there is no expression, where there is none."""
    bounds: tuple[Bound, ...] = ()
    """On which side of an exact quantity the score lies, where it is not that quantity."""
    approximate: tuple[type[Belief], ...] = ()
    """The beliefs from which the score is the expression of the normal with their moments, on neither side of it."""
    needs_labels: bool = False
    label_free: tuple[type[Belief], ...] = ()
    """The beliefs on which known labels tell what unknown ones would: they are asked for, and change nothing."""
    needs_targets: bool = False
    needs_gradients: bool = False
    takes_given: bool = False
    """Whether points already held (`given=`) are counted as taken before the first."""
    needs_given: bool = False
    one_gradient: bool = False
    """Whether a point is a single gradient: beliefs with several rows per point are refused."""
    pool_wide: bool = False
    """Whether a set is worth what it does for all points of the pool, also for those that may not be picked."""
    disagreement: bool = False
    """Whether the score is what draws of the parameters disagree in."""
    nonnegative: bool = True
    monotone: bool = False
    """Adding a point never lowers the value of a set."""
    submodular: bool = False
    """A point never gains from others having been added: lazy greedy is valid, and greedy reaches 1 − 1/e."""
    units: Literal["nats", "probability", "label units", "similarity", "points", "none"] = "nats"
    cost: str = "N·K·C"

    @property
    def bound(self) -> Literal["exact", "lower", "upper"]:
        """Where the score lies against its own expression on beliefs on which it is not exact (see `bounds`)."""
        return next((bound.direction for bound in self.bounds if bound.expression == self.expression), "exact")

    @property
    def needs_draws(self) -> bool:
        """Whether a single draw scores 0 everywhere: what is learnt about targets is learnt through the draws too."""
        return self.disagreement or self.needs_targets

    def joint_expression(self, size: int) -> str | None:
        """The exact value of a set of points numbered from 1, None where there is no expression.

        >>> Facts("BALD", "I[Y;Omega|x,D]", jointly=True).joint_expression(2)
        'I[Y1,Y2;Omega|x1,x2,D]'
        >>> Facts("entropy", "H[Y|x,D]").joint_expression(2)
        'H[Y1|x1,D] + H[Y2|x2,D]'
        """
        if self.expression is None:
            return None
        if size < 1:
            raise ValueError(f"size: expected at least 1 point, found {size}; the empty set is worth 0")
        points = range(1, size + 1)
        if self.jointly:
            return _POINT.sub(lambda name: ",".join(f"{name[0]}{point}" for point in points), self.expression)
        return " + ".join(_POINT.sub(rf"\g<0>{point}", self.expression) for point in points)


# Why scores of Gaussian draws are upper bounds.
MOMENTS = "no law with the mixture's moments has more entropy than the normal"

# The names in an expression that belong to a point: its label, untied or observed, and its input.
_POINT = re.compile(r"\b[Yyx]\b")


@dataclass(frozen=True)
class Objective:
    """Base of the objectives: a value that names an information quantity."""

    facts: ClassVar[Facts]

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def takes_labels(self) -> bool:
        """Whether known labels of the points go into the score."""
        return self.facts.needs_labels


@dataclass(frozen=True)
class Reading:
    """What a state is made from besides the belief: targets, labels, points held, the source of random numbers."""

    targets: Targets | None
    labels_N: Tensor | None
    generator: torch.Generator
    given: Targets | None = None
    """The belief about points already held, with their labels where known."""


State = TypeVar("State", bound=type)
SERVES: dict[tuple[type[Objective], type[Belief]], Any] = {}


def serves(objective: type[Objective], *beliefs: type[Belief]) -> Callable[[State], State]:
    """Enter a state class as the way to read an objective from these beliefs."""

    def enter(state: State) -> State:
        for belief in beliefs:
            SERVES[objective, belief] = state
        return state

    return enter


def offers(objective: type[Objective], belief: type[Belief]) -> Capability | None:
    """What a search may ask of this pair, or None if the objective cannot be read from the belief."""
    state = SERVES.get((objective, belief))
    return None if state is None else state.offers


def read(objective: Objective, belief: Belief, reading: Reading) -> Any:
    """The state of an objective on a belief, or a ValueError that says why the pair makes no sense."""
    state = SERVES.get((type(objective), type(belief)))
    name = type(objective).__name__
    if state is None:
        able = sorted(b.__name__ for o, b in SERVES if o is type(objective))
        raise ValueError(f"belief: {name} cannot be read from {type(belief).__name__}; it can from {', '.join(able)}")
    if objective.facts.needs_labels and reading.labels_N is None:
        raise ValueError(
            f"labels: {name} weighs labels that are known; pass labels=, or choose an objective without them"
        )
    if objective.facts.needs_targets and reading.targets is None:
        raise ValueError(f"targets: {name} asks what is learned about targets; pass the belief about them as targets=")
    if reading.labels_N is not None and not objective.takes_labels:
        raise _unused(objective, "labels", "known labels", lambda other: other.facts.needs_labels)
    if reading.targets is not None:
        if not objective.facts.needs_targets:
            raise _unused(objective, "targets", "targets", lambda other: other.facts.needs_targets)
        check_shared(belief, reading.targets)
    _check_given(objective, belief, reading)
    return state(objective, belief, reading)


def _check_given(objective: Objective, belief: Belief, reading: Reading) -> None:
    name, facts = type(objective).__name__, objective.facts
    if reading.given is None:
        if facts.needs_given:
            raise ValueError(f"given: {name} asks what points add to others; pass the belief about those as given=")
        return
    if not (facts.takes_given or facts.needs_given):
        raise _unused(
            objective, "given", "points already held", lambda other: other.facts.takes_given or other.facts.needs_given
        )
    check_shared(belief, reading.given, "given")


def _unused(objective: Objective, argument: str, what: str, takes: Callable[[type[Objective]], bool]) -> ValueError:
    """What to raise where an argument would be ignored."""
    able = sorted({other.__name__ for other, _ in SERVES if takes(other)})
    return ValueError(
        f"{argument}: {type(objective).__name__} has no use for {what}; leave {argument}= out, or use {', '.join(able)}"
    )
