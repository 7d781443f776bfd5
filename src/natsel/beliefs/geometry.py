"""The geometry of a model: how alike it treats two points, and how unsure it is of each.

    k(x, x') = φ(x)·φ(x'),  |φ(x)| = 1      features at length 1; of T trees one-hot leaves / √T, so that k is the
                                            share of trees with both points in one leaf (Breiman 2001)
    u(x)                                    1 − margin for classes, variance over its mean for numbers

Leaves stay T numbers a point: neither N × N nor N × leaves numbers are ever held.  docs/theory/geometry.md, 1.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Self, get_args

import torch
from torch import Tensor

from natsel.beliefs.arrays import ArrayLike, as_integers, as_tensor
from natsel.beliefs.base import Belief, BeliefView, seen_as
from natsel.beliefs.class_probabilities import ClassProbabilities
from natsel.beliefs.gaussian import GaussianFeatures, _broadcast, _check_matrix
from natsel.ids import IdArray, ids_for
from natsel.memory import chunked, require

Places = Literal["features", "leaves"]

_COLUMNS = 256  # points beside each other: a table of the leaves they fall into stays in the caches


@dataclass(frozen=True, eq=False)
class Geometry(Belief):
    """How alike a model treats N points (features, brought to length 1), and how unsure it is of each (from 0 on).

    `of_leaves` makes one of trees. `noise` is the variance of a label about what it teaches, where k(x, x) is 1.

    >>> geometry = Geometry([[2.0, 0.0], [3.0, 4.0]], [0.1, 0.9])
    >>> geometry.kernel()(geometry).round(decimals=6).tolist()
    [[1.0, 0.6], [0.6, 1.0]]
    """

    places_N_D: Tensor
    unsure_N: Tensor = 1.0  # type: ignore[assignment]
    kind: Places = "features"
    n_leaves: tuple[int, ...] = ()
    noise: float = 0.1
    draws_id: str | None = None
    ids: IdArray = None  # type: ignore[assignment]
    warnings: tuple[str, ...] = field(default=(), init=False, repr=False)

    points: ClassVar[tuple[str, ...]] = ("places_N_D", "unsure_N")
    named: ClassVar[tuple[str, ...]] = ("kind",)

    if TYPE_CHECKING:  # what the constructor takes; the fields hold tensors

        def __init__(self, places_N_D: ArrayLike, unsure_N: ArrayLike = 1.0, **named: object) -> None: ...

    def __post_init__(self) -> None:
        if self.kind not in get_args(Places):
            raise ValueError(f"kind: expected {' or '.join(get_args(Places))}, found {self.kind!r}; choose one")
        if not (isinstance(self.noise, int | float) and 0 < self.noise < float("inf")):
            raise ValueError(f"noise: expected a variance above 0, found {self.noise!r}; the default is 0.1")
        if self.kind == "leaves":
            places_N_D, n_leaves = _checked_leaves(self.places_N_D, tuple(map(int, self.n_leaves)))
        else:
            places_N_D = as_tensor(self.places_N_D, "places_N_D")
            _check_matrix(places_N_D, "places_N_D", "points, features")
            lengths_N_1 = places_N_D.double().norm(dim=1, keepdim=True)
            places_N_D = (places_N_D / lengths_N_1.where(lengths_N_1 > 0, 1.0)).to(places_N_D)
            n_leaves = places_N_D.shape[1:]
        unsure_N = _broadcast(self.unsure_N, "unsure_N", places_N_D, places_N_D.shape[:1]).double()
        if not bool(((unsure_N >= 0) & unsure_N.isfinite()).all()):
            raise ValueError("unsure_N: expected numbers from 0 on, found others; 1 − margin is usual for classes")
        ids = ids_for(self.ids, len(places_N_D))
        self._set(places_N_D=places_N_D, unsure_N=unsure_N, n_leaves=tuple(n_leaves), ids=ids)

    @classmethod
    def of_leaves(
        cls, leaves_N_T: ArrayLike, unsure_N: ArrayLike = 1.0, n_leaves: Sequence[int] = (), **named: object
    ) -> Self:
        """The geometry of T trees, from the number of the leaf of each point in each tree.

        `n_leaves`, one more than the largest number of each tree, is shared by geometries of one model.

        >>> Geometry.of_leaves([[0, 3], [0, 1]]).n_leaves
        (1, 4)
        """
        return cls(leaves_N_T, unsure_N, kind="leaves", n_leaves=n_leaves, **named)

    @classmethod
    def views(cls) -> tuple[BeliefView, ...]:
        """Jointly Gaussian points with covariance k, seen through the noise."""
        return (BeliefView(GaussianFeatures, cls.features),)

    def features(self) -> GaussianFeatures:
        """The same as features, written out: one column for each leaf."""
        features_N_D = self.places_N_D
        if self.kind == "leaves":
            width = sum(self.n_leaves)
            require(8 * len(self) * width, f"belief: features of {len(self)} points × {width} leaves", "pass fewer")
            features_N_D = torch.zeros(len(self), width, dtype=torch.float64, device=self.device)
            features_N_D.scatter_(1, self._columns().long(), len(self.n_leaves) ** -0.5)
        return GaussianFeatures._own(features_N_D, self.noise, self.draws_id, self.ids)

    def _prediction(self, name: str) -> Belief:
        """Refused: how alike points are says nothing about their labels."""
        raise ValueError(f"{name}: a Geometry says which points are alike, not their labels; ask its model")

    def check_same(self, others: "Geometry", name: str) -> None:
        """Refuse points of another geometry."""
        if (others.kind, others.n_leaves) != (self.kind, self.n_leaves):
            found = [f"{sum(one.n_leaves)} {one.kind}" for one in (others, self)]
            raise ValueError(f"{name}: found {found[0]}, another geometry than {found[1]} of the pool; use one model")

    def kernel(self) -> Callable[["Geometry"], Tensor]:
        """A function from other points to k of these with the points here: [others, N] in float64."""
        if self.kind == "features" or not len(self):
            places_D_N = self.places_N_D.double().T
            return lambda others: others.places_N_D.double() @ places_D_N
        if len(self) > _COLUMNS:
            parts = [self[start : start + _COLUMNS].kernel() for start in range(0, len(self), _COLUMNS)]
            return lambda others: torch.cat([part(others) for part in parts], 1)
        # Row 0 is of all leaves that none of these points falls into.
        used, row_N_T = torch.unique(self._columns(), return_inverse=True)
        place_D = torch.zeros(sum(self.n_leaves), dtype=torch.int32, device=self.device)
        place_D[used.long()] = torch.arange(1, len(used) + 1, dtype=torch.int32, device=self.device)
        table = torch.zeros(len(used) + 1, len(self), device=self.device)
        table[row_N_T + 1, torch.arange(len(self), device=self.device)[:, None]] = 1.0

        def shares(others: Geometry) -> Tensor:
            rows_n_T = place_D[others._columns()]
            return torch.nn.functional.embedding_bag(rows_n_T, table, mode="sum").double().div_(len(self.n_leaves))

        return shares

    def along(self, vector_D: Tensor) -> Tensor:
        """Φ v for all points: N values in float64."""

        def work(part: slice) -> Tensor:
            if self.kind == "features":
                return self.places_N_D[part].double() @ vector_D
            columns_n_T = self._columns(part)
            return vector_D.index_select(0, columns_n_T.flatten()).view_as(columns_n_T).sum(1) / math.sqrt(
                len(self.n_leaves)
            )

        return chunked(work, len(self), 16 * self.places_N_D.shape[1], self.device)

    def combined(self, share_N: Tensor) -> Tensor:
        """Φᵀ v, the sum of all points, each by its share: one value a column of `features`, in float64."""
        found_D = share_N.new_zeros(sum(self.n_leaves))
        if self.kind == "features":
            return found_D.add_(self.places_N_D.double().T @ share_N)
        share_NT = (share_N / math.sqrt(len(self.n_leaves))).repeat_interleave(len(self.n_leaves))
        return found_D.index_add_(0, self._columns().flatten(), share_NT)

    def _columns(self, some: slice = slice(None)) -> Tensor:
        """The column of `features` of each leaf that points fall into."""
        first_T = torch.tensor([0, *itertools.accumulate(self.n_leaves[:-1])], dtype=torch.int32, device=self.device)
        return self.places_N_D[some] + first_T


def unsureness(belief: Belief) -> Tensor:
    """How unsure a belief is of the label of each point: 1 − margin of classes, variance over its mean of numbers.

    >>> unsureness(ClassProbabilities.from_probs([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])).round(decimals=6).tolist()
    [0.8, 0.0]
    """
    if seen_as(belief, ClassProbabilities) is not None:
        probs_N_C = belief.predict_proba()
        best_N_2 = probs_N_C.topk(min(2, probs_N_C.shape[1]), 1).values
        return (1 - best_N_2[:, 0] + best_N_2[:, 1:].sum(1)).clamp(0, 1)
    variance_N = belief.std.square()
    return variance_N / variance_N.mean()


def _checked_leaves(leaves: Tensor, n_leaves: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
    """Leaves in 32 bits, and one more than the largest number of each tree."""
    small = str(getattr(leaves, "dtype", "")).endswith("int32")  # not through 64 bits, twice the memory
    leaves_N_T = torch.as_tensor(leaves) if small else as_integers(leaves, "leaves_N_T")
    if leaves_N_T.ndim != 2 or leaves_N_T.shape[1] == 0:
        found = tuple(leaves_N_T.shape)
        raise ValueError(f"leaves_N_T: expected two axes (points, trees), found shape {found}; reshape it to a matrix")
    ends = leaves_N_T.aminmax(dim=0) if len(leaves_N_T) else (leaves_N_T.new_zeros(leaves_N_T.shape[1]),) * 2
    least, most_T = int(ends[0].min()), ends[1].tolist()
    n_leaves = n_leaves or tuple(most + 1 for most in most_T)
    fit = len(n_leaves) == len(most_T) and all(most < size for most, size in zip(most_T, n_leaves, strict=True))
    if not fit or least < 0 or sum(n_leaves) >= 2**31:
        raise ValueError(
            f"leaves_N_T: expected numbers from 0 to below n_leaves of each of {len(most_T)} trees, 2³¹ in all, found"
            f" {least} to {max(most_T)} for {len(n_leaves)} trees of {sum(n_leaves)}; number the leaves of each tree"
        )
    return leaves_N_T.int(), n_leaves
