"""What is left of points once others are taken: the incremental Cholesky factor of I + S, brought up to date on demand.

    left_n = s_nn − s_nA (I + S_A)⁻¹ s_An               log det(I + S_{A ∪ n}) = log det(I + S_A) + log(1 + left_n)
    w_nt   = (s_nt − Σ_{u<t} w_nu l_tu) / l_tt,          l_tt² = 1 + left_t,         left_n ← left_n − w_nt²

S is a `Kernel` of one row a point. `before` are points taken beforehand, group by group (points already held, targets):
M of them cost M·N·(C + D + M) once. A group that counts η tells η² of what it would, as if seen through more noise.
A point's row w_n is extended only when it is asked for, so that a lazy search pays
for the points it looks at; what is kept is N × T numbers, of which only rows that were asked for are ever written, and
N × M where that fits in a quarter of the memory budget.  Spec 08, Alg 3 and 9.
"""

import math

import torch
from torch import Tensor

from natsel.information.similarity import Kernel, joined
from natsel.memory import chunked, memory_budget

_ROUNDING = 1e-14
_BLOCK = 32


def logdet(kernel: Kernel) -> float:
    """log det(I + S) of a few points.

    >>> round(logdet(Kernel(torch.tensor([[1.0]]))), 4)
    0.6931
    """
    return 2 * float(_factor(kernel).diagonal().log().sum())


class Taken:
    """N points, and how much of each is left by those taken so far.

    >>> points = Taken(Kernel(torch.tensor([[1.0], [2.0]])))
    >>> points.take(0)
    >>> points.left(torch.tensor([1])).round(decimals=6).tolist()
    [2.0]
    """

    def __init__(self, kernel: Kernel, before: list[Kernel] | None = None, counts: list[float] | None = None) -> None:
        self.kernel = kernel
        self.own_N = kernel.own()
        self.lost_N = torch.zeros_like(self.own_N)
        self.start_N = self.own_N
        self.left_N = self.own_N.clone()
        self.told_N_G = self.own_N.new_zeros(len(kernel), 0)
        self.taken: list[int] = []
        self.keeps: list[float] = []
        self.factor_T_T = self.own_N.new_zeros(0, 0)
        self.version_N = torch.zeros(len(kernel), dtype=torch.int64, device=kernel.device)
        self._blocks: list[Tensor] = []
        named = zip(before or [], counts or [1.0] * len(before or []), strict=True)
        groups = [(group, count) for group, count in named if len(group)]
        self.before = joined([group for group, _ in groups]) if groups else None
        self._held_N_M: Tensor | None = None
        if self.before is not None:
            self._counts_M = self.own_N.new_tensor([count for group, count in groups for _ in range(len(group))])
            self._start(self.before, [len(group) for group, _ in groups])

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
        if not left > _ROUNDING * float(self.own_N[position]):
            return
        count = len(self.taken)
        row_T = self._rows(at_1, count)[0]
        larger = row_T.new_zeros(count + 1, count + 1)
        larger[:count, :count] = self.factor_T_T
        larger[count, :count] = row_T
        larger[count, count] = math.sqrt(1 + left)
        self.factor_T_T = larger
        self.taken.append(position)
        self.keeps.append(1 / (1 + left))

    def _refresh(self, positions: Tensor) -> None:
        """Extend the rows of some points to all that were taken."""
        count = len(self.taken)
        stale: Tensor = positions[self.version_N[positions] < count].unique()  # type: ignore[no-untyped-call]
        if len(stale) == 0:
            return
        while count > len(self._blocks) * _BLOCK:
            self._blocks.append(self.own_N.new_empty(len(self.own_N), _BLOCK))
        version_n = self.version_N[stale]
        first = int(version_n.min())
        corner_t_t = self.factor_T_T[first:count, first:count]

        def work(part: slice) -> Tensor:
            some_n = stale[part]
            new_n_t = self._similar(some_n, self.taken[first:])
            new_n_t = new_n_t - self._rows(some_n, first) @ self.factor_T_T[first:, :first].T
            return _solved(corner_t_t, new_n_t.T).T

        each = 24 * (self.kernel.width + count)
        new_n_t = chunked(work, len(stale), each, self.kernel.device)
        left_n, lost_n = self.left_N[stale], self.lost_N[stale]
        for column, keep in enumerate(self.keeps[first:], start=first):
            # Cauchy and Schwarz: every point keeps the share that the taken one kept, whatever rounding says.
            less_n = torch.maximum(left_n - new_n_t[:, column - first].square(), left_n * keep)
            less_n = torch.where(version_n <= column, less_n, left_n)
            left_n, lost_n = less_n, lost_n + (left_n - less_n)
        self._write(stale, first, new_n_t)
        self.left_N[stale], self.lost_N[stale] = left_n, lost_n
        self.version_N[stale] = count

    def _similar(self, some_n: Tensor, taken: list[int]) -> Tensor:
        """s_nt less what the points taken beforehand explain of it, [n, t]."""
        there = torch.tensor(taken, dtype=torch.int64, device=self.kernel.device)
        some = self.kernel[some_n]
        similar_n_t = some.between(self.kernel[there])
        if self.before is None:
            return similar_n_t
        if self._held_N_M is not None:
            return similar_n_t - self._held_N_M[some_n] @ self._held_N_M[there].T
        rows_M_t = _solved(self._factor_M_M, self.before.between(self.kernel[there]))
        rows_M_t = rows_M_t * self._counts_M.square()[:, None]
        weights_M_t = _solved(self._factor_M_M.T, rows_M_t, upper=True)
        return similar_n_t - torch.stack([some.sums(self.before, weights_M) for weights_M in weights_M_t.T], dim=1)

    def _start(self, before: Kernel, sizes: list[int]) -> None:
        """Take the points of `before`: what each group tells of every point."""
        self._factor_M_M = _factor(before)
        ends = torch.tensor(sizes).cumsum(0).tolist()

        def rows(part: slice) -> Tensor:
            similar_n_M = self.kernel[part].between(before)
            return _solved(self._factor_M_M, similar_n_M.T).T * self._counts_M

        def told(rows_n_M: Tensor) -> Tensor:
            squares_n_M = rows_n_M.square()
            return torch.stack(
                [squares_n_M[:, end - size : end].sum(1) for end, size in zip(ends, sizes, strict=True)], 1
            )

        each = 8 * self.kernel.width + 32 * len(before)
        if 8 * len(self.kernel) * len(before) <= memory_budget() // 4:
            self._held_N_M = chunked(rows, len(self.kernel), each, self.kernel.device)
            self.told_N_G = told(self._held_N_M)
        else:
            self.told_N_G = chunked(lambda part: told(rows(part)), len(self.kernel), each, self.kernel.device)
        self.start_N = (self.own_N - self.told_N_G.sum(1)).clamp_min(0)
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


def _factor(kernel: Kernel) -> Tensor:
    """The lower Cholesky factor of I + S of a few points."""
    similar_M_M = kernel.between(kernel)
    similar_M_M = (similar_M_M + similar_M_M.T) / 2
    similar_M_M.diagonal().add_(1.0)
    factor_M_M: Tensor = torch.linalg.cholesky(similar_M_M)
    return factor_M_M


def _solved(factor_M_M: Tensor, right_M_n: Tensor, upper: bool = False) -> Tensor:
    """L⁻¹ of a triangular factor, applied."""
    solved_M_n: Tensor = torch.linalg.solve_triangular(factor_M_M, right_M_n, upper=upper)
    return solved_M_n
