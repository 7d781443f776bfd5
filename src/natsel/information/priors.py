"""A pool that stands for inputs with other shares of the classes: importance weights from what the model predicts.

    w(x) = Σ_c p*(c) p̄(c|x) / p̄(c),      p̄(c) = (1/N) Σ_x' p̄(c|x')

p* is the share of each class where the model will be used; inputs of one class are taken to look alike there and in
the pool. The weights sum to N.
docs/theory/epig-jepig.md, 10.
"""

import torch
from torch import Tensor

# How far shares may be off one in sum: what rounding to a few digits does.
_ROUNDING = 1e-3


def class_prior_weights(mean_probs_N_C: Tensor, target_prior_C: Tensor) -> Tensor:
    """How much each of N points counts as a stand-in for inputs whose classes have the given shares: N float64 values.

    A class of share 0 drops out, also where the pool has none of it; a class that is wanted and that no point can stand
    for is refused.

    >>> class_prior_weights(torch.tensor([[0.75, 0.25], [0.25, 0.75]]), torch.tensor([1.0, 0.0])).tolist()
    [1.5, 0.5]
    """
    mean_probs_N_C = mean_probs_N_C.double()
    prior_C = checked_prior(target_prior_C).to(mean_probs_N_C.device)
    if mean_probs_N_C.ndim != 2 or mean_probs_N_C.shape[1] != len(prior_C):
        raise ValueError(
            f"class prior: it has {len(prior_C)} classes and the predictions the shape {tuple(mean_probs_N_C.shape)};"
            " give one share for each class the model knows"
        )
    if len(mean_probs_N_C) == 0:
        raise ValueError("class prior: there are no points to weigh; pass predictions for some")
    share_C = mean_probs_N_C.mean(0)
    absent = ((share_C == 0) & (prior_C > 0)).nonzero()
    if len(absent):
        raise ValueError(
            f"class prior: class {int(absent[0])} is wanted, but no point of the pool can stand for it; give it share"
            " 0, or pass inputs of that class as targets"
        )
    ratio_C = torch.where(prior_C > 0, prior_C / share_C, 0.0)
    return mean_probs_N_C @ ratio_C


def checked_prior(target_prior_C: Tensor) -> Tensor:
    """Shares of classes in float64, summing to one exactly.

    >>> checked_prior(torch.tensor([0.25, 0.75])).tolist()
    [0.25, 0.75]
    """
    prior_C = target_prior_C.double()
    if prior_C.ndim != 1 or not bool((prior_C >= 0).all()) or not abs(float(prior_C.sum()) - 1) < _ROUNDING:
        raise ValueError(
            f"class prior: expected the share of each class, numbers from 0 on that sum to 1, found {prior_C.tolist()}"
        )
    return prior_C / prior_C.sum()
