"""What states share that build a batch point by point: the template of adding a point, and cautious defaults.

    add(n):  gain = gains(n);  take(n);  total ← total + gain

Gains are exact, bounded by the scores before any point is added, and nothing is known of how much remains, unless a
state says otherwise (`available`, or `remaining` itself).
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from natsel.capabilities import Capability
from natsel.rounding import TIE


class BatchState(ABC):
    """Scores, gains given the points added so far, and values of sets."""

    offers: ClassVar[Capability] = Capability.SCORES | Capability.GAINS | Capability.VALUE
    submodular: ClassVar[bool] = False
    total: float = 0.0
    available: float = math.inf
    """What all points together can tell at most; infinite where that is not known."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know before trusting the scores."""
        return ()

    @property
    def exact(self) -> bool:
        """Whether the gains are exact now, rather than estimated from samples."""
        return True

    @property
    def remaining(self) -> float:
        """An upper bound on what all further points together can add."""
        return math.inf if self.available == math.inf else max(0.0, self.available - self.total)

    @property
    def tie(self) -> float:
        """Gains closer than this are equal."""
        return TIE

    @property
    def prefers_racing(self) -> bool:
        """Whether reading all gains in full now costs more than a race."""
        return False

    @abstractmethod
    def scores(self) -> Tensor:
        """What every point is worth by itself, N values."""

    def bounds(self) -> Tensor:
        """The scores: what points add before any other was."""
        return self.scores()

    @abstractmethod
    def gains(self, positions: Tensor) -> Tensor:
        """What each position adds to the points added so far."""

    @abstractmethod
    def add(self, position: int) -> float:
        """Add the point and return its gain."""

    @abstractmethod
    def value(self, positions: Tensor) -> float:
        """The worth of a set, worked out at once: the reference."""


class TakingState(BatchState):
    """A state whose gains are read before a point is taken: what it has to say is how a point is taken."""

    @abstractmethod
    def take(self, position: int) -> None:
        """Condition the state on one more point."""

    def add(self, position: int) -> float:
        """Add the point and return its gain."""
        gain = float(self.gains(torch.tensor([position])))
        self.take(position)
        self.total += gain
        return gain
