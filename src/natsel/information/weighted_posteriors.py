"""Weighted posterior rows: joint information about the draws without label configurations by the ten thousand.

Once the labels y_1..y_b of the points taken are seen, the draws have the posterior r(ω) ∝ w(ω) Π_i p(y_i|x_i,ω).
The measure Σ_m v_m δ(r_m) over those posteriors, v_m = p(y_1..y_b), holds all that later labels can add:

    left   H[Ω | Y_1..b]     = Σ_m v_m H(r_m)
    gain   I[Y; Ω | Y_1..b]  = Σ_m v_m ( H(r_m Q) − r_m·h ),      Q_K_C = p(y|x,ω),  h_K = H[Y|x,ω]

Every term of the gain is a BALD score under one posterior, so 0 ≤ term ≤ H(r_m): rows are worth keeping in proportion
to a_m = v_m H(r_m). Taking a point turns each row into C children; when they are too many, the large ones are kept and
the rest thinned by systematic sampling with raised weights, which leaves the expectation of left and of every gain of
a fixed batch unchanged. While all children fit, everything is exact.

Where labels tell little, every parent has children whose chances sum to about 1, and evenly spaced points would hit the
same quantile of the labels of every parent: nearly all rows would get the same label. So the children of parent i lie
on a circle that is turned by i times the golden ratio: each parent keeps as many children as it should, and the labels
of neighbouring parents, which are alike, are spread evenly.
docs/theory/batchbald.md, 8 and 9; docs/decisions/0005-weighted-posterior-rows.md.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

# Rows with so small a share of what is left cannot change a choice; exact rows are dropped only below rounding.
_NEGLIGIBLE_SAMPLED = 1e-8
_NEGLIGIBLE_EXACT = 1e-15
_GOLDEN_RATIO = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class WeightedPosteriors:
    """Posteriors over the draws, their weights, entropies, and the chance with which thinning kept each."""

    posterior_R_K: Tensor
    weight_R: Tensor
    entropy_R: Tensor
    kept_R: Tensor

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.weight_R.shape[0]

    @cached_property
    def exact(self) -> bool:
        """Whether no row was ever left to chance."""
        return bool((self.kept_R == 1).all())

    @cached_property
    def left(self) -> float:
        """H[Ω | labels so far]: an upper bound on all that any further labels can tell, in nats."""
        return float((self.weight_R * self.entropy_R).sum())


def prior_rows(log_weights_K: Tensor) -> WeightedPosteriors:
    """One row: the draws before any label.

    >>> round(prior_rows(torch.tensor([0.5, 0.5]).log()).left, 6)
    0.693147
    """
    prior_K = log_weights_K.double().softmax(-1)
    ones_1 = prior_K.new_ones(1)
    return WeightedPosteriors(prior_K[None], ones_1, _times_log(prior_K).sum().neg()[None], ones_1)


@dataclass(frozen=True)
class Children:
    """What the label of one more point makes of every row: its probability and the entropy it would leave, [R, C]."""

    parents: WeightedPosteriors
    probs_K_C: Tensor
    predictive_R_C: Tensor
    entropy_R_C: Tensor

    @cached_property
    def worth_R_C(self) -> Tensor:
        """v_m p(y) H(r_m | y): what is still open in each child."""
        return self.parents.weight_R[:, None] * self.predictive_R_C * self.entropy_R_C

    @cached_property
    def left(self) -> float:
        """H[Ω | labels so far and this one]."""
        return float(self.worth_R_C.sum())

    @property
    def gain(self) -> float:
        """I[Y; Ω | labels so far] of the point, exact for the rows as they are."""
        return max(0.0, self.parents.left - self.left)  # below 0 by rounding only


def expand(rows: WeightedPosteriors, probs_K_C: Tensor) -> Children:
    """Every row followed by every label of one more point; no child is built yet.

    >>> round(expand(prior_rows(torch.zeros(2)), torch.eye(2)).gain, 6)
    0.693147
    """
    probs_K_C = probs_K_C.double()
    predictive_R_C = rows.posterior_R_K @ probs_K_C
    weighted_log_R_C = torch.addmm(
        _times_log(rows.posterior_R_K) @ probs_K_C, rows.posterior_R_K, _times_log(probs_K_C)
    )
    possible_R_C = predictive_R_C > 0
    safe_R_C = torch.where(possible_R_C, predictive_R_C, 1.0)
    entropy_R_C = torch.where(possible_R_C, safe_R_C.log() - weighted_log_R_C / safe_R_C, 0.0).clamp_min_(0)
    return Children(rows, probs_K_C, predictive_R_C, entropy_R_C)


def grow(children: Children, limit: int, offset: float) -> WeightedPosteriors:
    """The children as rows, at most about `limit` of them; `offset` in [0, 1) is the one random number of thinning.

    >>> grow(expand(prior_rows(torch.zeros(2)), torch.eye(2)), limit=100, offset=0.5).count
    0
    """
    rows, worth_RC = children.parents, children.worth_R_C.flatten()
    exact = rows.exact and int((children.predictive_R_C > 0).sum()) <= limit
    negligible = (_NEGLIGIBLE_EXACT if exact else _NEGLIGIBLE_SAMPLED) * children.left / max(len(worth_RC), 1)
    child_X = (worth_RC > negligible).nonzero().squeeze(1)
    inclusion_X = inclusion(worth_RC[child_X], limit)
    classes = children.probs_K_C.shape[1]
    raised_X = 1 / inclusion_X
    if len(child_X) > limit:
        hits_X = systematic_on_circles(inclusion_X, child_X // classes, offset)
        taken_X = hits_X.nonzero().squeeze(1)
        child_X, inclusion_X, raised_X = child_X[taken_X], inclusion_X[taken_X], (hits_X * raised_X)[taken_X]

    parent_X, label_X = child_X // classes, child_X % classes
    predictive_X = children.predictive_R_C.flatten()[child_X]
    posterior_X_K = rows.posterior_R_K.index_select(0, parent_X)
    posterior_X_K.mul_(children.probs_K_C.T.contiguous().index_select(0, label_X)).div_(predictive_X[:, None])
    order_X = _leading_draws(posterior_X_K)
    return WeightedPosteriors(
        posterior_X_K.index_select(0, order_X),
        (rows.weight_R[parent_X] * predictive_X * raised_X)[order_X],
        children.entropy_R_C.flatten()[child_X][order_X],
        (rows.kept_R[parent_X] * inclusion_X)[order_X],
    )


def thin(rows: WeightedPosteriors, count: int, offset: float) -> WeightedPosteriors:
    """About `count` of the rows, unbiased for left and every gain; `kept_R` is the chance given these rows.

    >>> thin(prior_rows(torch.zeros(3)), 8, 0.5).count
    1
    """
    inclusion_R = inclusion(rows.weight_R * rows.entropy_R, count)
    taken_X = systematic(inclusion_R, offset)
    inclusion_X = inclusion_R[taken_X]
    return WeightedPosteriors(
        rows.posterior_R_K[taken_X], rows.weight_R[taken_X] / inclusion_X, rows.entropy_R[taken_X], inclusion_X
    )


def heavier(rows: WeightedPosteriors, weight: float) -> WeightedPosteriors:
    """The rows above a weight: each one left out adds less than that times ln K to any gain.

    >>> heavier(prior_rows(torch.zeros(3)), 1e-16).count
    1
    """
    if rows.count == 0 or float(rows.weight_R.min()) > weight:
        return rows
    above_X = (rows.weight_R > weight).nonzero().squeeze(1)
    return WeightedPosteriors(
        *(part[above_X] for part in (rows.posterior_R_K, rows.weight_R, rows.entropy_R, rows.kept_R))
    )


def inclusion(worth_R: Tensor, count: int) -> Tensor:
    """Chances min(1, worth/c) that add up to `count`; all 1 where everything fits.

    >>> inclusion(torch.tensor([4.0, 1.0, 1.0]), 2).tolist()
    [1.0, 0.5, 0.5]
    """
    if worth_R.shape[0] <= count:
        return torch.ones_like(worth_R)
    # c only falls from step to step, as more rows become sure, and a few steps settle it; stopping early keeps a few
    # rows less and never changes an expectation.
    level = worth_R.sum() / count
    for _ in range(8):
        sure_R = worth_R >= level
        level = worth_R.masked_fill(sure_R, 0.0).sum() / (count - sure_R.sum()).clamp_min(1)
    return (worth_R / level.clamp_min(torch.finfo(worth_R.dtype).tiny)).clamp_max_(1)


def systematic(inclusion_R: Tensor, offset: float) -> Tensor:
    """Positions kept by systematic sampling: each with its own chance, spread evenly along the order of the rows.

    >>> systematic(torch.tensor([1.0, 0.5, 0.5]), 0.25).tolist()
    [0, 2]
    """
    sure_R = inclusion_R >= 1
    # Sure rows stay out of the running sum: its rounding must never lose one.
    count_R = (torch.where(sure_R, 0.0, inclusion_R).cumsum(0) + offset).floor_()
    step_R = count_R.diff(prepend=count_R.new_zeros(1)) > 0
    return (sure_R | step_R).nonzero().squeeze(1)


def systematic_on_circles(inclusion_X: Tensor, group_X: Tensor, offset: float) -> Tensor:
    """How often each position is hit: its own chance on average, and each group as often as its chances add up to.

    The positions of group i, which lie side by side, form a circle turned by i golden ratios. Where a group adds up to
    more than 1, one of its positions may be hit twice.

    >>> systematic_on_circles(torch.tensor([0.5, 0.5, 0.5, 0.5]), torch.tensor([0, 0, 1, 1]), 0.25).tolist()
    [1.0, 0.0, 0.0, 1.0]
    """
    sure_X = inclusion_X >= 1
    line_X = torch.where(sure_X, 0.0, inclusion_X).cumsum(0)
    _, size_P = group_X.unique_consecutive(return_counts=True)  # type: ignore[no-untyped-call]
    end_P = line_X[size_P.cumsum(0) - 1]
    start_P = torch.cat([end_P.new_zeros(1), end_P[:-1]])
    point_Y = torch.arange(math.ceil(float(end_P[-1])), dtype=end_P.dtype, device=end_P.device) + offset
    point_Y = point_Y[point_Y < end_P[-1]]
    group_Y = torch.searchsorted(end_P, point_Y, right=True)
    start_Y, end_Y = start_P[group_Y], end_P[group_Y]
    turned_Y = ((point_Y - start_Y) / (end_Y - start_Y) + group_Y * _GOLDEN_RATIO) % 1
    # Below the end whatever rounding says: the next group may begin with a position of chance 0.
    place_Y = torch.minimum(start_Y + turned_Y * (end_Y - start_Y), end_Y * (1 - 1e-15))
    hit_Y = torch.searchsorted(line_X, place_Y, right=True)
    return torch.bincount(hit_Y, minlength=len(line_X)) + sure_X.to(line_X.dtype)


def gains(rows: WeightedPosteriors, probs_N_K_C: Tensor) -> Tensor:
    """I[Y; Ω | labels so far] of each candidate from all rows in float64: N values in nats.

    >>> gains(prior_rows(torch.zeros(2)), torch.eye(2)[None]).round(decimals=6).tolist()
    [0.693147]
    """
    return _bald_in_rows(rows, probs_N_K_C) @ rows.weight_R


def terms(rows: WeightedPosteriors, probs_N_K_C: Tensor) -> Tensor:
    """The same gains row by row, [N, R]: for `lead_errors`.

    >>> terms(prior_rows(torch.zeros(2)), torch.eye(2)[None]).round(decimals=6).tolist()
    [[0.693147]]
    """
    return _bald_in_rows(rows, probs_N_K_C) * rows.weight_R


def lead_errors(term_n_R: Tensor, leading_R: Tensor, rejection_prob_R: Tensor) -> Tensor:
    """Standard errors of the gain of one candidate less that of others, from what each gains row by row: n values.

    `rejection_prob_R` is 1 minus the probability with which a row was kept. The number of rows is fixed and those left
    to chance are worth the same, so that only what differs from row to row is noise:

        Var = Σ_m q_m (d_m − d̄)²,      d_m = difference in row m,   d̄ = Σ q d / Σ q,   q: rejection_prob_R

    Over repeated seeds the true deviation is 0.3 to 1.3 times this: less where neighbouring rows are more alike.

    >>> lead_errors(torch.tensor([[0.0, 0.3]]), torch.tensor([0.4, 0.5]), torch.tensor([0.5, 0.5])).round(decimals=4)
    tensor([0.1000])
    """
    difference_n_R = leading_R - term_n_R
    # As Σ q d² − (Σ q d)² / Σ q, which spares a pass over all rows.
    level_n = (difference_n_R @ rejection_prob_R).square_() / rejection_prob_R.sum().clamp_min(
        torch.finfo(rejection_prob_R.dtype).tiny
    )
    return (difference_n_R.square_() @ rejection_prob_R).sub_(level_n).clamp_min_(0).sqrt_()


def most(prior: WeightedPosteriors, probs_K_C: Tensor, total: float) -> float:
    """What a point can add at most to a batch worth `total`: never more than alone, nor all more than H[Ω].

    >>> most(prior_rows(torch.zeros(2)), torch.eye(2), total=0.5) < 0.2
    True
    """
    return max(0.0, min(expand(prior, probs_K_C).gain, prior.left - total))


def _bald_in_rows(rows: WeightedPosteriors, probs_N_K_C: Tensor) -> Tensor:
    """H(r_m Q_n) − r_m·h_n of each candidate in each row, [N, R]."""
    probs_N_K_C = probs_N_K_C.double()
    noise_N_K = _times_log(probs_N_K_C).sum(-1).neg()
    predictive_N_R_C = rows.posterior_R_K @ probs_N_K_C
    entropy_N_R = _times_log(predictive_N_R_C).sum(-1).neg()
    return entropy_N_R - noise_N_K @ rows.posterior_R_K.T


def _times_log(p: Tensor) -> Tensor:
    """p ln p with 0 ln 0 = 0, several times faster than xlogy on a CPU."""
    return p.clamp_min(torch.finfo(p.dtype).tiny).log_().mul_(p)


def _leading_draws(posterior_R_K: Tensor) -> Tensor:
    """An order of the rows by their two likeliest draws, then by how likely: thinning meets alike rows in turn."""
    draws = posterior_R_K.shape[1]
    likeliest_R, first_R = posterior_R_K.max(1)
    second_R = posterior_R_K.scatter(1, first_R[:, None], -1.0).argmax(1)
    return (first_R * draws + second_R + likeliest_R).argsort(stable=True)
