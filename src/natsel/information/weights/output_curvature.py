"""The curvature Λ of a label's negative log-likelihood in the outputs, through its root A: AᵀA = Λ.

    softmax   Λ = diag(π) − π πᵀ,   A = diag(√π) (I − 1 πᵀ)
    diagonal  Λ = diag(a²)          Gaussian a = 1/σ, Bernoulli a = √(π(1−π)), Poisson a = √rate
    row       Λ ≈ r rᵀ              r = π − e_y, the gradient under one label

docs/theory/weight-space.md, 3 and 4.
"""

from typing import Literal

from torch import Tensor

Kind = Literal["softmax", "diagonal", "row"]


def root(outputs_n_C: Tensor, kind: Kind) -> Tensor:
    """A with AᵀA the output curvature, [n, R, C]; a sure prediction keeps the digits of what is left of it.

    >>> import torch
    >>> root(torch.tensor([[0.5, 0.5]]), "diagonal").tolist()
    [[[0.5, 0.0], [0.0, 0.5]]]
    """
    if kind == "row":
        return outputs_n_C[:, None]
    if kind == "diagonal":
        return outputs_n_C.diag_embed()
    sizes_n_C_1 = outputs_n_C.sqrt()[..., None]
    roots_n_C_C = -sizes_n_C_1 * outputs_n_C[:, None]
    roots_n_C_C.diagonal(dim1=1, dim2=2).copy_(sizes_n_C_1[..., 0] * complement(outputs_n_C))
    return roots_n_C_C


def complement(probs_n_C: Tensor) -> Tensor:
    """1 − π_c, for the likeliest class as the sum of the others, which keeps the digits of a sure prediction.

    >>> import torch
    >>> complement(torch.tensor([[1.0, 1e-20]])).tolist()
    [[9.999999682655225e-21, 1.0]]
    """
    top_n_1 = probs_n_C.argmax(1, keepdim=True)
    others_n_1 = probs_n_C.scatter(1, top_n_1, 0.0).sum(1, keepdim=True)
    return (1 - probs_n_C).scatter(1, top_n_1, others_n_1)


def squared_lengths(outputs_n_C: Tensor, kind: Kind) -> Tensor:
    """‖A‖² = the trace of the output curvature, n values.

    >>> import torch
    >>> squared_lengths(torch.tensor([[0.5, 0.5]]), "softmax").tolist()
    [0.5]
    """
    if kind == "softmax":
        return (outputs_n_C * complement(outputs_n_C)).sum(1)
    return outputs_n_C.square().sum(1)


def sandwich(left_n_R_P: Tensor, middle: Tensor) -> Tensor:
    """V M Vᵀ for symmetric M, exactly symmetric.

    >>> import torch
    >>> sandwich(torch.ones(1, 1, 2), torch.eye(2)).tolist()
    [[[2.0]]]
    """
    blocks_n_R_R = left_n_R_P @ middle @ left_n_R_P.mT
    return (blocks_n_R_R + blocks_n_R_R.mT) / 2
