"""Learning online, averaged: what labels in random order cost, and predictions under many weights in one pass.

    OLL(n)  = E −ln q(Y_1..n | X_1..n)        over ordered n-tuples of labelled points; OLL(1) is the marginal loss
    q_s(y|x) = Σ_k w_sk p(y|x,ω_k)             for S sets of weights, the draws k streamed chunk by chunk

Tuples are drawn without replacement unless asked otherwise: that is unbiased for fresh data where the labelled points
are themselves a sample. With replacement it is the loss on their own empirical distribution, where repeated pairs make
later losses smaller. Dyadic sampling repeats the labels of two anchors only.
docs/theory/joint-predictions.md, 4, 8 and 10; Kirsch, Kossen & Gal 2022; Osband et al. 2022.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from natsel.evaluation.joint import checked_draws, normalised_rows, seen_likelihoods
from natsel.memory import chunked
from natsel.options import Rows


@dataclass(frozen=True, eq=False)
class OnlineLoss:
    """OLL(1..n) and the standard error of each over the tuples drawn (NaN for one tuple)."""

    mean_n: Tensor
    error_n: Tensor

    @property
    def increments_n(self) -> Tensor:
        """OLL(i) − OLL(i−1): the expected loss of a label after i − 1 others."""
        return torch.diff(self.mean_n, prepend=self.mean_n.new_zeros(1))

    @property
    def average_n(self) -> Tensor:
        """OLL(i) / i, which falls towards `cross_entropy_rate` where tuples are drawn with replacement."""
        return self.mean_n / torch.arange(1, len(self.mean_n) + 1, device=self.mean_n.device)


def online_learning_loss(
    log_probs_N_K_C: Tensor,
    labels_N: Rows = None,
    n: int | None = None,
    repeats: int = 100,
    log_weights_K: Tensor | None = None,
    *,
    replacement: bool = False,
    seed: int | torch.Generator = 0,
) -> OnlineLoss:
    """OLL(1..n) from `repeats` random tuples of n labelled points (None: all of them).

    >>> draws = torch.tensor([[[0.9, 0.1], [0.1, 0.9]]] * 2).log()
    >>> online_learning_loss(draws, [0, 0]).mean_n.round(decimals=4)
    tensor([0.6931, 0.8916], dtype=torch.float64)
    """
    log_probs_N_K_C, labels_N, log_weights_K = checked_draws(log_probs_N_K_C, labels_N, log_weights_K)
    points = len(log_probs_N_K_C)
    n = points if n is None else n
    if points == 0 or n < 1 or repeats < 1 or (n > points and not replacement):
        raise ValueError(
            f"n: asked for {repeats} tuples of {n} out of {points} labelled points; pass at least one each, and no more"
            " points than there are unless replacement=True"
        )
    generator = seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
    seen_N_K = chunked(
        lambda part: seen_likelihoods(log_probs_N_K_C, labels_N, part),
        points,
        32 * len(log_weights_K),
        log_probs_N_K_C.device,
    )
    if replacement:
        chosen_R_n = torch.randint(points, (repeats, n), generator=generator)
    else:
        chosen_R_n = torch.stack([torch.randperm(points, generator=generator)[:n] for _ in range(repeats)])
    joint_R_n = joint_losses(seen_N_K, chosen_R_n, log_weights_K)
    error_n = joint_R_n.std(0) / math.sqrt(repeats) if repeats > 1 else joint_R_n[0] * math.nan
    return OnlineLoss(joint_R_n.mean(0), error_n)


def joint_losses(seen_N_K: Tensor, chosen_R_n: Tensor, log_weights_K: Tensor) -> Tensor:
    """−ln q of the first 1..n labels of each of R sequences of points, from the log likelihoods of all N labels.

    >>> joint_losses(torch.tensor([[0.5, 1.0]]).log(), torch.tensor([[0, 0]]), torch.tensor([0.5, 0.5]).log()).exp()
    tensor([[1.3333, 1.6000]])
    """
    steps, chosen_R_n = chosen_R_n.shape[1], chosen_R_n.to(seen_N_K.device)

    def work(part: slice) -> Tensor:
        total_r_K = log_weights_K.expand(len(chosen_R_n[part]), -1).clone()
        joint_r_n = total_r_K.new_empty(len(total_r_K), steps)
        for step in range(steps):
            total_r_K += seen_N_K[chosen_R_n[part, step]]
            joint_r_n[:, step] = -total_r_K.logsumexp(1)
        return joint_r_n

    return chunked(work, len(chosen_R_n), 32 * (len(log_weights_K) + steps), seen_N_K.device)


def nested_log_weights(
    seen_n_K: Tensor, log_weights_K: Tensor | None = None, subsets: Iterable[Tensor] | None = None
) -> Tensor:
    """The weights after the first 0, 1, .., n labels, for each subset of the draws (None: all of them), as T_(n+1)_K.

    A subset holds positions of draws; those outside it weigh nothing. Rows in which no draw is left are −inf.

    >>> nested_log_weights(torch.tensor([[0.1, 0.9]]).log()).exp().round(decimals=4)
    tensor([[[0.5000, 0.5000],
             [0.1000, 0.9000]]], dtype=torch.float64)
    """
    seen_n_K, _, log_weights_K = checked_draws(seen_n_K, None, log_weights_K)
    total_n_K = torch.cat([torch.zeros_like(log_weights_K)[None], seen_n_K.double().cumsum(0)]) + log_weights_K
    if subsets is None:
        return normalised_rows(total_n_K)[None]
    chosen = []
    for subset in subsets:
        outside_K = torch.ones_like(log_weights_K, dtype=torch.bool)
        outside_K[subset] = False
        chosen.append(normalised_rows(total_n_K.masked_fill(outside_K, -math.inf)))
    return torch.stack(chosen)


def online_predictive(log_weights_S_K: Tensor, predictions: Iterable[Tensor]) -> Tensor:
    """ln q_s(y|x) as log_pred_S_N_C, from log_probs_N_k_C that come in chunks of draws, in order.

    All that is held is S x N x C in float64 and one chunk, however many draws there are: a model that makes the same
    draws again (`natsel.models.dropout.mask_plan.dropout_logits` with draws=range(…)) never holds them all.

    >>> whole = torch.tensor([[[0.9, 0.1], [0.1, 0.9]]]).log()
    >>> online_predictive(torch.tensor([[0.5, 0.5], [1.0, 0.0]]).log(), [whole[:, :1], whole[:, 1:]]).exp()
    tensor([[[0.5000, 0.5000]],
    <BLANKLINE>
            [[0.9000, 0.1000]]], dtype=torch.float64)
    """
    weights_S_K = log_weights_S_K.double().exp()
    sets, draws = weights_S_K.shape
    whole: Tensor | None = None
    start = 0
    for log_probs_N_k_C in predictions:
        points, some, classes = log_probs_N_k_C.shape
        if start + some > draws:
            raise ValueError(f"predictions: found more than the {draws} draws that have weights; pass one set of draws")
        weights_S_k = weights_S_K[:, start : start + some].to(log_probs_N_k_C.device)

        def work(part: slice, table: Tensor = log_probs_N_k_C, weights: Tensor = weights_S_k) -> Tensor:
            return torch.einsum("sk,nkc->nsc", weights, table[part].double().exp())

        found_N_S_C = chunked(work, points, 24 * some * classes + 8 * sets * classes, log_probs_N_k_C.device)
        whole = found_N_S_C if whole is None else whole.add_(found_N_S_C)
        start += some
    if whole is None or start < draws:
        raise ValueError(
            f"predictions: found {start} of the {draws} draws that have weights; pass all of them in order"
        )
    return whole.transpose(0, 1).log()


def dyadic_joint_nll(
    log_probs_2_K_C: Tensor,
    label_probs_2_C: Tensor,
    tau: int = 10,
    repeats: int = 1000,
    generator: torch.Generator | None = None,
    log_weights_K: Tensor | None = None,
) -> float:
    """The mean joint loss of tau labels at two anchors: each at one of them by chance, drawn from its own label law.

    >>> draws = torch.tensor([[[0.5, 0.5]], [[0.5, 0.5]]]).log()
    >>> round(dyadic_joint_nll(draws, torch.full((2, 2), 0.5), tau=3), 6)  # 3 ln 2
    2.079442
    """
    log_probs_2_K_C, _, log_weights_K = checked_draws(log_probs_2_K_C, torch.zeros(2, dtype=torch.int64), log_weights_K)
    anchors, draws, classes = log_probs_2_K_C.shape
    laws_2_C = torch.as_tensor(label_probs_2_C).double().cpu()
    if laws_2_C.shape != (anchors, classes) or bool((laws_2_C < 0).any() | ((laws_2_C.sum(1) - 1).abs() > 1e-6).any()):
        found = f"shape {tuple(laws_2_C.shape)} with sums {laws_2_C.sum(-1).tolist()}"
        raise ValueError(
            f"label_probs_2_C: expected two laws over {classes} classes, found {found}; normalise the rows"
        )
    if tau < 1 or repeats < 1:
        raise ValueError(f"tau: expected at least one label and one repeat, found {tau} and {repeats}; raise them")
    generator = generator or torch.Generator().manual_seed(0)
    # The order of labels does not matter to their joint: how often each pair (anchor, class) came is enough.
    pairs_R_tau = torch.multinomial(laws_2_C.flatten() / 2, repeats * tau, replacement=True, generator=generator)
    counts_R_2C = torch.zeros(repeats, anchors * classes, dtype=torch.float64)
    counts_R_2C.scatter_add_(1, pairs_R_tau.view(repeats, tau), torch.ones(repeats, tau, dtype=torch.float64))
    table_2C_K = log_probs_2_K_C.double().transpose(1, 2).reshape(anchors * classes, draws)
    never_2C_K = table_2C_K == -math.inf
    counts_R_2C = counts_R_2C.to(table_2C_K.device)
    seen_R_K = counts_R_2C @ table_2C_K.masked_fill(never_2C_K, 0.0)
    seen_R_K = seen_R_K.masked_fill(counts_R_2C @ never_2C_K.double() > 0, -math.inf)
    return float(-(seen_R_K + log_weights_K).logsumexp(1).mean())
