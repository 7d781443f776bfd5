"""Largest-cluster search (LCMD): every pick is the farthest point of the cluster with the largest spread.

    cluster of j = { i : j is the nearest of the points taken or given }      size_j = Σ_{i in it} ‖g_i − g_j‖²
    i_t = argmax { ‖g_i − g_j‖² : i in the cluster j of the largest size }    the first: the longest, if none is given

Farthest-first search follows outliers; the largest cluster is where many points are far from what is known. Clusters
of equal size count as one.
docs/theory/black-box.md, 5.7; Holzmüller et al. 2023.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from natsel.capabilities import Capability, Picks, Progress, State, has_distances, lacking
from natsel.search.nearest import EQUAL, Nearest, farthest_points, farthest_soon


@dataclass(frozen=True)
class LargestCluster:
    """The farthest point of the largest cluster, k times; points given are centres of clusters.

    Scores are squared distances at the time of the pick.

    >>> from types import SimpleNamespace
    >>> place_N = torch.tensor([0.0, 9.0, 1.0, 2.0, -2.0, 8.5]).double()
    >>> far = lambda position: (place_N - place_N[position]).square()
    >>> state = SimpleNamespace(sizes=place_N.square, distances=far, offers=LargestCluster.needs)
    >>> LargestCluster()(state, 3, torch.ones(6, dtype=torch.bool), torch.Generator().manual_seed(0)).positions
    tensor([1, 4, 3])
    """

    needs: ClassVar[Capability] = Capability.SCORES | Capability.DISTANCES

    def __call__(
        self, state: State, k: int, allowed_N: Tensor, generator: torch.Generator, progress: Progress | None = None
    ) -> Picks:
        """Pick k of the allowed positions; the generator only fills up where nothing but copies is left."""
        if not has_distances(state):
            raise lacking(state, self)
        return farthest_points(state, k, allowed_N, generator, progress, _in_largest, _likely_picks)


def _sizes(nearest: Nearest) -> Tensor:
    """The sum of squared distances within each cluster."""
    sizes_J = torch.zeros(max(1, nearest.n_owners), dtype=torch.float64, device=nearest.size_N.device)
    return sizes_J.index_add_(0, nearest.owner_N, nearest.distance_N)


def _in_largest(nearest: Nearest) -> Tensor:
    """Which points lie in the largest cluster, or in one of those that are equally large."""
    sizes_J = _sizes(nearest)
    largest_J = sizes_J >= sizes_J.max() * (1 - EQUAL)
    if int(largest_J.sum()) == 1:
        return nearest.owner_N == int(largest_J.nonzero())
    return largest_J[nearest.owner_N.long()]


def _likely_picks(nearest: Nearest, distance_N: Tensor, count: int) -> Tensor:
    """The farthest points of the largest cluster, and the farthest of each of the next ones: likely picks."""
    sizes_J = _sizes(nearest)
    first, *others = sizes_J.topk(min(count // 2, len(sizes_J))).indices.tolist()
    inside_N = distance_N.where(nearest.owner_N == first, 0.0)
    found = farthest_soon(inside_N, count - len(others)).tolist()
    for place, cluster in enumerate(others):  # in turns: the largest cluster often stays the largest
        inside_N.copy_(distance_N).masked_fill_(nearest.owner_N != cluster, 0.0)
        found.insert(2 * place + 2, int(inside_N.argmax()))
    return torch.tensor(found)
