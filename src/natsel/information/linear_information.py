"""Entropy and mutual information with 1 − p in place of −ln p: chances that two answers differ.

    H'[Y]      = Σ_c p_c (1 − p_c) = 1 − Σ_c p_c²                      linear entropy (Gini impurity), in [0, 1 − 1/C]
    I'[Y;Ω|x]  = H'(p̄) − Σ_k w_k H'(p_k) = Σ_c Var_ω[p(c|x,ω)]        linear mutual information

1 − p is the first term of −ln p around p = 1, and never above it: H' ≤ H and I' ≤ I. H' of a mean prediction is the
error that the model predicts of itself; for one-hot members I' = H'.  docs/theory/calibration.md, 6.
"""

from torch import Tensor

from natsel.information.entropies import check_dim, widened
from natsel.information.mutual import share_of_others, variance


def linear_entropy(log_p: Tensor, dim: int = -1) -> Tensor:
    """H'(p) = 1 − Σ p² over dim: the chance that two draws from p differ; 0 where p is one-hot.

    >>> import torch
    >>> linear_entropy(torch.tensor([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]).log())
    tensor([0.5000, 0.0000])
    """
    check_dim(log_p, dim)
    return chance_of_unequal(widened(log_p).exp().movedim(dim, -1))


def linear_mutual_information(log_probs_N_K_C: Tensor, log_weights_K: Tensor | None = None) -> Tensor:
    """I'[Y;Ω|x] = Σ_c Var_ω[p(c|x,ω)], one value per point: `variance` by the name of what it approximates.

    >>> import torch
    >>> linear_mutual_information(torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]).log())
    tensor([0.5000])
    """
    return variance(log_probs_N_K_C, log_weights_K)


def chance_of_unequal(p_C: Tensor) -> Tensor:
    """Σ_c p_c (1 − p_c) over the last axis, where 1 − p of the likeliest class is the sum of all others: tiny chances
    keep their digits.

    >>> import torch
    >>> chance_of_unequal(torch.tensor([[1.0, 1e-9, 0.0]]))
    tensor([2.0000e-09])
    """
    top_1 = p_C.argmax(-1, keepdim=True)
    others_C = p_C.scatter(-1, top_1, 0.0)
    return p_C.gather(-1, top_1).squeeze(-1) * share_of_others(p_C) + (others_C * (1 - others_C)).sum(-1)
