"""The geometry of a model: how alike it treats two points, and how unsure it is of each.

    k(x, x') = φ(x)·φ(x')           |φ(x)| = 1
    φ(x) = features at length 1     such as the input of the last layer of a network
    φ(x) = one-hot leaves / √T      of T trees: k is the share of trees in which both points fall into one leaf
    u(x) = 1 − (largest − second largest probability) for classes, the variance of the label over its mean for numbers

A label spreads along k as one of a Gaussian process with this covariance and noise does. Leaves stay T numbers a point:
neither N × N nor N × leaves numbers are ever held.
docs/theory/geometry.md, 1; Breiman 2001 (proximities of a forest).
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Self, get_args

import numpy as np
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

        def __init__(
            self,
            places_N_D: ArrayLike,
            unsure_N: ArrayLike = 1.0,
            kind: Places = "features",
            n_leaves: Sequence[int] = (),
            noise: float = 0.1,
            draws_id: str | None = None,
            ids: object = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.kind not in get_args(Places):
            raise ValueError(f"kind: expected {', '.join(get_args(Places))}, found {self.kind!r}; choose one of them")
        if not (isinstance(self.noise, int | float) and 0 < self.noise < float("inf")):
            raise ValueError(f"noise: expected a variance above 0, found {self.noise!r}; the default is 0.1")
        if self.kind == "leaves":
            places_N_D, n_leaves = _checked_leaves(self.places_N_D, tuple(map(int, self.n_leaves)))
        else:
            places_N_D, n_leaves = as_tensor(self.places_N_D, "places_N_D"), ()
            _check_matrix(places_N_D, "places_N_D", "points, features")
            length_N_1 = places_N_D.double().norm(dim=1, keepdim=True)
            places_N_D = places_N_D / torch.where(length_N_1 > 0, length_N_1, 1.0).to(places_N_D)
        unsure_N = _broadcast(self.unsure_N, "unsure_N", places_N_D, places_N_D.shape[:1]).double()
        if not bool(((unsure_N >= 0) & unsure_N.isfinite()).all()):
            raise ValueError("unsure_N: expected numbers from 0 on, found others; 1 − margin is usual for classes")
        ids = ids_for(self.ids, len(places_N_D))
        self._set(places_N_D=places_N_D, unsure_N=unsure_N, n_leaves=n_leaves, noise=float(self.noise), ids=ids)

    @classmethod
    def of_leaves(
        cls,
        leaves_N_T: ArrayLike,
        unsure_N: ArrayLike = 1.0,
        n_leaves: Sequence[int] = (),
        noise: float = 0.1,
        draws_id: str | None = None,
        ids: object = None,
    ) -> Self:
        """The geometry of T trees, from the number of the leaf of each point in each tree.

        Args:
            leaves_N_T: whole numbers from 0 on; those of inner nodes may be left out.
            unsure_N: how unsure the model is of each point.
            n_leaves: one more than the largest number of each tree, which geometries of one model must share; found
                here where it is left out.
            noise: the variance of a label about what it teaches.
            draws_id: names the fitted model.
            ids: the user's ids of the points.

        >>> Geometry.of_leaves([[0, 3], [0, 1]]).n_leaves
        (1, 4)
        """
        return cls(leaves_N_T, unsure_N, "leaves", n_leaves, noise, draws_id, ids)

    @classmethod
    def views(cls) -> tuple[BeliefView, ...]:
        """Jointly Gaussian points with covariance k, seen through the noise."""
        return (BeliefView(GaussianFeatures, cls.features),)

    def features(self) -> GaussianFeatures:
        """The same as features, written out: one column for each leaf.

        >>> Geometry.of_leaves([[0], [1]]).features().features_N_D.tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        features_N_D = self.places_N_D
        if self.kind == "leaves":
            width = sum(self.n_leaves)
            require(8 * len(self) * width, f"belief: features of {len(self)} points × {width} leaves", "pass fewer")
            features_N_D = torch.zeros(len(self), width, dtype=torch.float64, device=self.device)
            features_N_D.scatter_(1, self._columns(slice(None)).long(), len(self.n_leaves) ** -0.5)
        return GaussianFeatures._own(features_N_D, self.noise, self.draws_id, self.ids)

    def _prediction(self, name: str) -> Belief:
        """Refused: how alike points are says nothing about their labels."""
        raise ValueError(
            f"{name}: a Geometry says which points are alike, not their labels; ask what the model believes"
        )

    def check_same(self, others: "Geometry", name: str) -> None:
        """Refuse points of another geometry."""
        found = [
            f"{len(part.n_leaves)} trees of {sum(part.n_leaves)} leaves" if part.n_leaves else f"{part.width} features"
            for part in (others, self)
        ]
        if found[0] != found[1] or others.n_leaves != self.n_leaves:
            raise ValueError(
                f"{name}: found {found[0]} for a pool of {found[1]}; believe about both with one fitted model"
            )

    @property
    def width(self) -> int:
        """The number of columns of `features`."""
        return sum(self.n_leaves) or self.places_N_D.shape[1]

    def own(self) -> Tensor:
        """k of every point with itself, N values: 1, or 0 for features without length."""
        if self.kind == "leaves":
            return torch.ones(len(self), dtype=torch.float64, device=self.device)
        work = lambda part: self.places_N_D[part].double().square().sum(1)  # noqa: E731
        return chunked(work, len(self), 16 * self.width, self.device)

    def joined(self, others: "Geometry") -> "Geometry":
        """These points and others of the same geometry, numbered anew."""
        both = {name: torch.cat([getattr(part, name) for part in (self, others)]) for name in self.points}
        return self._trusted(ids=np.arange(len(self) + len(others)), **both)

    def kernel(self) -> Callable[["Geometry"], Tensor]:
        """A function from other points to k of these with the points here: [others, N] in float64.

        >>> geometry = Geometry.of_leaves([[0, 3], [0, 1], [1, 1]])
        >>> geometry.kernel()(geometry[:2]).tolist()
        [[1.0, 0.5, 0.0], [0.5, 1.0, 0.5]]
        """
        if self.kind == "features":
            places_D_N = self.places_N_D.double().T
            return lambda others: others.places_N_D.double() @ places_D_N
        count, tables = len(self), []
        for start in range(0, count, _COLUMNS):
            # Row 0 is of all leaves that none of these points falls into.
            columns_n_T = self._columns(slice(start, start + _COLUMNS)).long()
            used = torch.unique(columns_n_T)
            row_D = torch.zeros(self.width, dtype=torch.int32, device=self.device)
            row_D[used] = torch.arange(1, len(used) + 1, dtype=torch.int32, device=self.device)
            table = torch.zeros(len(used) + 1, len(columns_n_T), device=self.device)
            table[row_D[columns_n_T].long(), torch.arange(len(columns_n_T), device=self.device)[:, None]] = 1.0
            tables.append((row_D, table))

        def shares(others: Geometry) -> Tensor:
            columns_n_T = others._columns(slice(None))
            share_n_N = torch.empty(len(others), count, dtype=torch.float64, device=self.device)
            for number, (row_D, table) in enumerate(tables):
                rows_n_T = row_D.index_select(0, columns_n_T.flatten()).view_as(columns_n_T)
                part = slice(number * _COLUMNS, (number + 1) * _COLUMNS)
                share_n_N[:, part] = torch.nn.functional.embedding_bag(rows_n_T, table, mode="sum")
            return share_n_N.div_(len(self.n_leaves))

        return shares

    def along(self, vector_D: Tensor) -> Tensor:
        """Φ v for all points: N values in float64.

        >>> Geometry.of_leaves([[0], [1]]).along(torch.tensor([1.0, 2.0]).double()).tolist()
        [1.0, 2.0]
        """

        def work(part: slice) -> Tensor:
            if self.kind == "features":
                return self.places_N_D[part].double() @ vector_D
            columns_n_T = self._columns(part)
            return vector_D.index_select(0, columns_n_T.flatten()).view_as(columns_n_T).sum(1)

        found_N = chunked(work, len(self), 16 * self.places_N_D.shape[1], self.device)
        return found_N if self.kind == "features" else found_N * len(self.n_leaves) ** -0.5

    def combined(self, share_N: Tensor) -> Tensor:
        """Φᵀ v, the sum of all points, each by its share: one value a column of `features`, in float64.

        >>> Geometry.of_leaves([[0], [1], [1]]).combined(torch.ones(3).double()).tolist()
        [1.0, 2.0]
        """
        if self.kind == "features":
            found_D: Tensor = self.places_N_D.double().T @ share_N
            return found_D
        trees = len(self.n_leaves)
        found_D = torch.zeros(self.width, dtype=torch.float64, device=self.device)
        found_D.index_add_(0, self._columns(slice(None)).flatten(), share_N.repeat_interleave(trees))
        return found_D.mul_(trees**-0.5)

    def _columns(self, some: Tensor | slice) -> Tensor:
        """The column of `features` of each leaf that some points fall into."""
        first_T = torch.tensor([0, *itertools.accumulate(self.n_leaves[:-1])], dtype=torch.int32, device=self.device)
        return self.places_N_D[some] + first_T


