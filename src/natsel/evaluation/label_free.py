"""How many errors to expect on data without labels.

    disagreement   E Dis, the error that the model predicts of itself                        (Jiang et al. 2022)
    ATC            the share of points whose score is below a threshold t; t is chosen on labelled validation data so
                   that this share is the error there                                        (Garg et al. 2022)
    DOCTOR         α: 1 − Σ_c p(c)²,   β: 1 − max_c p(c)                                     (Granese et al. 2021)

ATC takes scores that are higher for surer points: the largest probability, or minus the entropy. With m of N
validation points wrong, t is the (m + 1)-th smallest score (+inf for m = N), and below means strictly below. DOCTOR is
published as odds, α/(1 − α), which rank points alike; as a probability its mean is an estimate of the error, α that of
drawn answers and β that of the most probable class.

All three rest on calibration, which is lost under shift, and without labels nobody sees how far.
docs/theory/calibration.md, 7.
"""

from typing import Any

import numpy as np
from torch import Tensor

from natsel.beliefs.arrays import ArrayLike
from natsel.evaluation.disagreement import Statistic, disagreement_rate
from natsel.evaluation.probability_rows import one_per_point, probability_rows
from natsel.information.linear_information import chance_of_unequal
from natsel.information.mutual import share_of_others
from natsel.memory import chunked
from natsel.options import Rows


def disagreement_error(
    log_probs_N_K_C: Rows, log_weights_K: ArrayLike | None = None, statistic: Statistic = "V"
) -> float:
    """The error that disagreement predicts: E Dis over points, of drawn answers.

    >>> import torch
    >>> disagreement_error(torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]).log())
    0.5
    """
    return float(disagreement_rate(log_probs_N_K_C, log_weights_K, statistic).mean())


def atc_threshold(scores_N: Any, correct_N: Any) -> float:
    """The score below which as many validation points lie as are wrong; tied scores can leave fewer below it.

    >>> atc_threshold([0.9, 0.4, 0.6, 0.7], [True, False, True, True])
    0.6
    """
    ordered_N = np.sort(one_per_point(scores_N, "scores_N"))
    correct_N = one_per_point(correct_N, "correct_N")
    if len(correct_N) != len(ordered_N) or not bool(np.isin(correct_N, (0, 1)).all()):
        raise ValueError(f"correct_N: expected true or false for each of {len(ordered_N)} scores; pass one per point")
    wrong = len(correct_N) - int(correct_N.sum())
    return float(ordered_N[wrong]) if wrong < len(ordered_N) else np.inf


def atc_error(scores_M: Any, threshold: float) -> float:
    """The predicted error of points by their scores: the share strictly below the threshold.

    >>> atc_error([0.3, 0.55, 0.6, 0.8], threshold=0.6)
    0.5
    """
    if not isinstance(threshold, int | float) or threshold != threshold:
        raise ValueError(f"threshold: expected a number, found {threshold!r}; pass what atc_threshold gives")
    return float((one_per_point(scores_M, "scores_M") < threshold).mean())


def doctor_alpha(probs_N_C: Any) -> Tensor:
    """1 − Σ_c p(c)², one value per point: the predicted chance that a drawn answer is wrong.

    >>> doctor_alpha([[0.5, 0.5], [1.0, 0.0]])
    tensor([0.5000, 0.0000], dtype=torch.float64)
    """
    table_N_C = probability_rows(probs_N_C)
    return chunked(
        lambda part: chance_of_unequal(table_N_C[part].double()),
        len(table_N_C),
        40 * table_N_C.shape[1],
        table_N_C.device,
    )


def doctor_beta(probs_N_C: Any) -> Tensor:
    """1 − max_c p(c), one value per point: the predicted chance that the most probable class is wrong.

    >>> doctor_beta([[0.75, 0.25], [1.0, 0.0]])
    tensor([0.2500, 0.0000], dtype=torch.float64)
    """
    table_N_C = probability_rows(probs_N_C)
    return chunked(
        lambda part: share_of_others(table_N_C[part].double()),
        len(table_N_C),
        24 * table_N_C.shape[1],
        table_N_C.device,
    )
