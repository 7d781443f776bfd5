"""Checks of values that come from a file, and dataclasses that are read from the tables of a file.

    @dataclass(frozen=True)
    class Data(Table):
        set: str = key(text)                        a key that the file must have
        seed: int = key(whole(0), default=0)        a key that it may have

A check takes (value, key) and returns the value in its proper type. A wrong value is a ValueError that names the key,
what was found and what to do.
"""

import difflib
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Self

from natsel.texts import visible

Check = Callable[[Any, str], Any]


def key(check: Check, *, always: bool = False, **default: Any) -> Any:
    """A field of a `Table`; `always` writes it to files even where it has its default value."""
    return field(metadata={"check": check, "always": always}, **default)


@dataclass(frozen=True)
class Table:
    """A frozen dataclass whose fields are the keys of a table in a file."""

    @classmethod
    def from_table(cls, found: Any, where: str = "") -> Self:
        """The value that a table describes; `where` is the key of the table itself."""
        needed = [one.name for one in fields(cls) if one.default is MISSING and one.default_factory is MISSING]
        return cls(**table({one.name: one.metadata["check"] for one in fields(cls)}, found, where, needed))

    def as_table(self) -> Any:
        """The value as it stands in a file, without the keys that have their default; `from_table` reads it back."""
        usual = {
            one.name: one.default_factory() if callable(one.default_factory) else one.default for one in fields(self)
        }
        kept = [
            one.name for one in fields(self) if one.metadata["always"] or getattr(self, one.name) != usual[one.name]
        ]
        return {name: written(getattr(self, name)) for name in kept}


def table(schema: Mapping[str, Check], found: Any, where: str = "", needed: Collection[str] = ()) -> dict[str, Any]:
    """The values of a table, each checked, in the order of the schema; unknown keys are refused with the closest one.

    >>> table({"k": whole(1)}, {"k": 10})
    {'k': 10}
    """
    if not isinstance(found, Mapping):
        raise ValueError(f"{where or 'recipe'}: expected a table of keys and values, found {found!r}")
    prefix = f"{where}." if where else ""
    for name in found:
        if name not in schema:
            raise ValueError(f"{prefix}{name}: there is no such key; {closest(name, schema)}")
    values = {name: check(found[name], prefix + name) for name, check in schema.items() if name in found}
    for name in needed:
        if name not in values:
            raise ValueError(f"{prefix}{name}: the recipe does not say; add it")
    return values


def kind_table(
    kinds: Mapping[str, Mapping[str, Check]], found: Any, where: str, *, whole_table: bool
) -> dict[str, Any]:
    """A table whose key `kind` decides which others it may have, or must have where `whole_table` is true."""
    kind = str(found.get("kind")) if isinstance(found, Mapping) else str(found)
    if kind not in kinds:
        raise ValueError(f"{where}.kind: found {kind!r}; {closest(kind, kinds)}")
    return table({"kind": text, **kinds[kind]}, found, where, kinds[kind] if whole_table else ())


def written(value: Any) -> Any:
    """A value as a file has it: lists for tuples, and "all" for None.

    >>> written((10, None))
    [10, 'all']
    """
    if isinstance(value, Table):
        return value.as_table()
    if isinstance(value, Mapping):
        return {name: written(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [written(one) for one in value]
    return "all" if value is None else value


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


def folder_name(value: Any, key: str) -> str:
    """A name that can also be the name of a folder."""
    found = text(value, key)
    if "/" in found or "\\" in found or found in (".", "..") or visible(found) != found:
        raise ValueError(f"{key}: {found!r} reads as a path; write it without slashes and control characters")
    return found


def any_table(value: Any, key: str) -> dict[str, Any]:
    """A table of anything."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{key}: expected a table of keys and values, found {value!r}")
    return dict(value)


def flag(value: Any, key: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{key}: expected true or false, found {value!r}")
    return value


def one_of(*names: str) -> Check:
    """One of some names."""

    def check(value: Any, key: str) -> str:
        if value not in names:
            raise ValueError(f"{key}: found {value!r}; {closest(value, names)}")
        return str(value)

    return check


def whole(least: int = 0) -> Check:
    """A whole number of at least `least`."""

    def check(value: Any, key: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{key}: expected a whole number from {least} up, found {value!r}")
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


def either(word: str | None, other: Check) -> Check:
    """A certain word, which becomes None, or a value."""
    return lambda value, key: None if value == word else other(value, key)
