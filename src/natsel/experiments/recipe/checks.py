"""Checks for values that come from a file: each names the key, what was found and what to do.

A schema is a plain table, key → check; a check takes (value, key) and gives the value back in its proper type.
"""

import difflib
from collections.abc import Callable, Collection, Mapping
from typing import Any

Check = Callable[[Any, str], Any]


def table(schema: Mapping[str, Check], found: Any, where: str = "") -> dict[str, Any]:
    """The values of a table, each checked; unknown keys are refused with the closest known one.

    >>> table({"k": whole(1)}, {"k": 10})
    {'k': 10}
    """
    if not isinstance(found, Mapping):
        raise ValueError(f"{where.rstrip('.')}: expected a table of keys and values, found {found!r}")
    for key in found:
        if key not in schema:
            raise ValueError(f"{where}{key}: there is no such key; {closest(key, schema)}")
    return {key: schema[key](value, where + key) for key, value in found.items()}


def closest(name: str, known: Collection[str]) -> str:
    """A hint for a name that is not known.

    >>> closest("bugdet", ["budget", "k"])
    "did you mean 'budget'?"
    """
    close = difflib.get_close_matches(str(name), [str(one) for one in known], n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(map(str, known))}"


def text(value: Any, key: str) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{key}: expected a text, found {value!r}")
    return value


def one_of(*names: str) -> Check:
    """One of some names."""

    def check(value: Any, key: str) -> str:
        if value not in names:
            raise ValueError(f"{key}: found {value!r}; {closest(value, names)}")
        return str(value)

    return check


def whole(minimum: int = 0) -> Check:
    """A whole number from a minimum up."""

    def check(value: Any, key: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise ValueError(f"{key}: expected a whole number from {minimum} up, found {value!r}")
        return value

    return check


def number(low: float = 0.0, high: float = float("inf")) -> Check:
    """A number within bounds."""

    def check(value: Any, key: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise ValueError(f"{key}: expected a number from {low:g} to {high:g}, found {value!r}")
        return float(value)

    return check


def each(check: Check, *, at_least: int = 1) -> Check:
    """A list, each entry checked."""

    def check_all(value: Any, key: str) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or len(value) < at_least:
            raise ValueError(f"{key}: expected a list of {at_least} or more, found {value!r}")
        return tuple(check(one, f"{key}[{index}]") for index, one in enumerate(value))

    return check_all


def either(word: str, other: Check) -> Check:
    """A certain word, which becomes None, or a value."""

    def check(value: Any, key: str) -> Any:
        return None if value == word else other(value, key)

    return check


def flag(value: Any, key: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{key}: expected true or false, found {value!r}")
    return value
