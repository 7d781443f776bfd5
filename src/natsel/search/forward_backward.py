"""Forward–backward search: take more points than are wanted, one by one, then drop those that are missed least.

    forward    i_t = argmax_i  f(S ∪ {i}) − f(S),      ⌈α k⌉ times
    backward   i_t = argmin_{i ∈ S}  f(S) − f(S ∖ {i}), until k are left

Where points gain from each other, a first pick may turn out to be needless: objectives about targets are not
submodular, and greedy has no guarantee on them. BAIT is this search with α = 2. A state that lets points leave again
(REMOVAL) is asked what each is worth; for others the values of sets are compared, unless that would take too
long: about (α² − 1) k² / 2 sets of up to α k points.
docs/theory/weight-space.md, 9.1 and 10.1; Ash et al. 2021.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor

from natsel.capabilities import (
    Capability,
    Picks,
    Progress,
    RemovableState,
    State,
    ValuedState,
    has_gains_and_value,
    has_removal,
    lacking,
)
from natsel.options import check_options
from natsel.rounding import TIE
from natsel.search.greedy import forward, saturation
from natsel.search.patience import PATIENCE, check_patience, refuse_long
from natsel.search.topk import check_k

# Values of sets that cannot be: as bad as can be subtracted.
_LEAST = -1e100


@dataclass(frozen=True)
class ForwardBackward:
    """Greedy to `oversample` times as many points as wanted, then drop the least missed; 1 is plain greedy.

    Points come in the order in which they were taken, with what each adds to those before. Ties go to the point taken
    earlier. Where values of sets must be compared and that would take more than about `patience` seconds, it refuses
    before it begins.

    >>> ForwardBackward(oversample=1.5).needs
    <Capability.GAINS|VALUE: 6>
    """

    oversample: float = 2.0
    patience: float = PATIENCE
    needs: ClassVar[Capability] = Capability.GAINS | Capability.VALUE

    def __post_init__(self) -> None:
        check_patience(self.patience)
        check_options(self)
        if not 1 <= self.oversample < math.inf:
            raise ValueError(
                f"oversample: found {self.oversample!r}; pass how many times k points to take at first, 1 or more"
            )

    def __call__(
        self, state: State, k: int, allowed_N: Tensor, generator: torch.Generator, progress: Progress | None = None
    ) -> Picks:
        """Pick k of the allowed positions; the generator only serves once nothing is left to learn."""
        if not has_gains_and_value(state):
            raise lacking(state, self)
        count = int(allowed_N.sum())
        check_k(k, count)
        # 1e-9: 1.12 · 25 comes out as a little more than 28.
        most = max(k, min(count, math.ceil(self.oversample * k - 1e-9)))
        if most > k and not has_removal(state):
            sets = {size: size + 1 for size in range(k, most)}  # all but one of those that are left
            for size in range(1, k + 1):
                sets[size] = sets.get(size, 0) + 1
            remedy = "lower k or oversample, use Greedy() (the methods batchbald, batch-epig and batch-jepig)"
            refuse_long(state, sets, self.patience, remedy)
        steps = forward(state, most, allowed_N, generator, progress if most == k else _first(k, progress))
        taken = [choice.position for choice in steps.choices]
        if most == k:
            kept, gains = taken, steps.gains
        elif has_removal(state):
            kept, gains = _drop(state, taken, steps.gains, k)
        else:
            kept, gains = _compare(state, taken, k)
        return Picks(
            positions=torch.tensor(kept, dtype=torch.int64),
            scores=torch.tensor(gains, dtype=torch.float64),
            total=float(sum(gains)),
            notes=saturation(steps, k),
        )


def _drop(state: RemovableState, taken: list[int], gains: list[float], k: int) -> tuple[list[int], list[float]]:
    """Let points leave the state until k are left, and say what each of those adds to the ones before."""
    kept = list(taken)
    while len(kept) > k:
        loss_n = state.losses(torch.tensor(kept, dtype=torch.int64)).to("cpu", torch.float64)
        state.remove(kept.pop(int((loss_n <= loss_n.min() + state.tie).nonzero()[-1])))
    # Up to the first point dropped nothing has changed since they were taken.
    same = next((place for place, position in enumerate(kept) if taken[place] != position), k)
    later = [state.remove(position) for position in reversed(kept[same:])]
    return kept, [*gains[:same], *reversed(later)]


def _compare(state: ValuedState, taken: list[int], k: int) -> tuple[list[int], list[float]]:
    """Drop points by the values of the sets without them, and say what each that stays adds to the ones before."""
    kept = list(taken)
    while len(kept) > k:
        without_n = torch.tensor(
            [_value(state, kept[:i] + kept[i + 1 :]) for i in range(len(kept))], dtype=torch.float64
        )
        kept.pop(int((without_n >= without_n.max() - TIE).nonzero()[-1]))
    worth = [0.0, *(_value(state, kept[:size]) for size in range(1, k + 1))]
    return kept, [after - before for before, after in pairwise(worth)]


def _first(count: int, progress: Progress | None) -> Progress | None:
    """Progress of the first points alone: those taken beyond k are dropped again."""
    left = iter(range(count))
    return None if progress is None else lambda step: progress(step) if next(left, None) is not None else None


def _value(state: ValuedState, positions: list[int]) -> float:
    try:
        value = float(state.value(torch.tensor(positions, dtype=torch.int64)))
    except ValueError as reason:
        raise ValueError(
            f"k: ForwardBackward asks what {len(positions)} points are worth together, which cannot be said ({reason});"
            " lower k or oversample, or use Greedy"
        ) from reason
    if math.isnan(value):
        raise ValueError(f"value: NaN for positions {positions}; repair the predictions it was read from")
    return max(value, _LEAST)
