"""Exhaustive search: the best of all k-subsets, for small pools and as the yardstick of other searches.

    argmax_{|I| = k, I allowed}  f(I)

Among subsets within 1e-10 of the best value the lexicographically first wins, in the order in which equals are taken,
so rounding that differs between devices does not change the answer. The picks come in ascending order with their gains
along it, f(i_1..i_j) - f(i_1..i_{j-1}), f({}) = 0.  docs/theory/batchbald.md, 3 and 7.
"""

from dataclasses import dataclass
from itertools import combinations
from math import comb, isnan
from typing import ClassVar

import torch
from torch import Tensor

from natsel.capabilities import Capability, Picks, Progress, State, ValuedState, has_value, lacking
from natsel.options import check_options
from natsel.rounding import TIE
from natsel.search.patience import PATIENCE, check_patience, refuse_long
from natsel.search.topk import check_k
from natsel.ties import order_of


@dataclass(frozen=True)
class Exhaustive:
    """The best k-subset by trying all of them, at most `limit`, if that takes no more than about `patience` seconds.

    >>> from types import SimpleNamespace
    >>> parities = lambda positions: float(len({int(p) % 2 for p in positions}))
    >>> state = SimpleNamespace(value=parities, offers=Exhaustive.needs)
    >>> Exhaustive()(state, 2, torch.ones(4, dtype=torch.bool), torch.Generator()).positions
    tensor([0, 1])
    """

    limit: int = 200_000
    patience: float = PATIENCE
    needs: ClassVar[Capability] = Capability.VALUE

    def __post_init__(self) -> None:
        check_patience(self.patience)
        check_options(self, limit=1)

    def __call__(
        self, state: State, k: int, allowed_N: Tensor, generator: torch.Generator, progress: Progress | None = None
    ) -> Picks:
        """Pick the best subset; neither generator nor progress is used."""
        if not has_value(state):
            raise lacking(state, self)
        allowed_M, order = allowed_N.cpu().nonzero().squeeze(1), order_of(state)
        candidates = allowed_M.tolist()
        check_k(k, len(candidates))
        if k == 0:
            return Picks(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.float64), total=0.0)
        subsets = comb(len(candidates), k)
        if subsets > self.limit:
            raise ValueError(
                f"k: {k} of {len(candidates)} candidates make {subsets:,} subsets, more than limit="
                f"{self.limit:,}; use Greedy(), a smaller k, fewer candidates or a higher limit"
            )
        sets = dict.fromkeys(range(1, k), 1) | {k: subsets}
        refuse_long(state, sets, self.patience, "use Greedy(), a smaller k or fewer candidates")
        values = [_value(state, subset) for subset in combinations(candidates, k)]
        # Compared with the final maximum: a running best would let a chain of near ties drift.
        reach = max(values) - TIE
        equals = [found for found in zip(combinations(candidates, k), values, strict=True) if found[1] >= reach]
        order.count(1, int(1 < len(equals) == subsets))
        place = {position: place for place, position in enumerate(allowed_M[order.argsort(allowed_M)].tolist())}
        best, value = min(equals, key=lambda found: sorted(place[position] for position in found[0]))
        worth = [_value(state, best[:size]) for size in range(1, k)] + [value]
        worth_B = torch.tensor(worth, dtype=torch.float64)
        gains_B = torch.diff(worth_B, prepend=torch.zeros(1, dtype=torch.float64))
        return Picks(torch.tensor(best, dtype=torch.int64), gains_B, total=value)


def _value(state: ValuedState, subset: tuple[int, ...]) -> float:
    value = float(state.value(torch.tensor(subset, dtype=torch.int64)))
    if isnan(value):
        raise ValueError(f"value: NaN for positions {list(subset)}; repair the predictions it was read from")
    return value
