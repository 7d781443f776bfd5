"""Tensors that stand for masked channels, so that convolutions are computed once for all draws of dropout.

A convolution is linear, and a mask of channels is one number ≥ 0 for a whole channel:

    relu(m h) = m relu(h)        pool(m h) = m pool(h)        conv(mask_k ∘ h) = Σ_c mask_kc conv_c(h_c)

Masked maps are therefore not multiplied out. They stay the pair (mask, h) through ReLU and pooling (`MaskedMaps`) until
a convolution comes. There the sums over the window are done once for each channel, and the K draws are a matrix product
(`SummedParts`). Max-pooling of 2×2 sums and pools one point after another, so that sums stay in the caches of a CPU.

A network flattens [m, C, H, W] with channels first for its linear layers, and here channels lie last in memory. Moving
the numbers of every draw takes longer than moving the weights that they meet (`ChannelsLastMaps`):

    linear(flatten(maps), weight) = linear(maps as they lie, weight with its inputs in that order)

Each is a subclass of `LazyTensor`, which has the shape, type and device of the result and none of its memory. An
operation that knows a cheaper way looks inside; every other operation gets the numbers.
docs/theory/batchbald.md, 12 (consistent draws); Kirsch et al. 2019.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, Self

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._pytree import tree_map_only

aten = torch.ops.aten
_COMMUTE_WITH_MASKS = (aten.relu.default, aten.max_pool2d_with_indices.default, aten.avg_pool2d.default)


class ByteCounter(Protocol):
    """Whoever adds up the bytes of a pass."""

    bytes: int


class LazyTensor(Tensor):
    """A result that is computed only where an operation needs its numbers."""

    counter: ByteCounter
    _numbers: Tensor | None

    @classmethod
    def of_shape(
        cls, shape: Sequence[int], like: Tensor, counter: ByteCounter, strides: Sequence[int] | None = None
    ) -> Self:
        """A tensor with the type and on the device of `like`; `strides` where it will not be contiguous."""
        lazy = Tensor._make_wrapper_subclass(cls, shape, strides, dtype=like.dtype, device=like.device)
        lazy.counter, lazy._numbers = counter, None
        return lazy

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @property
    def computed(self) -> bool:
        """Whether the numbers exist; they may have been changed in place since."""
        return self._numbers is not None

    @abstractmethod
    def compute(self) -> Tensor:
        """Compute the numbers."""

    def numbers(self) -> Tensor:
        """The numbers themselves, computed once."""
        if self._numbers is None:
            self._numbers = self.compute()
            self.counter.bytes += self._numbers.nbytes
        return self._numbers

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """What torch calls for every elementary operation on one of these."""
        # An operation in place changes the numbers, which are kept.
        args, kwargs = tree_map_only(LazyTensor, lambda lazy: lazy.numbers(), (args, kwargs or {}))
        return func(*args, **kwargs)


class MaskedMaps(LazyTensor):
    """mask_k ∘ h for all draws of all points, [n·K, C, H, W]."""

    h_n_F: Tensor
    mask_K_F: Tensor

    @staticmethod
    def __new__(cls, h_n_F: Tensor, mask_K_F: Tensor, counter: ByteCounter) -> "MaskedMaps":
        """Shape, type and device of the product, and none of its memory."""
        lazy = cls.of_shape((h_n_F.shape[0] * mask_K_F.shape[0], *h_n_F.shape[1:]), h_n_F, counter)
        lazy.h_n_F, lazy.mask_K_F = h_n_F, mask_K_F
        counter.bytes += h_n_F.nbytes
        return lazy

    def compute(self) -> Tensor:
        """The product."""
        return (self.h_n_F.unsqueeze(1) * self.mask_K_F).flatten(0, 1)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """ReLU and pooling are done before the mask instead of after it."""
        this: Any = args[0] if args else None
        lazy = isinstance(this, MaskedMaps) and not this.computed
        if lazy and func in _COMMUTE_WITH_MASKS:
            found = func(this.h_n_F, *args[1:], **(kwargs or {}))
            if isinstance(found, tuple):  # pooling gives positions too
                return MaskedMaps(found[0], this.mask_K_F, this.counter), found[1]
            return MaskedMaps(found, this.mask_K_F, this.counter)
        if lazy and func is aten.relu_.default:
            this.h_n_F = this.h_n_F.relu()
            return this
        return super().__torch_dispatch__(func, types, args, kwargs)


class SummedParts(LazyTensor):
    """Σ_c mask_kc part_nc, [n·K, O, H, W], the largest tensor of a pass.

    Channels lie last in memory: products and pooling are 1.3 times as fast.
    """

    parts_n_C_D: Tensor
    mask_K_C: Tensor
    sides: tuple[int, int, int]

    @staticmethod
    def __new__(
        cls, parts_n_C_D: Tensor, mask_K_C: Tensor, sides: tuple[int, int, int], counter: ByteCounter
    ) -> "SummedParts":
        """`sides` is how D divides into height, width and channels."""
        height, width, outputs = sides
        shape = (len(parts_n_C_D) * len(mask_K_C), outputs, height, width)
        lazy = cls.of_shape(shape, parts_n_C_D, counter, (height * width * outputs, 1, width * outputs, outputs))
        lazy.parts_n_C_D, lazy.mask_K_C, lazy.sides = parts_n_C_D, mask_K_C, sides
        return lazy

    def compute(self) -> Tensor:
        """All sums of all points."""
        return (self.mask_K_C @ self.parts_n_C_D).view(-1, *self.sides).permute(0, 3, 1, 2)

    def max_pooled(self) -> Tensor:
        """The largest of every 2×2 window. The sums of one point are made in memory that is used again for the next."""
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
        # Counted as if made for each point: draws are divided where one point is too large.
        self.counter.bytes += sums_K_D.nbytes * len(found_n_K)
        return found_n_K.flatten(0, 1).permute(0, 3, 1, 2)


class ChannelsLastMaps(LazyTensor):
    """Maps with channels last in memory that look like [m, C, H, W], or flattened [m, C·H·W], with channels first."""

    maps_m_H_W_C: Tensor

    @staticmethod
    def __new__(cls, maps_m_H_W_C: Tensor, shape: Sequence[int], counter: ByteCounter) -> "ChannelsLastMaps":
        """`shape` is [m, C, H, W] or [m, C·H·W]."""
        lazy = cls.of_shape(shape, maps_m_H_W_C, counter)
        lazy.maps_m_H_W_C = maps_m_H_W_C
        return lazy

    def compute(self) -> Tensor:
        """The numbers moved, channels first."""
        return self.maps_m_H_W_C.permute(0, 3, 1, 2).contiguous().view(self.shape)

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """A linear layer of the flattened maps."""
        rows, *lie, channels = self.maps_m_H_W_C.shape
        if self.computed or self.ndim != 2:
            return F.linear(self.numbers(), weight, bias)
        weight_O_D = weight.reshape(-1, channels, *lie).permute(0, 2, 3, 1).reshape(weight.shape)
        return F.linear(self.maps_m_H_W_C.reshape(rows, -1), weight_O_D, bias)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """Flattening keeps the numbers where they are."""
        this: Any = args[0] if args else None
        lazy = isinstance(this, ChannelsLastMaps) and not this.computed
        if lazy and func is aten.view.default and len(args[1]) == 2:
            (rows, columns), flat = args[1], (len(this), math.prod(this.shape[1:]))
            if rows in (-1, flat[0]) and columns in (-1, flat[1]):
                return ChannelsLastMaps(this.maps_m_H_W_C, flat, this.counter)
        return super().__torch_dispatch__(func, types, args, kwargs)


def convolution(
    draws: int, input: MaskedMaps, weight: Tensor, bias: Tensor | None = None,
    stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """conv(mask_k ∘ h) = Σ_c mask_kc conv_c(h_c), where that is less work than K convolutions."""
    outputs, channels, *window = weight.shape
    # A window of one has no sums to share, and parts of many channels would take more room than the draws do.
    few = not input.computed and groups == 1 and math.prod(window) > 1 and channels <= 4 * draws
    if not few or isinstance(padding, str) or _pair(dilation) != (1, 1):
        return F.conv2d(input.numbers(), weight, bias, stride, padding, dilation, groups)
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
    parts_C_n_D = (taps.flatten(3).flatten(1, 2).mT @ weights.flatten(1, 2)).view(channels + more, len(h_n_F), -1)
    input.counter.bytes += taps.nbytes + parts_C_n_D.nbytes
    return SummedParts(parts_C_n_D.transpose(0, 1), mask_K_C, (*size, outputs), input.counter)


def max_pooled(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Max-pooling, done by strided views on a CPU where windows are 2×2 and next to each other.

    That takes half the time of `max_pool2d` where channels lie last, and a tenth elsewhere.
    """
    adjacent = _pair(kernel_size) == _pair(stride or kernel_size) == (2, 2)
    plain = _pair(padding) == (0, 0) and _pair(dilation) == (1, 1) and not ceil_mode and not return_indices
    if adjacent and plain and input.ndim == 4 and input.device.type == "cpu":
        if isinstance(input, SummedParts) and not input.computed:
            return input.max_pooled()
        if not isinstance(input, LazyTensor):
            return torch.maximum(*_halves(torch.maximum(*_halves(input, 2)), 3))
    pool: Any = F.max_pool2d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _pair(setting: Any) -> tuple[int, int]:
    """One setting for both axes of a picture, or one for each."""
    down, across = setting if isinstance(setting, tuple | list) else (setting, setting)
    return int(down), int(across)


def _halves(maps: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Every first and every second place along an axis, as views; an odd last one is left out."""
    before = (slice(None),) * axis
    return maps[(*before, slice(0, maps.shape[axis] // 2 * 2, 2))], maps[(*before, slice(1, None, 2))]
