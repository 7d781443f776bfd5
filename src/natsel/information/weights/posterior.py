"""The posterior precision of the weights from training data: a prior and what the labels told, in a chosen structure.

    full       H = F + λ I                                   F = Σ_t V_tᵀ V_t, P × P
    kronecker  H = (A + √λ I) ⊗ (G + √λ I)                   A ⊗ G = (Σ Λ_t) ⊗ (Σ x_t x_tᵀ) / T, traces made even
    diagonal   H = diag(F) + λ I
    low-rank   H = λ I + Uᵀ diag(s) U                        the r leading directions of F, by the T·R × T·R Gram matrix
    identity   H = λ I                                       nothing learnt: BADGE, LogDet

λ is given, or chosen by the evidence of that structure (for identity by that of the Kronecker form, or the diagonal
where there is none). A posterior that is singular all the same gets a ridge, and a sentence says so.
docs/theory/weight-space.md, 4 and 7.1.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor

from natsel.information.weights.evidence import evidence_precision
from natsel.information.weights.factors import Factors, OuterFactors
from natsel.information.weights.positive_definite import NotPositiveDefinite
from natsel.information.weights.precision import Dense, Diagonal, Isotropic, Kronecker, LowRank, Precision
from natsel.memory import require, rows_per_chunk

Structure = Literal["full", "kronecker", "diagonal", "low-rank", "identity"]

# Of the largest eigenvalue: below it eigenvectors of a Gram matrix are no longer orthonormal in float64.
_ROUNDING = 1e-9
_TRIES = 40


@dataclass(frozen=True, eq=False)
class Posterior:
    """A precision, the prior precision in it, and what had to be done to get there."""

    precision: Precision
    prior: float
    warnings: tuple[str, ...] = field(default=())


def posterior(
    factors: Factors,
    prior_precision: float | Literal["evidence"] = "evidence",
    squared_norm: float = 0.0,
    structure: Structure = "full",
    rank: int | None = None,
) -> Posterior:
    """The precision of the weights given training points; `squared_norm` is ‖w*‖², which only the evidence needs.

    `rank` limits the directions kept by "low-rank" (None: all that data have decided).

    >>> factors = OuterFactors(torch.ones(2, 1), torch.ones(2, 1), "diagonal")
    >>> posterior(factors, 0.5).precision.dense(1).tolist()
    [[2.5]]
    """
    if structure not in get_args(Structure):
        raise ValueError(f"structure: expected {', '.join(get_args(Structure))}, found {structure!r}; choose one")
    checked_prior(prior_precision)
    shape = _SHAPES[structure](factors, rank)
    prior, warnings = prior_precision, []
    if prior == "evidence":
        eigenvalues_r = shape.eigenvalues()
        prior = evidence_precision(eigenvalues_r, squared_norm)
        if squared_norm == 0 or not bool((eigenvalues_r > 0).any()):
            warnings.append(
                f"prior precision: the evidence has no maximum, so {prior:.3g} was taken;"
                " scores depend on it, so give one of your own"
            )
    made, ridge = _positive_definite(shape, float(prior))
    if ridge:
        warnings.append(
            f"singular precision: the training set leaves directions of the weights unknown, so a ridge of {ridge:.3g}"
            " was added; scores depend on it, so give a prior precision of your own"
        )
    return Posterior(made, float(prior), tuple(warnings))


def checked_prior(prior_precision: float | str) -> None:
    """Refuse what is no prior precision.

    >>> checked_prior("evidence")
    """
    if prior_precision == "evidence":
        return
    number = isinstance(prior_precision, int | float) and not isinstance(prior_precision, bool)
    if not number or not 0 <= prior_precision < float("inf"):  # type: ignore[operator]
        raise ValueError(
            f"prior_precision: expected a number from 0 on or 'evidence', found {prior_precision!r}; the inverse"
            " variance of a weight before training is meant"
        )


@dataclass(frozen=True, eq=False)
class _Shape:
    """Training curvature in one structure, a prior away from a precision."""

    with_prior: Callable[[float], Precision]
    eigenvalues: Callable[[], Tensor]
    mean: float  # of the diagonal


def _positive_definite(shape: _Shape, prior: float) -> tuple[Precision, float]:
    """The precision under the prior, and the ridge that had to be added to it."""
    first = 1e-5 * (shape.mean or 1.0)
    for ridge in (0.0, *(first * 2**doubling for doubling in range(_TRIES))):
        try:
            return shape.with_prior(prior + ridge), ridge
        except NotPositiveDefinite:
            continue
    raise NotPositiveDefinite("prior_precision: no ridge makes the precision positive definite; give a larger prior")


def _full(factors: Factors, rank: int | None) -> _Shape:
    count = factors.n_weights
    _check_room("full", count, count)
    fisher_P_P = factors.fisher()

    def eigenvalues() -> Tensor:
        few = len(factors) * factors.n_rows < count
        found: Tensor = torch.linalg.eigvalsh(_gram(factors) if few else fisher_P_P)
        return found

    def with_prior(prior: float) -> Precision:
        matrix_P_P = fisher_P_P.clone()
        matrix_P_P.diagonal().add_(prior)
        return Dense(matrix_P_P)

    return _Shape(with_prior, eigenvalues, float(fisher_P_P.diagonal().mean()))


def _kronecker(factors: Factors, rank: int | None) -> _Shape:
    if not isinstance(factors, OuterFactors):
        raise ValueError("structure: kronecker needs a last layer, found rows of gradients; use full or low-rank")
    left_C_C, right_D_D = _sides(factors)
    size = float(left_C_C.diagonal().mean() * right_D_D.diagonal().mean()) / max(len(factors), 1)
    # Both sides get the same mean diagonal: √λ then weighs as much on the one as on the other.
    left_C_C, right_D_D = (_scaled(side, size**0.5) for side in (left_C_C, right_D_D))

    def with_prior(prior: float) -> Precision:
        return Kronecker(*(_plus(side, prior**0.5) for side in (left_C_C, right_D_D)))

    def eigenvalues() -> Tensor:
        return torch.outer(*(torch.linalg.eigvalsh(side).clamp_min(0) for side in (left_C_C, right_D_D))).flatten()

    return _Shape(with_prior, eigenvalues, size)


def _diagonal(factors: Factors, rank: int | None) -> _Shape:
    diagonal_P = torch.zeros(factors.n_weights, dtype=torch.float64, device=factors.device)
    step = rows_per_chunk(16 * _row_size(factors), factors.device)
    for start in range(0, len(factors), step):
        part = slice(start, start + step)
        if isinstance(factors, OuterFactors):
            curvature_n_C = factors.roots(part).square().sum(1)
            diagonal_P += (curvature_n_C.T @ factors.features_N_D[part].double().square()).flatten()
        else:
            diagonal_P += factors.explicit(part).square().sum((0, 1))
    return _Shape(lambda prior: Diagonal(diagonal_P + prior), lambda: diagonal_P, float(diagonal_P.mean()))


def _low_rank(factors: Factors, rank: int | None) -> _Shape:
    if rank is not None and rank < 1:
        raise ValueError(f"rank: expected a number of directions from 1 on, found {rank}; None keeps all")
    rows, count = len(factors) * factors.n_rows, factors.n_weights
    _check_room("low-rank", min(rows, count), count)
    if rows < count:
        values_r, vectors_rows_r = torch.linalg.eigh(_gram(factors))
        kept = _leading(values_r, rank)
        values_r = values_r[kept]
        vectors_r_P = _combined(factors, vectors_rows_r[:, kept]) / values_r.sqrt()[:, None]
    else:
        values_r, vectors_P_r = torch.linalg.eigh(factors.fisher())
        kept = _leading(values_r, rank)
        values_r, vectors_r_P = values_r[kept], vectors_P_r[:, kept].T.contiguous()
    mean = float(values_r.sum()) / count

    def with_prior(prior: float) -> Precision:
        scale = torch.tensor(prior, dtype=torch.float64, device=factors.device)
        return LowRank(vectors_r_P, values_r, scale) if len(values_r) else Isotropic(scale)

    return _Shape(with_prior, lambda: values_r, mean)


def _identity(factors: Factors, rank: int | None) -> _Shape:
    other = (_kronecker if isinstance(factors, OuterFactors) else _diagonal)(factors, rank)

    def with_prior(prior: float) -> Precision:
        return Isotropic(torch.tensor(prior, dtype=torch.float64, device=factors.device))

    return _Shape(with_prior, other.eigenvalues, other.mean)


_SHAPES: dict[str, Callable[[Factors, int | None], _Shape]] = {
    "full": _full,
    "kronecker": _kronecker,
    "diagonal": _diagonal,
    "low-rank": _low_rank,
    "identity": _identity,
}


def _sides(factors: OuterFactors) -> tuple[Tensor, Tensor]:
    """Σ Λ over outputs and Σ x xᵀ over features."""
    outputs, width = factors.outputs_N_C.shape[1], factors.features_N_D.shape[1]
    left_C_C = torch.zeros(outputs, outputs, dtype=torch.float64, device=factors.device)
    right_D_D = torch.zeros(width, width, dtype=torch.float64, device=factors.device)
    step = rows_per_chunk(16 * _row_size(factors), factors.device)
    for start in range(0, len(factors), step):
        flat_nR_C = factors.roots(slice(start, start + step)).flatten(0, 1)
        features_n_D = factors.features_N_D[start : start + step].double()
        left_C_C += flat_nR_C.T @ flat_nR_C
        right_D_D += features_n_D.T @ features_n_D
    return left_C_C, right_D_D


def _gram(factors: Factors) -> Tensor:
    """V_s V_tᵀ of all training points, [T·R, T·R]: never a row of P where structure says it all."""
    if not isinstance(factors, OuterFactors):
        rows_TR_P = factors.explicit(slice(None)).flatten(0, 1)
        return rows_TR_P @ rows_TR_P.T
    roots_TR_C, features_T_D = factors.roots().flatten(0, 1), factors.features_N_D.double()
    inner_T_T = (
        (features_T_D @ features_T_D.T).repeat_interleave(factors.n_rows, 0).repeat_interleave(factors.n_rows, 1)
    )
    return (roots_TR_C @ roots_TR_C.T) * inner_T_T


def _combined(factors: Factors, shares_TR_r: Tensor) -> Tensor:
    """Σ of rows of V in the given shares, [r, P]."""
    if not isinstance(factors, OuterFactors):
        return shares_TR_r.T @ factors.explicit(slice(None)).flatten(0, 1)
    roots_T_R_C, features_T_D = factors.roots(), factors.features_N_D.double()
    shares_T_R_r = shares_TR_r.view(len(factors), factors.n_rows, -1)
    parts = [  # one output at a time, lest T × r × C be held
        (shares_T_R_r * roots_T_R_C[:, :, c, None]).sum(1).T @ features_T_D for c in range(roots_T_R_C.shape[2])
    ]
    return torch.stack(parts, 1).flatten(1)


def _leading(values_r: Tensor, rank: int | None) -> Tensor:
    """Positions of the largest eigenvalues, those of the size of rounding left out."""
    kept = (values_r > _ROUNDING * values_r.max().clamp_min(torch.finfo(torch.float64).tiny)).nonzero()[:, 0]
    return kept if rank is None else kept[-rank:]


def _scaled(side: Tensor, mean: float) -> Tensor:
    own = float(side.diagonal().mean())
    return side * (mean / own) if own > 0 else side


def _plus(side: Tensor, amount: float) -> Tensor:
    return side + amount * torch.eye(len(side), dtype=torch.float64, device=side.device)


def _row_size(factors: Factors) -> int:
    if isinstance(factors, OuterFactors):
        return 2 * factors.n_rows * factors.outputs_N_C.shape[1] + factors.features_N_D.shape[1]
    return factors.n_rows * factors.n_weights


def _check_room(structure: str, rows: int, weights: int) -> None:
    """Refuse what would not fit into the memory budget as often as it is held at once."""
    require(
        8 * rows * (rows + 4 * weights),
        f"structure: {structure} by matrices of {rows} × {rows} and four of {rows} × {weights}",
        "use kronecker or diagonal, or low-rank with fewer examples",
    )
