"""What a known label tells about the parameters, and about known labels of targets, from weighted draws.

    I[Ω;y|x]  = H(w) − H(π),   π_k ∝ w_k p(y|x,ω_k)         information_gain, any sign
    I[y;Ω|x]  = D(π ‖ w)                                    surprise, never negative
    PIG(x,y)  = Σ_j v_j ln p(y*_j|y) / p(y*_j)              p(y*_j|y) = Σ_k π_k p(y*_j|ω_k)
    JPIG(x,y) = ln p(y|y*_1..M) − ln p(y)                   the loss now less the loss once the targets are known

The means of the first two over labels from the predictive are BALD. PIG and JPIG may be negative: some labels mislead;
their means over labels from the joint predictive are EPIG and JEPIG. With r = Σ_k (π_k − w_k)(p_k(y*)/p(y*) − 1) one
matrix product gives all ln(1 + r), with their digits also where r is small.

A pair of labels that never meet is −∞; a label that no draw allows has no value (NaN, or is refused where asked for); a
target label that no draw allows is refused.
docs/theory/information-quantities.md, 4 and 13; Kirsch and Gal 2021; docs/theory/epig-jepig.md, 11.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from natsel.information.class_labels import class_labels
from natsel.information.entropies import entropy, kl_divergence, log_sum_exp, widened
from natsel.information.mutual import normalised_log_weights
from natsel.memory import chunked, rows_per_chunk

Errors = Literal["raise", "nan"]

# Below this 1 + r has lost too many digits to take its logarithm.
_LOW = -0.9


def posterior_log_weights(
    log_probs_N_K_C: Tensor, labels_N: Tensor, log_weights_K: Tensor | None = None, errors: Errors = "raise"
) -> Tensor:
    """ln p(ω_k | y_n, x_n) as log_weights_N_K: the draws re-weighted by label n alone.

    A label that no weighted draw allows leaves no posterior: ValueError, or a row of NaN with errors="nan".
    docs/theory/information-quantities.md, 13.

    >>> posterior_log_weights(torch.tensor([[[0.9, 0.1], [0.1, 0.9]]]).log(), torch.tensor([1])).exp()
    tensor([[0.1000, 0.9000]])
    """
    return _reweighted(log_probs_N_K_C, labels_N, log_weights_K, errors, lambda log_posterior_n_K, _: log_posterior_n_K)


def information_gain(
    log_probs_N_K_C: Tensor, labels_N: Tensor, log_weights_K: Tensor | None = None, errors: Errors = "raise"
) -> Tensor:
    """I[Ω;y|x] = H[Ω] − H[Ω|y,x] of the observed labels: how much surer of Ω they leave us.

    Negative where a label leaves the draws more evenly weighted than before. With equally weighted draws that
    cannot happen: ln p(ω) is then constant, and gain = surprise, label by label; only uneven weights tell the
    two apart. Averaged over p̄(y) both give the mutual information.
    A label that no weighted draw allows: ValueError that names the point, or NaN with errors="nan".
    docs/theory/information-quantities.md, 4 (information gain and surprise) and 13.

    >>> log_probs_N_K_C = torch.tensor([[[0.99, 0.01], [0.5, 0.5], [0.5, 0.5]]]).log()
    >>> information_gain(log_probs_N_K_C, torch.tensor([1]), torch.tensor([0.9, 0.05, 0.05]).log())
    tensor([-0.6201])
    """

    def gain(log_posterior_n_K: Tensor, prior_K: Tensor) -> Tensor:
        return (entropy(prior_K) - entropy(log_posterior_n_K))[:, None]

    return _reweighted(log_probs_N_K_C, labels_N, log_weights_K, errors, gain)[:, 0]


def surprise(
    log_probs_N_K_C: Tensor, labels_N: Tensor, log_weights_K: Tensor | None = None, errors: Errors = "raise"
) -> Tensor:
    """I[y;Ω|x] = D(p(Ω|y,x) ‖ p(Ω)) of the observed labels, in [0, −ln p̄(y)].

    Bayesian surprise. Equals `information_gain` for equally weighted draws; errors as there.
    docs/theory/information-quantities.md, 4 (information gain and surprise) and 13.

    >>> log_probs_N_K_C = torch.tensor([[[0.99, 0.01], [0.5, 0.5], [0.5, 0.5]]]).log()
    >>> surprise(log_probs_N_K_C, torch.tensor([1]), torch.tensor([0.9, 0.05, 0.05]).log())
    tensor([1.5403])
    """

    def divergence(log_posterior_n_K: Tensor, prior_K: Tensor) -> Tensor:
        return kl_divergence(log_posterior_n_K, prior_K).clamp_min(0)[:, None]

    return _reweighted(log_probs_N_K_C, labels_N, log_weights_K, errors, divergence)[:, 0]


def pig(
    log_likelihood_N_K: Tensor,
    log_likelihood_M_K: Tensor,
    log_weights_K: Tensor | None = None,
    target_weights_M: Tensor | None = None,
) -> Tensor:
    """Predictive information gain of N labels about M target labels: N values in nats, float64.

    >>> now, holdout = torch.tensor([[0.9, 0.2, 0.5]]), torch.tensor([[0.8, 0.3, 0.5]])
    >>> round(float(pig(now.double().log(), holdout.double().log())), 4)
    0.1882
    """
    weights_M = _target_weights(target_weights_M, log_likelihood_M_K)
    prior_K, seen_N_K, aims_M_K = _possible(log_likelihood_N_K, log_likelihood_M_K, log_weights_K)
    log_evidence_M, taken_M = (prior_K + aims_M_K).logsumexp(1), weights_M > 0
    refuse_impossible(log_evidence_M.where(taken_M, 0.0))
    weights_M, log_ratio_M_K = weights_M[taken_M], (aims_M_K - log_evidence_M[:, None])[taken_M]
    step = rows_per_chunk(16 * len(prior_K), prior_K.device)

    def work(part: slice) -> Tensor:
        log_posterior_n_K = _posterior(prior_K + seen_N_K[part])
        total_n = prior_K.new_zeros(len(log_posterior_n_K))
        parts = zip(torch.split(log_ratio_M_K, step), torch.split(weights_M, step), strict=True)
        for log_ratio_m_K, weights_m in parts:
            total_n += _log_ratios(prior_K, log_posterior_n_K, log_ratio_m_K) @ weights_m
        return total_n

    found_N = chunked(work, len(seen_N_K), 40 * min(step, len(weights_M)) + 32 * len(prior_K), prior_K.device)
    return torch.where((prior_K + seen_N_K).amax(1) == -math.inf, math.nan, found_N)


def jpig(log_likelihood_N_K: Tensor, log_likelihood_M_K: Tensor, log_weights_K: Tensor | None = None) -> Tensor:
    """Joint predictive information gain of N labels about all M target labels together: N values in nats, float64.

    >>> now, holdout = torch.tensor([[0.9, 0.2, 0.5]]), torch.tensor([[0.8, 0.3, 0.5], [0.4, 0.1, 0.9]])
    >>> round(float(jpig(now.double().log(), holdout.double().log())), 4)
    0.1959
    """
    prior_K, seen_N_K, aims_M_K = _possible(log_likelihood_N_K, log_likelihood_M_K, log_weights_K)
    return log_predictive(seen_N_K, targets_posterior(aims_M_K, prior_K)) - log_predictive(seen_N_K, prior_K)


def targets_posterior(log_likelihood_M_K: Tensor, log_weights_K: Tensor) -> Tensor:
    """ln π_k ∝ ln w_k + Σ_j ln p(y*_j|ω_k): the draws once all target labels are known.

    >>> targets_posterior(torch.tensor([[0.8, 0.2]]).log(), torch.tensor([0.5, 0.5]).log()).exp()
    tensor([0.8000, 0.2000], dtype=torch.float64)
    """
    prior_K, aims_M_K = log_weights_K.double(), log_likelihood_M_K.double()
    refuse_impossible((prior_K + aims_M_K).logsumexp(1))
    log_joint_K = prior_K + aims_M_K.sum(0)
    if not bool((log_joint_K > -math.inf).any()):
        raise ValueError("targets: no draw allows all their labels together; use fewer targets, or PIG, or more draws")
    return log_joint_K.log_softmax(0)


def log_predictive(log_likelihood_N_K: Tensor, log_weights_K: Tensor) -> Tensor:
    """ln Σ_k w_k p(y|ω_k), N values in float64.

    >>> log_predictive(torch.tensor([[0.25, 0.75]]).log(), torch.tensor([0.5, 0.5]).log()).exp()
    tensor([0.5000], dtype=torch.float64)
    """
    return (log_likelihood_N_K.double() + log_weights_K.double()).logsumexp(1)


def refuse_impossible(log_evidence_M: Tensor) -> None:
    """Refuse targets with a label that no draw allows."""
    lost = (log_evidence_M == -math.inf).nonzero()
    if len(lost):
        raise ValueError(
            f"targets: no draw allows the label of target {int(lost[0])}, so nothing can be learned about it; leave it"
            " out or check its label"
        )


def _possible(seen_N_K: Tensor, aims_M_K: Tensor, log_weights_K: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Weights and likelihoods in float64, without the draws of weight 0: what they say is nothing to anybody."""
    draws = seen_N_K.shape[1]
    if aims_M_K.shape[1] != draws:
        raise ValueError(
            f"targets: they come from {aims_M_K.shape[1]} draws and the candidates from {draws}; both must be predicted"
            " with the same draws of the parameters"
        )
    if log_weights_K is None:
        prior_K = seen_N_K.new_full((draws,), -math.log(draws), dtype=torch.float64)
    else:
        prior_K = log_weights_K.to(seen_N_K.device, torch.float64).log_softmax(0)
    counts_K = prior_K > -math.inf
    return prior_K[counts_K], seen_N_K.double()[:, counts_K], aims_M_K.double()[:, counts_K]


