"""Farthest-first search: every pick is the point that is farthest from all those taken so far (greedy k-centre).

    i_t = argmax_i  min_{j taken or given} ‖g_i − g_j‖²,        the first: the longest point, where none is given

The radius within which all points lie around the picks is at most twice the smallest possible. On the features of a
network's last layer this is Core-Set.
docs/theory/black-box.md, 5.5; Gonzalez 1985; Sener & Savarese 2018.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from natsel.capabilities import Capability, Picks, Progress, State, has_distances, lacking
from natsel.search.nearest import farthest_points


@dataclass(frozen=True)
class FarthestFirst:
    """The farthest point, k times; points given count as taken. Scores are squared distances at the time of the pick.

    >>> from types import SimpleNamespace
    >>> place_N = torch.tensor([0.0, 2.0, 2.5, -1.0]).double()
    >>> far = lambda position: (place_N - place_N[position]).square()
    >>> state = SimpleNamespace(sizes=place_N.square, distances=far, offers=FarthestFirst.needs)
    >>> FarthestFirst()(state, 3, torch.ones(4, dtype=torch.bool), torch.Generator().manual_seed(0)).positions
    tensor([2, 3, 0])
    """

    needs: ClassVar[Capability] = Capability.SCORES | Capability.DISTANCES

    def __call__(
        self, state: State, k: int, allowed_N: Tensor, generator: torch.Generator, progress: Progress | None = None
    ) -> Picks:
        """Pick k of the allowed positions; the generator only fills up where nothing but copies is left."""
        if not has_distances(state):
            raise lacking(state, self)
        return farthest_points(state, k, allowed_N, generator, progress)
