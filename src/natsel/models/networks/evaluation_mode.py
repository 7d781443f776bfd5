"""Modules in evaluation mode for a while: no batch statistics move, and every part gets its own mode back."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(*modules: nn.Module) -> Iterator[None]:
    """A block in which modules are in evaluation mode.

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
