"""Maps that are flattened without being moved.

A network flattens [m, C, H, W] for its linear layers with channels first; here they lie last. Moving every draw's
numbers takes longer than moving the weights that they meet:

    linear(flatten(maps), weight) = linear(maps as they lie, weight with its inputs in that order)
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from natsel.models.dropout.lazy import Counter, Later


class Flat(Later):
    """Maps with channels last in memory, as [m, C, H, W] or flattened to [m, C·H·W], that pass for channels first."""

    maps_m_H_W_C: Tensor

    @staticmethod
    def __new__(cls, maps_m_H_W_C: Tensor, shape: Sequence[int], seen: Counter) -> "Flat":
        """`shape` is [m, C, H, W] or [m, C·H·W]."""
        made = cls.of(shape, maps_m_H_W_C, seen)
        made.maps_m_H_W_C = maps_m_H_W_C
        return made

    def make(self) -> Tensor:
        """The numbers moved, channels first."""
        return self.maps_m_H_W_C.permute(0, 3, 1, 2).contiguous().view(self.shape)

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """A linear layer."""
        rows, *lie, channels = self.maps_m_H_W_C.shape
        if self.made or self.ndim != 2:
            return F.linear(self.numbers(), weight, bias)
        weight_O_D = weight.reshape(-1, channels, *lie).permute(0, 2, 3, 1).reshape(weight.shape)
        return F.linear(self.maps_m_H_W_C.reshape(rows, -1), weight_O_D, bias)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """Flattening keeps the numbers where they are."""
        this: Any = args[0] if args else None
        if func is torch.ops.aten.view.default and isinstance(this, Flat) and not this.made and len(args[1]) == 2:
            (rows, columns), flat = args[1], (len(this), math.prod(this.shape[1:]))
            if rows in (-1, flat[0]) and columns in (-1, flat[1]):
                return Flat(this.maps_m_H_W_C, flat, this.seen)
        return super().__torch_dispatch__(func, types, args, kwargs)
