"""EIG read from categorical draws: BALD alone, BatchBALD in sequence, by weighted posterior rows.

    gain_n = Σ_m v_m ( H(r_m Q_n) − r_m·h_n ),     Q_n = p(y|x_n,ω),  h_n = H[Y|x_n,ω]

The state is the rows of `weighted_posteriors` in float64. A search that only has to rank candidates may read the
gains term by term (one term per row) from fewer rows in float32, at several levels: same rows for all candidates, so
that differences between candidates are known far better than the gains themselves.
docs/theory/batchbald.md, 8 to 10; Kirsch et al. 2019.
"""

import math
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from natsel import information as info
from natsel.beliefs import CategoricalSamples
from natsel.capabilities import Capability, LocatedState
from natsel.information.enumeration import MOST_ROWS, labellings
from natsel.information.weighted_posteriors import (
    Children,
    WeightedPosteriors,
    expand,
    gains,
    grow,
    heavier,
    lead_errors,
    most,
    prior_rows,
    terms,
    thin,
)
from natsel.memory import chunked, memory_budget
from natsel.objectives.eig import EIG, LogDetEIG
from natsel.objectives.objective import Argument, Objective
from natsel.objectives.reading import Context, GoesOn, PairFacts, serves
from natsel.objectives.readings.batch_state import BatchState
from natsel.objectives.readings.draws.logdet_eig import CategoricalLogDetEIG

# Rows of the rough levels: every candidate that may win is scored on the first, those that still may on the next.
# A CPU pays for arithmetic, and a row tells more where there are many classes; an accelerator pays for every call.
LEVELS = {"few classes": (64, 256, 1024), "many classes": (24, 96, 384, 1536), "accelerator": (512,)}
_MANY_CLASSES = 16

# Products of tiny numbers become denormal, on which a CPU is 80 times slower. None of these floors moves a gain by
# 1e-10, and together they keep every product above the smallest normal number.
_PROB_FLOOR = 1e-20
_POSTERIOR_FLOOR = 1e-12
_LEAST_WEIGHT = 1e-16
# By how much a BALD score in float32 may fall short.
_ROUNDING = 2e-6
# Nats: what may be left once points are given, and what a point tells that tells nothing.
_SPENT, _NOTHING = 0.1, 1e-12


