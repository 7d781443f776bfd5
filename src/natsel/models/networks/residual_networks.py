"""Residual networks for small pictures: ResNet-18, ResNet-50 and wide ones, with two changes that keep distances.

    out = act(shortcut(x) + f(x))                  ResNet: f has two 3×3 convolutions, or 1×1, 3×3, 1×1 (bottleneck)
    out = shortcut(x) + f(x)                       wide ResNet: normalisation and activation come first in f

The stem is one 3×3 convolution without pooling, as pictures have 28 or 32 pixels. Where a block halves the picture, its
shortcut is usually a 1×1 convolution of stride 2, which sees one of four pixels. `sensitive=True` averages the four
instead (a window at an odd edge averages those it has) and fills new channels with zeros; ReLU becomes leaky (slope
0.01), so that no input is lost where it is negative. `spectral=3.0` holds the norm of each convolution at or below 3
(`spectral_norm.py`). Batch normalisation and the last linear layer stay free.

Each network is an `nn.Sequential` that ends with the linear layer of the classes: `network[:-1](pictures)` are its
features.  docs/theory/deterministic-uncertainty.md; He et al. 2016, Zagoruyko and Komodakis 2016, Mukhoti et al. 2023.
"""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from natsel.models.networks.architectures import ImageInput
from natsel.models.networks.spectral_norm import spectrally_normalised
from natsel.options import Count, Share

Scale = float | tuple[float, ...] | None
"""A mean or a standard deviation of pixels: one number, one for each channel, or None for those of a usual data set."""

# Mean and standard deviation of pixels: of MNIST for one channel, of CIFAR-10 for three.
_USUAL = {1: (0.1307, 0.3081), 3: ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))}


def resnet18(
    classes: Count = 10,
    in_channels: Count = 3,
    shape: tuple[int, int] = (32, 32),
    mean: Scale = None,
    std: Scale = None,
    *,
    spectral: float | None = None,
    sensitive: bool = False,
    dropout: Share = 0.0,
    width: Count = 64,
) -> nn.Sequential:
    """ResNet-18 with 512 features: four stages of two blocks, widths 64, 128, 256, 512.

    `mean`, `std`: of the pixels, by default those of MNIST for one channel and of CIFAR-10 for three. `dropout` is
    before the last layer. `width` is that of the first stage.

    >>> import torch
    >>> resnet18(in_channels=1, shape=(28, 28), width=4)(torch.zeros(2, 28, 28)).shape
    torch.Size([2, 10])
    """
    options: dict[str, Any] = {"spectral": spectral, "sensitive": sensitive, "dropout": dropout, "width": width}
    return _resnet(_Basic, (2, 2, 2, 2), classes, picture_input(in_channels, shape, mean, std), **options)


def resnet50(
    classes: Count = 10,
    in_channels: Count = 3,
    shape: tuple[int, int] = (32, 32),
    mean: Scale = None,
    std: Scale = None,
    *,
    spectral: float | None = None,
    sensitive: bool = False,
    dropout: Share = 0.0,
    width: Count = 64,
) -> nn.Sequential:
    """ResNet-50 with 2,048 features: four stages of 3, 4, 6 and 3 bottleneck blocks; arguments as for `resnet18`.

    >>> import torch
    >>> resnet50(shape=(8, 8), width=4)(torch.zeros(2, 8, 8, 3)).shape
    torch.Size([2, 10])
    """
    options: dict[str, Any] = {"spectral": spectral, "sensitive": sensitive, "dropout": dropout, "width": width}
    return _resnet(_Bottleneck, (3, 4, 6, 3), classes, picture_input(in_channels, shape, mean, std), **options)


def wide_resnet(
    classes: Count = 10,
    in_channels: Count = 3,
    shape: tuple[int, int] = (32, 32),
    mean: Scale = None,
    std: Scale = None,
    *,
    depth: Count = 28,
    widening: Count = 10,
    spectral: float | None = None,
    sensitive: bool = False,
    dropout: Share = 0.0,
) -> nn.Sequential:
    """WideResNet-28-10 with 640 features: three stages of (depth − 4)/6 blocks, widths 16, 32, 64 times `widening`.

    `dropout` is between the two convolutions of each block. Other arguments as for `resnet18`.

    >>> import torch
    >>> wide_resnet(shape=(8, 8), depth=10, widening=1)(torch.zeros(2, 8, 8, 3)).shape
    torch.Size([2, 10])
    """
    blocks, rest = divmod(depth - 4, 6)
    if rest or blocks < 1:
        raise ValueError(f"depth: must be 6 n + 4 with n of 1 or more (found {depth}); 28 is usual")
    _check_sides(shape, 3)
    layers: list[nn.Module] = [picture_input(in_channels, shape, mean, std), _convolution(in_channels, 16, 3)]
    channels = 16
    for stage in range(3):
        following = 16 * widening * 2**stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            layers.append(_Wide(channels, following, stride, sensitive, dropout))
            channels = following
    layers += [nn.BatchNorm2d(channels), _activation(sensitive), GlobalAverage(), nn.Linear(channels, classes)]
    return with_norm(nn.Sequential(*layers), spectral)


def picture_input(in_channels: Count, shape: tuple[int, int], mean: Scale, std: Scale) -> ImageInput:
    """The first layer of a network for pictures.

    >>> picture_input(1, (28, 28), None, None)
    ImageInput((28, 28), mean=0.1307, std=0.3081)
    """
    usual: Any = _USUAL.get(in_channels, (0.5, 0.25))
    return ImageInput(shape, usual[0] if mean is None else mean, usual[1] if std is None else std, in_channels)


