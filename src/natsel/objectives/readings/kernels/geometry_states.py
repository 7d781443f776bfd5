"""Readings from the geometry of a model: no table of N × M numbers is held, and a pick costs two passes over the pool.

    c(x, y) = φ_x P φ_y,     P = Cov[weights | H],     H: the points given or taken
    gain_n  = t_n / (v_n + σ²)       v_n = c(n, n),   t_n = Σ_m w_m c(n, m)²
    take a:  p = P φ_a / √(v_a + σ²),   q = P Σ_m w_m (φ_m·p) φ_m
             v_n ← v_n − (φ_n·p)²,      t_n ← t_n − 2 (φ_n·p)(φ_n·q) + (φ_n·p)² Σ_m w_m (φ_m·p)²

P v = v − Φ_Hᵀ (k(H, H) + σ² I)⁻¹ Φ_H v by Cholesky; φ_n·v is a sum over the T leaves of a point. c(n, m) itself is
looked at once, before the first pick, some rows at a time.

Where targets are many, `ground` of them stand for all: those with the largest w_n/r_n, r_n uniform by seed and id, each
with weight max(w_n, τ), τ the next such number. Sums are right on average, and the targets the same for any order and
cut of the pool.  docs/theory/geometry.md, 4; Duffield, Lund & Thorup 2007 (priority sampling).
"""

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from natsel.beliefs.geometry import Geometry
from natsel.capabilities import Capability
from natsel.ids import IdArray, keys_of
from natsel.memory import chunked, require
from natsel.objectives.objective import Argument
from natsel.objectives.reach import OverUnsure, Reach, UncertaintyHerding
from natsel.objectives.reading import Context, PairFacts, serves
from natsel.objectives.readings.batch_state import TakingState
from natsel.rounding import TIE
from natsel.seeds import derive

_TAKES = Argument.TARGETS | Argument.GIVEN


class _OverTargets(TakingState):
    """What both share: targets that stand for all, how much each counts, and the points given."""

    def __init__(self, objective: OverUnsure, belief: Geometry, context: Context[Geometry]) -> None:
        self.pool, self.device = belief, belief.device
        about = context.about
        targets = belief if about is None else about.belief.to(self.device)
        belief.check_same(targets, "targets")
        counts_M = targets.unsure_N.new_ones(len(targets))
        if about is not None and about.weights_M is not None:
            counts_M = about.weights_M.to(self.device)
        weight_M = targets.unsure_N * counts_M
        self.sure = not bool((weight_M > 0).any())
        self.targets, self.weight_M = _standing_for(
            targets, counts_M if self.sure else weight_M, objective.ground, context.generator.initial_seed()
        )
        self.known = belief[:0] if context.given is None else context.given.belief.to(self.device)
        belief.check_same(self.known, "given")
        self.like_targets = self.targets.kernel()

    @property
    def warnings(self) -> tuple[str, ...]:
        """That weights have nothing to say, where the model is sure of all targets."""
        if not self.sure:
            return ()
        return (
            "nothing unsure: the model is sure of every target, as where all labels so far are of one class; all count"
            " alike",
        )

    @property
    def tie(self) -> float:
        """Gains are sums over the targets, and keep so many digits of them."""
        return TIE * max(1.0, float(self.weight_M.sum()))


@serves(Reach, Geometry, PairFacts(takes=_TAKES, monotone=True, pool_wide=True, cost="N·M·T + N·M·L, then k·N·T"))
class ReachState(_OverTargets):
    """Variances of all points, and what targets share with them, followed from pick to pick."""

    offers: ClassVar[Capability] = TakingState.offers | Capability.CEILINGS

    def __init__(self, objective: Reach, belief: Geometry, context: Context[Geometry]) -> None:
        super().__init__(objective, belief, context)
        self.noise, held = belief.noise, len(self.known)
        require(24 * held**2, f"given: three matrices of {held} × {held} similarities", "pass fewer points")
        like_held = self.known.kernel()
        self.root_H_H = self._root(like_held(self.known))
        self.start = self.known, self.root_H_H
        across_H_M = self._white(self.like_targets(self.known))

        def work(part: slice) -> Tensor:
            some = belief[part]
            across_n_H = self._white(like_held(some).T).T
            told_n = (self.like_targets(some) - across_n_H @ across_H_M).square_() @ self.weight_M
            return torch.stack([told_n, across_n_H.square().sum(1)], 1)

        each = 24 * (len(self.targets) + held) + 8 * belief.places_N_D.shape[1]
        told_N, explained_N = chunked(work, len(belief), each, self.device, at_least=256).unbind(1)
        self.told_N, self.variance_N = told_N.contiguous(), belief.own().sub_(explained_N).clamp_min_(0)
        self.start_N = self.told_N / (self.variance_N + self.noise)

    def scores(self) -> Tensor:
        """What every point takes away by itself, N values."""
        return self.start_N

    def gains(self, positions: Tensor) -> Tensor:
        """What each position takes away of the variance that is left."""
        positions = positions.to(self.device)
        return self.told_N[positions] / (self.variance_N[positions] + self.noise)

    def ceilings(self, worth: float) -> Tensor:
        """The gains of all: they are there, so that searches need not sort them."""
        return self.told_N / (self.variance_N + self.noise)

    def scores_at(self, positions: Tensor) -> Tensor:
        """Scores, or gains once points were added, of some positions."""
        return self.gains(positions)

    def take(self, position: int) -> None:
        """Let all points follow a label at one of them."""
        point = self.pool[[position]]
        feature_D = point.combined(self.weight_M.new_ones(1))
        with_H, own = self.known.along(feature_D), feature_D @ feature_D + self.noise
        left_D = self._left(feature_D)
        left_D /= (feature_D @ left_D + self.noise).sqrt()
        along_M, along_N = self.targets.along(left_D), self.pool.along(left_D)
        shared_M = self.weight_M * along_M
        shared_N = self.pool.along(self._left(self.targets.combined(shared_M)))
        self.told_N.add_(along_N * (along_N * (shared_M @ along_M) - 2 * shared_N)).clamp_min_(0)
        self.variance_N.sub_(along_N.square_()).clamp_min_(0)
        row_H = self._white(with_H[:, None])[:, 0]
        self.root_H_H = torch.nn.functional.pad(self.root_H_H, (0, 1, 0, 1))
        self.root_H_H[-1, :-1] = row_H
        self.root_H_H[-1, -1] = (own - row_H.square().sum()).clamp_min(self.noise).sqrt()
        self.known = self.known.joined(point)

    def value(self, positions: Tensor) -> float:
        """What a set takes away, from whole matrices: the reference."""
        (known, root_H_H), some = self.start, self.pool[positions]
        like_some = some.kernel()
        white_H_B = torch.linalg.solve_triangular(root_H_H, like_some(known), upper=False)
        white_H_M = torch.linalg.solve_triangular(root_H_H, self.like_targets(known), upper=False)
        root_B_B = self._root(like_some(some) - white_H_B.T @ white_H_B)
        left_B_M = self.like_targets(some) - white_H_B.T @ white_H_M
        lost_M = torch.linalg.solve_triangular(root_B_B, left_B_M, upper=False).square().sum(0)
        return float(lost_M @ self.weight_M)

    def _root(self, covariance_H_H: Tensor) -> Tensor:
        noise_H_H = self.noise * torch.eye(len(covariance_H_H), dtype=torch.float64, device=self.device)
        found: Tensor = torch.linalg.cholesky(covariance_H_H + noise_H_H)
        return found

    def _white(self, with_H_n: Tensor) -> Tensor:
        found: Tensor = torch.linalg.solve_triangular(self.root_H_H, with_H_n, upper=False)
        return found

    def _left(self, vector_D: Tensor) -> Tensor:
        """P v: what labels so far leave of a direction."""
        share_H_1 = torch.cholesky_solve(self.known.along(vector_D)[:, None], self.root_H_H)
        return vector_D - self.known.combined(share_H_1[:, 0])


