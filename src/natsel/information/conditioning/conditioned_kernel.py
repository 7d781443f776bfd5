"""What is left of points once others are taken: the incremental Cholesky factor of I + S, brought up to date on demand.

    left_n = s_nn − s_nA (I + S_A)⁻¹ s_An               log det(I + S_{A ∪ n}) = log det(I + S_A) + log(1 + left_n)
    w_nt   = (s_nt − Σ_{u<t} w_nu l_tu) / l_tt,          l_tt² = 1 + left_t,         left_n ← left_n − w_nt²

S is a `Kernel` of one row per point. `before` are points taken beforehand in groups (points already held, targets):
what they explain is taken away first (`explained`). A group that counts η tells η² of what it would,
as if seen through more noise. A point's row w_n is extended only when it is asked for, so that a lazy search pays for
the points it looks at; what is kept is N × T numbers, of which only rows that were asked for are ever written, and
N × M for points taken beforehand. What of them does not fit in a quarter of the memory budget is made again.
docs/theory/weight-space.md, 7.3 and 9.6.
"""

import math

import torch
from torch import Tensor

from natsel.information.conditioning.one_step import is_rounding, kept_share, left_after_label
from natsel.information.weights.explained import Explained, explained, factored
from natsel.information.weights.similarity import Kernel
from natsel.memory import chunked, fits, memory_budget

_BLOCK = 32


def logdet(kernel: Kernel) -> float:
    """log det(I + S) of a few points.

    >>> round(logdet(Kernel(torch.tensor([[1.0]]))), 4)
    0.6931
    """
    return 2 * float(factored(kernel).diagonal().log().sum())


