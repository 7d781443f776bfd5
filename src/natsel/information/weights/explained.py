"""What points taken beforehand explain of others: rows r with r_n·r_m the part of a similarity s_nm that is explained.

    by similarities   r_n = L⁻¹ s_Qn,               L Lᵀ = I + S_QQ                            M × M numbers
    by weights        r_n = √(c/(1 + c)) Vᵀ g_n,    V diag(c) Vᵀ = Σ_q g_q g_qᵀ = RᵀR          P × P numbers, P = C·D

Both are the same similarities, s_nQ (I + S_QQ)⁻¹ s_Qm. The second is taken where points are many and rows short,
M ≥ 2P. Points come in groups, one after the other: columns of r belong to a group, and Σ r² over them is what it tells
beyond the groups before. By weights, each group is met by what those before leave of the rows, g ← g V (1 + c)^(−½) Vᵀ.
A group that counts η has its columns times η. √c are singular values of R: eigenvalues of the sum would lose the digits
of weak directions beside strong ones.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import accumulate

import torch
from torch import Tensor

from natsel.information.weights.in_place import factor_one_plus, symmetrise_
from natsel.information.weights.similarity import Kernel, joined
from natsel.memory import require, rows_per_chunk


class Explained(ABC):
    """What groups of points explain of any others."""

    ends: list[int]
    """Where the columns of each group end."""
    width: int
    """Bytes per point, while its row is made."""

    @abstractmethod
    def rows(self, some: Kernel) -> Tensor:
        """r of some points, [n, columns]."""

    @abstractmethod
    def between(self, some: Kernel, few: Kernel) -> Tensor:
        """What is explained of similarities, [n, m]."""


def explained(groups: list[Kernel], counts: list[float]) -> Explained:
    """By whichever of the two is smaller.

    >>> one = Kernel(torch.ones(1, 1))
    >>> explained([one], [1.0]).between(one, one).round(decimals=6).item()
    0.5
    """
    outputs, features = groups[0].shape
    many = sum(len(group) for group in groups) >= 2 * outputs * features
    return ByWeights(groups, counts) if many else BySimilarities(groups, counts)


class BySimilarities(Explained):
    """The Cholesky factor of all points, group after group."""

    def __init__(self, groups: list[Kernel], counts: list[float]) -> None:
        count = sum(len(group) for group in groups)
        require(
            16 * count**2, f"targets and given: two matrices of {count} × {count} similarities", "pass fewer of them"
        )
        self.points = joined(groups)
        self.factor_M_M = factored(self.points)
        self.counts_M = torch.cat(
            [self.factor_M_M.new_full((len(group),), each) for group, each in zip(groups, counts, strict=True)]
        )
        self.ends = list(accumulate(len(group) for group in groups))
        self.width = 8 * self.points.width + 32 * count

    def rows(self, some: Kernel) -> Tensor:
        """L⁻¹ s of some points."""
        return _solved(self.factor_M_M, some.between(self.points).T).T * self.counts_M

    def between(self, some: Kernel, few: Kernel) -> Tensor:
        """By one number for each of the points taken beforehand: no row of M is made for n points."""
        rows_M_m = _solved(self.factor_M_M, self.points.between(few)) * self.counts_M.square()[:, None]
        weights_M_m = _solved(self.factor_M_M.T, rows_M_m, upper=True)
        return torch.stack([some.sums(self.points, weights_M) for weights_M in weights_M_m.T], dim=1)


class ByWeights(Explained):
    """Directions of the weights, and how much of each is known."""

    def __init__(self, groups: list[Kernel], counts: list[float]) -> None:
        outputs, features = groups[0].shape
        weights, matrices = outputs * features, 5 + 3 * len(groups)
        require(
            8 * matrices * weights**2,
            f"targets and given: {matrices} matrices of {weights} × {weights} weights",
            "use fewer features",
        )
        left_P_P: Tensor | None = None
        maps: list[Tensor] = []
        for group, count in zip(groups, counts, strict=True):

            def rows(part: slice, group: Kernel = group, left_P_P: Tensor | None = left_P_P) -> Tensor:
                rows_n_P = group[part].explicit()
                return rows_n_P if left_P_P is None else rows_n_P @ left_P_P

            _, root_P, vectors_P_P = torch.linalg.svd(triangle(rows, len(group), weights, group.device))
            known_P = root_P.square()
            along_P_P = vectors_P_P.T if left_P_P is None else left_P_P @ vectors_P_P.T
            maps.append(along_P_P * (count * (known_P / (1 + known_P)).sqrt()))
            if len(maps) < len(groups):
                left_P_P = (along_P_P * (1 + known_P).rsqrt()) @ vectors_P_P
        self.map_P_q = maps[0] if len(maps) == 1 else torch.cat(maps, 1)
        self.ends = [weights * (number + 1) for number in range(len(groups))]
        self.width = 8 * (groups[0].width + 2 * weights + self.map_P_q.shape[1])

    def rows(self, some: Kernel) -> Tensor:
        """√(c/(1 + c)) Vᵀ g of some points."""
        return some.explicit() @ self.map_P_q

    def between(self, some: Kernel, few: Kernel) -> Tensor:
        """Rows times rows."""
        return some.explicit() @ (self.map_P_q @ self.rows(few).T)


def factored(kernel: Kernel) -> Tensor:
    """The lower Cholesky factor of I + S of a few points.

    >>> factored(Kernel(torch.full((1, 1), 3.0**0.5, dtype=torch.float64))).round(decimals=6).item()
    2.0
    """
    similar_M_M = symmetrise_(kernel.between(kernel))
    factor_M_M = factor_one_plus(similar_M_M)
    if factor_M_M is None:  # raises, and says why
        factor_M_M = torch.linalg.cholesky(similar_M_M + torch.eye(len(similar_M_M)).to(similar_M_M))
    return factor_M_M


def triangle(rows: Callable[[slice], Tensor], count: int, width: int, device: torch.device) -> Tensor:
    """R with RᵀR = Σ g gᵀ over `count` rows, [width, width], made of some rows after the other.

    >>> triangle(lambda part: torch.tensor([[3.0], [4.0]])[part], 2, 1, torch.device("cpu")).abs().item()
    5.0
    """
    root = torch.zeros(0, width, dtype=torch.float64, device=device)
    step = max(width, rows_per_chunk(32 * width, device))
    for start in range(0, count, step):
        new_n_P = rows(slice(start, min(start + step, count)))
        root = torch.linalg.qr(torch.cat([root, new_n_P]) if len(root) else new_n_P, mode="r").R
    # Of fewer rows than their width the factor is a wide one.
    return root if len(root) == width else torch.cat([root, root.new_zeros(width - len(root), width)])


def _solved(factor_M_M: Tensor, right_M_n: Tensor, upper: bool = False) -> Tensor:
    """L⁻¹ of a triangular factor, applied."""
    solved_M_n: Tensor = torch.linalg.solve_triangular(factor_M_M, right_M_n, upper=upper)
    return solved_M_n
