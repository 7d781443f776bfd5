"""Arrays in: torch, NumPy, JAX or nested lists become torch tensors, shared where possible and never written to."""

from typing import Any

import numpy as np
import torch
from torch import Tensor


def as_tensor(array: Any, name: str) -> Tensor:
    """A detached tensor over the same numbers; integers become float64, half precision becomes float32.

    >>> as_tensor([[0.5, 0.5]], "probs").dtype
    torch.float64
    """
    tensor = _read(array, name).detach()
    if tensor.is_complex():
        raise ValueError(f"{name}: expected real numbers, found {tensor.dtype}; pass its real part")
    if not tensor.is_floating_point():
        return tensor.double()
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def is_half(array: Any) -> bool:
    """Whether an array of any library holds half precision.

    >>> is_half(torch.zeros(1, dtype=torch.bfloat16))
    True
    """
    return str(getattr(array, "dtype", "")).endswith("float16")


def as_integers(array: Any, name: str) -> Tensor:
    """A tensor of int64 over the same integers; one number counts as a list of one.

    >>> as_integers(7, "exclude").tolist()
    [7]
    """
    tensor = _read(array, name).detach()
    if tensor.numel() == 0:
        return tensor.long().reshape(0)
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise ValueError(f"{name}: expected integers, found {tensor.dtype}; pass the numbers themselves, not a mask")
    return tensor.long().reshape(1) if tensor.ndim == 0 else tensor.long()


def _read(array: Any, name: str) -> Tensor:
    if isinstance(array, Tensor):
        return array
    if not isinstance(array, np.ndarray) and hasattr(array, "__dlpack__"):
        try:
            return torch.utils.dlpack.from_dlpack(array)
        except (RuntimeError, BufferError, TypeError):
            array = np.asarray(array)
    try:
        numbers = np.asarray(array)
    except ValueError as reason:
        raise ValueError(f"{name}: could not be read as an array ({reason}); pass rows of equal length") from None
    if numbers.dtype.kind not in "biufc":
        raise ValueError(f"{name}: expected numbers, found {numbers.dtype}; convert it to a numeric array")
    # torch warns on arrays it could write to but must not; natsel never writes, but a copy keeps that promise visible.
    usable = numbers.flags.writeable and numbers.dtype.isnative and all(stride >= 0 for stride in numbers.strides)
    return torch.from_numpy(numbers if usable else np.array(numbers, dtype=numbers.dtype.newbyteorder("=")))


def as_indices(which: Any, count: int, device: torch.device) -> Tensor:
    """Positions 0..count−1 from integers (negative ones count from the end) or a mask.

    >>> as_indices([True, False, True], 3, torch.device("cpu")).tolist()
    [0, 2]
    """
    index = _read(which, "index").to(device)
    if index.dtype == torch.bool:
        if index.shape != (count,):
            raise IndexError(f"index: a mask over {count} points must have {count} entries, found {tuple(index.shape)}")
        return index.nonzero().squeeze(1)
    if (index.is_floating_point() and index.numel()) or index.ndim > 1:
        raise IndexError(f"index: expected integers or a mask, found {index.dtype} of shape {tuple(index.shape)}")
    index = index.long().reshape(-1)
    index = torch.where(index < 0, index + count, index)
    if bool(((index < 0) | (index >= count)).any()):
        raise IndexError(f"index: positions must lie in 0..{count - 1}, found {int(index.min())}..{int(index.max())}")
    return index
