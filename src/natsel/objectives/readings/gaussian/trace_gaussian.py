"""Trace objectives read from jointly Gaussian points: BAIT's arithmetic on features, at two products per pick.

    gain_n = ½ c_n / (s_n + noise_n)      s_n = φ_n P φ_nᵀ,   c_n = φ_n P C P φ_nᵀ,   C = Σ_j v_j φ*_j φ*_jᵀ / noise*_j
    take i:  a_n = φ_n p,  b_n = φ_n q,   p = P φ_i,  q = P C P φ_i,  d = s_i + noise_i
             s_n ← s_n − a_n²/d,          c_n ← c_n − 2 a_n b_n/d + c_i a_n²/d²

P = R Rᵀ is the covariance of the shared weights, G = Rᵀ C^½; both are scaled down with every point taken and never
subtracted from. All points are followed in the precision of their features, each with a bound on its rounding; the few
that may be the best are worked out once more from R and G in float64, so that rounding decides no pick. Once that was
done for as many points as there are, all are worked out again.

Without one of the points taken the targets lose ½ ‖Gᵀ Xᵀ K⁻¹ e_j‖² / (K⁻¹)_jj, X = noise^(−½) Φ_A R, K = I + X Xᵀ,
with R and G from before any point was taken.
docs/theory/black-box.md, 5.3; docs/theory/weight-space.md, 9.1; Ash et al. 2021.
"""

import math
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from natsel.beliefs import GaussianFeatures
from natsel.capabilities import Capability, State
from natsel.information.conditioning.conditioned_features import SHARP, refuse_no_noise
from natsel.information.weights.similarity import squared_lengths
from natsel.memory import chunked, fits, rows_per_chunk
from natsel.objectives.objective import Argument, Bound
from natsel.objectives.reading import Context, PairFacts, serves
from natsel.objectives.readings.batch_state import BatchState
from natsel.objectives.readings.gaussian.gaussian_points import known_from
from natsel.objectives.readings.weights.fisher_state import FisherState, refuse_weights
from natsel.objectives.readings.weights.trace_fisher import FisherTrace
from natsel.objectives.trace import TraceEPIG, TraceJEPIG
from natsel.rounding import TIE

# Of eps √D ‖x‖ ‖y‖: no inner product of D numbers is off by more, by six times its standard error.
_ROUNDING = 2.0
_MOST = 1e30  # of the longest features: products of them have their place in float32
# Points dropped between two factorisations of what is left: their inverse is otherwise changed by differences.
_DOWNDATES = 16
# For each point that follows one taken, a little more than the numbers that are held meanwhile.
_FOLLOW_BYTES = 512
# For each feature of a point that is multiplied with D × D numbers: with 512 features these are 64 points, no slower
# than 256 of them, and the library that multiplies keeps 1.3 MiB for itself in place of 3.
_GEMM_BYTES = 256
# Up to so many points are left, their inverse is made afresh each time where noise is next to nothing.
_FEW = 128


