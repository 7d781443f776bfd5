"""Networks without shortcuts, and a residual one for tables: LeNet, VGG-16, ResFFN.

    LeNet     two 5×5 convolutions (6, 16) with pooling, layers of 120 and 84
    VGG-16    thirteen 3×3 convolutions with batch normalisation, pooled to one pixel
    ResFFN    x ← W₀ x;  x ← x + relu(W_l x) for each of `depth` layers of one width

LeNet and VGG-16 have nothing that keeps distances: their features may collapse, which makes them the controls of
experiments with feature densities. Each network is an `nn.Sequential` that ends with the linear layer of the classes:
`network[:-1](inputs)` are its features.  docs/theory/deterministic-uncertainty.md; LeCun et al. 1998, Simonyan and
Zisserman 2015, van Amersfoort et al. 2021, Mukhoti et al. 2023.
"""

from torch import Tensor, nn

from natsel.models.networks.residual_networks import GlobalAverage, Scale, picture_input, with_norm
from natsel.models.networks.spectral_norm import SpectralLinear, spectrally_normalised
from natsel.options import Count, Share

# Widths as multiples of the first one, 0 where a 2×2 pooling stands. The first is for pictures of 28 pixels.
_FOUR_POOLINGS = (1, 1, 2, 2, 0, 4, 4, 4, 0, 8, 8, 8, 0, 8, 8, 8, 0)
_FIVE_POOLINGS = (1, 1, 0, 2, 2, 0, 4, 4, 4, 0, 8, 8, 8, 0, 8, 8, 8, 0)


def lenet(
    classes: Count = 10,
    in_channels: Count = 1,
    shape: tuple[int, int] = (28, 28),
    mean: Scale = None,
    std: Scale = None,
    *,
    spectral: float | None = None,
) -> nn.Sequential:
    """LeNet with 84 features; arguments as for `resnet18`.

    >>> import torch
    >>> lenet()(torch.zeros(2, 28, 28)).shape
    torch.Size([2, 10])
    """
    height, width = (((side - 4) // 2 - 4) // 2 for side in shape)
    if min(height, width) < 1:
        raise ValueError(f"shape: pictures must be at least 16×16, found {shape}; use mlp for smaller ones")
    return with_norm(
        nn.Sequential(
            picture_input(in_channels, shape, mean, std),
            *(nn.Conv2d(in_channels, 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(16 * height * width, 120), nn.ReLU()),
            *(nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, classes)),
        ),
        spectral,
    )


def vgg16(
    classes: Count = 10,
    in_channels: Count = 3,
    shape: tuple[int, int] = (32, 32),
    mean: Scale = None,
    std: Scale = None,
    *,
    spectral: float | None = None,
    dropout: Share = 0.0,
    width: Count = 64,
) -> nn.Sequential:
    """VGG-16 with 512 features; pictures below 32 pixels are pooled four times instead of five, as for MNIST.

    `dropout` is before the last layer. Other arguments as for `resnet18`.

    >>> import torch
    >>> vgg16(in_channels=1, shape=(28, 28), width=4)(torch.zeros(2, 28, 28)).shape
    torch.Size([2, 10])
    """
    if min(shape) < 16:
        raise ValueError(f"shape: pictures must be at least 16×16, found {shape}; use lenet or mlp for smaller ones")
    layers: list[nn.Module] = [picture_input(in_channels, shape, mean, std)]
    channels = in_channels
    for times in _FIVE_POOLINGS if min(shape) >= 32 else _FOUR_POOLINGS:
        if times:
            layers += [nn.Conv2d(channels, times * width, 3, padding=1), nn.BatchNorm2d(times * width), nn.ReLU()]
            channels = times * width
        else:
            layers.append(nn.MaxPool2d(2))
    layers += [GlobalAverage(), *([nn.Dropout(dropout)] if dropout else []), nn.Linear(channels, classes)]
    return with_norm(nn.Sequential(*layers), spectral)


def resffn(
    features: Count,
    classes: Count,
    depth: Count = 4,
    width: Count = 128,
    *,
    spectral: float | None = None,
    iterations: int = 1,
    dropout: Share = 0.0,
    residual: bool = True,
) -> nn.Sequential:
    """A residual perceptron for tables; inputs of any shape are flattened. For numbers: classes=1.

    `spectral`: the norm of each linear layer but the last is held at or below it, found by so many `iterations` of
    power iteration per step. Below 1, distances between the features of two rows are kept up to factors: each layer
    changes a distance by 1 − spectral at the least and 1 + spectral at the most. `residual=False` leaves the shortcuts
    out.

    >>> import torch
    >>> resffn(2, 2, spectral=0.65, iterations=5)(torch.zeros(3, 2)).shape
    torch.Size([3, 2])
    """
    if depth < 1 or width < 1:
        raise ValueError(f"depth, width: must be at least 1 (found {depth} and {width}); 4 and 128 are usual")
    blocks = [_Layer(width, dropout, residual) for _ in range(depth)]
    network = nn.Sequential(nn.Flatten(), nn.Linear(features, width), *blocks, nn.Linear(width, classes))
    if spectral is None:
        return network
    normalised = spectrally_normalised(network, spectral, linear=True, iterations=iterations)
    assert isinstance(normalised, nn.Sequential)
    return normalised


class _Layer(nn.Module):
    """x → x + dropout(relu(W x)), or without x."""

    linear: nn.Linear | SpectralLinear

    def __init__(self, width: Count, dropout: Share, residual: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.rest = nn.Sequential(nn.ReLU(), nn.Dropout(dropout)) if dropout else nn.ReLU()
        self.residual = residual

    def forward(self, inputs_B_D: Tensor) -> Tensor:
        out: Tensor = self.rest(self.linear(inputs_B_D))
        return inputs_B_D + out if self.residual else out
