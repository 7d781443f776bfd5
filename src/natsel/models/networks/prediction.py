"""Outputs of trained networks, in chunks that keep to the memory budget.

The memory for one point is measured: the bytes of the outputs of every operation of one forward pass, added up.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from natsel.memory import chunked
from natsel.models.networks.inputs import as_device, inputs_of
from natsel.models.protocol import Progress


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

    def work(part: slice) -> Tensor:
        chunk = inputs_of(modules[0], inputs[part], device)
        # A module may work in place, and these may be the user's own numbers.
        outputs_n_K_C = torch.stack([module(chunk.clone()) for module in modules], 1)
        if progress:
            progress(part.stop, count)
        return outputs_n_K_C

    with evaluating(*modules), torch.no_grad():
        first = inputs_of(modules[0], inputs[:1], device)
        bytes_each = bytes_of(lambda: modules[0](first.clone()))
        return chunked(work, count, bytes_each, device)


@contextmanager
def evaluating(*modules: nn.Module) -> Iterator[None]:
    """A block in which modules are in evaluation mode (no batch statistics move); every part gets its own mode back.

    >>> module = nn.Sequential(nn.Dropout())
    >>> with evaluating(module):
    ...     module[0].training
    False
    >>> module[0].training
    True
    """
    before = [(part, part.training) for module in modules for part in module.modules()]
    for module in modules:
        module.eval()
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


def bytes_of(work: Callable[[], object]) -> int:
    """The bytes of all tensors that torch's functions return during some work, an upper bound of what it holds.

    >>> bytes_of(lambda: torch.zeros(4) + torch.ones(2, 1))
    56
    """
    counted = _Counted()
    with counted:
        work()
    return counted.bytes


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
