"""Scores of one deterministic network: how unfamiliar its features are, and how small its logits.

    Density     −log q(z)               features far from those of the training set (Mukhoti et al. 2023)
    Energy      −log Σ_c exp z_c        the logits as an unnormalised log density (Liu et al. 2020)
    MaxLogit    −max_c z_c              the largest logit alone (Hendrycks et al. 2022)

Bigger is less familiar. They look at one point at a time: copies of an unfamiliar point are all unfamiliar, so that
batches are drawn (`Softmax`, `SoftRank`) rather than the top k. Objects that belong to no class are unfamiliar too.
docs/theory/deterministic-uncertainty.md, 1 and 5.
"""

from dataclasses import dataclass
from typing import ClassVar

from natsel.objectives.objective import Facts, Objective

_REASON = "it is a score of one network's features or logits, and there is no distribution over parameters"


@dataclass(frozen=True)
class Density(Objective):
    """−log q(z): how unlike the training set the features of a point are."""

    facts: ClassVar[Facts] = Facts("-log q(z)", reason=_REASON)


@dataclass(frozen=True)
class Energy(Objective):
    """−log Σ_c exp z_c: small where some logit is large."""

    facts: ClassVar[Facts] = Facts("-log sum_y exp z_y", reason=_REASON)


@dataclass(frozen=True)
class MaxLogit(Objective):
    """−max_c z_c: small where some logit is large."""

    facts: ClassVar[Facts] = Facts("-max z_y", reason=_REASON, units="none")
