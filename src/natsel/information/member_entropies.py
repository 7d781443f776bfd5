"""How the entropies of single members stand to the entropy of their mean.

    H_k          = H[Y|x,ω_k]                                          member_entropy
    variance     = Σ_k w_k (H_k − Σ_j w_j H_j)²                        entropy_variance
    rmse         = √ Σ_k w_k (H_k − H[Y|x])²                           entropy_rmse
    rmse²        = variance + I[Y;Ω|x]²

One member's entropy, taken as an estimate of the predictive entropy H[Y|x], is too low by the mutual information on
average and scatters by the variance. And it may rank points the wrong way round: if I_1 > I_2 + δ while the predictive
entropies differ by at most ε, then some member has H_1 < H_2 − (δ − ε), so that it finds the point with *more*
epistemic uncertainty the less uncertain one. Population variances under the weights; float64, since differences of
entropies decide.  docs/theory/calibration.md, 10; Mukhoti et al. 2023.
"""

from collections.abc import Callable

from torch import Tensor

from natsel.information.entropies import entropy
from natsel.information.mutual import mutual_information, normalised_log_weights
from natsel.memory import chunked


def member_entropy(log_probs_N_K_C: Tensor) -> Tensor:
    """H[Y|x,ω_k] as N_K; its weighted mean over draws is `conditional_entropy`.

    >>> import torch
    >>> member_entropy(torch.tensor([[[0.5, 0.5], [0.0, 1.0]]]).log())
    tensor([[0.6931, 0.0000]], dtype=torch.float64)
    """
    normalised_log_weights(log_probs_N_K_C, None)  # looks at the shape
    return _over_points(log_probs_N_K_C, entropy)


def entropy_variance(log_probs_N_K_C: Tensor, log_weights_K: Tensor | None = None) -> Tensor:
    """Var_ω H[Y|x,ω], one value per point; 0 for a single draw.

    >>> import torch
    >>> entropy_variance(torch.tensor([[[0.5, 0.5], [0.0, 1.0]]]).log())  # (½ ln 2)²
    tensor([0.1201], dtype=torch.float64)
    """
    weights_K = normalised_log_weights(log_probs_N_K_C[:0].double(), log_weights_K).exp()
    return _over_points(log_probs_N_K_C, lambda part_n_K_C: _variance(entropy(part_n_K_C), weights_K))


def entropy_rmse(log_probs_N_K_C: Tensor, log_weights_K: Tensor | None = None) -> Tensor:
    """√ E_ω (H[Y|x,ω] − H[Y|x])², one value per point: how far a single member's entropy is from the total one.

    >>> import torch
    >>> entropy_rmse(torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]).log())  # members 0, mean ln 2
    tensor([0.6931], dtype=torch.float64)
    """
    prior_K = normalised_log_weights(log_probs_N_K_C[:0].double(), log_weights_K)

    def work(part_n_K_C: Tensor) -> Tensor:
        # By variance and bias, because that is exactly 0 for one draw and for draws that agree.
        spread_n = _variance(entropy(part_n_K_C), prior_K.exp())
        return (spread_n + mutual_information(part_n_K_C, prior_K).square()).sqrt()

    return _over_points(log_probs_N_K_C, work)


def rank_inconsistency(
    entropy_K: Tensor, other_entropy_K: Tensor, margin: float = 0.0, log_weights_K: Tensor | None = None
) -> float:
    """The share of members (by weight) that find a point less uncertain than another by more than a margin.

    Of two points whose mutual informations differ by more than δ and whose predictive entropies differ by at most ε,
    pass the one with more mutual information first: with margin δ − ε the share is above 0.

    >>> import torch
    >>> rank_inconsistency(torch.tensor([0.2, 0.9]), torch.tensor([0.5, 0.5]))
    0.5
    """
    if entropy_K.ndim != 1 or entropy_K.shape != other_entropy_K.shape or len(entropy_K) == 0:
        found = [list(some.shape) for some in (entropy_K, other_entropy_K)]
        raise ValueError(f"entropy_K: expected one number per member for both points, found shapes {found}")
    weights_K = normalised_log_weights(entropy_K[None, :, None].double(), log_weights_K).exp()
    return float(weights_K[entropy_K < other_entropy_K - margin].sum())


def _variance(values_n_K: Tensor, weights_K: Tensor) -> Tensor:
    """From the first draw, so that equal values give exactly 0."""
    offset_n_K = values_n_K - values_n_K[:, :1]
    return ((offset_n_K - (offset_n_K * weights_K).sum(-1, keepdim=True)).square() * weights_K).sum(-1)


def _over_points(log_probs_N_K_C: Tensor, work: Callable[[Tensor], Tensor]) -> Tensor:
    points, draws, classes = log_probs_N_K_C.shape
    return chunked(
        lambda part: work(log_probs_N_K_C[part].double()), points, 40 * draws * classes, log_probs_N_K_C.device
    )
