"""Convolutions of masked channels, computed once for all draws.

A convolution is linear, and a mask of channels is one number ≥ 0 for a whole channel:

    relu(m h) = m relu(h)        pool(m h) = m pool(h)        conv(mask_k ∘ h) = Σ_c mask_kc conv_c(h_c)

So masked maps are not multiplied out: they stay (mask, h) through ReLU and pooling until a convolution comes. There the
sums over the window are done once for each channel, and the K draws are a matrix product.  Spec 03, 9.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from natsel.models.dropout.lazy import Counter, Later
from natsel.models.dropout.lazy_sums import Sums, pair

aten = torch.ops.aten
_COMMUTES = (aten.relu.default, aten.max_pool2d_with_indices.default, aten.avg_pool2d.default)


class Masked(Later):
    """mask_k ∘ h for all draws of all points, [n·K, C, H, W], multiplied out only where something needs the numbers."""

    h_n_F: Tensor
    mask_K_F: Tensor

    @staticmethod
    def __new__(cls, h_n_F: Tensor, mask_K_F: Tensor, seen: Counter) -> "Masked":
        """Shape, type and device of the product, and none of its memory."""
        made = cls.of((h_n_F.shape[0] * mask_K_F.shape[0], *h_n_F.shape[1:]), h_n_F, seen)
        made.h_n_F, made.mask_K_F = h_n_F, mask_K_F
        seen.bytes += h_n_F.nbytes
        return made

    def make(self) -> Tensor:
        """The product."""
        return (self.h_n_F.unsqueeze(1) * self.mask_K_F).flatten(0, 1)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """ReLU and pooling before the mask instead of after it."""
        this: Any = args[0] if args else None
        lazy = isinstance(this, Masked) and not this.made
        if lazy and func in _COMMUTES:
            found = func(this.h_n_F, *args[1:], **(kwargs or {}))
            if isinstance(found, tuple):  # pooling gives positions too
                return Masked(found[0], this.mask_K_F, this.seen), found[1]
            return Masked(found, this.mask_K_F, this.seen)
        if lazy and func is aten.relu_.default:
            this.h_n_F = this.h_n_F.relu()
            return this
        return super().__torch_dispatch__(func, types, args, kwargs)


def convolution(
    draws: int, input: Masked, weight: Tensor, bias: Tensor | None = None,
    stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """conv(mask_k ∘ h) = Σ_c mask_kc conv_c(h_c), where that is less work."""
    outputs, channels, *window = weight.shape
    # A window of one has no sums to share, and parts of many channels would take more room than the draws do.
    few = not input.made and groups == 1 and math.prod(window) > 1 and channels <= 4 * draws
    if not few or isinstance(padding, str) or pair(dilation) != (1, 1):
        return F.conv2d(input.numbers(), weight, bias, stride, padding, dilation, groups)
    # Sums as products of small matrices: a grouped convolution takes up to four times as long on a CPU and three times
    # on an accelerator. The bias is one more channel, never dropped, of ones seen through the first place of a window:
    # cheaper than a pass over all draws.
    (down, across), (top, left) = pair(stride), pair(padding)
    h_n_F, mask_K_C, more = input.h_n_F.contiguous(), input.mask_K_F.flatten(1), int(bias is not None)
    padded = F.pad(h_n_F, (left, left, top, top)) if top or left else h_n_F
    views = padded.unfold(2, window[0], down).unfold(3, window[1], across).permute(1, 4, 5, 0, 2, 3)
    size = views.shape[4:]
    taps = h_n_F.new_empty(channels + more, *views.shape[1:])
    taps[:channels] = views
    weights = weight.new_zeros(channels + more, *window, outputs)
    weights[:channels] = weight.permute(1, 2, 3, 0)
    if bias is not None:
        taps[-1] = 0
        taps[-1, 0, 0], weights[-1, 0, 0] = 1, bias
        mask_K_C = F.pad(mask_K_C, (0, 1), value=1.0)
    parts_C_n_D = (taps.flatten(3).flatten(1, 2).mT @ weights.flatten(1, 2)).view(channels + more, len(h_n_F), -1)
    input.seen.bytes += taps.nbytes + parts_C_n_D.nbytes
    return Sums(parts_C_n_D.transpose(0, 1), mask_K_C, (*size, outputs), input.seen)