class GaussianTrace(BatchState):
    """Gains conditional on the points taken so far."""

    offers: ClassVar[Capability] = FisherState.offers | Capability.CEILINGS

    def __init__(
        self, objective: TraceEPIG | TraceJEPIG, belief: GaussianFeatures, context: Context[GaussianFeatures]
    ) -> None:
        self.features_N_D, self.noise_N, self.device = belief.features_N_D, belief.noise_N, belief.device
        known = known_from(context.given, belief.features_N_D)
        told_D_E = _target_root(objective, belief, context)
        root_D_D: Tensor | None = None
        if known is not None:
            root_D_D = known.scaled_down(torch.eye(len(told_D_E), dtype=torch.float64, device=self.device))
            told_D_E = root_D_D.T @ told_D_E
        self.start = _Weights(root_D_D, told_D_E)
        # ½ tr(C P) of the targets: all that is uncertain about them.
        self.available = 0.5 * float(self.start.told_D_E.square().sum())
        self.length_N = squared_lengths(self.features_N_D).sqrt_()
        refuse_no_noise(float((self.length_N.square() / self.noise_N).max()))
        self.variance_N, self.variance_error_N = torch.empty_like(self.length_N), torch.empty_like(self.length_N)
        self.told_N, self.told_error_N = torch.empty_like(self.length_N), torch.empty_like(self.length_N)
        self.taken: list[int] = []
        self._left: _Left | None = None
        self._restart()
        self.largest = float(self._gain(slice(None)).max())

    def scores(self) -> Tensor:
        """What every point by itself tells about the targets, N values."""
        self._restart_after_removals()
        if not self.taken:
            return self._gain(slice(None))
        # Seldom asked for by now, so that they are worked out again rather than kept.
        variance_N, told_N = torch.empty_like(self.variance_N), torch.empty_like(self.told_N)
        self._work_out(self.start, None, variance_N, told_N)
        return told_N.mul_(0.5).div_(variance_N.add_(self.noise_N))

    def gains(self, positions: Tensor) -> Tensor:
        """What each position adds to those taken."""
        return self.scores_at(positions)

    def ceilings(self, worth: float) -> Tensor:
        """Gains, and what rounding may have taken from them: N values."""
        self._restart_after_removals()
        least_N = (self.variance_N - self.variance_error_N).clamp_min_(0).add_(self.noise_N)
        return (self.told_N + self.told_error_N).div_(least_N).mul_(0.5)

    def scores_at(self, positions: Tensor) -> Tensor:
        """The gains of some positions, worked out from R and G where rounding may matter."""
        self._restart_after_removals()
        positions = positions.to(self.device)
        unsure_n = positions[self.told_error_N[positions] > 0]
        self.looked_at += len(unsure_n)
        if self.looked_at > len(self.noise_N):
            self._work_out_all()
        elif len(unsure_n):
            self._work_out(self.weights, unsure_n, self.variance_N, self.told_N)
            self.variance_error_N[unsure_n] = self.told_error_N[unsure_n] = 0.0
        return self._gain(positions)

    def add(self, position: int) -> float:
        """Take a point and return its gain."""
        gain = float(self.scores_at(torch.tensor([position])))
        self._follow(*self.weights.take(self._features([position])[0], float(self.noise_N[position])))
        self.taken.append(position)
        self._left = None
        self.total += gain
        return gain

    def losses(self, positions: Tensor) -> Tensor:
        """What the points taken lose without each of these, which must be among them."""
        place = {position: number for number, position in enumerate(self._without().taken)}
        for position in positions.tolist():
            if position not in place:
                raise ValueError(f"position: {position} was not taken, and only points taken can be given back")
        return self._without().losses()[[place[position] for position in positions.tolist()]]

    def remove(self, position: int) -> float:
        """Give a point back and return what is lost with it; all points are worked out again when next looked at."""
        loss = float(self.losses(torch.tensor([position])))
        self._without().drop(position)
        self.taken.remove(position)
        self.removed = True
        self.total = max(0.0, self.total - loss)
        return loss

    @property
    def tie(self) -> float:
        """Gains keep their digits however small they all are, as under large noise."""
        return TIE * min(1.0, self.largest)

    def value(self, positions: Tensor) -> float:
        """½ ‖L⁻¹ X G‖² of the whole set at once, L Lᵀ = I + X Xᵀ, X = noise^(−½) Φ R before any point was taken."""
        if not len(positions):
            return 0.0
        positions = positions.to(self.device)
        rows_B_D = self.start.left(self._features(positions)) * self.noise_N[positions].rsqrt()[:, None]
        own_B_B = torch.eye(len(rows_B_D), dtype=torch.float64, device=self.device) + rows_B_D @ rows_B_D.T
        told_B_E = rows_B_D @ self.start.told_D_E
        white_B_E = torch.linalg.solve_triangular(torch.linalg.cholesky(own_B_B), told_B_E, upper=False)
        return 0.5 * float(white_B_E.square().sum())

    def operations(self, size: int) -> float:
        """2 B² D + B³ by matrix products: 20 times as quick as other operations."""
        return (2.0 * size**2 * self.features_N_D.shape[1] + size**3) / 20

    def _gain(self, positions: Tensor | slice) -> Tensor:
        return (0.5 * self.told_N[positions]).div_(self.variance_N[positions] + self.noise_N[positions])

    def _follow(self, p_D: Tensor, q_D: Tensor, told: float) -> None:
        """Let all points follow one that was taken; p and q are over √d, and `told` is c over d."""
        features, dtype = self.features_N_D, self.features_N_D.dtype
        # Directions of length one: they and their products have their place in float32 whatever the unit of a label.
        p, q = float(p_D.norm()), float(q_D.norm())
        unit_2_D = torch.stack([p_D / p if p > 0 else p_D, q_D / q if q > 0 else q_D])
        if dtype == torch.float32 and not (
            torch.get_float32_matmul_precision() == "highest" and float(self.length_N.max()) < _MOST
        ):
            dtype = torch.float64
        # Rows, transposed for the product: columns would take it five times as long.
        unit_D_2 = unit_2_D.to(dtype).T
        copied = 0 if dtype == features.dtype else 24 * features.shape[1]
        step = rows_per_chunk(_FOLLOW_BYTES + copied, self.device)
        for start in range(0, len(features), step):
            part = slice(start, start + step)
            along_n_2 = features[part].to(dtype) @ unit_D_2
            a_n, b_n = along_n_2[:, 0].double() * p, along_n_2[:, 1].double() * q
            unsure_n = self.length_N[part] * (_ROUNDING * torch.finfo(dtype).eps * features.shape[1] ** 0.5)
            unsure_n.add_(features.shape[1] * torch.finfo(dtype).tiny)  # products too small are lost
            a_error_n, b_error_n = unsure_n * p, unsure_n.mul_(q)
            square_error_n = (2 * a_n.abs() + a_error_n).mul_(a_error_n)
            self.variance_error_N[part] += square_error_n
            told_error_n = self.told_error_N[part].add_(square_error_n.mul_(told))
            told_error_n.add_((a_n.abs() + a_error_n).mul_(b_error_n), alpha=2)
            told_error_n.add_(a_error_n.mul_(b_n.abs()), alpha=2)
            self.told_N[part] += b_n.mul_(-2).add_(a_n, alpha=told).mul_(a_n)
            self.variance_N[part] -= a_n.square_()

    def _work_out(self, weights: "_Weights", positions: Tensor | None, variance_N: Tensor, told_N: Tensor) -> None:
        """Write variances of some points, or all, and what the targets share with them, from R and G."""
        count = len(self.noise_N) if positions is None else len(positions)
        width, root_D_D, told_D_E = self.features_N_D.shape[1], weights.root_D_D, weights.told_D_E
        bytes_each = _GEMM_BYTES * (3 * width + told_D_E.shape[1]) // 4
        step = min(count, rows_per_chunk(bytes_each, self.device))
        # One piece of memory for all chunks, see `squared_lengths`.
        room_n_D, room_n_E = told_D_E.new_empty(step, width), told_D_E.new_empty(step, told_D_E.shape[1])
        left_room_n_D = room_n_D if root_D_D is None else torch.empty_like(room_n_D)

        def work(part: slice) -> Tensor:
            some = part if positions is None else positions[part]
            n = part.stop - part.start
            left_n_D = room_n_D[:n].copy_(self.features_N_D[some])
            if root_D_D is not None:
                left_n_D = torch.mm(left_n_D, root_D_D, out=left_room_n_D[:n])
            told_N[some] = torch.mm(left_n_D, told_D_E, out=room_n_E[:n]).square_().sum(1)
            variance_N[some] = left_n_D.square_().sum(1)
            return told_D_E.new_empty(n, 0)  # all is written

        chunked(work, count, bytes_each, self.device)

    def _work_out_all(self) -> None:
        self.looked_at = 0
        self._work_out(self.weights, None, self.variance_N, self.told_N)
        self.variance_error_N.zero_()
        self.told_error_N.zero_()

    def _restart(self) -> None:
        """Take the points taken again, and work out all points."""
        self.weights, self.removed = self.start.copied(), False
        for position in self.taken:
            self.weights.take(self._features([position])[0], float(self.noise_N[position]))
        self._work_out_all()

    def _restart_after_removals(self) -> None:
        if self.removed:
            self._restart()

    def _without(self) -> "_Left":
        if self._left is None:
            rows_B_D = self.start.left(self._features(self.taken)) * self.noise_N[self.taken].rsqrt()[:, None]
            self._left = _Left(list(self.taken), rows_B_D, self.start.told_D_E)
        return self._left

    def _features(self, positions: Tensor | slice | list[int]) -> Tensor:
        return self.features_N_D[positions].double()


