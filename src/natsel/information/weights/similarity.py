"""Similarity of points by one row each: s_ij = g_i·g_j for rows g = r · a ⊗ x that are never written out.

    s_ij = r_i r_j (a_i·a_j) (x_i·x_j)           a: outputs [C] (π − e_y), x: features [D], r: a number (cosines: 1/‖g‖)
    ‖g_i − g_j‖² = s_ii + s_jj − 2 s_ij
    Σ_j w_j s_ij = r_i a_iᵀ (Σ_j w_j r_j a_j x_jᵀ) x_i               sums over all points without N × N

A similarity costs C + D in place of C·D, and all N with a few others are two thin products. Without outputs, g = r x.
docs/theory/weight-space.md, 8 and 9.4.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from natsel.memory import chunked, memory_budget, rows_per_chunk
from natsel.rounding import AS_NEAR
from natsel.ties import Order

# What rounding leaves of the squared distance of two copies, in units of their squared lengths times the precision.
_ROUNDING = 8
# Squared distances below this share of the squared lengths lose too many digits in float32.
_CLOSE = 1 / 64
# Products of rows with smaller squared lengths may have no place in float32.
_TINY = 1e-24
# Lengths of rows whose products with vectors of length one have their place in float32.
_SHORT, _LONG = 1e-30, 1e30
# Tiles of similarities between many and many points are about this high: enough to be worth a matrix product.
_TILE = 1024
# Bytes of a matrix that is made whatever the budget is.
_SMALL = 1 << 21


class OutputRows(Protocol):
    """A table [N, C] that is held, or made where it is looked at."""

    @property
    def shape(self) -> torch.Size: ...
    def __getitem__(self, positions: Any) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Kernel:
    """Rows r · a ⊗ x of N points, and the similarities between them.

    >>> kernel = Kernel(torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.tensor([[2.0], [1.0]]))
    >>> kernel.columns([1]).tolist()
    [[2.0], [2.0]]
    """

    features_N_D: Tensor
    outputs_N_C: OutputRows | None = None
    scales_N: Tensor | None = None

    def __len__(self) -> int:
        return len(self.features_N_D)

    def __getitem__(self, positions: Any) -> Self:
        return type(self)(
            self.features_N_D[positions],
            None if self.outputs_N_C is None else self.outputs_N_C[positions],
            None if self.scales_N is None else self.scales_N[positions],
        )

    @property
    def device(self) -> torch.device:
        """Where the numbers lie."""
        return self.features_N_D.device

    @property
    def shape(self) -> tuple[int, int]:
        """(C, D), the numbers of outputs and of features; C = 1 without outputs."""
        return 1 if self.outputs_N_C is None else self.outputs_N_C.shape[1], self.features_N_D.shape[1]

    @property
    def width(self) -> int:
        """How many numbers say what a row is, C + D."""
        return sum(self.shape)

    def scaled(self, factors: Tensor | float) -> Self:
        """The same rows, each times a factor, or all times one.

        >>> Kernel(torch.tensor([[3.0]])).scaled(2.0).own().tolist()
        [36.0]
        """
        factors_N = torch.as_tensor(factors, dtype=torch.float64, device=self.device).expand(len(self))
        return replace(self, scales_N=factors_N if self.scales_N is None else self.scales_N * factors_N)

    def cosine(self) -> Self:
        """The same rows at length one; rows of nothing stay so, alike to no row.

        >>> Kernel(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).cosine().own().round(decimals=6).tolist()
        [1.0, 0.0]
        """
        own_N = replace(self, scales_N=None).own()
        return replace(self, scales_N=torch.where(own_N > 0, own_N.rsqrt(), 0.0))

    def own(self) -> Tensor:
        """s_nn = ‖g_n‖², N values."""

        def work(part: slice) -> Tensor:
            squared_n = squared_lengths(self.features_N_D[part])
            if self.outputs_N_C is not None:
                squared_n = squared_n * squared_lengths(self.outputs_N_C[part])
            return squared_n if self.scales_N is None else squared_n * self.scales_N[part].square()

        # Rows that are held need no copy: `squared_lengths` has chunks of its own, with one piece of memory for all.
        made = self._made_where_looked_at
        return chunked(work, len(self), 32 * self.width + made if made else 32, self.device)

    def explicit(self) -> Tensor:
        """g of a few points written out, [N, C·D] in float64.

        >>> Kernel(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 0.0]])).explicit().tolist()
        [[3.0, 6.0, 0.0, 0.0]]
        """
        features_N_D, outputs_N_C = self._thin()
        return features_N_D if outputs_N_C is None else (outputs_N_C[:, :, None] * features_N_D[:, None]).flatten(1)

    def columns(self, positions: Any) -> Tensor:
        """s_nb of all points with a few of them, [N, m].

        >>> Kernel(torch.tensor([[1.0], [2.0]])).columns([0]).tolist()
        [[1.0], [2.0]]
        """
        return self.between(self[positions])

    def between(self, few: "Kernel") -> Tensor:
        """s_nb of all points with a few others, [N, m].

        >>> Kernel(torch.tensor([[1.0], [2.0]])).between(Kernel(torch.tensor([[3.0]]))).tolist()
        [[3.0], [6.0]]
        """
        step = rows_per_chunk(16 * self.width, self.device)
        thin = few._thin() if len(few) <= step else None

        def work(part: slice) -> Tensor:
            if thin is not None:
                return self._with(part, thin)
            found_n_m = self.features_N_D.new_empty(part.stop - part.start, len(few), dtype=torch.float64)
            for start in range(0, len(few), step):
                those = slice(start, start + step)
                found_n_m[:, those] = self._with(part, few[those]._thin())
            return found_n_m

        return chunked(work, len(self), 8 * self.width + 24 * len(few), self.device)

    def distances(self, position: int, own_N: Tensor | None = None) -> Tensor:
        """‖g_n − g_b‖² of all points to one, N values; what is less than rounding is 0.

        >>> Kernel(torch.tensor([[1.0, 0.0], [0.0, 2.0]])).distances(0).tolist()
        [0.0, 5.0]
        """
        return self.distances_to(torch.tensor([position]), own_N)[0]

    def distances_to(self, positions: Tensor, own_N: Tensor | None = None, out: Tensor | None = None) -> Tensor:
        """The same to each of some points, [m, N]: one look at all of them serves several.

        Multiplied in the precision the rows came in where that is enough: a look takes as long as reading them.
        `own_N` saves a second look where it is at hand; `out` is where they are written.

        >>> Kernel(torch.tensor([[1.0, 0.0], [0.0, 2.0]])).distances_to(torch.tensor([1, 0])).tolist()
        [[5.0, 0.0], [0.0, 5.0]]
        """
        positions = positions.to(self.device)
        few = self[positions]
        own_N = self.own() if own_N is None else own_N
        distance_m_N = own_N.new_empty(len(few), len(self)) if out is None else out
        step = rows_per_chunk(256 * len(few) + self._made_where_looked_at, self.device)
        room = self._room(step, few)
        for start in range(0, len(self), step):
            part = slice(start, start + step)
            distance_m_N[:, part] = self._apart(part, few, own_N, own_N[positions], room).T
        return distance_m_N

    def nearest(self, others: "Kernel", own_N: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The squared distance of every point to the nearest of some others, and which of them that is: N values each.

        Of several that are as near it is the first.

        >>> pool, others = Kernel(torch.tensor([[1.0], [5.0]])), Kernel(torch.tensor([[0.0], [4.0]]))
        >>> [found.tolist() for found in pool.nearest(others)]
        [[1.0, 1.0], [0, 1]]
        """
        own_N, own_M = self.own() if own_N is None else own_N, others.own()
        nearest_N = torch.full_like(own_N, torch.inf)
        which_N = torch.zeros(len(self), dtype=torch.int32, device=self.device)
        width = min(_TILE, len(others))
        step = rows_per_chunk(80 * width + self._made_where_looked_at, self.device)
        for first in range(0, len(others), width):
            some = slice(first, first + width)
            few = others[some]
            room = self._room(step, few)
            for start in range(0, len(self), step):
                part = slice(start, start + step)
                distance_n_m = self._apart(part, few, own_N, own_M[some], room)
                least_n, first_n = distance_n_m.min(1)
                near_n_m = distance_n_m <= least_n[:, None] * (1 + AS_NEAR)
                several_n = (near_n_m.count_nonzero(1) > 1).nonzero()[:, 0]
                first_n[several_n] = near_n_m[several_n].byte().argmax(1)
                closer_n = least_n < nearest_N[part] * (1 - AS_NEAR)
                nearest_N[part] = torch.minimum(nearest_N[part], least_n)
                which_N[part] = torch.where(closer_n, first + first_n.int(), which_N[part])
        return nearest_N, which_N

    @property
    def _made_where_looked_at(self) -> int:
        """Bytes per point of outputs and features that are not held."""
        outputs = 0 if isinstance(self.outputs_N_C, Tensor | None) else 12 * self.shape[0]
        return outputs + (0 if isinstance(self.features_N_D, Tensor) else 48 * self.shape[1])

    def _room(self, step: int, few: "Kernel") -> tuple[Tensor, Tensor, Tensor] | None:
        """One piece of memory for all chunks of distances (see `squared_lengths`), where products are in float32."""
        if not (self._in_single() and few._in_single()):
            return None
        shape = (min(step, len(self)), len(few))
        single_n_m = torch.empty(shape, dtype=torch.float32, device=self.device)
        return (
            single_n_m,
            single_n_m.new_empty(shape, dtype=torch.float64),
            single_n_m.new_empty(shape, dtype=torch.float64),
        )

    def _apart(
        self,
        part: slice,
        few: "Kernel",
        own_N: Tensor,
        own_m: Tensor,
        room: tuple[Tensor, Tensor, Tensor] | None,
    ) -> Tensor:
        """Squared distances of some points to a few others, [n, m], in `room` if there is one; less than rounding is 0.

        Differences of products in float32 serve where they are not small beside the lengths; other rows are multiplied
        once more in float64.
        """
        if room is not None:
            single_n_m, far_n_m, distance_n_m = (some[: len(own_N[part])] for some in room)
            torch.add(own_N[part, None], own_m, out=far_n_m)
            distance_n_m.copy_(torch.mm(self.features_N_D[part], few.features_N_D.T, out=single_n_m))
            if self.outputs_N_C is not None and few.outputs_N_C is not None:
                distance_n_m.mul_(self.outputs_N_C[part] @ few.outputs_N_C[:].T)
            if self.scales_N is not None and few.scales_N is not None:
                distance_n_m.mul_(self.scales_N[part, None]).mul_(few.scales_N)
            torch.add(far_n_m, distance_n_m, alpha=-2, out=distance_n_m)
            # No distance is more than twice `far`, unless float32 has overflown; NaN is in question too.
            share_n_m = torch.div(distance_n_m, far_n_m, out=far_n_m)  # memory of another table takes longer to get
            tiny_n = _is_tiny(own_N[part], None if self.scales_N is None else self.scales_N[part])
            sure_n = (share_n_m.amin(1) > _CLOSE) & (share_n_m.amax(1) < 4) & ~tiny_n
            if bool(_is_tiny(own_m, few.scales_N).any()):
                sure_n.fill_(False)
            unsure_n, step = part.start + (~sure_n).nonzero()[:, 0], rows_per_chunk(16 * self.width, self.device)
            for start in range(0, len(unsure_n), step):
                some = unsure_n[start : start + step]
                distance_n_m[some - part.start] = _apart_by(self[some].between(few), own_N[some, None] + own_m)
            return distance_n_m
        return _apart_by(self[part].between(few), own_N[part, None] + own_m)

    def _in_single(self) -> bool:
        """Whether rows are float32 and multiplied as such: torch may multiply bfloat16 where it is told so."""
        return self.features_N_D.dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest"

    def vector_sum(self, weights_N: Tensor | None = None) -> Tensor:
        """Σ_n w_n g_n, written out: C·D numbers.

        >>> Kernel(torch.tensor([[1.0, 2.0], [3.0, 0.0]])).vector_sum().tolist()
        [4.0, 2.0]
        """
        return (self if weights_N is None else self.scaled(weights_N))._sum().flatten()

    def along(self, vector_P: Tensor) -> Tensor:
        """g_n·v of every point with a vector of C·D numbers, N values.

        >>> Kernel(torch.tensor([[1.0, 2.0], [3.0, 0.0]])).along(torch.tensor([1.0, 1.0]).double()).tolist()
        [3.0, 3.0]
        """
        matrix_C_D = vector_P.reshape(self.shape).double()

        def work(part: slice) -> Tensor:
            found_n_C = self.features_N_D[part].double() @ matrix_C_D.T
            found_n = found_n_C[:, 0]
            if self.outputs_N_C is not None:
                found_n = (found_n_C * self.outputs_N_C[part].double()).sum(1)
            return found_n if self.scales_N is None else found_n * self.scales_N[part]

        return chunked(work, len(self), 8 * self.width + 24 * len(matrix_C_D), self.device)

    def aligned(self, vectors_m_P: Tensor, length_N: Tensor) -> Tensor:
        """g_n·v/‖g_n‖ of every point with some vectors, [m, N], in the precision of the rows; 0 without length.

        Off by `rough` times ‖v‖ at most; in float64 where lengths leave float32. One look at all points serves several
        vectors.

        >>> kernel = Kernel(torch.tensor([[3.0, 0.0], [1.0, 0.0]]))
        >>> kernel.aligned(torch.tensor([[2.0, 1.0]]), kernel.own().sqrt()).tolist()
        [[2.0, 2.0]]
        """
        dtype, count, outputs = self.features_N_D.dtype, len(vectors_m_P), self.shape[0]
        some_n = length_N[length_N > 0] if self.scales_N is None else (length_N / self.scales_N.abs())[length_N > 0]
        if len(some_n) and not _SHORT < float(some_n.min()) <= float(some_n.max()) < _LONG:
            dtype = torch.float64
        copied = 0 if dtype == self.features_N_D.dtype else 8 * self.width
        vectors_mC_D = vectors_m_P.reshape(count * outputs, -1).to(dtype)
        found_m_N = torch.empty(count, len(self), dtype=dtype, device=self.device)
        step = rows_per_chunk(32 * count * outputs + copied + self._made_where_looked_at, self.device)
        for start in range(0, len(self), step):
            part = slice(start, start + step)
            found_n_m = self.features_N_D[part].to(dtype) @ vectors_mC_D.T
            if self.outputs_N_C is not None:
                outputs_n_1_C = self.outputs_N_C[part].to(dtype)[:, None]
                found_n_m = (found_n_m.view(-1, count, outputs) * outputs_n_1_C).sum(2)
            scale_n = torch.where(length_N[part] > 0, 1 / length_N[part], 0.0)
            scale_n = scale_n if self.scales_N is None else scale_n * self.scales_N[part]
            torch.mul(found_n_m.T, scale_n.to(dtype), out=found_m_N[:, part])
        return found_m_N

    @property
    def rough(self) -> float:
        """No sum of C + D products is off by more than so many roundings of the product of both lengths."""
        single = self.features_N_D.dtype == torch.float32
        coarse = single and torch.get_float32_matmul_precision() != "highest"  # torch may then multiply bfloat16
        return 2 * self.width * torch.finfo(torch.bfloat16 if coarse else self.features_N_D.dtype).eps

    def most_aligned(
        self, vector_P: Tensor, length_N: Tensor, rough_N: Tensor, off: float, tie: float, order: Order
    ) -> tuple[int, float]:
        """The point of the largest g_n·v/‖g_n‖, and that number; within `tie` the first by the `order`.

        `rough_N` are these numbers off by `off` at most, −inf for points that are not to be looked at. Those that this
        leaves in question are multiplied once more in float64.

        >>> kernel = Kernel(torch.eye(2))
        >>> kernel.most_aligned(torch.tensor([0.0, 1.0]), torch.ones(2), torch.tensor([0.1, 0.9]), 0.2, 0.0, Order())[0]
        1
        """
        near_n = (rough_N >= float(rough_N.max()) - tie - 2 * off).nonzero()[:, 0]
        aligned_n = self[near_n].along(vector_P) / length_N[near_n]
        found = order.first(near_n[aligned_n >= float(aligned_n.max()) - tie])
        return found, float(aligned_n[near_n == found])

    def sums(self, others: "Kernel", weights_M: Tensor | None = None) -> Tensor:
        """Σ_j w_j s_nj over other points, N values: by one C × D matrix, or one by one where that is less.

        >>> kernel = Kernel(torch.tensor([[1.0], [2.0]]))
        >>> kernel.sums(kernel).tolist()
        [3.0, 6.0]
        """
        if weights_M is not None:
            others = others.scaled(weights_M)
        outputs, width = self.shape
        wide = outputs * width * (len(self) + len(others)) > self.width * len(self) * len(others)
        if wide or 24 * outputs * width > max(_SMALL, memory_budget() // 4):
            return self.folded(others, lambda block_n_m, part: block_n_m.sum(1))
        return self.along(others.vector_sum())

    def largest(self, others: "Kernel") -> Tensor:
        """max_j s_nj over other points, N values.

        >>> Kernel(torch.tensor([[1.0]])).largest(Kernel(torch.tensor([[3.0], [5.0]]))).tolist()
        [5.0]
        """
        return self.folded(others, lambda block_n_m, part: block_n_m.amax(1), torch.maximum)

    def folded(
        self,
        others: "Kernel",
        work: Callable[[Tensor, slice], Tensor],
        join: Callable[[Tensor, Tensor], Tensor] = torch.add,
    ) -> Tensor:
        """Similarities with many others, tile by tile: `work(tile, which others)` gives n values, joined over tiles.

        >>> kernel = Kernel(torch.tensor([[1.0], [-1.0]]))
        >>> kernel.folded(kernel, lambda block_n_m, part: block_n_m.clamp_min(0).sum(1)).tolist()
        [1.0, 1.0]
        """

        def along(part: slice) -> Tensor:
            count = part.stop - part.start
            step = rows_per_chunk(8 * self.width + 32 * count, self.device)
            found_n: Tensor | None = None
            for start in range(0, len(others), step):
                those = slice(start, min(start + step, len(others)))
                new_n = work(self._with(part, others[those]._thin()), those)
                found_n = new_n if found_n is None else join(found_n, new_n)
            return self.features_N_D.new_zeros(count, dtype=torch.float64) if found_n is None else found_n

        return chunked(along, len(self), max(8 * self.width, 8 * _TILE), self.device)

    def _thin(self) -> tuple[Tensor, Tensor | None]:
        """Features and outputs in float64, scales worked in."""
        features_N_D = self.features_N_D.double()
        if self.scales_N is not None:
            copied = features_N_D is not self.features_N_D
            scales_N_1 = self.scales_N[:, None]
            features_N_D = features_N_D.mul_(scales_N_1) if copied else features_N_D * scales_N_1
        return features_N_D, None if self.outputs_N_C is None else self.outputs_N_C[:].double()

    def _with(self, part: slice, few: tuple[Tensor, Tensor | None]) -> Tensor:
        features_m_D, outputs_m_C = few
        block_n_m = self.features_N_D[part].double() @ features_m_D.T
        if self.outputs_N_C is not None and outputs_m_C is not None:
            block_n_m *= self.outputs_N_C[part].double() @ outputs_m_C.T
        if self.scales_N is not None:
            block_n_m *= self.scales_N[part, None]
        return block_n_m

    def _sum(self) -> Tensor:
        """Σ_n r_n a_n x_nᵀ, [C, D]."""
        total: Tensor | None = None
        step = rows_per_chunk(32 * self.width, self.device)
        for start in range(0, max(1, len(self)), step):
            features_n_D, outputs_n_C = self[start : start + step]._thin()
            new_C_D = features_n_D.sum(0)[None] if outputs_n_C is None else outputs_n_C.T @ features_n_D
            total = new_C_D if total is None else total.add_(new_C_D)
        assert total is not None
        return total


def _apart_by(similar_n_m: Tensor, far_n_m: Tensor) -> Tensor:
    """s_ii + s_jj − 2 s_ij in float64; what is less than rounding is 0."""
    distance_n_m = torch.add(far_n_m, similar_n_m, alpha=-2)
    least = _ROUNDING * torch.finfo(torch.float64).eps
    return distance_n_m.masked_fill_(~(distance_n_m > far_n_m * least), 0.0)


def _is_tiny(own_n: Tensor, scales_n: Tensor | None) -> Tensor:
    """Whether rows, before they are scaled, are so short that products of them may have no place in float32."""
    squared_n = own_n if scales_n is None else own_n / scales_n.square()
    return (squared_n > 0) & (squared_n < _TINY)


def squared_lengths(rows_n_D: Tensor) -> Tensor:
    """‖x_n‖² in float64, n values.

    >>> squared_lengths(torch.tensor([[3.0, 4.0]])).tolist()
    [25.0]
    """
    count, width = rows_n_D.shape
    squared_n = rows_n_D.new_empty(count, dtype=torch.float64)
    # One piece of memory for all chunks: glibc 2.36 was seen not to use a freed block for the next one of its size, so
    # that 100,000 × 512 numbers took 3 to 9 MiB for chunks of 2 MiB, differently in each run.
    step = min(max(1, count), rows_per_chunk(64 * width, rows_n_D.device))
    wide_m_D = rows_n_D.new_empty(step, width, dtype=torch.float64)
    for start in range(0, count, step):
        some_m_D = rows_n_D[start : start + step]
        squared_n[start : start + step] = wide_m_D[: len(some_m_D)].copy_(some_m_D).square_().sum(1)
    return squared_n


def joined(kernels: list[Kernel]) -> Kernel:
    """The rows of several kernels, one after the other.

    >>> len(joined([Kernel(torch.ones(1, 2)), Kernel(torch.ones(3, 2))]))
    4
    """
    if len(kernels) == 1:
        return kernels[0]
    parts = [kernel.scaled(1.0) for kernel in kernels]
    outputs = [part.outputs_N_C[:] for part in parts if part.outputs_N_C is not None]
    scales = [part.scales_N for part in parts if part.scales_N is not None]
    features_N_D = torch.cat([part.features_N_D for part in parts])
    return Kernel(features_N_D, torch.cat(outputs) if outputs else None, torch.cat(scales))
