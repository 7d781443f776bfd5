"""How sure a Gaussian over P weights is: its precision H, in the form that costs least.

    Isotropic   H = λ I                          Diagonal    H = diag(h)
    Dense       H, through L Lᵀ = H              Kronecker   H = A ⊗ G     A over outputs, G over features
    LowRank     H = λ I + Uᵀ diag(s) U           rows of U orthonormal

Weights of a last layer are numbered class-major, c·D + d, as `torch.nn.Linear.weight` flattens. A matrix that is not
positive definite is refused: scores would be infinite or not numbers (`natsel.information.weights.positive_definite`).
docs/theory/weight-space.md, 2 and 4.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from natsel.information.weights.positive_definite import (
    NEGATIVE,
    SIGN,
    NotPositiveDefinite,
    cholesky,
    in_float64,
    refuse_extreme,
    symmetric,
)
from natsel.memory import require


class Precision(ABC):
    """Base of the forms; all numbers are float64."""

    kind: ClassVar[str]
    parts: ClassVar[tuple[str, ...]]

    @abstractmethod
    def solve(self, rows_r_P: Tensor) -> Tensor:
        """rows · H⁻¹."""

    @abstractmethod
    def white(self, rows_r_P: Tensor) -> Tensor:
        """rows · L⁻ᵀ, for a root L Lᵀ = H of the form's own choice."""

    @abstractmethod
    def coloured(self, rows_r_P: Tensor) -> Tensor:
        """rows · L⁻¹ with the same root: of rows with covariance I the covariance is then H⁻¹."""

    @abstractmethod
    def logdet(self, weights: int) -> float:
        """ln det H of so many weights."""

    @abstractmethod
    def dense(self, weights: int) -> Tensor:
        """H as a matrix: for few weights."""

    def tensors(self) -> dict[str, Tensor]:
        """What the value is made of, by name."""
        return {part: getattr(self, part) for part in self.parts}

    def to(self, device: torch.device | str) -> Self:
        """The same on another device; itself, with what it has worked out, where nothing moves."""
        moved = {part: value.to(device) for part, value in self.tensors().items()}
        if all(value is getattr(self, part) for part, value in moved.items()):
            return self
        return type(self)(**moved)

    def plus(self, fisher_P_P: Tensor) -> "Dense":
        """H and more information, as a matrix."""
        return Dense(self.dense(len(fisher_P_P)) + fisher_P_P)

    def check(self, outputs: int, features: int) -> None:
        """Raise a ValueError unless it is about outputs × features weights."""
        count = getattr(self, "n_weights", None)
        if count is not None and count != outputs * features:
            raise ValueError(
                f"precision: it is about {count} weights, and {outputs} outputs of {features} features have"
                f" {outputs * features}; number weights class-major and count the constant feature"
            )

    def same(self, other: object) -> bool:
        """Whether both are the same numbers in the same form."""
        if self is other:
            return True
        if not isinstance(other, Precision) or self.kind != other.kind:
            return False
        mine, theirs = self.tensors(), other.tensors()
        return all(
            value.shape == theirs[part].shape and torch.allclose(value, theirs[part].to(value.device), rtol=1e-9)
            for part, value in mine.items()
        )


@dataclass(frozen=True, eq=False)
class Isotropic(Precision):
    """λ I: a prior of variance 1/λ a weight, and nothing learnt.

    >>> Isotropic(4.0).solve(torch.ones(1, 2, dtype=torch.float64)).tolist()
    [[0.25, 0.25]]
    """

    scale: Any
    kind: ClassVar[str] = "isotropic"
    parts: ClassVar[tuple[str, ...]] = ("scale",)

    def __post_init__(self) -> None:
        scale = in_float64(self.scale).clone()
        if scale.ndim != 0 or not bool((scale > 0) & scale.isfinite()):
            raise NotPositiveDefinite(
                f"precision: expected a positive number, found {self.scale}; give the prior precision of a weight"
            )
        refuse_extreme(float(scale))
        object.__setattr__(self, "scale", scale)

    def solve(self, rows_r_P: Tensor) -> Tensor:
        solved_r_P: Tensor = rows_r_P / self.scale
        return solved_r_P

    def white(self, rows_r_P: Tensor) -> Tensor:
        white_r_P: Tensor = rows_r_P / self.scale.sqrt()
        return white_r_P

    def coloured(self, rows_r_P: Tensor) -> Tensor:
        return self.white(rows_r_P)

    def logdet(self, weights: int) -> float:
        return weights * float(self.scale.log())

    def dense(self, weights: int) -> Tensor:
        matrix_P_P: Tensor = self.scale * torch.eye(weights, dtype=torch.float64, device=self.scale.device)
        return matrix_P_P


