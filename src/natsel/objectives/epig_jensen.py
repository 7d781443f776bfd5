"""EPIG by Jensen: what a label would tell about the average target, in weight space.

    ½ ln det(I + F_A H⁻¹) − ½ ln det(I + F_A (H + F̄)⁻¹)              F̄ = Σ_j v_j F[x*_j]

The information about all targets together, each seen through 1/v_j times its noise. It lies between EPIG, whose mean
over targets it bounds from above, and JEPIG; and its cost does not grow with candidates × targets.
Spec 08, D and E.
"""

from dataclasses import dataclass
from typing import ClassVar

from natsel.beliefs import GaussianFeatures
from natsel.objectives.protocol import Bound, Facts, Objective


@dataclass(frozen=True)
class EPIGJensen(Objective):
    """Information about the average target: EPIG's cheap upper bound in weight space.

    >>> EPIGJensen().facts.needs_targets
    True
    """

    facts: ClassVar[Facts] = Facts(
        "I[Y;Y*…|x,x*…] of targets seen through M times their noise",
        reason="an upper bound on the mean over targets of I[Y;Ystar|x,xstar,D]",
        bounds=(
            Bound(
                "I[Y;Ystar|x,xstar,D]",
                "upper",
                (GaussianFeatures,),
                why="information is concave in what targets tell (Jensen)",
            ),
        ),
        needs_targets=True,
        monotone=True,
        cost="N·P² + M·P², or N·M·R² where targets are few",
    )
