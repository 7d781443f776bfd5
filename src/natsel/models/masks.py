"""Masks that stay: one forward pass through any module for K draws of its dropout, the same K for every point.

    mask(seed, layer, draw) ~ Bernoulli(1 − p) over one point's features        f_k(x) = module(x; masks of draw k)

A draw is one function, so its masks may depend on nothing but the seed, the layer (how many dropouts were called
before it in the pass) and the number of the draw: neither on the point, nor on the mini-batch, the worker or the day.
Dropout is caught where it is called (`nn.Dropout` and its kin call `torch.nn.functional`), so that the module need not
be changed. What comes before the first dropout is computed once a point; from there on a batch has n·K rows, the draws
of a point side by side.

Channel dropout that feeds a convolution is cheaper still, for a convolution is linear and a mask of channels constant
over space:

    conv(mask_k ∘ h) = Σ_c mask_kc conv_c(h_c)

The sums over the window are done once for each channel, and the K draws are a matrix product.
Spec 03, 9 (consistent Monte-Carlo dropout).
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from natsel.seeds import derive

# Which functions drop features, and whether they drop whole channels and keep the mean and variance of SELU networks.
_DROPOUTS: dict[Any, tuple[bool, bool]] = {
    **dict.fromkeys((F.dropout, torch.dropout, torch.dropout_), (False, False)),
    **dict.fromkeys((F.dropout1d, F.dropout2d, F.dropout3d), (True, False)),
    **dict.fromkeys((torch.feature_dropout, torch.feature_dropout_), (True, False)),
    **dict.fromkeys((F.alpha_dropout, torch.alpha_dropout, torch.alpha_dropout_), (False, True)),
    **dict.fromkeys((F.feature_alpha_dropout, torch.feature_alpha_dropout), (True, True)),
}
# −1 times what a SELU gives far below zero.
_ALPHA = 1.7580993408473766

aten = torch.ops.aten
# relu(m h) = m relu(h), and so with pooling, as masks are never negative and constant over a channel.
_COMMUTES = (aten.relu.default, aten.max_pool2d_with_indices.default, aten.avg_pool2d.default)


class Masks:
    """The masks of a seed; they are kept while they take less than `room` bytes in all."""

    def __init__(self, seed: int, room: int) -> None:
        self.seed, self.room = seed, room
        self._kept: dict[Any, Tensor] = {}

    def __call__(
        self, layer: int, draws: Sequence[int], p: float, scale: float, shape: Sequence[int], like: Tensor
    ) -> Tensor:
        """[K, …]: `scale` where a feature stays and 0 where it is dropped, in the type and on the device of `like`."""
        key = (layer, tuple(draws), p, scale, tuple(shape), like.dtype, like.device)
        mask_K_F = self._kept.get(key)
        if mask_K_F is None:
            keep_K_F = torch.stack([self._uniform(layer, draw, shape) >= p for draw in draws])
            mask_K_F = keep_K_F.to(like.device, like.dtype).mul_(scale)
            if mask_K_F.nbytes <= self.room:
                self.room -= mask_K_F.nbytes
                self._kept[key] = mask_K_F
        return mask_K_F

    def _uniform(self, layer: int, draw: int, shape: Sequence[int]) -> Tensor:
        # On the CPU for every device, so that all of them draw the same functions.
        generator = torch.Generator().manual_seed(derive(self.seed, "dropout", layer, draw))
        return torch.rand(tuple(shape), generator=generator)


class Draws(TorchFunctionMode):
    """While this mode is on, every dropout applies the masks of `draws` to a pass over `points` points.

    With one draw the batch keeps its size, which every module bears; with several it grows at the first dropout.
    `total` is the number of draws wanted in all, of which these may be a part; with `counting`, `bytes` adds up what
    the pass makes.
    """

    def __init__(self, masks: Masks, draws: Sequence[int], points: int, total: int, counting: bool = False) -> None:
        super().__init__()
        self.masks, self.draws, self.points, self.total, self.counting = masks, draws, points, total, counting
        self.layers = 0
        self.active = False
        self.bytes = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What torch calls in place of `func` while the mode is on."""
        kwargs = kwargs or {}
        if func in _DROPOUTS:
            result = self._dropout(func, *args, **kwargs)
        elif func is torch.conv2d and args and isinstance(args[0], Masked):
            result = self._convolution(*args, **kwargs)
        else:
            result = func(*args, **kwargs)
        if self.counting:
            self.bytes += _new_bytes(result, args)
        return result

    def _dropout(self, func: Any, input: Tensor, p: float = 0.5, *flags: Any, **more: Any) -> Tensor:
        """Masks applied whatever the flags say: the module is in evaluation mode, and nothing is done in place."""
        layer, self.layers = self.layers, self.layers + 1
        if p == 0:
            return input
        self.active = True
        by_channel, alpha = _DROPOUTS[func]
        draws, features = len(self.draws), input.shape[1:]
        shape = (*features[:1], *(1 for _ in features[1:])) if by_channel else features
        scale = 1 / (1 - p) if p < 1 else 0.0
        if alpha:
            scale *= math.sqrt((1 - p) / (_ALPHA**2 * p + 1))
        mask_K_F = self.masks(layer, self.draws, p, scale, shape, input)
        if draws == 1 or input.shape[0] == self.points:
            if by_channel and not alpha and draws > 1 and input.ndim == 4:
                return Masked(input, mask_K_F, self)
            input_n_K_F = input.unsqueeze(1)
        elif input.shape[0] == self.points * draws:
            input_n_K_F = input.reshape(self.points, draws, *features)
        else:
            raise RuntimeError(f"dropout {layer}: {input.shape[0]} rows are no batch of {self.points} points")
        masked_n_K_F = input_n_K_F * mask_K_F
        if alpha:  # what is dropped becomes what a SELU gives far below zero, and the mean is put back
            masked_n_K_F += (mask_K_F - (1 - p) * scale) * _ALPHA
        return masked_n_K_F.flatten(0, 1)

    def _convolution(
        self, input: "Masked", weight: Tensor, bias: Tensor | None = None,
        stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        """conv(mask_k ∘ h) = Σ_c mask_kc conv_c(h_c), where that is less work."""
        outputs, channels, *window = weight.shape
        # A window of one has no sums to share, and parts of many channels would take more room than the draws do.
        if input.multiplied or groups != 1 or math.prod(window) == 1 or channels > 4 * self.total:
            return F.conv2d(input.product(), weight, bias, stride, padding, dilation, groups)
        parts, mask_K_C = _channel_by_channel(input.h_n_F, weight, bias, stride, padding, dilation), input.mask_K_F
        if bias is not None:  # one more channel, never dropped: cheaper than a pass over all draws
            mask_K_C = F.pad(mask_K_C.flatten(1), (0, 1), value=1.0)
        self.bytes += parts.nbytes + parts.nbytes // outputs * math.prod(window)  # what the windows see, and their sums
        return (mask_K_C.flatten(1) @ parts.flatten(2)).view(-1, *parts.shape[2:])


def _channel_by_channel(
    h_n_F: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any
) -> Tensor:
    """conv_c(h_c) of every channel c by itself, and the bias as a channel more, [n, channels, outputs, H, W]."""
    outputs, channels, *window = weight.shape
    if isinstance(padding, str) or _pair(dilation) != (1, 1):
        apart = weight.transpose(0, 1).reshape(channels * outputs, 1, *window)
        maps = F.conv2d(h_n_F.contiguous(), apart, None, stride, padding, dilation, groups=channels)
        maps = maps.view(len(maps), channels, outputs, *maps.shape[2:])
        own = () if bias is None else (bias.view(1, 1, -1, 1, 1).expand(len(maps), 1, *maps.shape[2:]),)
        return torch.cat([maps, *own], 1)
    # The same as products of small matrices: a grouped convolution takes up to four times as long on a CPU and three
    # times on an accelerator. The bias is a channel of ones seen through the first place of the window.
    (down, across), (top, left) = _pair(stride), _pair(padding)
    padded = F.pad(h_n_F, (left, left, top, top)) if top or left else h_n_F
    views = padded.unfold(2, window[0], down).unfold(3, window[1], across).permute(0, 1, 4, 5, 2, 3)
    more, size = int(bias is not None), views.shape[4:]
    taps = h_n_F.new_zeros(len(h_n_F), channels + more, *window, *size)
    taps[:, :channels] = views
    weights = weight.new_zeros(channels + more, outputs, *window)
    weights[:channels] = weight.transpose(0, 1)
    if bias is not None:
        taps[:, -1, 0, 0], weights[-1, :, 0, 0] = 1, bias
    maps = weights.flatten(2) @ taps.flatten(4).flatten(2, 3)
    return maps.view(*maps.shape[:3], *size)


def _pair(setting: Any) -> tuple[int, int]:
    down, across = setting if isinstance(setting, tuple | list) else (setting, setting)
    return int(down), int(across)


class Masked(Tensor):
    """mask_k ∘ h for all draws of all points, [n·K, C, H, W], multiplied out only where something needs the numbers."""

    h_n_F: Tensor
    mask_K_F: Tensor
    seen: Draws
    _product: Tensor | None

    @staticmethod
    def __new__(cls, h_n_F: Tensor, mask_K_F: Tensor, seen: Draws) -> "Masked":
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


def _new_bytes(result: Any, args: Any) -> int:
    """The bytes of a result, none where it is a view of an argument."""
    if not isinstance(result, Tensor) or isinstance(result, Masked):
        return 0
    place = result.untyped_storage().data_ptr()
    given = (arg for arg in args if isinstance(arg, Tensor) and not isinstance(arg, Masked))
    return 0 if any(arg.untyped_storage().data_ptr() == place for arg in given) else result.nbytes