@dataclass(frozen=True, eq=False)
class Diagonal(Precision):
    """One precision a weight.

    >>> Diagonal([1.0, 2.0]).solve(torch.ones(1, 2, dtype=torch.float64)).tolist()
    [[1.0, 0.5]]
    """

    diagonal_P: Any
    kind: ClassVar[str] = "diagonal"
    parts: ClassVar[tuple[str, ...]] = ("diagonal_P",)

    def __post_init__(self) -> None:
        diagonal_P = in_float64(self.diagonal_P).clone()
        if diagonal_P.ndim != 1:
            raise ValueError(
                f"precision: expected one number per weight, found shape {tuple(diagonal_P.shape)}; pass the diagonal"
            )
        wrong_P = ~((diagonal_P > 0) & diagonal_P.isfinite())
        if bool(wrong_P.any()):
            weight = int(wrong_P.nonzero()[0])
            raise NotPositiveDefinite(
                f"precision: expected positive numbers on the diagonal, found {float(diagonal_P[weight]):.4g} for"
                f" weight {weight}; {_remedy(diagonal_P, 'add a prior precision to them')}"
            )
        for size in diagonal_P.aminmax() if len(diagonal_P) else ():
            refuse_extreme(float(size))
        object.__setattr__(self, "diagonal_P", diagonal_P)

    @property
    def n_weights(self) -> int:
        """P."""
        return len(self.diagonal_P)

    def solve(self, rows_r_P: Tensor) -> Tensor:
        solved_r_P: Tensor = rows_r_P / self.diagonal_P
        return solved_r_P

    def white(self, rows_r_P: Tensor) -> Tensor:
        white_r_P: Tensor = rows_r_P / self.diagonal_P.sqrt()
        return white_r_P

    def coloured(self, rows_r_P: Tensor) -> Tensor:
        return self.white(rows_r_P)

    def logdet(self, weights: int) -> float:
        return float(self.diagonal_P.log().sum())

    def dense(self, weights: int) -> Tensor:
        matrix_P_P: Tensor = self.diagonal_P.diag()
        return matrix_P_P


@dataclass(frozen=True, eq=False)
class Dense(Precision):
    """A whole matrix, factorised once.

    >>> Dense([[4.0, 0.0], [0.0, 16.0]]).solve(torch.ones(1, 2, dtype=torch.float64)).tolist()
    [[0.25, 0.0625]]
    """

    matrix_P_P: Any
    kind: ClassVar[str] = "dense"
    parts: ClassVar[tuple[str, ...]] = ("matrix_P_P",)

    def __post_init__(self) -> None:
        matrix_P_P = symmetric(self.matrix_P_P)
        object.__setattr__(self, "matrix_P_P", matrix_P_P)
        object.__setattr__(self, "factor_P_P", cholesky(matrix_P_P))

    @property
    def n_weights(self) -> int:
        """P."""
        return len(self.matrix_P_P)

    @cached_property
    def inverse_P_P(self) -> Tensor:
        """H⁻¹."""
        require(
            8 * self.n_weights**2,
            f"precision: the inverse of a matrix of {self.n_weights} × {self.n_weights}",
            "use a Kronecker, low-rank or diagonal precision",
        )
        return torch.cholesky_inverse(self.factor_P_P)  # type: ignore[attr-defined]

    def solve(self, rows_r_P: Tensor) -> Tensor:
        # Not torch.cholesky_solve: it copies the factor at every call.
        return self.coloured(self.white(rows_r_P))

    def white(self, rows_r_P: Tensor) -> Tensor:
        return _white(self.factor_P_P, rows_r_P)  # type: ignore[attr-defined]

    def coloured(self, rows_r_P: Tensor) -> Tensor:
        return _coloured(self.factor_P_P, rows_r_P)  # type: ignore[attr-defined]

    def logdet(self, weights: int) -> float:
        return 2 * float(self.factor_P_P.diagonal().log().sum())  # type: ignore[attr-defined]

    def dense(self, weights: int) -> Tensor:
        matrix_P_P: Tensor = self.matrix_P_P
        return matrix_P_P


