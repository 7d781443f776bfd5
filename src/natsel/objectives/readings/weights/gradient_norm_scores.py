"""Gradient norms of each point: EGL, GraNd and EL2N."""

import torch
from torch import Tensor

from natsel.beliefs import Belief, CategoricalSamples, FisherFactors, FisherRows
from natsel.beliefs.example_losses import ExampleLosses
from natsel.information.class_labels import class_labels
from natsel.information.weights.factors import OuterFactors, RowFactors
from natsel.memory import chunked
from natsel.objectives.gradient_norms import EGL, EL2N, GraNd
from natsel.objectives.objective import Argument
from natsel.objectives.reading import Context, PairFacts
from natsel.objectives.readings.pointwise import pointwise

_NORMS = PairFacts(cost="N·(C + D)")
_KNOWN = PairFacts(needs=Argument.LABELS, cost="N·(C + D)")


@pointwise(EGL, FisherFactors, _NORMS)
def _egl_of_factors(objective: EGL, belief: FisherFactors, context: Context[Belief]) -> Tensor:
    factors: OuterFactors = belief.factors
    if objective.squared:
        return factors.traces()
    if belief.kind != "softmax":
        _check_one(factors.n_rows)
        return factors.traces().sqrt()
    width = sum(part.shape[1] for part in (belief.features_N_D, belief.outputs_N_C))

    def work(part: slice) -> Tensor:
        probs_n_C = belief.outputs_N_C[part].double()
        others_n_C = _others(probs_n_C)
        # ‖π − e_y‖² = ‖π‖² − π_y² + (1 − π_y)², each class in turn.
        squares_n_C = probs_n_C.square()
        lengths_n_C = (_others(squares_n_C, probs_n_C) + others_n_C.square()).sqrt()
        return (probs_n_C * lengths_n_C).sum(1) * _lengths(belief.features_N_D[part])

    return chunked(work, len(belief), 48 * width, belief.device)


@pointwise(EGL, FisherRows, _NORMS)
def _egl_of_rows(objective: EGL, belief: FisherRows, context: Context[Belief]) -> Tensor:
    factors: RowFactors = belief.factors
    if not objective.squared:
        _check_one(factors.n_rows)
    return factors.traces() if objective.squared else factors.traces().sqrt()


@pointwise(GraNd, FisherFactors, _KNOWN)
def _grand_of_factors(objective: GraNd, belief: FisherFactors, context: Context[Belief]) -> Tensor:
    lengths_N = errors(belief, context.labels_N) * chunked(
        lambda part: _lengths(belief.features_N_D[part]), len(belief), 16 * belief.features_N_D.shape[1], belief.device
    )
    return lengths_N.square() if objective.squared else lengths_N


@pointwise(EL2N, FisherFactors, _KNOWN)
def _el2n_of_factors(objective: EL2N, belief: FisherFactors, context: Context[Belief]) -> Tensor:
    return errors(belief, context.labels_N)


@pointwise(EL2N, CategoricalSamples, PairFacts(needs=Argument.LABELS))
def _el2n_of_draws(objective: EL2N, belief: CategoricalSamples, context: Context[Belief]) -> Tensor:
    labels_N, weights_K = context.labels_N, belief.log_weights_K.exp()
    _, draws, classes = belief.log_probs_N_K_C.shape

    def work(part: slice) -> Tensor:
        return _error(belief.log_probs_N_K_C[part].double().exp(), labels_N[part]) @ weights_K

    return chunked(work, len(belief), 32 * draws * classes, belief.device)


@pointwise(EL2N, ExampleLosses, PairFacts(needs=Argument.LABELS, cost="N·C"))
def _el2n_of_logits(objective: EL2N, belief: ExampleLosses, context: Context[Belief]) -> Tensor:
    log_probs_N_1_C, labels_N = belief.class_probabilities().log_probs_N_1_C, context.labels_N
    return chunked(
        lambda part: _error(log_probs_N_1_C[part].exp(), labels_N[part])[:, 0],
        len(belief),
        32 * log_probs_N_1_C.shape[2],
        belief.device,
    )


def errors(belief: FisherFactors, labels_N: Tensor) -> Tensor:
    """‖π − e_y‖ of known labels, N values.

    >>> errors(FisherFactors.categorical([[1.0]], [[0.4, 0.6]]), torch.tensor([0])).round(decimals=4).tolist()
    [0.8485]
    """
    if belief.kind != "softmax":
        raise ValueError(
            f"belief: labels of classes need probabilities, and this belief is {belief.kind}; make it by"
            " FisherFactors.categorical"
        )
    classes = belief.outputs_N_C.shape[1]
    classes_N = class_labels(labels_N, len(belief), classes)
    return chunked(
        lambda part: _error(belief.outputs_N_C[part].double()[:, None], classes_N[part])[:, 0],
        len(belief),
        32 * classes,
        belief.device,
    )


def _error(probs_n_K_C: Tensor, labels_n: Tensor) -> Tensor:
    """‖p − e_y‖ of each draw, [n, K]; 1 − p_y as the sum of the others, which keeps the digits of a sure prediction."""
    index_n_K_1 = labels_n[:, None, None].expand(*probs_n_K_C.shape[:2], 1)
    others_n_K_C = probs_n_K_C.scatter(2, index_n_K_1, 0.0)
    return (others_n_K_C.square().sum(2) + others_n_K_C.sum(2).square()).sqrt()


def _others(values_n_C: Tensor, order_n_C: Tensor | None = None) -> Tensor:
    """Σ_{j≠c} v_j for every c; for the largest as a sum of the others, which keeps the digits of a sure prediction."""
    top_n_1 = (values_n_C if order_n_C is None else order_n_C).argmax(1, keepdim=True)
    rest_n_1 = values_n_C.scatter(1, top_n_1, 0.0).sum(1, keepdim=True)
    return (values_n_C.sum(1, keepdim=True) - values_n_C).clamp_min_(0).scatter(1, top_n_1, rest_n_1)


def _lengths(features_n_D: Tensor) -> Tensor:
    lengths_n: Tensor = torch.linalg.vector_norm(features_n_D.double(), dim=1)
    return lengths_n


def _check_one(rows: int) -> None:
    if rows != 1:
        raise ValueError(
            f"squared: lengths that are not squared need one gradient per point, found {rows} rows; use squared=True"
        )