def _posterior(log_joint_n_K: Tensor) -> Tensor:
    """Log weights of the draws after each label; equal where it leaves none, so that NaN does not spread."""
    return torch.where(log_joint_n_K.amax(1, keepdim=True) == -math.inf, 0.0, log_joint_n_K).log_softmax(1)


def _log_ratios(prior_K: Tensor, log_posterior_n_K: Tensor, log_ratio_m_K: Tensor) -> Tensor:
    """ln p(y*|y)/p(y*) of n labels and m target labels."""
    shift_n_K = log_posterior_n_K.exp() - prior_K.exp()
    r_n_m = shift_n_K @ log_ratio_m_K.expm1().T
    found_n_m = r_n_m.log1p()
    # Few digits left, or too large for a product: these pairs are summed in logarithms, one by one.
    hard = (~(r_n_m > _LOW) | ~r_n_m.isfinite()).nonzero()
    for part in torch.split(hard, rows_per_chunk(24 * len(prior_K), prior_K.device)):
        row_X, column_X = part.unbind(1)
        found_n_m[row_X, column_X] = (log_posterior_n_K[row_X] + log_ratio_m_K[column_X]).logsumexp(1)
    return found_n_m


def _target_weights(target_weights_M: Tensor | None, like_M_K: Tensor) -> Tensor:
    count = len(like_M_K)
    if count == 0:
        raise ValueError("targets: found none, and without them nothing says what is worth learning; pass some")
    if target_weights_M is None:
        return like_M_K.new_full((count,), 1 / count, dtype=torch.float64)
    weights_M = target_weights_M.to(like_M_K.device, torch.float64)
    return weights_M / weights_M.sum()


