"""Plain scores: baselines that look at one point at a time.

    Entropy            H[Y|x]                             what the label would say, noise included
    ExpectedEntropy    E_ω H[Y|x,ω]                       the noise alone (aleatoric)
    VariationRatio     1 − max_c p(c|x)                   least confidence
    Margin             1 − (p_(1) − p_(2))                the closest call
    StdDev, MeanStd    Σ_c or 1/C Σ_c  sd_ω p(c|x,ω)      how far the draws spread
    Variance           Σ_c Var_ω p(c|x,ω), Var_ω E[y|x,ω] the same, squared; for regression the draws' disagreement
    Random             independent of the belief          the baseline every other must beat
    InformationGain    I[Ω; y|x]                          what the known label y tells; may be negative
    Surprise           I[y; Ω|x]                          how far y moves the draws; at least 0

Gaussian draws are moment-matched (an upper bound on the mixture's entropy).  Spec 01, 7–9; spec 06, Q1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from natsel import information as info
from natsel.beliefs import Belief, CategoricalSamples, FisherFactors, FisherRows, GaussianFeatures, GaussianSamples
from natsel.capabilities import Capability
from natsel.information.mutual import share_of_others
from natsel.memory import chunked
from natsel.objectives.gaussian_points import points_of
from natsel.objectives.protocol import MOMENTS, Bound, Facts, Objective, Reading, serves

LN_2 = math.log(2)
BALD = "I[Y;Omega|x,D]"
# For d = p_k − p̄, which sums to 0: |d|² ≤ ½ (Σ|d_c|)² ≤ KL(p_k ‖ p̄), and the mean over draws is the bound.
PINSKER = "Pinsker's inequality"


class Pointwise:
    """State of an objective that is a sum over points: the value of a set is the sum of its scores."""

    offers: ClassVar[Capability] = Capability.SCORES | Capability.VALUE
    score: Callable[[Any, Any, Reading], Tensor]

    def __init__(self, objective: Objective, belief: Belief, reading: Reading) -> None:
        self.scores_N = type(self).score(objective, belief, reading).double()

    def scores(self) -> Tensor:
        """One score a point, bigger is better."""
        return self.scores_N

    def value(self, positions: Tensor) -> float:
        """The sum of the scores of these points."""
        return float(self.scores_N[positions.to(self.scores_N.device)].sum())


def pointwise(
    objective: type[Objective], *beliefs: type[Belief]
) -> Callable[[Callable[[Any, Any, Reading], Tensor]], Callable[[Any, Any, Reading], Tensor]]:
    """Enter a score function as the state of an objective on these beliefs."""

    def enter(score: Callable[[Any, Any, Reading], Tensor]) -> Callable[[Any, Any, Reading], Tensor]:
        state = type(f"{objective.__name__}Score", (Pointwise,), {"score": staticmethod(score)})
        serves(objective, *beliefs)(state)
        return score

    return enter


def draws(belief: CategoricalSamples) -> tuple[Tensor, Tensor]:
    """What every score of categorical draws is computed from: log_probs_N_K_C and log_weights_K."""
    return belief.log_probs_N_K_C, belief.log_weights_K


@dataclass(frozen=True)
class Entropy(Objective):
    """Predictive entropy H[Y|x]: epistemic and aleatoric uncertainty together."""

    facts: ClassVar[Facts] = Facts(
        "H[Y|x]",
        expression="H[Y|x,D]",
        bounds=(Bound("H[Y|x,D]", "upper", (GaussianSamples,), why=MOMENTS),),
        nonnegative=False,
    )


@pointwise(Entropy, CategoricalSamples)
def _(objective: Entropy, belief: CategoricalSamples, reading: Reading) -> Tensor:
    return info.predictive_entropy(*draws(belief))


@pointwise(Entropy, GaussianSamples, GaussianFeatures)
def _(objective: Entropy, belief: GaussianSamples | GaussianFeatures, reading: Reading) -> Tensor:
    points = points_of(belief)
    return info.normal_entropy(points.start_N + points.noise_N)


@dataclass(frozen=True)
class ExpectedEntropy(Objective):
    """Expected conditional entropy E_ω H[Y|x,ω]: the noise a label would still have if the parameters were known."""

    facts: ClassVar[Facts] = Facts("H[Y|x,W]", expression="H[Y|x,Omega,D]", nonnegative=False)


@pointwise(ExpectedEntropy, CategoricalSamples)
def _(objective: ExpectedEntropy, belief: CategoricalSamples, reading: Reading) -> Tensor:
    return info.conditional_entropy(*draws(belief))


@pointwise(ExpectedEntropy, GaussianSamples)
def _(objective: ExpectedEntropy, belief: GaussianSamples, reading: Reading) -> Tensor:
    variance_N_K, weights_K = belief.variance_N_K, belief.log_weights_K.exp()
    return chunked(
        lambda part: info.normal_entropy(variance_N_K[part].double()) @ weights_K,
        len(belief),
        32 * len(weights_K),
        belief.device,
    )


@pointwise(ExpectedEntropy, GaussianFeatures)
def _(objective: ExpectedEntropy, belief: GaussianFeatures, reading: Reading) -> Tensor:
    return info.normal_entropy(belief.noise_N)


@dataclass(frozen=True)
class VariationRatio(Objective):
    """Least confidence 1 − max_c p(c|x)."""

    facts: ClassVar[Facts] = Facts(
        "1 - max p(y|x)",
        reason="the chance that the likeliest class is wrong",
        bounds=(Bound("H[Y|x,D]", "lower", factor=2 * LN_2, vanishes=True, why="Hellman & Raviv 1970"),),
        units="probability",
    )


@pointwise(VariationRatio, CategoricalSamples)
def _(objective: VariationRatio, belief: CategoricalSamples, reading: Reading) -> Tensor:
    return share_of_others(info.log_mean(*draws(belief)).exp())


@dataclass(frozen=True)
class Margin(Objective):
    """Closeness of the two likeliest classes, 1 − (p_(1) − p_(2))."""

    facts: ClassVar[Facts] = Facts(
        "1 - (p1 - p2)",
        reason="a difference of two probabilities; blind to all classes but the two likeliest",
        bounds=(Bound("H[Y|x,D]", "lower", factor=LN_2, vanishes=True, why="p2 ≤ 1 − p1; Hellman & Raviv 1970"),),
        units="probability",
    )


@pointwise(Margin, CategoricalSamples)
def _(objective: Margin, belief: CategoricalSamples, reading: Reading) -> Tensor:
    mean_N_C = info.log_mean(*draws(belief)).exp()
    if belief.shape[2] == 1:
        return torch.zeros_like(mean_N_C[:, 0])
    return (share_of_others(mean_N_C) + mean_N_C.topk(2).values[:, 1]).clamp_(0, 1)


@dataclass(frozen=True)
class StdDev(Objective):
    """Standard deviation over draws, summed over classes."""

    facts: ClassVar[Facts] = Facts(
        "sum_y sd p(y|x,W)",
        reason="a spread of probabilities, in their own units",
        disagreement=True,
        bounds=(Bound(BALD, "lower", power=2, classes=-1, vanishes=True, why=f"Cauchy & Schwarz, {PINSKER}"),),
        units="probability",
    )


@pointwise(StdDev, CategoricalSamples)
def _(objective: StdDev, belief: CategoricalSamples, reading: Reading) -> Tensor:
    return info.standard_deviation(*draws(belief))


@dataclass(frozen=True)
class MeanStd(Objective):
    """Standard deviation over draws, averaged over classes."""

    facts: ClassVar[Facts] = Facts(
        "mean_y sd p(y|x,W)",
        reason="a spread of probabilities, in their own units",
        disagreement=True,
        bounds=(Bound(BALD, "lower", power=2, classes=1, vanishes=True, why=f"Cauchy & Schwarz, {PINSKER}"),),
        units="probability",
    )


@pointwise(MeanStd, CategoricalSamples)
def _(objective: MeanStd, belief: CategoricalSamples, reading: Reading) -> Tensor:
    return info.standard_deviation(*draws(belief)) / belief.shape[2]


@dataclass(frozen=True)
class Variance(Objective):
    """Variance over draws: of class probabilities (summed), of the predicted mean, or of the jointly Gaussian value.

    On jointly Gaussian features it orders points of equal noise as I[Y;Ω|x] = ½ ln(1 + score/noise) does.
    """

    facts: ClassVar[Facts] = Facts(
        "Var E[Y|x,W]",
        reason="squared label units; on categorical draws it is what mutual information becomes with 1 − p for −ln p",
        disagreement=True,
        bounds=(Bound(BALD, "lower", (CategoricalSamples,), vanishes=True, why=PINSKER),),
        units="label units",
    )


@pointwise(Variance, CategoricalSamples)
def _(objective: Variance, belief: CategoricalSamples, reading: Reading) -> Tensor:
    return info.variance(*draws(belief))


@pointwise(Variance, GaussianSamples, GaussianFeatures)
def _(objective: Variance, belief: GaussianSamples | GaussianFeatures, reading: Reading) -> Tensor:
    return points_of(belief).start_N


@dataclass(frozen=True)
class Random(Objective):
    """Scores without regard to the belief."""

    facts: ClassVar[Facts] = Facts("0", reason="drawn without regard to the belief", units="none", cost="N")


@pointwise(Random, CategoricalSamples, GaussianSamples, GaussianFeatures)
def _(objective: Random, belief: Belief, reading: Reading) -> Tensor:
    return torch.rand(len(belief), generator=reading.generator, dtype=torch.float64).to(belief.device)


@dataclass(frozen=True)
class InformationGain(Objective):
    """I[Ω; y|x]: the fall of the draws' entropy on seeing the known label y."""

    facts: ClassVar[Facts] = Facts(
        "I[W;y|x]",
        expression="I[Omega;y|x,D]",
        approximate=(FisherFactors, FisherRows),
        needs_labels=True,
        label_free=(FisherFactors, FisherRows),
        disagreement=True,
        nonnegative=False,
    )


@pointwise(InformationGain, CategoricalSamples)
def _(objective: InformationGain, belief: CategoricalSamples, reading: Reading) -> Tensor:
    assert reading.labels_N is not None
    return info.information_gain(belief.log_probs_N_K_C, reading.labels_N, belief.log_weights_K)


@dataclass(frozen=True)
class Surprise(Objective):
    """I[y; Ω|x]: the divergence of the draws' posterior on seeing the known label y from their prior."""

    facts: ClassVar[Facts] = Facts("I[y;W|x]", expression="I[y;Omega|x,D]", needs_labels=True, disagreement=True)


@pointwise(Surprise, CategoricalSamples)
def _(objective: Surprise, belief: CategoricalSamples, reading: Reading) -> Tensor:
    assert reading.labels_N is not None
    return info.surprise(belief.log_probs_N_K_C, reading.labels_N, belief.log_weights_K)