@serves(
    UncertaintyHerding,
    Geometry,
    PairFacts(takes=_TAKES, monotone=True, submodular=True, pool_wide=True, cost="N·M·T"),
)
class UncertaintyHerdingState(_OverTargets):
    """How alike targets are to the most similar of the points given or taken."""

    submodular: ClassVar[bool] = True

    def __init__(self, objective: UncertaintyHerding, belief: Geometry, context: Context[Geometry]) -> None:
        super().__init__(objective, belief, context)
        self.start_M = torch.zeros_like(self.weight_M)
        if len(self.known):
            like_held = self.known.kernel()
            each = 24 * len(self.known) + 8 * belief.places_N_D.shape[1]
            best_M = chunked(lambda part: like_held(self.targets[part]).amax(1), len(self.targets), each, self.device)
            self.start_M = best_M.clamp_min_(0)
        self.best_M = self.start_M.clone()
        self.start_N = self.gains(torch.arange(len(belief), device=self.device))

    def scores(self) -> Tensor:
        """What every point covers by itself, N values."""
        return self.start_N

    def gains(self, positions: Tensor) -> Tensor:
        """What each position covers that the points taken do not."""
        positions = positions.to(self.device)

        def work(part: slice) -> Tensor:
            return (self.like_targets(self.pool[positions[part]]) - self.best_M).clamp_min_(0) @ self.weight_M

        each = 24 * len(self.targets) + 8 * self.pool.places_N_D.shape[1]
        return chunked(work, len(positions), each, self.device, at_least=256)

    def take(self, position: int) -> None:
        """Take a point: it stands for what it is most alike to."""
        self.best_M = torch.maximum(self.best_M, self.like_targets(self.pool[[position]])[0])

    def value(self, positions: Tensor) -> float:
        """The worth of a set from all its similarities: the reference."""
        if len(positions) == 0:
            return 0.0
        best_M = torch.maximum(self.start_M, self.like_targets(self.pool[positions]).amax(0))
        return float((best_M - self.start_M) @ self.weight_M)


def _standing_for(targets: Geometry, weight_M: Tensor, ground: int | None, seed: int) -> tuple[Geometry, Tensor]:
    """Targets that count for anything, or few that stand for them, and the weight of each."""
    (counted_m,) = weight_M.nonzero(as_tuple=True)
    if ground is not None and len(counted_m) > 2 * ground:
        drawn_m = torch.from_numpy(_uniform(targets.ids[counted_m.cpu().numpy()], derive(seed, "ground")))
        rank_m = weight_M[counted_m] / drawn_m.to(weight_M)
        best = rank_m.topk(ground + 1)
        chosen_m = counted_m[best.indices[:ground]].sort().values
        return targets[chosen_m], weight_M[chosen_m].clamp_min(float(best.values[ground]))
    return (targets, weight_M) if len(counted_m) == len(targets) else (targets[counted_m], weight_M[counted_m])


def _uniform(ids: IdArray, seed: int) -> IdArray:
    """A number above 0 and below 1 for each id, the same wherever the id stands (splitmix64 of seed and id).

    >>> _uniform(np.array([4, 7]), 0)[1] == _uniform(np.array([7]), 0)[0]
    True
    """
    if ids.dtype.kind != "i":
        ids = np.array([derive(0, key) for key in keys_of(ids)], dtype=np.int64)
    mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    found: IdArray = ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return found
