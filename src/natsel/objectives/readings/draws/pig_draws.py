"""PIG and JPIG read from draws, of classes or of numbers: both need no more than the likelihood of each label.

A set of labels has the product of their likelihoods, so that the gain of a point is its score under the draws weighed
by the labels taken so far. A label that no draw allows has no score (NaN, which searches refuse); one that contradicts
the targets has −∞.
docs/theory/epig-jepig.md, 11.
"""

import math

import torch
from torch import Tensor

from natsel.beliefs import CategoricalSamples, GaussianSamples
from natsel.information.known_labels import jpig, log_predictive, pig, targets_posterior
from natsel.memory import chunked
from natsel.objectives.objective import Argument
from natsel.objectives.pig import JPIG, PIG
from natsel.objectives.reading import Context, PairFacts, serves
from natsel.objectives.readings.batch_state import TakingState

_FEW = 2  # effective draws
# What −∞ counts as in a batch, where searches leave out points of −∞: last, but still to be had.
_LAST = -1e100


def _facts(cost: str) -> PairFacts:
    return PairFacts(needs=Argument.LABELS | Argument.TARGETS, needs_draws=True, nonnegative=False, cost=cost)


class KnownLabelState(TakingState):
    """What both share: likelihoods of the labels, and points taken one by one."""

    def __init__(
        self,
        objective: PIG | JPIG,
        belief: CategoricalSamples | GaussianSamples,
        context: Context[CategoricalSamples | GaussianSamples],
    ) -> None:
        self.seen_N_K = likelihoods(belief, context.labels_N)
        self.prior_K = belief.log_weights_K
        self.aims_M_K, self.weights_M = known_targets(context)
        self.aims_M_K = self.aims_M_K.to(self.prior_K.device)

    def bounds(self) -> Tensor:
        """The scores, which bound nothing once a point is taken."""
        return self.scores().clamp_min(_LAST)

    def add(self, position: int) -> float:
        """Take a point; a label that contradicts the targets or the labels before it leaves the draws as they were."""
        gain = float(self.gains(torch.tensor([position]))[0])
        if gain == _LAST:
            gain = -math.inf
        else:
            self.take(position)
        self.total += gain
        return gain


class KnownPIG(KnownLabelState):
    """Gains about each target label, under the draws as the labels taken weigh them."""

    def __init__(
        self,
        objective: PIG,
        belief: CategoricalSamples | GaussianSamples,
        context: Context[CategoricalSamples | GaussianSamples],
    ) -> None:
        super().__init__(objective, belief, context)
        self.weights_K = self.prior_K

    def scores(self) -> Tensor:
        """PIG of every label by itself."""
        return pig(self.seen_N_K, self.aims_M_K, self.prior_K, self.weights_M)

    def gains(self, positions: Tensor) -> Tensor:
        """Σ_j v_j ln p(y*_j|labels so far, y) / p(y*_j|labels so far) of each position."""
        seen_n_K = self.seen_N_K[positions.to(self.seen_N_K.device)]
        return pig(seen_n_K, self.aims_M_K, self.weights_K, self.weights_M).nan_to_num(_LAST, math.inf, _LAST)

    def take(self, position: int) -> None:
        """Weigh the draws by one more label."""
        self.weights_K = (self.weights_K + self.seen_N_K[position]).log_softmax(0)

    def value(self, positions: Tensor) -> float:
        """What a set of labels tells: their likelihoods multiply."""
        together_1_K = self.seen_N_K[positions.to(self.seen_N_K.device)].sum(0, keepdim=True)
        return float(pig(together_1_K, self.aims_M_K, self.prior_K, self.weights_M)[0]) if len(positions) else 0.0


serves(PIG, GaussianSamples, _facts("N·M·K"))(KnownPIG)
serves(PIG, CategoricalSamples, _facts("N·M·K"))(KnownPIG)


