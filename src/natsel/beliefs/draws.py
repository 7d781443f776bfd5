"""The part of a belief that belongs to its draws: their weights, what labels do to them, and the ids of its points.

    w_k' = w_k Π_i p(y_i | x_i, ω_k) / Z,      Z = q(y_1..n | x_1..n)              online Bayesian inference

    effective draws  1 / Σ w²  from 1 to K          perplexity  exp H(w)  from 1 to K          max weight  max_k w_k
    surprise         D(w' ‖ w)  at most ln K for equal weights: K draws cannot follow labels that tell more

Re-weighting is exact Bayes on the draws there are. Labels that tell nearly ln K leave one draw to decide: the belief
then says so. Only labels that the draws were not fitted to may be given: others would count twice.
docs/theory/joint-predictions.md, 5 and 6; Kirsch, Kossen & Gal 2022.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from natsel.beliefs.arrays import ArrayLike, as_tensor
from natsel.memory import rows_per_chunk
from natsel.options import warn

COLLAPSE = 0.7
"""The share of ln K from which on a surprise is taken for a collapse of the weights."""


class NoSurvivingDraw(ValueError):
    """Labels that no draw with a weight gives any probability: there is nothing left to re-weight."""


class DrawsCollapsed(UserWarning):
    """Labels told nearly as much as K draws can tell: one draw or a few decide."""


@dataclass(frozen=True, eq=False)
class Learnt:
    """What the weights were before the first label, and ln q of all labels since."""

    log_weights_K: Tensor
    log_evidence: float


class Weighted:
    """What beliefs made of K weighted draws share: to be re-weighted, and to say how far that has gone."""

    log_weights_K: Tensor
    draws_id: str | None
    learnt: Learnt | None

    @property
    def n_draws(self) -> int:
        """K."""
        return len(self.log_weights_K)

    @property
    def uniform(self) -> bool:
        """Whether all draws weigh the same."""
        return bool((self.log_weights_K == self.log_weights_K[0]).all())

    @property
    def log_evidence(self) -> float:
        """ln q(y_1..n | x_1..n) of all labels conditioned on so far: 0 before the first, and minus their joint loss."""
        return 0.0 if self.learnt is None else self.learnt.log_evidence

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on the weights."""
        return collapse(self.log_weights_K, self._first_log_weights())

    def effective_draws(self) -> float:
        """1 / Σ w²: how many equally weighted draws the weights are worth.

        >>> from natsel.beliefs import CategoricalSamples
        >>> round(CategoricalSamples.from_probs([[[0.5, 0.5], [0.5, 0.5]]]).effective_draws(), 6)
        2.0
        """
        return effective_draws(self.log_weights_K)

    def perplexity(self) -> float:
        """exp H(w): another count of the draws that still matter.

        >>> from natsel.beliefs import CategoricalSamples
        >>> round(CategoricalSamples.from_probs([[[0.5, 0.5], [0.5, 0.5]]]).perplexity(), 6)
        2.0
        """
        return perplexity(self.log_weights_K)

    def max_weight(self) -> float:
        """The largest weight: near 1, a single draw decides."""
        return float(self.log_weights_K.max().exp())

    def surprise(self) -> float:
        """D(w' ‖ w) of all labels conditioned on so far, in nats.

        >>> from natsel.beliefs import CategoricalSamples
        >>> belief = CategoricalSamples.from_probs([[[0.9, 0.1], [0.1, 0.9]]])
        >>> round(belief.condition([0], [1]).surprise(), 6)
        0.368064
        """
        return surprise(self.log_weights_K, self._first_log_weights())

    def reweighted(self, log_likelihood_K: ArrayLike) -> Self:
        """The belief after labels whose log likelihood under each draw is given; quiet where `condition` warns.

        >>> from natsel.beliefs import CategoricalSamples
        >>> belief = CategoricalSamples.from_probs([[[0.9, 0.1], [0.1, 0.9]]])
        >>> belief.reweighted([0.0, -float("inf")]).log_weights_K.tolist()
        [0.0, -inf]
        """
        seen_K = as_tensor(log_likelihood_K, "log_likelihood_K").to(self.log_weights_K)
        if seen_K.shape != self.log_weights_K.shape:
            count, found = len(self.log_weights_K), tuple(seen_K.shape)
            raise ValueError(f"log_likelihood_K: expected one for each of {count} draws, found shape {found}; pass K")
        if bool((seen_K.isnan() | (seen_K == math.inf)).any()):
            raise ValueError("log_likelihood_K: found NaN or +inf; check the model's output before conditioning")
        if not bool((seen_K != 0).any()):  # no labels, or certain ones: every bit of the weights stays
            return self
        log_joint_K = self.log_weights_K + seen_K
        log_evidence = float(log_joint_K.logsumexp(0))
        if log_evidence == -math.inf:
            raise NoSurvivingDraw(
                "labels: no draw gives these labels any probability; retrain instead of conditioning, or smooth the"
                " predictions"
            )
        learnt = Learnt(self._first_log_weights(), self.log_evidence + log_evidence)
        return self._with_draws(log_joint_K.log_softmax(0), learnt)

    def with_weights_of(self, other: "Weighted") -> Self:
        """This belief with the weights of another that is made of the same draws: labels seen there count here.

        >>> from natsel.beliefs import CategoricalSamples
        >>> pool = CategoricalSamples.from_probs([[[0.9, 0.1], [0.1, 0.9]]], draws_id="fit 1")
        >>> test = CategoricalSamples.from_probs([[[0.5, 0.5], [0.3, 0.7]]], draws_id="fit 1")
        >>> round(test.with_weights_of(pool.condition([0], [1])).max_weight(), 6)
        0.9
        """
        if not isinstance(other, Weighted):
            raise ValueError(f"other: expected a belief made of draws, found {type(other).__name__}; pass such a one")
        if self.draws_id != other.draws_id:
            raise ValueError(
                f"other: its draws are {other.draws_id!r} and these {self.draws_id!r}; predict both with the same draws"
                " of one fitted model"
            )
        mine, theirs = len(self.log_weights_K), len(other.log_weights_K)
        if mine != theirs:
            raise ValueError(f"other: it has {theirs} draws and this belief {mine}; predict both with the same draws")
        return self._with_draws(other.log_weights_K.to(self.log_weights_K), other.learnt)

    def _conditioned(self, log_likelihood_K: Tensor) -> Self:
        """`reweighted`, with a warning at the caller of `condition` where the weights collapse."""
        belief = self.reweighted(log_likelihood_K)
        for sentence in belief.warnings:
            warn(sentence, DrawsCollapsed)
        return belief

    def _first_log_weights(self) -> Tensor:
        return self.log_weights_K if self.learnt is None else self.learnt.log_weights_K.to(self.log_weights_K)

    def _with_draws(self, log_weights_K: Tensor, learnt: Learnt | None) -> Self:
        other: Any = self._trusted(log_weights_K=log_weights_K)  # type: ignore[attr-defined]
        other._set(learnt=learnt)
        belief: Self = other
        return belief


