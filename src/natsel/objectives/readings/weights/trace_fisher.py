"""Trace objectives read in weight space: BAIT's arithmetic without a P × P matrix that changes.

    gain_n = ½ tr((I + K_n)⁻¹ B_n)       loss_s = ½ tr((I − K_s)⁻¹ B_s)       B_n = V_n P F_E P V_nᵀ
    take b:  W = L⁻¹ V_b P,  c_n = V_n Wᵀ,  y_n = V_n (P F_E Wᵀ − ½ WᵀW F_E Wᵀ),   B_n ← B_n − c_n y_nᵀ − y_n c_nᵀ

Both blocks of a point are kept and changed by the R rows of the point taken: a step costs N·R·P in place of the N·R·P²
of computing V_n P F_E P V_nᵀ again. Where points and targets are few and weights many (kernel form) T_n = V_n P V_Eᵀ is
kept, B_n = T_n T_nᵀ.
docs/theory/weight-space.md, 6 (v), 7.3 and 9.1; Ash et al. 2021.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from natsel.beliefs import FisherBelief, GaussianFeatures
from natsel.information.conditioning.conditioned_blocks import (
    Blocks,
    Gram,
    Pivot,
    applied,
    factor,
    rows_of,
    solved,
    trace,
)
from natsel.information.weights.factors import Factors
from natsel.information.weights.in_place import both_sides_
from natsel.information.weights.precision import Dense, Isotropic, Precision
from natsel.memory import chunked, fits, require
from natsel.objectives.objective import Argument, Bound
from natsel.objectives.reading import Context, PairFacts, serves
from natsel.objectives.readings.pointwise import pointwise
from natsel.objectives.readings.weights.fisher_state import (
    FisherState,
    WeightSpace,
    refuse_weights,
    scaled,
    target_space,
    weight_space,
)
from natsel.objectives.trace import TraceEIG, TraceEPIG, TraceJEPIG

_NOTICED = 1e-3  # nats of rounding that nobody would miss


_WHY = "ln det(I + A) ≤ tr A"
_ADDITIVE = PairFacts(conditions=True, monotone=True, submodular=True, cost="N·P²")
_ABOUT = PairFacts(needs=Argument.TARGETS, conditions=True, monotone=True, cost="M·P² + N·P², then k·N·R·P")


def _trace_eig(objective: TraceEIG, belief: WeightSpace, context: Context[WeightSpace]) -> Tensor:
    factors, precision = weight_space(belief)
    return 0.5 * lengths(factors, precision)


pointwise(TraceEIG, FisherBelief, _ADDITIVE)(_trace_eig)
pointwise(
    TraceEIG,
    GaussianFeatures,
    replace(_ADDITIVE, bounds=(Bound("I[Y;Omega|x,D]", "upper", vanishes=True, why=_WHY),)),
)(_trace_eig)


class FisherTrace(FisherState):
    """Gains conditional on the points taken so far."""

    def __init__(
        self,
        objective: TraceEPIG | TraceJEPIG,
        belief: WeightSpace,
        context: Context[WeightSpace],
    ) -> None:
        super().__init__(objective, belief, context)
        targets, shares_M = target_space(belief, context.targets)
        if isinstance(objective, TraceJEPIG):
            refuse_weights(context.targets, "TraceJEPIG", "TraceEPIG")
        else:
            targets = scaled(targets, shares_M.sqrt())
        self.targets = targets
        weights, count = self.factors.n_weights, len(targets) * targets.n_rows
        kernel = len(self.factors) * self.factors.n_rows < weights and count < weights
        beside = 0 if kernel else needed(targets, self.precision)
        self.blocks = Blocks(self.factors, self.precision, kernel, tables=2, beside=beside)
        self.spread: Spread = KernelSpread(self.blocks, targets) if kernel else WeightSpread(self.blocks, targets)
        # ½ tr(F_E P): all that is uncertain about the targets.
        self.available = 0.5 * float(lengths(targets, self.precision).sum())

    def worth(self, positions: Tensor, sign: int) -> Tensor:
        """½ tr((I + K)⁻¹ B) of points to come, ½ tr((I − K)⁻¹ B) of points taken."""

        def work(part: Tensor) -> Tensor:
            factor_n_R_R = factor(self.blocks.at(part), sign)
            return 0.5 * trace(torch.cholesky_solve(self.spread.at(part), factor_n_R_R))

        return self.each(positions, work, 48 * self.factors.n_rows**2 + self.spread.width())

    def change(self, position: int, sign: int) -> None:
        pivot = self.blocks.pivot(position, sign)
        self.spread.take(pivot)

    def refuse_rounding(self, gain: float) -> None:
        """B is squared in H⁻¹ and changed by differences: what is left of it in the end is rounding of what it was."""
        if self.blocks.kernel:
            return
        rounding = 2 * torch.finfo(torch.float64).eps * self.blocks.largest * float(self.scores().max())
        if rounding > max(_NOTICED, gain / 10):
            raise ValueError(
                f"precision: after {len(self.taken)} points a label tells {gain:.1g} where the first told"
                f" {float(self.scores().max()):.1g}, and rounding is {rounding:.1g} by now; lower k to"
                f" {len(self.taken)}, give a larger precision, or rescale the features"
            )

    def value(self, positions: Tensor) -> float:
        """½ tr(F_E H⁻¹ V_Aᵀ (I + V_A H⁻¹ V_Aᵀ)⁻¹ V_A H⁻¹) of the whole set at once."""
        if not len(positions):
            return 0.0
        rows_q_P = self.factors.explicit(positions.to(self.device)).flatten(0, 1)
        solved_q_P = self.precision.solve(rows_q_P)
        own_q_q = torch.eye(len(rows_q_P), dtype=torch.float64, device=self.device) + solved_q_P @ rows_q_P.T
        white_q_P = torch.linalg.solve_triangular(torch.linalg.cholesky(own_q_q), solved_q_P, upper=False)
        return 0.5 * float(self.targets.apply(white_q_P).square().sum())


serves(TraceEPIG, FisherBelief, _ABOUT)(FisherTrace)
serves(TraceJEPIG, FisherBelief, _ABOUT)(FisherTrace)


class Spread(ABC):
    """B_n of all points as points are taken."""

    @abstractmethod
    def at(self, positions: Tensor) -> Tensor:
        """B of some points, [n, R, R]."""

    @abstractmethod
    def width(self) -> int:
        """Bytes per point, while its B is made."""

    @abstractmethod
    def take(self, pivot: Pivot) -> None:
        """Let the blocks take a point, and follow."""


class WeightSpread(Spread):
    """B changed by rows of weights; made again from all rows where blocks are not held."""

    def __init__(self, blocks: Blocks, targets: Factors) -> None:
        self.blocks = blocks
        self.target, self.first = target_information(targets, blocks.precision)
        self.rows_t_P = blocks.rows_t_P
        self.held_N_R_R = None if blocks.held_N_R_R is None else self.first.over(blocks.factors)

    def at(self, positions: Tensor) -> Tensor:
        """B of some points."""
        if self.held_N_R_R is not None:
            return self.held_N_R_R[positions]
        factors, signs_t = self.blocks.factors[positions], self.blocks.signs_t

        def change(part: slice) -> Tensor:
            columns_n_R_t = self.blocks.columns(positions[part]) * signs_t
            change_n_R_R = columns_n_R_t @ applied(factors[part], self.rows_t_P).mT
            return change_n_R_R + change_n_R_R.mT

        width = 32 * factors.n_rows * len(signs_t) + 8 * factors.n_numbers
        return self.first.over(factors) - chunked(change, len(factors), width, factors.device)

    def width(self) -> int:
        """Bytes per point, while its B is made."""
        return 0 if self.held_N_R_R is not None else 8 * self.blocks.factors.n_numbers

    def take(self, pivot: Pivot) -> None:
        """The rows of y, and with them all B."""
        rows_R_P, held_N_R_R = pivot.rows_q_P, self.held_N_R_R
        target_rows_R_P = self.target.times(rows_R_P)
        inner_R_R = target_rows_R_P @ rows_R_P.T
        also_R_P = self.blocks.project(target_rows_R_P) - 0.5 * pivot.sign * inner_R_R @ rows_R_P
        if held_N_R_R is None:
            self.rows_t_P = torch.cat([self.rows_t_P, also_R_P])
            self.blocks.beside += 16 * also_R_P.numel()
            self.blocks.absorb(pivot)
            return

        def follow(part: slice, columns_n_R_R: Tensor) -> None:
            also_n_R_R = self.blocks.factors[part].apply(also_R_P)
            change_n_R_R = columns_n_R_R @ also_n_R_R.mT
            held_N_R_R[part] -= pivot.sign * (change_n_R_R + change_n_R_R.mT)

        self.blocks.absorb(pivot, follow)


class KernelSpread(Spread):
    """T_n = V_n P V_Eᵀ of few points and few targets, under very many weights; kept where it fits the memory budget."""

    def __init__(self, blocks: Blocks, targets: Factors) -> None:
        self.blocks = blocks
        self.targets = Blocks(targets, blocks.precision, kernel=True)
        self.count = len(targets) * targets.n_rows
        self.cross_N_R_m: Tensor | None = None
        if fits(8 * len(blocks) * blocks.factors.n_rows * self.count):
            self.cross_N_R_m = chunked(self._made, len(blocks), self.width(), blocks.signs_t.device)

    def at(self, positions: Tensor) -> Tensor:
        """B of some points."""
        cross_n_R_m = self._made(positions) if self.cross_N_R_m is None else self.cross_N_R_m[positions]
        return cross_n_R_m @ cross_n_R_m.mT

    def width(self) -> int:
        """Bytes per point, while its B is made: T of it, and what T is made of."""
        return 8 * self.blocks.factors.n_numbers + 40 * self.blocks.factors.n_rows * self.count

    def take(self, pivot: Pivot) -> None:
        """T less the columns of both ends."""
        self.targets.absorb(pivot)
        cross_N_R_m = self.cross_N_R_m
        if cross_N_R_m is None:
            self.blocks.absorb(pivot)
            return
        theirs_m_R = self.targets.columns_N_R_t[..., -len(pivot.factor_q_q) :].flatten(0, 1)

        def follow(part: slice, columns_n_R_R: Tensor) -> None:
            cross_N_R_m[part] -= pivot.sign * columns_n_R_R @ theirs_m_R.T

        self.blocks.absorb(pivot, follow)

    def _made(self, positions: Tensor | slice) -> Tensor:
        """T of some points, [n, R, m]; the rows of targets are not solved for again for each part of the points."""
        everything = slice(0, len(self.targets))
        return self.targets.cross(everything, self.blocks, positions).permute(1, 3, 0, 2).flatten(2)


def lengths(factors: Factors, precision: Precision) -> Tensor:
    """tr V_n H⁻¹ V_nᵀ, N values.

    >>> from natsel.information.weights.factors import RowFactors
    >>> from natsel.information.weights.precision import Isotropic
    >>> lengths(RowFactors(torch.ones(1, 1, 3)), Isotropic(2.0)).tolist()
    [1.5]
    """
    return chunked(
        lambda part: trace(factors[part].own(precision)), len(factors), 32 * factors.n_rows**2, factors.device
    )


def needed(targets: Factors, precision: Precision) -> int:
    """Bytes of F_E and H⁻¹ F_E H⁻¹, and of H⁻¹ where it is a matrix; more than the memory budget is refused."""
    count, weights = min(len(targets) * targets.n_rows, targets.n_weights), targets.n_weights
    whole, matrices = isinstance(precision, Dense), 1 if isinstance(precision, Isotropic) else 2
    size = 8 * weights * (matrices * count + (weights if whole else 0))
    require(
        size,
        f"targets: {'two matrices' if matrices == 2 else 'a matrix'} of {count} × {weights} for what they tell of the"
        f" weights{' and the inverse of the precision' if whole else ''}",
        f"use fewer features or targets{', a Kronecker or diagonal precision' if whole else ''}",
    )
    return size


def target_information(targets: Factors, precision: Precision) -> tuple[Gram, Gram]:
    """F_E and H⁻¹ F_E H⁻¹ of targets: as their rows where these are fewer than weights, else whole.

    Where H is λ I the second is the first over λ², and nothing is held twice.
    """
    change = partial(solved, precision=precision)
    scale = float(precision.scale) ** -2 if isinstance(precision, Isotropic) else 1.0
    if len(targets) * targets.n_rows < targets.n_weights:
        rows_r_P = rows_of(targets, lambda rows_q_P: rows_q_P)
        solved_r_P = rows_r_P if isinstance(precision, Isotropic) else rows_of(targets, change)
        return Gram(rows_r_P), Gram(solved_r_P, scale=scale)
    fisher_P_P = targets.fisher()
    solved_P_P = fisher_P_P if isinstance(precision, Isotropic) else both_sides_(fisher_P_P.clone(), change)
    return Gram(fisher_P_P, whole=True), Gram(solved_P_P, whole=True, scale=scale)
