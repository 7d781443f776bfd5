"""The objective axis: what is wanted, stated as facts, and the table (objective, belief) → state.

An objective is a frozen value without data. Reading it from a belief gives a state that scores points and, where the
objective is defined on sets, gives gains conditional on the points added so far. `@serves(Objective, Belief)` enters a
state class in the table; searches run on any state that offers what they need.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import torch
from torch import Tensor

from natsel.beliefs import Belief
from natsel.capabilities import Capability


@dataclass(frozen=True)
class Facts:
    """What an objective needs and guarantees; shown by `natsel methods`, and every claim is verified by the tests."""

    quantity: str
    """The exact quantity in the notation of the calculus; the score equals it, or bounds it as `bound` says."""
    needs_labels: bool = False
    needs_targets: bool = False
    needs_gradients: bool = False
    nonnegative: bool = True
    monotone: bool = False
    """Adding a point never lowers the value of a set."""
    submodular: bool = False
    """A point never gains from others having been added: lazy greedy is valid, and greedy reaches 1 − 1/e."""
    bound: Literal["exact", "upper", "lower"] = "exact"
    """Where the score lies against the quantity for beliefs on which it is not exact (see the objective)."""
    units: Literal["nats", "probability", "label units", "none"] = "nats"
    cost: str = "N·K·C"


@dataclass(frozen=True)
class Objective:
    """Base of the objectives: a value that names an information quantity."""

    facts: ClassVar[Facts]


@dataclass(frozen=True)
class Reading:
    """What a state is made from besides the belief: targets, labels and the source of random numbers."""

    targets: Belief | None
    labels_N: Tensor | None
    generator: torch.Generator


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
    return state(objective, belief, reading)
