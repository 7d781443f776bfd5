"""Causal scores, read from beliefs about both potential outcomes.

    I[Y_t; τ] = −½ ln(1 − r²),   r² = Cov(μ_t, τ)² / (V[τ] (V[μ_t] + noise))        jointly Gaussian
    I[Y_t; τ] = H[Y_t] − Σ_τ w_τ H(Σ_{k: τ_k = τ} w_k p_k / w_τ),   w_τ = Σ_{k: τ_k = τ} w_k     yes or no: exact
    sign error: h(E γ) − E h(γ),  γ_ω = Φ(−|τ_ω| / √(noise⁰ + noise¹)),  h(q) = −q ln q − (1 − q) ln(1 − q)

With draws, expectations are means over draws. Where both arms are jointly Gaussian, τ ~ N(mean, V[τ]), and they are
integrals over τ < 0 and over τ > 0, as γ has a kink at 0: each by Gauss-Legendre over the range in which neither γ nor
the density of τ vanishes, so that it does not matter which of the two is narrow.
docs/theory/causal-bald.md, 3 and 4; Jesson et al. 2021; Sundin et al. 2019.
"""

import math

import numpy as np
import torch
from torch import Tensor

from natsel import information as info
from natsel.beliefs import Belief
from natsel.beliefs.base import NoView
from natsel.beliefs.potential_outcomes import GaussianPotentialOutcomes, PotentialOutcomes, TwoArms, YesOrNoOutcomes
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
_NODES = 64
_FAR = 9.0, 12.0  # deviations from which on the density of the effect, and γ, are 0
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
    # Two ratios, as the products over- and underflow long before they do.
    label_N = moments.received_N + moments.noise_N
    shared_N = (moments.with_effect_N / moments.effect_N * (moments.with_effect_N / label_N)).nan_to_num(0).clamp(0, 1)
    # An effect that is known leaves nothing to learn, whatever the rounding says.
    return torch.where(moments.effect_N > 0, -0.5 * torch.log1p(-shared_N), torch.zeros_like(shared_N))


@pointwise(EffectInformation, YesOrNoOutcomes, PairFacts(needs_draws=True, cost="N·K·ln K"))
def _effect_of_yes_or_no(objective: EffectInformation, belief: YesOrNoOutcomes, context: Context[Belief]) -> Tensor:
    weights_K, rounding = belief.log_weights_K.exp(), 16 * torch.finfo(belief.mean0_N_K.dtype).eps

    def work(part: slice) -> Tensor:
        zero_n_K, one_n_K = belief.mean0_N_K[part].double(), belief.mean1_N_K[part].double()
        effect_n_K, order_n_K = (one_n_K - zero_n_K).sort(1)
        apart_n_K = effect_n_K.diff(dim=1, prepend=effect_n_K[:, :1]) > rounding
        group_n_K, none_n_K = order_n_K.scatter(1, order_n_K, apart_n_K.cumsum(1)), torch.zeros_like(zero_n_K)
        yes_n_K = weights_K * torch.where(belief.treatment_N[part, None] == 1, one_n_K, zero_n_K)
        mass_n_K = none_n_K.scatter_add(1, group_n_K, weights_K.expand_as(yes_n_K))
        mean_n_K = (none_n_K.scatter_add(1, group_n_K, yes_n_K) / mass_n_K).nan_to_num(0).clamp(0, 1)
        same_n_K = mean_n_K.gather(1, group_n_K)
        told_n = info.mutual_information(torch.stack([1 - same_n_K, same_n_K], 2).log(), belief.log_weights_K)
        return told_n * apart_n_K.any(1)

    return chunked(work, len(belief), 160 * belief.n_draws, belief.device)


