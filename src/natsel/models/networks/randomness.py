"""Torch's own generators, borrowed and given back.

Initialisation and dropout draw from the global generators and take no other. They are seeded for a block of work and
restored after it, so that a fit depends on its seed alone and nothing outside it is disturbed.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """A block in which the global generators, of the CPU and of the device, start from `seed`.

    >>> with seeded(0):
    ...     first = torch.rand(1)
    >>> with seeded(0):
    ...     bool(torch.rand(1) == first)
    True
    """
    cuda = device is not None and device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if cuda else []):
        torch.default_generator.manual_seed(seed)
        if cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
