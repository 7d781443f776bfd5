"""k-means++ seeding: every pick far from those before, drawn by its squared distance to the nearest of them.

    P(i | taken) = d_i / Σ_l d_l,        d_i = min_{j taken} ‖g_i − g_j‖²        (0 for points taken)

The geometry is the objective's: lengths are what it wants, directions what points have in common. On gradients under
hard pseudo-labels this is BADGE. The first pick is the longest one, or any; where points are given, they count as taken
and every pick is drawn. Once all that is left are copies of the points taken, the batch is filled up at random.
docs/theory/weight-space.md, 9.4 and 10.2; docs/theory/black-box.md, 5.6; Arthur & Vassilvitskii 2007; Ash et al. 2020.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from natsel.capabilities import Capability, LocatedState, Picks, Progress, State, has_distances, lacking
from natsel.options import check_options
from natsel.search.clocks import Clocks
from natsel.search.nearest import Nearest, report
from natsel.search.topk import check_k

First = Literal["largest", "uniform"]


@dataclass(frozen=True)
class KMeansPP:
    """Draw points far from each other; `first` is "largest", the longest one, or "uniform", any.

    Scores are squared distances at the time of the pick. `log_prob` is exact; distinct points are picked always.

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
        check_k(k, int(allowed_N.sum()))
        clocks = Clocks(len(allowed_N), generator, state.sizes().device)
        nearest = Nearest(state, allowed_N, clocks.soon)
        if k and not nearest.begun:
            found = nearest.farthest() if self.first == "largest" else clocks.ring(nearest.allowed_N.double())
            if found is not None:
                nearest.take(found, last=k == 1)
                report(progress, 1)
        draw(nearest, clocks, k, progress)
        notes = nearest.fill(clocks, k, progress)
        return nearest.picks(notes, clocks.log_prob)


def draw(nearest: Nearest, clocks: Clocks, k: int, progress: Progress | None) -> None:
    """Draw points by their distances to those taken until k are taken, or only copies of these are left."""
    while nearest.begun and len(nearest.taken) < k:
        found = clocks.ring(nearest.distance_N)
        if found is None:
            return
        nearest.take(found, last=len(nearest.taken) + 1 == k)
        report(progress, 1)


def drawn_after(
    state: LocatedState, taken: list[int], k: int, allowed_N: Tensor, generator: torch.Generator
) -> list[int]:
    """k more of the allowed positions, far from points that were taken by other means; none where no point has length.

    >>> from types import SimpleNamespace
    >>> place_N = torch.tensor([0.0, 2.0, 2.0, -1.0]).double()
    >>> far = lambda position: (place_N - place_N[position]).square()
    >>> state = SimpleNamespace(sizes=place_N.square, distances=far, offers=KMeansPP.needs)
    >>> sorted(drawn_after(state, [1], 2, torch.tensor([True, False, True, True]), torch.Generator().manual_seed(0)))
    [0, 3]
    """
    clocks = Clocks(len(allowed_N), generator, state.sizes().device)
    nearest = Nearest(state, allowed_N, clocks.soon)
    if not bool((nearest.size_N > 0).any()):
        return []
    for position in taken:
        nearest.take(position)
    if not taken:
        nearest.begun = True  # by lengths, for want of anything to be far from
    draw(nearest, clocks, len(taken) + k, None)
    nearest.fill(clocks, len(taken) + k, None)
    return nearest.taken[len(taken) :]
