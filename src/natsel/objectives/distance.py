"""Where points lie: how far they are from those already taken, and how much of the sum of all lies along them.

    Distance(x | A)  = min_{a ∈ A} ‖g(x) − g(a)‖²        ‖g(x)‖² where nothing is taken or given yet
    PoolSum(x)       = g(x)/‖g(x)‖ · Σ_n g(x_n)          over the pool and the points given

Distance is what core-set, k-means++ and largest-cluster searches look at: points already held (`given=`) count as taken
before the first pick. PoolSum is what a weighted subset wants to represent (Frank–Wolfe, ACS). Both are about the
vectors of points alone, and know nothing of noise but the scale that it gives to them.
docs/theory/black-box.md, 5; Sener & Savarese 2018; Ash et al. 2020; Holzmüller et al. 2023; Pinsler et al. 2019.
"""

from dataclasses import dataclass
from typing import ClassVar

from natsel.objectives.gradient_options import OneGradient
from natsel.objectives.objective import Facts, Objective


@dataclass(frozen=True)
class Distance(OneGradient, Objective):
    """The squared distance to the nearest point taken or given.

    `label` says under which label gradients are taken, `cosine` makes all of them equally long.

    >>> Distance().facts.units
    'squared distance'
    """

    facts: ClassVar[Facts] = Facts(
        "min ‖g − g_A‖²",
        reason="a distance between gradients or features, no information",
        units="squared distance",
    )


@dataclass(frozen=True)
class PoolSum(OneGradient, Objective):
    """How much of the sum of all points lies along a point.

    >>> PoolSum().facts.quantity
    'g/‖g‖ · Σ g'
    """

    facts: ClassVar[Facts] = Facts(
        "g/‖g‖ · Σ g", reason="an inner product of gradients or features, no information", units="similarity"
    )
