"""Pictures that are changed at random before a training step: shifted, mirrored, and partly covered.

    crop    the picture with `padding` pixels of 0 around it, cut out at a random place in its own size
    flip    left and right exchanged, with probability ½
    hole    a square of `hole` × `hole` pixels set to 0, wholly inside the picture, at a random place

All pictures of a step are changed at once, where they are. Random numbers come from a generator on that device, which
the training loop has from its seed. Only training steps see changed pictures: losses that a source of batches looks at,
validation and predictions see them as they are.  He et al. 2016; holes: DeVries and Taylor 2017.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional as F

from natsel.options import check_options


@runtime_checkable
class Augmentation(Protocol):
    """What `Training(augmentation=…)` takes: a frozen value, called with the inputs of a step and a generator.

    Inputs are as they are stored (bytes stay bytes), on the device of the generator.
    """

    def __call__(self, inputs_B: Tensor, generator: torch.Generator) -> Tensor: ...


@dataclass(frozen=True)
class CropFlip:
    """Random crops of padded pictures, horizontal flips, and holes where `hole` is above 0.

    Pictures are (n, H, W), or have their channels last where the last axis has at most 4 entries, else first.

    >>> pictures_B = torch.arange(2 * 4 * 4).reshape(2, 4, 4)
    >>> moved_B = CropFlip(padding=1, flip=False)(pictures_B, torch.Generator().manual_seed(0))
    >>> moved_B.shape, bool((moved_B == pictures_B).all())
    (torch.Size([2, 4, 4]), False)
    """

    padding: int = 4
    flip: bool = True
    hole: int = 0

    def __post_init__(self) -> None:
        check_options(self, padding=0, hole=0)

    def __call__(self, inputs_B: Tensor, generator: torch.Generator) -> Tensor:
        if inputs_B.ndim not in (3, 4):
            raise ValueError(
                f"augmentation: crops and flips are for pictures, found inputs of shape {tuple(inputs_B.shape[1:])};"
                " leave it out"
            )
        channels_first = inputs_B.ndim == 4 and inputs_B.shape[3] > 4
        pictures_B_H_W = inputs_B.permute(0, 2, 3, 1) if channels_first else inputs_B
        count, height, width = pictures_B_H_W.shape[:3]
        device = inputs_B.device
        shifts_2_B = torch.randint(2 * self.padding + 1, (2, count, 1), generator=generator, device=device)
        rows_B_H = shifts_2_B[0] + torch.arange(height, device=device)
        columns_B_W = shifts_2_B[1] + torch.arange(width, device=device)
        if self.flip:
            mirrored_B = torch.randint(2, (count, 1), generator=generator, device=device, dtype=torch.bool)
            columns_B_W = torch.where(mirrored_B, columns_B_W.flip(1), columns_B_W)
        around = (0, 0) * (pictures_B_H_W.ndim - 3) + (self.padding,) * 4
        padded_B = F.pad(pictures_B_H_W, around)
        examples_B = torch.arange(count, device=device)[:, None, None]
        found_B = padded_B[examples_B, rows_B_H[:, :, None], columns_B_W[:, None, :]]
        if self.hole:
            inside = []
            for size in (height, width):
                starts_B_1 = torch.randint(max(size - self.hole, 0) + 1, (count, 1), generator=generator, device=device)
                from_start_B_S = torch.arange(size, device=device) - starts_B_1
                inside.append((from_start_B_S >= 0) & (from_start_B_S < self.hole))
            covered_B_H_W = inside[0][:, :, None] & inside[1][:, None, :]
            found_B = found_B.masked_fill(covered_B_H_W[..., None] if found_B.ndim == 4 else covered_B_H_W, 0)
        return found_B.permute(0, 3, 1, 2) if channels_first else found_B
