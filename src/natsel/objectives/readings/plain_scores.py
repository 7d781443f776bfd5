"""Plain scores of each kind of belief."""

import torch
from torch import Tensor

from natsel import information as info
from natsel.beliefs import Belief, CategoricalSamples, GaussianFeatures, GaussianSamples
from natsel.information.mutual import share_of_others
from natsel.memory import chunked
from natsel.objectives.objective import Reading
from natsel.objectives.plain import (
    Entropy,
    ExpectedEntropy,
    InformationGain,
    Margin,
    MeanStd,
    Random,
    StdDev,
    Surprise,
    Variance,
    VariationRatio,
)
from natsel.objectives.readings.gaussian.conditioned_points import points_of
from natsel.objectives.readings.pointwise import pointwise


def draws(belief: CategoricalSamples) -> tuple[Tensor, Tensor]:
    """What every score of categorical draws is computed from: log_probs_N_K_C and log_weights_K."""
    return belief.log_probs_N_K_C, belief.log_weights_K


@pointwise(Entropy, CategoricalSamples)
def _entropy_of_draws(objective: Entropy, belief: CategoricalSamples, reading: Reading) -> Tensor:
    return info.predictive_entropy(*draws(belief))


@pointwise(Entropy, GaussianSamples, GaussianFeatures)
def _entropy_of_gaussian(objective: Entropy, belief: GaussianSamples | GaussianFeatures, reading: Reading) -> Tensor:
    points = points_of(belief)
    return info.normal_entropy(points.start_N + points.noise_N)


@pointwise(ExpectedEntropy, CategoricalSamples)
def _expected_entropy_of_draws(objective: ExpectedEntropy, belief: CategoricalSamples, reading: Reading) -> Tensor:
    return info.conditional_entropy(*draws(belief))


@pointwise(ExpectedEntropy, GaussianSamples)
def _expected_entropy_of_gaussian(objective: ExpectedEntropy, belief: GaussianSamples, reading: Reading) -> Tensor:
    variance_N_K, weights_K = belief.variance_N_K, belief.log_weights_K.exp()
    return chunked(
        lambda part: info.normal_entropy(variance_N_K[part].double()) @ weights_K,
        len(belief),
        32 * len(weights_K),
        belief.device,
    )


@pointwise(ExpectedEntropy, GaussianFeatures)
def _expected_entropy_of_features(objective: ExpectedEntropy, belief: GaussianFeatures, reading: Reading) -> Tensor:
    return info.normal_entropy(belief.noise_N)


@pointwise(VariationRatio, CategoricalSamples)
def _variation_ratio_of_draws(objective: VariationRatio, belief: CategoricalSamples, reading: Reading) -> Tensor:
    return share_of_others(info.log_mean(*draws(belief)).exp())


@pointwise(Margin, CategoricalSamples)
def _margin_of_draws(objective: Margin, belief: CategoricalSamples, reading: Reading) -> Tensor:
    mean_N_C = info.log_mean(*draws(belief)).exp()
    if belief.shape[2] == 1:
        return torch.zeros_like(mean_N_C[:, 0])
    return (share_of_others(mean_N_C) + mean_N_C.topk(2).values[:, 1]).clamp_(0, 1)


@pointwise(StdDev, CategoricalSamples)
def _std_dev_of_draws(objective: StdDev, belief: CategoricalSamples, reading: Reading) -> Tensor:
    return info.standard_deviation(*draws(belief))


@pointwise(MeanStd, CategoricalSamples)
def _mean_std_of_draws(objective: MeanStd, belief: CategoricalSamples, reading: Reading) -> Tensor:
    return info.standard_deviation(*draws(belief)) / belief.shape[2]


@pointwise(Variance, CategoricalSamples)
def _variance_of_draws(objective: Variance, belief: CategoricalSamples, reading: Reading) -> Tensor:
    return info.variance(*draws(belief))


@pointwise(Variance, GaussianSamples, GaussianFeatures)
def _variance_of_gaussian(objective: Variance, belief: GaussianSamples | GaussianFeatures, reading: Reading) -> Tensor:
    return points_of(belief).start_N


@pointwise(Random, CategoricalSamples, GaussianSamples, GaussianFeatures)
def _random_of_any_belief(objective: Random, belief: Belief, reading: Reading) -> Tensor:
    return torch.rand(len(belief), generator=reading.generator, dtype=torch.float64).to(belief.device)


@pointwise(InformationGain, CategoricalSamples)
def _information_gain_of_draws(objective: InformationGain, belief: CategoricalSamples, reading: Reading) -> Tensor:
    assert reading.labels_N is not None
    return info.information_gain(belief.log_probs_N_K_C, reading.labels_N, belief.log_weights_K)


@pointwise(Surprise, CategoricalSamples)
def _surprise_of_draws(objective: Surprise, belief: CategoricalSamples, reading: Reading) -> Tensor:
    assert reading.labels_N is not None
    return info.surprise(belief.log_probs_N_K_C, reading.labels_N, belief.log_weights_K)
