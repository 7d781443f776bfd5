"""A pytest plug-in under which this machine rounds as another one might: `make test-portable` runs the tests with it.

Which sums a processor adds in which order depends on the shapes of a matrix product, and so do its last bits. Here each
product of matrices in torch is larger or smaller by up to three units of rounding, as their shapes decide. Computations of
the same shapes are still equal to the last bit, as docs/numbers.md promises; a test that relies on more than that fails.
"""

import hashlib
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

PRODUCTS = {getattr(torch.ops.aten, name) for name in ("mm", "addmm", "bmm", "baddbmm")}


class OtherProcessor(TorchDispatchMode):
    """Matrix products differ in their last bits where their shapes differ."""

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operator(*args, **(kwargs or {}))
        if operator.overloadpacket in PRODUCTS and result.is_floating_point() and result.numel():
            result.mul_(1 + units([tuple(one.shape) for one in args if torch.is_tensor(one)]) * eps(result))
        return result


def units(shapes: list[tuple[int, ...]]) -> int:
    """By how many units of rounding products of these shapes are off: −3 to 3."""
    return hashlib.blake2b(repr(shapes).encode(), digest_size=8).digest()[0] % 7 - 3


def eps(result: torch.Tensor) -> float:
    return torch.finfo(result.dtype).eps


def pytest_sessionstart() -> None:
    """From now on, in this thread: modes do not reach others."""
    OtherProcessor().__enter__()
