"""What similarity objectives share: one gradient per point, read from a belief, and the geometry it spans.

    FisherFactors      g = (π − e_y) ⊗ x        y: the likeliest label, one drawn from the prediction, or the true one
    FisherRows         g = the one row of a point
    CategoricalSamples g_k = √w_k (p_k(y|x) / p̄(y|x) − 1)       the gradient of ln p(y|x) in the weights of the draws
    GaussianFeatures   g = φ / √noise
    GaussianSamples    g_k = √w_k (mean_k − Σ_l w_l mean_l) / √E v       read as they are by Distance and PoolSum alone

The precision that a Fisher belief carries is not looked at: these are the methods of an uninformative posterior, in
which every weight counts alike.
docs/theory/weight-space.md, 8.
"""

import math
from dataclasses import dataclass
from typing import Literal

from natsel.objectives.objective import NOTHING, Argument
from natsel.options import check_options

Label = Literal["hard", "sampled", "true"]


@dataclass(frozen=True)
class OneGradient:
    """Options of the objectives: under which `label` gradients are taken, and whether all are equally long (`cosine`).

    >>> OneGradient().label
    'hard'
    """

    label: Label = "hard"
    cosine: bool = False

    def __post_init__(self) -> None:
        check_options(self)
        for name in ("ridge", "eta", "penalty", "threshold"):
            value = getattr(self, name, 1.0)
            if not 0 < value < math.inf:
                raise ValueError(f"{name}: expected a positive number, found {value!r}; the default is 1 or less")

    @property
    def needs(self) -> Argument:
        """Known labels, where gradients are taken under true ones."""
        return Argument.LABELS if self.label == "true" else NOTHING
