"""Points as places: squared lengths, distances to each other and to the points given, and their sum.

Draws of Gaussians are read as they are: their centred means, over the root of their noise, are the vectors.
docs/theory/black-box.md, 2 and 5.
"""

from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from natsel.beliefs import Belief, GaussianSamples
from natsel.capabilities import GEOMETRY, Capability
from natsel.information.weights.similarity import Kernel
from natsel.objectives.distance import Distance, PoolSum
from natsel.objectives.objective import Argument
from natsel.objectives.reading import Context, PairFacts, serves
from natsel.objectives.readings.kernels.one_gradient import read_gradients, serves_gradients
from natsel.ties import order_of


class _Places:
    """One vector per point, and the vectors of the points given."""

    warnings: ClassVar[tuple[str, ...]] = ()

    def __init__(self, objective: Distance | PoolSum, belief: Belief, context: Context[Belief]) -> None:
        found = read_gradients(objective, belief, context)
        self.gradients, self.held = found.pool, found.held

    @cached_property
    def size_N(self) -> Tensor:
        """Squared lengths, worked out once."""
        return self.gradients.own()

    def sizes(self) -> Tensor:
        """Squared lengths, N values."""
        return self.size_N


_FACTS = PairFacts(takes=Argument.GIVEN, one_gradient=True, cost="N·k·(C + D)")
_SUM = replace(_FACTS, pool_wide=True, nonnegative=False)


@serves_gradients(Distance, _FACTS)
class DistanceState(_Places):
    """Distances of points to each other and to those given."""

    offers: ClassVar[Capability] = Capability.SCORES | GEOMETRY | Capability.HELD

    @cached_property
    def nearest(self) -> tuple[Tensor, Tensor] | None:
        """The nearest point given of every point, worked out once."""
        return None if self.held is None else self.gradients.nearest(self.held, self.size_N)

    def scores(self) -> Tensor:
        """Squared distances to the nearest point given, or squared lengths where none is: N values."""
        return self.size_N if self.nearest is None else self.nearest[0]

    def nearest_held(self) -> tuple[Tensor, Tensor] | None:
        """Squared distance to the nearest point given and which it is, N values each; None where none is given."""
        return self.nearest

    def distances(self, position: int) -> Tensor:
        """Squared distances of all points to one, N values."""
        return self.distances_to(torch.tensor([position]))[0]

    def distances_to(self, positions: Tensor, out: Tensor | None = None) -> Tensor:
        """The same to each of some, [positions, N]."""
        return self.gradients.distances_to(positions, self.size_N, out)

    def kernel(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Inner products of some points with others, [n, m], less what lies in the span of the points given."""
        left, right = (self.gradients[some.to(self.gradients.device)] for some in (rows, columns))
        found = left.between(right)
        if self.span is None:
            return found
        held, basis_T_R = self.span
        left_n_R, right_m_R = (points.between(held).double() @ basis_T_R for points in (left, right))
        return found - left_n_R @ right_m_R.T

    @cached_property
    def span(self) -> tuple[Kernel, Tensor] | None:
        """The points given, and an orthonormal basis of what they span, as weights of these points [T, R]."""
        if self.held is None:
            return None
        value_T, vector_T_T = torch.linalg.eigh(self.held.between(self.held).double())
        real_T = value_T > len(value_T) * torch.finfo(torch.float64).eps * value_T.abs().max()
        return self.held, vector_T_T[:, real_T] / value_T[real_T].sqrt()


@serves_gradients(PoolSum, _SUM)
class PoolSumState(_Places):
    """Vectors that are added up."""

    offers: ClassVar[Capability] = Capability.SCORES | Capability.VECTORS

    def scores(self) -> Tensor:
        """g/‖g‖ · Σ g of every point, 0 where it has no length: N values."""
        return self.gradients.along(self.vector_sum()) * torch.where(self.size_N > 0, self.size_N.rsqrt(), 0.0)

    @cached_property
    def length_N(self) -> Tensor:
        """Lengths, worked out once."""
        return self.size_N.sqrt()

    def vectors(self, positions: Tensor) -> Tensor:
        """The vectors of a few points, [n, P]."""
        return self.gradients[positions.to(self.gradients.device)].explicit()

    def held_vectors(self) -> Tensor:
        """The vectors of the points given, [T, P]."""
        empty = torch.zeros(0, dtype=torch.int64, device=self.gradients.device)
        return (self.gradients[empty] if self.held is None else self.held).explicit()

    def vector_sum(self) -> Tensor:
        """The sum of the vectors of all points, those given too."""
        sum_P = self.gradients.vector_sum()
        return sum_P if self.held is None else sum_P + self.held.vector_sum()

    @property
    def rough(self) -> float:
        """By how much `aligned` is off at most, for a vector of length 1."""
        return self.gradients.rough

    def aligned(self, vectors_m_P: Tensor) -> Tensor:
        """g/‖g‖ · v of every point with each of some vectors, roughly: [m, N]; 0 without length."""
        return self.gradients.aligned(vectors_m_P, self.length_N)

    def most_aligned(self, vector_P: Tensor, rough_N: Tensor, off: float, tie: float) -> tuple[int, float]:
        """The point with the largest g/‖g‖ · v, of numbers that are off by `off` at most, and that number."""
        return self.gradients.most_aligned(vector_P, self.length_N, rough_N, off, tie, order_of(self))


serves(Distance, GaussianSamples, replace(_FACTS, needs_draws=True))(DistanceState)
serves(PoolSum, GaussianSamples, replace(_SUM, needs_draws=True))(PoolSumState)