class KnownJPIG(KnownLabelState):
    """Gains about all target labels together: two weights of the draws, without and with the target labels."""

    def __init__(
        self,
        objective: JPIG,
        belief: CategoricalSamples | GaussianSamples,
        context: Context[CategoricalSamples | GaussianSamples],
    ) -> None:
        super().__init__(objective, belief, context)
        if self.weights_M is not None:
            raise ValueError("target weights: JPIG takes all targets together and has no use for them; use PIG")
        self.posterior_K = targets_posterior(self.aims_M_K, self.prior_K)
        self.before_K, self.after_K = self.prior_K, self.posterior_K

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know before trusting the scores."""
        left = float(1 / self.posterior_K.exp().square().sum())
        if left >= _FEW or len(self.prior_K) < 2 * _FEW:
            return ()
        return (
            f"targets: their labels leave {left:.1f} draws, so that JPIG compares the loss with that of a single draw;"
            " use fewer targets, more draws, or PIG",
        )

    def scores(self) -> Tensor:
        """JPIG of every label by itself."""
        return log_predictive(self.seen_N_K, self.posterior_K) - log_predictive(self.seen_N_K, self.prior_K)

    def gains(self, positions: Tensor) -> Tensor:
        """ln p(y|labels so far, y*_1..M) − ln p(y|labels so far) of each position."""
        seen_n_K = self.seen_N_K[positions.to(self.seen_N_K.device)]
        gain_n = log_predictive(seen_n_K, self.after_K) - log_predictive(seen_n_K, self.before_K)
        return gain_n.nan_to_num(_LAST, math.inf, _LAST)

    def take(self, position: int) -> None:
        """Weigh the draws by one more label, without and with the target labels."""
        self.before_K = (self.before_K + self.seen_N_K[position]).log_softmax(0)
        self.after_K = (self.after_K + self.seen_N_K[position]).log_softmax(0)

    def value(self, positions: Tensor) -> float:
        """What a set of labels tells: their likelihoods multiply."""
        together_1_K = self.seen_N_K[positions.to(self.seen_N_K.device)].sum(0, keepdim=True)
        return float(jpig(together_1_K, self.aims_M_K, self.prior_K)[0]) if len(positions) else 0.0


serves(JPIG, GaussianSamples, _facts("M·K + N·K"))(KnownJPIG)
serves(JPIG, CategoricalSamples, _facts("M·K + N·K"))(KnownJPIG)


def likelihoods(belief: CategoricalSamples | GaussianSamples, labels_N: Tensor) -> Tensor:
    """ln p(y_n | x_n, ω_k), [N, K] in float64.

    >>> likelihoods(CategoricalSamples.from_probs([[[0.5, 0.5], [0.25, 0.75]]]), torch.tensor([1])).exp().tolist()
    [[0.5, 0.75]]
    """
    if isinstance(belief, CategoricalSamples):
        count, draws, _ = belief.shape
        index_N_K_1 = labels_N.long()[:, None, None].expand(count, draws, 1)
        return belief.log_probs_N_K_C.gather(2, index_N_K_1).squeeze(2).double()

    def work(part: slice) -> Tensor:
        variance_n_K = belief.variance_N_K[part].double()
        gap_n_K = labels_N[part, None].double() - belief.mean_N_K[part].double()
        return -0.5 * (gap_n_K.square() / variance_n_K + (2 * math.pi * variance_n_K).log())

    return chunked(work, len(belief), 32 * belief.mean_N_K.shape[1], belief.device)


def known_targets(context: Context[CategoricalSamples | GaussianSamples]) -> tuple[Tensor, Tensor | None]:
    """Likelihoods of the target labels, [M, K], and the weights of the targets."""
    targets = context.targets
    if targets.labels_M is None:
        raise ValueError(
            "targets: their labels are not known, and PIG and JPIG weigh them; pass natsel.Targets(belief, labels=…),"
            " or choose EPIG"
        )
    return likelihoods(targets.belief, targets.labels_M), targets.weights_M
