"""Trace objectives read in weight space: BAIT's arithmetic without a P × P matrix that changes.

    gain_n = ½ tr((I + K_n)⁻¹ B_n)       loss_s = ½ tr((I − K_s)⁻¹ B_s)       B_n = V_n P F_E P V_nᵀ
    take b:  W = L⁻¹ V_b P,  c_n = V_n Wᵀ,  y_n = V_n (P F_E Wᵀ − ½ WᵀW F_E Wᵀ),   B_n ← B_n − c_n y_nᵀ − y_n c_nᵀ

Both blocks of a point are kept and changed by the R rows of the point taken: a step costs N·R·P in place of the N·R·P²
of computing V_n P F_E P V_nᵀ again. Where points and targets are few and weights many (kernel form) T_n = V_n P V_Eᵀ is
kept, B_n = T_n T_nᵀ.  Spec 08, E (v), G1 and Alg 5.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from natsel.beliefs import FisherFactors, FisherRows, GaussianFeatures
from natsel.information.factors import Factors
from natsel.information.precision import Precision
from natsel.memory import chunked
from natsel.objectives.fisher_blocks import Blocks, Gram, Pivot, applied, crossed, factor, solved, trace
from natsel.objectives.fisher_state import FisherState, refuse_weights, scaled, target_space, weight_space
from natsel.objectives.plain import pointwise
from natsel.objectives.protocol import Reading, serves
from natsel.objectives.trace import TraceEIG, TraceEPIG, TraceJEPIG


@pointwise(TraceEIG, FisherFactors, FisherRows, GaussianFeatures)
def _(objective: TraceEIG, belief: FisherFactors | FisherRows | GaussianFeatures, reading: Reading) -> Tensor:
    factors, precision = weight_space(belief)

    def work(part: slice) -> Tensor:
        return 0.5 * trace(factors[part].own(precision))

    return chunked(work, len(factors), 32 * factors.rows**2, factors.device)


@serves(TraceEPIG, FisherFactors, FisherRows, GaussianFeatures)
@serves(TraceJEPIG, FisherFactors, FisherRows, GaussianFeatures)
class FisherTrace(FisherState):
    """Gains conditional on the points taken so far."""

    def __init__(
        self,
        objective: TraceEPIG | TraceJEPIG,
        belief: FisherFactors | FisherRows | GaussianFeatures,
        reading: Reading,
    ) -> None:
        super().__init__(objective, belief, reading)
        targets, shares_M = target_space(belief, reading.targets)
        if isinstance(objective, TraceJEPIG):
            refuse_weights(reading.targets, "TraceJEPIG", "TraceEPIG")
        else:
            targets = scaled(targets, shares_M.sqrt())
        self.targets = targets
        weights, count = self.factors.weights, len(targets) * targets.rows
        kernel = len(self.factors) * self.factors.rows < weights and count < weights
        self.blocks = Blocks(self.factors, self.precision, kernel)
        self.spread: Spread = KernelSpread(self.blocks, targets) if kernel else WeightSpread(self.blocks, targets)
        self.available = 0.5 * float(trace(targets.own(self.precision)).sum())

    def worth(self, positions: Tensor, sign: int) -> Tensor:
        """½ tr((I + K)⁻¹ B) of points to come, ½ tr((I − K)⁻¹ B) of points taken."""

        def work(part: Tensor) -> Tensor:
            factor_n_R_R = factor(self.blocks.at(part), sign)
            return 0.5 * trace(torch.cholesky_solve(self.spread.at(part), factor_n_R_R))

        return self.each(positions, work, 48 * self.factors.rows**2)

    def take(self, position: int, sign: int) -> None:
        pivot = self.blocks.pivot(position, sign)
        self.spread.take(pivot)

    @property
    def remaining(self) -> float:
        """½ tr(F_E P): all that is uncertain about the targets."""
        return max(0.0, self.available - self.total)

    def value(self, positions: Tensor) -> float:
        """½ tr(F_E H⁻¹ V_Aᵀ (I + V_A H⁻¹ V_Aᵀ)⁻¹ V_A H⁻¹) of the whole set at once."""
        if not len(positions):
            return 0.0
        rows_q_P = self.factors.explicit(positions.to(self.device)).flatten(0, 1)
        solved_q_P = self.precision.solve(rows_q_P)
        own_q_q = torch.eye(len(rows_q_P), dtype=torch.float64, device=self.device) + solved_q_P @ rows_q_P.T
        white_q_P = torch.linalg.solve_triangular(torch.linalg.cholesky(own_q_q), solved_q_P, upper=False)
        return 0.5 * float(self.targets.apply(white_q_P).square().sum())


class Spread(ABC):
    """B_n of all points as points are taken."""

    @abstractmethod
    def at(self, positions: Tensor) -> Tensor:
        """B of some points, [n, R, R]."""

    @abstractmethod
    def take(self, pivot: Pivot) -> None:
        """Let the blocks take a point, and follow."""


class WeightSpread(Spread):
    """B changed by rows of weights; made again from all rows where blocks are not held."""

    def __init__(self, blocks: Blocks, targets: Factors) -> None:
        self.blocks = blocks
        self.target, self.first = told(targets, blocks.precision)
        self.rows_t_P = blocks.rows_t_P
        self.held_N_R_R = None if blocks.held_N_R_R is None else self.first.over(blocks.factors)

    def at(self, positions: Tensor) -> Tensor:
        """B of some points."""
        if self.held_N_R_R is not None:
            return self.held_N_R_R[positions]
        factors = self.blocks.factors[positions]
        columns_n_R_t = self.blocks.columns(positions) * self.blocks.signs_t
        change_n_R_R = columns_n_R_t @ applied(factors, self.rows_t_P).mT
        return self.first.over(factors) - change_n_R_R - change_n_R_R.mT

    def take(self, pivot: Pivot) -> None:
        """The rows of y, and with them all B."""
        rows_R_P = pivot.rows_q_P
        assert rows_R_P is not None
        told_R_P = self.target.times(rows_R_P)
        inner_R_R = told_R_P @ rows_R_P.T
        also_R_P = self.blocks.project(told_R_P) - 0.5 * pivot.sign * inner_R_R @ rows_R_P
        self.rows_t_P = torch.cat([self.rows_t_P, also_R_P])
        columns_N_R_R = self.blocks.absorb(pivot)
        if self.held_N_R_R is not None:
            assert columns_N_R_R is not None
            also_N_R_R = self.blocks.factors.apply(also_R_P)
            change_N_R_R = columns_N_R_R @ also_N_R_R.mT
            self.held_N_R_R -= pivot.sign * (change_N_R_R + change_N_R_R.mT)


class KernelSpread(Spread):
    """T_n = V_n P V_Eᵀ of few points and few targets, under very many weights."""

    def __init__(self, blocks: Blocks, targets: Factors) -> None:
        self.blocks = blocks
        self.targets = Blocks(targets, blocks.precision, kernel=True)
        width = 16 * blocks.factors.rows * len(targets) * targets.rows

        def work(part: slice) -> Tensor:
            return crossed(blocks.factors[part], targets, blocks.precision).permute(0, 2, 1, 3).flatten(2)

        self.cross_N_R_m = chunked(work, len(blocks), width, blocks.signs_t.device)

    def at(self, positions: Tensor) -> Tensor:
        """B of some points."""
        cross_n_R_m = self.cross_N_R_m[positions]
        return cross_n_R_m @ cross_n_R_m.mT

    def take(self, pivot: Pivot) -> None:
        """T less the columns of both ends."""
        mine_N_R_R, theirs_M_R_R = self.blocks.absorb(pivot), self.targets.absorb(pivot)
        assert mine_N_R_R is not None
        assert theirs_M_R_R is not None
        self.cross_N_R_m -= pivot.sign * mine_N_R_R @ theirs_M_R_R.flatten(0, 1).T


def told(targets: Factors, precision: Precision) -> tuple[Gram, Gram]:
    """F_E and H⁻¹ F_E H⁻¹ of targets: as their rows where these are fewer than weights, else whole."""
    if len(targets) * targets.rows < targets.weights:
        rows_r_P = targets.explicit(slice(None)).flatten(0, 1)
        return Gram(rows_r_P=rows_r_P), Gram(rows_r_P=solved(rows_r_P, precision))
    fisher_P_P = targets.fisher()
    half_P_P = solved(fisher_P_P, precision)
    whole_P_P = solved(half_P_P.T, precision)
    return Gram(matrix_P_P=fisher_P_P), Gram(matrix_P_P=(whole_P_P + whole_P_P.T) / 2)
