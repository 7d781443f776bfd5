"""Blocks K_n = V_n P V_nᵀ of all points in weight space, as points are taken or given back one by one.

    P = (H + Σ_taken F)⁻¹        take b:       L Lᵀ = I + K_b,  W = L⁻¹ V_b P,  P ← P − WᵀW,  K_n ← K_n − c_n c_nᵀ
    c_n = V_n Wᵀ                 give back b:  L Lᵀ = I − K_b,  W = L⁻¹ V_b P,  P ← P + WᵀW,  K_n ← K_n + c_n c_nᵀ

No P × P matrix is changed and nothing is factorised again: a step costs one product of the points with R rows. What is
kept of a point taken is either W, R rows of P weights (weight form), or its columns c_n, N × R × R (kernel form, for
few points with very many weights), whichever is less. The blocks themselves are kept while they fit the memory budget,
and made from what is kept where they do not.  Spec 08, E (i)–(iii) and Alg 3.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from natsel.information.factors import Factors
from natsel.information.precision import Dense, Precision
from natsel.memory import chunked, memory_budget

_MOST = 1e16  # of K: gains come from what is left of such numbers, and here that is all rounding
_SURE = 1 - 1e-9  # what rounding may leave of an eigenvalue of a block that all but says 1


@dataclass(frozen=True, eq=False)
class Gram:
    """A positive semi-definite matrix over the weights, as rows E with EᵀE or whole.

    >>> Gram(rows_r_P=torch.ones(1, 2)).times(torch.eye(2)).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """

    rows_r_P: Tensor | None = None
    matrix_P_P: Tensor | None = None

    def times(self, rows_q_P: Tensor) -> Tensor:
        """Rows times the matrix."""
        if self.matrix_P_P is not None:
            return rows_q_P @ self.matrix_P_P
        assert self.rows_r_P is not None
        return rows_q_P @ self.rows_r_P.T @ self.rows_r_P

    def over(self, factors: Factors) -> Tensor:
        """V_n M V_nᵀ, [n, R, R]."""
        if self.matrix_P_P is not None:
            return factors.quadratic(self.matrix_P_P)
        rows_r_P = self.rows_r_P
        assert rows_r_P is not None

        def work(part: slice) -> Tensor:
            along_n_R_r = factors[part].apply(rows_r_P)
            return along_n_R_r @ along_n_R_r.mT

        return chunked(work, len(factors), 16 * factors.rows * len(rows_r_P), factors.device)


@dataclass(frozen=True, eq=False)
class Pivot:
    """What taking (sign 1) or giving back (−1) some points changes: their factors and the Cholesky factor of I ± K."""

    few: Factors
    factor_q_q: Tensor
    sign: int
    rows_q_P: Tensor | None
    """W, in weight form."""
    columns_q_t: Tensor | None
    """The points' own columns of all that was taken before, in kernel form."""