@pointwise(SignErrorInformation, PotentialOutcomes, PairFacts(cost="N·K"))
def _sign_error(objective: SignErrorInformation, belief: PotentialOutcomes, context: Context[Belief]) -> Tensor:
    if belief.label_type is float:  # the noise of yes or no is known, also where there is none
        _check_noise(belief.variance0_N_K, belief.variance1_N_K)
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
    spread_N, noise_N = belief.arm_moments().effect_N.sqrt(), belief.noise0 + belief.noise1
    _check_noise(belief.noise0, belief.noise1)
    node_K, weight_K = (torch.from_numpy(one).to(belief.device) for one in np.polynomial.legendre.leggauss(_NODES))

    def work(part: slice) -> Tensor:
        mean_n, spread_n, noise_n = (every_N[part] for every_N in (belief.effect_N, spread_N, noise_N))
        return gaussian_sign_error_information(mean_n, spread_n, noise_n, node_K, weight_K)

    return chunked(work, len(belief), 8 * 96 * _NODES, belief.device)


def _check_noise(*noises: Tensor) -> None:
    """Refuse a belief without any noise."""
    if not any(bool((noise > 0).any()) for noise in noises):
        raise NoView("variance0_N_K, noise0: the noise of outcomes is not known; pass it, or use mu-rho-bald")


def sign_error_information(effect_n_K: Tensor, noise_n_K: Tensor, weights_K: Tensor) -> Tensor:
    """h(E γ) − E h(γ) of each point, from its effect under each draw and the variance of the noise of both outcomes.

    >>> effect_1_2, noise_1_1, alike_2 = torch.tensor([[1.0, -1.0]]), torch.ones(1, 1), torch.full((2,), 0.5)
    >>> sign_error_information(effect_1_2, noise_1_1, alike_2).item()
    0.0
    """
    wrong_n_K: Tensor = torch.special.ndtr(-effect_n_K.abs() / (noise_n_K + _LEAST).sqrt())
    information_n = _entropy_of(wrong_n_K @ weights_K) - _entropy_of(wrong_n_K) @ weights_K
    return information_n.clamp(0, math.log(1.25))


def gaussian_sign_error_information(
    mean_n: Tensor, spread_n: Tensor, noise_n: Tensor, node_K: Tensor, weight_K: Tensor
) -> Tensor:
    """The same for τ ~ N(mean, spread²), by the nodes and weights of a quadrature on [−1, 1].

    >>> node_K, weight_K = (torch.from_numpy(one) for one in np.polynomial.legendre.leggauss(64))
    >>> zero_1 = torch.zeros(1, dtype=torch.float64)
    >>> round(gaussian_sign_error_information(zero_1, zero_1 + 1, zero_1 + 1, node_K, weight_K).item(), 6)
    0.062335
    """
    scale_n = (noise_n + _LEAST).sqrt()
    wrong_n, entropy_n = torch.zeros_like(mean_n), torch.zeros_like(mean_n)
    for side_n in (mean_n, -mean_n):  # over τ > 0, then over τ < 0, with |τ| as the variable
        low_n = (side_n - _FAR[0] * spread_n).clamp_min(0)
        half_n = (torch.minimum(_FAR[1] * scale_n, side_n + _FAR[0] * spread_n) - low_n).clamp_min(0) / 2
        size_n_K = low_n[:, None] + half_n[:, None] * (1 + node_K)
        density_n_K = torch.exp(-0.5 * ((size_n_K - side_n[:, None]) / spread_n[:, None]).square())
        mass_n_K = half_n[:, None] * weight_K * density_n_K / (math.sqrt(2 * math.pi) * spread_n[:, None])
        wrong_n_K = torch.special.ndtr(-size_n_K / scale_n[:, None])
        wrong_n += (mass_n_K * wrong_n_K).sum(1)
        entropy_n += (mass_n_K * _entropy_of(wrong_n_K)).sum(1)
    information_n = (_entropy_of(wrong_n) - entropy_n).clamp(0, math.log(1.25))
    return torch.where(spread_n > 0, information_n, torch.zeros_like(information_n))  # an effect that is known


def _entropy_of(prob: Tensor) -> Tensor:
    entropy: Tensor = -(torch.xlogy(prob, prob) + torch.special.xlog1py(1 - prob, -prob))
    return entropy
