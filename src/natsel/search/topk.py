"""Top-k search: the k best scores, as if points did not overlap.

    argmax_{|I| = k}  Σ_{i in I} s_i        ties, also but for rounding, are drawn from the seed (`natsel.ties`)

`torch.topk` promises no order among ties, and ties are common (copies, exhausted scores, the ceiling ln K),
so it only finds the threshold here; who is taken at the threshold is decided explicitly. Few, or all, are sorted.
docs/theory/batchbald.md, 2; docs/theory/stochastic-batches.md, 2.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from natsel.capabilities import Capability, Picks, Progress, State, has_ceilings, has_errors
from natsel.options import Amount
from natsel.rounding import TIE
from natsel.search.shortlist import shortlist
from natsel.ties import Order, order_of

_FEW = 4096  # a sort of so many takes less than the dozen operations of a threshold: a tenth, for the 320 of a step


def stable_top_k(k: Amount, *keys_N: Tensor) -> Tensor:
    """Positions of the k largest, best first: by the first key, ties by the next, then the lower position.

    O(N + N log k) for any pattern of ties. Keys hold no NaN; infinities are fine.

    >>> stable_top_k(3, torch.tensor([1.0, 5.0, 5.0, 5.0]), torch.tensor([9.0, 0.0, 2.0, 0.0]))
    tensor([2, 1, 3])
    """
    first_N, *others_N = keys_N
    if k == 0:
        return torch.empty(0, dtype=torch.int64, device=first_N.device)
    if not others_N and (len(first_N) <= _FEW or len(first_N) == k):
        return first_N.argsort(descending=True, stable=True)[:k]
    threshold = first_N.topk(k).values[-1]
    reach = (first_N >= threshold).nonzero().squeeze(1)
    is_above = first_N[reach] > threshold
    above, tied = reach[is_above], reach[~is_above]
    for key_N in reversed(keys_N):  # stable sorts, least significant key first
        above = above[torch.argsort(key_N[above], descending=True, stable=True)]
    missing = k - len(above)
    if others_N:
        tied = tied[stable_top_k(missing, *(key_N[tied] for key_N in others_N))]
    return torch.cat([above, tied[:missing]])


def drawn_top_k(k: int, positions_M: Tensor, order: Order, *keys_M: Tensor) -> Tensor:
    """Rows of the k largest, as in `stable_top_k`, but equals in the order of their positions, which hears of them.

    >>> drawn_top_k(2, torch.arange(3), Order(), torch.tensor([0.5, 0.7, 0.7]))
    tensor([1, 2])
    """
    best_B = stable_top_k(min(k + 1, len(positions_M)), *keys_M)
    same_B = torch.stack([key_M[best_B[1:]] == key_M[best_B[:-1]] for key_M in keys_M]).all(0)
    if k and bool(same_B.any()):
        reach = (keys_M[0] >= keys_M[0][best_B[k - 1]]).nonzero().squeeze(1)
        tied_n = torch.isin(keys_M[0][reach], keys_M[0][best_B[1:][same_B]])
        equal = reach[tied_n]
        reach[tied_n] = equal[order.argsort(positions_M[equal])]
        best_B = reach[stable_top_k(min(k + 1, len(reach)), *(key_M[reach] for key_M in keys_M))]
        same_B = torch.stack([key_M[best_B] == key_M[best_B[k - 1]] for key_M in keys_M]).all(0)
    order.count(k, int(same_B[:k].sum()) if bool(same_B[k:].any()) else 0)
    return best_B[:k]


def level(scores_M: Tensor, k: int) -> Tensor:
    """Scores of which those are equal that differ by rounding, down to the k-th best: others only seem to be ordered.

    >>> level(torch.tensor([0.5, 0.7, 0.7 + 1e-12], dtype=torch.float64), 2).diff()[1]
    tensor(0., dtype=torch.float64)
    """
    best_B = scores_M.topk(k).values
    tie = TIE * best_B[0].abs().clamp_max(1)
    reach_n = (scores_M >= best_B[-1] - tie).nonzero().squeeze(1)
    falling_n, order_n = scores_M[reach_n].sort(descending=True, stable=True)
    step_n = (falling_n.diff(prepend=falling_n[:1]) < -tie).cumsum(0)  # one more wherever a score is clearly smaller
    return scores_M.index_copy(0, reach_n[order_n], falling_n[torch.searchsorted(step_n, step_n)])


def allowed_scores(state: State, allowed_N: Tensor, stay: bool = False) -> tuple[Tensor, Tensor]:
    """The allowed positions and their scores in float64, on the CPU, or where the scores are if they may `stay` there.

    >>> from types import SimpleNamespace
    >>> state = SimpleNamespace(scores=lambda: torch.tensor([0.5, 0.25]))
    >>> allowed_scores(state, torch.tensor([False, True]))
    (tensor([1]), tensor([0.2500], dtype=torch.float64))
    """
    scores_N = state.scores().detach().double()
    scores_N = scores_N if stay else scores_N.cpu()
    allowed_N = allowed_N.to(scores_N.device)
    if scores_N.shape != allowed_N.shape or scores_N.ndim != 1:
        raise ValueError(
            f"allowed_N: needs one entry per score (scores have shape {tuple(scores_N.shape)}, the mask "
            f"{tuple(allowed_N.shape)}); pass a boolean mask of length N"
        )
    positions_M = allowed_N.nonzero().squeeze(1)
    scores_M = scores_N if len(positions_M) == len(scores_N) else scores_N[positions_M]
    refuse_nan("scores", scores_M, positions_M)
    return positions_M, scores_M


def refuse_nan(name: str, values_M: Tensor, positions_M: Tensor | None = None) -> None:
    """Raise a ValueError that names the first position whose value is NaN.

    >>> refuse_nan("scores", torch.tensor([0.1, 0.2]))
    """
    is_nan_M = values_M.isnan()
    if is_nan_M.any():
        row = int(is_nan_M.nonzero()[0])
        raise ValueError(
            f"{name}: NaN at position {row if positions_M is None else int(positions_M[row])} "
            f"({int(is_nan_M.sum())} in all); exclude such points or repair the predictions they come from"
        )


def check_k(k: int, candidates: int) -> None:
    """Raise a ValueError unless 0 <= k <= candidates.

    >>> check_k(2, candidates=3)
    """
    if not 0 <= k <= candidates:
        raise ValueError(f"k: asked for {k} of {candidates} candidates; pass 0 <= k <= {candidates}")


@dataclass(frozen=True)
class TopK:
    """The k best scores.

    >>> from types import SimpleNamespace
    >>> state = SimpleNamespace(scores=lambda: torch.tensor([0.1, 0.7, 0.7, 0.3]), offers=TopK.needs)
    >>> TopK()(state, 2, torch.ones(4, dtype=torch.bool), torch.Generator()).positions
    tensor([1, 2])
    """

    needs: ClassVar[Capability] = Capability.SCORES

    def __call__(
        self, state: State, k: int, allowed_N: Tensor, generator: torch.Generator, progress: Progress | None = None
    ) -> Picks:
        """Pick the k best; the generator is left alone."""
        if has_ceilings(state):
            check_k(k, int(allowed_N.sum()))
            positions_M, scores_M = shortlist(state, k, allowed_N, TIE)
            refuse_nan("scores", scores_M, positions_M)
        else:
            positions_M, scores_M = allowed_scores(state, allowed_N, stay=True)  # k of them come to the CPU
        check_k(k, len(positions_M))
        chosen_B = drawn_top_k(k, positions_M, order_of(state), level(scores_M, k) if k else scores_M)
        scores_B, positions_B = scores_M[chosen_B].cpu(), positions_M[chosen_B].cpu()
        picks = Picks(positions_B, scores_B, total=float(scores_B.sum()))
        if not has_errors(state) or state.exact or not 0 < k < len(positions_M):
            return picks
        next_best = int(scores_M.index_fill(0, chosen_B, -torch.inf).argmax())
        errors_B = state.errors(positions_B, int(positions_M[next_best])).cpu()
        return replace(picks, gaps=scores_B - float(scores_M[next_best]), gap_errors=errors_B)
