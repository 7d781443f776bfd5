"""Outputs of trained networks, in chunks that keep to the memory budget.

The memory for one point is measured: the bytes of the outputs of every operation of a forward pass, added up, by which
two points need more than one. What does not grow with the points, such as weights that a layer computes, is left out.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from natsel.memory import chunked
from natsel.models.networks.evaluation_mode import evaluating
from natsel.models.networks.inputs import DEPENDS, as_device, reader_of, shapes_explained
from natsel.models.networks.outputs import refuse_probabilities
from natsel.models.protocol import Progress

POINTS_AT_A_TIME = 64
"""How many points a forward pass has at least, where they keep to the memory budget."""
TRIED = 3  # points that show whether a module says the same about one alone and among others


def predict(
    modules: Sequence[nn.Module],
    inputs: Any,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """outputs_N_K_C of K networks, without dropout; their modes are left as they were.

    >>> predict([nn.Linear(2, 3)], torch.zeros(4, 2), "cpu").shape
    torch.Size([4, 1, 3])
    """
    device = as_device(device)
    count = len(inputs)
    if count == 0:
        raise ValueError("inputs: found none; pass at least one")

    read = reader_of(modules[0], inputs, device)

    def work(part: slice) -> Tensor:
        chunk = read(part)
        # A module may work in place, and these may be the user's own numbers.
        outputs_n_K_C = torch.stack([module(chunk.clone()) for module in modules], 1)
        if progress:
            progress(part.stop, count)
        return outputs_n_K_C

    with evaluating(*modules), torch.no_grad():
        few = read(slice(0, TRIED))
        widths = {check_outputs(module, few) for module in modules}
        bytes_each = bytes_per_point(modules[0], few[:1])
        if len(widths) > 1:
            raise ValueError(
                f"networks: found {' and '.join(map(str, sorted(widths)))} outputs; give all members the same classes"
            )
        return chunked(work, count, bytes_each, device, at_least=POINTS_AT_A_TIME)


def check_outputs(module: nn.Module, inputs_n: Tensor) -> int:
    """How many outputs a module has for each of a few inputs; what is no table of numbers is refused, and so are inputs
    of a shape that it cannot compute with, and a module that says something else about a point among others than alone.

    >>> check_outputs(nn.Linear(2, 3), torch.zeros(4, 2))
    3
    """
    if len(inputs_n) == 1:  # a second point, so that one that depends on its neighbours is noticed
        inputs_n = torch.cat([inputs_n, (inputs_n / 2).to(inputs_n.dtype)])
    with shapes_explained(module, inputs_n):
        outputs_n_C = module(inputs_n.clone())
    if not isinstance(outputs_n_C, Tensor) or outputs_n_C.ndim != 2 or len(outputs_n_C) != len(inputs_n):
        kind = str(tuple(outputs_n_C.shape)) if isinstance(outputs_n_C, Tensor) else type(outputs_n_C).__name__
        raise ValueError(
            f"network: expected outputs of shape (points, classes), found {kind} for {len(inputs_n)} points; let"
            " forward return one row of numbers per point, such as the logits of a linear layer"
        )
    refuse_probabilities(outputs_n_C)
    alone_n_C = outputs_n_C[:0]
    with suppress(RuntimeError, ValueError, IndexError, TypeError):  # whatever a module does with a batch of one
        alone_n_C = torch.cat([module(row[None].clone()) for row in inputs_n])
    if not agree(outputs_n_C, alone_n_C, outputs_n_C):
        raise ValueError(DEPENDS)
    return outputs_n_C.shape[1]


def agree(right: Tensor, found: Tensor, spread: Tensor) -> bool:
    """Whether two answers differ by rounding alone, far less than points (and draws) in `spread` differ.

    >>> agree(torch.ones(2, 1), torch.ones(2, 1) + 1e-7, torch.ones(2, 1)), agree(*torch.eye(3)[:, None])
    (True, False)
    """
    if right.shape != found.shape:
        return False
    rounding = 5e-3 if right.device.type == "cuda" else 100 * torch.finfo(right.dtype).eps  # TF32 rounds early
    apart = (spread.flatten(0, -2) - spread.flatten(0, -2).mean(0)).abs().max()
    return not bool((right - found).abs().max() > rounding * right.abs().max() + 0.01 * apart)


def bytes_per_point(forward: Callable[[Tensor], object], inputs_1: Tensor, axis: int = 0) -> int:
    """The bytes of all tensors that torch's functions return for one point more, an upper bound of what it needs.

    `inputs_1` has one point along `axis`.

    >>> bytes_per_point(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), torch.zeros(1, 2))
    24
    """
    found = []
    for inputs_n in (inputs_1.clone(), torch.cat([inputs_1, inputs_1], axis)):  # a module may work in place
        counted = _Counted()
        with counted:
            forward(inputs_n)
        found.append(counted.bytes)
    return max(1, found[1] - found[0])


class _Counted(TorchFunctionMode):
    """Adds up the bytes of what torch's functions return."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes: int = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.bytes += result.nbytes
        return result
