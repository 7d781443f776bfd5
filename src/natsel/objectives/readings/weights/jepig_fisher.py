"""JEPIG and EPIG by Jensen read in weight space: two sets of blocks, one before and one after the targets' labels.

    gain_n = ½ ln det(I + K_n) − ½ ln det(I + K'_n) = ½ ln det(I + L⁻¹ T_n L⁻ᵀ)         L Lᵀ = I + K'_n
    T_n = K_n − K'_n = V_n (P − P') V_nᵀ,       P = (H + F_A)⁻¹,  P' = (H + F_E + F_A)⁻¹

T is kept beside K', so that small gains keep their digits: before any point is taken, H⁻¹ − (H + F_E)⁻¹ is the product
H⁻¹ F_E (H + F_E)⁻¹, or the square of the rows by which targets are taken where these are fewer than weights. JEPIG
takes F_E = Σ F[x*_j]; EPIGJensen takes Σ v_j F[x*_j]. For generalised linear models and under Gauss-Newton, JPIG and
PIG in weight space are the same numbers, label-free: differences of information gains, not the pointwise JPIG and PIG
of known labels. Not submodular.
docs/theory/weight-space.md, 5 and 7.3.
"""

from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from natsel.beliefs import FisherBelief, GaussianFeatures
from natsel.information.conditioning.conditioned_blocks import Blocks, Gram, Pivot, factor, together
from natsel.information.weights.in_place import both_sides_, columns_, factor_one_plus, symmetrise_
from natsel.information.weights.log_det import log_det_one_plus
from natsel.information.weights.precision import Dense, Precision
from natsel.memory import require
from natsel.objectives.epig import EPIGJensen
from natsel.objectives.jepig import JEPIG
from natsel.objectives.objective import Argument, Bound
from natsel.objectives.pig import JPIG
from natsel.objectives.reading import Context, PairFacts, serves
from natsel.objectives.readings.weights.fisher_state import (
    LAPLACE,
    FisherState,
    WeightSpace,
    refuse_weights,
    scaled,
    target_space,
)

_TINY = 1e-5


_FACTS = PairFacts(
    needs=Argument.TARGETS, conditions=True, monotone=True, cost="M·P² + N·P², or N·M·R² for few targets"
)
_JENSEN = Bound("I[Y;Ystar|x,xstar,D]", "upper", why="information is concave in what targets tell (Jensen)")


