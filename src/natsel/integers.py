"""Whole numbers in 64 bits with a sign, which is how ids and classes are kept.

NumPy reads integers from 2**63 on as unsigned, as floats or as objects, by what stands beside them. Converted without a
look, an unsigned one becomes a negative number, and so the name of another datum.
"""

from typing import Any

import numpy as np

LEAST, MOST = -(1 << 63), (1 << 63) - 1


def refuse_beyond(column: np.ndarray[Any, Any], name: str, given: Any = None) -> None:
    """Raise a ValueError where integers do not fit into 64 bits; `column` is what NumPy made of the numbers `given`.

    >>> refuse_beyond(np.array([1 << 63], dtype=np.uint64), "ids")
    Traceback (most recent call last):
    ValueError: ids: integers must lie in -2**63..2**63-1 (found 9223372036854775808); number them anew, or pass 64-bit
    hashes as hashes.view(np.int64)
    """
    found = None
    if column.dtype.kind == "u" and column.size and int(column.max()) > MOST:
        found = int(column.max())
    elif column.dtype.kind == "O" or (column.dtype.kind == "f" and isinstance(given, list | tuple)):
        entries = column if column.dtype.kind == "O" else np.array(given, dtype=object)
        whole = (int(entry) for entry in entries.flat if isinstance(entry, int | np.integer))
        found = next((entry for entry in whole if not LEAST <= entry <= MOST), None)
    if found is not None:
        raise ValueError(
            f"{name}: integers must lie in -2**63..2**63-1 (found {found}); number them anew, or pass 64-bit hashes as"
            " hashes.view(np.int64)"
        )