class _Weights:
    """R, a root of the covariance of the weights that points share, and G = Rᵀ C^½, what targets share with it.

    No root is the identity: D × D numbers less until a point is taken.
    """

    def __init__(self, root_D_D: Tensor | None, told_D_E: Tensor) -> None:
        self.root_D_D, self.told_D_E = root_D_D, told_D_E

    def copied(self) -> "_Weights":
        return _Weights(None if self.root_D_D is None else self.root_D_D.clone(), self.told_D_E.clone())

    def left(self, features_n_D: Tensor) -> Tensor:
        """Φ R of some points."""
        return features_n_D if self.root_D_D is None else features_n_D @ self.root_D_D

    def take(self, feature_D: Tensor, noise: float) -> tuple[Tensor, Tensor, float]:
        """See the label of a point; P φ and P C P φ of it over √d, and φ P C P φᵀ over d, as they were before."""
        if self.root_D_D is None:
            self.root_D_D = torch.eye(len(feature_D), dtype=torch.float64, device=feature_D.device)
        left_D = feature_D @ self.root_D_D
        d = float(left_D.square().sum()) + noise
        v_D = left_D / math.sqrt(d)
        told_E = v_D @ self.told_D_E
        p_D, q_D = self.root_D_D @ v_D, self.root_D_D @ (self.told_D_E @ told_E)
        share = 1 / (1 + math.sqrt(noise / d))
        self.root_D_D.addr_(p_D, v_D, alpha=-share)
        self.told_D_E.addr_(v_D, told_E, alpha=-share)
        return p_D, q_D, float(told_E.square().sum())


