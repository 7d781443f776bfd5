"""Plain scores of how long gradients are, points looked at one by one.

    EGL     E_{y~p(y|x)} ‖g_y‖² = tr F[x]                expected gradient length; softmax: (1 − ‖π‖²) ‖x‖²
    GraNd   ‖g_y‖ = ‖π − e_y‖ ‖x‖                        the gradient norm under the known label y
    EL2N    E_ω ‖p(·|x,ω) − e_y‖                         the error of the prediction itself, averaged over draws

`squared` takes ‖g‖² in place of ‖g‖: squares are the original EGL's second form and make it the trace of the Fisher
information, twice the trace form of EIG at H = I; GraNd was published without.  Spec 08, G7 and G8.
Settles et al. 2007; Huang et al. 2016; Paul et al. 2021.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from natsel.beliefs import CategoricalSamples, FisherFactors, FisherRows
from natsel.information.factors import OuterFactors, RowFactors
from natsel.memory import chunked
from natsel.objectives.plain import pointwise
from natsel.objectives.protocol import Facts, Objective, Reading


@dataclass(frozen=True)
class EGL(Objective):
    """Expected gradient length under the model's own prediction; the trace of the Fisher information where squared.

    >>> EGL().facts.needs_labels
    False
    """

    squared: bool = True

    facts: ClassVar[Facts] = Facts(
        "tr F", reason="a squared length of gradients, in units of the weights", units="none", cost="N·(C + D)"
    )


@dataclass(frozen=True)
class GraNd(Objective):
    """The length of the gradient under the known label.

    >>> GraNd(squared=True).facts.needs_labels
    True
    """

    squared: bool = False

    facts: ClassVar[Facts] = Facts(
        "|g_y|",
        reason="a length of gradients, in units of the weights",
        needs_labels=True,
        units="none",
        cost="N·(C + D)",
    )


@dataclass(frozen=True)
class EL2N(Objective):
    """How far the predicted probabilities are from the known label, averaged over draws.

    >>> EL2N().facts.units
    'probability'
    """

    facts: ClassVar[Facts] = Facts(
        "E |p(y|x,W) − e_y|", reason="a distance of probabilities", needs_labels=True, units="probability"
    )


@pointwise(EGL, FisherFactors)
def _(objective: EGL, belief: FisherFactors, reading: Reading) -> Tensor:
    factors: OuterFactors = belief.factors
    if objective.squared:
        return factors.traces()
    if belief.kind != "softmax":
        _check_one(factors.rows)
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


@pointwise(EGL, FisherRows)
def _(objective: EGL, belief: FisherRows, reading: Reading) -> Tensor:
    factors: RowFactors = belief.factors
    if not objective.squared:
        _check_one(factors.rows)
    return factors.traces() if objective.squared else factors.traces().sqrt()


@pointwise(GraNd, FisherFactors)
def _(objective: GraNd, belief: FisherFactors, reading: Reading) -> Tensor:
    lengths_N = errors(belief, reading.labels_N) * chunked(
        lambda part: _lengths(belief.features_N_D[part]), len(belief), 16 * belief.features_N_D.shape[1], belief.device
    )
    return lengths_N.square() if objective.squared else lengths_N


@pointwise(EL2N, FisherFactors)
def _(objective: EL2N, belief: FisherFactors, reading: Reading) -> Tensor:
    return errors(belief, reading.labels_N)


@pointwise(EL2N, CategoricalSamples)
def _(objective: EL2N, belief: CategoricalSamples, reading: Reading) -> Tensor:
    assert reading.labels_N is not None
    labels_N, weights_K = reading.labels_N, belief.log_weights_K.exp()
    _, draws, classes = belief.log_probs_N_K_C.shape

    def work(part: slice) -> Tensor:
        return _error(belief.log_probs_N_K_C[part].double().exp(), labels_N[part]) @ weights_K

    return chunked(work, len(belief), 32 * draws * classes, belief.device)


def errors(belief: FisherFactors, labels_N: Tensor | None) -> Tensor:
    """‖π − e_y‖ of known labels, N values.

    >>> errors(FisherFactors.categorical([[1.0]], [[0.4, 0.6]]), torch.tensor([0])).round(decimals=4).tolist()
    [0.8485]
    """
    if belief.kind != "softmax":
        raise ValueError(
            f"belief: labels of classes need probabilities, and this belief is {belief.kind}; make it by"
            " FisherFactors.categorical"
        )
    assert labels_N is not None
    classes = belief.outputs_N_C.shape[1]
    classes_N = labels_N.long()
    if not bool(((classes_N == labels_N) & (classes_N >= 0) & (classes_N < classes)).all()):
        raise ValueError(f"labels: expected class numbers from 0 to {classes - 1}, found others; map labels to them")
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
            f"squared: lengths that are not squared need one gradient a point, found {rows} rows; use squared=True"
        )
