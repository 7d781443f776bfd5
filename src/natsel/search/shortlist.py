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
    score_N = torch.full((len(allowed_N),), torch.nan, dtype=torch.float64)
    open_N = allowed_N.cpu().clone()
    size = max(2 * k, _FIRST)
    while k and bool(open_N.any()):
        seen_M = score_N[allowed_N.cpu() & ~open_N]
        worst = float(seen_M.topk(k).values[-1]) if len(seen_M) >= k else -torch.inf
        ceiling_N = state.ceilings(worst - tie).to("cpu", torch.float64)
        (hopeful_M,) = (ceiling_N >= worst - tie).logical_and_(open_N).nonzero(as_tuple=True)
        if not len(hopeful_M):
            break
        block_n = hopeful_M[ceiling_N[hopeful_M].topk(min(size, len(hopeful_M))).indices]
        if not len(seen_M):
            others_M = open_N.nonzero().squeeze(1)
            taken_N = torch.zeros_like(open_N)
            taken_N[block_n] = taken_N[others_M[:: max(1, len(others_M) // _PROBES)]] = True
            block_n = taken_N.nonzero().squeeze(1)
        score_N[block_n] = state.scores_at(block_n).to("cpu", torch.float64)
        open_N[block_n] = False
        size *= 2
    (seen_M,) = (allowed_N.cpu() & ~open_N).nonzero(as_tuple=True)
    return seen_M, score_N[seen_M]
