"""EIG read in weight space: ½ ln det(I + V_A H⁻¹ V_Aᵀ), from the R × R block of each point.

    gain_n = ½ ln det(I + K_n)          loss_s = −½ ln det(I − K_s)          K_n = V_n P V_nᵀ under the points taken

The same number as ½ ln det(F_A H⁻¹ + I) with its P × P matrices, by the determinant lemma; gains of a batch add up to
it exactly. For generalised linear models and under Gauss-Newton the information gain of known labels is the same
number, label-free. Monotone and submodular; unlike the mutual information of one label it is not capped by ln C.
Geometry: lengths tr K_n, kernel tr K_ij under H.
docs/theory/weight-space.md, 5 to 7; Kirsch & Gal 2022.
"""

from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from natsel.beliefs import FisherBelief
from natsel.capabilities import Capability
from natsel.information.conditioning.conditioned_blocks import Blocks, crossed, trace
from natsel.information.weights.factors import Factors
from natsel.information.weights.log_det import log_det_one_plus
from natsel.memory import rows_per_chunk
from natsel.objectives.eig import EIG
from natsel.objectives.plain import InformationGain
from natsel.objectives.reading import Context, PairFacts, serves
from natsel.objectives.readings.weights.fisher_state import LAPLACE, FisherState
from natsel.rounding import ROUNDING


@serves(
    EIG,
    FisherBelief,
    PairFacts(
        conditions=True,
        guarantee="approximate",
        why=LAPLACE,
        monotone=True,
        submodular=True,
        cost="N·P·R, a batch k·N·P·R",
    ),
)
class FisherEIG(FisherState):
    """Gains about the weights conditional on the points taken so far."""

    offers: ClassVar[Capability] = FisherState.offers | Capability.DISTANCES | Capability.KERNEL
    submodular: ClassVar[bool] = True

    def __init__(self, objective: EIG | InformationGain, belief: FisherBelief, context: Context[FisherBelief]) -> None:
        super().__init__(objective, belief, context)
        kernel = len(self.factors) * self.factors.n_rows < self.factors.n_weights
        self.blocks = Blocks(self.factors, self.precision, kernel)

    def worth(self, positions: Tensor, sign: int) -> Tensor:
        """½ ln det(I + K) of points to come, −½ ln det(I − K) of points taken."""
        return self.each(positions, lambda part: 0.5 * sign * log_det_one_plus(sign * self.blocks.at(part)))

    def change(self, position: int, sign: int) -> None:
        self.blocks.absorb(self.blocks.pivot(position, sign))

    def value(self, positions: Tensor) -> float:
        """½ ln det(I + V_A H⁻¹ V_Aᵀ) of the whole set at once."""
        rows_q_P = self.factors.explicit(positions.to(self.device)).flatten(0, 1)
        block_q_q = rows_q_P @ self.precision.solve(rows_q_P).T
        eye_q_q = torch.eye(len(block_q_q), dtype=torch.float64, device=self.device)
        return 0.5 * float(torch.linalg.slogdet(eye_q_q + block_q_q).logabsdet) if len(positions) else 0.0

    # Where points lie: V H^(−1/2), R rows of weights per point; points taken move none.

    @cached_property
    def size_N(self) -> Tensor:
        """tr V_n H⁻¹ V_nᵀ, worked out once."""
        everything = torch.arange(len(self.factors), device=self.device)
        width = 8 * self.factors.n_numbers + 32 * self.factors.n_rows**2
        return self.each(everything, lambda part: trace(self.factors[part].own(self.precision)), width)

    def sizes(self) -> Tensor:
        """Squared lengths tr K_n of all points by themselves, N values."""
        return self.size_N

    def distances(self, position: int) -> Tensor:
        """Squared distances of all points to one: tr K_n + tr K_i − 2 tr K_ni, N values; less than rounding is 0."""
        everything = torch.arange(len(self.factors), device=self.device)
        between_N = self.kernel(everything, torch.tensor([position]))[:, 0]
        far_N = self.size_N + self.size_N[position]
        distances_N = far_N - 2 * between_N
        return distances_N.where(distances_N > ROUNDING * far_N, 0.0)

    def kernel(self, positions_a: Tensor, positions_b: Tensor) -> Tensor:
        """tr K_ij, [n, m]."""
        there_n, here_m = positions_a.to(self.device), positions_b.to(self.device)
        found_n_m = torch.empty(len(there_n), len(here_m), dtype=torch.float64, device=self.device)
        # Rows of weights are solved for one part of the columns after the other, and that once.
        step = rows_per_chunk(24 * self.factors.n_rows * self.factors.n_weights, self.device)
        for start in range(0, len(here_m), step):
            few = self.factors[here_m[start : start + step]]
            width = 8 * self.factors.n_numbers + 24 * self.factors.n_rows**2 * len(few)

            def work(part: Tensor, few: Factors = few) -> Tensor:
                return trace(crossed(self.factors[part], few, self.precision))

            found_n_m[:, start : start + step] = self.each(there_n, work, width)
        return found_n_m
