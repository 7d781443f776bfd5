"""How long the values of many sets would take, told before the first is worked out: what takes minutes is refused.

    seconds = Σ_size  sets of that size · (BASE (1 + size) + operations(size)) / A_SECOND

The joint labels of s points are C^s, so that one point more multiplies the time by C or more: a search over sets that
takes seconds at k = 3 may take hours at k = 6. Operations are counted, not timed, so that the same call is refused on
every machine.
"""

from collections.abc import Mapping
from numbers import Real

from natsel.capabilities import State, has_operations

A_SECOND = 1e9
"""Operations of float64 on one core of a common machine, as states count them."""
BASE = 1e5
"""What asking for a value costs, and each of its points, however small they are: calls of torch."""
PATIENCE = 60.0
"""Seconds: longer than anybody waits for a batch without being told."""


def refuse_long(state: State, sets: Mapping[int, int], patience: float, remedy: str) -> None:
    """Raise a ValueError where the values of so many sets by size would take longer than `patience` seconds.

    States that do not say what a value costs are taken to be quick.

    >>> from types import SimpleNamespace
    >>> from natsel.capabilities import Capability
    >>> refuse_long(SimpleNamespace(offers=Capability.VALUE), {2: 3}, patience=60.0, remedy="lower k")
    """
    each = {size: state.operations(size) if has_operations(state) else 0.0 for size in sets}
    seconds = sum(count * (BASE * (1 + size) + each[size]) for size, count in sets.items()) / A_SECOND
    if seconds > patience:
        count, largest = sum(sets.values()), max(sets)
        raise ValueError(
            f"k: the values of {count:,} sets of up to {largest} points would take about {_spoken(seconds)},"
            f" more than patience={patience:g} seconds; {remedy}, or raise patience"
        )


def check_patience(patience: float) -> None:
    """Raise a ValueError unless it is a number of seconds.

    >>> check_patience(60.0)
    """
    if not isinstance(patience, Real) or not patience > 0:
        raise ValueError(f"patience: found {patience!r}; pass how many seconds a search may take, inf for any")


def _spoken(seconds: float) -> str:
    """A long time in words.

    >>> _spoken(66), _spoken(7200), _spoken(1e9)
    ('66 seconds', '2 hours', '12,000 days')
    """
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{float(f'{seconds / length:.2g}'):,.0f} {unit}"
    return f"{seconds:.0f} seconds"
