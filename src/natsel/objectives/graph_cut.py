"""Graph cut: a set that is like the whole pool, less what its points have in common with each other.

    GraphCut   f(A)     = Σ_{i∈V, j∈A} s_ij − λ Σ_{i,j∈A} s_ij
    given P    f(A|P)   = f(A ∪ P) − f(P) = f(A) − 2λ Σ_{i∈P, j∈A} s_ij
    GCMI       I_f(A;Q) = 2λ Σ_{i∈Q, j∈A} s_ij                            a sum over points, whatever is held

V is the pool, Q the targets, λ the `penalty`. Sums over all of V cost one C × D matrix. Gradients may point apart, so
that similarities, scores and gains may be negative; f is submodular only where no similarity is.
Spec 08, G5. Iyer et al. 2021; Kothawade et al. 2021, 2022.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from natsel.beliefs import Belief, FisherFactors, FisherRows, GaussianFeatures
from natsel.capabilities import Capability
from natsel.objectives.protocol import Facts, Objective, Reading, serves
from natsel.objectives.similarity import OneGradient, Similar, read_gradients

_REASON = "a sum of similarities, no information quantity"


@dataclass(frozen=True)
class GraphCut(OneGradient, Objective):
    """Likeness to the pool less `penalty` times the likeness within the set.

    >>> GraphCut(penalty=0.5).facts.pool_wide
    True
    """

    penalty: float = 0.4

    facts: ClassVar[Facts] = Facts(
        "Σ s − λ Σ s",
        reason=_REASON,
        takes_given=True,
        one_gradient=True,
        pool_wide=True,
        nonnegative=False,
        units="similarity",
        cost="N·C·D + N·k·(C + D)",
    )


@dataclass(frozen=True)
class GCMI(OneGradient, Objective):
    """Twice `penalty` times the likeness of a point to all targets: the mutual information of graph cuts.

    >>> GCMI().penalty
    0.4
    """

    penalty: float = 0.4

    facts: ClassVar[Facts] = replace(
        GraphCut.facts,
        quantity="2λ Σ s*",
        needs_targets=True,
        takes_given=False,
        pool_wide=False,
        cost="(N + M)·C·D",
    )


@serves(GraphCut, FisherFactors, FisherRows, GaussianFeatures)
class GraphCutState(Similar):
    """Keeps what every point has in common with those taken."""

    offers: ClassVar[Capability] = Capability.SCORES | Capability.GAINS | Capability.VALUE | Similar.geometry
    submodular: ClassVar[bool] = False
    exact: ClassVar[bool] = True
    worth_racing: ClassVar[bool] = False
    remaining: ClassVar[float] = torch.inf

    def __init__(self, objective: GraphCut, belief: Belief, reading: Reading) -> None:
        self.gradients, _, held = read_gradients(objective, belief, reading)
        self.penalty = objective.penalty
        start_N = self.gradients.sums(self.gradients) - self.penalty * self.gradients.own()
        self.start_N = start_N if held is None else start_N - 2 * self.penalty * self.gradients.sums(held)
        self.shared_N = torch.zeros_like(self.start_N)
        self.total = 0.0

    def scores(self) -> Tensor:
        """Σ_i s_in − λ s_nn of every point, less what it has in common with points held: N values."""
        return self.start_N

    def bounds(self) -> Tensor:
        """The scores: what points add before any other was."""
        return self.start_N

    def gains(self, positions: Tensor) -> Tensor:
        """The score of each position, less twice the penalty for what it has in common with the points taken."""
        positions = positions.to(self.gradients.device)
        return self.start_N[positions] - 2 * self.penalty * self.shared_N[positions]

    def add(self, position: int) -> float:
        """Take a point."""
        gain = float(self.gains(torch.tensor([position])))
        self.shared_N = self.shared_N + self.gradients.columns([position])[:, 0]
        self.total += gain
        return gain

    def value(self, positions: Tensor) -> float:
        """f(A|held) from all similarities within the set: the reference."""
        positions = positions.to(self.gradients.device)
        some = self.gradients[positions]
        within_B_B = some.between(some)
        apart = float(within_B_B.sum() - within_B_B.diagonal().sum())
        return float(self.start_N[positions].sum()) - self.penalty * apart


@serves(GCMI, FisherFactors, FisherRows, GaussianFeatures)
class GCMIState(Similar):
    """A sum over points: nothing that was taken matters."""

    offers: ClassVar[Capability] = Capability.SCORES | Capability.VALUE | Similar.geometry

    def __init__(self, objective: GCMI, belief: Belief, reading: Reading) -> None:
        self.gradients, aims, _ = read_gradients(objective, belief, reading)
        assert aims is not None
        self.scores_N = 2 * objective.penalty * self.gradients.sums(aims)

    def scores(self) -> Tensor:
        """2λ Σ_{j∈Q} s_nj of every point, N values."""
        return self.scores_N

    def value(self, positions: Tensor) -> float:
        """The sum of the scores of these points."""
        return float(self.scores_N[positions.to(self.scores_N.device)].sum())
