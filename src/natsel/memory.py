"""How much working memory natsel may take, and work cut into chunks that keep to it.

A chunk is planned from bytes, never from a fixed count, and a chunk that still runs out of memory is halved and done
again from its start, so that nothing half-summed survives a failure. Tables that only save time are kept while they
`fit` a quarter of the budget and are made again where they do not; what cannot be cut at all is asked for by `require`
before the work begins, and refused where it is more than the budget.
"""

from collections.abc import Callable
from typing import overload

import torch
from torch import Tensor

from natsel.options import checked

_budget = 1 << 30

# On a CPU, chunks of a few megabytes stay in its caches and run several times faster than ones that fill the budget.
_CACHE = 1 << 23


class _Restore:
    """What `memory_budget(size)` returns: leaving its `with` block brings the old budget back."""

    def __init__(self, before: int) -> None:
        self.before = before

    def __enter__(self) -> None:
        return None

    def __exit__(self, *failure: object) -> None:
        global _budget
        _budget = self.before


@overload
def memory_budget() -> int: ...
@overload
def memory_budget(size: int) -> _Restore: ...
def memory_budget(size: int | None = None) -> int | _Restore:
    """The bytes of working memory natsel may take (default 1 GiB); with a size, sets them, for good or for a block.

    Inputs are not counted. Work that needs more at once is refused with the size it needs; whole matrices below 8 MiB
    never are.

    >>> with memory_budget(1 << 20):
    ...     memory_budget()
    1048576
    """
    global _budget
    if size is None:
        return _budget
    if not isinstance(size, int | float) or not size >= 1:
        raise ValueError(
            f"memory_budget: expected a positive number of bytes, found {size!r}; the default is {1 << 30}"
        )
    before, _budget = _budget, int(min(size, 1 << 62))
    return _Restore(before)


@checked
def rows_per_chunk(bytes_each: int, device: torch.device, at_least: int = 1) -> int:
    """How many rows of `bytes_each` make a chunk on this device.

    `at_least`: so many where they keep to the budget, although they leave the caches: networks compute a picture at a
    time up to nine times slower than 64.

    >>> rows_per_chunk(1 << 22, torch.device("cpu")), rows_per_chunk(1 << 22, torch.device("cpu"), at_least=64)
    (2, 64)
    """
    bytes_each = max(1, bytes_each)
    room = min(_budget, _CACHE) if device.type == "cpu" else _budget
    return max(1, room // bytes_each, min(at_least, _budget // bytes_each))


@checked
def fits(size: int) -> bool:
    """Whether tables of so many bytes, which only save time, may be kept: a quarter of the budget is theirs.

    >>> with memory_budget(400):
    ...     fits(100), fits(101)
    (True, False)
    """
    return size <= _budget // 4


@checked
def require(size: int, what: str, remedy: str) -> None:
    """Refuse, before the work begins, what would hold `size` bytes at once and cannot be cut into chunks.

    >>> require(1 << 20, "targets: 300 × 300 similarities", "pass fewer targets")
    """
    # Smaller matrices than a chunk may be: refusing them would keep nobody's memory.
    if size > max(_budget, _CACHE):
        mebibytes = -(-size >> 20)
        raise ValueError(
            f"{what} would take {mebibytes:,} MiB of working memory at once, over the memory budget of"
            f" {_budget / 2**20:,.0f} MiB; {remedy}, or raise the budget: natsel.memory_budget({mebibytes} << 20)"
        )


@checked
def chunked(
    work: Callable[[slice], Tensor], count: int, bytes_each: int, device: torch.device, at_least: int = 1
) -> Tensor:
    """`work(slice)` over 0..count in chunks that keep to the budget, joined along the first axis.

    >>> chunked(lambda part: torch.arange(10)[part] * 2, 10, bytes_each=8, device=torch.device("cpu")).sum()
    tensor(90)
    """
    size = rows_per_chunk(bytes_each, device, at_least)
    whole: Tensor | None = None
    start = 0
    while start < count or whole is None:
        part = slice(start, min(start + size, count))
        result = attempt(work, part)
        if result is None:
            size = max(1, (part.stop - part.start) // 2)
            continue
        if whole is None:
            if part.stop == count:
                return result
            # One tensor to write to: results kept one by one would lie between the chunks' own memory and pin it.
            whole = result.new_empty((count, *result.shape[1:]))
        whole[part] = result
        start = part.stop
    return whole


@checked
def attempt(work: Callable[[slice], Tensor], part: slice) -> Tensor | None:
    """One chunk's result, or None when it ran out of memory and can still be halved."""
    try:
        return run(work, part)
    except (MemoryError, torch.OutOfMemoryError):
        if part.stop - part.start <= 1:
            raise
    except RuntimeError as failure:
        # The CPU allocator reports exhaustion as a plain RuntimeError.
        if "alloc" not in str(failure) or part.stop - part.start <= 1:
            raise
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None


@checked
def run(work: Callable[[slice], Tensor], part: slice) -> Tensor:
    """The one place every chunk passes through (where tests make memory scarce)."""
    return work(part)
