"""Scores of one deterministic network, read from the densities of its features and its logits."""

from collections.abc import Callable

from torch import Tensor

from natsel import information as info
from natsel.beliefs import Belief, FeatureDensity
from natsel.memory import chunked
from natsel.objectives.density import Density, Energy, MaxLogit
from natsel.objectives.plain import ExpectedEntropy
from natsel.objectives.reading import Context, PairFacts
from natsel.objectives.readings.pointwise import pointwise

_OF_LOGITS = PairFacts(nonnegative=False, cost="N·C")


@pointwise(Density, FeatureDensity, PairFacts(nonnegative=False, cost="N"))
def _density(objective: Density, belief: FeatureDensity, context: Context[Belief]) -> Tensor:
    return -belief.log_density_N


@pointwise(Energy, FeatureDensity, _OF_LOGITS)
def _energy(objective: Energy, belief: FeatureDensity, context: Context[Belief]) -> Tensor:
    return _of_rows(belief, lambda logits_n_C: -logits_n_C.logsumexp(1))


@pointwise(MaxLogit, FeatureDensity, _OF_LOGITS)
def _max_logit(objective: MaxLogit, belief: FeatureDensity, context: Context[Belief]) -> Tensor:
    return _of_rows(belief, lambda logits_n_C: -logits_n_C.amax(1))


# The parameters are one draw: the entropy that is expected of it is its own.
@pointwise(ExpectedEntropy, FeatureDensity, PairFacts(cost="N·C"))
def _entropy_of_the_network(objective: ExpectedEntropy, belief: FeatureDensity, context: Context[Belief]) -> Tensor:
    return _of_rows(belief, lambda logits_n_C: info.entropy((logits_n_C / belief.temperature).log_softmax(1)))


def _of_rows(belief: FeatureDensity, work: Callable[[Tensor], Tensor]) -> Tensor:
    """One number per point from its logits in float64, in chunks that keep to the memory budget."""
    logits_N_C = belief.logits_N_C
    return chunked(lambda part: work(logits_N_C[part].double()), len(belief), 40 * logits_N_C.shape[1], belief.device)
