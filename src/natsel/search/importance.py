"""Importance sampling: points drawn with replacement in proportion to their scores, with weights that put it right.

    p_i = s_i / Σ_j s_j,      w_i = 1 / (N p_i)                     E[ mean of w_i f_i over the picks ] = mean of f_i

The weighted mean over the picks is unbiased for the mean over all N points that may be picked, wherever f_i = 0 or
s_i > 0; for gradients f_i the variance is least where s_i is their length. Where all scores are 0, points are drawn
alike, with weights 1.
docs/theory/training-selection.md, 5; Katharopoulos & Fleuret 2018.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from natsel.capabilities import Capability, Picks, Progress, State
from natsel.search.stochastic import ROUNDING
from natsel.search.topk import allowed_scores, check_k


@dataclass(frozen=True)
class ImportanceSampling:
    """Draw k points with replacement, p(i) ∝ score_i, each with the weight 1/(N p_i); a point may come several times.

    Negative scores count as 0. Points of −∞ are left out altogether, and N does not count them.

    >>> from types import SimpleNamespace
    >>> state = SimpleNamespace(scores=lambda: torch.tensor([0.0, 3.0, 0.0, 1.0]))
    >>> picks = ImportanceSampling()(state, 4, torch.ones(4, dtype=torch.bool), torch.Generator().manual_seed(3))
    >>> picks.positions.tolist(), picks.weights.round(decimals=4).tolist()
    ([1, 1, 3, 1], [0.3333, 0.3333, 1.0, 0.3333])
    """

    needs: ClassVar[Capability] = Capability.SCORES
    with_replacement: ClassVar[bool] = True

    def __call__(
        self, state: State, k: int, allowed_N: Tensor, generator: torch.Generator, progress: Progress | None = None
    ) -> Picks:
        """Draw k of the allowed positions."""
        positions_M, scores_M = allowed_scores(state, allowed_N)
        check_k(k, len(positions_M))
        refuse_infinite(scores_M, positions_M)
        if k and bool((scores_M == -torch.inf).all()):
            raise ValueError("scores: all are −infinity; exclude such points or repair the predictions they come from")
        log_probs_M, notes = log_probabilities(scores_M, positions_M)
        drawn_k = torch.rand(k, dtype=torch.float64, generator=generator)
        rows_k = inverse_of_sums(log_probs_M.exp(), drawn_k)
        candidates = int((scores_M > -torch.inf).sum())
        scores_k = scores_M[rows_k]
        return Picks(
            positions=positions_M[rows_k],
            scores=scores_k,
            total=float(scores_k.sum()),
            log_prob=float(log_probs_M[rows_k].sum()),
            weights=(-log_probs_M[rows_k]).exp() / max(1, candidates),
            notes=notes,
        )


def log_probabilities(scores_M: Tensor, positions_M: Tensor) -> tuple[Tensor, tuple[str, ...]]:
    """ln p of each point, and what there is to say about it.

    >>> log_probabilities(torch.tensor([3.0, 1.0]), torch.arange(2))[0].exp()
    tensor([0.7500, 0.2500])
    """
    weights_M, notes = scores_M.clamp_min(0), []
    finite_M = scores_M.masked_fill(scores_M == -torch.inf, 0.0)
    if len(scores_M) and float(finite_M.min()) < ROUNDING:
        lowest = int(finite_M.argmin())
        notes.append(
            f"scores: negative ones count as 0 under ImportanceSampling (lowest {float(finite_M[lowest]):.6g} at"
            f" position {int(positions_M[lowest])}); use Softmax or SoftRank where 0 does not mean useless"
        )
    if len(scores_M) and not bool(weights_M.any()):
        weights_M = (scores_M > -torch.inf).to(scores_M)
        notes.append("scores: none is above 0, so that points were drawn alike, with weights 1")
    log_weights_M = weights_M.log()
    return log_weights_M - log_weights_M.logsumexp(0), tuple(notes)


def inverse_of_sums(probs_M: Tensor, drawn_k: Tensor) -> Tensor:
    """The rows that numbers from 0 to 1 fall on, where each row is as long as its probability; never one of length 0.

    >>> inverse_of_sums(torch.tensor([0.5, 0.0, 0.5]), torch.tensor([0.2, 0.5, 0.999]))
    tensor([0, 2, 2])
    """
    if len(drawn_k) == 0:
        return torch.empty(0, dtype=torch.int64)
    sums_M = probs_M.cumsum(0)
    # Scaled by the last sum, which rounding moves off 1; a product may still round up to that sum.
    rows_k = torch.searchsorted(sums_M, drawn_k * sums_M[-1], right=True)
    return rows_k.clamp_max(int(probs_M.nonzero()[-1]))


def refuse_infinite(scores_M: Tensor, positions_M: Tensor) -> None:
    """Raise a ValueError that names the first position whose score is +infinity.

    >>> refuse_infinite(torch.tensor([0.1, -torch.inf]), torch.arange(2))
    """
    infinite_M = scores_M == torch.inf
    if bool(infinite_M.any()):
        raise ValueError(
            f"scores: +infinity at position {int(positions_M[infinite_M][0])}, which has no share of a finite sum;"
            " exclude such points or use TopK"
        )
