"""Blocks K_n = V_n P V_nᵀ of all points in weight space, as points are taken or given back one by one.

    P = (H + Σ_taken F)⁻¹        take b:       L Lᵀ = I + K_b,  W = L⁻¹ V_b P,  P ← P − WᵀW,  K_n ← K_n − c_n c_nᵀ
    c_n = V_n Wᵀ                 give back b:  L Lᵀ = I − K_b,  W = L⁻¹ V_b P,  P ← P + WᵀW,  K_n ← K_n + c_n c_nᵀ

No P × P matrix is changed and nothing is factorised again: a step costs one product of the points with R rows. What is
kept of a point taken is either W, R rows of P weights (weight form), or its columns c_n, N × R × R (kernel form, for
few points with very many weights), whichever is less. The blocks themselves are kept while they fit the memory budget,
and made from what is kept where they do not.
docs/theory/weight-space.md, 6 (i)–(iii) and 7.3.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from natsel.information.weights.factors import Factors, OuterFactors, RowFactors
from natsel.information.weights.in_place import factor_one_plus, symmetrise_
from natsel.information.weights.precision import Dense, Precision
from natsel.memory import chunked, fits, require, rows_per_chunk

_MOST = 1e16  # of K: gains come from what is left of such numbers, and here that is all rounding
_SURE = 1 - 1e-9  # what rounding may leave of an eigenvalue of a block that all but says 1


@dataclass(frozen=True, eq=False)
class Gram:
    """A positive semi-definite matrix over the weights, as rows E with EᵀE or whole, times a number.

    >>> Gram(torch.ones(1, 2), scale=0.5).times(torch.eye(2)).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """

    matrix_r_P: Tensor
    whole: bool = False
    scale: float = 1.0

    def times(self, rows_q_P: Tensor) -> Tensor:
        """Rows times the matrix."""
        if self.whole:
            return self._scaled(rows_q_P @ self.matrix_r_P)
        return self._scaled(rows_q_P @ self.matrix_r_P.T @ self.matrix_r_P)

    def over(self, factors: Factors) -> Tensor:
        """V_n M V_nᵀ, [n, R, R]."""
        rows_r_P = self.matrix_r_P
        if self.whole:
            return self._scaled(factors.quadratic(rows_r_P))

        def work(part: slice) -> Tensor:
            along_n_R_r = factors[part].apply(rows_r_P)
            return along_n_R_r @ along_n_R_r.mT

        return self._scaled(chunked(work, len(factors), 16 * factors.n_rows * len(rows_r_P), factors.device))

    def _scaled(self, new: Tensor) -> Tensor:
        return new if self.scale == 1.0 else new.mul_(self.scale)


@dataclass(frozen=True, eq=False)
class Pivot:
    """What taking (sign 1) or giving back (−1) some points changes: their factors and the Cholesky factor of I ± K."""

    few: Factors
    factor_q_q: Tensor
    sign: int
    rows_q_P: Tensor
    """W, in weight form; no rows in kernel form."""
    columns_q_t: Tensor
    """The points' own columns of all that was taken before, in kernel form; none in weight form."""


