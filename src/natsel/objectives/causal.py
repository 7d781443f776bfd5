"""Whose outcome to measure next, so that the effect of a treatment becomes known.

With V the variance over draws of the mean outcome μ, t the treatment that was received, t' the other one, τ = μ¹ − μ⁰
and π the propensity:

    OutcomeVariance            ln V[μ_t]                               μ-BALD: what a label would show
    EffectVariance             ln V[τ]                                 τ-BALD: also where no label can tell
    EffectRatio                ½ (ln V[τ] − ln V[μ_t'])                ρ-BALD: blind to how much is uncertain
    OutcomeEffectRatio         ln V[μ_t] + ln V[τ] − ln V[μ_t']        μρ-BALD
    OutcomeOverlap             ln V[μ_t] + ln P(T = t'|x)              μπ-BALD
    CounterfactualPropensity   ln P(T = t'|x)                          overlap alone
    EffectInformation          I[Y_t; τ | x]  in nats                  what a label tells about the effect
    SignErrorInformation       I[sign of τ is wrong; Ω | x]            S-type errors (Sundin et al. 2019)

Logarithms are of 10⁻⁷ more, so that 0 is no exception; outcomes should be of about unit scale. All look at one point at
a time. Batches: any search that draws, such as `Softmax(beta=4)`, the published temperature 0.25; or I[Y;Ω|x] of the
received arm, and EPIG with `belief.effects()` as targets, which are joint.
docs/theory/causal-bald.md, 3 and 4; Jesson et al. 2021.
"""

from dataclasses import dataclass
from typing import ClassVar

from natsel.objectives.objective import Facts, Objective

_REASON = "it is a logarithm of variances, which stand for information up to constants"


class ArmVariances:
    """A sum of logarithms: of the variances of the received arm, of the effect and of the other arm, and of overlap."""

    received: ClassVar[float] = 0.0
    effect: ClassVar[float] = 0.0
    other: ClassVar[float] = 0.0
    overlap: ClassVar[float] = 0.0


@dataclass(frozen=True)
class OutcomeVariance(ArmVariances, Objective):
    """ln V[μ_t]: how unsure the model is of the outcome that a label would show."""

    received: ClassVar[float] = 1.0
    facts: ClassVar[Facts] = Facts("ln Var mu_t", reason=_REASON, units="none")


@dataclass(frozen=True)
class EffectVariance(ArmVariances, Objective):
    """ln V[τ]: how unsure the model is of the effect, also where no label can tell."""

    effect: ClassVar[float] = 1.0
    facts: ClassVar[Facts] = Facts("ln Var tau", reason=_REASON, units="none")


@dataclass(frozen=True)
class EffectRatio(ArmVariances, Objective):
    """½ ln V[τ]/V[μ_t']: how much less sure of the effect than of the outcome that cannot be measured."""

    effect: ClassVar[float] = 0.5
    other: ClassVar[float] = -0.5
    facts: ClassVar[Facts] = Facts("½ ln Var tau / Var mu_t'", reason=_REASON, units="none")


@dataclass(frozen=True)
class OutcomeEffectRatio(ArmVariances, Objective):
    """ln V[μ_t] V[τ]/V[μ_t']: unsure, and where the other arm is known so well that a label tells of the effect."""

    received: ClassVar[float] = 1.0
    effect: ClassVar[float] = 1.0
    other: ClassVar[float] = -1.0
    facts: ClassVar[Facts] = Facts("ln Var mu_t Var tau / Var mu_t'", reason=_REASON, units="none")


@dataclass(frozen=True)
class OutcomeOverlap(ArmVariances, Objective):
    """ln V[μ_t] P(T = t'|x): unsure, and where the other treatment is given too."""

    received: ClassVar[float] = 1.0
    overlap: ClassVar[float] = 1.0
    facts: ClassVar[Facts] = Facts("ln Var mu_t P(T=t'|x)", reason=_REASON, units="none")


@dataclass(frozen=True)
class CounterfactualPropensity(ArmVariances, Objective):
    """ln P(T = t'|x): where the other treatment is likely."""

    overlap: ClassVar[float] = 1.0
    facts: ClassVar[Facts] = Facts("ln P(T=t'|x)", reason="it is a probability of treatments", units="none")


@dataclass(frozen=True)
class EffectInformation(Objective):
    """I[Y_t; τ | x]: what the label of a point tells about its own effect, through noise.

    >>> EffectInformation().facts.units
    'nats'
    """

    facts: ClassVar[Facts] = Facts("I[Y_t;tau|x]", reason="the effect is no label that the calculus knows of")


@dataclass(frozen=True)
class SignErrorInformation(Objective):
    """What the parameters tell about whether the sign of the effect is wrong: at most ln 5/4."""

    facts: ClassVar[Facts] = Facts("I[sign error;W|x]", reason="a sign error is no label that the calculus knows of")
