"""A network that gives every pixel its own logits: convolutions alone, at the full size of the picture.

    x ← W₀ x;   x ← x + f_l(x),  l = 1 … blocks;   logits = W x          f: norm, relu, 3×3, norm, relu, 3×3

The convolutions of block l look at every 2^(l−1)-th pixel (dilation), so that the field that a pixel sees grows as
2^blocks while nothing is pooled. The last layer is a 1×1 convolution: what it sees of a pixel are its features. No
activation stands before it: a ReLU would lose what is negative, and with it what is unfamiliar. Any size will do.
Yu and Koltun 2016; docs/theory/deterministic-uncertainty.md, 10.
"""

from torch import Tensor, nn


def pixel_network(classes: int, in_channels: int = 3, width: int = 16, blocks: int = 3) -> nn.Sequential:
    """Pictures (n, in_channels, H, W) in [0, 1] → logits (n, classes, H, W), from `width` features for each pixel.

    `natsel.models.inputs_of(network, pictures)` makes such inputs of bytes with channels last.

    >>> import torch
    >>> pixel_network(4)(torch.zeros(2, 3, 9, 7)).shape
    torch.Size([2, 4, 9, 7])
    """
    if min(classes, in_channels, width, blocks) < 1:
        found = f"{classes}, {in_channels}, {width} and {blocks}"
        raise ValueError(f"classes, in_channels, width, blocks: must be at least 1, found {found}; raise them")
    return nn.Sequential(
        nn.Conv2d(in_channels, width, 3, padding=1),
        *(_DilatedBlock(width, 2**number) for number in range(blocks)),
        nn.Conv2d(width, classes, 1),
    )


class _DilatedBlock(nn.Module):
    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            *(nn.BatchNorm2d(width), nn.ReLU(), _dilated(width, dilation)),
            *(nn.BatchNorm2d(width), nn.ReLU(), _dilated(width, dilation)),
        )

    def forward(self, maps: Tensor) -> Tensor:
        out: Tensor = maps + self.convolutions(maps)
        return out


def _dilated(width: int, dilation: int) -> nn.Conv2d:
    return nn.Conv2d(width, width, 3, padding=dilation, dilation=dilation, bias=False)
