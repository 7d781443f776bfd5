"""Log-determinants of similarities: how much volume the gradients of a set span, and share with those of targets.

    LogDet     f(A)       = log det(I + S_A/ridge)                   twice the EIG, one gradient per point, H = ridge·I
    given P    f(A|P)     = f(A ∪ P) − f(P)
    LogDetMI   I_f(A;Q)   = f(A) + f(Q) − f(A ∪ Q)                   twice their JEPIG
    LogDetCMI  I_f(A;Q|P) = f(A ∪ P) + f(Q ∪ P) − f(A ∪ Q ∪ P) − f(P)
    η < 1      similarities with Q count η: log det(I + S_A) − log det(I + S_A − η² S_AQ (I + S_Q)⁻¹ S_QA)

Every block carries the ridge, that of the targets too: without it copies make the matrices singular. Gains are one or
two pivots of incremental Cholesky factors (`conditioned`); values are worked out from whole matrices.
docs/theory/weight-space.md, 8 and 9.6; SIMILAR and PRISM: Kothawade et al. 2021, 2022.
"""

from dataclasses import dataclass
from typing import ClassVar

from natsel.objectives.gradient_options import OneGradient
from natsel.objectives.objective import Facts, Objective


@dataclass(frozen=True)
class LogDet(OneGradient, Objective):
    """log det(I + S/ridge) of the gradients of a set; with `given=`, what it adds to points already held.

    `label` says under which label gradients are taken, `cosine` makes all of them equally long.

    >>> LogDet(cosine=True).ridge
    1.0
    """

    ridge: float = 1.0

    facts: ClassVar[Facts] = Facts(
        "ln det(I + S)", reason="twice the information gain of a model with one gradient per point"
    )


@dataclass(frozen=True)
class LogDetMI(LogDet):
    """What the gradients of a set tell about those of the targets: log-determinant mutual information.

    >>> LogDetMI().facts.units
    'nats'
    """

    eta: float = 1.0

    facts: ClassVar[Facts] = Facts(
        "ln det(I + S) + ln det(I + S*) − ln det(I + S∪S*)",
        reason="twice the joint predictive information gain of a model with one gradient per point",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eta > 1:
            raise ValueError(f"eta: targets can count at most 1, found {self.eta}; the default is 1")


@dataclass(frozen=True)
class LogDetCMI(LogDetMI):
    """LogDetMI beyond points already held: what the gradients of a set tell about the targets that those do not.

    >>> LogDetCMI().facts.quantity
    'LogDetMI given points held'
    """

    facts: ClassVar[Facts] = Facts("LogDetMI given points held", reason=f"{LogDetMI.facts.reason}, beyond points held")
