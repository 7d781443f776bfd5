"""What a known label tells about known labels of targets, from draws that give each of them a likelihood.

    PIG(x,y)  = Σ_j v_j ln p(y*_j|y) / p(y*_j)              p(y*_j|y) = Σ_k π_k p(y*_j|ω_k),   π_k ∝ w_k p(y|x,ω_k)
    JPIG(x,y) = ln p(y|y*_1..M) − ln p(y)                   the loss now less the loss once the targets are known

Both may be negative: some labels mislead. Their means over labels from the joint predictive are EPIG and JEPIG. With
r = Σ_k (π_k − w_k)(p_k(y*)/p(y*) − 1) one matrix product gives all ln(1 + r), with their digits also where r is small.

A pair of labels that never meet is −∞; a label that no draw allows has no value (NaN); a target label that no draw
allows is refused.  Spec 07, Q2 and Q3.
"""

import math

import torch
from torch import Tensor

from natsel.memory import chunked, rows_per_chunk

# Below this 1 + r has lost too many digits to take its logarithm.
_LOW = -0.9


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
        for aims, weights_m in zip(torch.split(log_ratio_M_K, step), torch.split(weights_M, step), strict=True):
            total_n += _log_ratios(prior_K, log_posterior_n_K, aims) @ weights_m
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
