"""EPIG read from categorical draws, alone and in sequence.

    gain_n = Σ_m v_m EPIG(x_n; draws weighted by r_m)            r_m: posteriors after the labels of the points added

The rows (v_m, r_m) are those of BatchBALD (`weighted_posteriors`), because labels are independent given the draws.
Ceilings are the second-order form times a factor of each point: 2, which is a bound for any draws (φ(r) ≤ r²), or, for
points that come near enough, by how much the gain about few of the targets, and then about more, exceeds its own
second-order form, and then some: as far as that was off where gains are known.
docs/theory/epig-jepig.md, 5 and 8.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from natsel.beliefs import CategoricalSamples
from natsel.capabilities import Capability
from natsel.information.enumeration import GROWING, MOST_ROWS, labellings
from natsel.information.predictive_information import (
    TargetDeviations,
    over_targets,
    second_order,
    second_order_if_cheap,
)
from natsel.information.weighted_posteriors import (
    WeightedPosteriors,
    expand,
    gains,
    grow,
    lead_errors,
    most,
    prior_rows,
)
from natsel.memory import chunked, memory_budget
from natsel.objectives.epig import EPIG, EPIGChi2
from natsel.objectives.objective import Argument
from natsel.objectives.reading import Context, PairFacts, serves
from natsel.objectives.readings.batch_state import BatchState
from natsel.objectives.readings.pointwise import pointwise

_MOST = 2.0
_FEW = (16, 64)  # targets that say how far gains exceed their second-order form; more for those that still come near
_LEAST_SLACK, _DEVIATIONS = 1.05, 4.0  # the factor is raised by as many standard deviations as it was off elsewhere


@serves(
    EPIG,
    CategoricalSamples,
    PairFacts(
        needs=Argument.TARGETS, needs_draws=True, monotone=True, cost="N·M·K·C², the k best of N in about N·C·K²"
    ),
)
class CategoricalEPIG(BatchState):
    """Gains about targets conditional on the labels of the points added so far."""

    offers: ClassVar[Capability] = BatchState.offers | Capability.CEILINGS | Capability.ERRORS | Capability.COSTS

    def __init__(self, objective: EPIG, belief: CategoricalSamples, context: Context[CategoricalSamples]) -> None:
        self.belief, self.limit, self.generator = belief, objective.rows, context.generator
        self.prior = self.rows = prior_rows(belief.log_weights_K)
        self._rough_N: Tensor | None = None
        # Gains over their second-order form: in full, and about few and more targets; NaN where not looked at.
        self._ratio_N = torch.full((len(belief),), torch.nan, dtype=torch.float64, device=belief.device)
        self._guesses_N = [self._ratio_N.clone() for _ in _FEW]
        dtype = belief.log_probs_N_K_C.dtype
        self.log_probs_M_K_C = context.targets.belief.log_probs_N_K_C.to(belief.device, dtype)
        self.weights_M = context.targets.weights_M
        self.share_M = TargetDeviations(self.log_probs_M_K_C, None, self.weights_M).weights_M.double()
        self._few_M = [few(self.share_M, size) for size in _FEW]

    def scores(self) -> Tensor:
        """EPIG of every point by itself, N values in nats."""
        targets = self._under(self.belief.log_weights_K)
        rough_N = second_order_if_cheap(self.belief.log_probs_N_K_C, targets)
        return over_targets(self.belief.log_probs_N_K_C, targets, rough_N)

    def value(self, positions: Tensor) -> float:
        """What the labels of a set tell about a target, by enumeration: BALD of the targets before and after."""
        rows = prior_rows(self.belief.log_weights_K)
        for position in positions.tolist():
            rows = grow(expand(rows, self._probs(position)), MOST_ROWS, 0.5)
        return self._open(prior_rows(self.belief.log_weights_K)) - self._open(rows)

    def operations(self, size: int) -> float:
        """Growing the rows, and two for each draw and class of each target under every row."""
        _, draws, classes = self.belief.shape
        targets, _, labels = self.log_probs_M_K_C.shape
        last: int = min(classes**size, MOST_ROWS)
        return draws * (GROWING * labellings(1, classes, size, MOST_ROWS) + 2.0 * last * labels * targets)

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
            self._rough_N = self._rough(self.belief.log_probs_N_K_C)
        ceiling_N = _MOST * self._rough_N
        if worth == -torch.inf:
            return ceiling_N
        seen_N = self._ratio_N.isfinite()
        for few_M, guess_N in zip(self._few_M, self._guesses_N, strict=True):
            (unknown_M,) = (guess_N.isnan() & (seen_N | (ceiling_N >= worth))).nonzero(as_tuple=True)
            guess_N[unknown_M] = self._in_parts(partial(self._guess, few_M), unknown_M)
            off_n = (self._ratio_N / guess_N)[seen_N & guess_N.isfinite()].clamp_min(1e-6).log()
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
        gain, probs_K_C = float(self.gains(torch.tensor([position]))[0]), self._probs(position)
        if not self.exact:
            gain = min(gain, most(self.prior, probs_K_C, self.total))
        offset = float(torch.rand((), generator=self.generator, dtype=torch.float64))
        self.rows = grow(expand(self.rows, probs_K_C), self.limit, offset)
        self._rough_N = None
        self._ratio_N.fill_(torch.nan)
        for guess_N in self._guesses_N:
            guess_N.fill_(torch.nan)
        self.total += gain
        return gain

    def errors(self, positions: Tensor, leader: int) -> Tensor:
        """Standard errors of the gain of `leader` less that of each position, from the thinning of rows."""
        both = torch.cat([torch.tensor([leader]), positions.cpu()]).to(self.belief.device)
        log_probs_n_K_C = self.belief.log_probs_N_K_C[both]
        terms = [weight * over_targets(log_probs_n_K_C, targets) for weight, targets in self._posteriors()]
        term_n_R = torch.stack(terms, 1)
        return lead_errors(term_n_R[1:], term_n_R[0], 1 - self.rows.kept_R)

    def _in_parts(self, work: Callable[[Tensor], Tensor], positions: Tensor) -> Tensor:
        """Some work on the predictions at positions, no more of them at a time than the budget has room to copy."""
        _, draws, classes = self.belief.shape
        width = 4 * draws * classes * self.belief.log_probs_N_K_C.element_size()
        return torch.cat([work(part) for part in torch.split(positions, max(1, memory_budget() // width))])

    def _full(self, positions: Tensor) -> Tensor:
        """Σ_m v_m EPIG under the posterior of row m; how far it exceeds its second-order form is kept in mind."""
        log_probs_n_K_C = self.belief.log_probs_N_K_C[positions]
        rough_n = self._rough(log_probs_n_K_C) if self._rough_N is None else self._rough_N[positions]
        total_n = torch.zeros_like(rough_n)
        for weight, targets in self._posteriors():
            # Errors of φ's quick form add up as information does, so that the whole says whether it will do.
            total_n += weight * over_targets(log_probs_n_K_C, targets, rough_n)
        self._ratio_N[positions] = total_n / rough_n
        return total_n

    def _guess(self, few_M: Tensor, positions: Tensor) -> Tensor:
        """The gain about a few targets over its second-order form; inf where these know nothing of the point."""
        log_probs_n_K_C = self.belief.log_probs_N_K_C[positions]
        rough_n = self._rough(log_probs_n_K_C, few_M)
        total_n = torch.zeros_like(rough_n)
        for weight, targets in self._posteriors(few_M):
            total_n += weight * over_targets(log_probs_n_K_C, targets, rough_n)
        return torch.where(rough_n > 0, total_n / rough_n, torch.inf)

    def _rough(self, log_probs_n_K_C: Tensor, few_M: Tensor | None = None) -> Tensor:
        """Σ_m v_m EPIG under the posterior of row m, to second order."""
        total_n = torch.zeros(len(log_probs_n_K_C), dtype=torch.float64, device=self.belief.device)
        for weight, targets in self._posteriors(few_M):
            total_n += weight * second_order(log_probs_n_K_C, targets.weights_K, targets.factor())
        return total_n

    def _posteriors(self, few_M: Tensor | None = None) -> Iterator[tuple[float, TargetDeviations]]:
        for weight, posterior_K in zip(self.rows.weight_R.tolist(), self.rows.posterior_R_K, strict=True):
            if few_M is None:
                yield weight, self._under(posterior_K.log())
            else:
                yield weight, TargetDeviations(self.log_probs_M_K_C[few_M], posterior_K.log())

    def _under(self, log_weights_K: Tensor) -> TargetDeviations:
        return TargetDeviations(self.log_probs_M_K_C, log_weights_K, self.weights_M)

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
    return second_order(belief.log_probs_N_K_C, targets.weights_K, targets.factor())
