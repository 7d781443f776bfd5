"""Square roots of Fisher information: V_n with V_nᵀ V_n = F[x_n], never held where structure says it all.

    last layer   V = A ⊗ xᵀ        x: features [D] (with a constant 1),  A: root of the output curvature [R × C]
        softmax   A = diag(√π) (I − 1 πᵀ)       R = C                 AᵀA = diag(π) − π πᵀ
        diagonal  A = diag(a)                   R = C                 Gaussian 1/σ, Bernoulli √(π(1−π)), Poisson √rate
        row       A = (π − e_y)ᵀ                R = 1                 the gradient under one label
    any network  V: [R × P] as given (gradients, sketches)

All of weight space is made of the R × R blocks K_ij = V_i H⁻¹ V_jᵀ.
docs/theory/weight-space.md, 4.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from natsel.information.weights.output_curvature import Kind, root, sandwich, squared_lengths
from natsel.information.weights.precision import Dense, Diagonal, Isotropic, Kronecker, LowRank, Precision
from natsel.memory import chunked, rows_per_chunk


@dataclass(frozen=True, eq=False)
class OuterFactors:
    """Factors A ⊗ xᵀ of a last layer; `outputs_N_C` holds π, a or π − e_y as `kind` says.

    >>> factors = OuterFactors(torch.ones(1, 2), torch.tensor([[0.5, 0.5]]), "softmax")
    >>> factors.n_rows, factors.n_weights, factors.own(Isotropic(1.0)).round(decimals=4).tolist()
    (2, 4, [[[0.5, -0.5], [-0.5, 0.5]]])
    """

    features_N_D: Tensor
    outputs_N_C: Tensor
    kind: Kind
    scales_N: Tensor | None = None
    """A number that each factor is multiplied with."""

    def __len__(self) -> int:
        return len(self.features_N_D)

    def __getitem__(self, positions: Any) -> Self:
        scales_n = None if self.scales_N is None else self.scales_N[positions]
        return type(self)(self.features_N_D[positions], self.outputs_N_C[positions], self.kind, scales_n)

    @property
    def device(self) -> torch.device:
        """Where the numbers lie."""
        return self.features_N_D.device

    @property
    def n_rows(self) -> int:
        """R, the rows of a factor."""
        return 1 if self.kind == "row" else self.outputs_N_C.shape[1]

    @property
    def n_weights(self) -> int:
        """P = C·D."""
        return self.outputs_N_C.shape[1] * self.features_N_D.shape[1]

    @property
    def n_numbers(self) -> int:
        """C + D: how many numbers say what a factor is."""
        return self.outputs_N_C.shape[1] + self.features_N_D.shape[1]

    def roots(self, part: Any = slice(None)) -> Tensor:
        """A of some points, [n, R, C] in float64."""
        return root(self.outputs_N_C[part].double(), self.kind)

    def features(self, part: Any = slice(None)) -> Tensor:
        """x of some points, scaled, [n, D] in float64."""
        features_n_D = self.features_N_D[part].double()
        return features_n_D if self.scales_N is None else features_n_D * self.scales_N[part, None]

    def explicit(self, positions: Any) -> Tensor:
        """V of a few points, [n, R, P]."""
        roots_n_R_C, features_n_D = self.roots(positions), self.features(positions)
        return (roots_n_R_C[..., None] * features_n_D[:, None, None]).flatten(2)

    def apply(self, weights_r_P: Tensor) -> Tensor:
        """V_n wᵀ of a few vectors of weights, [N, R, r]."""
        count, outputs = len(weights_r_P), self.outputs_N_C.shape[1]
        vectors_D_rC = weights_r_P.reshape(count * outputs, self.features_N_D.shape[1]).T

        def work(part: slice) -> Tensor:
            features_n_D = self.features(part)
            along_n_r_C = (features_n_D @ vectors_D_rC).view(len(features_n_D), count, outputs)
            return self._rooted(part, along_n_r_C)

        return self._chunked(work, 24 * count * outputs)

    def quadratic(self, matrix_P_P: Tensor) -> Tensor:
        """V_n M V_nᵀ of a symmetric matrix, [N, R, R]: outputs c ≤ e by one product of D × D each."""
        outputs, width = self.outputs_N_C.shape[1], self.features_N_D.shape[1]
        matrix_C_D_C_D = matrix_P_P.reshape(outputs, width, outputs, width)

        def work(part: slice) -> Tensor:
            features_n_D = self.features(part)
            inner_n_C_C = features_n_D.new_empty(len(features_n_D), outputs, outputs)
            for c in range(outputs):
                wide_n_e_D = (features_n_D @ matrix_C_D_C_D[c, :, c:].flatten(1)).view(len(features_n_D), -1, width)
                found_n_e = (wide_n_e_D @ features_n_D[..., None])[..., 0]
                inner_n_C_C[:, c, c:] = found_n_e
                inner_n_C_C[:, c:, c] = found_n_e
            return sandwich(self.roots(part), inner_n_C_C)

        return self._chunked(work, 16 * outputs * (width + 3 * outputs))

    def fisher(self, weights_N: Tensor | None = None) -> Tensor:
        """Σ_n w_n F[x_n], [P, P]: for each pair of outputs Xᵀ diag(w Λ_ce) X."""
        outputs, width = self.outputs_N_C.shape[1], self.features_N_D.shape[1]
        total_P_P = torch.zeros(outputs * width, outputs * width, dtype=torch.float64, device=self.device)
        step = rows_per_chunk(16 * width * (outputs + 2) + 48 * self.n_rows * outputs, self.device)
        for start in range(0, len(self), step):
            part = slice(start, start + step)
            features_n_D = self.features(part)
            roots_n_R_C = self.roots(part)
            weighted_n_R_C = roots_n_R_C if weights_N is None else roots_n_R_C * weights_N[part, None, None]
            curvature_n_C_C = weighted_n_R_C.mT @ roots_n_R_C
            for c in range(outputs):
                wide_n_eD = (curvature_n_C_C[:, c, c:, None] * features_n_D[:, None]).flatten(1)
                total_P_P[c * width : (c + 1) * width, c * width :].addmm_(features_n_D.T, wide_n_eD)
        for c in range(1, outputs):
            below = slice(c * width, (c + 1) * width)
            total_P_P[below, : c * width] = total_P_P[: c * width, below].T
        return total_P_P

    def own(self, precision: Precision) -> Tensor:
        """K_nn = V_n H⁻¹ V_nᵀ, [N, R, R]."""
        match precision:
            case Isotropic():
                scale: Tensor = precision.scale
                return self._own(lambda features_n_D: features_n_D.square().sum(1) / scale, None)
            case Kronecker():
                right_D_D = precision.right_inverse_D_D
                return self._own(
                    lambda features_n_D: (features_n_D @ right_D_D * features_n_D).sum(1), precision.left_inverse_C_C
                )
            case Diagonal():
                variance_D_C: Tensor = (1 / precision.diagonal_P).view(self.outputs_N_C.shape[1], -1).T

                def work(part: slice) -> Tensor:
                    roots_n_R_C = self.roots(part)
                    spread_n_C = self.features(part).square() @ variance_D_C
                    return (roots_n_R_C * spread_n_C[:, None]) @ roots_n_R_C.mT

                return self._chunked(work, 32 * self.n_rows * self.outputs_N_C.shape[1])
            case LowRank():
                prior, vectors_r_P = Isotropic(precision.scale), precision.vectors_r_P

                def left(part: slice) -> Tensor:
                    some = self[part]
                    along_n_R_r = some.apply(vectors_r_P)
                    known_n_R_R = (along_n_R_r * precision.shares_r) @ along_n_R_r.mT
                    spread_n_R_R: Tensor = some.own(prior) - known_n_R_R / precision.scale
                    return spread_n_R_R

                return self._chunked(left, 32 * self.n_rows * (len(vectors_r_P) + self.outputs_N_C.shape[1]))
            case Dense():
                return self.quadratic(precision.inverse_P_P)
        raise TypeError(f"precision: no way to read {type(precision).__name__}")

    def cross(self, few: "OuterFactors", precision: Precision) -> Tensor:
        """V_n H⁻¹ V_bᵀ with a few other points, [N, m, R, R']."""
        if isinstance(precision, Isotropic | Kronecker):
            roots_m_R_C, features_m_D = few.roots(), few.features()
            if isinstance(precision, Kronecker):
                roots_m_R_C = roots_m_R_C @ precision.left_inverse_C_C
                features_m_D = features_m_D @ precision.right_inverse_D_D
            else:
                features_m_D = features_m_D / precision.scale
            flat_mR_C, rows = roots_m_R_C.flatten(0, 1), roots_m_R_C.shape[1]

            def work(part: slice) -> Tensor:
                inner_n_m = self.features(part) @ features_m_D.T
                outer_n_R_mR = self._rooted(part, flat_mR_C.expand(len(inner_n_m), -1, -1))
                blocks_n_m_R_R = outer_n_R_mR.reshape(len(inner_n_m), self.n_rows, -1, rows).permute(0, 2, 1, 3)
                return blocks_n_m_R_R * inner_n_m[..., None, None]

            return self._chunked(work, 24 * len(flat_mR_C) * (self.n_rows + self.outputs_N_C.shape[1]))
        return _crossed_by_rows(self, few, precision)

    def traces(self) -> Tensor:
        """tr F[x_n] = ‖V_n‖², N values."""
        return self._chunked(
            lambda part: (
                squared_lengths(self.outputs_N_C[part].double(), self.kind) * self.features(part).square().sum(1)
            ),
            16 * (self.features_N_D.shape[1] + self.outputs_N_C.shape[1]),
        )

    def _own(self, inner: Callable[[Tensor], Tensor], left_C_C: Tensor | None) -> Tensor:
        def work(part: slice) -> Tensor:
            roots_n_R_C = self.roots(part)
            outer_n_R_R = roots_n_R_C @ roots_n_R_C.mT if left_C_C is None else sandwich(roots_n_R_C, left_C_C)
            return outer_n_R_R * inner(self.features(part))[:, None, None]

        return self._chunked(work, 32 * self.n_rows * self.outputs_N_C.shape[1] + 16 * self.features_N_D.shape[1])

    def _rooted(self, part: slice, along_n_r_C: Tensor) -> Tensor:
        """A_n applied to r vectors over outputs, [n, R, r], without making A_n."""
        outputs_n_1_C = self.outputs_N_C[part].double()[:, None]
        if self.kind == "row":
            return (along_n_r_C * outputs_n_1_C).sum(2)[:, None]
        if self.kind == "diagonal":
            return (along_n_r_C * outputs_n_1_C).mT
        mean_n_r_1 = (along_n_r_C * outputs_n_1_C).sum(2, keepdim=True)
        return ((along_n_r_C - mean_n_r_1) * outputs_n_1_C.sqrt()).mT

    def _chunked(self, work: Callable[[slice], Tensor], bytes_each: int) -> Tensor:
        return chunked(work, len(self), bytes_each + 8 * self.features_N_D.shape[1], self.device)


@dataclass(frozen=True, eq=False)
class RowFactors:
    """Factors given row by row: gradients or Jacobians of any network, whole or sketched.

    >>> RowFactors(torch.ones(1, 1, 3)).own(Isotropic(2.0)).tolist()
    [[[1.5]]]
    """

    rows_N_R_P: Tensor
    scales_N: Tensor | None = None
    """A number that each factor is multiplied with."""

    def __len__(self) -> int:
        return len(self.rows_N_R_P)

    def __getitem__(self, positions: Any) -> Self:
        return type(self)(self.rows_N_R_P[positions], None if self.scales_N is None else self.scales_N[positions])

    @property
    def device(self) -> torch.device:
        """Where the numbers lie."""
        return self.rows_N_R_P.device

    @property
    def n_rows(self) -> int:
        """R, the rows of a factor."""
        return self.rows_N_R_P.shape[1]

    @property
    def n_weights(self) -> int:
        """P."""
        return self.rows_N_R_P.shape[2]

    @property
    def n_numbers(self) -> int:
        """R·P: how many numbers say what a factor is."""
        return self.n_rows * self.n_weights

    def explicit(self, positions: Any) -> Tensor:
        """V of some points, [n, R, P] in float64."""
        rows_n_R_P = self.rows_N_R_P[positions].double()
        return rows_n_R_P if self.scales_N is None else rows_n_R_P * self.scales_N[positions, None, None]

    def apply(self, weights_r_P: Tensor) -> Tensor:
        """V_n wᵀ of a few vectors of weights, [N, R, r]."""
        return self._chunked(lambda part: self.explicit(part) @ weights_r_P.T, 8 * self.n_rows * len(weights_r_P))

    def quadratic(self, matrix_P_P: Tensor) -> Tensor:
        """V_n M V_nᵀ of a symmetric matrix, [N, R, R]."""
        return self._chunked(lambda part: sandwich(self.explicit(part), matrix_P_P), 8 * self.n_rows * self.n_weights)

    def fisher(self, weights_N: Tensor | None = None) -> Tensor:
        """Σ_n w_n V_nᵀ V_n, [P, P]."""
        total_P_P = torch.zeros(self.n_weights, self.n_weights, dtype=torch.float64, device=self.device)
        step = rows_per_chunk(24 * self.n_rows * self.n_weights, self.device)
        for start in range(0, len(self), step):
            rows_n_R_P = self.explicit(slice(start, start + step))
            weighted = rows_n_R_P if weights_N is None else rows_n_R_P * weights_N[start : start + step, None, None]
            total_P_P.addmm_(weighted.flatten(0, 1).T, rows_n_R_P.flatten(0, 1))
        return total_P_P

    def own(self, precision: Precision) -> Tensor:
        """K_nn = V_n H⁻¹ V_nᵀ, [N, R, R]."""

        def work(part: slice) -> Tensor:
            rows_n_R_P = self.explicit(part)
            solved_n_R_P = precision.solve(rows_n_R_P.flatten(0, 1)).view(rows_n_R_P.shape)
            blocks_n_R_R = solved_n_R_P @ rows_n_R_P.mT
            return (blocks_n_R_R + blocks_n_R_R.mT) / 2

        return self._chunked(work, 16 * self.n_rows * self.n_weights)

    def cross(self, few: "RowFactors", precision: Precision) -> Tensor:
        """V_n H⁻¹ V_bᵀ with a few other points, [N, m, R, R']."""
        return _crossed_by_rows(self, few, precision)

    def traces(self) -> Tensor:
        """tr F[x_n] = ‖V_n‖², N values."""
        return self._chunked(lambda part: self.explicit(part).square().sum((1, 2)), 8 * self.n_rows * self.n_weights)

    def _chunked(self, work: Callable[[slice], Tensor], bytes_each: int) -> Tensor:
        return chunked(work, len(self), bytes_each + 8 * self.n_rows * self.n_weights, self.device)


Factors = OuterFactors | RowFactors


def _crossed_by_rows(factors: Factors, few: Factors, precision: Precision) -> Tensor:
    """V_n H⁻¹ V_bᵀ as [N, m, R, R'], by rows of weights, of as many of the few at a time as keep to the budget."""
    count = len(few)
    step = rows_per_chunk(24 * few.n_rows * few.n_weights, factors.device)

    def some(part: slice) -> Tensor:
        solved_mR_P = precision.solve(few.explicit(part).flatten(0, 1))
        return factors.apply(solved_mR_P).view(len(factors), factors.n_rows, -1, few.n_rows)

    if count <= step:
        return some(slice(0, count)).permute(0, 2, 1, 3)
    found_N_R_m_R = torch.empty(
        len(factors), factors.n_rows, count, few.n_rows, dtype=torch.float64, device=factors.device
    )
    for start in range(0, count, step):
        part = slice(start, min(start + step, count))
        found_N_R_m_R[:, :, part] = some(part)
    return found_N_R_m_R.permute(0, 2, 1, 3)
