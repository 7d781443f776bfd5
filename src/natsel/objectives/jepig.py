"""JEPIG, the joint expected predictive information gain: what a label would tell about all target labels together.

    JEPIG(x) = I[Y; Y*_1..Y*_M | x, x*_1..x*_M] = I[Y; Ω | x] − I[Y; Ω | x, Y*_1..Y*_M]

BALD now, less what BALD would be left if the targets were labelled. Never more than BALD, never less than EPIG. With K
draws many targets pin the draws down, and JEPIG becomes BALD whatever they are worth: a warning says so.  Spec 06, Q5.
"""

from dataclasses import dataclass
from typing import ClassVar

from natsel.beliefs import FisherFactors, FisherRows, GaussianSamples
from natsel.objectives.protocol import Facts, Objective
from natsel.options import check_options


@dataclass(frozen=True)
class JEPIG(Objective):
    """Joint expected predictive information gain about targets, from draws that candidates and targets share.

    `rows` is how many labellings of the targets are followed, as weighted posteriors; exact where all of them fit.

    >>> JEPIG().facts.needs_targets
    True
    """

    rows: int = 4096

    facts: ClassVar[Facts] = Facts(
        "I[Y;Y*…|x,x*…]",
        expression="I[Y;Ystars|x,xstars,D]",
        jointly=True,
        approximate=(GaussianSamples, FisherFactors, FisherRows),
        needs_targets=True,
        monotone=True,
        cost="M·K·C·rows + N·K·C·rows",
    )

    def __post_init__(self) -> None:
        check_options(self, rows=1)
