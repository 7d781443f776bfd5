"""Draws of categorical predictions: log p(y=c | x_n, ω_k), the same K parameter draws for every point.

    p(y | x) = Σ_k w_k p(y | x, ω_k);    labels are independent given ω, so the draws carry all joint predictions

Every joint objective relies on draw k being one and the same parameter vector at every point.
docs/theory/information-quantities.md, 1 (conventions) and 14 (the model behind the draws).
"""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self

import torch
from torch import Tensor

from natsel.beliefs.arrays import ArrayLike, Labels, as_indices, as_integers, as_tensor, is_half
from natsel.beliefs.base import Belief, BeliefView
from natsel.beliefs.draws import Learnt, Weighted, checked_log_weights, summed
from natsel.ids import IdArray, ids_for
from natsel.information.class_labels import class_labels
from natsel.information.mutual import log_mean
from natsel.memory import chunked, require

if TYPE_CHECKING:
    from natsel.beliefs.class_probabilities import ClassProbabilities
    from natsel.beliefs.fisher import FisherRows


@dataclass(frozen=True, eq=False)
class CategoricalSamples(Weighted, Belief):
    """What K draws of a classifier say about N points.

    `log_probs_N_K_C` are log probabilities, each row summing to one; `log_weights_K` the log weights of the draws
    (None: equal); `draws_id` names the parameters the draws belong to, so that beliefs about pool and targets are only
    combined when they share them; `ids` are the user's ids of the points (None: 0..N−1). Half precision is read as
    float32 and rows that are off by rounding are normalised, both in a copy.

    >>> belief = CategoricalSamples.from_probs([[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]])
    >>> len(belief), belief[1:].ids.tolist()
    (2, [1])
    """

    log_probs_N_K_C: Tensor
    log_weights_K: Tensor = None  # type: ignore[assignment]
    draws_id: str | None = None
    ids: IdArray = None  # type: ignore[assignment]
    learnt: Learnt | None = field(default=None, init=False, repr=False)

    label_type: ClassVar[type[int]] = int
    points: ClassVar[tuple[str, ...]] = ("log_probs_N_K_C",)
    draws: ClassVar[tuple[str, ...]] = ("log_weights_K",)

    if TYPE_CHECKING:  # what the constructor takes; the fields hold tensors

        def __init__(
            self,
            log_probs_N_K_C: ArrayLike,
            log_weights_K: ArrayLike | None = None,
            draws_id: str | None = None,
            ids: object = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        log_probs_N_K_C = as_tensor(self.log_probs_N_K_C, "log_probs_N_K_C")
        _check_shape(log_probs_N_K_C, "log_probs_N_K_C")
        device = log_probs_N_K_C.device
        self._set(
            log_probs_N_K_C=normalised(log_probs_N_K_C, is_half(self.log_probs_N_K_C), "log_probs_N_K_C"),
            log_weights_K=checked_log_weights(self.log_weights_K, log_probs_N_K_C.shape[1], device),
            ids=ids_for(self.ids, log_probs_N_K_C.shape[0]),
        )

    @classmethod
    def from_logits(
        cls,
        logits_N_K_C: ArrayLike,
        log_weights_K: ArrayLike | None = None,
        draws_id: str | None = None,
        ids: object = None,
    ) -> Self:
        """From unnormalised scores: a log-softmax over classes is taken.

        >>> CategoricalSamples.from_logits([[[0.0, 0.0]]]).log_probs_N_K_C.exp().tolist()
        [[[0.5, 0.5]]]
        """
        logits = as_tensor(logits_N_K_C, "logits_N_K_C")
        _check_shape(logits, "logits_N_K_C")
        if bool(logits.isnan().any() | (logits == math.inf).any()):
            raise ValueError("logits_N_K_C: found NaN or +inf; check the model's output before scoring")
        return cls._own(logits.log_softmax(-1), log_weights_K, draws_id=draws_id, ids=ids)

    @classmethod
    def from_probs(
        cls,
        probs_N_K_C: ArrayLike,
        log_weights_K: ArrayLike | None = None,
        draws_id: str | None = None,
        ids: object = None,
    ) -> Self:
        """From probabilities.

        >>> CategoricalSamples.from_probs([[[1.0, 0.0]]]).log_probs_N_K_C.tolist()
        [[[0.0, -inf]]]
        """
        probs = as_tensor(probs_N_K_C, "probs_N_K_C")
        _check_shape(probs, "probs_N_K_C")
        if bool((probs < 0).any()):
            raise ValueError(
                f"probs_N_K_C: probabilities cannot be negative (smallest {float(probs.min()):.4g});"
                " pass log probabilities to CategoricalSamples or logits to from_logits"
            )
        return cls._own(
            normalised(probs.log(), is_half(probs_N_K_C), "probs_N_K_C"), log_weights_K, draws_id=draws_id, ids=ids
        )

    @classmethod
    def views(cls) -> tuple[BeliefView, ...]:
        """The mean prediction, and a Gaussian over the weights of the draws."""
        from natsel.beliefs.class_probabilities import ClassProbabilities
        from natsel.beliefs.fisher import FisherRows

        return (
            BeliefView(ClassProbabilities, cls.mean_prediction),
            BeliefView(
                FisherRows,
                cls.second_order,
                "second order: the draws were read as a Gaussian over predictions, which is right where they differ"
                " little",
            ),
        )

    def mean_prediction(self) -> "ClassProbabilities":
        """p(y|x), the mean over the draws.

        >>> CategoricalSamples.from_probs([[[1.0, 0.0], [0.5, 0.5]]]).mean_prediction().log_probs_N_C.exp().tolist()
        [[0.75, 0.25]]
        """
        from natsel.beliefs.class_probabilities import ClassProbabilities

        found = object.__new__(ClassProbabilities)  # a mean of what was checked needs no second check
        found._set(
            log_probs_N_C=log_mean(self.log_probs_N_K_C, self.log_weights_K), draws_id=self.draws_id, ids=self.ids
        )
        return found

    def second_order(self) -> "FisherRows":
        """A Gaussian over predictions with the covariance of the draws, in weight space.

            p(y|x,a) = p̄ + Σ_k a_k √w_k (p_k − p̄),  a ~ N(0, I)        V_nck = √w_k (p_nkc − p̄_nc) / √p̄_nc

        Rows c of V are the square root of the Fisher information of a label about a. ½ tr VVᵀ is the mutual information
        of label and draw to second order in how far draws differ, ½ χ²; no row is infinite, since a class without
        probability has none in any draw.  docs/theory/weight-space.md, 8.

        >>> belief = CategoricalSamples.from_probs([[[1.0, 0.0], [0.5, 0.5]]]).second_order()
        >>> belief.factors.traces().round(decimals=6).tolist()
        [0.333333]
        """
        from natsel.beliefs.fisher import FisherRows

        weights_K = self.log_weights_K.exp()
        count, draws, classes = self.shape

        def work(part: slice) -> Tensor:
            probs_n_K_C = self.log_probs_N_K_C[part].double().exp()
            mean_n_C = torch.einsum("nkc,k->nc", probs_n_K_C, weights_K)
            apart_n_K_C = (probs_n_K_C - mean_n_C[:, None]) * weights_K.sqrt()[:, None]
            return torch.where(mean_n_C[:, None] > 0, apart_n_K_C / mean_n_C.sqrt()[:, None], 0.0).mT

        require(
            8 * count * draws * classes, f"belief: {count} × {classes} × {draws} numbers in weight space", "slice it"
        )
        rows_N_C_K = chunked(work, count, 32 * draws * classes, self.device)
        return FisherRows._own(rows_N_C_K, draws_id=self.draws_id, ids=self.ids)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(N points, K draws, C classes)."""
        count, draws, classes = self.log_probs_N_K_C.shape
        return count, draws, classes

    def checked_labels(self, labels: ArrayLike, name: str) -> Tensor:
        """Class numbers of the points."""
        return class_labels(as_integers(labels, name).to(self.device), len(self), self.shape[2], name)

    def condition(self, points: ArrayLike, labels: Labels) -> Self:
        """The belief after seeing labels at some of its points: online Bayesian inference by re-weighting the draws.

            w_k' ∝ w_k Π_i p(y_i | x_i, ω_k)

        `log_evidence` of the new belief is ln q of all labels so far. Give labels that the draws were not fitted to:
        a label they know already would count twice.  docs/theory/joint-predictions.md, 5.

        >>> belief = CategoricalSamples.from_probs([[[0.9, 0.1], [0.1, 0.9]]])
        >>> belief.condition([0], [1]).log_weights_K.exp().round(decimals=6).tolist()
        [0.1, 0.9]
        """
        return self._conditioned(self.log_likelihood(points, labels))

    def log_likelihood(self, points: ArrayLike, labels: Labels) -> Tensor:
        """Σ_i ln p(y_i | x_i, ω_k) of labels at some of the points, one number per draw in float64.

        >>> CategoricalSamples.from_probs([[[0.5, 0.5], [1.0, 0.0]]]).log_likelihood([0], [1]).tolist()
        [-0.6931471805599453, -inf]
        """
        index = as_indices(points, len(self), self.device)
        labels = self.in_order(labels, positions=index.cpu().numpy())
        labels_B = class_labels(as_integers(labels, "labels").to(self.device), len(index), self.shape[2])

        def seen(part: slice) -> Tensor:
            return self.log_probs_N_K_C[index[part], :, labels_B[part]].double()

        return summed(seen, len(index), self.log_weights_K)


def _check_shape(array: Tensor, name: str) -> None:
    if array.ndim != 3:
        raise ValueError(
            f"{name}: expected three axes (points, draws, classes), found shape {tuple(array.shape)};"
            " a single draw needs an axis too: array[:, None, :]"
        )
    if array.shape[1] == 0 or array.shape[2] == 0:
        raise ValueError(f"{name}: needs at least one draw and one class, found shape {tuple(array.shape)}")


def normalised(log_probs_N_K_C: Tensor, half: bool, name: str) -> Tensor:
    """The same log probabilities with rows summing to one; refuses rows that are off by more than rounding, by the name
    of what was given.
    """
    count, draws, classes = log_probs_N_K_C.shape
    if count == 0:
        return log_probs_N_K_C
    # Rounding log p to half precision moves a row's sum by about eps·H ≤ eps·ln C.
    tolerance = 1e-4 + (8e-3 if half else 0.0) * max(1.0, math.log(classes))
    rounding = 1e-12 if log_probs_N_K_C.dtype == torch.float64 else 4e-6
    width = 2 * draws * classes * log_probs_N_K_C.element_size()
    device = log_probs_N_K_C.device
    ones_C = log_probs_N_K_C.new_ones(classes)

    def sums(part: slice) -> Tensor:  # as a product: three times as fast as a sum over a short axis
        return (log_probs_N_K_C[part].exp().reshape(-1, classes) @ ones_C).view(-1, draws)

    off_N = chunked(lambda part: (sums(part) - 1).abs_().amax(1), count, width, device)
    worst = float(off_N.max())
    if not worst <= tolerance:  # NaN fails too
        row = int((off_N <= tolerance).logical_not().nonzero()[0])
        sums_K = sums(slice(row, row + 1))[0]
        draw = int(((sums_K - 1).abs() <= tolerance).logical_not().nonzero()[0])
        if bool(log_probs_N_K_C[row, draw].isnan().any()):
            found = f"found NaN in row {row}, draw {draw}"
            raise ValueError(f"{name}: {found}; check the model's output before scoring")
        others = "probabilities through from_probs" if name == "log_probs_N_K_C" else "log probabilities as they are"
        raise ValueError(
            f"{name}: rows must sum to 1 in probability (row {row}, draw {draw} sums to {float(sums_K[draw]):.6g});"
            f" pass logits through CategoricalSamples.from_logits, {others}"
        )
    if worst <= rounding:
        return log_probs_N_K_C
    return chunked(lambda part: log_probs_N_K_C[part] - sums(part).log()[..., None], count, width, device)
