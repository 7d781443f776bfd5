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

Gaussian draws are moment-matched (an upper bound on the mixture's entropy).
docs/theory/information-quantities.md, 11 to 13; docs/theory/epig-jepig.md, 2.
"""

from dataclasses import dataclass
from typing import ClassVar

from natsel.objectives.objective import Facts, Objective


@dataclass(frozen=True)
class Entropy(Objective):
    """Predictive entropy H[Y|x]: epistemic and aleatoric uncertainty together."""

    facts: ClassVar[Facts] = Facts("H[Y|x]", expression="H[Y|x,D]")


@dataclass(frozen=True)
class ExpectedEntropy(Objective):
    """Expected conditional entropy E_ω H[Y|x,ω]: the noise a label would still have if the parameters were known."""

    facts: ClassVar[Facts] = Facts("H[Y|x,W]", expression="H[Y|x,Omega,D]")


@dataclass(frozen=True)
class VariationRatio(Objective):
    """Least confidence 1 − max_c p(c|x)."""

    facts: ClassVar[Facts] = Facts(
        "1 - max p(y|x)", reason="the chance that the likeliest class is wrong", units="probability"
    )


@dataclass(frozen=True)
class Margin(Objective):
    """Closeness of the two likeliest classes, 1 − (p_(1) − p_(2))."""

    facts: ClassVar[Facts] = Facts(
        "1 - (p1 - p2)",
        reason="a difference of two probabilities; blind to all classes but the two likeliest",
        units="probability",
    )


@dataclass(frozen=True)
class StdDev(Objective):
    """Standard deviation over draws, summed over classes."""

    facts: ClassVar[Facts] = Facts(
        "sum_y sd p(y|x,W)", reason="a spread of probabilities, in their own units", units="probability"
    )


@dataclass(frozen=True)
class MeanStd(Objective):
    """Standard deviation over draws, averaged over classes."""

    facts: ClassVar[Facts] = Facts(
        "mean_y sd p(y|x,W)", reason="a spread of probabilities, in their own units", units="probability"
    )


@dataclass(frozen=True)
class Variance(Objective):
    """Variance over draws: of class probabilities (summed), of the predicted mean, or of the jointly Gaussian value.

    On jointly Gaussian features it orders points of equal noise as I[Y;Ω|x] = ½ ln(1 + score/noise) does.
    """

    facts: ClassVar[Facts] = Facts(
        "Var E[Y|x,W]",
        reason="squared label units; on categorical draws it is what mutual information becomes with 1 − p for −ln p",
        units="label units",
    )


@dataclass(frozen=True)
class Random(Objective):
    """Scores without regard to the belief."""

    facts: ClassVar[Facts] = Facts("0", reason="drawn without regard to the belief", units="none", reads_belief=False)


@dataclass(frozen=True)
class InformationGain(Objective):
    """I[Ω; y|x]: the fall of the draws' entropy on seeing the known label y."""

    facts: ClassVar[Facts] = Facts("I[W;y|x]", expression="I[Omega;y|x,D]")


@dataclass(frozen=True)
class Surprise(Objective):
    """I[y; Ω|x]: the divergence of the draws' posterior on seeing the known label y from their prior."""

    facts: ClassVar[Facts] = Facts("I[y;W|x]", expression="I[y;Omega|x,D]")
