"""EPIG read in weight space: the mean over targets of what a label tells about each, exact for Gaussian weights.

    gain_n = −½ Σ_j v_j ln det(I − B_nj B_njᵀ),      B_nj = L_j⁻¹ K_jn L_n⁻ᵀ,      L Lᵀ = I + K of each end
    loss_s =  ½ Σ_j v_j ln det(I + B_sj B_sjᵀ),      with I − K_s at the end of the point taken

K_jn = V_j P V_nᵀ is made pair by pair, in blocks that stay in the caches, and never held: N·M pairs of R × R.
EPIGJensen beside this file bounds it from above at a cost that does not grow with pairs. For generalised linear models
and under Gauss-Newton, PIG in weight space is the same number, label-free.
docs/theory/weight-space.md, 5.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from natsel.beliefs import FisherBelief
from natsel.information.conditioning.conditioned_blocks import Blocks, factor
from natsel.information.weights.factors import OuterFactors
from natsel.information.weights.log_det import log_det_one_plus
from natsel.information.weights.precision import Isotropic, Kronecker
from natsel.memory import fits, rows_per_chunk
from natsel.objectives.epig import EPIG
from natsel.objectives.objective import Argument
from natsel.objectives.pig import PIG
from natsel.objectives.reading import Context, PairFacts, serves
from natsel.objectives.readings.weights.fisher_state import LAPLACE, FisherState, target_space

_POINTS = 32  # candidates beside each other, so that products with targets are products of matrices


@serves(
    EPIG,
    FisherBelief,
    PairFacts(
        needs=Argument.TARGETS,
        conditions=True,
        guarantee="approximate",
        why=LAPLACE,
        monotone=True,
        cost="N·M·R³, a batch k·N·M·R³",
    ),
)
class FisherEPIG(FisherState):
    """Gains about each target, conditional on the points taken so far."""

    def __init__(self, objective: EPIG | PIG, belief: FisherBelief, context: Context[FisherBelief]) -> None:
        super().__init__(objective, belief, context)
        targets, self.shares_M = target_space(belief, context.targets)
        rows = len(self.factors) * self.factors.n_rows + len(targets) * targets.n_rows
        kernel = rows < self.factors.n_weights
        self.blocks = Blocks(self.factors, self.precision, kernel, tables=2)
        self.targets = Blocks(targets, self.precision, kernel, tables=2)

    def worth(self, positions: Tensor, sign: int) -> Tensor:
        """−½ Σ_j v_j ln det(I − B Bᵀ) of points to come, ½ Σ_j v_j ln det(I + B Bᵀ) of points taken."""
        rows, others = self.factors.n_rows, self.targets.factors.n_rows
        pairs = 40 * rows * others * min(_POINTS, len(positions))
        step = rows_per_chunk(pairs + 24 * others * len(self.blocks.signs_t), self.device)
        every = range(0, len(self.targets), step)
        parts = [slice(start, min(start + step, len(self.targets))) for start in every]
        held = [self._inverse(part) for part in parts] if fits(8 * len(self.targets) * others**2) else None

        def work(some: Tensor) -> Tensor:
            between = self._between(some, inverse(self.blocks.at(some), sign))
            total_n = torch.zeros(len(some), dtype=torch.float64, device=self.device)
            for number, part in enumerate(parts):
                inverse_m_R_R = self._inverse(part) if held is None else held[number]
                white_m_R_n_R = (inverse_m_R_R @ between(part)).view(-1, others, len(some), rows)
                nats_m_n = log_det_one_plus(squared(white_m_R_n_R, -sign)).view(-1, len(some))
                total_n += -0.5 * sign * (self.shares_M[part] @ nats_m_n)
            return total_n

        # On a CPU the points of a chunk follow from how much of 8 MB their pairs fill; elsewhere from the budget.
        width = rows_per_chunk(1, self.device) // _POINTS if self.device.type == "cpu" else pairs * step // _POINTS
        return self.each(positions, work, max(width, 8 * self._numbers()))

    def _inverse(self, part: slice) -> Tensor:
        """L⁻¹ of some targets."""
        return inverse(self.targets.at(torch.arange(part.start, part.stop, device=self.device)), 1)

    def _numbers(self) -> int:
        """What is written out of a point beside a part of the targets."""
        if isinstance(self.factors, OuterFactors) and isinstance(self.precision, Isotropic | Kronecker):
            return self.factors.n_numbers
        return 4 * self.factors.n_rows * self.factors.n_weights

    def _between(self, some: Tensor, inverse_n_R_R: Tensor) -> Callable[[slice], Tensor]:
        """K_jn L_n⁻ᵀ of some targets with these points, [m, R', n·R], as a function of the targets."""
        if self.blocks.kernel or isinstance(self.precision, Isotropic | Kronecker):

            def pairs(part: slice) -> Tensor:
                half_m_n_R_R = self.targets.cross(part, self.blocks, some) @ inverse_n_R_R.mT
                return half_m_n_R_R.permute(0, 2, 1, 3).flatten(2)

            return pairs
        # One solution for the points serves all targets.
        rows_n_R_P = self.factors.explicit(some)
        rows_n_R_P = self.blocks.project(rows_n_R_P.flatten(0, 1)).view(rows_n_R_P.shape)
        rows_nR_P = (inverse_n_R_R @ rows_n_R_P).flatten(0, 1)
        return lambda part: self.targets.factors[part].apply(rows_nR_P)

    def change(self, position: int, sign: int) -> None:
        pivot = self.blocks.pivot(position, sign)
        self.blocks.absorb(pivot)
        self.targets.absorb(pivot)

    @property
    def remaining(self) -> float:
        """½ Σ_j v_j ln det(I + K_j): nobody can tell more about the targets than the weights do."""
        everything = torch.arange(len(self.targets), device=self.device)
        width = 48 * self.targets.factors.n_rows**2
        nats_M = self.each(everything, lambda part: log_det_one_plus(self.targets.at(part)), width)
        return 0.5 * float(nats_M @ self.shares_M)

    def operations(self, size: int) -> float:
        """Those of the set, and a solution of its rows for every target."""
        return super().operations(size) + len(self.targets) * (size * self.factors.n_rows) ** 3 / 20

    def value(self, positions: Tensor) -> float:
        """Σ_j v_j (½ ln det(I + K_j) − ½ ln det(I + K_j given the set)) with the whole set at once."""
        if not len(positions):
            return 0.0
        rows_q_P = self.factors.explicit(positions.to(self.device)).flatten(0, 1)
        solved_q_P = self.precision.solve(rows_q_P)
        eye_q_q = torch.eye(len(rows_q_P), dtype=torch.float64, device=self.device)
        own_q_q = eye_q_q + solved_q_P @ rows_q_P.T
        total = 0.0
        for j, share in enumerate(self.shares_M.tolist()):
            target_R_P = self.targets.factors.explicit(slice(j, j + 1))[0]
            eye_R_R = torch.eye(len(target_R_P), dtype=torch.float64, device=self.device)
            before_R_R = eye_R_R + self.precision.solve(target_R_P) @ target_R_P.T
            cross_q_R = solved_q_P @ target_R_P.T
            after_R_R = before_R_R - cross_q_R.T @ torch.linalg.solve(own_q_q, cross_q_R)
            gap = torch.linalg.slogdet(before_R_R).logabsdet - torch.linalg.slogdet(after_R_R).logabsdet
            total += 0.5 * share * float(gap)
        return total


def inverse(blocks_n_R_R: Tensor, sign: int) -> Tensor:
    """L⁻¹ with L Lᵀ = I ± K.

    >>> inverse(torch.tensor([[[3.0]]], dtype=torch.float64), 1).item()
    0.5
    """
    eye_R_R = torch.eye(blocks_n_R_R.shape[-1], dtype=torch.float64, device=blocks_n_R_R.device)
    eye_n_R_R = eye_R_R.expand_as(blocks_n_R_R)
    found_n_R_R: Tensor = torch.linalg.solve_triangular(factor(blocks_n_R_R, sign), eye_n_R_R, upper=False)
    return found_n_R_R


def squared(white_m_R_n_Q: Tensor, sign: int) -> Tensor:
    """± B Bᵀ or ± Bᵀ B, whichever is smaller, of all pairs in a row.

    >>> squared(torch.full((1, 1, 1, 2), 2.0), -1).tolist()
    [[[-8.0]]]
    """
    white_p_R_Q = white_m_R_n_Q.transpose(1, 2).flatten(0, 1)
    if 1 in white_p_R_Q.shape[1:]:
        return sign * white_p_R_Q.square().sum((1, 2))[:, None, None]
    if white_p_R_Q.shape[1] > white_p_R_Q.shape[2]:
        white_p_R_Q = white_p_R_Q.mT
    return sign * (white_p_R_Q @ white_p_R_Q.mT)