class Blocks:
    """K of points under a precision and what was taken so far.

    What is known beforehand is either a pivot (kernel form) or what it takes from H⁻¹ (weight form).
    """

    def __init__(
        self, factors: Factors, precision: Precision, kernel: bool = False, known: Pivot | Gram | None = None
    ) -> None:
        self.factors, self.precision, self.kernel = factors, precision, kernel
        self.known = known if isinstance(known, Gram) else None
        self.signs_t = torch.empty(0, dtype=torch.float64, device=factors.device)
        self.rows_t_P = self.signs_t.new_empty(0, factors.weights)
        self.columns_N_R_t = self.signs_t.new_empty(len(factors), factors.rows, 0)
        self.held_N_R_R: Tensor | None = None
        if isinstance(known, Pivot):
            self._keep(known)
        if 8 * len(factors) * factors.rows**2 <= memory_budget() // 4:
            self.held_N_R_R = self._made(slice(0, len(factors)))

    def __len__(self) -> int:
        return len(self.factors)

    def at(self, positions: Tensor) -> Tensor:
        """K of some points, [n, R, R]."""
        if self.held_N_R_R is not None:
            return self.held_N_R_R[positions]
        width = 8 * self.factors.rows * (2 * self.factors.rows + len(self.signs_t))
        return chunked(lambda part: self._made(positions[part]), len(positions), width, positions.device)

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
            return Pivot(few, factor_R_R, sign, None, self.columns_N_R_t[position])
        rows_R_P = self.project(few.explicit(slice(None))[0])
        return Pivot(few, factor_R_R, sign, torch.linalg.solve_triangular(factor_R_R, rows_R_P, upper=False), None)

    def absorb(self, pivot: Pivot) -> Tensor | None:
        """Take a pivot; the new columns c_n as [N, R, R'], None where blocks are not held."""
        before = self.columns_N_R_t.shape[2]
        self._keep(pivot)
        if self.held_N_R_R is None and not self.kernel:
            return None
        if self.kernel:
            columns_N_R_q = self.columns_N_R_t[..., before:]
        else:
            assert pivot.rows_q_P is not None
            columns_N_R_q = self.factors.apply(pivot.rows_q_P)
        if self.held_N_R_R is not None:
            self.held_N_R_R.baddbmm_(columns_N_R_q, columns_N_R_q.mT, alpha=-pivot.sign)
        return columns_N_R_q

    def _keep(self, pivot: Pivot) -> None:
        count = len(pivot.factor_q_q)
        if self.kernel:
            columns_N_R_q = chunked(
                lambda part: self._columns_of(pivot, part),
                len(self),
                24 * self.factors.rows * (count + len(self.signs_t)),
                self.signs_t.device,
            )
            self.columns_N_R_t = torch.cat([self.columns_N_R_t, columns_N_R_q], 2)
        else:
            assert pivot.rows_q_P is not None
            self.rows_t_P = torch.cat([self.rows_t_P, pivot.rows_q_P])
        self.signs_t = torch.cat([self.signs_t, self.signs_t.new_full((count,), pivot.sign)])

    def _columns_of(self, pivot: Pivot, part: slice) -> Tensor:
        """c_n of a pivot in kernel form."""
        cross_n_m_R_R = crossed(self.factors[part], pivot.few, self.precision)
        cross_n_R_q = cross_n_m_R_R.permute(0, 2, 1, 3).flatten(2)
        if pivot.columns_q_t is not None:
            cross_n_R_q = cross_n_R_q - (self.columns_N_R_t[part] * self.signs_t) @ pivot.columns_q_t.T
        upper_q_q = pivot.factor_q_q.T
        found_n_R_q: Tensor = torch.linalg.solve_triangular(upper_q_q, cross_n_R_q, upper=True, left=False)
        return found_n_R_q

    def _made(self, positions: Tensor | slice) -> Tensor:
        """K from the precision and what was taken."""
        factors = self.factors[positions]
        blocks_n_R_R = factors.own(self.precision)
        _refuse_sharp(blocks_n_R_R)
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

        width = 24 * factors.rows * len(self.signs_t)
        return blocks_n_R_R - chunked(known, len(factors), width, factors.device)


def _refuse_sharp(blocks: Tensor) -> None:
    largest = float(blocks.diagonal(dim1=-2, dim2=-1).max()) if blocks.numel() else 0.0
    if not largest <= _MOST:
        raise ValueError(
            f"precision: a label of one point would tell up to {largest:.1g} times what is known of the weights, and"
            f" beyond {_MOST:.0e} rounding decides what the next one tells; give a larger precision, or rescale the"
            " features"
        )


def together(few: Factors, precision: Precision, kernel: bool) -> Pivot:
    """The pivot that takes several points before any other."""
    block_q_q = crossed(few, few, precision).permute(0, 2, 1, 3).flatten(2).flatten(0, 1)
    factor_q_q = factor((block_q_q + block_q_q.T) / 2)
    if kernel:
        return Pivot(few, factor_q_q, 1, None, None)
    rows_q_P = precision.solve(few.explicit(slice(None)).flatten(0, 1))
    return Pivot(few, factor_q_q, 1, torch.linalg.solve_triangular(factor_q_q, rows_q_P, upper=False), None)


def applied(factors: Factors, rows_r_P: Tensor) -> Tensor:
    """V_n wᵀ of some vectors of weights, or of none, [n, R, r].

    >>> from natsel.information.factors import RowFactors
    >>> applied(RowFactors(torch.ones(1, 1, 3)), torch.ones(0, 3)).shape
    torch.Size([1, 1, 0])
    """
    return factors.apply(rows_r_P) if len(rows_r_P) else rows_r_P.new_empty(len(factors), factors.rows, 0)


def solved(rows_q_P: Tensor, precision: Precision) -> Tensor:
    """Rows times H⁻¹; by the inverse that blocks are made from, where there is one.

    >>> from natsel.information.precision import Isotropic
    >>> solved(torch.ones(1, 2, dtype=torch.float64), Isotropic(2.0)).tolist()
    [[0.5, 0.5]]
    """
    return rows_q_P @ precision.inverse_P_P if isinstance(precision, Dense) else precision.solve(rows_q_P)


def crossed(factors: Factors, few: Factors, precision: Precision) -> Tensor:
    """V_n H⁻¹ V_mᵀ of factors of one kind, [n, m, R, R'].

    >>> from natsel.information.factors import RowFactors
    >>> from natsel.information.precision import Isotropic
    >>> crossed(RowFactors(torch.ones(1, 1, 3)), RowFactors(torch.ones(1, 1, 3)), Isotropic(1.0)).item()
    3.0
    """
    return factors.cross(few, precision)  # type: ignore[arg-type]


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
