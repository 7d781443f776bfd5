"""Graph cut and its mutual information with targets: sums of similarities."""

import torch
from torch import Tensor

from natsel.beliefs import Belief
from natsel.objectives.graph_cut import GCMI, GraphCut
from natsel.objectives.objective import Argument
from natsel.objectives.reading import Context, PairFacts
from natsel.objectives.readings.batch_state import TakingState
from natsel.objectives.readings.kernels.one_gradient import read_gradients, serves_gradients
from natsel.objectives.readings.pointwise import Pointwise


@serves_gradients(
    GraphCut,
    PairFacts(takes=Argument.GIVEN, one_gradient=True, pool_wide=True, nonnegative=False, cost="N·C·D + N·k·(C + D)"),
)
class GraphCutState(TakingState):
    """Keeps what every point has in common with those taken."""

    def __init__(self, objective: GraphCut, belief: Belief, context: Context[Belief]) -> None:
        found = read_gradients(objective, belief, context)
        self.gradients, held = found.pool, found.held
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


@serves_gradients(GCMI, PairFacts(needs=Argument.TARGETS, one_gradient=True, nonnegative=False, cost="(N + M)·C·D"))
class GCMIState(Pointwise[GCMI, Belief]):
    """A sum over points: nothing that was taken matters."""

    def score(self, objective: GCMI, belief: Belief, context: Context[Belief]) -> Tensor:
        """2λ Σ_{j∈Q} s_nj of every point, N values."""
        found = read_gradients(objective, belief, context)
        return 2 * objective.penalty * found.pool.sums(found.targets)
