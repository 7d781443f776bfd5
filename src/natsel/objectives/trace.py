"""Traces in place of log-determinants: EIG, EPIG and JEPIG to first order in what a label tells about the weights.

    TraceEIG     ½ Σ_i tr(F[x_i] H⁻¹)                              ≥ EIG; additive, so that a batch may hold copies
    TraceJEPIG   ½ tr(F_E (H⁻¹ − (H + F_A)⁻¹))                     ≥ JEPIG; F_E = Σ_j F[x*_j]
    TraceEPIG    ½ tr(F̄ (H⁻¹ − (H + F_A)⁻¹))                       ≥ EPIG;  F̄ = Σ_j v_j F[x*_j]

TraceEPIG is what BAIT maximises (it minimises tr(F_E (F_A + H)⁻¹)); without weights TraceJEPIG is M times as much and
picks the same. On jointly Gaussian features it is the fall of the targets' variance in units of twice their noise
(A- or V-optimal design). Neither is submodular.
docs/theory/weight-space.md, 5, 6 (v) and 9.1; Ash et al. 2021.
"""

from dataclasses import dataclass
from typing import ClassVar

from natsel.objectives.objective import Facts, Objective


@dataclass(frozen=True)
class TraceEIG(Objective):
    """Information about the weights to first order: half of the expected squared gradient in the metric H⁻¹.

    >>> TraceEIG().facts.units
    'nats'
    """

    facts: ClassVar[Facts] = Facts(
        "tr(F H⁻¹)/2", reason="an upper bound on I[Y;Omega|x,D] that forgets what points share"
    )


@dataclass(frozen=True)
class TraceEPIG(Objective):
    """Information about targets to first order, their mean: what BAIT maximises.

    >>> TraceEPIG().facts.units
    'nats'
    """

    facts: ClassVar[Facts] = Facts(
        "mean tr(F* (H⁻¹ − (H + F)⁻¹))/2",
        reason="an upper bound on the mean over targets of I[Y;Ystar|x,xstar,D]",
    )


@dataclass(frozen=True)
class TraceJEPIG(Objective):
    """Information about all targets together to first order: their sum.

    >>> TraceJEPIG().facts.units
    'nats'
    """

    facts: ClassVar[Facts] = Facts(
        "sum tr(F* (H⁻¹ − (H + F)⁻¹))/2", reason="an upper bound on I[Y;Ystars|x,xstars,D]", joint_targets=True
    )
