"""Coverage: how well every point of the pool is represented by its most similar one in the set.

    FacilityLocation   f(A)     = Σ_{i∈V} max_{j∈A} s_ij
    SetCover           f(A)     = #{i ∈ V: s_ij ≥ threshold for some j ∈ A}
    FLVMI              I_f(A;Q) = Σ_{i∈V} min(max_{j∈A} s_ij, η max_{j∈Q} s_ij)
    SetCoverMI         I_f(A;Q) = #{i ∈ V: covered by A and by Q}
    FLQMI                         Σ_{i∈Q} max_{j∈A} s_ij + η Σ_{j∈A} max_{i∈Q} s_ij
    given P                       f(A ∪ P) − f(P), and likewise beyond P for mutual information

V is the pool, Q the targets; a similarity below 0 covers nothing. A gain looks at all V: N² similarities for the first
pick, few points after it; `ground` takes that many points of V, drawn, for all of them, and scales up.
docs/theory/weight-space.md, 9.5; Iyer et al. 2021; Kothawade et al. 2021, 2022.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from natsel.objectives.gradient_options import OneGradient
from natsel.objectives.objective import Facts, Objective
from natsel.options import check_options


@dataclass(frozen=True)
class Grounded(OneGradient):
    """Options of objectives that cover the pool: `ground` points of it are drawn to stand for all."""

    ground: int | None = None

    def __post_init__(self) -> None:
        check_options(self, ground=1)
        super().__post_init__()


@dataclass(frozen=True)
class FacilityLocation(Grounded, Objective):
    """How alike every point of the pool is to its most similar one in the set.

    >>> FacilityLocation(ground=1000).facts.units
    'similarity'
    """

    facts: ClassVar[Facts] = Facts(
        "Σ max s", reason="a sum of similarities, no information quantity", units="similarity"
    )


@dataclass(frozen=True)
class SetCover(Grounded, Objective):
    """How many points of the pool have one at least so similar in the set.

    >>> SetCover(threshold=0.9).cosine
    True
    """

    cosine: bool = True
    threshold: float = 0.5

    facts: ClassVar[Facts] = Facts("# covered", reason="a count of points, no information quantity", units="points")


@dataclass(frozen=True)
class FLVMI(Grounded, Objective):
    """Facility location where only what the targets are similar to counts, up to `eta` times their similarity.

    >>> FLVMI(eta=2.0).eta
    2.0
    """

    eta: float = 1.0

    facts: ClassVar[Facts] = replace(FacilityLocation.facts, quantity="Σ min(max s, max s*)")


@dataclass(frozen=True)
class SetCoverMI(Grounded, Objective):
    """How many points of the pool are covered by the set and by the targets.

    >>> SetCoverMI().facts.units
    'points'
    """

    cosine: bool = True
    threshold: float = 0.5

    facts: ClassVar[Facts] = replace(SetCover.facts, quantity="# covered twice")


@dataclass(frozen=True)
class FLQMI(OneGradient, Objective):
    """How alike the targets are to the set, and `eta` times how alike the points of the set are to a target.

    >>> FLQMI(eta=0.5).eta
    0.5
    """

    eta: float = 1.0

    facts: ClassVar[Facts] = replace(FacilityLocation.facts, quantity="Σ* max s + Σ max s*")
