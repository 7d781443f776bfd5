"""Masks that stay: one forward pass through any module for K draws of its dropout, the same K for every point.

    mask(seed, layer, draw) ~ Bernoulli(1 − p) over one point's features        f_k(x) = module(x; masks of draw k)

A draw is one function, so its masks may depend on nothing but the seed, the layer (how many dropouts were called
before it in the pass) and the number of the draw: neither on the point, nor on the mini-batch, the worker or the day.
Dropout is caught where it is called (`nn.Dropout` and its kin call `torch.nn.functional`), so that the module need not
be changed. What comes before the first dropout is computed once per point; from there on a batch has n·K rows, the
draws of a point side by side.

Channel dropout that feeds a convolution is cheaper still (`natsel.models.dropout.lazy_convolutions`).
docs/theory/batchbald.md, 12 (consistent draws); Kirsch et al. 2019.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from natsel.models.dropout.lazy_convolutions import ChannelsLastMaps, LazyTensor, MaskedMaps, convolution, max_pooled
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


class Masks:
    """The masks of a seed; they are kept while they take less than `room` bytes in all."""

    def __init__(self, seed: int, room: int) -> None:
        self.seed, self.room = seed, room
        self._kept: dict[Any, Tensor] = {}
        self.shapes: set[tuple[int, ...]] = set()
        """Those of masks with several axes, such as channels × length: points of another length have other masks."""

    def __call__(
        self, layer: int, draws: Sequence[int], p: float, scale: float, shape: Sequence[int], like: Tensor
    ) -> Tensor:
        """[K, …]: `scale` where a feature stays and 0 where it is dropped, in the type and on the device of `like`."""
        key = (layer, tuple(draws), p, scale, tuple(shape), like.dtype, like.device)
        self.shapes |= {tuple(shape)} if sum(size > 1 for size in shape) > 1 else set()
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
        elif func is torch.conv2d and args and isinstance(args[0], MaskedMaps):
            result = convolution(self.total, *args, **kwargs)
        elif func is F.max_pool2d and args and isinstance(args[0], Tensor):
            result = max_pooled(*args, **kwargs)
        elif func is F.linear and args and isinstance(args[0], ChannelsLastMaps):
            result = args[0].linear(*args[1:], **kwargs)
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
                return MaskedMaps(input, mask_K_F, self)
            input_n_K_F = input.unsqueeze(1)
        elif input.shape[0] == self.points * draws:
            input_n_K_F = input.reshape(self.points, draws, *features)
        else:
            raise RuntimeError(f"dropout {layer}: {input.shape[0]} rows are no batch of {self.points} points")
        masked_n_K_F = input_n_K_F * mask_K_F
        if alpha:  # what is dropped becomes what a SELU gives far below zero, and the mean is put back
            masked_n_K_F += (mask_K_F - (1 - p) * scale) * _ALPHA
        masked = masked_n_K_F.flatten(0, 1)
        last = masked.ndim == 4 and masked.is_contiguous(memory_format=torch.channels_last)
        if draws > 1 and last and not masked.is_contiguous():
            return ChannelsLastMaps(masked.permute(0, 2, 3, 1), masked.shape, self)
        return masked


def _new_bytes(result: Any, args: Any) -> int:
    """The bytes of a result, none where it is a view of an argument."""
    if not isinstance(result, Tensor) or isinstance(result, LazyTensor):
        return 0
    place = result.untyped_storage().data_ptr()
    given = [arg for arg in args if isinstance(arg, Tensor) and not isinstance(arg, LazyTensor)]
    given += [arg.numbers() for arg in args if isinstance(arg, LazyTensor) and arg.computed]
    return 0 if any(arg.untyped_storage().data_ptr() == place for arg in given) else result.nbytes
