"""Options of frozen values, held to the types they are declared with: one look for all searches and objectives.

Python takes any value for any field. What a wrong one does later (a comparison of text with a number, a slice by a
float) says nothing about the option that caused it.
"""

import math
from dataclasses import MISSING, Field, fields
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin


def check_options(value: Any, **least: float) -> None:
    """Raise a ValueError that names the first field of a dataclass that is not what it is declared as: a number, a
    whole number, True or False, one of several words, or None where that is allowed. `least` gives lower bounds.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Search:
    ...     steps: int = 5
    >>> check_options(Search(7), steps=1)
    >>> check_options(Search("7"), steps=1)
    Traceback (most recent call last):
    ValueError: steps: expected a whole number of at least 1, found '7'; the default is 5
    """
    for field in fields(value):
        found, kinds = getattr(value, field.name), _kinds(field)
        bound = least.get(field.name, -math.inf)
        if kinds and not any(_is(found, kind, bound) for kind in kinds):
            wanted = " or ".join(_spoken(kind, bound) for kind in kinds)
            default = "" if field.default is MISSING else f"; the default is {field.default!r}"
            raise ValueError(f"{field.name}: expected {wanted}, found {found!r}{default}")


def _kinds(field: Field[Any]) -> tuple[Any, ...]:
    """What may stand in a field; nothing where that is none of the kinds of options."""
    declared: Any = field.type
    kinds = get_args(declared) if get_origin(declared) in (Union, UnionType) else (declared,)
    known = all(kind in (int, float, bool, str, NoneType) or get_origin(kind) is Literal for kind in kinds)
    return kinds if known else ()


def _is(found: Any, kind: Any, bound: float) -> bool:
    if kind is NoneType:
        return found is None
    if get_origin(kind) is Literal:
        return isinstance(found, str) and found in get_args(kind)
    if kind in (bool, str):
        return isinstance(found, kind)
    number = isinstance(found, Integral if kind is int else Real) and not isinstance(found, bool)
    return number and bool(found >= bound)  # NaN is beyond every bound


def _spoken(kind: Any, bound: float) -> str:
    if get_origin(kind) is Literal:
        *words, last = (repr(word) for word in get_args(kind))
        return f"{', '.join(words)} or {last}" if words else last
    if kind in (bool, str, NoneType):
        return {bool: "True or False", str: "a text", NoneType: "None"}[kind]
    above = "" if bound == -math.inf else f" of at least {bound:g}"
    return f"a {'whole ' if kind is int else ''}number{above}"
