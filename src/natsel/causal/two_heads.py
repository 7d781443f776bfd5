"""A network with two heads for two treatments: what is common to both arms is learnt once, from both.

    z = trunk(x)                                           residual layers, the same for both arms
    f(x, t) = head₁(z) if t = 1, else head₀(z)             inputs [x, t], the treatment in the last column

The heads share the trunk, so that draws of both arms go together; what they share is learnt from whichever arm has
labels.  docs/theory/causal-bald.md; Shalit, Johansson and Sontag 2017 (TARNet).
"""

from numbers import Integral

import torch
from torch import Tensor, nn

from natsel.models.networks.plain_networks import resffn


class TwoHeads(nn.Module):
    """x and the treatment in, one number per point out: that of the head of its treatment."""

    def __init__(self, trunk: nn.Module, head0: nn.Module, head1: nn.Module) -> None:
        super().__init__()
        self.trunk, self.head0, self.head1 = trunk, head0, head1

    def forward(self, inputs_B_D: Tensor) -> Tensor:
        shared_B_H = self.trunk(inputs_B_D[:, :-1])
        # Both heads are computed: a choice by rows could not be batched over the members of an ensemble.
        # Above 0, as natsel divides bytes by 255.
        return torch.where(inputs_B_D[:, -1:] > 0, self.head1(shared_B_H), self.head0(shared_B_H))


def tarnet(
    features: int,
    hidden: int = 200,
    depth: int = 3,
    *,
    dropout: float = 0.0,
    spectral: float | None = None,
    trunk: nn.Module | None = None,
) -> TwoHeads:
    """A network of `features` covariates and the treatment, with `depth` layers before the heads.

    `dropout` and `spectral` (a bound on the norm of the layers) are those of the trunk, as in `natsel.models.resffn`.
    `trunk` is a network of your own from x to `hidden` numbers, for example of pictures: it then replaces the layers.

    >>> tarnet(25)(torch.zeros(4, 26)).shape
    torch.Size([4, 1])
    """
    sizes = features, hidden, depth
    if not all(isinstance(size, Integral) for size in sizes) or features < 1 or hidden < 1 or depth < 2:
        raise ValueError(
            f"features, hidden, depth: expected whole numbers, at least 1, 1 and 2, found {features}, {hidden} and"
            f" {depth}; 200 hidden units and a depth of 3 are usual"
        )
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout: expected a share from 0 to below 1, found {dropout}; 0.1 is usual")
    if trunk is not None and not isinstance(trunk, nn.Module):
        raise ValueError(f"trunk: expected a network, found {type(trunk).__name__}; pass a torch module")
    if trunk is not None and (dropout or spectral is not None):
        raise ValueError("trunk: dropout and spectral are those of the usual trunk; put them into yours")
    # Without its last layer, which would be that of classes.
    found = trunk or resffn(features, 1, depth - 1, hidden, spectral=spectral, dropout=dropout)[:-1]
    return TwoHeads(found, _head(hidden, dropout), _head(hidden, dropout))


def _head(hidden: int, dropout: float) -> nn.Sequential:
    rest = [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), *rest, nn.Linear(hidden, 1))
