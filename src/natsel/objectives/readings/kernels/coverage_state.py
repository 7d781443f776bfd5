"""Coverage of the pool, tile by tile: the state of facility location, set cover and their mutual informations.

gain of n = Σ_g (min(s_ng, cap_g) − best_g)₊ + extra_n        g: ground points, the pool or the targets
"""

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from natsel.beliefs import Belief
from natsel.information.weights.similarity import Kernel
from natsel.objectives.coverage import FLQMI, FLVMI, FacilityLocation, SetCover, SetCoverMI
from natsel.objectives.objective import NOTHING, Argument
from natsel.objectives.reading import Context, PairFacts
from natsel.objectives.readings.batch_state import TakingState
from natsel.objectives.readings.kernels.one_gradient import read_gradients, serves_gradients

# Cosines of copies may miss 1 by rounding.
_SLACK = 1e-9


_FACTS = PairFacts(
    takes=Argument.GIVEN, monotone=True, submodular=True, one_gradient=True, pool_wide=True, cost="N²·(C + D)"
)
_ABOUT = replace(_FACTS, needs=Argument.TARGETS)
_QUERIES = replace(_ABOUT, takes=NOTHING, pool_wide=False, cost="N·M·(C + D)")


class Coverage(TakingState):
    """Σ_g min(max_{j∈A} s_gj, cap_g) + Σ_{j∈A} extra_j over ground points g, which are the pool or the targets."""

    submodular: ClassVar[bool] = True

    def __init__(
        self,
        objective: FacilityLocation | SetCover | FLVMI | SetCoverMI | FLQMI,
        belief: Belief,
        context: Context[Belief],
    ) -> None:
        found = read_gradients(objective, belief, context)
        self.gradients = found.pool
        self.threshold: float | None = getattr(objective, "threshold", None)
        self.ground, self.weight = _ground(getattr(objective, "ground", None), self.gradients, context.generator)
        self.extra_N = torch.zeros(len(self.gradients), dtype=torch.float64, device=self.gradients.device)
        if isinstance(objective, FLQMI):
            self.ground = found.targets
            self.extra_N = objective.eta * self.gradients.largest(found.targets).clamp_min_(0)
        ceiling = torch.full((len(self.ground),), torch.inf, dtype=torch.float64, device=self.gradients.device)
        if isinstance(objective, FLVMI | SetCoverMI):
            ceiling = getattr(objective, "eta", 1.0) * self._covered(self.ground.largest(found.targets))
        self.ceiling_G = ceiling
        held = found.held
        self.start_G = torch.zeros_like(ceiling) if held is None else self._covered(self.ground.largest(held))
        self.best_G = self.start_G.clone()
        self._scores_N: Tensor | None = None

    def scores(self) -> Tensor:
        """What every point covers by itself, N values."""
        if self._scores_N is None:
            self._scores_N = self._more(self.gradients, self.start_G) + self.extra_N
        return self._scores_N

    def gains(self, positions: Tensor) -> Tensor:
        """What each position covers that the points taken do not."""
        positions = positions.to(self.gradients.device)
        return self._more(self.gradients[positions], self.best_G) + self.extra_N[positions]

    def take(self, position: int) -> None:
        """Take a point: what it covers best is its own from now on."""
        self.best_G = torch.maximum(self.best_G, self._capped(self.ground.between(self.gradients[[position]])[:, 0]))

    def value(self, positions: Tensor) -> float:
        """The worth of a set from all its similarities: the reference."""
        positions = positions.to(self.gradients.device)
        if len(positions) == 0:
            return 0.0
        best_G = torch.maximum(self.start_G, self._capped(self.ground.largest(self.gradients[positions])))
        return self.weight * float((best_G - self.start_G).sum()) + float(self.extra_N[positions].sum())

    def _covered(self, similar: Tensor) -> Tensor:
        if self.threshold is None:
            return similar.clamp_min(0)
        return (similar >= self.threshold - _SLACK).double()

    def _capped(self, similar_G: Tensor) -> Tensor:
        return torch.minimum(self._covered(similar_G), self.ceiling_G)

    def _more(self, some: Kernel, best_G: Tensor) -> Tensor:
        """Σ_g (min(s_ng, cap_g) − best_g)₊ of some points, tile by tile."""

        def work(similar_n_g: Tensor, part: slice) -> Tensor:
            covered_n_g = torch.minimum(self._covered(similar_n_g), self.ceiling_G[part])
            return (covered_n_g - best_G[part]).clamp_min_(0).sum(1)

        return self.weight * some.folded(self.ground, work)


serves_gradients(FacilityLocation, _FACTS)(Coverage)
serves_gradients(SetCover, _FACTS)(Coverage)
serves_gradients(FLVMI, _ABOUT)(Coverage)
serves_gradients(SetCoverMI, _ABOUT)(Coverage)
serves_gradients(FLQMI, _QUERIES)(Coverage)


def _ground(size: int | None, pool: Kernel, generator: torch.Generator) -> tuple[Kernel, float]:
    """The points that are to be covered, all or some drawn, and how many each stands for."""
    if size is None or size >= len(pool):
        return pool, 1.0
    drawn = torch.randperm(len(pool), generator=generator)[:size].sort().values.to(pool.device)
    return pool[drawn], len(pool) / size
