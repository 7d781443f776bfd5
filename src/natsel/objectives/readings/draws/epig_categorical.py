"""EPIG read from categorical draws, alone and in sequence.

    gain_n = Σ_m v_m EPIG(x_n; draws weighted by r_m)            r_m: posteriors after the labels of the points added

The rows (v_m, r_m) are those of BatchBALD (`weighted_posteriors`), because labels are independent given the draws.
Ceilings are the second-order form times a factor of each point: 2, which is a bound for any draws (φ(r) ≤ r²), or, for
points that come near enough, by how much the gain about few of the targets, and then about more, exceeds its own
second-order form, and then some: as far as that was off where gains are known.
docs/theory/epig-jepig.md, 5 and 8.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from natsel.beliefs import CategoricalSamples
from natsel.capabilities import Capability
from natsel.information.enumeration import GROWING, MOST_ROWS, labellings
from natsel.information.predictive_information import (
    TargetDeviations,
    over_second_order,
    over_targets,
    over_targets_by_row,
    second_order,
    second_order_if_cheap,
    target_weights,
)
from natsel.information.weighted_posteriors import (
    WeightedPosteriors,
    expand,
    gains,
    grow,
    lead_errors,
    most,
)
from natsel.memory import chunked, memory_budget
from natsel.objectives.epig import EPIG, EPIGChi2
from natsel.objectives.objective import Argument
from natsel.objectives.reading import Context, PairFacts, serves
from natsel.objectives.readings.batch_state import BatchState
from natsel.objectives.readings.draws.eig_categorical import rows_given
from natsel.objectives.readings.pointwise import pointwise

_MOST = 2.0
_FEW = (16, 64)  # targets that say how far gains exceed their second-order form; more for those that still come near
_LEAST_SLACK, _DEVIATIONS = 1.05, 4.0  # the factor is raised by as many standard deviations as it was off elsewhere


@serves(
    EPIG,
    CategoricalSamples,
    PairFacts(
        needs=Argument.TARGETS, takes=Argument.GIVEN, needs_draws=True, monotone=True, cost="N·M·K·C², of few N·C·K²"
    ),
)
class CategoricalEPIG(BatchState):
    """Gains about targets conditional on the labels of the points given, and of those added so far."""

    offers: ClassVar[Capability] = BatchState.offers | Capability.CEILINGS | Capability.ERRORS | Capability.OPERATIONS

    def __init__(self, objective: EPIG, belief: CategoricalSamples, context: Context[CategoricalSamples]) -> None:
        self.belief, self.limit, self.generator = belief, objective.rows, context.generator
        dtype = belief.log_probs_N_K_C.dtype
        self.log_probs_M_K_C = context.targets.belief.log_probs_N_K_C.to(belief.device, dtype)
        self.share_M = target_weights(context.targets.weights_M, self.log_probs_M_K_C).double()
        self._few_M = [few(self.share_M, size) for size in _FEW]
        self.prior = rows_given(belief, context, self.limit)
        self._become(self.prior)

    def _become(self, rows: WeightedPosteriors) -> None:
        """Take rows, and forget what was worked out for those before."""
        self.rows = rows
        self._about = self._under(rows)
        self._about_few = [self._under(rows, few_M) for few_M in self._few_M]
        self._rough_N: Tensor | None = None
        # Gains, and gains over their second-order form about few and more targets; NaN where not looked at.
        self._gain_N = torch.full((len(self.belief),), torch.nan, dtype=torch.float64, device=self.belief.device)
        self._guesses_N = [self._gain_N.clone() for _ in _FEW]

    def scores(self) -> Tensor:
        """EPIG of every point by itself, N values in nats."""
        targets = self._under(self.prior)
        rough_N = second_order_if_cheap(self.belief.log_probs_N_K_C, targets)
        return over_targets(self.belief.log_probs_N_K_C, targets, rough_N)

    def value(self, positions: Tensor) -> float:
        """What the labels of a set tell about a target, by enumeration: BALD of the targets before and after."""
        rows = self.prior
        for position in positions.tolist():
            rows = grow(expand(rows, self._probs(position)), MOST_ROWS, 0.5)
        return self._open(self.prior) - self._open(rows)

    def operations(self, size: int) -> float:
        """Growing the rows, and two for each draw and class of each target under every row."""
        (_, draws, classes), first = self.belief.shape, self.prior.count
        targets, _, labels = self.log_probs_M_K_C.shape
        last: int = min(first * classes**size, MOST_ROWS)
        return draws * (GROWING * labellings(first, classes, size, MOST_ROWS) + 2.0 * last * labels * targets)

    @property
    def exact(self) -> bool:
        """Whether every label configuration so far has its row."""
        return self.rows.exact

    @property
    def remaining(self) -> float:
        """Σ_j v_j I[Y*_j; Ω | labels so far]: nobody can tell more about the targets than the draws do."""
        return self._open(self.rows)

    def bounds(self) -> Tensor:
        """Twice the second-order form."""
        return self.ceilings(-torch.inf)

    def ceilings(self, worth: float) -> Tensor:
        """The second-order form of every gain, times the factor of the point."""
        if self._rough_N is None:
            self._rough_N = second_order(self.belief.log_probs_N_K_C, self._about)
        ceiling_N = _MOST * self._rough_N
        if worth == -torch.inf:
            return ceiling_N
        # What cannot reach the worth by far has draws that hardly differ, and says little of how far others exceed.
        seen_N = self._gain_N.isfinite()
        example_N = seen_N & (ceiling_N >= worth)
        for targets, guess_N in zip(self._about_few, self._guesses_N, strict=True):
            hopeful_N = ceiling_N >= worth
            (unknown_M,) = (guess_N.isnan() & (example_N | hopeful_N)).nonzero(as_tuple=True)
            if len(unknown_M) * targets.pairs > int((hopeful_N & ~seen_N).sum()) * self._about.pairs:
                break  # to look at all that are left in full costs less
            guess_N[unknown_M] = self._in_parts(partial(self._guess, targets, self._rough_N), unknown_M)
            off_n = (self._gain_N / self._rough_N / guess_N)[example_N & guess_N.isfinite()].clamp_min(1e-6).log()
            if len(off_n):
                slack = max(_LEAST_SLACK, math.exp(_DEVIATIONS * float(off_n.square().mean().sqrt())))
                lower_N = self._rough_N * guess_N * slack
                ceiling_N = torch.where(lower_N < ceiling_N, lower_N, ceiling_N)  # as it was where not guessed
        return ceiling_N

    def scores_at(self, positions: Tensor) -> Tensor:
        """The gains of some positions in full."""
        return self.gains(positions)

    def gains(self, positions: Tensor) -> Tensor:
        """Σ_j v_j I[Y; Y*_j | labels so far] of each position."""
        return self._in_parts(self._full, positions.to(self.belief.device))

    def add(self, position: int) -> float:
        """Take a point: every row becomes its children."""
        gain, probs_K_C = float(self._gain_N[position]), self._probs(position)
        if math.isnan(gain):
            gain = float(self.gains(torch.tensor([position]))[0])
        if not self.exact:
            gain = min(gain, most(self.prior, probs_K_C, self.total))
        offset = float(torch.rand((), generator=self.generator, dtype=torch.float64))
        self._become(grow(expand(self.rows, probs_K_C), self.limit, offset))
        self.total += gain
        return gain

    def errors(self, positions: Tensor, leader: int) -> Tensor:
        """Standard errors of the gain of `leader` less that of each position, from the thinning of rows."""
        both = torch.cat([torch.tensor([leader]), positions.cpu()]).to(self.belief.device)
        term_n_R = over_targets_by_row(self.belief.log_probs_N_K_C[both], self._about)
        return lead_errors(term_n_R[1:], term_n_R[0], 1 - self.rows.kept_R)

    def _in_parts(self, work: Callable[[Tensor], Tensor], positions: Tensor) -> Tensor:
        """Some work on the predictions at positions, no more of them at a time than the budget has room to copy."""
        _, draws, classes = self.belief.shape
        width = 4 * draws * classes * self.belief.log_probs_N_K_C.element_size()
        return torch.cat([work(part) for part in torch.split(positions, max(1, memory_budget() // width))])

    def _full(self, positions: Tensor) -> Tensor:
        """Σ_m v_m EPIG under the posterior of row m, kept in mind."""
        log_probs_n_K_C = self.belief.log_probs_N_K_C[positions]
        # Errors of φ's quick form add up as information does, so that the whole says whether it will do.
        rough_n = second_order(log_probs_n_K_C, self._about) if self._rough_N is None else self._rough_N[positions]
        gain_n = self._gain_N[positions] = over_targets(log_probs_n_K_C, self._about, rough_n)
        return gain_n

    def _guess(self, targets: TargetDeviations, rough_N: Tensor, positions: Tensor) -> Tensor:
        """The gain about a few targets over its second-order form; inf where these know nothing of the point."""
        return over_second_order(self.belief.log_probs_N_K_C[positions], targets, rough_N[positions])

    def _under(self, rows: WeightedPosteriors, few_M: Tensor | None = None) -> TargetDeviations:
        """Targets, or few of them by as many as stand for each, under the posteriors of rows."""
        log_weights_R_K = rows.posterior_R_K.log()
        if few_M is None:
            return TargetDeviations(self.log_probs_M_K_C, log_weights_R_K, self.share_M, rows.weight_R)
        return TargetDeviations(self.log_probs_M_K_C[few_M], log_weights_R_K, None, rows.weight_R)

    def _open(self, rows: WeightedPosteriors) -> float:
        """Σ_j v_j I[Y*_j; Ω | rows]."""
        count, draws, classes = self.log_probs_M_K_C.shape
        if rows.count == 0:
            return 0.0
        work = lambda part: gains(rows, self.log_probs_M_K_C[part].double().softmax(-1))  # noqa: E731
        width = 8 * (3 * draws * classes + 2 * rows.count * (classes + 1))
        return float((chunked(work, count, width, self.belief.device) * self.share_M).sum().clamp_min(0))

    def _probs(self, position: int) -> Tensor:
        return self.belief.log_probs_N_K_C[position].double().softmax(-1)


def few(share_M: Tensor, size: int) -> Tensor:
    """Some targets, drawn by their weights in a random order that is always the same.

    >>> few(torch.tensor([0.5, 0.0, 0.5]), 64).tolist()
    [0, 2]
    """
    order_M = torch.randperm(len(share_M), generator=torch.Generator().manual_seed(0)).to(share_M.device)
    order_M = order_M[share_M[order_M] > 0]
    if len(order_M) <= size:
        return order_M.sort().values
    ends_M = share_M[order_M].cumsum(0)
    at_m = (torch.arange(size, dtype=torch.float64, device=share_M.device) + 0.5) / size * ends_M[-1]
    return order_M[torch.searchsorted(ends_M, at_m).clamp_max_(len(order_M) - 1)].sort().values


@pointwise(EPIGChi2, CategoricalSamples, PairFacts(needs=Argument.TARGETS, needs_draws=True, cost="N·C·K²"))
def _second_order(objective: EPIGChi2, belief: CategoricalSamples, context: Context[CategoricalSamples]) -> Tensor:
    log_probs_M_K_C = context.targets.belief.log_probs_N_K_C.to(belief.device, belief.log_probs_N_K_C.dtype)
    targets = TargetDeviations(log_probs_M_K_C, belief.log_weights_K, context.targets.weights_M)
    return second_order(belief.log_probs_N_K_C, targets)
