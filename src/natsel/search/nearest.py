"""How far every point is from the nearest of those taken, as points are taken one after the other.

    d_i = min_{j taken} ‖g_i − g_j‖²,        owner_i = the j that is nearest, the earliest of those that are as near

Points that a state holds (`given=`) count as taken before the first pick. Distances to points that are likely to be
picked next are asked for together: a pass over all points takes as long for eight of them as for one, since it is the
points that have to be read. Whether a guess was right decides the time, never the picks.
docs/theory/black-box.md, 5.5 to 5.7.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from natsel.capabilities import LocatedState, Picks, Progress, VectorsState, has_held, has_many_distances
from natsel.memory import memory_budget
from natsel.rounding import AS_NEAR, ROUNDING
from natsel.search.clocks import Clocks
from natsel.search.topk import check_k
from natsel.ties import order_of

Soon = Callable[[Tensor, int], Tensor]
"""Which positions are likely to be picked next, from distances of all points: at most so many, the likeliest first."""

# Lengths and distances that differ by less than this share are equal.
EQUAL = 1e-12
# Points whose distances are asked for together at most: enough for a matrix product to be worth its name.
_TOGETHER = 8


class Nearest:
    """Distances to the nearest point taken, 0 for points that are taken or not allowed.

    >>> from types import SimpleNamespace
    >>> from natsel.capabilities import Capability
    >>> place_N = torch.tensor([0.0, 2.0, 5.0]).double()
    >>> far = lambda position: (place_N - place_N[position]).square()
    >>> state = SimpleNamespace(sizes=place_N.square, distances=far, offers=Capability.DISTANCES)
    >>> nearest = Nearest(state, torch.ones(3, dtype=torch.bool))
    >>> nearest.take(2)
    25.0
    >>> nearest.distance_N.tolist()
    [25.0, 9.0, 0.0]
    """

    def __init__(self, state: LocatedState, allowed_N: Tensor, soon: Soon | None = None) -> None:
        self.size_N, self.order = checked_sizes(state, allowed_N), order_of(state)
        self.allowed_N = allowed_N.to(self.size_N.device)
        self.taken: list[int] = []
        self.scores: list[float] = []
        held = state.nearest_held() if has_held(state) else None
        self.begun = held is not None
        """Whether distances are to points taken or given, rather than nothing being taken yet."""
        if held is None:
            self.distance_N = self.size_N.where(self.allowed_N, 0.0)
            self.owner_N, self.n_owners = torch.zeros_like(self.size_N, dtype=torch.int32), 0
        else:
            self.distance_N = held[0].double().where(self.allowed_N, 0.0)
            self.owner_N, self.n_owners = held[1].to(torch.int32, copy=True), int(held[1].max()) + 1
        self._ahead = _Ahead(state, soon)

    def take(self, position: int, last: bool = False) -> float:
        """Take a point and return how far it was; the last one need not be compared with the others."""
        score = float(self.distance_N[position])
        self.taken.append(position)
        self.scores.append(score)
        if last:
            return score
        # Nothing is known at first: points far from a long one are the long ones.
        likely_N = self.distance_N if self.begun else (self.size_N + self.size_N[position]).where(self.allowed_N, 0.0)
        found_N = self._ahead.distances(position, likely_N)
        far_N = self.size_N + self.size_N[position]  # not before: looking ahead needs memory of its own
        counts_N = (found_N > far_N.mul_(ROUNDING)).logical_and_(self.allowed_N)
        found_N = far_N.copy_(found_N).masked_fill_(counts_N.logical_not_(), 0.0)  # in memory that is at hand
        if self.begun:
            self.owner_N.masked_fill_(found_N < self.distance_N * (1 - AS_NEAR), self.n_owners)
            torch.minimum(self.distance_N, found_N, out=self.distance_N)
        else:
            self.distance_N = found_N
        self.n_owners += 1
        self.distance_N[position] = 0.0
        self.begun = True
        return score

    def farthest(self, among_N: Tensor | None = None) -> int | None:
        """The position that is farthest, of some of them; None where all distances are 0."""
        distance_N = self.distance_N if among_N is None else self.distance_N.where(among_N, 0.0)
        most = float(distance_N.max())
        if not most > 0:
            return None
        return self.order.first((distance_N >= most * (1 - EQUAL)).nonzero()[:, 0])

    def fill(self, clocks: Clocks, k: int, progress: Progress | None) -> tuple[str, ...]:
        """Fill the batch up at random, once all that is left are copies of points taken, and say so."""
        missing = k - len(self.taken)
        if missing == 0:
            return ()
        report(progress, missing)
        note = (
            f"distances: after {len(self.taken)} of k={k} picks only copies of them were left; the other {missing} were"
            " filled in at random",
        )
        self.taken += clocks.fill(self.allowed_N, missing, self.taken)
        self.scores += [0.0] * missing
        return note

    def picks(self, notes: tuple[str, ...], log_prob: float | None = None) -> Picks:
        """The points taken, each with how far it was from those before."""
        scores_B = torch.tensor(self.scores, dtype=torch.float64)
        positions_B = torch.tensor(self.taken, dtype=torch.int64)
        return Picks(positions_B, scores_B, total=float(scores_B.sum()), log_prob=log_prob, notes=notes)


class _Ahead:
    """Distances to points about to be picked, asked for together."""

    def __init__(self, state: LocatedState, soon: Soon | None) -> None:
        self.state, self.soon = state, soon
        self.known: dict[int, int] = {}
        """The row of `table_m_N` that holds the distances to a point."""
        self.table_m_N: Tensor | None = None  # one piece of memory for all passes

    def distances(self, position: int, likely_N: Tensor) -> Tensor:
        """Squared distances of all points to one that has just been picked by these distances; not to be changed."""
        size = max(1, min(_TOGETHER, memory_budget() // (64 * len(likely_N))))
        if position not in self.known and self.soon is not None and size > 1 and has_many_distances(self.state):
            if self.table_m_N is None:
                self.table_m_N = likely_N.new_empty(size, len(likely_N), dtype=torch.float64)
            kept = list(self.known)[-(size // 2) :]  # not picked yet; they move to the first rows, in their order
            for row, other in enumerate(kept):
                if row != self.known[other]:
                    self.table_m_N[row] = self.table_m_N[self.known[other]]
            soon = self.soon(likely_N, 2 * size).tolist()
            new = [position, *(other for other in soon if other != position and other not in kept)][: size - len(kept)]
            self.state.distances_to(torch.tensor(new), out=self.table_m_N[len(kept) : len(kept) + len(new)])
            self.known = {other: row for row, other in enumerate([*kept, *new])}
        if self.table_m_N is not None and position in self.known:
            return self.table_m_N[self.known.pop(position)]
        return self.state.distances(position).double()


def farthest_points(
    state: LocatedState,
    k: int,
    allowed_N: Tensor,
    generator: torch.Generator,
    progress: Progress | None,
    among: Callable[[Nearest], Tensor | None] = lambda nearest: None,
    soon: Callable[[Nearest, Tensor, int], Tensor] = lambda nearest, distance_N, count: farthest_soon(
        distance_N, count
    ),
) -> Picks:
    """Take the farthest point k times, of all or of those that `among` names once there is a point to be far from.

    >>> from types import SimpleNamespace
    >>> from natsel.capabilities import Capability
    >>> place_N = torch.tensor([0.0, 2.0, 5.0]).double()
    >>> far = lambda position: (place_N - place_N[position]).square()
    >>> state = SimpleNamespace(sizes=place_N.square, distances=far, offers=Capability.DISTANCES)
    >>> farthest_points(state, 2, torch.ones(3, dtype=torch.bool), torch.Generator(), None).positions
    tensor([2, 0])
    """
    check_k(k, int(allowed_N.sum()))
    nearest = Nearest(state, allowed_N, lambda distance_N, count: soon(nearest, distance_N, count))
    while len(nearest.taken) < k:
        found = nearest.farthest(among(nearest) if nearest.begun else None)
        if found is None:
            break
        nearest.take(found, last=len(nearest.taken) + 1 == k)
        report(progress, 1)
    notes = nearest.fill(Clocks(len(allowed_N), generator, nearest.size_N.device), k, progress)
    return nearest.picks(notes)


def farthest_soon(distance_N: Tensor, count: int) -> Tensor:
    """The farthest points.

    >>> farthest_soon(torch.tensor([1.0, 3.0, 0.0]), 2)
    tensor([1, 0])
    """
    first = distance_N.topk(min(count, len(distance_N)))
    return first.indices[first.values > 0]


def checked_sizes(state: LocatedState | VectorsState, allowed_N: Tensor) -> Tensor:
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


def report(progress: Progress | None, picks: int) -> None:
    """Say how many picks were just made, to whoever wants to know."""
    if progress is not None:
        progress(picks)