class FisherJEPIG(FisherState):
    """Gains about all targets together, conditional on the points taken so far."""

    def __init__(
        self,
        objective: JEPIG | JPIG | EPIGJensen,
        belief: WeightSpace,
        context: Context[WeightSpace],
    ) -> None:
        super().__init__(objective, belief, context)
        targets, shares_M = target_space(belief, context.targets)
        if isinstance(objective, EPIGJensen):
            targets = scaled(targets, shares_M.sqrt())
        else:
            refuse_weights(context.targets, type(objective).__name__, "EPIG")
        self.targets = targets
        weights, count = self.factors.n_weights, len(targets) * targets.n_rows
        kernel = len(self.factors) * self.factors.n_rows < weights and count < weights
        known: Pivot | Gram
        # `available` is ½ ln det(I + F_E P): all there is to say about the targets.
        if count < weights:
            pivot = together(targets, self.precision, kernel)
            self.available = float(pivot.factor_q_q.diagonal().log().sum())
            known, beside = (pivot, 0) if kernel else (Gram(pivot.rows_q_P), 8 * count * weights)
        else:
            inverses = 1 if isinstance(self.precision, Dense) else 0
            require(
                8 * (2 + inverses) * weights**2,
                f"targets: {2 + inverses} matrices of {weights} × {weights} for what they tell of the weights",
                f"use fewer features or targets{', a Kronecker or diagonal precision' if inverses else ''}",
            )
            known, self.available = learnt(targets.fisher(), self.precision)
            beside = 8 * (1 + inverses) * weights**2
        self.before = Blocks(self.factors, self.precision, kernel, tables=3, beside=beside)
        self.after = Blocks(self.factors, self.precision, kernel, known, tables=3, beside=beside)
        self.base, self.first = beside, len(self.after.signs_t)
        self.explained_N_R_R: Tensor | None = None
        if self.before.held_N_R_R is not None:
            self.explained_N_R_R = self._told(torch.arange(len(self.factors), device=self.device))

    def worth(self, positions: Tensor, sign: int) -> Tensor:
        """½ ln det(I + (I + K')⁻¹ T) of points to come; the same with −K', −T of points taken."""

        def work(part: Tensor) -> Tensor:
            explained_n_R_R = self._told(part) if self.explained_N_R_R is None else self.explained_N_R_R[part]
            factor_n_R_R = factor(self.after.at(part), sign)
            half_n_R_R = torch.linalg.solve_triangular(factor_n_R_R, explained_n_R_R, upper=False)
            white_n_R_R = torch.linalg.solve_triangular(factor_n_R_R, half_n_R_R.mT, upper=False)
            return 0.5 * sign * log_det_one_plus(sign * white_n_R_R)

        return self.each(positions, work, 64 * self.factors.n_rows**2)

    def change(self, position: int, sign: int) -> None:
        explained_N_R_R = self.explained_N_R_R
        for blocks, towards in ((self.before, -sign), (self.after, sign)):
            pivot = blocks.pivot(position, sign)
            if explained_N_R_R is None:
                blocks.absorb(pivot)
                continue

            def follow(part: slice, columns_n_R_R: Tensor, towards: int = towards) -> None:
                explained_N_R_R[part].baddbmm_(columns_n_R_R, columns_n_R_R.mT, alpha=towards)

            blocks.absorb(pivot, follow)
        self.before.beside, self.after.beside = self.base + self.after.kept, self.base + self.before.kept

    def _told(self, positions: Tensor) -> Tensor:
        """T of some points, from what is kept."""

        def work(part: Tensor) -> Tensor:
            if self.after.known is not None:
                explained_n_R_R = self.after.known.over(self.factors[part])
            else:
                columns_n_R_q = self.after.columns(part)[..., : self.first]
                explained_n_R_R = columns_n_R_q @ columns_n_R_q.mT
            for blocks, first, towards in ((self.before, 0, -1), (self.after, self.first, 1)):
                columns_n_R_t = blocks.columns(part)[..., first:]
                signed_n_R_t = towards * columns_n_R_t * blocks.signs_t[first:]
                explained_n_R_R = explained_n_R_R + signed_n_R_t @ columns_n_R_t.mT
            return explained_n_R_R

        width = 8 * self.factors.n_numbers + 32 * self.factors.n_rows * (self.factors.n_rows + len(self.after.signs_t))
        return self.each(positions, work, width)

    def value(self, positions: Tensor) -> float:
        """½ ln det(I + V_A H⁻¹ V_Aᵀ) less the same once targets are labelled, of the whole set at once."""
        if not len(positions):
            return 0.0
        rows_q_P = self.factors.explicit(positions.to(self.device)).flatten(0, 1)
        eye_q_q = torch.eye(len(rows_q_P), dtype=torch.float64, device=self.device)
        block_q_q = rows_q_P @ self.precision.solve(rows_q_P).T
        after_q_q = rows_q_P @ self._after_targets(rows_q_P).T
        gaps = [torch.linalg.slogdet(eye_q_q + each).logabsdet for each in (block_q_q, after_q_q)]
        return 0.5 * float(gaps[0] - gaps[1])

    def _after_targets(self, rows_q_P: Tensor) -> Tensor:
        """Rows (H + F_E)⁻¹, by whichever of the two matrices is smaller."""
        if len(self.targets) * self.targets.n_rows >= self.factors.n_weights:
            found_P_q: Tensor = torch.linalg.solve(self._labelled_P_P, rows_q_P.T)
            return found_P_q.T
        targets_r_P = self.targets.explicit(slice(None)).flatten(0, 1)
        solved_q_P, learnt_r_P = self.precision.solve(rows_q_P), self.precision.solve(targets_r_P)
        own_r_r = torch.eye(len(targets_r_P), dtype=torch.float64, device=self.device) + learnt_r_P @ targets_r_P.T
        share_r_q: Tensor = torch.linalg.solve(own_r_r, learnt_r_P @ rows_q_P.T)
        return solved_q_P - share_r_q.T @ learnt_r_P

    @cached_property
    def _labelled_P_P(self) -> Tensor:
        return self.precision.dense(self.factors.n_weights) + self.targets.fisher()


serves(JEPIG, FisherBelief, replace(_FACTS, guarantee="approximate", why=LAPLACE))(FisherJEPIG)
serves(EPIGJensen, FisherBelief, _FACTS)(FisherJEPIG)
serves(EPIGJensen, GaussianFeatures, replace(_FACTS, bounds=(_JENSEN,)))(FisherJEPIG)


def learnt(fisher_P_P: Tensor, precision: Precision) -> tuple[Gram, float]:
    """H⁻¹ − (H + F)⁻¹, what labels with so much information take away, in the place of F, and the nats they tell.

        L Lᵀ = H,  X = L⁻¹ F L⁻ᵀ:      L⁻ᵀ (I + X)⁻¹ X L⁻¹,      ½ ln det(I + X)

    >>> from natsel.information.weights.precision import Isotropic
    >>> known, nats = learnt(torch.tensor([[3.0]], dtype=torch.float64), Isotropic(1.0))
    >>> known.matrix_r_P.item(), round(nats, 4)
    (0.75, 0.6931)
    """
    white_P_P = both_sides_(fisher_P_P, precision.white)
    factor_P_P = factor_one_plus(white_P_P)
    if factor_P_P is None:  # refused there, or repaired
        factor_P_P = factor(white_P_P)
    trace_of, square = float(white_P_P.diagonal().sum()), float(torch.linalg.vector_norm(white_P_P)) ** 2
    # Where I + X would lose the digits of X, two terms of the series are exact.
    nats = 0.5 * (trace_of - square / 2) if square < _TINY**2 else float(factor_P_P.diagonal().log().sum())

    def share(columns_P_p: Tensor) -> Tensor:
        half_P_p = torch.linalg.solve_triangular(factor_P_P, columns_P_p, upper=False)
        found_P_p: Tensor = torch.linalg.solve_triangular(factor_P_P.T, half_P_p, upper=True)
        return found_P_p

    share_P_P = symmetrise_(columns_(white_P_P, share))
    return Gram(both_sides_(share_P_P, precision.coloured), whole=True), nats
