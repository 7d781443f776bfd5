"""What a factored convolution leaves to be summed for each draw, and max-pooling that sums on the way.

    maps_nk = Σ_c mask_kc part_nc            [n·K, O, H, W], the largest tensor of a pass

Where 2×2 max-pooling follows, the sums of one point are made in memory that is used again for the next one: they stay
in the caches of a CPU, and only a quarter of their numbers is ever written beyond them.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from natsel.models.dropout.lazy import Counter, Later


class Sums(Later):
    """Σ_c mask_kc part_nc, with channels last in memory: both products and the pooling are faster so (1.3 times)."""

    parts_n_C_D: Tensor
    mask_K_C: Tensor
    sides: tuple[int, int, int]

    @staticmethod
    def __new__(cls, parts_n_C_D: Tensor, mask_K_C: Tensor, sides: tuple[int, int, int], seen: Counter) -> "Sums":
        """`sides` is how D divides into height, width and channels."""
        height, width, outputs = sides
        shape = (len(parts_n_C_D) * len(mask_K_C), outputs, height, width)
        strides = (height * width * outputs, 1, width * outputs, outputs)
        made = cls.of(shape, parts_n_C_D, seen, strides)
        made.parts_n_C_D, made.mask_K_C, made.sides = parts_n_C_D, mask_K_C, sides
        return made

    def make(self) -> Tensor:
        """All sums of all points."""
        return (self.mask_K_C @ self.parts_n_C_D).view(-1, *self.sides).permute(0, 3, 1, 2)

    def pooled(self) -> Tensor:
        """The largest of every 2×2 window, one point after another."""
        (height, width, outputs), draws = self.sides, len(self.mask_K_C)
        sums_K_D = self.parts_n_C_D.new_empty(draws, height * width * outputs)
        upper, lower = _halves(sums_K_D.view(draws, *self.sides), 1)
        rows = sums_K_D.new_empty(upper.shape)
        left, right = _halves(rows, 2)
        found_n_K = sums_K_D.new_empty(len(self.parts_n_C_D), *left.shape)
        for parts_C_D, found_K in zip(self.parts_n_C_D, found_n_K, strict=True):
            torch.mm(self.mask_K_C, parts_C_D, out=sums_K_D)
            torch.maximum(upper, lower, out=rows)
            torch.maximum(left, right, out=found_K)
        self.seen.bytes += sums_K_D.nbytes * len(found_n_K)  # as if made for each: draws are cut where one is too large
        return found_n_K.flatten(0, 1).permute(0, 3, 1, 2)


def pooled(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Max-pooling, in a way of its own where windows are 2×2 and next to each other.

    On a CPU the largest of strided views takes half the time of `max_pool2d` where channels lie last, and a tenth
    elsewhere.
    """
    beside = pair(kernel_size) == pair(stride or kernel_size) == (2, 2)
    plain = pair(padding) == (0, 0) and pair(dilation) == (1, 1) and not ceil_mode and not return_indices
    if beside and plain and input.ndim == 4 and input.device.type == "cpu":
        if isinstance(input, Sums) and not input.made:
            return input.pooled()
        if not isinstance(input, Later):
            rows = torch.maximum(*_halves(input, 2))
            return torch.maximum(*_halves(rows, 3))
    pool: Any = F.max_pool2d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def pair(setting: Any) -> tuple[int, int]:
    """One setting for both axes of a picture, or one for each."""
    down, across = setting if isinstance(setting, tuple | list) else (setting, setting)
    return int(down), int(across)


def _halves(maps: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Every first and every second place along an axis, as views; an odd last one is left out."""
    places = slice(0, maps.shape[axis] // 2 * 2, 2), slice(1, None, 2)
    before = (slice(None),) * axis
    return maps[(*before, places[0])], maps[(*before, places[1])]
