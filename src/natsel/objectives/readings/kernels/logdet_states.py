"""Log-determinants of similarities, one Cholesky row for each point taken."""

from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from natsel.beliefs import Belief
from natsel.capabilities import GEOMETRY, Capability
from natsel.information.conditioning.conditioned_kernel import ConditionedKernel, logdet
from natsel.information.weights.similarity import Kernel, joined
from natsel.memory import require
from natsel.objectives.logdet import LogDet, LogDetCMI, LogDetMI
from natsel.objectives.objective import Argument
from natsel.objectives.reading import Context, PairFacts
from natsel.objectives.readings.batch_state import TakingState
from natsel.objectives.readings.kernels.one_gradient import read_gradients, serves_gradients
from natsel.rounding import ROUNDING

_MOST = 1e12  # of s/ridge: what is left of such numbers has three digits


@serves_gradients(
    LogDet,
    PairFacts(takes=Argument.GIVEN, monotone=True, submodular=True, one_gradient=True, cost="N·k·(C + D)"),
)
class LogDetState(TakingState):
    """Gains are logarithms of pivots; rows are extended for the points that are looked at.

    Geometry: similarities, less what points held explain of them under noise of the ridge.
    """

    offers: ClassVar[Capability] = TakingState.offers | GEOMETRY
    submodular: ClassVar[bool] = True

    def __init__(self, objective: LogDet, belief: Belief, context: Context[Belief]) -> None:
        found = read_gradients(objective, belief, context)
        self.gradients, self.ridge = found.pool, objective.ridge
        scale = objective.ridge**-0.5
        self.held = [] if found.held is None else [found.held.scaled(scale)]
        self.points = ConditionedKernel(self.gradients.scaled(scale), self.held)
        if self.held:
            _refuse_sharp(self.points, *self.held)

    def scores(self) -> Tensor:
        """log(1 + s/ridge) of every point by itself, given those held: N values."""
        return self.points.start_N.log1p()

    def gains(self, positions: Tensor) -> Tensor:
        """f(A ∪ n) − f(A) of each position."""
        return self.points.left(positions.to(self.gradients.device)).log1p()

    def take(self, position: int) -> None:
        """One more Cholesky row."""
        _refuse_sharp(self.points)
        self.points.take(position)

    def value(self, positions: Tensor) -> float:
        """f(A|held) from whole matrices: the reference."""
        some = self.points.kernel[positions.to(self.gradients.device)]
        return _together([some, *self.held]) - _together(self.held)

    @cached_property
    def size_N(self) -> Tensor:
        """Squared lengths of the gradients, as far as points held leave them, worked out once."""
        return self.points.start_N * self.ridge if self.held else self.gradients.own()

    def sizes(self) -> Tensor:
        """Squared lengths of the gradients, N values."""
        return self.size_N

    def distances(self, position: int) -> Tensor:
        """Squared distances of all gradients to one, N values."""
        if self.held:
            return self.distances_to(torch.tensor([position]))[0]
        return self.gradients.distances(position, self.size_N)

    def distances_to(self, positions: Tensor, out: Tensor | None = None) -> Tensor:
        """The same to each of some, [positions, N]."""
        if not self.held:
            return self.gradients.distances_to(positions, self.size_N, out)
        positions = positions.to(self.gradients.device)
        everything = torch.arange(len(self.gradients), device=self.gradients.device)
        far_m_N = self.size_N[positions][:, None] + self.size_N
        distance_m_N = far_m_N - 2 * self.kernel(positions, everything)
        distance_m_N.masked_fill_(~(distance_m_N > ROUNDING * far_m_N), 0.0)
        return distance_m_N if out is None else out.copy_(distance_m_N)

    def kernel(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Similarities of some points with others, [n, m]."""
        rows, columns = rows.to(self.gradients.device), columns.to(self.gradients.device)
        if not self.held:
            return self.gradients[rows].between(self.gradients[columns])
        return self.ridge * self.points.similar(rows, columns)


_ABOUT = PairFacts(
    needs=Argument.TARGETS,
    takes=Argument.GIVEN,
    monotone=True,
    one_gradient=True,
    cost="N·(M + k)·(C + D + M)",
)


class LogDetMIState(TakingState):
    """Two pivots a point: one given the points taken, one given all targets as well."""

    def __init__(self, objective: LogDetMI | LogDetCMI, belief: Belief, context: Context[Belief]) -> None:
        found = read_gradients(objective, belief, context)
        self.gradients, held = found.pool, found.held
        scale = objective.ridge**-0.5
        rows = self.gradients.scaled(scale)
        self.targets = [found.targets.scaled(scale)]
        self.held = [] if held is None else [held.scaled(scale)]
        self.eta = objective.eta
        counts = [1.0] * len(self.held) + [self.eta]
        self.after = ConditionedKernel(rows, [*self.held, *self.targets], counts, tables=2)
        self.before = ConditionedKernel(rows, self.held, tables=2)
        _refuse_sharp(self.after, *self.targets, *self.held)
        # A sum of squares, so that the smallest scores keep their digits.
        self.explained_N = self.after.explained_N_G[:, -1]

    def scores(self) -> Tensor:
        """I_f(n; targets | held) of every point by itself, N values."""
        return (self.explained_N / (1 + self.after.start_N)).log1p()

    def gains(self, positions: Tensor) -> Tensor:
        """What each position tells about the targets that the points taken do not."""
        positions = positions.to(self.gradients.device)
        explained_n = self.explained_N[positions] - self.before.lost(positions) + self.after.lost(positions)
        return (explained_n.clamp_min(0) / (1 + self.after.left(positions))).log1p()

    def take(self, position: int) -> None:
        """Take a point in both factors."""
        self.before.take(position)
        self.after.take(position)

    def value(self, positions: Tensor) -> float:
        """I_f(A; targets | held) from whole matrices: the reference."""
        some, held = self.before.kernel[positions.to(self.gradients.device)], self.held
        count = sum(len(group) for group in (*self.targets, *held))
        require(32 * count**2, f"targets and given: matrices of {count} × {count} similarities", "pass fewer of them")
        points = [some, *self.targets]
        left = [[_left(one, other, held) for other in points] for one in points]
        (own_B_B, cross_B_M), (_, aims_M_M) = left
        own_B_B, aims_M_M = (part + torch.eye(len(part)).to(part) for part in (own_B_B, aims_M_M))
        explained_B_B = cross_B_M @ torch.linalg.solve(aims_M_M, cross_B_M.T) * self.eta**2
        return float(torch.logdet(own_B_B) - torch.logdet(own_B_B - explained_B_B)) if len(some) else 0.0


serves_gradients(LogDetMI, _ABOUT)(LogDetMIState)
serves_gradients(LogDetCMI, replace(_ABOUT, needs=Argument.TARGETS | Argument.GIVEN))(LogDetMIState)


def _refuse_sharp(points: ConditionedKernel, *others: Kernel) -> None:
    """Refuse a ridge that is next to nothing beside similarities: what points leave of each other is a difference."""
    largest = max(float(own.max()) for own in (points.own_N, *(other.own() for other in others)))
    if not largest <= _MOST:
        raise ValueError(
            f"ridge: similarities are up to {largest:.1g} times as large, and beyond {_MOST:.0e} rounding decides what"
            " the next point adds; give a larger ridge, or take cosines"
        )


def _left(one: Kernel, other: Kernel, held: list[Kernel]) -> Tensor:
    """Similarities less what points held explain of them, [n, m]."""
    similar_n_m = one.between(other)
    for group in held:
        noisy_P_P = group.between(group) + torch.eye(len(group)).to(similar_n_m)
        similar_n_m = similar_n_m - one.between(group) @ torch.linalg.solve(noisy_P_P, group.between(other))
    return similar_n_m


def _together(kernels: list[Kernel]) -> float:
    """log det(I + S) of all points of some kernels."""
    return logdet(joined(kernels)) if kernels else 0.0
