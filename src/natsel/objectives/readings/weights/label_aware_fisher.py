"""IG, PIG and JPIG read in weight space, where known labels tell what unknown ones would.

    IG(A) = ½ ln det(I + H''_A H⁻¹),   JPIG(A) = IG(A) − IG(A | E),   PIG the mean of that over single targets

H'' is the observed information. For generalised linear models and under Gauss–Newton, which is all that Fisher beliefs
hold, it is the Fisher information whatever the labels are: the numbers are those of EIG, EPIG and JEPIG, and active
sampling gains nothing from labels. PIG and JPIG here are differences of information gains, not the pointwise quantities
that draws give; only on average over labels are both the same. In other models observed information depends on labels.
docs/theory/weight-space.md, 5.3; Kirsch & Gal 2022.
"""

from dataclasses import replace
from typing import ClassVar

from natsel.beliefs import FisherBelief
from natsel.objectives.objective import Argument
from natsel.objectives.pig import JPIG, PIG
from natsel.objectives.plain import InformationGain
from natsel.objectives.reading import PairFacts, serves
from natsel.objectives.readings.weights.eig_fisher import FisherEIG
from natsel.objectives.readings.weights.epig_fisher import FisherEPIG
from natsel.objectives.readings.weights.fisher_state import LAPLACE
from natsel.objectives.readings.weights.jepig_fisher import FisherJEPIG

_FACTS = PairFacts(
    needs=Argument.LABELS, label_free=True, conditions=True, guarantee="approximate", why=LAPLACE, nonnegative=True
)
_ABOUT = replace(_FACTS, needs=Argument.LABELS | Argument.TARGETS)


@serves(InformationGain, FisherBelief, replace(_FACTS, cost="N·P·R, a batch k·N·P·R"))
class FisherIG(FisherEIG):
    """The numbers of EIG. Not declared submodular: information gains are not in general, so greedy looks at all."""

    submodular: ClassVar[bool] = False


@serves(PIG, FisherBelief, replace(_ABOUT, cost="N·M·R³, a batch k·N·M·R³"))
class FisherPIG(FisherEPIG):
    """EPIG under another name."""


@serves(JPIG, FisherBelief, replace(_ABOUT, cost="M·P² + N·P², or N·M·R² for few targets"))
class FisherJPIG(FisherJEPIG):
    """JEPIG under another name."""
