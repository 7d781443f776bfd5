"""How good class predictions are, from the log of the mean predictive.

    accuracy = share of points whose label is arg max_c p̄(c | x); balanced: the mean of that share over classes
    average precision = Σ_i (recall_i − recall_{i−1}) · precision_i of finding the rarer of two classes (`detection`)
    nll      = − mean_n log p̄(y_n | x_n)                              in nats, lower is better
    brier    = mean_n Σ_c (p̄(c | x_n) − 1[y_n = c])²                  from 0 to 2, lower is better (Brier 1950)

p̄ averages over draws before the logarithm: it is the committee that is judged, not its members.

Trees hold a class impossible that no label of a leaf has, and every model one that it has no label of: −log 0 = ∞ for
one label would say nothing about all others. With a floor ε, what is impossible counts as

    log p̃ = log p̄  where p̄ > 0,   else   min( log ε, the least log p̄ > −∞ of the table )

so that it never counts as more probable than what was held possible, and all that is finite without a floor stays as it
is. ε = 2⁻²⁴ is the distance from 1 to the next smaller number of float32, in which models compute: a probability of 1
says no more about the other classes than that they have less than this. An impossible label costs at least 24 ln 2 =
16.6 nats.
"""

import math
from typing import Any

import torch
from torch import Tensor

from natsel.beliefs.arrays import as_tensor
from natsel.evaluation.detection import aupr
from natsel.information.class_labels import class_labels
from natsel.memory import chunked
from natsel.options import Rows

FLOOR = 2.0**-24
"""What a label that was held impossible counts as where models are judged: about 6e-8, 16.6 nats."""


def accuracy(log_mean_N_C: Tensor, labels_N: Rows) -> float:
    """The share of labels that the most probable class names.

    >>> accuracy(torch.tensor([[0.9, 0.1], [0.2, 0.8]]).log(), [0, 0])
    0.5
    """
    classes_N = _checked(log_mean_N_C, labels_N)
    return float((log_mean_N_C.argmax(-1) == classes_N).double().mean())


def balanced_accuracy(log_mean_N_C: Tensor, labels_N: Rows) -> float:
    """The mean over classes of the share of their points that is named right.

    >>> balanced_accuracy(torch.tensor([[0.9, 0.1]] * 4).log(), [0, 0, 0, 1])
    0.5
    """
    classes_N = _checked(log_mean_N_C, labels_N)
    right_N = (log_mean_N_C.argmax(-1) == classes_N).double()
    return float(torch.stack([right_N[classes_N == one].mean() for one in set(classes_N.tolist())]).mean())


def rare_class(labels: Rows) -> int | None:
    """The rarer of two classes, the second where they are level; None where labels are not of two classes."""
    counts_C = torch.bincount(as_tensor(labels, "labels").flatten().long()).tolist()
    return int(counts_C[0] >= counts_C[1]) if len(counts_C) == 2 and 0 not in counts_C else None


def average_precision(log_mean_N_C: Tensor, labels_N: Rows) -> float:
    """How well the probability of the rarer of two classes finds its points: the mean precision over its ranks.

    >>> average_precision(torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]]).log(), [0, 0, 1])
    0.5
    """
    classes_N, rare = _checked(log_mean_N_C, labels_N), rare_class(labels_N)
    if rare is None or log_mean_N_C.shape[1] != 2:
        raise ValueError(f"labels_N: expected both of two classes, found {sorted(set(classes_N.tolist()))[:10]}")
    log_odds_N, is_rare_N = (log_mean_N_C[:, rare] - log_mean_N_C[:, 1 - rare]).cpu(), (classes_N == rare).cpu()
    return aupr(log_odds_N[~is_rare_N], log_odds_N[is_rare_N])


def nll(log_mean_N_C: Tensor, labels_N: Rows, floor: float = 0.0) -> float:
    """The mean negative log likelihood in nats: infinite where a label was held impossible, unless a `floor` says as
    which probability, at most, that counts.

    >>> round(nll(torch.tensor([[0.5, 0.5]]).log(), [1]), 4)
    0.6931
    >>> sure = torch.tensor([[1.0, 0.0]]).log()
    >>> nll(sure, [1]), round(nll(sure, [1], floor=FLOOR), 4)
    (inf, 16.6355)
    """
    classes_N = _checked(log_mean_N_C, labels_N)
    if not 0 <= floor < 1:
        raise ValueError(f"floor: expected a probability of at least 0 and below 1, found {floor}")
    log_likelihood_N = log_mean_N_C.gather(-1, classes_N[:, None]).double()
    if floor and bool(log_likelihood_N.isneginf().any()):
        least = float(log_mean_N_C.masked_fill(log_mean_N_C.isneginf(), 0.0).min())  # of what was held possible
        log_likelihood_N = log_likelihood_N.clamp(min=min(math.log(floor), least))
    return float(0.0 - log_likelihood_N.mean())


def brier(log_mean_N_C: Tensor, labels_N: Rows) -> float:
    """The mean squared distance of predicted probabilities from the label as a one-hot vector, from 0 to 2.

    >>> round(brier(torch.tensor([[0.9, 0.1], [0.5, 0.5]]).log(), [0, 1]), 4)  # (0.02 + 0.5) / 2
    0.26
    """
    classes_N = _checked(log_mean_N_C, labels_N)

    def work(part: slice) -> Tensor:
        p_n_C = log_mean_N_C[part].double().exp()
        return (p_n_C - torch.nn.functional.one_hot(classes_N[part], p_n_C.shape[1])).square().sum(-1)

    return float(chunked(work, len(classes_N), 40 * log_mean_N_C.shape[1], log_mean_N_C.device).mean())


def _checked(log_mean_N_C: Tensor, labels: Any) -> Tensor:
    labels_N = as_tensor(labels, "labels_N").to(log_mean_N_C.device)
    if log_mean_N_C.ndim != 2 or len(log_mean_N_C) == 0:
        raise ValueError(
            f"log_mean_N_C: expected points × classes, at least one point, found shape {list(log_mean_N_C.shape)}"
        )
    classes_N = class_labels(labels_N, len(log_mean_N_C), log_mean_N_C.shape[1], "labels_N")
    if bool(log_mean_N_C.isnan().any()):
        raise ValueError("log_mean_N_C: holds nan; look for a diverged model or bad inputs")
    return classes_N
