"""Readings from the geometry of a model: no table of N × M numbers is held, and a pick costs two passes over the pool.

    gain_n = t_n / (v_n + σ²)       v_n = c(n, n),   t_n = Σ_m w_m c(n, m)²,   c(x, y) = φ_x P φ_y
    take a:  p = P φ_a / √(v_a + σ²),   q = P Σ_m w_m (φ_m·p) φ_m,   P ← P − p pᵀ
             v_n ← v_n − (φ_n·p)²,      t_n ← t_n − 2 (φ_n·p)(φ_n·q) + (φ_n·p)² Σ_m w_m (φ_m·p)²

At first P = I − Φ_Lᵀ (k(L, L) + σ² I)⁻¹ Φ_L of the points L given, by Cholesky; φ_n·p is a sum over T leaves.

Many targets have `ground` of them to stand for all: those with the largest w_m/r_m, r_m uniform by seed and id, each
with weight max(w_m, τ), τ the next such number. Sums are right on average, and the targets the same for any order and
cut of the pool.  docs/theory/geometry.md, 4; Duffield, Lund & Thorup 2007 (priority sampling).
"""

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from natsel.beliefs import Geometry, Targets
from natsel.capabilities import Capability
from natsel.memory import chunked, require
from natsel.objectives.objective import Argument
from natsel.objectives.reach import OverUnsure, Reach, UncertaintyHerding
from natsel.objectives.reading import Context, PairFacts, serves
from natsel.objectives.readings.batch_state import TakingState
from natsel.rounding import TIE
from natsel.seeds import derive
from natsel.ties import mixed

_TAKES = Argument.TARGETS | Argument.GIVEN


class _OverTargets(TakingState):
    """What both share: targets that stand for all, how much each counts, and the points given."""

    start_N: Tensor

    def __init__(self, objective: OverUnsure, belief: Geometry, context: Context[Geometry]) -> None:
        self.made, self.pool = (objective, belief, context), belief
        about = context.about or Targets(belief)
        targets = about.belief.to(belief.device)
        self.known = belief[:0] if context.given is None else context.given.belief.to(belief.device)
        belief.check_same(targets, "targets")
        belief.check_same(self.known, "given")
        counts_M = torch.ones_like(targets.unsure_N) if about.weights_M is None else about.weights_M.to(belief.device)
        weight_M = targets.unsure_N * counts_M
        self.sure = not bool((weight_M > 0).any())
        seed = derive(context.generator.initial_seed(), "ground")
        weight_M = counts_M if self.sure else weight_M
        self.targets, self.weight_M = _standing_for(targets, weight_M, objective.ground, seed)
        self.like_targets = self.targets.kernel()
        self.row_bytes = 24 * (len(self.targets) + len(self.known)) + 8 * belief.places_N_D.shape[1]

    @property
    def warnings(self) -> tuple[str, ...]:
        """That weights have nothing to say, where the model is sure of all targets."""
        said = "nothing unsure: the model is sure of every target, as where labels are of one class; all count alike"
        return (said,) if self.sure else ()

    @property
    def tie(self) -> float:
        """Gains are sums over the targets, and keep so many digits of them."""
        return TIE * max(1.0, float(self.weight_M.sum()))

    def scores(self) -> Tensor:
        """What every point adds by itself, N values."""
        return self.start_N

    def value(self, positions: Tensor) -> float:
        """The worth of a set, by adding its points to a state of its own."""
        again = type(self)(*self.made)
        return sum((again.add(position) for position in positions.tolist()), 0.0)