class ConditionedKernel:
    """N points, and how much of each is left by those taken so far.

    >>> points = ConditionedKernel(Kernel(torch.tensor([[1.0], [2.0]])))
    >>> points.take(0)
    >>> points.left(torch.tensor([1])).round(decimals=6).tolist()
    [2.0]
    """

    def __init__(
        self,
        kernel: Kernel,
        before: list[Kernel] | None = None,
        counts: list[float] | None = None,
        tables: int = 1,
    ) -> None:
        """`tables` says how many of these their owner keeps."""
        self.kernel = kernel
        self.own_N = kernel.own()
        self.lost_N = torch.zeros_like(self.own_N)
        self.start_N = self.own_N
        self.left_N = self.own_N.clone()
        self.explained_N_G = self.own_N.new_zeros(len(kernel), 0)
        self.taken: list[int] = []
        self.keeps: list[float] = []
        self.factor_T_T = self.own_N.new_zeros(0, 0)
        self.version_N = torch.zeros(len(kernel), dtype=torch.int64, device=kernel.device)
        self._blocks: list[Tensor] = []
        # Columns of w that are kept; those beyond are made again from them whenever a row is asked for.
        self._most = memory_budget() // 4 // (8 * tables * max(1, len(kernel))) // _BLOCK * _BLOCK
        named = zip(before or [], counts or [1.0] * len(before or []), strict=True)
        groups = [(group, count) for group, count in named if len(group)]
        self.before = explained(*map(list, zip(*groups, strict=True))) if groups else None
        self._held_N_M: Tensor | None = None
        if self.before is not None:
            self._start(self.before, tables)

    def left(self, positions: Tensor) -> Tensor:
        """What is left of some points, n values of at least 0."""
        self._refresh(positions)
        return self.left_N[positions]

    def lost(self, positions: Tensor) -> Tensor:
        """What some points lost to those taken since the start, n values."""
        self._refresh(positions)
        return self.lost_N[positions]

    def take(self, position: int) -> None:
        """Take a point."""
        at_1 = torch.tensor([position], device=self.kernel.device)
        left = float(self.left(at_1))
        # What is left of a point below rounding has no direction of its own; a row made from it would be noise.
        if is_rounding(left, float(self.own_N[position])):
            return
        count = len(self.taken)
        kept = min(count, self._most)
        row_T = torch.cat([self._rows(at_1, kept), self._extended(at_1, kept)], 1)[0]
        larger = row_T.new_zeros(count + 1, count + 1)
        larger[:count, :count] = self.factor_T_T
        larger[count, :count] = row_T
        larger[count, count] = math.sqrt(1 + left)
        self.factor_T_T = larger
        self.taken.append(position)
        self.keeps.append(kept_share(left, 1.0))

    def _refresh(self, positions: Tensor) -> None:
        """Extend the rows of some points to all that were taken."""
        count = len(self.taken)
        stale: Tensor = positions[self.version_N[positions] < count].unique()  # type: ignore[no-untyped-call]
        if len(stale) == 0:
            return
        while min(count, self._most) > len(self._blocks) * _BLOCK:
            self._blocks.append(self.own_N.new_empty(len(self.own_N), _BLOCK))
        version_n = self.version_N[stale]
        oldest, newest = (int(end) for end in version_n.aminmax())
        first = min(oldest, self._most)
        each = 24 * (self.kernel.width + count) + (self._width if self.before is not None else 0)
        new_n_t = chunked(lambda part: self._extended(stale[part], first), len(stale), each, self.kernel.device)
        left_n, lost_n = self.left_N[stale], self.lost_N[stale]
        for column, keep in enumerate(self.keeps[oldest:], start=oldest):
            less_n = left_after_label(left_n, new_n_t[:, column - first].square(), keep)
            if column < newest:  # some points have lost this share already
                less_n = torch.where(version_n <= column, less_n, left_n)
            left_n, lost_n = less_n, lost_n + (left_n - less_n)
        self._write(stale, first, new_n_t[:, : max(0, self._most - first)])
        self.left_N[stale], self.lost_N[stale] = left_n, lost_n
        self.version_N[stale] = count

    def _extended(self, some_n: Tensor, first: int) -> Tensor:
        """w of some points from column `first` on, all before it being kept, [n, T − first]."""
        if first == len(self.taken):
            return self.own_N.new_zeros(len(some_n), 0)
        there = torch.tensor(self.taken[first:], dtype=torch.int64, device=self.kernel.device)
        new_n_t = self.similar(some_n, there)
        new_n_t = new_n_t - self._rows(some_n, first) @ self.factor_T_T[first:, :first].T
        corner_t_t = self.factor_T_T[first:, first:]
        found_t_n: Tensor = torch.linalg.solve_triangular(corner_t_t, new_n_t.T, upper=False)
        return found_t_n.T

    def similar(self, some_n: Tensor, others_t: Tensor) -> Tensor:
        """s_nt less what the points taken beforehand explain of it, [n, t]."""
        some, others = self.kernel[some_n], self.kernel[others_t]
        similar_n_t = some.between(others)
        if self.before is None:
            return similar_n_t
        if self._held_N_M is not None:
            return similar_n_t - self._held_N_M[some_n] @ self._held_N_M[others_t].T
        return similar_n_t - self.before.between(some, others)

    def _start(self, before: Explained, tables: int) -> None:
        """Take the points of `before`: what each group tells of every point."""

        def rows(part: slice) -> Tensor:
            return before.rows(self.kernel[part])

        def squares_by_group(rows_n_M: Tensor) -> Tensor:
            starts = [0, *before.ends[:-1]]
            parts = [rows_n_M[:, start:end] for start, end in zip(starts, before.ends, strict=True)]
            return torch.stack([part_n_m.square().sum(1) for part_n_m in parts], 1)

        count, columns, device = len(self.kernel), before.ends[-1], self.kernel.device
        if fits(8 * tables * count * columns):
            self._held_N_M = held_N_M = chunked(rows, count, before.width, device)
            self._width = 16 * columns
            self.explained_N_G = chunked(lambda part: squares_by_group(held_N_M[part]), count, 16 * columns, device)
        else:
            self._width = before.width
            self.explained_N_G = chunked(lambda part: squares_by_group(rows(part)), count, before.width, device)
        self.start_N = (self.own_N - self.explained_N_G.sum(1)).clamp_min(0)
        self.left_N = self.start_N.clone()

    def _rows(self, some_n: Tensor, count: int) -> Tensor:
        """w of some points, up to `count` columns."""
        blocks = [block[some_n] for block in self._blocks[: -(-count // _BLOCK)]]
        return torch.cat(blocks, 1)[:, :count] if blocks else self.own_N.new_zeros(len(some_n), 0)

    def _write(self, some_n: Tensor, first: int, new_n_t: Tensor) -> None:
        for block in range(first // _BLOCK, -(-(first + new_n_t.shape[1]) // _BLOCK)):
            start, stop = max(first, block * _BLOCK), min(first + new_n_t.shape[1], (block + 1) * _BLOCK)
            self._blocks[block][some_n, start - block * _BLOCK : stop - block * _BLOCK] = new_n_t[
                :, start - first : stop - first
            ]
