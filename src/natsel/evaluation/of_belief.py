"""How good a fitted model is on the test examples, by what its belief can be read as.

classes      accuracy and nll of the mean predictive; an impossible label costs 16.6 nats (`classification.FLOOR`); in
             detail also its Brier score, its calibration error "ece" in 15 bins (`calibration`) and balanced accuracy;
             of two classes the average precision of finding the rarer one
numbers      rmse and nll of the mixture of draws, or of the one Gaussian; in detail also the mean, the 95 % and 99 %
             quantile and the largest of absolute errors, and all of them again for the draws, each judged alone
"""

import math
from typing import Any

import torch
from torch import Tensor

from natsel import evaluation as measure
from natsel.beliefs import Belief, ClassProbabilities, GaussianFeatures, GaussianSamples, seen_as
from natsel.beliefs.arrays import as_tensor
from natsel.evaluation.classification import FLOOR, rare_class
from natsel.memory import require

MEMBER = "member "
"""What stands before the name of an error of the draws, each judged alone."""
ERRORS = ("mae", "rmse", "95% error", "99% error", "largest error")
"""The errors of numbers, in the order of tables."""
POSITIVES = "positives found"  # labels of a run of the rarer of two classes, by its test (else validation) examples
OF_TWO = ("average precision", POSITIVES)
METRICS = {
    False: ("accuracy", "nll", "brier", "ece", "balanced accuracy", *OF_TWO),
    True: (*ERRORS, "nll", *(f"{MEMBER}{name}" for name in ERRORS)),
}
"""What can be measured of classes, and of numbers."""


def evaluate(belief: Belief, labels: Any, *, details: bool = False) -> dict[str, float]:
    """The metrics of a belief about examples with these labels; none for a belief that predicts no labels.

    >>> from natsel.beliefs import CategoricalSamples
    >>> evaluate(CategoricalSamples.from_probs([[[0.5, 0.5]], [[0.0, 1.0]]]), [0, 1])["accuracy"]
    1.0
    >>> evaluate(CategoricalSamples.from_probs([[[1.0, 0.0]], [[1.0, 0.0]]]), [0, 1])["nll"]  # 12 ln 2
    8.317766166719343
    """
    labels, classes = belief.in_order(labels), seen_as(belief, ClassProbabilities)
    if classes is not None:
        log_probs_N_C = with_classes_of(labels, classes.log_probs_N_C)
        nll = measure.nll(log_probs_N_C, labels, floor=FLOOR)
        found = {"accuracy": measure.accuracy(log_probs_N_C, labels), "nll": nll}
        if details:
            ece = measure.calibration_error(log_probs_N_C.double().softmax(-1), labels)
            found |= {"brier": measure.brier(log_probs_N_C, labels), "ece": ece.value}
            found |= {"balanced accuracy": measure.balanced_accuracy(log_probs_N_C, labels)}
            if log_probs_N_C.shape[1] == 2 and rare_class(labels) is not None:
                found |= {"average precision": measure.average_precision(log_probs_N_C, labels)}
        return found
    draws = seen_as(belief, GaussianSamples)
    if draws is not None:
        mean_N = draws.mean_N_K.double() @ draws.log_weights_K.exp()
        nll = measure.gaussian_nll(draws.mean_N_K, draws.variance_N_K, labels, draws.log_weights_K)
        found = {"rmse": measure.rmse(mean_N, labels), "nll": nll}
        if details:
            members = measure.member_errors(draws.mean_N_K, labels, draws.log_weights_K)
            found |= measure.errors(mean_N, labels) | {f"{MEMBER}{name}": value for name, value in members.items()}
        return found
    points = seen_as(belief, GaussianFeatures)
    if points is not None:
        variance_N = points.features_N_D.double().square().sum(1) + points.noise_N
        nll = measure.gaussian_nll(points.mean_N[:, None], variance_N[:, None], labels)
        found = {"rmse": measure.rmse(points.mean_N, labels), "nll": nll}
        return found | (measure.errors(points.mean_N, labels) if details else {})
    return {}


def with_classes_of(labels: Any, log_probs_N_C: Tensor) -> Tensor:
    """Classes that a model has not heard of yet have probability 0.

    >>> with_classes_of([2], torch.tensor([[0.5, 0.5]]).log()).exp().tolist()
    [[0.5, 0.5, 0.0]]
    """
    labels_N = as_tensor(labels, "labels").flatten()
    count, classes = log_probs_N_C.shape
    most = float(labels_N.max()) if len(labels_N) else -1.0
    if not classes <= most < math.inf:  # NaN and infinity are refused where labels are read
        return log_probs_N_C
    missing = int(most) + 1 - classes
    require(8 * count * missing, f"labels: probabilities of {int(most) + 1} classes", "number the classes from 0")
    return torch.nn.functional.pad(log_probs_N_C, (0, missing), value=-torch.inf)
