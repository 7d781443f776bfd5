"""Beliefs in weight space: a Gaussian over the weights, and how each point's label would inform it.

    W ~ N(w*, H⁻¹),    F[x] = Vᵀ V the Fisher information of a label at x        (`natsel.information.weights.factors`)

FisherFactors holds the last layer of a network, or any generalised linear model, as features and outputs; FisherRows
holds rows of gradients of any network, whole or sketched. Both carry the precision H of the posterior, which pool and
targets must share.
docs/theory/weight-space.md, 2 to 4.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Self, get_args

import torch
from torch import Tensor

from natsel.beliefs.arrays import ArrayLike, as_integers, as_tensor, check_numbers, is_half
from natsel.beliefs.base import Belief, BeliefView, NoView
from natsel.beliefs.class_probabilities import ClassProbabilities
from natsel.ids import IdArray, ids_for
from natsel.information.class_labels import class_labels
from natsel.information.weights.factors import OuterFactors, RowFactors
from natsel.information.weights.output_curvature import Kind
from natsel.information.weights.positive_definite import in_float64, with_ridge
from natsel.information.weights.precision import Dense, Diagonal, Isotropic, LowRank, Precision
from natsel.memory import chunked, require

_FEATURES = ("points", "features")


class FisherBelief(Belief):
    """What both kinds share: factors of the Fisher information of each point, and the precision of the weights."""

    precision: Precision
    warnings: tuple[str, ...]

    @property
    @abstractmethod
    def factors(self) -> OuterFactors | RowFactors:
        """Square roots V of the Fisher information of each point."""

    def given(self, labelled: Belief) -> Self:
        """The belief once labels at other points are known: the precision grows by their Fisher information.

        >>> belief = FisherRows([[[2.0]]])
        >>> belief.given(belief).precision.dense(1).item()
        5.0
        """
        if not isinstance(labelled, type(self)):
            raise ValueError(f"given: expected {type(self).__name__}, found {type(labelled).__name__}")
        few, weights = labelled.to(self.device).factors, self.factors.n_weights
        if few.n_weights != weights:
            raise ValueError(
                f"given: they are about {few.n_weights} weights and the pool about {weights}; believe about both with"
                " one fitted model"
            )
        precision: Precision = self.precision
        rows = len(few) * few.n_rows
        if isinstance(precision, Isotropic) and rows < weights:
            require(
                24 * rows * weights, f"given: three matrices of {rows} × {weights} for what they tell", "pass fewer"
            )
            _, singular_r, vectors_r_P = torch.linalg.svd(few.explicit(slice(None)).flatten(0, 1), full_matrices=False)
            more: Precision = LowRank(vectors_r_P, singular_r.square(), precision.scale)
        else:
            require(
                24 * weights**2,
                f"given: three matrices of {weights} × {weights} for what they tell",
                "use fewer features",
            )
            more = precision.plus(few.fisher())
        other = self._trusted()
        other._set(precision=more)
        return other


@dataclass(frozen=True, eq=False)
class FisherFactors(FisherBelief):
    """The last layer of a model at N points: features (with a constant 1 where it has a bias) and outputs.

    `kind` says what the outputs are: probabilities ("softmax"), roots of the output curvature ("diagonal"), or
    gradients with respect to the outputs under one label ("row"); `categorical`, `bernoulli`, `gaussian` and `poisson`
    make them. `precision` is that of the posterior over all C·D weights: a number λ for λ·I, a matrix, or one of
    `natsel.information.weights.precision`.

    >>> belief = FisherFactors.categorical([[1.0, 0.5]], [[0.2, 0.8]], precision=0.1)
    >>> belief.factors.n_weights, belief.labelled("hard").outputs_N_C.round(decimals=1).tolist()
    (4, [[0.2, -0.2]])
    """

    features_N_D: Tensor
    outputs_N_C: Tensor
    kind: Kind = "softmax"
    precision: Precision = 1.0  # type: ignore[assignment]
    draws_id: str | None = None
    ids: IdArray = None  # type: ignore[assignment]
    warnings: tuple[str, ...] = field(default=(), init=False, repr=False)

    points: ClassVar[tuple[str, ...]] = ("features_N_D", "outputs_N_C")
    draws: ClassVar[tuple[str, ...]] = ("precision",)
    named: ClassVar[tuple[str, ...]] = ("kind",)

    if TYPE_CHECKING:  # what the constructor takes; the fields hold tensors

        def __init__(
            self,
            features_N_D: ArrayLike,
            outputs_N_C: ArrayLike,
            kind: Kind = "softmax",
            precision: ArrayLike | Precision = 1.0,
            draws_id: str | None = None,
            ids: object = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        features_N_D = _table(self.features_N_D, "features_N_D", _FEATURES)
        outputs_N_C = _table(self.outputs_N_C, "outputs_N_C", ("points", "outputs")).to(features_N_D.device)
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind: expected {', '.join(get_args(Kind))}, found {self.kind!r}; choose one of them")
        if len(outputs_N_C) != len(features_N_D):
            raise ValueError(
                f"outputs_N_C: found {len(outputs_N_C)} rows for {len(features_N_D)} points; pass one each, in order"
            )
        if self.kind == "softmax":
            outputs_N_C = _probabilities(outputs_N_C, half=is_half(self.outputs_N_C))
        precision, warnings = _checked_precision(self.precision, features_N_D.device)
        precision.check(outputs_N_C.shape[1], features_N_D.shape[1])
        self._set(
            features_N_D=features_N_D,
            outputs_N_C=outputs_N_C,
            precision=precision,
            warnings=warnings,
            ids=ids_for(self.ids, len(features_N_D)),
        )

    @classmethod
    def categorical(
        cls,
        features_N_D: ArrayLike,
        probs_N_C: ArrayLike,
        precision: ArrayLike | Precision = 1.0,
        draws_id: str | None = None,
        ids: object = None,
    ) -> Self:
        """A softmax over C classes.

        >>> len(FisherFactors.categorical([[1.0]], [[0.5, 0.5]]))
        1
        """
        return cls(features_N_D, probs_N_C, "softmax", precision, draws_id=draws_id, ids=ids)

    @classmethod
    def bernoulli(
        cls,
        features_N_D: ArrayLike,
        probs_N: ArrayLike,
        precision: ArrayLike | Precision = 1.0,
        draws_id: str | None = None,
        ids: object = None,
    ) -> Self:
        """One logit: curvature π(1 − π).

        >>> FisherFactors.bernoulli([[1.0]], [0.5]).outputs_N_C.tolist()
        [[0.5]]
        """
        probs_N = as_tensor(probs_N, "probs_N").double()
        features_N_D = _table(features_N_D, "features_N_D", _FEATURES)
        _check_each(probs_N, "probs_N", len(features_N_D))
        wrong = probs_N[~((probs_N >= 0) & (probs_N <= 1))]
        if len(wrong):
            raise ValueError(
                f"probs_N: expected probabilities from 0 to 1, found {float(wrong[0]):.4g}; apply the sigmoid to logits"
            )
        return cls(
            features_N_D,
            (probs_N * (1 - probs_N)).sqrt()[:, None],
            "diagonal",
            precision,
            draws_id=draws_id,
            ids=ids,
        )

    @classmethod
    def gaussian(
        cls,
        features_N_D: ArrayLike,
        noise: ArrayLike = 1.0,
        outputs: int = 1,
        precision: ArrayLike | Precision = 1.0,
        draws_id: str | None = None,
        ids: object = None,
    ) -> Self:
        """Numbers seen through noise of a variance (one, or one per point): curvature 1/noise.

        >>> FisherFactors.gaussian([[1.0]], noise=4.0).outputs_N_C.tolist()
        [[0.5]]
        """
        features_N_D = _table(features_N_D, "features_N_D", _FEATURES)
        if not isinstance(outputs, int) or isinstance(outputs, bool) or outputs < 1:
            raise ValueError(f"outputs: expected a whole number of at least 1, found {outputs!r}; the default is 1")
        noise_N = as_tensor(noise, "noise").double().to(features_N_D.device)
        if noise_N.ndim > 1 or noise_N.numel() not in (1, len(features_N_D)):
            raise ValueError(
                f"noise: expected one variance or one for each of {len(features_N_D)} points, found shape"
                f" {tuple(noise_N.shape)}; pass as many"
            )
        wrong = noise_N[~((noise_N > 0) & noise_N.isfinite())]
        if len(wrong):
            raise ValueError(
                f"noise: variances must be positive and finite, found {float(wrong[0]):.4g}; add a noise floor"
            )
        roots_N_C = noise_N.rsqrt().reshape(-1, 1).expand(len(features_N_D), outputs)
        return cls(features_N_D, roots_N_C.contiguous(), "diagonal", precision, draws_id=draws_id, ids=ids)

    @classmethod
    def poisson(
        cls,
        features_N_D: ArrayLike,
        rates_N: ArrayLike,
        precision: ArrayLike | Precision = 1.0,
        draws_id: str | None = None,
        ids: object = None,
    ) -> Self:
        """Counts with a log-rate: curvature = rate.

        >>> FisherFactors.poisson([[1.0]], [4.0]).outputs_N_C.tolist()
        [[2.0]]
        """
        rates_N = as_tensor(rates_N, "rates_N").double()
        features_N_D = _table(features_N_D, "features_N_D", _FEATURES)
        _check_each(rates_N, "rates_N", len(features_N_D))
        wrong = rates_N[~((rates_N >= 0) & rates_N.isfinite())]
        if len(wrong):
            raise ValueError(
                f"rates_N: expected rates from 0 on, found {float(wrong[0]):.4g}; apply the exponential to log-rates"
            )
        return cls(features_N_D, rates_N.sqrt()[:, None], "diagonal", precision, draws_id=draws_id, ids=ids)

    @classmethod
    def views(cls) -> tuple[BeliefView, ...]:
        """The class probabilities of a softmax."""

        def probabilities(belief: "FisherFactors") -> Belief:
            if belief.kind != "softmax":
                raise NoView(
                    f"belief: its outputs are {belief.kind} and no class probabilities; make it by"
                    " FisherFactors.categorical"
                )
            return ClassProbabilities.from_probs(belief.outputs_N_C, draws_id=belief.draws_id, ids=belief.ids)

        return (BeliefView(ClassProbabilities, probabilities),)

    @property
    def factors(self) -> OuterFactors:
        """The square roots of the Fisher information, held as features and outputs."""
        return OuterFactors(self.features_N_D, self.outputs_N_C, self.kind)

    def labelled(self, labels: Literal["hard", "sampled"] | ArrayLike, seed: int | torch.Generator = 0) -> Self:
        """One gradient per point, π − e_y: under the likeliest label, one drawn from the prediction, or those given.

        A sampled label makes the Fisher information of one row right on average; a hard one makes it too small.

        >>> FisherFactors.categorical([[1.0]], [[0.2, 0.8]]).labelled([0]).outputs_N_C.tolist()
        [[-0.8, 0.8]]
        """
        other = self._trusted(outputs_N_C=residuals(self.outputs_N_C, self.class_numbers(labels, seed)))
        other._set(kind="row")
        return other

    def class_numbers(self, labels: Literal["hard", "sampled"] | ArrayLike, seed: int | torch.Generator = 0) -> Tensor:
        """The labels that `labelled` would take: the likeliest, one drawn a point, or those given.

        >>> FisherFactors.categorical([[1.0]], [[0.2, 0.8]]).class_numbers("hard").tolist()
        [1]
        """
        if self.kind != "softmax":
            raise ValueError(f"labels: gradients under labels come from probabilities, and this belief is {self.kind}")
        probs_N_C = self.outputs_N_C
        classes = probs_N_C.shape[1]
        if isinstance(labels, str) and labels == "hard":
            return probs_N_C.argmax(1)
        if isinstance(labels, str) and labels == "sampled":
            generator = seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
            return sampled_labels(probs_N_C, generator)
        if isinstance(labels, str):
            raise ValueError(f"labels: expected hard, sampled or one label per point, found {labels!r}")
        return class_labels(as_integers(labels, "labels").to(self.device), len(self), classes)


@dataclass(frozen=True, eq=False)
class FisherRows(FisherBelief):
    """R rows of P weights per point, whose products sum to its Fisher information: gradients of any network, sketched.

    >>> FisherRows([[[1.0, 2.0]]], precision=2.0).factors.traces().tolist()
    [5.0]
    """

    rows_N_R_P: Tensor
    precision: Precision = 1.0  # type: ignore[assignment]
    draws_id: str | None = None
    ids: IdArray = None  # type: ignore[assignment]
    warnings: tuple[str, ...] = field(default=(), init=False, repr=False)

    points: ClassVar[tuple[str, ...]] = ("rows_N_R_P",)
    draws: ClassVar[tuple[str, ...]] = ("precision",)

    if TYPE_CHECKING:  # what the constructor takes; the fields hold tensors

        def __init__(
            self,
            rows_N_R_P: ArrayLike,
            precision: ArrayLike | Precision = 1.0,
            draws_id: str | None = None,
            ids: object = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        rows_N_R_P = _table(self.rows_N_R_P, "rows_N_R_P", ("points", "rows", "weights"))
        precision, warnings = _checked_precision(self.precision, rows_N_R_P.device)
        Precision.check(precision, 1, rows_N_R_P.shape[2])  # only the count: rows may be about any weights
        self._set(
            rows_N_R_P=rows_N_R_P,
            precision=precision,
            warnings=warnings,
            ids=ids_for(self.ids, len(rows_N_R_P)),
        )

    @property
    def factors(self) -> RowFactors:
        """The rows as factors of the Fisher information."""
        return RowFactors(self.rows_N_R_P)


def residuals(probs_n_C: Tensor, labels_n: Tensor) -> Tensor:
    """π − e_y, with −(1 − π_y) as the sum of the others: a sure prediction keeps its digits.

    >>> residuals(torch.tensor([[0.25, 0.75]]), torch.tensor([1])).tolist()
    [[0.25, -0.25]]
    """
    residuals_n_C = probs_n_C.scatter(1, labels_n[:, None], 0.0)
    return residuals_n_C.scatter_(1, labels_n[:, None], -residuals_n_C.sum(1, keepdim=True))


def sampled_labels(probs_N_C: Tensor, generator: torch.Generator) -> Tensor:
    """A label for each point, drawn from its prediction by one number in float64, whatever the device.

    >>> sampled_labels(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.Generator()).tolist()
    [1, 0]
    """
    count, classes = probs_N_C.shape
    drawn_N = torch.rand(count, dtype=torch.float64, generator=generator).to(probs_N_C.device)

    def work(part: slice) -> Tensor:
        probs_n_C = probs_N_C[part]
        below_n = (probs_n_C.double().cumsum(1) <= drawn_N[part, None]).sum(1)
        # Rounding can leave the sum below the number drawn: the last class that is possible is meant.
        possible_n = classes - 1 - (probs_n_C > 0).flip(1).to(torch.int64).argmax(1)
        return torch.minimum(below_n, possible_n)

    return chunked(work, count, 32 * classes, probs_N_C.device)


def _check_each(values_N: Tensor, name: str, count: int) -> None:
    if values_N.shape != (count,):
        raise ValueError(
            f"{name}: expected one number for each of {count} points, found shape {tuple(values_N.shape)}; pass as many"
        )


def _table(values: ArrayLike, name: str, axes: tuple[str, ...]) -> Tensor:
    table = as_tensor(values, name)
    if not table.is_floating_point():
        table = table.double()
    if table.ndim != len(axes) or 0 in table.shape[1:]:
        raise ValueError(
            f"{name}: expected axes ({', '.join(axes)}), found shape {tuple(table.shape)}; reshape it to them"
        )
    check_numbers(table, name)
    return table


def _probabilities(probs_N_C: Tensor, half: bool) -> Tensor:
    """Rows that sum to one; rows that miss it by the rounding of the type they came in are brought there."""
    tolerance = 0.02 if half else 1e-4
    sums_N = probs_N_C.sum(1, dtype=torch.float64)
    off_N = (sums_N - 1).abs()
    wrong_N = ~(off_N <= tolerance) | (probs_N_C < 0).any(1)
    if bool(wrong_N.any()):
        row = int(wrong_N.nonzero()[0])
        least = float(probs_N_C[row].min())
        found = f"{least:.6g}" if least < 0 else f"a sum of {float(sums_N[row]):.6g}"
        raise ValueError(
            f"outputs_N_C: expected probabilities that sum to 1, found {found} in row {row}; apply the softmax to"
            " logits"
        )
    rounding = 1e-12 if probs_N_C.dtype == torch.float64 else 4e-6
    if len(off_N) == 0 or float(off_N.max()) <= rounding:
        return probs_N_C
    return probs_N_C / sums_N[:, None].to(probs_N_C)


def _checked_precision(given: ArrayLike | Precision, device: torch.device) -> tuple[Precision, tuple[str, ...]]:
    """A number, a diagonal or a matrix as a precision; a singular matrix gets a ridge and a sentence about it."""
    if isinstance(given, Precision):
        return given.to(device), ()
    values = in_float64(given).to(device)
    if values.ndim == 0:
        return Isotropic(values), ()
    if values.ndim == 1:
        return Diagonal(values), ()
    matrix_P_P, ridge = with_ridge(values)
    if ridge == 0:
        return Dense(matrix_P_P), ()
    return Dense(matrix_P_P), (
        f"singular precision: the matrix leaves directions of the weights unknown, so a ridge of {ridge:.3g} was added"
        " to its diagonal; scores depend on it, so give a prior precision of your own",
    )
