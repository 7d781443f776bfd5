"""PIG and JPIG: what a known label tells about the known labels of targets.

    PIG(x,y)  = Σ_j v_j I[y*_j; y | x*_j, x]  = Σ_j v_j ( ln p(y*_j|x*_j,x,y) − ln p(y*_j|x*_j) )
    JPIG(x,y) = I[y*_1..y*_M; y | x*, x]      = ln p(y|x,y*_1..M) − ln p(y|x)

How much a label, once trained on, lowers the loss on the targets: EPIG and JEPIG for labels that are known. Either may
be negative, because a label may mislead; averaged over labels that the model expects they are EPIG and JEPIG. Neither
is monotone or submodular. How they are read from beliefs: `natsel.objectives.readings`.
docs/theory/epig-jepig.md, 11; Mindermann et al. 2022.
"""

from dataclasses import dataclass
from typing import ClassVar

from natsel.objectives.objective import Facts, Objective


@dataclass(frozen=True)
class PIG(Objective):
    """Predictive information gain of a known label about the known labels of targets, each taken alone.

    >>> PIG().facts.quantity
    'I[y*;y|x*,x]'
    """

    facts: ClassVar[Facts] = Facts(
        "I[y*;y|x*,x]",
        reason="a mean over targets of I[ystar;y|x,xstar,D] at labels that are known, which may be negative",
    )


@dataclass(frozen=True)
class JPIG(Objective):
    """Joint predictive information gain of a known label about all known labels of targets together.

    With K draws many targets leave one draw, and JPIG becomes the loss now less the loss of that draw.

    >>> JPIG().facts.quantity
    'I[y*…;y|x*…,x]'
    """

    facts: ClassVar[Facts] = Facts(
        "I[y*…;y|x*…,x]",
        reason="the value at labels that are known of I[Ystars;Y|x,xstars,D]; it may be negative",
        joint_targets=True,
    )
