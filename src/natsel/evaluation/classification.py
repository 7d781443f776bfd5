"""How good class predictions are, from the log of the mean predictive.

    accuracy = share of points whose label is arg max_c p̄(c | x)
    nll      = − mean_n log p̄(y_n | x_n)                              in nats, lower is better

p̄ averages over draws before the logarithm: it is the committee that is judged, not its members.
"""

from typing import Any

import torch
from torch import Tensor

from natsel.information.class_labels import class_labels


def accuracy(log_mean_N_C: Tensor, labels_N: Any) -> float:
    """The share of labels that the most probable class names.

    >>> accuracy(torch.tensor([[0.9, 0.1], [0.2, 0.8]]).log(), [0, 0])
    0.5
    """
    classes_N = _checked(log_mean_N_C, labels_N)
    return float((log_mean_N_C.argmax(-1) == classes_N).double().mean())


def nll(log_mean_N_C: Tensor, labels_N: Any) -> float:
    """The mean negative log likelihood in nats: infinite where a label was held impossible.

    >>> round(nll(torch.tensor([[0.5, 0.5]]).log(), [1]), 4)
    0.6931
    """
    classes_N = _checked(log_mean_N_C, labels_N)
    return float(-log_mean_N_C.gather(-1, classes_N[:, None]).double().mean())


def _checked(log_mean_N_C: Tensor, labels: Any) -> Tensor:
    labels_N: Tensor = torch.as_tensor(labels, device=log_mean_N_C.device)
    if log_mean_N_C.ndim != 2 or len(log_mean_N_C) == 0:
        raise ValueError(
            f"log_mean_N_C: expected points × classes, at least one point, found shape {list(log_mean_N_C.shape)}"
        )
    classes_N = class_labels(labels_N, len(log_mean_N_C), log_mean_N_C.shape[1], "labels_N")
    if bool(log_mean_N_C.isnan().any()):
        raise ValueError("log_mean_N_C: holds nan; look for a diverged model or bad inputs")
    return classes_N
