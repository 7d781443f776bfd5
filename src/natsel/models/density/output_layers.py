"""Other output layers that know distances: random features of a Gaussian process, and centroids.

    RandomFeatureOutputs     logits = V φ(z),   φ(z) = √(2/D) cos(W z + b),   W ~ N(0, 1), b ~ U(0, 2π) never learn
    CentroidOutputs          logit_c = −mean_j (W_c z − e_c)_j² / (2 σ²)

The first is the layer of SNGP (Liu et al. 2020): far from the data φ is like noise, so that a Gaussian over V
(`natsel.models.LastLayer`) is unsure there. The second is that of DUQ (van Amersfoort et al. 2020), trained by the
cross-entropy of all classes together in place of one loss per class with moving centroids: the largest logit is minus
the distance to the nearest centroid (method `max-logit`).
docs/theory/deterministic-uncertainty.md, 5.
"""

import copy
import math

import torch
from torch import Tensor, nn

from natsel.options import Count


class RandomFeatureOutputs(nn.Sequential):
    """Features → a random projection of unit variance → random Fourier features → logits.

    >>> RandomFeatureOutputs(8, 3, width=32)(torch.zeros(2, 8)).shape
    torch.Size([2, 3])
    """

    def __init__(self, features: Count, classes: Count, width: Count = 1024, projection: Count = 128) -> None:
        super().__init__(RandomFourier(features, width, projection), nn.Linear(width, classes))


class RandomFourier(nn.Module):
    """φ(z) of a projection of z, scaled to mean 0 and variance 1 for each input; all of it is random and fixed."""

    def __init__(self, features: Count, width: Count, projection: Count) -> None:
        super().__init__()
        self.sizes = features, width, projection
        for name, shape in (
            ("projection", (projection, features)),
            ("frequency", (width, projection)),
            ("phase", (width,)),
        ):
            self.register_buffer(name, torch.empty(shape))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the directions and phases anew."""
        features, _, projection = self.sizes
        nn.init.normal_(self.get_buffer("projection"), std=features**-0.5)
        nn.init.normal_(self.get_buffer("frequency"), std=projection**-0.5)
        nn.init.uniform_(self.get_buffer("phase"), 0, 2 * math.pi)

    def forward(self, features_B_D: Tensor) -> Tensor:
        """φ(z), [B, width]."""
        seen_B_P = features_B_D @ self.get_buffer("projection").T
        seen_B_P = nn.functional.layer_norm(seen_B_P, seen_B_P.shape[1:])
        angle_B_W = seen_B_P @ self.get_buffer("frequency").T + self.get_buffer("phase")
        scale: float = (2 / angle_B_W.shape[1]) ** 0.5
        return scale * angle_B_W.cos()


class CentroidOutputs(nn.Module):
    """Minus the scaled squared distance of W_c z to the centroid of each class.

    >>> CentroidOutputs(8, 3, size=4)(torch.zeros(2, 8)).shape
    torch.Size([2, 3])
    """

    def __init__(self, features: Count, classes: Count, size: Count = 64, length_scale: float = 0.1) -> None:
        super().__init__()
        if not length_scale > 0:
            raise ValueError(f"length_scale: must be greater than 0 (found {length_scale}); 0.1 is usual")
        self.length_scale = length_scale
        self.weight = nn.Parameter(torch.empty(classes, size, features))
        self.centroids = nn.Parameter(torch.empty(classes, size))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights and centroids anew."""
        nn.init.normal_(self.weight, std=0.05)
        nn.init.normal_(self.centroids, std=0.05)

    def forward(self, features_B_D: Tensor) -> Tensor:
        """The logits of all classes, at most 0."""
        seen_B_C_E = torch.einsum("bd,ced->bce", features_B_D, self.weight)
        return -(seen_B_C_E - self.centroids).square().mean(2) / (2 * self.length_scale**2)


def with_outputs(network: nn.Sequential, outputs: nn.Module) -> nn.Sequential:
    """A copy of a network whose last layer, a linear one, is replaced.

    >>> with_outputs(nn.Sequential(nn.Linear(2, 8), nn.Linear(8, 3)), CentroidOutputs(8, 3))(torch.zeros(1, 2)).shape
    torch.Size([1, 3])
    """
    if not isinstance(network, nn.Sequential) or not len(network) or not isinstance(network[-1], nn.Linear):
        raise ValueError(
            f"network: expected nn.Sequential with nn.Linear at its end, found {type(network).__name__}; build it so"
        )
    return nn.Sequential(*(copy.deepcopy(layer) for layer in list(network)[:-1]), outputs)
