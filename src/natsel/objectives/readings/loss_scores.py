"""Losses of known labels, read from losses that were computed before, or from predictions and labels.

    JPIG(x,y) ≈ L[y|x; D_train] − L[y|x; D_eval]                     reducible loss, RHO-LOSS

Losses that are infinite or NaN, as where training diverges, score −∞: they come last, and a warning counts them.
docs/theory/training-selection.md, 1, 2 and 5.
"""

import math
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from natsel import information as info
from natsel.beliefs import Belief, CategoricalSamples, ClassProbabilities, IndependentSamples
from natsel.beliefs.example_losses import ExampleLosses
from natsel.information.class_labels import class_labels
from natsel.memory import chunked
from natsel.objectives.losses import Loss, LossMinusEntropy, NegativeIrreducibleLoss
from natsel.objectives.objective import Argument, Objective
from natsel.objectives.pig import JPIG
from natsel.objectives.reading import Context, PairFacts, serves
from natsel.objectives.readings.pointwise import Pointwise

AnObjective = TypeVar("AnObjective", bound=Objective)
ABelief = TypeVar("ABelief", bound=Belief)

_HELD_OUT = "the irreducible loss is that of a model trained on held-out data alone, not on the training data as well"
_LOSSES = PairFacts(holds_labels=True, nonnegative=False, cost="N")
_KNOWN = PairFacts(needs=Argument.LABELS, cost="N·C")


class FiniteScores(Pointwise[AnObjective, ABelief]):
    """State of scores of losses: where they are not finite the score is −∞."""

    def __init__(self, objective: AnObjective, belief: ABelief, context: Context[ABelief], /) -> None:
        super().__init__(objective, belief, context)
        self._wrong = 0
        if not math.isfinite(float(self.scores_N.sum())):  # of finite numbers it may still overflow
            wrong_N = ~self.scores_N.isfinite()
            self._wrong = int(wrong_N.sum())
            self.scores_N = self.scores_N.masked_fill(wrong_N, -math.inf)

    @property
    def warnings(self) -> tuple[str, ...]:
        """How many losses are not finite."""
        if not self._wrong:
            return ()
        return (
            f"losses: {self._wrong} of {len(self.scores_N)} are infinite or NaN and count as −∞; look for a diverged"
            " network, or for labels that it holds impossible",
        )


@serves(
    JPIG,
    ExampleLosses,
    PairFacts(holds_labels=True, nonnegative=False, guarantee="approximate", why=_HELD_OUT, cost="N"),
)
class ReducibleLoss(FiniteScores[JPIG, ExampleLosses]):
    """RHO-LOSS: the loss now less the irreducible loss."""

    def score(self, objective: JPIG, belief: ExampleLosses, context: Context[ExampleLosses]) -> Tensor:
        """N values, of any sign."""
        return belief.loss_N - irreducible_losses(belief)


@serves(Loss, ExampleLosses, _LOSSES)
class LossHeld(FiniteScores[Loss, ExampleLosses]):
    """Losses as they are."""

    def score(self, objective: Loss, belief: ExampleLosses, context: Context[ExampleLosses]) -> Tensor:
        """N values; negative ones come from densities."""
        return belief.loss_N


@serves(NegativeIrreducibleLoss, ExampleLosses, _LOSSES)
class IrreducibleLossHeld(FiniteScores[NegativeIrreducibleLoss, ExampleLosses]):
    """Irreducible losses with the sign turned."""

    def score(
        self, objective: NegativeIrreducibleLoss, belief: ExampleLosses, context: Context[ExampleLosses]
    ) -> Tensor:
        """N values."""
        return -irreducible_losses(belief)


@serves(Loss, ClassProbabilities, _KNOWN)
class LossOfLabels(FiniteScores[Loss, ClassProbabilities]):
    """−ln p(y|x) of one prediction per point; draws are read as their mean."""

    def score(self, objective: Loss, belief: ClassProbabilities, context: Context[ClassProbabilities]) -> Tensor:
        """N values."""
        return losses(belief.log_probs_N_1_C, context.labels_N, lambda loss_n_1: loss_n_1[:, 0])


