"""Losses of known labels: which labelled examples to train on.

    Loss                        −ln p(y|x)                           what the network gets wrong now, wrong labels first
    NegativeIrreducibleLoss     ln p(y|x) of a held-out model        what can be learnt, learnt already or not
    LossMinusEntropy            −ln p(y|x) − E_ω H[Y|x,ω]            the loss less the noise that the draws expect

The loss less the irreducible loss (RHO-LOSS) is JPIG, read from a belief of losses. Losses that are not finite score
−∞. The mean of LossMinusEntropy over labels from the mean prediction is I[Y;Ω|x].
How they are read from beliefs: `natsel.objectives.readings`.
docs/theory/training-selection.md, 2 and 5; Mindermann et al. 2022.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from natsel.objectives.objective import Facts, Objective


@dataclass(frozen=True)
class Loss(Objective):
    """The loss −ln p(y|x) of the known label, under the mean prediction where there are draws.

    >>> Loss().facts.quantity
    'H[y|x]'
    """

    facts: ClassVar[Facts] = Facts("H[y|x]", expression="H[y|x,D]")


@dataclass(frozen=True)
class NegativeIrreducibleLoss(Objective):
    """ln p(y|x) of a model trained on held-out data alone: low for wrong labels and for what is unlike that data.

    >>> NegativeIrreducibleLoss().facts.units
    'nats'
    """

    facts: ClassVar[Facts] = Facts(
        "ln p(y|x) of a held-out model", reason="it is a loss under another model, which saw held-out data alone"
    )


@dataclass(frozen=True)
class LossMinusEntropy(Objective):
    """The loss less the entropy that the draws expect of a label: RHO-LOSS with the model's own idea of noise.

    `loss` says which loss: that of the mean prediction, −ln E_ω p(y|x,ω), or the mean loss of the draws,
    −E_ω ln p(y|x,ω), which is never smaller.

    >>> LossMinusEntropy(loss="mean of draws").facts.quantity
    'H[y|x] - H[Y|x,W]'
    """

    loss: Literal["of the mean", "mean of draws"] = "of the mean"

    facts: ClassVar[Facts] = Facts("H[y|x] - H[Y|x,W]", expression="H[y|x,D] - H[Y|x,Omega,D]")
