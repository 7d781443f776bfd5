"""Inputs as a network takes them: float32 tensors on its device, float64 ones where it computes in that.

    (n, H, W, …) in uint8 → float32 / 255     pictures as they are stored become numbers in [0, 1]
    whole numbers → int64                     tokens, where the network looks them up and takes them as they are
    other numbers → float32                   unchanged in value
    (n, H, W, c) or (n, H, W) → (n, c, H, W)  pictures, where the first convolution takes c channels

What a network takes as it is stays as it is: this is tried on two inputs before axes are moved, and before whole
numbers go into half precision, which holds them up to 256 (bfloat16) or 2,048 (float16) alone. Bytes are moved before
they are widened, so that a quarter as much travels to an accelerator, and only the rows that are asked for leave a
memory map.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from natsel.beliefs.arrays import as_device as usable
from natsel.models.networks.architectures import ImageInput, seeded
from natsel.models.networks.evaluation_mode import evaluating
from natsel.models.rows import as_array
from natsel.options import Rows

Reader = Callable[[slice], Tensor]
"""A slice of the inputs → their tensor, as one network takes it."""

# Whatever inputs of a wrong shape lead to in a module.
_FAILURES = (RuntimeError, ValueError, IndexError, TypeError, AssertionError)
DEPENDS = (
    "network: what it says about a point depends on the other points of the batch, so that no draw is one function; let"
    " the first axis of every tensor run over points, and batch norm keep running statistics"
)


def as_device(device: torch.device | str | None) -> torch.device:
    """The device meant: the one named, else the accelerator where there is one, else the CPU.

    >>> as_device("cpu")
    device(type='cpu')
    """
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return usable(device)


def as_inputs(inputs: Any, device: torch.device | str | None = None, dtype: torch.dtype = torch.float32) -> Tensor:
    """Arrays, memory maps or tensors as a tensor on a device, of floats or whole numbers; others are refused.

    >>> as_inputs(np.array([[[0, 255]]], dtype=np.uint8), "cpu")
    tensor([[[0., 1.]]])
    """
    tensor = inputs if isinstance(inputs, Tensor) else _from_array(inputs, dtype)
    if tensor.is_complex():
        raise ValueError("inputs: found complex numbers; pass their real and imaginary parts as features")
    moved = tensor.detach().to(as_device(device))
    if moved.dtype == torch.uint8 and moved.ndim > 2 and dtype.is_floating_point:
        return moved.to(dtype).div_(255)
    found = moved.to(dtype)
    # The sum first, as it takes a tenth of the time; of finite numbers it may still overflow.
    if tensor.is_floating_point() and not bool(found.sum().isfinite()) and not bool(found.isfinite().all()):
        row = int(found.reshape(len(found), -1).isfinite().all(1).logical_not().nonzero()[0])
        raise ValueError(f"inputs: found NaN or infinity in row {row}; fill or leave out such values")
    return found


def inputs_of(module: nn.Module, inputs: Rows, device: torch.device | str | None = None) -> Tensor:
    """Inputs as natsel gives them to a module: in the type it computes in, pictures with their channels first.

    A training loop of your own that calls this learns from the numbers that natsel asks the network about later.
    `device`: by default that of the module.

    >>> inputs_of(nn.Linear(1, 1).double(), [[0.1]]).item()
    0.1
    >>> inputs_of(nn.Conv2d(3, 8, 5), np.zeros((2, 28, 28, 3), dtype=np.uint8)).shape
    torch.Size([2, 3, 28, 28])
    """
    return reader_of(module, inputs, device)(slice(0, len(inputs)))


def reader_of(module: nn.Module, inputs: Any, device: torch.device | str | None = None) -> Reader:
    """A function that reads a part of the inputs as `inputs_of` does; the order of axes is found once, for all parts.

    >>> reader_of(nn.Linear(2, 1), np.eye(2, dtype=np.uint8), "cpu")(slice(1, 2))
    tensor([[0., 1.]])
    """
    convert = conversion_of(module, inputs, device)
    return lambda part: convert(inputs[part])


def conversion_of(module: nn.Module, inputs: Any, device: torch.device | str | None = None) -> Callable[[Any], Tensor]:
    """A function from rows of the inputs, as they are stored, to what a network takes; `inputs` decide the axes.

    >>> conversion_of(nn.Linear(2, 1), np.zeros((3, 2)), "cpu")(np.array([[0, 255]], dtype=np.uint8))
    tensor([[  0., 255.]])
    """
    parameter = next((one for one in module.parameters() if one.is_floating_point()), None)
    dtype = torch.float32 if parameter is None else parameter.dtype
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    place = parameter.device if device is None and parameter is not None else as_device(device)
    layers = [part for part in module.modules() if next(part.parameters(recurse=False), None) is not None]
    looks_up = [isinstance(part, nn.Embedding | nn.EmbeddingBag) for part in layers]
    if (any(looks_up) or dtype != wide) and len(inputs):
        first = as_array(inputs[slice(0, 2)])
        whole, pictures = first.dtype.kind in "iu", first.dtype == np.uint8 and first.ndim > 2
        looks_up = looks_up[:1] if pictures else [any(looks_up)]  # positions in pictures are looked up too, but later
        kinds = [torch.int64] * (whole and looks_up[0]) + [wide] * (whole or looks_up[0])
        dtype = next((kind for kind in kinds if _takes(module, as_inputs(first, place, kind))), dtype)
        wide = wide if dtype.is_floating_point else dtype

    def read(rows: Any) -> Tensor:
        return as_inputs(rows, place, wide).to(dtype)

    arrange = _arrangement(module, lambda: read(inputs[slice(0, 2)])) if len(inputs) else None
    return read if arrange is None else lambda rows: arrange(read(rows))


def on_device(
    module: nn.Module, inputs: Any, device: torch.device | str | None = None
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """All inputs as one tensor on a device, and what makes of some of them what a network takes.

    Bytes stay bytes until they are asked for: a quarter of the memory. Other numbers are converted once, here.

    >>> inputs_N, convert = on_device(nn.Linear(2, 1), np.eye(2, dtype=np.uint8), "cpu")
    >>> inputs_N.dtype, convert(inputs_N[:1])
    (torch.uint8, tensor([[1., 0.]]))
    """
    convert, rows = conversion_of(module, inputs, device), inputs[slice(0, len(inputs))]
    rows = rows if isinstance(rows, Tensor) else np.asarray(rows)
    if rows.dtype not in (np.uint8, torch.uint8):
        return convert(rows), lambda some: some
    tensor = rows if isinstance(rows, Tensor) else _from_array(rows, torch.float32)
    return tensor.detach().to(as_device(device)), convert


def _arrangement(module: nn.Module, first_two: Callable[[], Tensor]) -> Callable[[Tensor], Tensor] | None:
    """How axes of pictures have to be moved for a module; None: not at all, or it takes no pictures of such a shape."""
    convolution = next((part for part in module.modules() if isinstance(part, nn.Conv2d)), None)
    if convolution is None or any(isinstance(part, ImageInput) for part in module.modules()):
        return None
    inputs_2 = first_two()
    channels, axes = convolution.in_channels, inputs_2.ndim
    if axes == 4 and inputs_2.shape[3] == channels != inputs_2.shape[1]:
        arrange: Callable[[Tensor], Tensor] = _channels_first
    elif axes == 3 and channels == 1:
        arrange = lambda pictures: pictures[:, None]  # noqa: E731
    else:
        return None
    return None if _takes(module, inputs_2) else arrange


def _channels_first(pictures_n_H_W_C: Tensor) -> Tensor:
    # In the order of its axes, as a module may call `view` on what its convolutions make of it. `contiguous` leaves one
    # channel as it was, and convolutions then put channels last.
    return pictures_n_H_W_C.permute(0, 3, 1, 2).clone(memory_format=torch.contiguous_format)


def _takes(module: nn.Module, inputs_2: Tensor) -> bool:
    """Whether a module runs on inputs and answers for each: it may move axes itself."""
    if len(inputs_2) == 1:  # torch takes n pictures without channels for one picture of n channels
        inputs_2 = torch.cat([inputs_2, inputs_2])
    try:
        with seeded(0, inputs_2.device), evaluating(module), torch.no_grad():  # it may draw random numbers
            outputs = module(inputs_2.clone())
    except _FAILURES:
        return False
    return not isinstance(outputs, Tensor) or (outputs.ndim > 0 and len(outputs) == len(inputs_2))


@contextmanager
def shapes_explained(module: nn.Module, inputs_n: Tensor) -> Iterator[None]:
    """A block with the first pass over inputs, in which what torch says about shapes becomes a sentence about inputs.

    >>> with shapes_explained(nn.Linear(4, 2), torch.zeros(1, 3)):
    ...     nn.Linear(4, 2)(torch.zeros(1, 3))
    Traceback (most recent call last):
    ValueError: inputs: each has shape (3,), and the network expects (4,) at its first layer ...
    """
    try:
        yield
    except _FAILURES as reason:
        out_of_memory = isinstance(reason, torch.OutOfMemoryError) or "alloc" in str(reason)  # natsel.memory sees to it
        if out_of_memory or str(reason).startswith(("inputs:", "inputs_key:", "network:")):  # a sentence already
            raise
        said = " ".join(str(reason).split())
        if "more than 1 value per channel" in said:  # statistics of a batch that is one point
            raise ValueError(DEPENDS) from reason
        raise ValueError(
            f"inputs: each has shape {tuple(inputs_n.shape[1:])}, and the network {_expected(module)} ({said[:200]});"
            " reshape the inputs, or make the network for this shape"
        ) from reason


def _expected(module: nn.Module) -> str:
    """What the first layer with weights takes, as words of an error."""
    first = next((part for part in module.modules() if next(part.parameters(recurse=False), None) is not None), None)
    if isinstance(first, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        sides = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}[len(first.kernel_size)]
        return f"expects ({', '.join((str(first.in_channels), *sides))}) at its first layer"
    if isinstance(first, nn.Linear):
        return f"expects ({first.in_features},) at its first layer"
    if isinstance(first, nn.Embedding):
        return "looks up whole numbers where real ones come in: pass whole ones, or call .long() on them in forward"
    return "cannot compute with them"


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
        real = {torch.float64: np.float64, torch.int64: np.int64}.get(dtype, np.float32)
        array = np.asarray(array, dtype=np.complex64 if array.dtype.kind == "c" else real)
    if not array.flags.writeable or any(step < 0 for step in array.strides):
        array = array.copy()  # torch holds only memory it may write to, in forward order
    return torch.from_numpy(array)