@serves(LossMinusEntropy, CategoricalSamples, PairFacts(needs=Argument.LABELS, nonnegative=False))
class LossBeyondNoise(FiniteScores[LossMinusEntropy, CategoricalSamples]):
    """−ln p(y|x) − E_ω H[Y|x,ω]."""

    def score(
        self, objective: LossMinusEntropy, belief: CategoricalSamples, context: Context[CategoricalSamples]
    ) -> Tensor:
        """N values, of any sign."""
        return loss_beyond_noise(objective, belief.log_probs_N_K_C, belief.log_weights_K, context.labels_N)


@serves(LossMinusEntropy, IndependentSamples, PairFacts(needs=Argument.LABELS, nonnegative=False))
class IndependentLossBeyondNoise(FiniteScores[LossMinusEntropy, IndependentSamples]):
    """−ln p(y|x) − E_ω H[Y|x,ω], of draws that belong to one point each."""

    def score(
        self, objective: LossMinusEntropy, belief: IndependentSamples, context: Context[IndependentSamples]
    ) -> Tensor:
        """N values, of any sign."""
        draws = belief.n_draws
        alike_K = torch.full((draws,), -math.log(draws), dtype=torch.float64, device=belief.device)
        return loss_beyond_noise(objective, belief.log_probs_N_K_C, alike_K, context.labels_N)


def loss_beyond_noise(
    objective: LossMinusEntropy, log_probs_N_K_C: Tensor, log_weights_K: Tensor, labels_N: Tensor
) -> Tensor:
    """The loss of known labels less the mean entropy of the draws, N values.

    >>> log_probs_1_1_2 = torch.tensor([[[0.5, 0.5]]]).log()
    >>> loss_beyond_noise(LossMinusEntropy(), log_probs_1_1_2, torch.zeros(1), torch.tensor([1])).abs().item() < 1e-6
    True
    """
    counts_K = log_weights_K > -math.inf  # a draw of weight 0 may hold a label impossible

    def of_the_mean(loss_n_K: Tensor) -> Tensor:
        return -torch.logsumexp(log_weights_K - loss_n_K, 1)

    def mean_of_draws(loss_n_K: Tensor) -> Tensor:
        return loss_n_K[:, counts_K] @ log_weights_K[counts_K].exp()

    over_draws = of_the_mean if objective.loss == "of the mean" else mean_of_draws
    loss_N = losses(log_probs_N_K_C, labels_N, over_draws)
    return loss_N - info.conditional_entropy(log_probs_N_K_C, log_weights_K)


def losses(log_probs_N_K_C: Tensor, labels_N: Tensor, over_draws: Callable[[Tensor], Tensor]) -> Tensor:
    """One loss per point: −ln p(y_n|x_n,ω_k) of known labels, [n, K] in float64, brought together over draws.

    >>> losses(torch.tensor([[[-2.0, -0.1]]]), torch.tensor([0]), lambda loss_n_K: loss_n_K[:, 0]).tolist()
    [2.0]
    """
    count, draws, classes = log_probs_N_K_C.shape
    classes_N = class_labels(labels_N, count, classes)

    def work(part: slice) -> Tensor:
        index_n_K_1 = classes_N[part, None, None].expand(-1, draws, 1)
        return over_draws(-log_probs_N_K_C[part].gather(2, index_n_K_1)[:, :, 0].double())

    return chunked(work, count, 48 * draws, log_probs_N_K_C.device)


def irreducible_losses(belief: ExampleLosses) -> Tensor:
    """Irreducible losses, N values, NaN where one is not known; refused where none is.

    >>> irreducible_losses(ExampleLosses([1.0], [0.5])).tolist()
    [0.5]
    """
    if bool(belief.irreducible_loss_N.isnan().all()):
        raise ValueError(
            "irreducible_loss_N: this belief holds none; pass the losses of a model trained on held-out data to"
            " ExampleLosses, or choose by loss alone"
        )
    return belief.irreducible_loss_N
