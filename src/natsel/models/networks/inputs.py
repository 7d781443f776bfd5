"""Inputs as a network takes them: float32 tensors on its device, float64 ones where it computes in that.

    uint8 → float32 / 255        pixels as they are stored become numbers in [0, 1]
    other numbers → float32      unchanged in value

Bytes are moved before they are widened, so that a quarter as much travels to an accelerator, and only the rows that are
asked for leave a memory map.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from natsel.beliefs.arrays import as_device as usable


def as_device(device: torch.device | str | None) -> torch.device:
    """The device meant: the one named, else the accelerator where there is one, else the CPU.

    >>> as_device("cpu")
    device(type='cpu')
    """
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return usable(device)


def as_inputs(inputs: Any, device: torch.device | str | None = None, dtype: torch.dtype = torch.float32) -> Tensor:
    """Arrays, memory maps or tensors as a tensor on a device, float32 or float64 as the network is; what cannot be fed
    to a network is refused.

    >>> as_inputs(np.array([[0, 255]], dtype=np.uint8), "cpu")
    tensor([[0., 1.]])
    """
    tensor = inputs if isinstance(inputs, Tensor) else _from_array(inputs, dtype)
    if tensor.is_complex():
        raise ValueError("inputs: found complex numbers; pass their real and imaginary parts as features")
    moved = tensor.detach().to(as_device(device))
    if moved.dtype == torch.uint8:
        return moved.to(dtype).div_(255)
    found = moved.to(dtype)
    if tensor.is_floating_point() and not bool(found.isfinite().all()):
        row = int(found.reshape(len(found), -1).isfinite().all(1).logical_not().nonzero()[0])
        raise ValueError(f"inputs: found NaN or infinity in row {row}; fill or leave out such values")
    return found


def inputs_of(module: nn.Module, inputs: Any, device: torch.device | str | None = None) -> Tensor:
    """Inputs in the type that a module computes in, read without loss where that is float64.

    >>> inputs_of(nn.Linear(1, 1).double(), [[0.1]], "cpu").item()
    0.1
    """
    parameter = next((one for one in module.parameters() if one.is_floating_point()), None)
    dtype = torch.float32 if parameter is None else parameter.dtype
    return as_inputs(inputs, device, torch.float64 if dtype == torch.float64 else torch.float32).to(dtype)


def _from_array(inputs: Any, dtype: torch.dtype) -> Tensor:
    array = np.asarray(inputs)
    if array.dtype.kind in "OUS":
        texts = array.size > 0 and isinstance(array.flat[0], str | bytes)
        found = "texts" if texts else f"an array of {array.dtype}"
        raise ValueError(
            f"inputs: a network takes numbers, found {found}; "
            + ("use natsel.models.TextModel, or embed them first" if texts else "pass an array of numbers")
        )
    if array.dtype != np.uint8:
        real = np.float64 if dtype == torch.float64 else np.float32
        array = np.asarray(array, dtype=np.complex64 if array.dtype.kind == "c" else real)
    if not array.flags.writeable or any(step < 0 for step in array.strides):
        array = array.copy()  # torch holds only memory it may write to, in forward order
    return torch.from_numpy(array)
