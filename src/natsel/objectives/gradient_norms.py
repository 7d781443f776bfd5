"""Plain scores of how long gradients are, points looked at one by one.

    EGL     E_{y~p(y|x)} ‖g_y‖² = tr F[x]                expected gradient length; softmax: (1 − ‖π‖²) ‖x‖²
    GraNd   ‖g_y‖ = ‖π − e_y‖ ‖x‖                        the gradient norm under the known label y
    EL2N    E_ω ‖p(·|x,ω) − e_y‖                         the error of the prediction itself, averaged over draws

`squared` takes ‖g‖² in place of ‖g‖: squares are the original EGL's second form and make it the trace of the Fisher
information, twice the trace form of EIG at H = I; GraNd was published without.
docs/theory/weight-space.md, 9.7 and 9.8; Settles et al. 2007; Huang et al. 2016; Paul et al. 2021.
"""

from dataclasses import dataclass
from typing import ClassVar

from natsel.objectives.objective import Facts, Objective


@dataclass(frozen=True)
class EGL(Objective):
    """Expected gradient length under the model's own prediction; the trace of the Fisher information where squared.

    >>> EGL().facts.units
    'none'
    """

    squared: bool = True

    facts: ClassVar[Facts] = Facts(
        "tr F", reason="a squared length of gradients, in units of the weights", units="none"
    )


@dataclass(frozen=True)
class GraNd(Objective):
    """The length of the gradient under the known label.

    >>> GraNd(squared=True).facts.quantity
    '|g_y|'
    """

    squared: bool = False

    facts: ClassVar[Facts] = Facts("|g_y|", reason="a length of gradients, in units of the weights", units="none")


@dataclass(frozen=True)
class EL2N(Objective):
    """How far the predicted probabilities are from the known label, averaged over draws.

    >>> EL2N().facts.units
    'probability'
    """

    facts: ClassVar[Facts] = Facts("E |p(y|x,W) − e_y|", reason="a distance of probabilities", units="probability")