def with_norm(network: nn.Sequential, spectral: float | None) -> nn.Sequential:
    """The network, with the norm of each convolution held at or below `spectral`; None: as it is."""
    if spectral is None:
        return network
    first = network[0]
    assert isinstance(first, ImageInput)
    normalised = spectrally_normalised(network, spectral, input_shape=(*first.shape, first.channels))
    assert isinstance(normalised, nn.Sequential)
    return normalised


class AveragePoolShortcut(nn.Module):
    """x → the mean of each stride × stride window, with zeros for the channels that x does not have.

    >>> import torch
    >>> AveragePoolShortcut(1, 2, 2)(torch.ones(1, 1, 3, 3)).shape  # 3 → 2 as a convolution of stride 2 does
    torch.Size([1, 2, 2, 2])
    """

    def __init__(self, in_channels: Count, out_channels: int, stride: int) -> None:
        super().__init__()
        self.stride, self.more_channels = stride, out_channels - in_channels

    def forward(self, maps: Tensor) -> Tensor:
        if self.stride > 1:
            maps = F.avg_pool2d(maps, self.stride, ceil_mode=True)  # what is left at an edge is averaged by itself
        return F.pad(maps, (0, 0, 0, 0, 0, self.more_channels))

    def extra_repr(self) -> str:
        return f"stride={self.stride}, more_channels={self.more_channels}"


class GlobalAverage(nn.Module):
    """(n, channels, H, W) → (n, channels), the mean over the picture."""

    def forward(self, maps: Tensor) -> Tensor:
        return maps.mean((2, 3))


class _Basic(nn.Module):
    expansion = 1

    def __init__(self, channels: int, width: Count, stride: int, sensitive: bool) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            *(_convolution(channels, width, 3, stride), nn.BatchNorm2d(width), _activation(sensitive)),
            *(_convolution(width, width, 3), nn.BatchNorm2d(width)),
        )
        self.shortcut = _shortcut(channels, width, stride, sensitive)
        self.activation = _activation(sensitive)

    def forward(self, maps: Tensor) -> Tensor:
        out: Tensor = self.activation(self.convolutions(maps) + self.shortcut(maps))
        return out


class _Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, channels: int, width: Count, stride: int, sensitive: bool) -> None:
        super().__init__()
        wide = self.expansion * width
        self.convolutions = nn.Sequential(
            *(_convolution(channels, width, 1), nn.BatchNorm2d(width), _activation(sensitive)),
            *(_convolution(width, width, 3, stride), nn.BatchNorm2d(width), _activation(sensitive)),
            *(_convolution(width, wide, 1), nn.BatchNorm2d(wide)),
        )
        self.shortcut = _shortcut(channels, wide, stride, sensitive)
        self.activation = _activation(sensitive)

    def forward(self, maps: Tensor) -> Tensor:
        out: Tensor = self.activation(self.convolutions(maps) + self.shortcut(maps))
        return out


class _Wide(nn.Module):
    def __init__(self, channels: int, width: Count, stride: int, sensitive: bool, dropout: Share) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            *(nn.BatchNorm2d(channels), _activation(sensitive), _convolution(channels, width, 3, stride)),
            *([nn.Dropout(dropout)] if dropout else []),
            *(nn.BatchNorm2d(width), _activation(sensitive), _convolution(width, width, 3)),
        )
        self.shortcut = _shortcut(channels, width, stride, sensitive, norm=False)

    def forward(self, maps: Tensor) -> Tensor:
        out: Tensor = self.convolutions(maps) + self.shortcut(maps)
        return out


def _resnet(
    block: type[_Basic] | type[_Bottleneck],
    blocks: tuple[int, ...],
    classes: Count,
    pictures: ImageInput,
    *,
    spectral: float | None,
    sensitive: bool,
    dropout: Share,
    width: Count,
) -> nn.Sequential:
    _check_sides(pictures.shape, len(blocks))
    layers = [pictures, _convolution(pictures.channels, width, 3), nn.BatchNorm2d(width), _activation(sensitive)]
    channels = width
    for stage, count in enumerate(blocks):
        for number in range(count):
            stride = 2 if stage and not number else 1
            layers.append(block(channels, width * 2**stage, stride, sensitive))
            channels = block.expansion * width * 2**stage
    layers += [GlobalAverage(), *([nn.Dropout(dropout)] if dropout else []), nn.Linear(channels, classes)]
    return with_norm(nn.Sequential(*layers), spectral)


def _convolution(channels: int, width: Count, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)


def _activation(sensitive: bool) -> nn.Module:
    return nn.LeakyReLU(0.01) if sensitive else nn.ReLU()


def _shortcut(channels: int, width: Count, stride: int, sensitive: bool, norm: bool = True) -> nn.Module:
    if stride == 1 and channels == width:
        return nn.Identity()
    if sensitive:
        return AveragePoolShortcut(channels, width, stride)
    convolution = _convolution(channels, width, 1, stride)
    return nn.Sequential(convolution, nn.BatchNorm2d(width)) if norm else convolution


def _check_sides(shape: tuple[int, ...], stages: int) -> None:
    if len(shape) != 2 or min(shape) < 2 ** (stages - 1):
        least = 2 ** (stages - 1)
        raise ValueError(f"shape: expected height and width of at least {least} pixels, found {shape}; resize pictures")
