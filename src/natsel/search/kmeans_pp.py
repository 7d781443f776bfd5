"""k-means++ seeding: every pick far from those before, drawn by its squared distance to the nearest of them.

    P(i | taken) = d_i / Σ_l d_l,        d_i = min_{j taken} ‖g_i − g_j‖²        (0 for points taken)

The geometry is the objective's: lengths are what it wants, directions what points have in common. On gradients under
hard pseudo-labels this is BADGE. The first pick is the longest one, or any; once all that is left are copies of the
points taken, the batch is filled up at random.
docs/theory/weight-space.md, 9.4 and 10.2; Arthur & Vassilvitskii 2007; Ash et al. 2020.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from natsel.capabilities import (
    Capability,
    LocatedState,
    Picks,
    Progress,
    State,
    has_distances,
    has_many_distances,
    lacking,
)
from natsel.memory import memory_budget
from natsel.options import check_options
from natsel.rounding import ROUNDING
from natsel.search.clocks import Clocks
from natsel.search.topk import check_k, refuse_nan

First = Literal["largest", "uniform"]

# Lengths that differ by less than this share are equal: the lower position goes first.
_EQUAL = 1e-12
# Points whose distances are asked for together at most: enough for a matrix product to be worth its name.
_TOGETHER = 16


@dataclass(frozen=True)
class KMeansPP:
    """Draw points far from each other; `first` is "largest", the longest one, or "uniform", any.

    Scores are those of the points taken alone. `log_prob` is exact; distinct points are picked always.

    >>> from types import SimpleNamespace
    >>> place_N = torch.tensor([0.0, 2.0, 2.0, -1.0]).double()
    >>> far = lambda position: (place_N - place_N[position]).square()
    >>> sizes = {"scores": place_N.abs, "sizes": place_N.square}
    >>> state = SimpleNamespace(**sizes, distances=far, offers=KMeansPP.needs)
    >>> picks = KMeansPP()(state, 3, torch.ones(4, dtype=torch.bool), torch.Generator().manual_seed(0))
    >>> picks.positions[0], sorted(picks.positions.tolist())
    (tensor(1), [0, 1, 3])
    """

    first: First = "largest"
    needs: ClassVar[Capability] = Capability.SCORES | Capability.DISTANCES

    def __post_init__(self) -> None:
        check_options(self)

    def __call__(
        self, state: State, k: int, allowed_N: Tensor, generator: torch.Generator, progress: Progress | None = None
    ) -> Picks:
        """Draw k of the allowed positions."""
        if not has_distances(state):
            raise lacking(state, self)
        size_N = checked_sizes(state, allowed_N)
        allowed_N = allowed_N.to(size_N.device)
        check_k(k, int(allowed_N.sum()))
        clocks = Clocks(len(size_N), generator, size_N.device)
        ahead = Ahead(state, clocks)
        nearest_N = torch.where(allowed_N, torch.inf, 0.0).double()
        taken: list[int] = []
        while len(taken) < k:
            if taken:
                found = clocks.ring(nearest_N)
            else:
                found = largest(size_N, allowed_N) if self.first == "largest" else clocks.ring(allowed_N.double())
            if found is None:
                break
            taken.append(found)
            if len(taken) < k:
                far_N = size_N + size_N[found]
                # Nothing is known at first: points far from the longest one are the long ones.
                distance_N = ahead.distances(found, nearest_N if len(taken) > 1 else far_N.where(allowed_N, 0.0))
                nearest_N = torch.minimum(nearest_N, distance_N.where(distance_N > ROUNDING * far_N, 0.0))
                nearest_N[found] = 0.0
        drawn = len(taken)
        if drawn < k:
            open_N = allowed_N.clone()
            open_N[taken] = False
            taken += clocks.fill(open_N, k - drawn)
        return taken_alone(state, taken, clocks.log_prob, notes=_note(drawn, k))


class Ahead:
    """Distances to points about to be picked, asked for together: a look at all points serves several of them.

    Which clocks ring soon is known, and a pick changes little of that where there are many directions to go, so that
    nearly all distances asked for ahead are used.
    """

    def __init__(self, state: LocatedState, clocks: Clocks) -> None:
        self.state, self.clocks = state, clocks
        self.known: dict[int, Tensor] = {}
        room = memory_budget() // (32 * len(clocks.left_N))
        self.size = max(1, min(_TOGETHER, room)) if has_many_distances(state) else 1

    def distances(self, position: int, weights_N: Tensor) -> Tensor:
        """Squared distances of all points to one that has just been picked by these weights."""
        if position not in self.known and self.size > 1 and has_many_distances(self.state):
            # Those that did not ring yet, few and each by itself: as parts of a look they would keep all of it.
            self.known = {other: far_N.clone() for other, far_N in list(self.known.items())[-self.size :]}
            soon = self.clocks.soon(weights_N, self.size + len(self.known)).tolist()
            new = [position, *(other for other in soon if other != position and other not in self.known)]
            wanted = torch.tensor(new[: self.size])
            distances_m_N = self.state.distances_to(wanted)
            self.known.update(zip(wanted.tolist(), distances_m_N, strict=True))
        found = self.known.pop(position, None)
        return (self.state.distances(position) if found is None else found).double()


def taken_alone(state: State, taken: list[int], log_prob: float | None, notes: tuple[str, ...]) -> Picks:
    """Picks with the scores that the points have by themselves."""
    positions_B = torch.tensor(taken, dtype=torch.int64)
    scores_N = state.scores().detach().to("cpu", torch.float64)
    refuse_nan("scores", scores_N[positions_B], positions_B)
    scores_B = scores_N[positions_B]
    return Picks(positions_B, scores_B, total=float(scores_B.sum()), log_prob=log_prob, notes=notes)


def checked_sizes(state: LocatedState, allowed_N: Tensor) -> Tensor:
    """Squared lengths in float64, or a ValueError that names the first allowed position without one.

    >>> from types import SimpleNamespace
    >>> checked_sizes(SimpleNamespace(sizes=lambda: torch.ones(2)), torch.ones(2, dtype=torch.bool)).tolist()
    [1.0, 1.0]
    """
    size_N = state.sizes().detach().double()
    wrong_N = (~size_N.isfinite() | (size_N < 0)) & allowed_N.to(size_N.device)
    if bool(wrong_N.any()):
        position = int(wrong_N.nonzero()[0])
        raise ValueError(
            f"sizes: {float(size_N[position])} at position {position} ({int(wrong_N.sum())} in all) is no squared"
            " length; exclude such points or repair the gradients they come from"
        )
    return size_N


def largest(size_N: Tensor, allowed_N: Tensor) -> int | None:
    """The lowest allowed position of those that are longest; None where all lengths are 0.

    >>> largest(torch.tensor([1.0, 2.0, 2.0]), torch.tensor([True, True, True]))
    1
    """
    allowed_size_N = size_N.where(allowed_N, -math.inf)
    longest = float(allowed_size_N.max())
    if longest <= 0:
        return None
    return int((allowed_size_N >= longest * (1 - _EQUAL)).nonzero()[0])


def _note(drawn: int, k: int) -> tuple[str, ...]:
    if drawn == k:
        return ()
    return (
        f"distances: after {drawn} of k={k} picks only copies of them were left; the other {k - drawn} were filled in"
        " at random",
    )
