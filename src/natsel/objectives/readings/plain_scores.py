"""Plain scores of each kind of belief."""

import math

import torch
from torch import Tensor

from natsel import information as info
from natsel.beliefs import Belief, CategoricalSamples, ClassProbabilities, GaussianFeatures, GaussianSamples
from natsel.information.mutual import share_of_others
from natsel.memory import chunked
from natsel.objectives.objective import Argument, Bound
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
from natsel.objectives.reading import Context, PairFacts
from natsel.objectives.readings.gaussian.gaussian_points import MOMENTS, points_of
from natsel.objectives.readings.pointwise import pointwise

_BALD, _ENTROPY, _LN_2 = "I[Y;Omega|x,D]", "H[Y|x,D]", math.log(2)
# For d = p_k − p̄, which sums to 0: |d|² ≤ ½ (Σ|d_c|)² ≤ KL(p_k ‖ p̄), and the mean over draws is the bound.
_PINSKER = "Pinsker's inequality"

_CLASSES = PairFacts(cost="N·C")
_SIGNED = PairFacts(nonnegative=False)
_KNOWN = PairFacts(needs=Argument.LABELS, needs_draws=True)


def draws(belief: CategoricalSamples | ClassProbabilities) -> tuple[Tensor, Tensor | None]:
    """What scores of class predictions are computed from: log_probs_N_K_C and log_weights_K."""
    if isinstance(belief, ClassProbabilities):
        return belief.log_probs_N_1_C, None
    return belief.log_probs_N_K_C, belief.log_weights_K


def _entropy_of_classes(
    objective: Entropy, belief: CategoricalSamples | ClassProbabilities, context: Context[Belief]
) -> Tensor:
    return info.predictive_entropy(*draws(belief))


pointwise(Entropy, ClassProbabilities, _CLASSES)(_entropy_of_classes)
pointwise(Entropy, CategoricalSamples)(_entropy_of_classes)


@pointwise(Entropy, GaussianSamples, PairFacts(guarantee="upper", why=MOMENTS, nonnegative=False))
def _entropy_of_draws(objective: Entropy, belief: GaussianSamples, context: Context[Belief]) -> Tensor:
    points = points_of(belief)
    return info.normal_entropy(points.start_N + points.noise_N)


@pointwise(Entropy, GaussianFeatures, PairFacts(nonnegative=False, cost="N·D"))
def _entropy_of_features(objective: Entropy, belief: GaussianFeatures, context: Context[Belief]) -> Tensor:
    points = points_of(belief)
    return info.normal_entropy(points.start_N + points.noise_N)


@pointwise(ExpectedEntropy, CategoricalSamples)
def _expected_entropy_of_classes(
    objective: ExpectedEntropy, belief: CategoricalSamples, context: Context[Belief]
) -> Tensor:
    return info.conditional_entropy(*draws(belief))


@pointwise(ExpectedEntropy, GaussianSamples, _SIGNED)
def _expected_entropy_of_draws(objective: ExpectedEntropy, belief: GaussianSamples, context: Context[Belief]) -> Tensor:
    variance_N_K, weights_K = belief.variance_N_K, belief.log_weights_K.exp()
    return chunked(
        lambda part: info.normal_entropy(variance_N_K[part].double()) @ weights_K,
        len(belief),
        32 * len(weights_K),
        belief.device,
    )


@pointwise(ExpectedEntropy, GaussianFeatures, PairFacts(nonnegative=False, cost="N"))
def _expected_entropy_of_features(
    objective: ExpectedEntropy, belief: GaussianFeatures, context: Context[Belief]
) -> Tensor:
    return info.normal_entropy(belief.noise_N)


_HELLMAN = Bound(_ENTROPY, "lower", factor=2 * _LN_2, vanishes=True, why="Hellman & Raviv 1970")


def _variation_ratio(
    objective: VariationRatio, belief: CategoricalSamples | ClassProbabilities, context: Context[Belief]
) -> Tensor:
    return share_of_others(info.log_mean(*draws(belief)).exp())


pointwise(VariationRatio, ClassProbabilities, PairFacts(bounds=(_HELLMAN,), cost="N·C"))(_variation_ratio)
pointwise(VariationRatio, CategoricalSamples, PairFacts(bounds=(_HELLMAN,)))(_variation_ratio)


_CLOSE = Bound(_ENTROPY, "lower", factor=_LN_2, vanishes=True, why="p2 ≤ 1 − p1; Hellman & Raviv 1970")


def _margin(objective: Margin, belief: CategoricalSamples | ClassProbabilities, context: Context[Belief]) -> Tensor:
    mean_N_C = info.log_mean(*draws(belief)).exp()
    if mean_N_C.shape[1] == 1:
        return torch.zeros_like(mean_N_C[:, 0])
    return (share_of_others(mean_N_C) + mean_N_C.topk(2).values[:, 1]).clamp_(0, 1)


pointwise(Margin, ClassProbabilities, PairFacts(bounds=(_CLOSE,), cost="N·C"))(_margin)
pointwise(Margin, CategoricalSamples, PairFacts(bounds=(_CLOSE,)))(_margin)


def _spread(classes: int) -> PairFacts:
    bound = Bound(_BALD, "lower", power=2, classes=classes, vanishes=True, why=f"Cauchy & Schwarz, {_PINSKER}")
    return PairFacts(needs_draws=True, bounds=(bound,))


@pointwise(StdDev, CategoricalSamples, _spread(-1))
def _std_dev_of_draws(objective: StdDev, belief: CategoricalSamples, context: Context[Belief]) -> Tensor:
    return info.standard_deviation(*draws(belief))


@pointwise(MeanStd, CategoricalSamples, _spread(1))
def _mean_std_of_draws(objective: MeanStd, belief: CategoricalSamples, context: Context[Belief]) -> Tensor:
    return info.standard_deviation(*draws(belief)) / belief.shape[2]


@pointwise(
    Variance,
    CategoricalSamples,
    PairFacts(needs_draws=True, bounds=(Bound(_BALD, "lower", vanishes=True, why=_PINSKER),)),
)
def _variance_of_classes(objective: Variance, belief: CategoricalSamples, context: Context[Belief]) -> Tensor:
    return info.variance(*draws(belief))


@pointwise(Variance, GaussianSamples, PairFacts(needs_draws=True))
def _variance_of_draws(objective: Variance, belief: GaussianSamples, context: Context[Belief]) -> Tensor:
    return points_of(belief).start_N


@pointwise(Variance, GaussianFeatures, PairFacts(conditions=True, cost="N·D"))
def _variance_of_features(objective: Variance, belief: GaussianFeatures, context: Context[Belief]) -> Tensor:
    return points_of(belief).start_N


@pointwise(Random, Belief, PairFacts(cost="N"))
def _random(objective: Random, belief: Belief, context: Context[Belief]) -> Tensor:
    return torch.rand(len(belief), generator=context.generator, dtype=torch.float64).to(belief.device)


@pointwise(InformationGain, CategoricalSamples, PairFacts(needs=Argument.LABELS, needs_draws=True, nonnegative=False))
def _information_gain(objective: InformationGain, belief: CategoricalSamples, context: Context[Belief]) -> Tensor:
    return info.information_gain(belief.log_probs_N_K_C, context.labels_N, belief.log_weights_K)


@pointwise(Surprise, CategoricalSamples, _KNOWN)
def _surprise(objective: Surprise, belief: CategoricalSamples, context: Context[Belief]) -> Tensor:
    return info.surprise(belief.log_probs_N_K_C, context.labels_N, belief.log_weights_K)
