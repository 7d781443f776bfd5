"""How good a fitted model is on the test examples, by what its belief is made of.

classes      accuracy and nll of the mean predictive
numbers      rmse and nll of the mixture of draws, or of the one Gaussian
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from natsel import evaluation as measure
from natsel.beliefs import Belief, CategoricalSamples, GaussianFeatures, GaussianSamples
from natsel.information import log_mean


def evaluate(belief: Belief, labels: Any) -> dict[str, float]:
    """The metrics of a belief about examples with these labels; none for a belief that predicts no labels.

    >>> evaluate(CategoricalSamples.from_probs([[[0.5, 0.5]], [[0.0, 1.0]]]), [0, 1])["accuracy"]
    1.0
    """
    if isinstance(belief, CategoricalSamples):
        log_mean_N_C = _with_classes(predictive(belief), labels)
        return {"accuracy": measure.accuracy(log_mean_N_C, labels), "nll": measure.nll(log_mean_N_C, labels)}
    if isinstance(belief, GaussianSamples):
        mean_N = belief.mean_N_K.double() @ belief.log_weights_K.exp()
        nll = measure.gaussian_nll(belief.mean_N_K, belief.variance_N_K, labels, belief.log_weights_K)
        return {"rmse": measure.rmse(mean_N, labels), "nll": nll}
    if isinstance(belief, GaussianFeatures):
        variance_N = belief.features_N_D.double().square().sum(1) + belief.noise_N
        nll = measure.gaussian_nll(belief.mean_N[:, None], variance_N[:, None], labels)
        return {"rmse": measure.rmse(belief.mean_N, labels), "nll": nll}
    return {}


def predictive(belief: CategoricalSamples) -> Tensor:
    """log p(y|x), averaged over the draws.

    >>> predictive(CategoricalSamples.from_probs([[[1.0, 0.0], [0.0, 1.0]]])).exp().tolist()
    [[0.5, 0.5]]
    """
    return log_mean(belief.log_probs_N_K_C, belief.log_weights_K)


def _with_classes(log_mean_N_C: Tensor, labels: Any) -> Tensor:
    """Classes that a model has not heard of yet have probability 0."""
    missing = int(np.max(np.asarray(labels), initial=-1)) + 1 - log_mean_N_C.shape[1]
    return torch.nn.functional.pad(log_mean_N_C, (0, missing), value=-torch.inf) if missing > 0 else log_mean_N_C
