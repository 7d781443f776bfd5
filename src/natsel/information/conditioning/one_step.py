"""The step that all forms of conditioning share: how much one label explains, and when nothing is left to explain.

    explained_n = min(w_n², left_n (1 − keep)),      left_n ← max(left_n − w_n², left_n keep),      keep = s/(v + s)

Two forms of one step: what is explained keeps its digits where it is little, and what is left where that is little.
"""

from torch import Tensor

from natsel.rounding import ROUNDING


def kept_share(left: float, noise: float) -> float:
    """The share of its variance that a point keeps once its own label is seen; no other point keeps less.

    >>> kept_share(3.0, 1.0)
    0.25
    """
    return noise / (left + noise)


def left_after_label(left_N: Tensor, square_N: Tensor, keep: float) -> Tensor:
    """What a label leaves of each point, from w²; never less than the share that the labelled point keeps.

    >>> import torch
    >>> left_after_label(torch.tensor([4.0, 1.0]), torch.tensor([1.0, 9.0]), keep=0.25).tolist()
    [3.0, 0.25]
    """
    return (left_N - square_N).maximum(left_N * keep)


def explained_by_label(left_N: Tensor, square_N: Tensor, keep: float) -> Tensor:
    """What a label explains of each point, from w²; never more than a point can lose.

    >>> import torch
    >>> explained_by_label(torch.tensor([4.0, 1.0]), torch.tensor([1.0, 9.0]), keep=0.25).tolist()
    [1.0, 0.75]
    """
    return square_N.minimum(left_N * (1 - keep))


def is_rounding(left: float, own: float) -> bool:
    """Whether what is left of a point, of the `own` it had, has no direction but that of rounding.

    >>> is_rounding(1e-20, 1.0), is_rounding(1e-3, 1.0)
    (True, False)
    """
    return not left > ROUNDING * own
