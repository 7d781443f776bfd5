"""EIG, the expected information gain (BALD): what a label would tell about the parameters.

    I[Y; Ω | x] = H[Y | x] − E_ω H[Y | x, ω]                        one point
    I[Y_1..Y_b; Ω | x_1..x_b] = H[Y_1..Y_b] − Σ_i E_ω H[Y_i | ω]     a batch (BatchBALD)

Monotone and submodular in the set of points; K draws cannot tell more than ln K. How it is read from draws, from
jointly Gaussian points and in weight space stands on the shelves of `readings`.
docs/theory/information-quantities.md, 13; Lindley 1956; Houlsby et al. 2011;
docs/theory/batchbald.md, 3; Kirsch et al. 2019.
"""

from dataclasses import dataclass
from typing import ClassVar

from natsel.objectives.objective import Facts, Objective
from natsel.options import check_options


@dataclass(frozen=True)
class EIG(Objective):
    """Expected information gain about the parameters; alone it is BALD, in a greedy batch BatchBALD.

    `rows` is how many weighted posteriors a batch on categorical draws may hold: more are slower and less noisy, and
    a batch whose label combinations all fit is exact. Gaussian draws are moment-matched, an upper bound.

    >>> EIG().facts.expression
    'I[Y;Omega|x,D]'
    """

    rows: int = 4096

    facts: ClassVar[Facts] = Facts("I[Y;W|x]", expression="I[Y;Omega|x,D]", jointly=True)

    def __post_init__(self) -> None:
        check_options(self, rows=1)


@dataclass(frozen=True)
class LogDetEIG(Objective):
    """EIG whose batches are log-determinants: a point alone is worth its BALD, and batches have no end at ln K.

    >>> LogDetEIG().facts.units
    'nats'
    """

    facts: ClassVar[Facts] = Facts(
        "I[Y;W|x], batches by log-determinant",
        reason="exact for one point; of a batch it is the information of a Gaussian over the weights of the draws",
    )