class _Left:
    """Points taken as rows X = noise^(−½) Φ R, and what the targets lose without each of them, from (I + X Xᵀ)⁻¹.

    By a Cholesky factor that is kept up to date; where noise is next to nothing by singular values, since all terms of
    U (1 + s²)⁻¹ Uᵀ are positive.
    """

    def __init__(self, taken: list[int], rows_B_D: Tensor, told_D_E: Tensor) -> None:
        self.taken, self.rows_B_D, self.told_D_E = taken, rows_B_D, told_D_E
        self.sharp = float(rows_B_D.square().sum(1).max()) > SHARP
        self.inverse_B_B, self.through_B_E = self._worked_out()
        self.dropped = 0

    def losses(self) -> Tensor:
        """½ ‖Gᵀ Xᵀ (I + X Xᵀ)⁻¹ e_j‖² / ((I + X Xᵀ)⁻¹)_jj of every point left."""
        loss_B: Tensor = 0.5 * self.through_B_E.square().sum(1) / self.inverse_B_B.diagonal()
        return loss_B

    def drop(self, position: int) -> None:
        """Leave a point out: the inverse less what went through it."""
        place = self.taken.index(position)
        rest = [number for number in range(len(self.taken)) if number != place]
        self.taken.pop(place)
        self.rows_B_D = self.rows_B_D[rest]
        self.dropped += 1
        if self.dropped == _DOWNDATES or (self.sharp and len(rest) <= _FEW):
            self.inverse_B_B, self.through_B_E = self._worked_out()
            self.dropped = 0
            return
        share_B = self.inverse_B_B[rest, place] / self.inverse_B_B[place, place]
        self.through_B_E = self.through_B_E[rest] - torch.outer(share_B, self.through_B_E[place])
        self.inverse_B_B = self.inverse_B_B[rest][:, rest] - torch.outer(share_B, self.inverse_B_B[place, rest])

    def _worked_out(self) -> tuple[Tensor, Tensor]:
        """(I + X Xᵀ)⁻¹, and the same times X G."""
        count = len(self.rows_B_D)
        if not self.sharp:
            own_B_B = self.rows_B_D @ self.rows_B_D.T + torch.eye(count).to(self.rows_B_D)
            inverse_B_B = torch.cholesky_inverse(torch.linalg.cholesky(own_B_B))
            return inverse_B_B, inverse_B_B @ (self.rows_B_D @ self.told_D_E)
        left_B_B, singular_R, right_D_D = torch.linalg.svd(self.rows_B_D)
        grown_B = torch.ones(count).to(singular_R)
        grown_B[: len(singular_R)] += singular_R.square()
        along_B_R = left_B_B[:, : len(singular_R)] * (singular_R / grown_B[: len(singular_R)])
        return (left_B_B / grown_B) @ left_B_B.T, along_B_R @ (right_D_D[: len(singular_R)] @ self.told_D_E)