@serves(Reach, Geometry, PairFacts(takes=_TAKES, monotone=True, pool_wide=True, cost="N·M·(T + L), then k·N·T"))
class ReachState(_OverTargets):
    """Variances of all points, and what targets share with them, followed from pick to pick."""

    offers: ClassVar[Capability] = TakingState.offers | Capability.CEILINGS

    def __init__(self, objective: Reach, belief: Geometry, context: Context[Geometry]) -> None:
        super().__init__(objective, belief, context)
        self.taken: list[Tensor] = []
        held = len(self.known)
        require(24 * held**2, f"given: three matrices of {held} × {held} similarities", "pass fewer points")
        like_known = self.known.kernel()
        noise_H_H = belief.noise * torch.eye(held, dtype=torch.float64, device=belief.device)
        self.root_H_H: Tensor = torch.linalg.cholesky(like_known(self.known) + noise_H_H)
        across_H_M = self._white(self.like_targets(self.known))

        def work(part: slice) -> Tensor:
            some = belief[part]
            across_n_H = self._white(like_known(some).T).T
            told_n = (self.like_targets(some) - across_n_H @ across_H_M).square_() @ self.weight_M
            return torch.stack([told_n, 1 - across_n_H.square().sum(1)], 1)

        found_N_2 = chunked(work, len(belief), self.row_bytes, belief.device, at_least=1024)
        self.told_N, self.variance_N = (column_N.contiguous() for column_N in found_N_2.clamp_min_(0).unbind(1))
        self.start_N = self.ceilings(0.0)

    def ceilings(self, worth: float) -> Tensor:
        """The gains of all: they are there, so that searches need not sort them."""
        return self.told_N / (self.variance_N + self.pool.noise)

    def gains(self, positions: Tensor) -> Tensor:
        """What each position takes away of the variance that is left."""
        return self.ceilings(0.0)[positions.to(self.pool.device)]

    scores_at = gains

    def take(self, position: int) -> None:
        """Let all points follow a label at one of them."""
        feature_D = self.pool[[position]].combined(self.weight_M.new_ones(1))
        left_D = self._left(feature_D)
        left_D /= (feature_D @ left_D + self.pool.noise).sqrt()
        along_M, along_N = self.targets.along(left_D), self.pool.along(left_D)
        shared_M = self.weight_M * along_M
        shared_N = self.pool.along(self._left(self.targets.combined(shared_M)))
        self.told_N.add_(along_N * (along_N * (shared_M @ along_M) - 2 * shared_N)).clamp_min_(0)
        self.variance_N.sub_(along_N.square_()).clamp_min_(0)
        self.taken.append(left_D)

    def _white(self, with_H_n: Tensor) -> Tensor:
        found: Tensor = torch.linalg.solve_triangular(self.root_H_H, with_H_n, upper=False)
        return found

    def _left(self, vector_D: Tensor) -> Tensor:
        """P v: what labels so far leave of a direction."""
        share_H_1 = torch.cholesky_solve(self.known.along(vector_D)[:, None], self.root_H_H)
        parts = [left_D * (left_D @ vector_D) for left_D in self.taken]
        return vector_D - sum(parts, self.known.combined(share_H_1[:, 0]))


_HERDING = PairFacts(takes=_TAKES, monotone=True, submodular=True, pool_wide=True, cost="N·M·T")


@serves(UncertaintyHerding, Geometry, _HERDING)
class UncertaintyHerdingState(_OverTargets):
    """How alike targets are to the most similar of the points given or taken."""

    submodular: ClassVar[bool] = True

    def __init__(self, objective: UncertaintyHerding, belief: Geometry, context: Context[Geometry]) -> None:
        super().__init__(objective, belief, context)
        self.best_M = torch.zeros_like(self.weight_M)
        for start in range(0, len(self.known), 256):
            self._cover(self.known[start : start + 256])
        self.start_N = self.gains(torch.arange(len(belief)))

    def gains(self, positions: Tensor) -> Tensor:
        """What each position covers that the points taken do not."""
        positions = positions.to(self.pool.device)

        def work(part: slice) -> Tensor:
            return (self.like_targets(self.pool[positions[part]]) - self.best_M).clamp_min_(0) @ self.weight_M

        return chunked(work, len(positions), self.row_bytes, self.pool.device, at_least=1024)

    def take(self, position: int) -> None:
        """Take a point: it stands for what it is most alike to."""
        self._cover(self.pool[[position]])

    def _cover(self, points: Geometry) -> None:
        self.best_M = torch.maximum(self.best_M, self.like_targets(points).amax(0))


def _standing_for(targets: Geometry, weight_M: Tensor, ground: int | None, seed: int) -> tuple[Geometry, Tensor]:
    """Targets that count for anything, or few that stand for them, and the weight of each."""
    (counted_m,) = weight_M.nonzero(as_tuple=True)
    if ground is not None and len(counted_m) > 2 * ground:
        drawn_m = (mixed(targets.ids[counted_m.cpu().numpy()], seed) >> np.uint64(11)) + 0.5  # of 53 bits
        best = (weight_M[counted_m] / torch.from_numpy(drawn_m * 2.0**-53).to(weight_M)).topk(ground + 1)
        counted_m = counted_m[best.indices[:ground]].sort().values
        weight_M = weight_M.clamp_min(float(best.values[ground]))
    return (targets, weight_M) if len(counted_m) == len(targets) else (targets[counted_m], weight_M[counted_m])
