"""Shortlists: the k best scores, found by looking at few points in full.

Where a state knows a ceiling for every score (cheap) and can score some points in full (dear), points are looked at
from the highest ceiling down, and from here and there among the others, until no ceiling that is left reaches the k-th
best score. The state hears what that is, and may lower its ceilings, or raise them, as it sees more scores.
docs/theory/epig-jepig.md, 5.
"""

import torch
from torch import Tensor

from natsel.capabilities import ShortlistedState

_FIRST = 64  # the least that is looked at in the first round, beside the k best ceilings
_PART = 1 << 14  # points whose ceilings are compared at once
_PROBES = 64  # points spread over all the others, so that ceilings learn from more than the best


def shortlist(state: ShortlistedState, k: int, allowed_N: Tensor, tie: float = 0.0) -> tuple[Tensor, Tensor]:
    """Positions looked at (in ascending order) and their scores, float64 on the CPU: the k best are among them.

    >>> from types import SimpleNamespace
    >>> score_N = torch.arange(1000).double()
    >>> state = SimpleNamespace(ceilings=lambda worth: score_N + 5, scores_at=lambda positions: score_N[positions])
    >>> positions, scores = shortlist(state, 2, torch.ones(1000, dtype=torch.bool))
    >>> positions[-2:].tolist(), len(positions)
    ([998, 999], 127)
    """
    seen_M, score_M = torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.float64)
    open_N = allowed_N.cpu().clone()
    size = max(2 * k, _FIRST)
    while k and bool(open_N.any()):
        worst = float(score_M.topk(k).values[-1]) if len(score_M) >= k else -torch.inf
        ceiling_N = state.ceilings(worst - tie).to("cpu", torch.float64)
        if len(seen_M):
            (hopeful_M,) = (ceiling_N >= worst - tie).logical_and_(open_N).nonzero(as_tuple=True)
            if not len(hopeful_M):
                break
            block_n = hopeful_M[ceiling_N[hopeful_M].topk(min(size, len(hopeful_M))).indices]
        else:
            block_n = _first_block(ceiling_N, open_N, size)
        del ceiling_N  # before the scores of the block need memory
        seen_M = torch.cat([seen_M, block_n])
        score_M = torch.cat([score_M, state.scores_at(block_n).to("cpu", torch.float64)])
        open_N[block_n] = False
        size *= 2
    in_order_M = seen_M.argsort()
    return seen_M[in_order_M], score_M[in_order_M]


def _first_block(ceiling_N: Tensor, open_N: Tensor, size: int) -> Tensor:
    """The open positions with the highest ceilings, `size` of them or all, and some from here and there; ascending.

    By parts: lists of all positions, and what `topk` sorts, would be several numbers per point.
    """
    apart = max(1, int(open_N.sum()) // _PROBES)
    taken_N, positions, ceilings = torch.zeros_like(open_N), [], []
    for start in range(0, len(open_N), _PART):
        (open_m,) = open_N[start : start + _PART].nonzero(as_tuple=True)
        highest = ceiling_N[start : start + _PART][open_m].topk(min(size, len(open_m)))
        positions.append(start + open_m[highest.indices])
        ceilings.append(highest.values)
        taken_N[start + open_m[::apart]] = True
    ceiling_M = torch.cat(ceilings)
    taken_N[torch.cat(positions)[ceiling_M.topk(min(size, len(ceiling_M))).indices]] = True
    return taken_N.nonzero().squeeze(1)