class Blocks:
    """K of points under a precision and what was taken so far.

    What is known beforehand is either a pivot (kernel form) or what it takes from H⁻¹ (weight form). `tables` says how
    many tables of the size of all blocks their owner would keep, and `beside` how many bytes it keeps besides.
    """

    def __init__(
        self,
        factors: Factors,
        precision: Precision,
        kernel: bool = False,
        known: Pivot | Gram | None = None,
        tables: int = 1,
        beside: int = 0,
    ) -> None:
        self.factors, self.precision, self.kernel, self.beside = factors, precision, kernel, beside
        self.known = known if isinstance(known, Gram) else None
        self.signs_t = torch.empty(0, dtype=torch.float64, device=factors.device)
        self.rows_t_P = self.signs_t.new_empty(0, factors.n_weights)
        self.columns_N_R_t = self.signs_t.new_empty(len(factors), factors.n_rows, 0)
        self.largest = 0.0  # of K before any point was taken, as far as it was looked at
        self.held_N_R_R: Tensor | None = None
        if isinstance(known, Pivot):
            count = len(known.factor_q_q)
            require(
                beside + 8 * count * (count + len(factors) * factors.n_rows),
                f"targets: a matrix of {count} × {len(factors) * factors.n_rows} for what they share with the points",
                "use fewer targets or points",
            )
            self._keep(known)
        if fits(tables * 8 * len(factors) * factors.n_rows**2):
            self.held_N_R_R = chunked(self._made, len(factors), self._width(), factors.device)

    def __len__(self) -> int:
        return len(self.factors)

    @property
    def kept(self) -> int:
        """Bytes that are kept of the points taken."""
        return 8 * (self.rows_t_P.numel() + self.columns_N_R_t.numel())

    def at(self, positions: Tensor) -> Tensor:
        """K of some points, [n, R, R]."""
        if self.held_N_R_R is not None:
            return self.held_N_R_R[positions]
        return chunked(lambda part: self._made(positions[part]), len(positions), self._width(), positions.device)

    def columns(self, positions: Tensor | slice) -> Tensor:
        """c_n of everything taken, [n, R, t]."""
        if self.kernel:
            return self.columns_N_R_t[positions]
        return applied(self.factors[positions], self.rows_t_P)

    def cross(self, positions: Tensor | slice, other: "Blocks", others: Tensor | slice) -> Tensor:
        """V_n P V_mᵀ with points of other blocks that took the same, [n, m, R, R']."""
        blocks_n_m_R_R = crossed(self.factors[positions], other.factors[others], self.precision)
        if not len(self.signs_t):
            return blocks_n_m_R_R
        mine_n_R_t, theirs_m_R_t = self.columns(positions), other.columns(others)
        known_nR_mR = (mine_n_R_t * self.signs_t).flatten(0, 1) @ theirs_m_R_t.flatten(0, 1).T
        known_n_R_m_R = known_nR_mR.view(*mine_n_R_t.shape[:2], *theirs_m_R_t.shape[:2])
        return blocks_n_m_R_R - known_n_R_m_R.permute(0, 2, 1, 3)

    def project(self, rows_q_P: Tensor) -> Tensor:
        """Rows times P, in weight form."""
        known_q_P = (rows_q_P @ self.rows_t_P.T * self.signs_t) @ self.rows_t_P
        if self.known is not None:
            known_q_P = known_q_P + self.known.times(rows_q_P)
        return solved(rows_q_P, self.precision) - known_q_P

    def pivot(self, position: int, sign: int = 1) -> Pivot:
        """What taking or giving back one of these points changes."""
        which = torch.tensor([position], device=self.signs_t.device)
        few, factor_R_R = self.factors[which], factor(self.at(which)[0], sign)
        if self.kernel:
            return Pivot(few, factor_R_R, sign, factor_R_R[:0], self.columns_N_R_t[position])
        rows_R_P = self.project(few.explicit(slice(None))[0])
        rows_R_P = torch.linalg.solve_triangular(factor_R_R, rows_R_P, upper=False)
        return Pivot(few, factor_R_R, sign, rows_R_P, factor_R_R[:, :0])

    def absorb(self, pivot: Pivot, follow: Callable[[slice, Tensor], None] | None = None) -> None:
        """Take a pivot; `follow` is called with some points after the other and their new columns c_n, [n, R, q]."""
        before = self.columns_N_R_t.shape[2]
        taken = len(self.signs_t) + len(pivot.factor_q_q)
        width = len(self.factors) * self.factors.n_rows if self.kernel else self.factors.n_weights
        grown = 16 * width * taken  # twice: what is kept is copied as it grows
        if not fits(grown):
            require(self.beside + grown, f"k: {taken} rows of {width} for the points taken", "lower k")
        self._keep(pivot)
        if self.held_N_R_R is None and follow is None:
            return
        step = rows_per_chunk(40 * self.factors.n_rows * len(pivot.factor_q_q), self.signs_t.device)
        for start in range(0, len(self), step):
            part = slice(start, min(start + step, len(self)))
            if self.kernel:
                columns_n_R_q = self.columns_N_R_t[part, :, before:]
            else:
                columns_n_R_q = self.factors[part].apply(pivot.rows_q_P)
            if self.held_N_R_R is not None:
                self.held_N_R_R[part].baddbmm_(columns_n_R_q, columns_n_R_q.mT, alpha=-pivot.sign)
            if follow is not None:
                follow(part, columns_n_R_q)

    def _keep(self, pivot: Pivot) -> None:
        count, before = len(pivot.factor_q_q), len(self.signs_t)
        if self.kernel:
            columns_N_R_q = chunked(
                lambda part: self._columns_of(pivot, part),
                len(self),
                24 * self.factors.n_rows * (count + before),
                self.signs_t.device,
            )
            self.columns_N_R_t = torch.cat([self.columns_N_R_t, columns_N_R_q], 2) if before else columns_N_R_q
        else:
            self.rows_t_P = torch.cat([self.rows_t_P, pivot.rows_q_P]) if before else pivot.rows_q_P
        self.signs_t = torch.cat([self.signs_t, self.signs_t.new_full((count,), pivot.sign)])

    def _columns_of(self, pivot: Pivot, part: slice) -> Tensor:
        """c_n of a pivot in kernel form."""
        cross_n_m_R_R = crossed(self.factors[part], pivot.few, self.precision)
        cross_n_R_q = cross_n_m_R_R.permute(0, 2, 1, 3).flatten(2)
        if pivot.columns_q_t.shape[1]:
            cross_n_R_q = cross_n_R_q - (self.columns_N_R_t[part] * self.signs_t) @ pivot.columns_q_t.T
        # As one matrix: a batch of them would be met by a batch of copies of the factor.
        found_nR_q: Tensor = torch.linalg.solve_triangular(
            pivot.factor_q_q.T, cross_n_R_q.flatten(0, 1), upper=True, left=False
        )
        return found_nR_q.reshape(cross_n_R_q.shape)

    def _made(self, positions: Tensor | slice) -> Tensor:
        """K from the precision and what was taken."""
        factors = self.factors[positions]
        blocks_n_R_R = factors.own(self.precision)
        self.largest = max(self.largest, _refuse_sharp(blocks_n_R_R))
        if self.known is not None:
            blocks_n_R_R = blocks_n_R_R - self.known.over(factors)
        if not len(self.signs_t):
            return blocks_n_R_R
        if self.kernel:
            columns_n_R_t = self.columns(positions)
            return blocks_n_R_R - (columns_n_R_t * self.signs_t) @ columns_n_R_t.mT

        def known(part: slice) -> Tensor:
            columns_n_R_t = factors[part].apply(self.rows_t_P)
            return (columns_n_R_t * self.signs_t) @ columns_n_R_t.mT

        width = 24 * factors.n_rows * len(self.signs_t)
        return blocks_n_R_R - chunked(known, len(factors), width, factors.device)

    def _width(self) -> int:
        """Bytes per point, while its block is made."""
        taken = len(self.signs_t) if self.kernel else 0
        return 8 * (self.factors.n_numbers + self.factors.n_rows * (4 * self.factors.n_rows + 2 * taken))


