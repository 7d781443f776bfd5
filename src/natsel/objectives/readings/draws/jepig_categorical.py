"""JEPIG read from categorical draws: two EIG states, one before and one after all target labels.

    gain_n = I[Y_n; Ω | labels so far] − I[Y_n; Ω | labels so far, Y*_1..Y*_M]

Both are sums over weighted posterior rows (`weighted_posteriors`); the second state starts from the rows that the
targets leave, which are thinned where there are more labellings than `rows`.
docs/theory/epig-jepig.md, 7.1 and 8.
"""

from typing import ClassVar

import torch
from torch import Tensor

from natsel.beliefs import CategoricalSamples
from natsel.capabilities import Capability
from natsel.information.enumeration import GROWING, MOST_ROWS, labellings
from natsel.information.weighted_posteriors import (
    WeightedPosteriors,
    expand,
    gains,
    grow,
    lead_errors,
    most,
    terms,
)
from natsel.memory import chunked
from natsel.objectives.jepig import JEPIG
from natsel.objectives.objective import Argument
from natsel.objectives.reading import Context, PairFacts, serves
from natsel.objectives.readings.batch_state import BatchState
from natsel.objectives.readings.draws.eig_categorical import rows_given

_FEW = 2  # effective draws
_NOTHING = 1e-12  # nats


@serves(
    JEPIG,
    CategoricalSamples,
    PairFacts(needs=Argument.TARGETS, takes=Argument.GIVEN, needs_draws=True, monotone=True, cost="(M + N)·K·C·rows"),
)
class CategoricalJEPIG(BatchState):
    """Gains about all targets together, conditional on the labels of the points given, and of those added so far."""

    offers: ClassVar[Capability] = BatchState.offers | Capability.ERRORS | Capability.OPERATIONS

    def __init__(self, objective: JEPIG, belief: CategoricalSamples, context: Context[CategoricalSamples]) -> None:
        self.belief, self.limit, self.generator = belief, objective.rows, context.generator
        self.prior = self.before = rows_given(belief, context, self.limit)
        if context.targets.weights_M is not None:
            raise ValueError("target weights: JEPIG takes all targets together and has no use for them; use EPIG")
        self.after = self.before
        for log_probs_K_C in context.targets.belief.log_probs_N_K_C.to(belief.device):
            if self.after.left < _NOTHING:  # every labelling so far leaves one draw: further targets tell nothing
                break
            self.after = self._grown(self.after, log_probs_K_C.double().softmax(-1))
        self.first = self.before, self.after

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know before trusting the scores."""
        left = self.effective_draws
        if left >= _FEW or self.belief.shape[1] < 2 * _FEW:
            return ()
        return (
            f"targets: their labels leave {left:.1f} draws on average, so that JEPIG is BALD whatever the targets are"
            " worth; use fewer targets, more draws, or EPIG",
        )

    @property
    def effective_draws(self) -> float:
        """1 / Σ r² after all target labels, on average: near 1 the draws know nothing but themselves."""
        if self.first[1].count == 0:
            return 1.0
        sizes_R = 1 / self.first[1].posterior_R_K.square().sum(1)
        known = 1 - float(self.first[1].weight_R.sum())  # labellings that left one draw are no rows any more
        return float((self.first[1].weight_R * sizes_R).sum()) + max(0.0, known)

    def scores(self) -> Tensor:
        """JEPIG of every point by itself, N values in nats."""
        return self._difference(torch.arange(len(self.belief), device=self.belief.device), *self.first)

    def value(self, positions: Tensor) -> float:
        """What the labels of a set tell about all targets, by enumeration."""
        before, after = self.first
        total = 0.0
        for position in positions.tolist():
            total += float(self._difference(torch.tensor([position]), before, after)[0])
            probs_K_C = self._probs(torch.tensor([position]))[0]
            before, after = (grow(expand(rows, probs_K_C), MOST_ROWS, 0.5) for rows in (before, after))
        return total

    def operations(self, size: int) -> float:
        """Growing the rows, those of the target labels too."""
        _, draws, classes = self.belief.shape
        return GROWING * draws * sum(labellings(rows.count, classes, size, MOST_ROWS) for rows in self.first)

    @property
    def exact(self) -> bool:
        """Whether every labelling so far has its row."""
        return self.before.exact and self.after.exact

    @property
    def remaining(self) -> float:
        """I[Y*_1..Y*_M; Ω | labels so far]: all there is to say about the targets."""
        return max(0.0, self.before.left - self.after.left)

    def bounds(self) -> Tensor:
        """BALD: no gain is larger now, though it may be once other points were added."""
        return self.scores()

    def gains(self, positions: Tensor) -> Tensor:
        """I[Y; Y*_1..Y*_M | labels so far] of each position."""
        return self._difference(positions.to(self.belief.device), self.before, self.after)

    def add(self, position: int) -> float:
        """Take a point in both states."""
        gain = float(self.gains(torch.tensor([position]))[0])
        probs_K_C = self._probs(torch.tensor([position]))[0]
        if not self.exact:
            gain = min(gain, most(self.prior, probs_K_C, self.total))
        self.before, self.after = self._grown(self.before, probs_K_C), self._grown(self.after, probs_K_C)
        self.total += gain
        return gain

    def errors(self, positions: Tensor, leader: int) -> Tensor:
        """Standard errors of the gain of `leader` less that of each position: both states are thinned apart."""
        _, draws, classes = self.belief.shape
        states = [rows for rows in (self.before, self.after) if rows.count and not rows.exact]
        leading_1_K_C = self._probs(torch.tensor([leader]))
        leading = [terms(rows, leading_1_K_C)[0] for rows in states]

        def work(part: slice) -> Tensor:
            probs_n_K_C = self._probs(positions[part])
            variance_n = probs_n_K_C.new_zeros(len(probs_n_K_C))
            for rows, leading_R in zip(states, leading, strict=True):
                variance_n += lead_errors(terms(rows, probs_n_K_C), leading_R, 1 - rows.kept_R).square()
            return variance_n.sqrt()

        width = 8 * (3 * draws * classes + 2 * self.limit * (classes + 3))
        return chunked(work, len(positions), width, self.belief.device)

    def _grown(self, rows: WeightedPosteriors, probs_K_C: Tensor) -> WeightedPosteriors:
        offset = float(torch.rand((), generator=self.generator, dtype=torch.float64))
        return grow(expand(rows, probs_K_C), self.limit, offset)

    def _difference(self, positions: Tensor, before: WeightedPosteriors, after: WeightedPosteriors) -> Tensor:
        _, draws, classes = self.belief.shape

        def work(part: slice) -> Tensor:
            probs_n_K_C = self._probs(positions[part])
            found_n, lost_n = (
                gains(rows, probs_n_K_C) if rows.count else probs_n_K_C.new_zeros(len(probs_n_K_C))
                for rows in (before, after)
            )
            found_n = found_n - lost_n
            # Exact values are negative by rounding alone; sampled ones may be, and are left as they are.
            return found_n.clamp_min(0) if before.exact and after.exact else found_n

        width = 8 * (3 * draws * classes + 2 * (before.count + after.count + 1) * (classes + 1))
        return chunked(work, len(positions), width, self.belief.device).double()

    def _probs(self, positions: Tensor) -> Tensor:
        positions = positions.to(self.belief.device)
        return self.belief.log_probs_N_K_C.index_select(0, positions).double().softmax(-1)
