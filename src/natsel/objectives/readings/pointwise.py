"""Objectives that look at one point at a time: a function of scores, entered as a state.

value of a set = Σ_n score_n
"""

from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor

from natsel.beliefs import Belief
from natsel.capabilities import Capability
from natsel.objectives.objective import Objective, Reading, serves


class Pointwise:
    """State of an objective that is a sum over points: the value of a set is the sum of its scores."""

    offers: ClassVar[Capability] = Capability.SCORES | Capability.VALUE
    score: Callable[[Any, Any, Reading], Tensor]

    def __init__(self, objective: Objective, belief: Belief, reading: Reading) -> None:
        self.scores_N = type(self).score(objective, belief, reading).double()

    def scores(self) -> Tensor:
        """One score per point, bigger is better."""
        return self.scores_N

    def value(self, positions: Tensor) -> float:
        """The sum of the scores of these points."""
        return float(self.scores_N[positions.to(self.scores_N.device)].sum())


def pointwise(
    objective: type[Objective], *beliefs: type[Belief]
) -> Callable[[Callable[[Any, Any, Reading], Tensor]], Callable[[Any, Any, Reading], Tensor]]:
    """Enter a score function as the state of an objective on these beliefs."""

    def enter(score: Callable[[Any, Any, Reading], Tensor]) -> Callable[[Any, Any, Reading], Tensor]:
        state = type(f"{objective.__name__}Score", (Pointwise,), {"score": staticmethod(score)})
        serves(objective, *beliefs)(state)
        return score

    return enter
