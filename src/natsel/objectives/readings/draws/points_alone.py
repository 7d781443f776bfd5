"""Beliefs that know what members say about each point, and nothing about points together: scores alone are read.

    DirichletMembers      I[Y;Ω|x] = Σ_c m_c r(α_c) − r(a0)        E H[Y|x,ω] = ψ(a0+1) − Σ_c m_c ψ(α_c+1)
    IndependentSamples    the same as from draws that all points share, as long as each point is taken alone

EIG offers scores and no more: what labels of two points tell together cannot be known, so that BatchBALD is refused.
docs/theory/dirichlet-ensembles.md, 2 and 7; docs/theory/batchbald.md, 12.
"""

from typing import ClassVar

from torch import Tensor

from natsel import information as info
from natsel.beliefs import Belief, DirichletMembers, IndependentSamples
from natsel.capabilities import Capability
from natsel.objectives.eig import EIG
from natsel.objectives.plain import ExpectedEntropy, MeanStd, StdDev, Variance
from natsel.objectives.reading import Context, PairFacts, serves
from natsel.objectives.readings.pointwise import Pointwise, pointwise

_DRAWS = PairFacts(needs_draws=True)


@serves(EIG, DirichletMembers, PairFacts(cost="N·C"))
class DirichletEIG(Pointwise[EIG, DirichletMembers]):
    """BALD in closed form."""

    offers: ClassVar[Capability] = Capability.SCORES

    def score(self, objective: EIG, belief: DirichletMembers, context: Context[DirichletMembers]) -> Tensor:
        """One score per point."""
        return info.dirichlet_mutual_information(belief.probs_N_C, belief.concentration_N)


@serves(EIG, IndependentSamples, _DRAWS)
class IndependentEIG(Pointwise[EIG, IndependentSamples]):
    """BALD of draws that belong to one point each."""

    offers: ClassVar[Capability] = Capability.SCORES

    def score(self, objective: EIG, belief: IndependentSamples, context: Context[IndependentSamples]) -> Tensor:
        """One score per point."""
        return info.mutual_information(belief.log_probs_N_K_C)


@pointwise(ExpectedEntropy, DirichletMembers, PairFacts(cost="N·C"))
def _expected_entropy_of_members(
    objective: ExpectedEntropy, belief: DirichletMembers, context: Context[Belief]
) -> Tensor:
    return info.dirichlet_expected_entropy(belief.probs_N_C, belief.concentration_N)


@pointwise(ExpectedEntropy, IndependentSamples)
def _expected_entropy(objective: ExpectedEntropy, belief: IndependentSamples, context: Context[Belief]) -> Tensor:
    return info.conditional_entropy(belief.log_probs_N_K_C)


@pointwise(StdDev, IndependentSamples, _DRAWS)
def _std_dev(objective: StdDev, belief: IndependentSamples, context: Context[Belief]) -> Tensor:
    return info.standard_deviation(belief.log_probs_N_K_C)


@pointwise(MeanStd, IndependentSamples, _DRAWS)
def _mean_std(objective: MeanStd, belief: IndependentSamples, context: Context[Belief]) -> Tensor:
    return info.standard_deviation(belief.log_probs_N_K_C) / belief.shape[2]


@pointwise(Variance, IndependentSamples, _DRAWS)
def _variance(objective: Variance, belief: IndependentSamples, context: Context[Belief]) -> Tensor:
    return info.variance(belief.log_probs_N_K_C)
