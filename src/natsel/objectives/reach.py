"""How far labels reach: over the points that a model is unsure of, by the likeness that the model itself sees.

    Reach                Σ_n u_n (Var[f_n] − Var[f_n | labels of A])        f ~ N(0, k), labels seen through the noise
    UncertaintyHerding   Σ_n u_n max_{a∈A} k(n, a)
    given P              what A adds to P

u_n: how unsure the model is of target n, times the weight of the target where it has one; k: how alike the model treats
two points (`natsel.Geometry`). Targets are the pool, unless others are passed. Both count points: one of which a model
knows nothing, and that a label tells all about, is 1. Neither is in nats.
docs/theory/geometry.md, 2 and 3; Cohn et al. 1996; Ash et al. 2021; Bae et al. 2025.
"""

from dataclasses import dataclass
from typing import ClassVar

from natsel.objectives.objective import Facts, Objective
from natsel.options import check_options


@dataclass(frozen=True)
class OverUnsure:
    """Options of both: `ground` targets are drawn to stand for all where there are twice as many; None takes all."""

    ground: int | None = 1000

    def __post_init__(self) -> None:
        check_options(self, ground=1)


@dataclass(frozen=True)
class Reach(OverUnsure, Objective):
    """How much of the variance of unsure points goes once points are labelled.

    >>> Reach().facts.units
    'unsure points'
    """

    facts: ClassVar[Facts] = Facts(
        "Σ u (Var f − Var f|y)",
        reason="variances in the geometry of the model, weighted by how unsure it is: no information about labels",
        units="unsure points",
    )


@dataclass(frozen=True)
class UncertaintyHerding(OverUnsure, Objective):
    """How alike unsure points are to their most similar one in the set.

    >>> UncertaintyHerding(ground=None).facts.units
    'unsure points'
    """

    facts: ClassVar[Facts] = Facts(
        "Σ u max k", reason="a sum of similarities, no information quantity", units="unsure points"
    )
