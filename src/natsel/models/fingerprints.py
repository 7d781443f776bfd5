"""Fingerprints of fitted models: the same parameters, the same name, in every process.

    fingerprint(parts) = blake2b(bytes of all parts)

Beliefs with one `draws_id` may be combined, and spilled beliefs are found again by it. What is hashed for a kind of
model must therefore never change.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn


def fingerprint(*parts: Any, bytes_of_digest: int = 12) -> str:
    """The hash of parts: arrays and modules by shape and numbers, bytes as they are, all else by its representation.

    >>> fingerprint("gp", 1, np.zeros(2)) == fingerprint("gp", 1, np.zeros(2)) != fingerprint("gp", 1, np.ones(2))
    True
    """
    digest = hashlib.blake2b(digest_size=bytes_of_digest)
    for part in parts:
        for piece in _pieces(part):
            digest.update(piece)
    return digest.hexdigest()


def weights_fingerprint(*modules: nn.Module) -> str:
    """The fingerprint of all weights and buffers of modules, as the models that hold modules use it."""
    return fingerprint(*modules, bytes_of_digest=8)


def _pieces(part: Any) -> Iterator[Any]:
    if isinstance(part, nn.Module):
        for name, tensor in part.state_dict().items():
            yield f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode()
            yield tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
    elif isinstance(part, np.ndarray):
        yield repr(part.shape).encode() + np.ascontiguousarray(part).tobytes()
    else:
        yield part if isinstance(part, bytes) else repr(part).encode()
