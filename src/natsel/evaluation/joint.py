"""How good joint predictions are: the log loss of labels taken together, each predicted after the ones before it.

    marginal   H[Y|X]            = mean_n −ln Σ_k w_k p(y_n|x_n,ω_k)                 a model that never adapts
    joint      −ln q(y_1..n|x)   = −ln Σ_k w_k Π_i p(y_i|x_i,ω_k)                    a model that does
                                 = Σ_i −ln q(y_i | x_i, y_<i)                        in any order
    total correlation            = Σ marginal losses − joint loss                    of these labels: either sign
    rate       lim OLL(n)/n      = min_k mean_n −ln p(y_n|x_n,ω_k), w_k > 0          the best single draw

With L_k the loss of draw k alone, min L_k ≤ joint ≤ min_k (L_k − ln w_k) and joint ≤ Σ_k w_k L_k: K equal draws are
never further than ln K from the best of them. So a long sequence tells how good the best draw is, and nothing of the
mixture.

Every function takes log_probs_N_K_C with labels_N, or, for labels of any other kind, labels_N=None and the log
likelihoods ln p(y_n|x_n,ω_k) as N_K (`gaussian_log_likelihood` for numbers). An impossible label costs +inf.
docs/theory/joint-predictions.md, 2 to 4 and 7; Kirsch, Kossen & Gal 2022.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from natsel.information.class_labels import class_labels
from natsel.memory import chunked, rows_per_chunk
from natsel.options import Rows


@dataclass(frozen=True, eq=False)
class Sequential:
    """A labelled sequence predicted one by one: what each label cost, and what it left of the draws.

    `losses_N` sum to the joint loss; `effective_draws_N` and `surprise_N` (since the start, in nats) are those after
    each label, 0 and inf once no draw is left.
    """

    losses_N: Tensor
    effective_draws_N: Tensor
    surprise_N: Tensor
    log_weights_K: Tensor

    @property
    def joint(self) -> float:
        """The joint loss of all labels."""
        return float(self.losses_N.sum())


def gaussian_log_likelihood(mean_N_K: Tensor, variance_N_K: Tensor, values_N: Rows) -> Tensor:
    """ln N(y_n; μ_nk, σ²_nk) as N_K in float64, for the functions below.

    >>> gaussian_log_likelihood(torch.zeros(1, 1), torch.ones(1, 1), [0.0]).round(decimals=4)
    tensor([[-0.9189]], dtype=torch.float64)
    """
    values_N = torch.as_tensor(values_N, device=mean_N_K.device).double()
    if mean_N_K.ndim != 2 or variance_N_K.shape != mean_N_K.shape or values_N.shape != mean_N_K.shape[:1]:
        found = [list(part.shape) for part in (mean_N_K, variance_N_K, values_N)]
        raise ValueError(f"values_N: expected shapes N x K, N x K and N, found {found}; pass one value per point")
    if not bool(values_N.isfinite().all()):
        raise ValueError("values_N: found NaN or infinity; leave out points without a value")
    variance_N_K = variance_N_K.double()
    gap_N_K = values_N[:, None] - mean_N_K.double()
    seen_N_K: Tensor = -0.5 * (gap_N_K.square() / variance_N_K + (2 * math.pi * variance_N_K).log())
    return seen_N_K


def marginal_cross_entropy(
    log_probs_N_K_C: Tensor, labels_N: Rows = None, log_weights_K: Tensor | None = None
) -> float:
    """The mean loss of labels each predicted alone: the usual test loss of the averaged predictions.

    >>> round(marginal_cross_entropy(torch.tensor([[[0.9, 0.1], [0.1, 0.9]]]).log(), [0]), 6)
    0.693147
    """
    return float(marginal_losses(log_probs_N_K_C, labels_N, log_weights_K).mean())


def marginal_losses(log_probs_N_K_C: Tensor, labels_N: Rows = None, log_weights_K: Tensor | None = None) -> Tensor:
    """−ln q(y_n|x_n), one value per point.

    >>> marginal_losses(torch.tensor([[[0.5, 0.5]], [[0.0, 1.0]]]).log(), [0, 0])
    tensor([0.6931,    inf], dtype=torch.float64)
    """
    log_probs_N_K_C, labels_N, log_weights_K = checked_draws(log_probs_N_K_C, labels_N, log_weights_K)
    return chunked(
        lambda part: -(seen_likelihoods(log_probs_N_K_C, labels_N, part) + log_weights_K).logsumexp(1),
        len(log_probs_N_K_C),
        32 * len(log_weights_K),
        log_probs_N_K_C.device,
    )


def member_losses(log_probs_N_K_C: Tensor, labels_N: Rows = None) -> Tensor:
    """L_k = −Σ_n ln p(y_n|x_n,ω_k), one value per draw.

    >>> member_losses(torch.tensor([[[0.5, 0.5], [1.0, 0.0]]]).log(), [0])
    tensor([0.6931, 0.0000], dtype=torch.float64)
    """
    log_probs_N_K_C, labels_N, log_weights_K = checked_draws(log_probs_N_K_C, labels_N, None)
    total_K = torch.zeros_like(log_weights_K)
    for part in _parts(len(log_probs_N_K_C), log_weights_K):
        total_K -= seen_likelihoods(log_probs_N_K_C, labels_N, part).sum(0)
    return total_K


def joint_cross_entropy(log_probs_N_K_C: Tensor, labels_N: Rows = None, log_weights_K: Tensor | None = None) -> float:
    """−ln q(y_1..N|x_1..N): the loss of all labels together, in any order.

    >>> draws = torch.tensor([[[0.9, 0.1], [0.1, 0.9]]] * 2).log()
    >>> round(joint_cross_entropy(draws, [0, 0]), 6)  # −ln ½(0.9² + 0.1²)
    0.891598
    """
    log_probs_N_K_C, labels_N, log_weights_K = checked_draws(log_probs_N_K_C, labels_N, log_weights_K)
    return float(-(log_weights_K - member_losses(log_probs_N_K_C, labels_N)).logsumexp(0))


def total_correlation(log_probs_N_K_C: Tensor, labels_N: Rows = None, log_weights_K: Tensor | None = None) -> float:
    """Σ marginal losses − joint loss of these labels: above 0 where the earlier ones helped to predict the later.

    Its mean over labels drawn from q is `natsel.information.total_correlation`, which is never negative.

    >>> draws = torch.tensor([[[0.9, 0.1], [0.1, 0.9]]] * 2).log()
    >>> round(total_correlation(draws, [0, 0]), 4), round(total_correlation(draws, [0, 1]), 4)
    (0.4947, -1.0217)
    """
    alone = float(marginal_losses(log_probs_N_K_C, labels_N, log_weights_K).sum())
    return alone - joint_cross_entropy(log_probs_N_K_C, labels_N, log_weights_K)


def sequential_losses(
    log_probs_N_K_C: Tensor, labels_N: Rows = None, log_weights_K: Tensor | None = None
) -> Sequential:
    """Each label predicted from the ones before it, then learnt from: the whole curve in one pass.

    docs/theory/joint-predictions.md, 3.

    >>> draws = torch.tensor([[[0.9, 0.1], [0.1, 0.9]]] * 2).log()
    >>> sequential_losses(draws, [0, 0]).losses_N.round(decimals=4)
    tensor([0.6931, 0.1985], dtype=torch.float64)
    """
    log_probs_N_K_C, labels_N, start_K = checked_draws(log_probs_N_K_C, labels_N, log_weights_K)
    now_K, losses, worths, surprises = start_K, [], [], []
    for part in _parts(len(log_probs_N_K_C), start_K):
        total_n_K = seen_likelihoods(log_probs_N_K_C, labels_N, part).cumsum(0)
        after_n_K = normalised_rows(now_K + total_n_K)
        before_n_K = torch.cat([now_K[None], after_n_K[:-1]])
        # Predicted from the weights of the label before, not as a difference of two large sums.
        losses.append(-(before_n_K + seen_likelihoods(log_probs_N_K_C, labels_N, part)).logsumexp(1))
        worths.append(1 / (2 * after_n_K).logsumexp(1).exp().clamp_min(1e-300))
        terms_n_K = torch.where(after_n_K == -math.inf, 0.0, after_n_K.exp() * (after_n_K - start_K))
        surprises.append(terms_n_K.sum(1).clamp_min(0))
        now_K = after_n_K[-1]
    none = start_K.new_zeros(0)
    losses_N, worths_N, surprises_N = (torch.cat([none, *parts]) for parts in (losses, worths, surprises))
    gone_N = losses_N.cumsum(0) == math.inf
    return Sequential(
        losses_N,
        worths_N.masked_fill(gone_N, 0.0),
        surprises_N.masked_fill(gone_N, math.inf),
        now_K,
    )


def cross_entropy_rate(log_probs_N_K_C: Tensor, labels_N: Rows = None, log_weights_K: Tensor | None = None) -> float:
    """What a label costs in the long run: the mean loss of the best single draw that has a weight.

    The loss of n labels lies within ln K of n times this: with n below some ln K the mixture still counts.

    >>> round(cross_entropy_rate(torch.tensor([[[0.9, 0.1], [0.5, 0.5]]]).log(), [0]), 6)
    0.105361
    """
    log_probs_N_K_C, labels_N, log_weights_K = checked_draws(log_probs_N_K_C, labels_N, log_weights_K)
    if len(log_probs_N_K_C) == 0:
        raise ValueError("log_probs_N_K_C: found no points to take a mean over; pass at least one")
    loss_K = member_losses(log_probs_N_K_C, labels_N).masked_fill(log_weights_K == -math.inf, math.inf)
    return float(loss_K.min()) / len(log_probs_N_K_C)


def _parts(count: int, log_weights_K: Tensor) -> list[slice]:
    """Chunks of points whose tables of draws keep to the memory budget."""
    rows = rows_per_chunk(64 * len(log_weights_K), log_weights_K.device)
    return [slice(start, min(start + rows, count)) for start in range(0, count, rows)]


def normalised_rows(log_weights_n_K: Tensor) -> Tensor:
    """Rows that sum to one in probability; −inf throughout where nothing is left."""
    total_n_1 = log_weights_n_K.logsumexp(1, keepdim=True)
    return log_weights_n_K - total_n_1.masked_fill(total_n_1 == -math.inf, 0.0)


def seen_likelihoods(log_probs_N_K_C: Tensor, labels_N: Tensor | None, part: slice) -> Tensor:
    """ln p(y_n|x_n,ω_k) of some points, in float64."""
    if labels_N is None:
        return log_probs_N_K_C[part].double()
    log_probs_n_K_C, draws = log_probs_N_K_C[part], log_probs_N_K_C.shape[1]
    return log_probs_n_K_C.gather(2, labels_N[part, None, None].expand(-1, draws, 1)).squeeze(2).double()


def checked_draws(
    log_probs_N_K_C: Tensor, labels_N: Rows, log_weights_K: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor]:
    """What every metric here is made from, or a ValueError: predictions, labels as int64, normalised log weights."""
    axes, shape = 2 if labels_N is None else 3, tuple(log_probs_N_K_C.shape)
    if len(shape) != axes or 0 in shape[1:]:
        wanted = "points x draws, as there are no labels" if labels_N is None else "points x draws x classes"
        raise ValueError(f"log_probs_N_K_C: expected {wanted}, found shape {shape}; pass labels_N with three axes only")
    if labels_N is not None:
        labels_N = torch.as_tensor(labels_N, device=log_probs_N_K_C.device)
        labels_N = class_labels(labels_N, shape[0], shape[2], "labels_N")
    like = log_probs_N_K_C.new_zeros(0, dtype=torch.float64)
    if log_weights_K is None:
        return log_probs_N_K_C, labels_N, like.new_full(shape[1:2], -math.log(shape[1]))
    if log_weights_K.shape != shape[1:2]:
        found = f"shape {tuple(log_weights_K.shape)}"
        raise ValueError(f"log_weights_K: found {found}; pass one for each of the {shape[1]} draws, or None")
    return log_probs_N_K_C, labels_N, log_weights_K.to(like).log_softmax(0)