def effective_draws(log_weights_K: Tensor) -> float:
    """1 / Σ w², from 1 (one draw has all the weight) to K (equal weights).

    >>> round(effective_draws(torch.tensor([0.5, 0.25, 0.25]).log()), 6)
    2.666667
    """
    return float(torch.exp(-(2 * log_weights_K.double()).logsumexp(0)))


def perplexity(log_weights_K: Tensor) -> float:
    """exp H(w), from 1 to K, never below the effective draws.

    >>> round(perplexity(torch.tensor([0.5, 0.5]).log()), 6)
    2.0
    """
    return math.exp(float(torch.special.entr(log_weights_K.double().exp()).sum()))


def surprise(log_weights_K: Tensor, before_K: Tensor) -> float:
    """D(w ‖ w before) in nats; a draw of weight 0 counts nothing.

    >>> round(surprise(torch.tensor([1.0, 0.0]).log(), torch.tensor([0.5, 0.5]).log()), 6)
    0.693147
    """
    after_K, before_K = log_weights_K.double(), before_K.double()
    terms_K = torch.where(after_K == -math.inf, 0.0, after_K.exp() * (after_K - before_K))
    return max(0.0, float(terms_K.sum()))


def collapse(log_weights_K: Tensor, before_K: Tensor) -> tuple[str, ...]:
    """A sentence where the surprise is beyond 0.7 ln K, K counting the draws that had a weight before.

    >>> collapse(torch.tensor([0.5, 0.5]).log(), torch.tensor([0.5, 0.5]).log())
    ()
    """
    draws = int((before_K > -math.inf).sum())
    nats = surprise(log_weights_K, before_K)
    if draws < 2 or nats <= COLLAPSE * math.log(draws):
        return ()
    worth, safe = effective_draws(log_weights_K), COLLAPSE * math.log(draws)
    return (
        f"labels: they told {nats:.2f} nats, of which {draws} draws can safely follow {safe:.2f}, and leave the worth"
        f" of {worth:.1f} draws; retrain, or use more draws",
    )


def summed(seen: Callable[[slice], Tensor], count: int, log_weights_K: Tensor) -> Tensor:
    """Σ over points of log likelihoods [b, K], in chunks of points that keep to the memory budget.

    >>> summed(lambda part: torch.ones(3, 2)[part], 3, torch.zeros(2, dtype=torch.float64)).tolist()
    [3.0, 3.0]
    """
    total_K = torch.zeros_like(log_weights_K)
    rows = rows_per_chunk(32 * len(log_weights_K), log_weights_K.device)
    for start in range(0, count, rows):
        total_K += seen(slice(start, min(start + rows, count))).sum(0)
    return total_K


def checked_log_weights(log_weights_K: ArrayLike, draws: int, device: torch.device) -> Tensor:
    """log w_K in float64 with Σ w = 1; None means equal weights.

    >>> checked_log_weights(None, 2, torch.device("cpu")).exp().tolist()
    [0.5, 0.5]
    """
    if log_weights_K is None:
        return torch.full((draws,), -math.log(draws), dtype=torch.float64, device=device)
    weights_K = as_tensor(log_weights_K, "log_weights_K").to(device, torch.float64)
    if weights_K.shape != (draws,):
        raise ValueError(
            f"log_weights_K: expected one log weight for each of {draws} draws, found shape {tuple(weights_K.shape)}"
        )
    log_sum = float(weights_K.logsumexp(0))
    if not abs(log_sum) < 1e-4:
        raise ValueError(
            f"log_weights_K: the weights must sum to 1 (found {math.exp(log_sum) if log_sum < 700 else log_sum:.6g});"
            " pass logarithms and subtract their logsumexp"
        )
    return weights_K - log_sum
