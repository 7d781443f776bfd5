"""Pictures that are changed at random before a training step: shifted, and mirrored.

    crop    the picture with `padding` pixels of 0 around it, cut out at a random place in its own size
    flip    left and right exchanged, with probability ½

All pictures of a step are changed at once, where they are. Random numbers come from a generator on that device, which
the training loop has from its seed. Only training steps see changed pictures: losses that a source of batches looks at,
validation and predictions see them as they are.  He et al. 2016.
"""

from dataclasses import dataclass
from numbers import Integral
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional as F


@runtime_checkable
class Augmentation(Protocol):
    """What `Training(augmentation=…)` takes: a frozen value, called with the inputs of a step and a generator.

    Inputs are as they are stored (bytes stay bytes), on the device of the generator.
    """

    def __call__(self, inputs_B: Tensor, generator: torch.Generator) -> Tensor: ...


@dataclass(frozen=True)
class CropFlip:
    """Random crops of padded pictures, and horizontal flips.

    Pictures are (n, H, W), or have their channels last where the last axis has at most 4 entries, else first.

    >>> pictures_B = torch.arange(2 * 4 * 4).reshape(2, 4, 4)
    >>> moved_B = CropFlip(padding=1, flip=False)(pictures_B, torch.Generator().manual_seed(0))
    >>> moved_B.shape, bool((moved_B == pictures_B).all())
    (torch.Size([2, 4, 4]), False)
    """

    padding: int = 4
    flip: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.padding, Integral) or self.padding < 0:
            raise ValueError(
                f"padding: expected 0 or more pixels, found {self.padding!r}; 4 is usual for 32×32 pictures"
            )

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
        return found_B.permute(0, 3, 1, 2) if channels_first else found_B
