"""Disagreement: how often two draws of a model give different answers, which is the error that the model predicts of
itself.

An answer is drawn from the prediction, not its most probable class. With p̄ = Σ_k w_k p_k:

    disagreement of two members    1 − E_x Σ_c p_j(c) p_k(c)                               pairwise_disagreement
    over all pairs (V)             1 − ‖p̄‖²                                                a draw may meet itself
    over distinct pairs (U)        1 − (‖p̄‖² − Σ_k w_k² ‖p_k‖²) / (1 − Σ_k w_k²)           as of two trained networks
    U − V                          I'/(K − 1) for equal weights, I' = Σ_c Var_k[p_kc]
    predicted error                1 − E Σ_c p̄(c)²          V, averaged over points
    sampling error                 1 − E p̄(y)               the chance that a drawn answer is wrong

Where a model is class-aggregated calibrated the last two are equal, and the error can be read off without labels
(Jiang et al. 2022). How far apart they are is bounded by the class-aggregated calibration error, of which labels are
needed again:

    |sampling error − predicted error| ≤ (1 − 1/B) · CACE_B / 2 + (sampling error) / B     B bins of equal width
                                       ≤ CACE / 2                                          exact levels

Without the second term the bound fails for coarse bins: one bin makes CACE_B 0.  docs/theory/calibration.md, 1, 2 and
4; Kirsch & Gal 2022.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from natsel.beliefs.arrays import ArrayLike, as_tensor, is_half
from natsel.beliefs.categorical import normalised
from natsel.evaluation.calibration import CalibrationError, calibration_error
from natsel.evaluation.probability_rows import labelled_rows, probability_rows
from natsel.information.class_labels import class_labels
from natsel.information.linear_information import chance_of_unequal
from natsel.information.mutual import normalised_log_weights
from natsel.memory import chunked, rows_per_chunk
from natsel.options import Rows

Statistic = Literal["V", "U"]


@dataclass(frozen=True)
class DisagreementGap:
    """The error of drawn answers, the one that the model predicts of itself, and what bounds their distance."""

    sampling_error: float
    predicted_error: float
    cace: CalibrationError

    @property
    def gap(self) -> float:
        """|sampling error − predicted error|."""
        return abs(self.sampling_error - self.predicted_error)

    @property
    def bound(self) -> float:
        """What the gap is never above."""
        half = self.cace.value / 2
        if self.cace.binning == "levels":
            return half
        return (1 - 1 / self.cace.bins) * half + self.sampling_error / self.cace.bins


def disagreement_rate(
    log_probs_N_K_C: Rows, log_weights_K: ArrayLike | None = None, statistic: Statistic = "V"
) -> Tensor:
    """The chance that answers of two draws differ, one value per point.

    "V" over all pairs of draws, "U" over distinct ones.

    >>> disagreement_rate(torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]).log())
    tensor([0.5000], dtype=torch.float64)
    >>> disagreement_rate(torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]).log(), statistic="U")
    tensor([1.], dtype=torch.float64)
    """
    log_probs_N_K_C, weights_K = _checked(log_probs_N_K_C, log_weights_K)
    if statistic not in ("V", "U"):
        raise ValueError(f"statistic: expected 'V' or 'U', found {statistic!r}; 'V' is the default")
    distinct = float(1 - weights_K.square().sum())
    if statistic == "U" and distinct < 1e-12:
        raise ValueError("statistic: 'U' compares distinct draws, found one with all the weight; pass 'V'")

    def work(part: slice) -> Tensor:
        p_n_K_C = log_probs_N_K_C[part].double().exp()
        all_n = chance_of_unequal((p_n_K_C * weights_K[:, None]).sum(1))
        if statistic == "V":
            return all_n
        return (all_n - chance_of_unequal(p_n_K_C) @ weights_K.square()) / distinct

    return _over_points(work, log_probs_N_K_C)


def pairwise_disagreement(log_probs_N_K_C: Rows) -> Tensor:
    """1 − E_x Σ_c p_j(c) p_k(c) for every pair of draws, as K_K: the chance that their answers differ.

    On the diagonal a draw meets itself: 0 for one-hot members only. O(N·K²·C).

    >>> pairwise_disagreement(torch.tensor([[[1.0, 0.0], [0.5, 0.5]]]).log())
    tensor([[0.0000, 0.5000],
            [0.5000, 0.5000]], dtype=torch.float64)
    """
    log_probs_N_K_C, _ = _checked(log_probs_N_K_C)
    points, draws, classes = log_probs_N_K_C.shape
    equal_K_K = log_probs_N_K_C.new_zeros((draws, draws), dtype=torch.float64)
    for part_n_K_C in torch.split(log_probs_N_K_C, rows_per_chunk(24 * draws * classes, log_probs_N_K_C.device)):
        p_K_nC = part_n_K_C.double().exp().transpose(0, 1).reshape(draws, -1)
        equal_K_K += p_K_nC @ p_K_nC.T
    same: Tensor = equal_K_K / points
    return 1 - same


def one_hot_members(log_probs_N_K_C: Rows) -> Tensor:
    """Every member sure of its most probable class (the first of equals), in log probabilities.

    >>> one_hot_members(torch.tensor([[[0.7, 0.3], [0.5, 0.5]]]).log())
    tensor([[[0., -inf],
             [0., -inf]]])
    """
    log_probs_N_K_C, _ = _checked(log_probs_N_K_C)
    return torch.full_like(log_probs_N_K_C, -torch.inf).scatter_(-1, log_probs_N_K_C.argmax(-1, keepdim=True), 0.0)


def member_sampling_errors(log_probs_N_K_C: Rows, labels_N: Rows) -> Tensor:
    """1 − E p_k(y), one value per draw; their weighted mean is the sampling error of the averaged prediction.

    >>> member_sampling_errors(torch.tensor([[[0.75, 0.25], [0.5, 0.5]]]).log(), [0])
    tensor([0.2500, 0.5000], dtype=torch.float64)
    """
    log_probs_N_K_C, _ = _checked(log_probs_N_K_C)
    points, draws, classes = log_probs_N_K_C.shape
    labels_N = as_tensor(labels_N, "labels_N").to(log_probs_N_K_C.device)
    labels_N = class_labels(labels_N, points, classes, "labels_N")
    seen_N_K = log_probs_N_K_C.gather(2, labels_N[:, None, None].expand(-1, draws, 1)).squeeze(2)
    seen_K: Tensor = seen_N_K.double().exp().mean(0)
    return 1 - seen_K


def predicted_error(probs_N_C: Any) -> float:
    """1 − E Σ_c p(c)²: how often a model expects that an answer drawn from its prediction is wrong. Needs no labels.

    >>> predicted_error([[0.2, 0.8]])
    0.32...
    """
    table_N_C = probability_rows(probs_N_C)
    return float(_over_points(lambda part: chance_of_unequal(table_N_C[part].double()), table_N_C).mean())


def sampling_error(probs_N_C: Any, labels_N: Rows) -> float:
    """1 − E p(y): how often an answer drawn from the prediction is wrong. Not the error of the most probable class.

    >>> sampling_error([[0.25, 0.75]], [0])
    0.75
    """
    table_N_C, classes_N = labelled_rows(probs_N_C, labels_N)
    return float(1 - table_N_C.gather(1, classes_N[:, None]).double().mean())


def disagreement_gap(probs_N_C: Any, labels_N: Rows, bins: int = 15, levels: int | None = None) -> DisagreementGap:
    """How far the error is from the one that the model predicts of itself, and what bounds that.

    `levels=K` for the mean of K one-hot members: the bound is then free of bins.

    >>> found = disagreement_gap([[1.0, 0.0], [1.0, 0.0]], [0, 1], levels=1)
    >>> found.gap, found.bound
    (0.5, 0.5)
    """
    cace = calibration_error(probs_N_C, labels_N, "cace", bins, levels=levels)
    return DisagreementGap(sampling_error(probs_N_C, labels_N), predicted_error(probs_N_C), cace)


def _checked(log_probs_N_K_C: Any, log_weights_K: Any = None) -> tuple[Tensor, Tensor]:
    """The table and the weights of draws in float64, if the table holds log probabilities of at least one point."""
    half, log_probs_N_K_C = is_half(log_probs_N_K_C), as_tensor(log_probs_N_K_C, "log_probs_N_K_C")
    if log_weights_K is not None:
        log_weights_K = as_tensor(log_weights_K, "log_weights_K")
    weights_K = normalised_log_weights(log_probs_N_K_C[:0].double(), log_weights_K).exp()
    if bool(weights_K.isnan().any()):
        raise ValueError("log_weights_K: found NaN, +inf or -inf for all draws; pass the logs of their weights")
    if len(log_probs_N_K_C) == 0:
        raise ValueError("log_probs_N_K_C: found no points; pass at least one")
    most = float(log_probs_N_K_C.max())
    if not most <= 1e-4:  # NaN too
        raise ValueError(f"log_probs_N_K_C: expected log probabilities, found {most:g}; pass the log of probabilities")
    return normalised(log_probs_N_K_C, half, "log_probs_N_K_C"), weights_K


def _over_points(work: Callable[[slice], Tensor], table: Tensor) -> Tensor:
    """`work` on chunks of points, with five tables of float64 alive at a time."""
    return chunked(work, len(table), 40 * table[0].numel(), table.device)
