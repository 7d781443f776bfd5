"""What states in weight space share: points taken and given back, and how beliefs are read as factors.

    gain of n given A      f(A ∪ n) − f(A)      from K_n under the points of A
    loss of s in A         f(A) − f(A ∖ s)      the same formulas with K ↦ −K: I + K becomes I − K

Jointly Gaussian features are the factors φ/√noise, one row per point, under the precision I.
docs/theory/weight-space.md, 5 and 7.3.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from natsel.beliefs import FisherBelief, GaussianFeatures, Targets
from natsel.capabilities import Capability
from natsel.information.weights.factors import Factors, OuterFactors
from natsel.information.weights.precision import Isotropic, Precision
from natsel.memory import chunked
from natsel.objectives.objective import Objective
from natsel.objectives.reading import Context
from natsel.objectives.readings.batch_state import TakingState

WeightSpace = FisherBelief | GaussianFeatures

LAPLACE = "a Gaussian over the weights stands for the posterior, and its Fisher information for the label's likelihood"


class FisherState(TakingState):
    """Gains conditional on the points taken so far, and losses of giving one back."""

    offers: ClassVar[Capability] = TakingState.offers | Capability.REMOVAL | Capability.OPERATIONS

    def __init__(self, objective: Objective, belief: WeightSpace, context: Context[WeightSpace]) -> None:
        self.made_from = objective, belief, context
        self.factors, self.precision = weight_space(belief)
        self.device = belief.device
        self.taken: list[int] = []
        self.alone_N: Tensor | None = None

    @abstractmethod
    def worth(self, positions: Tensor, sign: int) -> Tensor:
        """What positions gain (sign 1), or what the set loses without each (−1), n values in nats."""

    @abstractmethod
    def change(self, position: int, sign: int) -> None:
        """Take a point, or give it back."""

    def scores(self) -> Tensor:
        """What every point is worth by itself, N values in nats."""
        if self.alone_N is None:
            fresh = type(self)(*self.made_from) if self.taken else self
            everything = torch.arange(len(self.factors), device=self.device)
            self.alone_N = fresh.worth(everything, 1).clamp_min(0)
        return self.alone_N

    def gains(self, positions: Tensor) -> Tensor:
        """What each position adds to those taken."""
        positions = positions.to(self.device)
        return self.worth(positions, 1).clamp_min(0) if self.taken else self.scores()[positions]

    def losses(self, positions: Tensor) -> Tensor:
        """What the points taken lose without each of these, which must be among them."""
        self._check_taken(positions.tolist())
        return self.worth(positions.to(self.device), -1).clamp_min(0)

    def add(self, position: int) -> float:
        """Take a point and return its gain."""
        gain = float(self.gains(torch.tensor([position])))
        self.refuse_rounding(gain)
        self.take(position)
        self.total += gain
        return gain

    def take(self, position: int) -> None:
        """Condition on one more point."""
        self.change(position, 1)
        self.taken.append(position)

    def remove(self, position: int) -> float:
        """Give a point back and return what is lost with it."""
        loss = float(self.losses(torch.tensor([position])))
        self.change(position, -1)
        self.taken.remove(position)
        self.total = max(0.0, self.total - loss)
        return loss

    def operations(self, size: int) -> float:
        """2 q² P + q³ for q rows of P weights, by a matrix product: 20 times as quick as other operations."""
        q = size * self.factors.n_rows
        return (2.0 * q**2 * self.factors.n_weights + q**3) / 20

    def refuse_rounding(self, gain: float) -> None:
        """Refuse to take a point by a gain that is nothing but rounding."""

    def each(self, positions: Tensor, work: Callable[[Tensor], Tensor], width: int = 0) -> Tensor:
        """Work on some positions after the other, within the memory budget; `width` in bytes a position."""
        width = width or 48 * self.factors.n_rows**2
        return chunked(lambda part: work(positions[part]), len(positions), width, self.device)

    def _check_taken(self, positions: list[int]) -> None:
        for position in positions:
            if position not in self.taken:
                raise ValueError(f"position: {position} was not taken, and only points taken can be given back")


def weight_space(belief: WeightSpace) -> tuple[Factors, Precision]:
    """The factors of a belief's points, and the precision of the weights they are about.

    >>> weight_space(GaussianFeatures([[1.0, 2.0]], noise=0.25))[0].explicit(slice(None)).tolist()
    [[[2.0, 4.0]]]
    """
    if isinstance(belief, GaussianFeatures):
        roots_N_1 = belief.noise_N.double().rsqrt()[:, None]
        one = torch.ones((), dtype=torch.float64, device=belief.device)
        return OuterFactors(belief.features_N_D, roots_N_1, "diagonal"), Isotropic(one)
    precision: Precision = belief.precision
    return belief.factors, precision


def target_space(belief: WeightSpace, targets: Targets[WeightSpace]) -> tuple[Factors, Tensor]:
    """The factors of targets that count, and how much each does: shares that sum to 1.

    >>> belief = GaussianFeatures([[1.0], [2.0]])
    >>> target_space(belief, Targets(belief, weights=[3, 0]))[1].tolist()
    [1.0]
    """
    other = targets.belief
    factors, _ = weight_space(other if other.device == belief.device else other.to(belief.device))
    mine, _ = weight_space(belief)
    if factors.n_weights != mine.n_weights:
        raise ValueError(
            f"targets: they are about {factors.n_weights} weights and the pool about {mine.n_weights}; believe about"
            " both with one fitted model"
        )
    weights_M = targets.weights_M
    if weights_M is None:
        return factors, torch.full((len(factors),), 1 / len(factors), dtype=torch.float64, device=factors.device)
    weights_M = weights_M.to(factors.device)
    (counted_m,) = weights_M.nonzero(as_tuple=True)
    shares_M = weights_M / weights_M.sum()
    return (factors, shares_M) if len(counted_m) == len(factors) else (factors[counted_m], shares_M[counted_m])


def scaled(factors: Factors, scales_N: Tensor) -> Factors:
    """Factors times a number each.

    >>> from natsel.information.weights.factors import RowFactors
    >>> scaled(RowFactors(torch.ones(1, 1, 2)), torch.tensor([3.0])).explicit(slice(None)).tolist()
    [[[3.0, 3.0]]]
    """
    return replace(factors, scales_N=scales_N if factors.scales_N is None else factors.scales_N * scales_N)


def refuse_weights(targets: Targets[WeightSpace], name: str, instead: str) -> None:
    """Objectives that take all targets together have no use for weights."""
    if targets.weights_M is not None:
        raise ValueError(
            f"target weights: {name} takes all targets together and has no use for them; use {instead}, or give none"
        )
