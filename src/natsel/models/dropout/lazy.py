"""Tensors whose numbers are made only where something needs them.

What one layer leaves behind is often cheaper to compute once the next layer is known. A `Later` stands for the result
in the meantime, with its shape, type and device and none of its memory. An operation that knows a cheaper way looks
inside; every other gets the numbers, and cannot tell the difference.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, Self

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only


class Counter(Protocol):
    """Whoever adds up the bytes of a pass."""

    bytes: int


class Later(Tensor):
    """A result that is not computed yet."""

    seen: Counter
    _numbers: Tensor | None

    @classmethod
    def of(cls, shape: Sequence[int], like: Tensor, seen: Counter, strides: Sequence[int] | None = None) -> Self:
        """One of a shape, with the type and on the device of `like`; `strides` where it will not be contiguous."""
        made = Tensor._make_wrapper_subclass(cls, shape, strides, dtype=like.dtype, device=like.device)
        made.seen, made._numbers = seen, None
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @property
    def made(self) -> bool:
        """Whether the numbers exist, and may have been changed in place since."""
        return self._numbers is not None

    @abstractmethod
    def make(self) -> Tensor:
        """Compute the numbers."""

    def numbers(self) -> Tensor:
        """The numbers themselves, computed once."""
        if self._numbers is None:
            self._numbers = self.make()
            self.seen.bytes += self._numbers.nbytes
        return self._numbers

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """What torch calls for every elementary operation on one of these."""
        # Changed in place, it is the numbers that change, and stay.
        args, kwargs = tree_map_only(Later, lambda each: each.numbers(), (args, kwargs or {}))
        return func(*args, **kwargs)