@dataclass(frozen=True, eq=False)
class Kronecker(Precision):
    """A ⊗ G: how outputs and features are known apart from each other.

    >>> Kronecker([[4.0]], [[1.0, 0.0], [0.0, 4.0]]).solve(torch.ones(1, 2, dtype=torch.float64)).tolist()
    [[0.25, 0.0625]]
    """

    left_C_C: Any
    right_D_D: Any
    kind: ClassVar[str] = "kronecker"
    parts: ClassVar[tuple[str, ...]] = ("left_C_C", "right_D_D")

    def __post_init__(self) -> None:
        for part in self.parts:
            matrix = symmetric(getattr(self, part))
            object.__setattr__(self, part, matrix)
            object.__setattr__(self, f"_{part}", cholesky(matrix))

    @property
    def n_weights(self) -> int:
        """P."""
        return len(self.left_C_C) * len(self.right_D_D)

    @cached_property
    def left_inverse_C_C(self) -> Tensor:
        """A⁻¹."""
        return torch.cholesky_inverse(self._left_C_C)  # type: ignore[attr-defined]

    @cached_property
    def right_inverse_D_D(self) -> Tensor:
        """G⁻¹."""
        return torch.cholesky_inverse(self._right_D_D)  # type: ignore[attr-defined]

    def solve(self, rows_r_P: Tensor) -> Tensor:
        rows_r_C_D = rows_r_P.reshape(-1, len(self.left_C_C), len(self.right_D_D))
        return (self.left_inverse_C_C @ rows_r_C_D @ self.right_inverse_D_D).reshape(rows_r_P.shape)

    def white(self, rows_r_P: Tensor) -> Tensor:
        return self._along(_white, rows_r_P)

    def coloured(self, rows_r_P: Tensor) -> Tensor:
        return self._along(_coloured, rows_r_P)

    def _along(self, root: Callable[[Tensor, Tensor], Tensor], rows_r_P: Tensor) -> Tensor:
        rows_r_C_D = rows_r_P.reshape(-1, len(self.left_C_C), len(self.right_D_D))
        along_r_D_C = root(self._left_C_C, rows_r_C_D.mT)  # type: ignore[attr-defined]
        return root(self._right_D_D, along_r_D_C.mT).reshape(rows_r_P.shape)  # type: ignore[attr-defined]

    def logdet(self, weights: int) -> float:
        left, right = (2 * float(getattr(self, f"_{part}").diagonal().log().sum()) for part in self.parts)
        return left * len(self.right_D_D) + right * len(self.left_C_C)

    def dense(self, weights: int) -> Tensor:
        return torch.kron(self.left_C_C, self.right_D_D)

    def check(self, outputs: int, features: int) -> None:
        if (len(self.left_C_C), len(self.right_D_D)) != (outputs, features):
            found = f"{len(self.left_C_C)} × {len(self.right_D_D)}"
            raise ValueError(
                f"precision: it is about {found} weights, and there are {outputs} outputs of {features} features;"
                " put the outputs' matrix first and count the constant feature"
            )


