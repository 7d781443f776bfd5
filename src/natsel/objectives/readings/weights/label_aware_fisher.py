"""IG, PIG and JPIG read in weight space, where known labels tell what unknown ones would.

    IG(A) = ½ ln det(I + H''_A H⁻¹),   JPIG(A) = IG(A) − IG(A | E),   PIG the mean of that over single targets

H'' is the observed information. For generalised linear models and under Gauss–Newton, which is all that Fisher beliefs
hold, it is the Fisher information whatever the labels are: the numbers are those of EIG, EPIG and JEPIG, and active
sampling gains nothing from labels. PIG and JPIG here are differences of information gains, not the pointwise quantities
that draws give; only on average over labels are both the same. In other models observed information depends on labels.
docs/theory/weight-space.md, 5.3; Kirsch & Gal 2022.
"""

from typing import ClassVar

from natsel.beliefs import FisherFactors, FisherRows
from natsel.objectives.objective import serves
from natsel.objectives.pig import JPIG, PIG
from natsel.objectives.plain import InformationGain
from natsel.objectives.readings.weights.eig_fisher import FisherEIG
from natsel.objectives.readings.weights.epig_fisher import FisherEPIG
from natsel.objectives.readings.weights.jepig_fisher import FisherJEPIG


@serves(InformationGain, FisherFactors, FisherRows)
class FisherIG(FisherEIG):
    """EIG under another name; what is known of it in general is less, so nothing is skipped."""

    submodular: ClassVar[bool] = False


@serves(PIG, FisherFactors, FisherRows)
class FisherPIG(FisherEPIG):
    """EPIG under another name."""


@serves(JPIG, FisherFactors, FisherRows)
class FisherJPIG(FisherJEPIG):
    """JEPIG under another name."""
