"""Convolutions of masked channels, computed once for all draws.

A convolution is linear, and a mask of channels is one number ≥ 0 for a whole channel:

    relu(m h) = m relu(h)        pool(m h) = m pool(h)        conv(mask_k ∘ h) = Σ_c mask_kc conv_c(h_c)

So masked maps are not multiplied out: they stay (mask, h) through ReLU and pooling until a convolution comes. There the
sums over the window are done once for each channel, and the K draws are a matrix product.  Spec 03, 9.
"""

import math
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._pytree import tree_map_only

aten = torch.ops.aten
_COMMUTES = (aten.relu.default, aten.max_pool2d_with_indices.default, aten.avg_pool2d.default)


class Counter(Protocol):
    """Whoever adds up the bytes of a pass."""

    bytes: int


class Masked(Tensor):
    """mask_k ∘ h for all draws of all points, [n·K, C, H, W], multiplied out only where something needs the numbers."""

    h_n_F: Tensor
    mask_K_F: Tensor
    seen: Counter
    _product: Tensor | None

    @staticmethod
    def __new__(cls, h_n_F: Tensor, mask_K_F: Tensor, seen: Counter) -> "Masked":
        """Shape, type and device of the product, and none of its memory."""
        shape = (h_n_F.shape[0] * mask_K_F.shape[0], *h_n_F.shape[1:])
        made = Tensor._make_wrapper_subclass(cls, shape, dtype=h_n_F.dtype, device=h_n_F.device)
        made.h_n_F, made.mask_K_F, made.seen, made._product = h_n_F, mask_K_F, seen, None
        seen.bytes += h_n_F.nbytes
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @property
    def multiplied(self) -> bool:
        """Whether the numbers exist, and may have been changed in place since."""
        return self._product is not None

    def product(self) -> Tensor:
        """The numbers themselves."""
        if self._product is None:
            self._product = (self.h_n_F.unsqueeze(1) * self.mask_K_F).flatten(0, 1)
            self.seen.bytes += self._product.nbytes
        return self._product

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """What torch calls for every elementary operation on one of these."""
        this: Any = args[0] if args else None
        lazy = isinstance(this, Masked) and not this.multiplied
        if lazy and func in _COMMUTES:
            found = func(this.h_n_F, *args[1:], **(kwargs or {}))
            if isinstance(found, tuple):  # pooling gives positions too
                return Masked(found[0], this.mask_K_F, this.seen), found[1]
            return Masked(found, this.mask_K_F, this.seen)
        if lazy and func is aten.relu_.default:
            this.h_n_F = this.h_n_F.relu()
            return this
        # Changed in place, it is the product that changes, and stays.
        args, kwargs = tree_map_only(Masked, Masked.product, (args, kwargs or {}))
        return func(*args, **kwargs)


def convolution(
    draws: int, input: Masked, weight: Tensor, bias: Tensor | None = None,
    stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """conv(mask_k ∘ h) = Σ_c mask_kc conv_c(h_c), where that is less work."""
    outputs, channels, *window = weight.shape
    # A window of one has no sums to share, and parts of many channels would take more room than the draws do.
    few = not input.multiplied and groups == 1 and math.prod(window) > 1 and channels <= 4 * draws
    if not few or isinstance(padding, str) or _pair(dilation) != (1, 1):
        return F.conv2d(input.product(), weight, bias, stride, padding, dilation, groups)
    # Sums as products of small matrices: a grouped convolution takes up to four times as long on a CPU and three times
    # on an accelerator. The bias is one more channel, never dropped, of ones seen through the first place of a window:
    # cheaper than a pass over all draws.
    (down, across), (top, left) = _pair(stride), _pair(padding)
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
    # Channels lie last in memory: both products and the pooling that follows are faster so (measured: 1.3 times).
    parts_C_n = (taps.flatten(3).flatten(1, 2).mT @ weights.flatten(1, 2)).view(channels + more, len(h_n_F), -1)
    input.seen.bytes += taps.nbytes + parts_C_n.nbytes
    return (mask_K_C @ parts_C_n.transpose(0, 1)).view(-1, *size, outputs).permute(0, 3, 1, 2)


def pooled(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Max-pooling, in a way of its own where windows are 2×2 and next to each other.

    On a CPU the largest of strided views takes half the time of `max_pool2d` where channels lie last, and a tenth
    elsewhere.
    """
    beside = _pair(kernel_size) == _pair(stride or kernel_size) == (2, 2)
    plain = _pair(padding) == (0, 0) and _pair(dilation) == (1, 1) and not ceil_mode and not return_indices
    if beside and plain and input.ndim == 4 and input.device.type == "cpu" and not isinstance(input, Masked):
        even = input[..., : input.shape[2] // 2 * 2, : input.shape[3] // 2 * 2]
        rows = torch.maximum(even[..., ::2, :], even[..., 1::2, :])
        return torch.maximum(rows[..., ::2], rows[..., 1::2])
    pool: Any = F.max_pool2d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _pair(setting: Any) -> tuple[int, int]:
    down, across = setting if isinstance(setting, tuple | list) else (setting, setting)
    return int(down), int(across)
