"""Arrays in: torch, NumPy, JAX or nested lists become torch tensors, shared where possible and never written to."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from natsel.integers import MOST, refuse_beyond

Nested = float | Sequence["Nested"]


class SupportsDlpack(Protocol):
    """An array of another library, such as JAX."""

    def __dlpack__(self) -> object: ...


ArrayLike = Tensor | np.ndarray[Any, Any] | SupportsDlpack | Nested
"""Numbers as users have them: tensors, arrays or nested lists."""
Labels = ArrayLike | Mapping[Any, Any]
"""One label for each point, in their order or by id."""

LARGEST = 1e50
"""Of features, predictions and precisions: fourth powers of such numbers still fit into float64."""


def as_tensor(array: ArrayLike, name: str) -> Tensor:
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


def is_half(array: object) -> bool:
    """Whether an array of any library holds half precision.

    >>> is_half(torch.zeros(1, dtype=torch.bfloat16))
    True
    """
    return str(getattr(array, "dtype", "")).endswith("float16")


def as_integers(array: ArrayLike, name: str) -> Tensor:
    """A tensor of int64 over the same integers; one number counts as a list of one.

    >>> as_integers(7, "exclude").tolist()
    [7]
    """
    tensor = _read(array, name).detach()
    if tensor.numel() == 0:
        return tensor.long().reshape(0)
    if tensor.dtype == torch.uint64 or isinstance(array, list | tuple):
        refuse_beyond(tensor.cpu().numpy(), name, array)
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise ValueError(f"{name}: expected integers, found {tensor.dtype}; pass the numbers themselves, not a mask")
    return tensor.long().reshape(1) if tensor.ndim == 0 else tensor.long()


def _read(array: ArrayLike, name: str) -> Tensor:
    if isinstance(array, Tensor):
        _refuse_strange(array, name)
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
        refuse_beyond(numbers, name)
        raise ValueError(f"{name}: expected numbers, found {numbers.dtype}; convert it to a numeric array")
    # torch knows one dtype of each size: not the twins that C has for some, and no floats of 16 bytes.
    known = np.dtype(f"{numbers.dtype.kind}{min(numbers.dtype.itemsize, 16 if numbers.dtype.kind == 'c' else 8)}")
    # torch warns on arrays it could write to but must not; natsel never writes, but a copy keeps that promise visible.
    usable = numbers.flags.writeable and numbers.dtype.isnative and all(stride >= 0 for stride in numbers.strides)
    return torch.from_numpy(numbers if usable and numbers.dtype.num == known.num else numbers.astype(known))


def _refuse_strange(tensor: Tensor, name: str) -> None:
    """Raise a ValueError for tensors that do not hold one number for each entry."""
    if tensor.is_meta:
        raise ValueError(f"{name}: found a meta tensor, which holds no numbers; load them to a device first")
    if tensor.is_quantized:
        raise ValueError(f"{name}: found quantised numbers ({tensor.dtype}); call dequantize() on them")
    if tensor.is_nested:
        raise ValueError(f"{name}: found a nested tensor; pass rows of equal length")
    if tensor.layout != torch.strided:
        raise ValueError(f"{name}: expected a dense tensor, found the layout {tensor.layout}; call to_dense() on it")


def as_device(device: torch.device | str) -> torch.device:
    """A device that tensors can be moved to on this machine.

    >>> as_device("cpu")
    device(type='cpu')
    """
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (AssertionError, RuntimeError, TypeError) as failure:
        reason = str(failure).strip().splitlines()[0].rstrip(".")
        raise ValueError(f"device: {device!r} cannot be used here ({reason}); name another, such as 'cpu'") from None
    return found


def check_numbers(table: Tensor, name: str) -> None:
    """Raise a ValueError where a table of rows holds NaN, infinity, or numbers whose products float64 cannot hold.

    >>> check_numbers(torch.tensor([[1e60]], dtype=torch.float64), "features_N_D")
    Traceback (most recent call last):
    ValueError: features_N_D: found 1e+60 in row 0, and products of numbers beyond 1e+50 leave float64; rescale them
    """
    if table.numel() == 0:
        return
    least, most = (float(end) for end in table.aminmax())  # NaN comes through
    if -LARGEST <= least <= most <= LARGEST:
        return
    finite_N, rows_N_X = table.flatten(1).isfinite().all(1), table.flatten(1).double()
    if not bool(finite_N.all()):
        row = int(finite_N.logical_not().nonzero()[0])
        raise ValueError(f"{name}: found NaN or infinity in row {row}; check the model's output before scoring")
    row, column = divmod(int(rows_N_X.abs().argmax()), rows_N_X.shape[1])
    raise ValueError(
        f"{name}: found {float(rows_N_X[row, column]):.3g} in row {row}, and products of numbers beyond {LARGEST:.0e}"
        " leave float64; rescale them"
    )


def as_indices(which: ArrayLike, count: int, device: torch.device) -> Tensor:
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
    unsigned, index = index.dtype == torch.uint64, index.long().reshape(-1)
    index = torch.where(index < 0, MOST if unsigned else index + count, index)
    if bool(((index < 0) | (index >= count)).any()):
        raise IndexError(f"index: positions must lie in 0..{count - 1}, found {int(index.min())}..{int(index.max())}")
    return index
