"""One SHA-256 for the arrays of a data set: the same wherever they lie and however their files are packed.

Files are taken in the order of their names, arrays in the order of theirs; each adds its name, its type, its shape and
its bytes. Two machines with the same digest read the same data set.
"""

import hashlib
from collections.abc import Mapping

import numpy as np

from natsel.data.labels import Array

Contents = Mapping[str, Mapping[str, Array]]
"""The arrays of a set by the name of their file (without its ending) and their own."""


def digest(contents: Contents) -> str:
    """The SHA-256 of the arrays in some files, as hexadecimal digits.

    >>> digest({"a": {"x": np.arange(3, dtype=np.uint8)}})[:8]
    'b4c7ad39'
    """
    total = hashlib.sha256()
    for file in sorted(contents):
        for key, array in sorted(contents[file].items()):
            total.update(f"{key} {array.dtype.str} {array.shape}\n".encode())
            total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()