@serves(
    EIG,
    CategoricalSamples,
    PairFacts(
        takes=Argument.GIVEN, needs_draws=True, monotone=True, submodular=True, cost="N·K·C, k picks k·N·C·K·rows"
    ),
)
class CategoricalEIG(BatchState):
    """Gains conditional on the labels of the points given, and of those added so far."""

    offers: ClassVar[Capability] = (
        BatchState.offers | Capability.ERRORS | Capability.RACING | Capability.OPERATIONS | Capability.SUCCESSOR
    )
    submodular: ClassVar[bool] = True

    def __init__(self, objective: EIG, belief: CategoricalSamples, context: Context[CategoricalSamples]) -> None:
        self.belief, self.limit, self.generator = belief, objective.rows, context.generator
        self.prior = self._rows = rows_given(belief, context, self.limit, LogDetEIG())
        self.conditioned = self.prior.weight_R.tolist() != [1.0]  # points given told something
        if self.conditioned:  # every score then takes as long as a gain, and BALD says which are worth it
            self.__dict__["offers"] = type(self).offers | Capability.CEILINGS
        self._pending: tuple[Children, float] | None = None

    @property
    def rows(self) -> WeightedPosteriors:
        """The posteriors after the points added, built when first asked for: the last pick of a batch never is."""
        if self._pending is not None:
            children, offset = self._pending
            self._rows, self._pending = grow(children, self.limit, offset), None
        return self._rows

    def scores(self) -> Tensor:
        """BALD of every point, N values in nats."""
        if self.conditioned:
            return self.gains(torch.arange(len(self.belief), device=self.belief.device), self.prior)
        return info.mutual_information(self.belief.log_probs_N_K_C, self.belief.log_weights_K).double()

    def value(self, positions: Tensor) -> float:
        """I[Y_set; Ω] of a set by enumeration of its labels: the reference, for small sets."""
        if self.conditioned:
            rows = self.prior
            for probs_K_C in self._probs(positions):
                rows = grow(expand(rows, probs_K_C), MOST_ROWS, 0.5)
            return self.prior.left - rows.left
        log_probs_B_K_C = self.belief.log_probs_N_K_C[positions.to(self.belief.device)]
        return info.joint_mutual_information(log_probs_B_K_C, self.belief.log_weights_K)

    def operations(self, size: int) -> float:
        """Two for each draw and class of each labelling of the points before the last."""
        _, draws, classes = self.belief.shape
        return 2.0 * draws * labellings(self.prior.count, classes, size, most=1 << 40)

    def bounds(self) -> Tensor:
        """BALD to float32 accuracy, at no cost beyond preparing the pool: no gain is ever larger."""
        return self.pool.bald_N.double() + _ROUNDING

    def ceilings(self, worth: float) -> Tensor:
        """BALD: labels at points given only lower it."""
        return self.bounds()

    @property
    def exact(self) -> bool:
        """Whether every label configuration so far has its row."""
        return self.rows.exact

    @property
    def remaining(self) -> float:
        """H[Ω | labels so far]: all that is left to gain."""
        return self.rows.left if self._pending is None else self._pending[0].left

    def gains(self, positions: Tensor, rows: WeightedPosteriors | None = None) -> Tensor:
        """I[Y; Ω | labels so far] for each position from all rows, float64."""
        (_, draws, classes), rows = self.belief.shape, rows or self.rows
        width = 8 * (3 * draws * classes + 2 * rows.count * (classes + 1))
        work = lambda part: gains(rows, self._probs(positions[part]))  # noqa: E731
        return chunked(work, len(positions), width, self.belief.device)

    scores_at = gains

    def add(self, position: int) -> float:
        """Take a point: every row becomes its children, and the gain is what they no longer leave open."""
        probs_K_C = self._probs(torch.tensor([position], device=self.belief.device))[0]
        children = expand(self.rows, probs_K_C)
        gain = children.gain if self.rows.exact else min(children.gain, most(self.prior, probs_K_C, self.total))
        self._pending = children, float(torch.rand((), generator=self.generator, dtype=torch.float64))
        self.__dict__.pop("levels", None)
        self.total += gain
        return gain

    def successor(self) -> tuple[LocatedState, str]:
        """Where points lie by how the same draws differ: that tells points apart when no labelling is open any more."""
        return CategoricalLogDetEIG(LogDetEIG(), self.belief, Context(None, None, self.generator)), "kmeans-bald"

    def errors(self, positions: Tensor, leader: int) -> Tensor:
        """Standard errors of the gain of `leader` less that of each position, from the thinning of rows."""
        both = torch.cat([torch.tensor([leader]), positions.cpu()]).to(self.belief.device)
        term_n_R = terms(self.rows, self._probs(both))
        return lead_errors(term_n_R[1:], term_n_R[0], 1 - self.rows.kept_R)

    def _probs(self, positions: Tensor) -> Tensor:
        """Probabilities in float64 that sum to one to the last bit: a sum of 1 − 1e-7 would read as information."""
        return self.belief.log_probs_N_K_C.index_select(0, positions.to(self.belief.device)).double().softmax(-1)

    # What follows serves searches that race candidates against each other on few rows first.

    @property
    def prefers_racing(self) -> bool:
        """Whether gains are estimates, or float64 on all rows for all points would take more than milliseconds."""
        count, draws, classes = self.belief.shape
        return not self.exact or count * draws * classes * self.rows.count > 1 << 24

    @property
    def level_count(self) -> int:
        """How many levels `terms` can be read at."""
        return len(self.levels)

    @cached_property
    def levels(self) -> tuple[WeightedPosteriors, ...]:
        """The state at growing numbers of rows, itself last."""
        rows = heavier(self.rows, _LEAST_WEIGHT)
        many = "many classes" if self.belief.shape[2] > _MANY_CLASSES else "few classes"
        sizes = LEVELS[many if self.belief.device.type == "cpu" else "accelerator"]
        # Levels only sort out losers: a fixed offset keeps the random numbers for the rows themselves.
        return (*(thin(rows, size, offset=0.5) for size in sizes if size < rows.count), rows)

    def terms(self, positions: Tensor, level: int) -> Tensor:
        """The gain of each position at a level, row by row: [n, rows] in float32, summing to the gain."""
        rows = self.levels[level]
        classes, draws = self.belief.shape[2], self.belief.shape[1]
        weighted_R_K = rows.posterior_R_K * rows.weight_R[:, None]
        folded_R_K = torch.where(rows.posterior_R_K > _POSTERIOR_FLOOR, weighted_R_K, 0.0).float()
        # −Σ_c v p ln p = −Σ_c P ln P + v ln v for P = v p: the weights ride in the product for free.
        constant_R = (rows.weight_R * rows.weight_R.log()).float()

        def block(part: slice) -> Tensor:
            probs_n_C_K, noise_n_K = self.pool.members(positions[part])
            joint_nC_R = probs_n_C_K.reshape(-1, draws) @ folded_R_K.T
            surprise_nC_R = joint_nC_R.log().mul_(joint_nC_R)
            terms_n_R = surprise_nC_R.view(-1, classes, rows.count).sum(1)
            terms_n_R.addmm_(noise_n_K, folded_R_K.T)
            return torch.sub(constant_R, terms_n_R, out=terms_n_R)

        width = 8 * (2 * classes * rows.count + draws * classes)
        return chunked(block, positions.shape[0], width, self.belief.device)

    def rejection_probs(self, level: int) -> Tensor:
        """How unsure each row of a level is: 1 minus its chance of being kept, 0 for rows kept for certain.

        On a rough level the chance is that of this level given the state, on the last that of the state itself.
        """
        return (1 - self.levels[level].kept_R).float()

    @cached_property
    def pool(self) -> "_Pool":
        return _Pool(self.belief)


