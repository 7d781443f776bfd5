"""A pytest plug-in under which torch rounds as on another processor: `make test-portable` runs the tests with it.

In which order a processor adds the terms of a matrix product depends on the shapes, and so do the last bits. Here the
terms of each product of matrices are put into another order, which the shapes decide. Computations of the same shapes
are still equal to the last bit, as docs/numbers.md promises, and sums without rounding are what they were. A test that
asks for equal bits where shapes differ fails.
"""

import zlib
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
FIRST = {aten.mm: 0, aten.bmm: 0, aten.addmm: 1, aten.baddbmm: 1}  # where the left factor stands; the right one follows


class OtherProcessor(TorchDispatchMode):
    """Products of matrices add their terms in an order that depends on the shapes."""

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        place = FIRST.get(operator.overloadpacket)
        if place is not None:
            left, right = args[place : place + 2]
            if left.shape[-1] == right.shape[-2]:  # else torch refuses the product, in its own words
                order = order_of(left.shape, right.shape).to(left.device)
                there = left.index_select(-1, order), right.index_select(-2, order)
                args = (*args[:place], *there, *args[place + 2 :])
        return operator(*args, **(kwargs or {}))


@cache
def order_of(left: torch.Size, right: torch.Size) -> Tensor:
    """An order of the terms, the same for the same shapes."""
    generator = torch.Generator().manual_seed(zlib.crc32(f"{tuple(left)} {tuple(right)}".encode()))
    return torch.randperm(left[-1], generator=generator)


def pytest_sessionstart() -> None:
    """From now on, in this thread: such modes do not reach others."""
    OtherProcessor().__enter__()