def _reweighted(
    log_probs_N_K_C: Tensor,
    labels_N: Tensor,
    log_weights_K: Tensor | None,
    errors: Errors,
    worth: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """A row of `worth` for the normalised log weights after each label and those before, NaN where a label leaves none:
    worked out in float64, for what a label tells is a difference of entropies.
    """
    prior_K = normalised_log_weights(log_probs_N_K_C[:0].double(), log_weights_K)
    if errors not in ("raise", "nan"):
        raise ValueError(f"errors: expected 'raise' or 'nan', found {errors!r}")
    labels_N = _checked_labels(labels_N, log_probs_N_K_C)

    def work(part: slice) -> Tensor:
        chosen_n_K_1 = labels_N[part, None, None].expand(-1, len(prior_K), 1)
        log_joint_n_K = log_probs_N_K_C[part].gather(2, chosen_n_K_1).squeeze(2).double() + prior_K
        log_evidence_n = log_sum_exp(log_joint_n_K, dim=1)
        undefined_n = log_evidence_n == -math.inf
        log_posterior_n_K = log_joint_n_K - log_evidence_n.masked_fill(undefined_n, 0.0)[:, None]
        worth_n_c = worth(log_posterior_n_K, prior_K).masked_fill(undefined_n[:, None], math.nan)
        return torch.cat([worth_n_c, undefined_n[:, None].double()], dim=1)

    found_N_c1 = chunked(work, len(labels_N), 96 * len(prior_K), log_probs_N_K_C.device)
    undefined_N = found_N_c1[:, -1] > 0
    if errors == "raise" and bool(undefined_N.any()):
        point = int(undefined_N.nonzero()[0])
        found = f"no weighted draw allows label {int(labels_N[point])} of point {point}"
        raise ValueError(f"labels_N: {found}, so its worth is undefined; leave it out or pass errors='nan'")
    return found_N_c1[:, :-1].to(widened(log_probs_N_K_C[:0]))


def _checked_labels(labels_N: Tensor, log_probs_N_K_C: Tensor) -> Tensor:
    points, _, classes = log_probs_N_K_C.shape
    return class_labels(labels_N.to(log_probs_N_K_C.device), points, classes, "labels_N")