def _target_root(
    objective: TraceEPIG | TraceJEPIG, belief: GaussianFeatures, context: Context[GaussianFeatures]
) -> Tensor:
    """C^½, [D, E]: the targets themselves where they are fewer than features, else a root of C."""
    targets = context.targets
    if isinstance(objective, TraceJEPIG):
        refuse_weights(targets, "TraceJEPIG", "TraceEPIG")
    other = targets.belief.to(belief.device)
    count, width = other.features_N_D.shape
    if width != belief.features_N_D.shape[1]:
        raise ValueError(
            f"targets: they have {width} features and the pool {belief.features_N_D.shape[1]}; believe about both with"
            " one fitted model"
        )
    scale_M = other.noise_N.rsqrt()
    if isinstance(objective, TraceEPIG):
        weights_M = targets.weights_M
        share_M = 1 / count if weights_M is None else (weights_M / weights_M.sum()).to(scale_M)
        scale_M = scale_M * share_M**0.5

    if count <= width:
        return (other.features_N_D.double() * scale_M[:, None]).T.contiguous()
    information_D_D = torch.zeros(width, width, dtype=torch.float64, device=belief.device)
    step = min(count, rows_per_chunk(_GEMM_BYTES * width, belief.device))
    room_m_D = information_D_D.new_empty(step, width)  # one piece of memory for all chunks, see `squared_lengths`
    for start in range(0, count, step):
        some_m_D = other.features_N_D[start : start + step]
        rows_m_D = room_m_D[: len(some_m_D)].copy_(some_m_D).mul_(scale_M[start : start + step, None])
        information_D_D.addmm_(rows_m_D.T, rows_m_D)
    # A triangle is a root too: eigenvectors took about 4 MiB more with 512 features, and serve where this one fails.
    root_D_D: Tensor
    root_D_D, failed = torch.linalg.cholesky_ex(information_D_D)
    if int(failed):
        value_D, root_D_D = torch.linalg.eigh(information_D_D)
        root_D_D.mul_(value_D.clamp_min_(0).sqrt_())
    return root_D_D


class _ByWidth:
    """On features while D × D numbers fit the memory budget, else in weight space, which has a form for so many."""

    offers: ClassVar[Capability] = FisherState.offers

    def __call__(
        self,
        objective: TraceEPIG | TraceJEPIG,
        belief: GaussianFeatures,
        context: Context[GaussianFeatures],
        /,
    ) -> State:
        if fits(5 * 8 * belief.features_N_D.shape[1] ** 2):
            return GaussianTrace(objective, belief, context)
        if context.given is not None:
            held = context.given.belief
            about = replace(context.targets, belief=context.targets.belief.given(held))
            return FisherTrace(objective, belief.given(held), replace(context, about=about, given=None))
        return FisherTrace(objective, belief, context)


def _bounding(expression: str) -> PairFacts:
    return PairFacts(
        needs=Argument.TARGETS,
        takes=Argument.GIVEN,
        monotone=True,
        bounds=(Bound(expression, "upper", why="ln det(I + A) ≤ tr A"),),
        cost="(M + N)·D², then k·N·D",
    )


serves(TraceEPIG, GaussianFeatures, _bounding("I[Y;Ystar|x,xstar,D]"))(_ByWidth())
serves(TraceJEPIG, GaussianFeatures, _bounding("I[Y;Ystars|x,xstars,D]"))(_ByWidth())
