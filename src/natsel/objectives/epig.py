"""EPIG, the expected predictive information gain: what a label would tell about the labels of targets.

    EPIG(x)      = Σ_j v_j I[Y; Y*_j | x, x*_j]                          one point
    EPIG(x_1..b) = Σ_j v_j I[Y_1..Y_b; Y*_j | x_1..x_b, x*_j]            a batch

The mean over targets, each taken alone; JEPIG beside this file takes them together. Never more than BALD, and never
less than 0. Monotone but not submodular: two labels can tell together what neither does alone (xor), so greedy batches
have no guarantee.
docs/theory/epig-jepig.md, 4 and 8; Bickford Smith et al. 2023.

    EPIGJensen = ½ ln det(I + F_A H⁻¹) − ½ ln det(I + F_A (H + F̄)⁻¹)        F̄ = Σ_j v_j F[x*_j], in weight space

The information about all targets together, each seen through 1/v_j times its noise: about the average target. It lies
between EPIG, whose mean over targets it bounds from above, and JEPIG; its cost does not grow with candidates × targets.
docs/theory/weight-space.md, 5; Kirsch & Gal 2022.
"""

from dataclasses import dataclass
from typing import ClassVar

from natsel.objectives.objective import Facts, Objective
from natsel.options import check_options


@dataclass(frozen=True)
class EPIG(Objective):
    """Expected predictive information gain about targets, from draws that candidates and targets share.

    `rows` is how many weighted posteriors a greedy batch on categorical draws may hold; each costs as much as scoring
    the pool once. The first pick, and every point by itself, is exact. Gaussian draws are moment-matched, which may lie
    above or below the mixture's own value.

    >>> EPIG().facts.expression
    'I[Y;Ystar|x,xstar,D]'
    """

    rows: int = 64

    facts: ClassVar[Facts] = Facts("I[Y;Y*|x,x*]", expression="I[Y;Ystar|x,xstar,D]", jointly=True)

    def __post_init__(self) -> None:
        check_options(self, rows=1)


@dataclass(frozen=True)
class EPIGChi2(Objective):
    """EPIG to second order in how far draws differ, at a cost that does not depend on the number of targets.

    >>> EPIGChi2().facts.quantity
    'χ²(Y,Y*|x,x*)/2'
    """

    facts: ClassVar[Facts] = Facts(
        "χ²(Y,Y*|x,x*)/2",
        reason="the second-order term of I[Y;Ystar|x,xstar,D]; that is never more than twice this",
    )


@dataclass(frozen=True)
class EPIGJensen(Objective):
    """Information about the average target: EPIG's cheap upper bound in weight space.

    >>> EPIGJensen().facts.units
    'nats'
    """

    facts: ClassVar[Facts] = Facts(
        "I[Y;Y*…|x,x*…] of targets seen through M times their noise",
        reason="an upper bound on the mean over targets of I[Y;Ystar|x,xstar,D]",
    )
