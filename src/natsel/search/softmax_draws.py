"""Softmax draws: points drawn with replacement, better scores more often.

    p_i ∝ exp(beta · s_i)                                   beta = 1 / temperature; 0: all alike

`natsel.Softmax` draws by the same weights without replacement. No weights come with the picks: like top-k, the draws
prefer what scores high, and are not meant to stand for all points.
docs/theory/training-selection.md, 5; Mindermann et al. 2022.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from natsel.capabilities import Capability, Picks, Progress, State
from natsel.search.gumbel import check_beta
from natsel.search.importance import inverse_of_sums, refuse_infinite
from natsel.search.topk import allowed_scores, check_k


@dataclass(frozen=True)
class SoftmaxDraws:
    """Draw k points with replacement, p(i) ∝ exp(beta · score_i); a point may come several times.

    Points of −∞ are left out. The default is the temperature 0.25 of stochastic RHO-LOSS.

    >>> from types import SimpleNamespace
    >>> state = SimpleNamespace(scores=lambda: torch.tensor([0.0, 1.0, -9.0, 0.5]))
    >>> picks = SoftmaxDraws()(state, 4, torch.ones(4, dtype=torch.bool), torch.Generator().manual_seed(0))
    >>> picks.positions.tolist()
    [3, 1, 1, 3]
    """

    beta: float = 4.0
    needs: ClassVar[Capability] = Capability.SCORES
    with_replacement: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_beta(self.beta)
        if math.isinf(self.beta):
            raise ValueError("beta: with inf every draw is the best point; use TopK")

    def __call__(
        self,
        state: State,
        k: int,
        allowed_N: torch.Tensor,
        generator: torch.Generator,
        progress: Progress | None = None,
    ) -> Picks:
        """Draw k of the allowed positions."""
        positions_M, scores_M = allowed_scores(state, allowed_N)
        check_k(k, len(positions_M))
        refuse_infinite(scores_M, positions_M)
        if k and bool((scores_M == -torch.inf).all()):
            raise ValueError("scores: all are −infinity; exclude such points or repair the predictions they come from")
        # The best score first: beta · score alone could overflow. Scores of −∞ keep a chance of 0 also for beta = 0.
        scaled_M = self.beta * (scores_M - scores_M.max()) if len(scores_M) else scores_M
        log_probs_M = scaled_M.masked_fill(scores_M == -torch.inf, -torch.inf).log_softmax(0)
        rows_k = inverse_of_sums(log_probs_M.exp(), torch.rand(k, dtype=torch.float64, generator=generator))
        scores_k = scores_M[rows_k]
        return Picks(
            positions=positions_M[rows_k],
            scores=scores_k,
            total=float(scores_k.sum()),
            log_prob=float(log_probs_M[rows_k].sum()),
        )
