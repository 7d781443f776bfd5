"""What one label has to do with the parameters, from K weighted draws of categorical predictions.

    p̄(c)        = Σ_k w_k p_k(c)                                      log_mean
    H[Y|x]       = I[Y;Ω|x] + H[Y|x,Ω]                                 predictive = epistemic + aleatoric
    I[Y;Ω|x]     = Σ_k w_k D(p_k ‖ p̄)                                  mutual_information (BALD, EIG)
    I[ω;y|x]     = ln p_k(y) − ln p̄(y)                                 pointwise_mutual_information

log_probs_N_K_C: rows sum to 1 in probability, −inf for 0. log_weights_K: sum to 1 too; None weighs all alike.
A draw of weight 0 counts exactly nothing, even where it alone allows a class.  What labels that are known tell is in
`natsel.information.known_labels`.  docs/theory/information-quantities.md, 11 to 13.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from natsel.information.entropies import LOG_FLOOR, entropy, kl_divergence, log_sum_exp, widened
from natsel.memory import chunked

# Scores in float32 are off by up to 2e-7 nats, which would decide between points below this; there float64 does.
_FINE = 1e-4
# A predictive entropy below this says that p̄ of one class is so near 1 that ln p̄ has lost digits.
_SURE = 1e-2


def log_mean(log_probs_N_K_C: Tensor, log_weights_K: Tensor | None = None) -> Tensor:
    """ln p̄(c) as N_C, the Bayesian model average; −inf where no weighted draw allows the class.

    >>> log_mean(torch.tensor([[[0.1, 0.9], [0.9, 0.1], [0.5, 0.5]]]).log()).exp()
    tensor([[0.5000, 0.5000]])
    """
    prior_K = normalised_log_weights(log_probs_N_K_C, log_weights_K)
    return _over_points(log_probs_N_K_C, lambda part_n_K_C: log_sum_exp(part_n_K_C + prior_K[:, None], dim=1))


def predictive_entropy(log_probs_N_K_C: Tensor, log_weights_K: Tensor | None = None) -> Tensor:
    """H[Y|x] = H(p̄), one value per point: total uncertainty, in [0, ln C].

    docs/theory/information-quantities.md, 11.

    >>> predictive_entropy(torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]).log())
    tensor([0.6931])
    """
    weights_K = normalised_log_weights(log_probs_N_K_C, log_weights_K).exp()

    def work(part_n_K_C: Tensor) -> Tensor:
        mean_n_C = _weighted_mean(part_n_K_C.exp(), weights_K)
        entropy_n = 0.0 - (mean_n_C * _bounded_log(mean_n_C)).sum(-1)
        sure_s = (entropy_n < _SURE).nonzero().squeeze(1)
        if len(sure_s) and not entropy_n.requires_grad:  # ln p̄ of the likeliest class by what the others have
            mean_s_C = mean_n_C[sure_s]
            log_top_s_1 = (-share_of_others(mean_s_C)).log1p()[:, None]
            log_mean_s_C = _bounded_log(mean_s_C).scatter(-1, mean_s_C.argmax(-1, keepdim=True), log_top_s_1)
            entropy_n[sure_s] = 0.0 - (mean_s_C * log_mean_s_C).sum(-1)
        return entropy_n

    return _over_points(log_probs_N_K_C, work)


def conditional_entropy(log_probs_N_K_C: Tensor, log_weights_K: Tensor | None = None) -> Tensor:
    """H[Y|x,Ω] = Σ_k w_k H(p_k), one value per point: what no knowledge of the parameters removes.

    docs/theory/information-quantities.md, 11.

    >>> conditional_entropy(torch.tensor([[[0.5, 0.5], [0.0, 1.0]]]).log())
    tensor([0.3466])
    """
    weights_K = normalised_log_weights(log_probs_N_K_C, log_weights_K).exp()
    return _over_points(log_probs_N_K_C, lambda part_n_K_C: (entropy(part_n_K_C) * weights_K).sum(-1))


def mutual_information(
    log_probs_N_K_C: Tensor,
    log_weights_K: Tensor | None = None,
    form: Literal["kl", "entropy", "posterior"] = "kl",
    clamp: bool = True,
) -> Tensor:
    """I[Y;Ω|x] (BALD, expected information gain), one value per point, in [0, min(H[Y|x], H(w))].

    Equal forms: "kl" Σ_k w_k D(p_k ‖ p̄), a sum of non-negative terms; "entropy" H[Y|x] − H[Y|x,Ω];
    "posterior" H(w) − Σ_c p̄(c) H(w|c). Rounding can leave −1e-7 in float32, which clamp=True cuts off. "kl" keeps the
    order of small values also in float32: those below 1e-4 nats are computed again in float64.
    docs/theory/information-quantities.md, 13; Lindley 1956; Houlsby et al. 2011.

    >>> mutual_information(torch.tensor([[[0.1, 0.9], [0.9, 0.1], [0.5, 0.5]], [[0.5, 0.5]] * 3]).log())
    tensor([0.2454, 0.0000])
    """
    prior_K = normalised_log_weights(log_probs_N_K_C, log_weights_K)
    weights_K = prior_K.exp()
    equal = bool((prior_K == prior_K[0]).all())
    excess = weights_K.sum().log()  # rounding; left in, points on which all draws agree score 1e-7 in float32

    def kl(part_n_K_C: Tensor) -> Tensor:
        if len(prior_K) == 1:  # its own mean, without the rounding of ln exp: exactly 0, with gradient 0
            return part_n_K_C.exp().sum((1, 2)) * 0.0
        # Class by class, Σ_k w p ln p − p̄ ln p̄: never negative, and no pass over a table of ln p − ln p̄.
        p_n_K_C = part_n_K_C.exp() if equal else part_n_K_C.exp() * weights_K[:, None]
        sum_n_C = p_n_K_C.sum(1)
        log_mean_n_C = _bounded_log(sum_n_C / len(prior_K)) if equal else _bounded_log(sum_n_C) - excess
        # A second table would go back to the system after every chunk; only a gradient needs p again.
        p_log_p_n_K_C = p_n_K_C * part_n_K_C if p_n_K_C.requires_grad else p_n_K_C.mul_(part_n_K_C)
        score_n = (p_log_p_n_K_C.sum(1) - sum_n_C * log_mean_n_C).sum(-1)
        return score_n / len(prior_K) if equal else score_n

    def kl_with_zeros(part_n_K_C: Tensor) -> Tensor:
        """The same where some p are 0 and 0·(−inf) = NaN; asking first would cost as much as the score."""
        score_n = kl(part_n_K_C)
        return kl(part_n_K_C.clamp_min(LOG_FLOOR)) if bool(score_n.isnan().any()) else score_n

    def posterior(part_n_K_C: Tensor) -> Tensor:
        log_joint_n_K_C = part_n_K_C + prior_K[:, None]
        log_mean_n_C = log_sum_exp(log_joint_n_K_C, dim=1)
        shift_n_C = log_mean_n_C.masked_fill(log_mean_n_C == -math.inf, 0.0)
        left_n_C = entropy(log_joint_n_K_C - shift_n_C[:, None], dim=1)
        return entropy(prior_K) - (log_mean_n_C.exp() * left_n_C).sum(-1)

    if form == "kl":
        score_N = _over_points(log_probs_N_K_C, kl_with_zeros, tables=2)
        if score_N.dtype == torch.float32 and len(prior_K) > 1:
            rows_n = (score_N < _FINE).nonzero().squeeze(1)
            if len(rows_n):
                score_N = score_N.index_put((rows_n,), _in_float64(log_probs_N_K_C, log_weights_K, rows_n).float())
    elif form == "posterior":
        score_N = _over_points(log_probs_N_K_C, posterior)
    elif form == "entropy":
        score_N = predictive_entropy(log_probs_N_K_C, log_weights_K)
        score_N = score_N - conditional_entropy(log_probs_N_K_C, log_weights_K)
    else:
        raise ValueError(f"form: expected 'kl', 'entropy' or 'posterior', found {form!r}; 'kl' is the default")
    return score_N.clamp_min(0) if clamp else score_N


def _in_float64(log_probs_N_K_C: Tensor, log_weights_K: Tensor | None, rows_n: Tensor) -> Tensor:
    """Σ_k w_k Σ_c p ln p − Σ_c p̄ ln p̄ of some points, in float64, with rows that sum to one in float64 too."""
    _, draws, classes = log_probs_N_K_C.shape
    weights_K = normalised_log_weights(log_probs_N_K_C[:0].double(), log_weights_K).exp()

    def work(part: slice) -> Tensor:
        log_n_K_C = log_probs_N_K_C[rows_n[part]].double().clamp_min(LOG_FLOOR)
        p_n_K_C = log_n_K_C.exp()
        # Sums over a short axis and means over draws as products: much faster, and exact enough in float64.
        ones_C = log_n_K_C.new_ones(classes)
        sum_n_K = (p_n_K_C @ ones_C).clamp_min(torch.finfo(torch.float64).tiny)
        p_log_p_n_K = ((p_n_K_C * log_n_K_C) @ ones_C) / sum_n_K - sum_n_K.log()
        mean_n_C = ((weights_K / sum_n_K)[:, None] @ p_n_K_C)[:, 0]
        return p_log_p_n_K @ weights_K - (mean_n_C * _bounded_log(mean_n_C)).sum(-1)

    return chunked(work, len(rows_n), 32 * draws * classes, log_probs_N_K_C.device)


def share_of_others(mean_N_C: Tensor) -> Tensor:
    """1 − max_c p(c), one value per point, as the sum of all classes but the likeliest: digits that 1 − p would lose.

    >>> share_of_others(torch.tensor([[1.0, 1e-9, 0.0]]))
    tensor([1.0000e-09])
    """
    return mean_N_C.scatter(-1, mean_N_C.argmax(-1, keepdim=True), 0.0).sum(-1)


def pointwise_mutual_information(log_probs_N_K_C: Tensor, log_weights_K: Tensor | None = None) -> Tensor:
    """I[ω_k;y=c|x_n] = ln p_k(c) − ln p̄(c), as pmi_N_K_C; any sign.

    −inf where the draw forbids the class, 0 where none allows it, +inf where only this draw of weight 0 does.
    Averaged over p_k(c) it is the member disagreement, over w_k p_k(c) the mutual information.
    docs/theory/information-quantities.md, 12.

    >>> pointwise_mutual_information(torch.tensor([[[0.8, 0.2, 0.0], [0.2, 0.8, 0.0]]]).log())
    tensor([[[ 0.4700, -0.9163,  0.0000],
             [-0.9163,  0.4700,  0.0000]]])
    """
    log_mean_N_1_C = log_mean(log_probs_N_K_C, log_weights_K)[:, None]
    log_probs_N_K_C = widened(log_probs_N_K_C)
    never_N_K_C = (log_probs_N_K_C == -math.inf) & (log_mean_N_1_C == -math.inf)
    return torch.where(never_N_K_C, 0.0, log_probs_N_K_C) - torch.where(never_N_K_C, 0.0, log_mean_N_1_C)


def member_disagreement(log_probs_N_K_C: Tensor, log_weights_K: Tensor | None = None) -> Tensor:
    """I[ω_k;Y|x] = D(p_k ‖ p̄), as N_K; +inf for a draw of weight 0 that alone allows a class.

    docs/theory/information-quantities.md, 12.

    >>> member_disagreement(torch.tensor([[[0.1, 0.9], [0.9, 0.1], [0.5, 0.5]]]).log())
    tensor([[0.3681, 0.3681, 0.0000]])
    """
    prior_K = normalised_log_weights(log_probs_N_K_C, log_weights_K)

    def work(part_n_K_C: Tensor) -> Tensor:
        log_mean_n_C = log_sum_exp(part_n_K_C + prior_K[:, None], dim=1)
        return kl_divergence(part_n_K_C, log_mean_n_C[:, None])

    return _over_points(log_probs_N_K_C, work).clamp_min(0)


def variance(log_probs_N_K_C: Tensor, log_weights_K: Tensor | None = None) -> Tensor:
    """Σ_c Var_ω[p(c|x,ω)], one value per point; population variance under the weights.

    docs/theory/information-quantities.md, 13.

    >>> variance(torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]).log())
    tensor([0.5000])
    """
    prior_K = normalised_log_weights(log_probs_N_K_C, log_weights_K)
    return _over_points(log_probs_N_K_C, lambda part_n_K_C: _class_variance(part_n_K_C, prior_K).sum(-1))


def standard_deviation(log_probs_N_K_C: Tensor, log_weights_K: Tensor | None = None, unbiased: bool = False) -> Tensor:
    """Σ_c sqrt(Var_ω[p(c|x,ω)]), one value per point.  docs/theory/information-quantities.md, 13.

    unbiased=True divides the variance by 1 − Σ_k w_k², which is (K−1)/K for equal weights; 0 when one draw
    has all the weight.

    >>> standard_deviation(torch.tensor([[[0.1, 0.9], [0.9, 0.1], [0.5, 0.5]]]).log(), unbiased=True)
    tensor([0.8000])
    """
    prior_K = normalised_log_weights(log_probs_N_K_C, log_weights_K)
    # 1 − Σ w² as Σ w (1 − w), with 1 − w of the heaviest draw from the others: that may be tiny.
    light_K = prior_K.exp().index_fill(0, prior_K.argmax(), 0.0)
    spread = prior_K.max().exp() * light_K.sum() + (light_K * (1 - light_K)).sum()
    scale = torch.where(spread > 0, 1 / torch.where(spread > 0, spread, 1.0), 0.0) if unbiased else 1.0

    def work(part_n_K_C: Tensor) -> Tensor:
        variance_n_C = _class_variance(part_n_K_C, prior_K) * scale
        positive_n_C = variance_n_C > 0
        # The root has slope inf at 0; masked on both sides, points on which all draws agree get gradient 0.
        return torch.where(positive_n_C, torch.where(positive_n_C, variance_n_C, 1.0).sqrt(), 0.0).sum(-1)

    return _over_points(log_probs_N_K_C, work)


def _class_variance(log_probs_n_K_C: Tensor, prior_K: Tensor) -> Tensor:
    """Two passes, measured from the heaviest draw: exactly 0 where all draws agree."""
    p_n_K_C = log_probs_n_K_C.exp()
    offset_n_K_C = p_n_K_C - p_n_K_C.index_select(1, prior_K.argmax()[None])
    spread_n_K_C = offset_n_K_C - _weighted_mean(offset_n_K_C, prior_K.exp())[:, None]
    return _weighted_mean(spread_n_K_C.square(), prior_K.exp())


def _weighted_mean(values_n_K_C: Tensor, weights_K: Tensor) -> Tensor:
    """Σ_k w_k v_k, as products: a matrix product may run in reduced precision on an accelerator."""
    return (values_n_K_C * weights_K[:, None]).sum(1)


def _bounded_log(p: Tensor) -> Tensor:
    """ln p, finite and without gradient where p is 0 (or denormal)."""
    return p.clamp_min(torch.finfo(p.dtype).tiny).log()


def normalised_log_weights(log_probs_N_K_C: Tensor, log_weights_K: Tensor | None) -> Tensor:
    """Normalised log weights in the working type, after a look at the shapes; values are the caller's."""
    shape, dtype = tuple(log_probs_N_K_C.shape), log_probs_N_K_C.dtype
    if len(shape) != 3 or 0 in shape[1:] or not dtype.is_floating_point:
        found = f"{dtype} of shape {shape}"
        raise ValueError(f"log_probs_N_K_C: found {found}; pass floats of shape points x draws x classes")
    like = widened(log_probs_N_K_C[:0])
    if log_weights_K is None:
        return like.new_full((shape[1],), -math.log(shape[1]))
    if log_weights_K.shape != (shape[1],):
        found = f"shape {tuple(log_weights_K.shape)}"
        raise ValueError(f"log_weights_K: found {found}; pass one for each of the {shape[1]} draws, or None")
    return log_weights_K.to(like).log_softmax(0)


def _over_points(log_probs_N_K_C: Tensor, work: Callable[[Tensor], Tensor], tables: int = 4) -> Tensor:
    """`work` on chunks of points in the working type; `tables` of K x C a point are alive at a time."""
    points, draws, classes = log_probs_N_K_C.shape
    bytes_each = tables * draws * classes * max(4, log_probs_N_K_C.element_size())

    def chunk(part: slice) -> Tensor:
        return work(widened(log_probs_N_K_C[part]))

    return chunked(chunk, points, bytes_each, log_probs_N_K_C.device)
