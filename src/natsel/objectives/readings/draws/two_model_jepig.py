"""JEPIG from two models: EIG of the model less EIG of its students."""

from typing import ClassVar

import torch
from torch import Tensor

from natsel.beliefs import CategoricalSamples
from natsel.beliefs.two_models import TwoModels
from natsel.capabilities import Capability
from natsel.objectives.eig import EIG
from natsel.objectives.jepig import TaughtJEPIG
from natsel.objectives.reading import Context, PairFacts, serves
from natsel.objectives.readings.batch_state import BatchState
from natsel.objectives.readings.draws.eig_categorical import CategoricalEIG


@serves(
    TaughtJEPIG,
    TwoModels,
    PairFacts(needs_draws=True, nonnegative=False, cost="a training for each student, then twice BALD"),
)
class TwoModelJEPIG(BatchState):
    """Two EIG states, one of the model and one of its students."""

    offers: ClassVar[Capability] = BatchState.offers | Capability.ERRORS | Capability.OPERATIONS

    def __init__(self, objective: TaughtJEPIG, belief: TwoModels, context: Context[TwoModels]) -> None:
        eig = EIG(objective.rows)
        plain: Context[CategoricalSamples] = Context(None, None, context.generator)
        self.teacher = CategoricalEIG(eig, belief.teacher, plain)
        self.students = [CategoricalEIG(eig, student, plain) for student in belief.students]

    @property
    def exact(self) -> bool:
        """Whether all label configurations so far have their rows."""
        return self.teacher.exact and all(student.exact for student in self.students)

    @property
    def remaining(self) -> float:
        """What the model itself can still learn: no difference adds up to more."""
        return self.teacher.remaining

    def scores(self) -> Tensor:
        """BALD of the model less that of its students, N values in nats."""
        return self.teacher.scores() - _mean([student.scores() for student in self.students])

    def bounds(self) -> Tensor:
        """BALD of the model: students know no less than nothing."""
        return self.teacher.scores()

    def gains(self, positions: Tensor) -> Tensor:
        """What a point adds to the model's BatchBALD less what it adds to the students'."""
        return self.teacher.gains(positions) - _mean([student.gains(positions) for student in self.students])

    def add(self, position: int) -> float:
        """Take a point in all states."""
        gain = self.teacher.add(position) - sum(student.add(position) for student in self.students) / len(self.students)
        self.total += gain
        return gain

    def errors(self, positions: Tensor, leader: int) -> Tensor:
        """Standard errors of leads: those of the model and of the mean of its students, which are thinned apart."""
        variance_n = self.teacher.errors(positions, leader).square()
        for student in self.students:
            variance_n += student.errors(positions, leader).square() / len(self.students) ** 2
        return variance_n.sqrt()

    def value(self, positions: Tensor) -> float:
        """BatchBALD of a set less that of the students, by enumeration."""
        return self.teacher.value(positions) - sum(one.value(positions) for one in self.students) / len(self.students)

    def operations(self, size: int) -> float:
        """Those of the teacher and of every student."""
        return self.teacher.operations(size) + sum(one.operations(size) for one in self.students)


def _mean(values: list[Tensor]) -> Tensor:
    return torch.stack(values).mean(0)