@dataclass(frozen=True, eq=False)
class LowRank(Precision):
    """λ I + Uᵀ diag(s) U: a few directions are known better.

    >>> LowRank([[1.0, 0.0]], [3.0], 1.0).solve(torch.ones(1, 2, dtype=torch.float64)).tolist()
    [[0.25, 1.0]]
    """

    vectors_r_P: Any
    values_r: Any
    scale: Any
    kind: ClassVar[str] = "low-rank"
    parts: ClassVar[tuple[str, ...]] = ("vectors_r_P", "values_r", "scale")

    def __post_init__(self) -> None:
        vectors_r_P, values_r, scale = (in_float64(getattr(self, part)).clone() for part in self.parts)
        if vectors_r_P.ndim != 2 or values_r.shape != vectors_r_P.shape[:1]:
            raise ValueError(
                f"precision: expected a value for each of the vectors, found shapes {tuple(values_r.shape)} and"
                f" {tuple(vectors_r_P.shape)}; pass eigenvectors as rows with their eigenvalues"
            )
        apart = vectors_r_P @ vectors_r_P.T - torch.eye(len(values_r), dtype=torch.float64, device=values_r.device)
        if not bool((apart.abs() < 1e-6).all()):
            raise ValueError("precision: the vectors are not orthonormal; pass eigenvectors as rows")
        if not bool(((values_r + scale > 0) & values_r.isfinite()).all() & (scale > 0) & scale.isfinite()):
            least = float(values_r.min()) if len(values_r) else 0.0
            raise NotPositiveDefinite(
                "precision: expected a positive scale and values above its negative, found"
                f" scale {float(scale):.4g} and values from {least:.4g} on; {_remedy(values_r, 'raise the scale')}"
            )
        for size in (scale, *(values_r + scale).aminmax()) if len(values_r) else (scale,):
            refuse_extreme(float(size))
        for part, value in zip(self.parts, (vectors_r_P, values_r, scale), strict=True):
            object.__setattr__(self, part, value)

    @property
    def n_weights(self) -> int:
        """P."""
        return int(self.vectors_r_P.shape[1])

    @property
    def shares_r(self) -> Tensor:
        """s/(s + λ): the part of the prior variance that is gone along each vector."""
        shares_r: Tensor = self.values_r / (self.values_r + self.scale)
        return shares_r

    def solve(self, rows_r_P: Tensor) -> Tensor:
        along = rows_r_P @ self.vectors_r_P.T * self.shares_r
        found: Tensor = (rows_r_P - along @ self.vectors_r_P) / self.scale
        return found

    def white(self, rows_r_P: Tensor) -> Tensor:
        shrunk_r = (self.values_r / self.scale + 1).rsqrt() - 1
        along_r_r = rows_r_P @ self.vectors_r_P.T * shrunk_r
        found: Tensor = (rows_r_P + along_r_r @ self.vectors_r_P) / self.scale.sqrt()
        return found

    def coloured(self, rows_r_P: Tensor) -> Tensor:
        return self.white(rows_r_P)

    def logdet(self, weights: int) -> float:
        return weights * float(self.scale.log()) + float((self.values_r / self.scale).log1p().sum())

    def dense(self, weights: int) -> Tensor:
        learnt_P_P: Tensor = self.vectors_r_P.T @ (self.values_r[:, None] * self.vectors_r_P)
        prior_P_P: Tensor = self.scale * torch.eye(weights, dtype=torch.float64, device=self.scale.device)
        return learnt_P_P + prior_P_P


def _white(factor: Tensor, rows: Tensor) -> Tensor:
    """Rows · L⁻ᵀ; as one matrix, since a batch of them would be met by a batch of copies of L."""
    found: Tensor = torch.linalg.solve_triangular(factor.mT, rows.reshape(-1, len(factor)), upper=True, left=False)
    return found.reshape(rows.shape)


def _coloured(factor: Tensor, rows: Tensor) -> Tensor:
    """Rows · L⁻¹."""
    found: Tensor = torch.linalg.solve_triangular(factor, rows.reshape(-1, len(factor)), upper=False, left=False)
    return found.reshape(rows.shape)


def _remedy(values: Tensor, otherwise: str) -> str:
    """What to do about a precision that is not positive, by whether its eigenvalues are clearly negative."""
    return SIGN if bool((values < -NEGATIVE * values.abs().max()).any()) else otherwise


FORMS: dict[str, type[Precision]] = {form.kind: form for form in (Isotropic, Diagonal, Dense, Kronecker, LowRank)}