def unsureness(belief: Belief) -> Tensor:
    """How unsure a belief is of the label of each point: 1 − margin of classes, variance over its mean of numbers.

    >>> unsureness(ClassProbabilities.from_probs([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])).round(decimals=6).tolist()
    [0.8, 0.0]
    """
    if seen_as(belief, ClassProbabilities) is not None:
        probs_N_C = belief.predict_proba()
        if probs_N_C.shape[1] == 1:
            return torch.zeros(len(belief), dtype=torch.float64, device=belief.device)
        first_N, second_N = probs_N_C.topk(2, 1).values.unbind(1)
        return (1 - first_N + second_N).clamp(0, 1)
    variance_N = belief.std.square()
    return variance_N / variance_N.mean()


def _checked_leaves(leaves: Tensor, n_leaves: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
    """Leaves in 32 bits, and one more than the largest number of each tree."""
    small = str(getattr(leaves, "dtype", "")).endswith("int32")  # not through 64 bits, twice the memory
    leaves_N_T = torch.as_tensor(leaves) if small else as_integers(leaves, "leaves_N_T")
    if leaves_N_T.ndim != 2 or leaves_N_T.shape[1] == 0:
        found = tuple(leaves_N_T.shape)
        raise ValueError(f"leaves_N_T: expected two axes (points, trees), found shape {found}; reshape it to a matrix")
    if len(leaves_N_T) == 0:
        return leaves_N_T.int(), n_leaves or (1,) * leaves_N_T.shape[1]
    least, most_T = int(leaves_N_T.min()), leaves_N_T.amax(0).tolist()
    if least < 0:
        raise ValueError(f"leaves_N_T: expected leaf numbers from 0 on, found {least}; number the leaves of each tree")
    n_leaves = n_leaves or tuple(most + 1 for most in most_T)
    if len(n_leaves) != len(most_T) or any(most >= size for most, size in zip(most_T, n_leaves, strict=True)):
        raise ValueError(
            f"n_leaves: expected {len(most_T)} numbers, each above the largest leaf of its tree, found {n_leaves[:9]};"
            " leave it out, or pass those of the fitted model"
        )
    if sum(n_leaves) >= 2**31:
        raise ValueError(
            f"n_leaves: found {sum(n_leaves):,} leaves, of 2³¹ at most; number the leaves of each tree alone"
        )
    return leaves_N_T.int(), n_leaves
