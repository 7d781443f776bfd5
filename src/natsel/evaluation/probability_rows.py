"""Tables of probabilities and columns of scores as they are judged, or a sentence that says what is wrong with them.

Values keep their type (float32 is widened where it is used, chunk by chunk); lists and NumPy arrays keep all digits.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from natsel.beliefs.arrays import as_tensor
from natsel.information.class_labels import class_labels
from natsel.memory import rows_per_chunk
from natsel.options import Rows

_ROUNDING = 1e-4
"""By how much a row may miss the sum of 1; half precision misses it by more and has to be normalised before."""

Floats = np.ndarray[Any, np.dtype[np.float64]]


def probability_rows(probs_N_C: Any, name: str = "probs_N_C") -> Tensor:
    """The table as a float tensor, if each of its rows is a distribution over classes.

    >>> probability_rows([[0.5, 0.5]]).dtype
    torch.float64
    >>> probability_rows([[-0.7, -0.7]])
    Traceback (most recent call last):
    ValueError: probs_N_C: expected probabilities, found -0.7; pass exp of log probabilities, or the softmax of logits
    """
    table_N_C = as_tensor(probs_N_C, name)
    if table_N_C.ndim != 2 or 0 in table_N_C.shape:
        shape = list(table_N_C.shape)
        raise ValueError(f"{name}: expected points × classes, found shape {shape}; pass at least one point and class")
    least, most = (float(end) for end in table_N_C.aminmax())
    if not (least >= 0 and most <= 1 + _ROUNDING):
        wrong = most if least >= 0 else least
        found = "NaN; look for a diverged model or bad inputs" if least != least else None
        found = found or f"{wrong:g}; pass exp of log probabilities, or the softmax of logits"
        raise ValueError(f"{name}: expected probabilities, found {found}")
    first = 0
    for part_n_C in torch.split(table_N_C, rows_per_chunk(16 * table_N_C.shape[1], table_N_C.device)):
        sum_n = part_n_C.double().sum(-1)
        off_n = (sum_n - 1).abs() > _ROUNDING
        if bool(off_n.any()):
            row = int(off_n.nonzero()[0])
            raise ValueError(
                f"{name}: rows must sum to 1, row {first + row} sums to {float(sum_n[row]):.6g}; divide each by its sum"
            )
        first += len(part_n_C)
    return table_N_C


def labelled_rows(probs_N_C: Any, labels_N: Rows) -> tuple[Tensor, Tensor]:
    """A table of probabilities and the class of each of its points, on one device.

    >>> labelled_rows([[0.5, 0.5]], [1])[1]
    tensor([1])
    """
    table_N_C = probability_rows(probs_N_C)
    labels_N = as_tensor(labels_N, "labels_N").to(table_N_C.device)
    return table_N_C, class_labels(labels_N, len(table_N_C), table_N_C.shape[1], "labels_N")


def one_per_point(values_N: Rows, name: str) -> Floats:
    """Scores of points in float64: one for each of at least one point, none of them NaN; ±inf is allowed.

    >>> one_per_point(torch.tensor([1.0, float("inf")]), "scores_N").tolist()
    [1.0, inf]
    """
    column = as_tensor(values_N, name).cpu().double().numpy()
    if column.ndim != 1 or len(column) == 0:
        raise ValueError(f"{name}: expected one number per point, found shape {list(column.shape)}; pass at least one")
    if bool(np.isnan(column).any()):
        point = int(np.isnan(column).argmax())
        raise ValueError(f"{name}: found NaN at point {point}; leave out points without a score")
    return column