def rows_given(
    belief: CategoricalSamples, context: Context[CategoricalSamples], limit: int, instead: Objective | None = None
) -> WeightedPosteriors:
    """What labels at the points given leave of the draws: exact, up to `limit` rows. Points that tell nothing are left
    out, as a row for each of their labels would be a copy. Raises GoesOn where all but 0.1 nats are told.

    >>> rows_given(CategoricalSamples.from_probs([[[0.5, 0.5]]]), Context(None, None, torch.Generator()), limit=9).count
    1
    """
    rows = prior_rows(belief.log_weights_K)
    if context.given is None or rows.left <= _NOTHING:
        return rows
    all_nats, held = rows.left, context.given.belief.to(belief.device)
    told_T = info.mutual_information(held.log_probs_N_K_C, belief.log_weights_K)
    for position in told_T.argsort(descending=True, stable=True)[: int((told_T > _NOTHING).sum())]:
        children = expand(rows, held.log_probs_N_K_C[position].double().softmax(-1))
        if children.left <= min(_SPENT, all_nats / 2):
            raise GoesOn(
                f"points given: their labels carry {all_nats - children.left:.2f} of the {all_nats:.2f} nats these"
                f" {belief.n_draws} draws can tell, so that a log-determinant stands for exact information; use more"
                " draws, or give fewer points",
                instead,
            )
        rows = grow(children, limit, float(torch.rand((), generator=context.generator, dtype=torch.float64)))
    return rows


class _Pool:
    """The pool as float32 probabilities [N, C, K] and member entropies [N, K]: held if they fit, else made anew."""

    def __init__(self, belief: CategoricalSamples) -> None:
        count, draws, classes = belief.shape
        self.log_probs_N_K_C = belief.log_probs_N_K_C
        self.weights_K = belief.log_weights_K.exp().float()
        self.held = 4 * count * draws * (classes + 1) <= memory_budget() // 2
        kept = count if self.held else 0
        self.probs_N_C_K = torch.empty(kept, classes, draws, device=belief.device)
        self.noise_N_K = torch.empty(kept, draws, device=belief.device)
        self.bald_N = chunked(self._prepare, count, 16 * draws * classes, belief.device)

    def members(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """probs_n_C_K and member entropies noise_n_K of some points."""
        if self.held:
            # Twice as fast as indexing with brackets.
            return self.probs_N_C_K.index_select(0, positions), self.noise_N_K.index_select(0, positions)
        return _members(self.log_probs_N_K_C.index_select(0, positions))

    def _prepare(self, part: slice) -> Tensor:
        probs_n_C_K, noise_n_K = _members(self.log_probs_N_K_C[part])
        if self.held:
            self.probs_N_C_K[part], self.noise_N_K[part] = probs_n_C_K, noise_n_K
        mean_n_C = probs_n_C_K @ self.weights_K
        return mean_n_C.log().mul_(mean_n_C).sum(1).neg_() - noise_n_K @ self.weights_K


def _members(log_probs_n_K_C: Tensor) -> tuple[Tensor, Tensor]:
    log_probs_n_C_K = log_probs_n_K_C.transpose(1, 2).float().clamp_min(math.log(_PROB_FLOOR)).contiguous()
    probs_n_C_K = log_probs_n_C_K.exp()
    return probs_n_C_K, log_probs_n_C_K.mul_(probs_n_C_K).sum(1).neg_()
