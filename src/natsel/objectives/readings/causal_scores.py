"""Causal scores, read from beliefs about both potential outcomes.

    I[Y_t; τ] = −½ ln(1 − r²),   r² = Cov(μ_t, τ)² / (V[τ] (V[μ_t] + noise))        jointly Gaussian
    sign error: h(E γ) − E h(γ),  γ_ω = Φ(−|τ_ω| / √(noise⁰ + noise¹)),  h(q) = −q ln q − (1 − q) ln(1 − q)

With draws, expectations are means over draws. Where both arms are jointly Gaussian, τ ~ N(mean, V[τ]) and they are
means over its quantiles: γ has a kink at 0, which polynomials do not follow.
docs/theory/causal-bald.md, 3 and 4; Jesson et al. 2021; Sundin et al. 2019.
"""

import math

import torch
from torch import Tensor

from natsel.beliefs import Belief
from natsel.beliefs.potential_outcomes import GaussianPotentialOutcomes, PotentialOutcomes, TwoArms
from natsel.memory import chunked
from natsel.objectives.causal import (
    ArmVariances,
    CounterfactualPropensity,
    EffectInformation,
    EffectRatio,
    EffectVariance,
    OutcomeEffectRatio,
    OutcomeOverlap,
    OutcomeVariance,
    SignErrorInformation,
)
from natsel.objectives.objective import Objective
from natsel.objectives.reading import Context, PairFacts
from natsel.objectives.readings.pointwise import pointwise

_LEAST = 1e-7  # added inside of logarithms, as published
_NODES = 512
_OF_ARMS = PairFacts(nonnegative=False, cost="N·K")


def _of_arms(objective: Objective, belief: TwoArms, context: Context[TwoArms]) -> Tensor:
    if not isinstance(objective, ArmVariances):
        raise TypeError(f"objective: {type(objective).__name__} is no sum of logarithms of variances")
    score_N = torch.zeros(len(belief), dtype=torch.float64, device=belief.device)
    if objective.overlap:
        score_N += objective.overlap * (belief.other_propensity_N + _LEAST).log()
    if objective.received or objective.effect or objective.other:
        moments = belief.arm_moments()
        score_N += objective.received * (moments.received_N + _LEAST).log()
        score_N += objective.effect * (moments.effect_N + _LEAST).log()
        score_N += objective.other * (moments.other_N + _LEAST).log()
    return score_N


_OBJECTIVES: tuple[type[Objective], ...] = (
    *(OutcomeVariance, EffectVariance, EffectRatio),
    *(OutcomeEffectRatio, OutcomeOverlap, CounterfactualPropensity),
)
for _objective in _OBJECTIVES:
    pointwise(_objective, PotentialOutcomes, _OF_ARMS)(_of_arms)
    pointwise(_objective, GaussianPotentialOutcomes, _OF_ARMS)(_of_arms)


@pointwise(EffectInformation, GaussianPotentialOutcomes, PairFacts(cost="N·K"))
def _effect_information(
    objective: EffectInformation, belief: GaussianPotentialOutcomes, context: Context[Belief]
) -> Tensor:
    moments = belief.arm_moments()
    total_N = moments.effect_N * (moments.received_N + moments.noise_N)
    shared_N = (moments.with_effect_N.square() / total_N).nan_to_num(0).clamp(0, 1)
    # An effect that is known leaves nothing to learn, whatever the rounding says.
    return torch.where(moments.effect_N > 0, -0.5 * torch.log1p(-shared_N), torch.zeros_like(shared_N))


@pointwise(SignErrorInformation, PotentialOutcomes, PairFacts(cost="N·K"))
def _sign_error(objective: SignErrorInformation, belief: PotentialOutcomes, context: Context[Belief]) -> Tensor:
    weights_K = belief.log_weights_K.exp()

    def work(part: slice) -> Tensor:
        effect_n_K = belief.mean1_N_K[part].double() - belief.mean0_N_K[part].double()
        noise_n_K = belief.variance0_N_K[part].double() + belief.variance1_N_K[part].double()
        return sign_error_information(effect_n_K, noise_n_K, weights_K)

    return chunked(work, len(belief), 96 * belief.n_draws, belief.device)


@pointwise(SignErrorInformation, GaussianPotentialOutcomes, PairFacts(cost="N·K"))
def _gaussian_sign_error(
    objective: SignErrorInformation, belief: GaussianPotentialOutcomes, context: Context[Belief]
) -> Tensor:
    middle_K = (torch.arange(_NODES, dtype=torch.float64, device=belief.device) + 0.5) / _NODES
    node_K, weights_K = torch.special.ndtri(middle_K), torch.full_like(middle_K, 1 / _NODES)
    spread_N, noise_N = belief.arm_moments().effect_N.sqrt(), belief.noise0 + belief.noise1

    def work(part: slice) -> Tensor:
        effect_n_K = belief.effect_N[part, None] + spread_N[part, None] * node_K
        return sign_error_information(effect_n_K, noise_N[part, None], weights_K)

    return chunked(work, len(belief), 96 * _NODES, belief.device)


def sign_error_information(effect_n_K: Tensor, noise_n_K: Tensor, weights_K: Tensor) -> Tensor:
    """h(E γ) − E h(γ) of each point, from its effect under each draw and the variance of the noise of both outcomes.

    >>> effect_1_2, noise_1_1, alike_2 = torch.tensor([[1.0, -1.0]]), torch.ones(1, 1), torch.full((2,), 0.5)
    >>> sign_error_information(effect_1_2, noise_1_1, alike_2).item()
    0.0
    """
    wrong_n_K: Tensor = torch.special.ndtr(-effect_n_K.abs() / (noise_n_K + _LEAST).sqrt())
    information_n = _entropy_of(wrong_n_K @ weights_K) - _entropy_of(wrong_n_K) @ weights_K
    return information_n.clamp(0, math.log(1.25))


def _entropy_of(prob: Tensor) -> Tensor:
    entropy: Tensor = -(torch.xlogy(prob, prob) + torch.special.xlog1py(1 - prob, -prob))
    return entropy
