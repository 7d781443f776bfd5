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


def after_label(left_N: Tensor, along_N: Tensor, keep: float) -> tuple[Tensor, Tensor]:
    """What a label leaves of each point, and what it explains, from w (which is written over).

    >>> import torch
    >>> left, explained = after_label(torch.tensor([4.0, 1.0]), torch.tensor([1.0, 3.0]), keep=0.25)
    >>> left.tolist(), explained.tolist()
    ([3.0, 0.25], [1.0, 0.75])
    """
    square_N = along_N.square_()
    return (left_N - square_N).maximum(left_N * keep), square_N.minimum(left_N * (1 - keep))


def is_rounding(left: float, own: float) -> bool:
    """Whether what is left of a point, of the `own` it had, has no direction but that of rounding.

    >>> is_rounding(1e-20, 1.0), is_rounding(1e-3, 1.0)
    (True, False)
    """
    return not left > ROUNDING * own
