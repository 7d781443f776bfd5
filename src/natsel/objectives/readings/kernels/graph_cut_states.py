"""Graph cut and its mutual information with targets: sums of similarities."""

from typing import ClassVar

import torch
from torch import Tensor

from natsel.beliefs import Belief, FisherFactors, FisherRows, GaussianFeatures
from natsel.capabilities import Capability
from natsel.objectives.graph_cut import GCMI, GraphCut
from natsel.objectives.objective import Reading, serves
from natsel.objectives.readings.batch_state import BatchState
from natsel.objectives.readings.kernels.one_gradient import Similar, read_gradients


@serves(GraphCut, FisherFactors, FisherRows, GaussianFeatures)
class GraphCutState(Similar, BatchState):
    """Keeps what every point has in common with those taken."""

    offers: ClassVar[Capability] = Capability.SCORES | Capability.GAINS | Capability.VALUE | Similar.geometry

    def __init__(self, objective: GraphCut, belief: Belief, reading: Reading) -> None:
        self.gradients, _, held = read_gradients(objective, belief, reading)
        self.penalty = objective.penalty
        start_N = self.gradients.sums(self.gradients) - self.penalty * self.gradients.own()
        self.start_N = start_N if held is None else start_N - 2 * self.penalty * self.gradients.sums(held)
        self.shared_N = torch.zeros_like(self.start_N)

    def scores(self) -> Tensor:
        """Σ_i s_in − λ s_nn of every point, less what it has in common with points held: N values."""
        return self.start_N

    def gains(self, positions: Tensor) -> Tensor:
        """The score of each position, less twice the penalty for what it has in common with the points taken."""
        positions = positions.to(self.gradients.device)
        return self.start_N[positions] - 2 * self.penalty * self.shared_N[positions]

    def take(self, position: int) -> None:
        """Take a point."""
        self.shared_N = self.shared_N + self.gradients.columns([position])[:, 0]

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
        self.gradients, targets, _ = read_gradients(objective, belief, reading)
        assert targets is not None
        self.scores_N = 2 * objective.penalty * self.gradients.sums(targets)

    def scores(self) -> Tensor:
        """2λ Σ_{j∈Q} s_nj of every point, N values."""
        return self.scores_N

    def value(self, positions: Tensor) -> float:
        """The sum of the scores of these points."""
        return float(self.scores_N[positions.to(self.scores_N.device)].sum())
