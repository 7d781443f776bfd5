"""Objectives that look at one point at a time: a function of scores, entered as a class of states.

value of a set = Σ_n score_n
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

from torch import Tensor

from natsel.beliefs import Belief
from natsel.capabilities import Capability
from natsel.objectives.objective import Objective
from natsel.objectives.reading import USUAL, Context, PairFacts, serves

AnObjective = TypeVar("AnObjective", bound=Objective)
ABelief = TypeVar("ABelief", bound=Belief)
Score = Callable[[AnObjective, ABelief, Context[ABelief]], Tensor]


class Pointwise(ABC, Generic[AnObjective, ABelief]):
    """State of an objective that is a sum over points: the value of a set is the sum of its scores."""

    offers: ClassVar[Capability] = Capability.SCORES | Capability.VALUE

    def __init__(self, objective: AnObjective, belief: ABelief, context: Context[ABelief], /) -> None:
        self.scores_N = self.score(objective, belief, context).double()

    @abstractmethod
    def score(self, objective: AnObjective, belief: ABelief, context: Context[ABelief]) -> Tensor:
        """One score per point."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know before trusting the scores."""
        return ()

    def scores(self) -> Tensor:
        """One score per point, bigger is better."""
        return self.scores_N

    def value(self, positions: Tensor) -> float:
        """The sum of the scores of these points."""
        return float(self.scores_N[positions.to(self.scores_N.device)].sum())


def pointwise(
    objective: type[AnObjective], belief: type[ABelief], facts: PairFacts = USUAL
) -> Callable[[Score[AnObjective, ABelief]], Score[AnObjective, ABelief]]:
    """Enter a score function as the way to read an objective from a kind of belief."""

    def enter(score: Score[AnObjective, ABelief]) -> Score[AnObjective, ABelief]:
        class ScoreState(Pointwise[AnObjective, ABelief]):
            def score(self, objective: AnObjective, belief: ABelief, context: Context[ABelief]) -> Tensor:
                return score(objective, belief, context)

        ScoreState.__name__ = ScoreState.__qualname__ = f"{objective.__name__}Score"
        serves(objective, belief, facts)(ScoreState)
        return score

    return enter