def _refuse_sharp(blocks: Tensor) -> float:
    """The largest number on the diagonals, refused where too little would be left of the next points."""
    largest = float(blocks.diagonal(dim1=-2, dim2=-1).max()) if blocks.numel() else 0.0
    if not largest <= _MOST:
        raise ValueError(
            f"precision: a label of one point would tell up to {largest:.1g} times what is known of the weights, and"
            f" beyond {_MOST:.0e} rounding decides what the next one tells; give a larger precision, or rescale the"
            " features"
        )
    return largest


def together(few: Factors, precision: Precision, kernel: bool) -> Pivot:
    """The pivot that takes several points before any other."""
    count, weights = len(few) * few.n_rows, few.n_weights
    require(
        8 * count * (count + max(count, 0 if kernel else weights)),
        f"targets: matrices of {count} × {count} and {count} × {count if kernel else weights} for what"
        f" {len(few)} of them tell together",
        "use fewer targets",
    )
    factor_q_q = _factored(_gram(few, precision))
    if kernel:
        return Pivot(few, factor_q_q, 1, factor_q_q[:0], factor_q_q[:, :0])
    rows_q_P = rows_of(few, precision.solve)
    step = rows_per_chunk(16 * count, few.device)
    for start in range(0, weights, step):
        some = slice(start, start + step)
        rows_q_P[:, some] = torch.linalg.solve_triangular(factor_q_q, rows_q_P[:, some], upper=False)
    return Pivot(few, factor_q_q, 1, rows_q_P, factor_q_q[:, :0])


