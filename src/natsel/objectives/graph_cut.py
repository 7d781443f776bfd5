"""Graph cut: a set that is like the whole pool, less what its points have in common with each other.

    GraphCut   f(A)     = Σ_{i∈V, j∈A} s_ij − λ Σ_{i,j∈A} s_ij
    given P    f(A|P)   = f(A ∪ P) − f(P) = f(A) − 2λ Σ_{i∈P, j∈A} s_ij
    GCMI       I_f(A;Q) = 2λ Σ_{i∈Q, j∈A} s_ij                            a sum over points, whatever is held

V is the pool, Q the targets, λ the `penalty`. Sums over all of V cost one C × D matrix. Gradients may point apart, so
that similarities, scores and gains may be negative; f is submodular only where no similarity is.
docs/theory/weight-space.md, 9.5; Iyer et al. 2021; Kothawade et al. 2021, 2022.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from natsel.objectives.gradient_options import OneGradient
from natsel.objectives.objective import Facts, Objective

_REASON = "a sum of similarities, no information quantity"


@dataclass(frozen=True)
class GraphCut(OneGradient, Objective):
    """Likeness to the pool less `penalty` times the likeness within the set.

    >>> GraphCut(penalty=0.5).facts.units
    'similarity'
    """

    penalty: float = 0.4

    facts: ClassVar[Facts] = Facts("Σ s − λ Σ s", reason=_REASON, units="similarity")


@dataclass(frozen=True)
class GCMI(OneGradient, Objective):
    """Twice `penalty` times the likeness of a point to all targets: the mutual information of graph cuts.

    >>> GCMI().penalty
    0.4
    """

    penalty: float = 0.4

    facts: ClassVar[Facts] = replace(GraphCut.facts, quantity="2λ Σ s*")