def rows_of(few: Factors, change: Callable[[Tensor], Tensor]) -> Tensor:
    """All rows of some factors, [m·R, P], each changed on the way.

    >>> from natsel.information.weights.factors import RowFactors
    >>> rows_of(RowFactors(torch.ones(2, 1, 3)), lambda rows_q_P: 2 * rows_q_P).tolist()
    [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]
    """

    def work(part: slice) -> Tensor:
        rows_m_R_P = few.explicit(part)
        return change(rows_m_R_P.flatten(0, 1)).view(rows_m_R_P.shape)

    return chunked(work, len(few), 32 * few.n_rows * few.n_weights, few.device).flatten(0, 1)


def _gram(few: Factors, precision: Precision) -> Tensor:
    """V_m H⁻¹ V_nᵀ of all pairs, [m·R, m·R]."""
    count, rows = len(few), few.n_rows
    block_m_R_m_R = torch.empty(count, rows, count, rows, dtype=torch.float64, device=few.device)
    step = rows_per_chunk(16 * rows**2 * count, few.device)
    for start in range(0, count, step):
        part = slice(start, start + step)
        block_m_R_m_R[:, :, part] = crossed(few, few[part], precision).permute(0, 2, 1, 3)
    return symmetrise_(block_m_R_m_R.view(count * rows, count * rows))


def _factored(block_q_q: Tensor) -> Tensor:
    factor_q_q = factor_one_plus(block_q_q)
    return factor(block_q_q) if factor_q_q is None else factor_q_q


def applied(factors: Factors, rows_r_P: Tensor) -> Tensor:
    """V_n wᵀ of some vectors of weights, or of none, [n, R, r].

    >>> from natsel.information.weights.factors import RowFactors
    >>> applied(RowFactors(torch.ones(1, 1, 3)), torch.ones(0, 3)).shape
    torch.Size([1, 1, 0])
    """
    return factors.apply(rows_r_P) if len(rows_r_P) else rows_r_P.new_empty(len(factors), factors.n_rows, 0)


def solved(rows_q_P: Tensor, precision: Precision) -> Tensor:
    """Rows times H⁻¹; by the inverse that blocks are made from, where there is one.

    >>> from natsel.information.weights.precision import Isotropic
    >>> solved(torch.ones(1, 2, dtype=torch.float64), Isotropic(2.0)).tolist()
    [[0.5, 0.5]]
    """
    return rows_q_P @ precision.inverse_P_P if isinstance(precision, Dense) else precision.solve(rows_q_P)


def crossed(factors: Factors, few: Factors, precision: Precision) -> Tensor:
    """V_n H⁻¹ V_mᵀ of factors of one kind, [n, m, R, R'].

    >>> from natsel.information.weights.factors import RowFactors
    >>> from natsel.information.weights.precision import Isotropic
    >>> crossed(RowFactors(torch.ones(1, 1, 3)), RowFactors(torch.ones(1, 1, 3)), Isotropic(1.0)).item()
    3.0
    """
    if isinstance(factors, OuterFactors) and isinstance(few, OuterFactors):
        return factors.cross(few, precision)
    if isinstance(factors, RowFactors) and isinstance(few, RowFactors):
        return factors.cross(few, precision)
    raise TypeError("factors: two kinds of them cannot be crossed; believe about both with one model")


def factor(blocks: Tensor, sign: int = 1) -> Tensor:
    """L with L Lᵀ = I ± K of one block or many; K of points taken never exceeds I, whatever rounding says.

    >>> factor(torch.tensor([[3.0]], dtype=torch.float64)).item()
    2.0
    """
    eye_R_R = torch.eye(blocks.shape[-1], dtype=torch.float64, device=blocks.device)
    factors: Tensor
    factors, failed = torch.linalg.cholesky_ex(eye_R_R + sign * blocks)
    if bool(failed.any()):
        _refuse_sharp(blocks)
        values, vectors = torch.linalg.eigh(blocks)
        kept = values.clamp(0, _SURE if sign < 0 else torch.inf)
        factors = torch.linalg.cholesky(eye_R_R + sign * (vectors * kept[..., None, :]) @ vectors.mT)
    return factors


def trace(blocks: Tensor) -> Tensor:
    """The trace of each of many square blocks.

    >>> trace(torch.eye(2)[None]).tolist()
    [2.0]
    """
    return blocks.diagonal(dim1=-2, dim2=-1).sum(-1)
