"""Arguments and options, held to the types they are declared with: one look for all that people call.

Python takes any value for any argument. What a wrong one does later (a comparison of text with a number, a slice by a
float) says nothing about the argument that caused it. What the doors of natsel hand out is therefore checked where it
is called (`checked_names`, `natsel.stub_names`); inside, natsel calls itself unchecked.  docs/decisions/0023
"""

import builtins
import collections.abc as abc
import inspect
import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, reduce, wraps
from itertools import islice
from numbers import Integral, Real
from operator import or_
from types import FunctionType, NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from natsel.integers import LEAST, MOST

Function = TypeVar("Function", bound=Callable[..., Any])


class NumberOrNaN:
    """A number, or NaN where there is none: in fields of results, and in sequences."""


class Several:
    """What has a length and an order."""


Rows = Annotated[Any, Several]
"""Values, one after another: an array, a tensor, a list, a data frame, a data set with a length."""
Count = Annotated[int, 1]
"""How many there are, at least one."""
Amount = Annotated[int, 0]
"""How many there are, perhaps none."""
Share = Annotated[float, 0, 1]
"""From nothing to all."""


_SIMPLE = (int, float, bool, str, NoneType)
_KEEPERS = ("natsel.store", "natsel.learning", "natsel.data")  # rooms whose values are changed by methods
_NOTHING = object()
_SPECIAL = (Any, Several, object)  # nothing is an instance of these, or everything
_OF_ANY = {"__init__", "__subclasshook__"}
_LOOKED_AT = 16  # so many entries of a sequence; the rest is for whoever reads them
_KNOWN_AS = {
    "NumberOrNaN": "a number",
    "Several": "several values in an order",
    "Tensor": "a tensor",
    "ndarray": "an array",
    "Module": "a torch module",
    "Path": "a path",
}


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
        if _is_simple(field.type):
            default = "" if field.default is MISSING else f"; the default is {field.default!r}"
            found, bound = getattr(value, field.name), least.get(field.name, -math.inf)
            if not _is(found, field.type, bound):
                raise _refusal(found, field.type, field.name, bound, default)


def _refusal(value: Any, kind: Any, name: str, least: float = -math.inf, remedy: str = "") -> ValueError:
    shown = type(value).__name__ if hasattr(value, "shape") or len(repr(value)) > 60 else repr(value)
    return ValueError(f"{name}: expected {_spoken(kind, least)}, found {shown}{remedy}")


class Rule(NamedTuple):
    """What an argument is declared as, its default, and the types that are what is declared without a closer look;
    whether it is looked at before the call, and whether the function may be asked first.
    """

    kind: Any
    default: Any
    types: frozenset[type]
    is_looked_at: bool
    may_be_asked: bool

    def is_plainly(self, value: Any) -> bool:
        """Whether a value is the default, or of one of the types and neither NaN nor beyond 64 bits."""
        found = type(value)
        if found in self.types:
            return (found is not float or value == value) and (found is not int or LEAST <= value <= MOST)
        return value is self.default


def checked(function: Function) -> Function:
    """A function that refuses arguments of other kinds than it declares, by name.

    What a function says itself of an argument comes first, since it knows the remedy. Methods of what keeps data are
    not asked unless their texts name the argument: they may write something down.

    >>> @checked
    ... def scaled(by: float, times: int = 1) -> float:
    ...     return by * times
    >>> scaled(2.0, times=3)
    6.0
    >>> scaled("2")
    Traceback (most recent call last):
    ValueError: by: expected a number, found '2'
    """
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    positional = names[: code.co_argcount]

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        declared, refusal = _declared(function), None
        given = (*zip(positional, args, strict=False), *kwargs.items())
        for name, value in given:
            rule = declared.get(name)
            if rule is None or rule.is_plainly(value) or not rule.is_looked_at or _is(value, rule.kind):
                continue
            refusal = refusal or _refusal(value, rule.kind, name)
            if not rule.may_be_asked:
                raise refusal
        try:
            made = function(*args, **kwargs)
        except Exception as failure:
            if _is_sentence(failure, names if refusal else ()):
                raise
            for name, value in given:
                rule = declared.get(name)
                if rule and value is not rule.default and (_says_nothing(value) or not _is(value, rule.kind)):
                    refusal = refusal or _refusal(value, rule.kind, name)
            if refusal is None:
                raise
            raise refusal from failure
        if refusal is not None:
            raise refusal
        return made

    return call  # type: ignore[return-value]


def _is_sentence(failure: Exception, names: tuple[str, ...]) -> bool:
    """Whether an error is a sentence that begins with what it is about, as natsel writes them: with one of the names,
    where there are some.
    """
    about, colon, _ = str(failure).partition(": ")
    words = about.replace(",", "").split()
    names_it = not names or bool({*words} & {*names}) or ", found " in str(failure)
    is_about = bool(colon) and len(words) <= 3 and "(" not in about
    return is_about and names_it and isinstance(failure, ValueError | ImportError)


def _says_nothing(value: Any) -> bool:
    """Whether a value is empty, or an array of nothing but NaN."""
    is_array = getattr(getattr(value, "dtype", None), "kind", "") == "f"
    return bool((value != value).all()) if is_array else isinstance(value, abc.Sequence | abc.Mapping) and not value


def warn(sentence: str, category: type[Warning] = UserWarning) -> None:
    """Warn whoever called natsel: the warning names the first line that is not natsel's."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("natsel"):
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, category, stacklevel=level)


def checked_names(names: dict[str, Any]) -> None:
    """Make what a room hands out check its arguments: `checked_names(globals())` is the last line of its door."""
    names.update({name: checked_part(value) for name, value in names.items() if not name.startswith("_")})


def checked_part(value: Any) -> Any:
    """A function of natsel that checks its arguments, or a class whose methods do; anything else as it is."""
    if not str(getattr(value, "__module__", "")).startswith("natsel.") or hasattr(value, "__wrapped__"):
        return value
    if isinstance(value, FunctionType):
        return checked(value)
    if isinstance(value, type) and not issubclass(value, BaseException) and not _is_protocol(value):
        called = {"__call__"} if hasattr(value, "get_params") else {"__call__", "__init__"}
        for name, member in list(vars(value).items()):
            inner = getattr(member, "__func__", member)
            wanted = (name in called or not name.startswith("_")) and isinstance(inner, FunctionType)
            if wanted and not hasattr(inner, "__wrapped__"):
                made = checked(inner)
                setattr(value, name, made if inner is member else type(member)(made))
    return value


@cache
def _declared(function: Callable[..., Any]) -> dict[str, Rule]:
    """The kind and the default of each argument, whether it is looked at before the call, and whether the function may
    be asked first. Fields of dataclasses often convert what they are given: of these only numbers, words and truth
    values are looked at before.
    """
    found, home = {}, vars(sys.modules[function.__module__])
    owner = home.get(function.__qualname__.rpartition(".")[0])
    is_made = function.__name__ == "__init__"
    are_fields = is_made and is_dataclass(owner)
    keeps = owner is not None and not is_made and function.__module__.startswith(_KEEPERS)
    looking = getattr(owner, "__post_init__", None) if are_fields else function
    consts = () if looking is None else inspect.unwrap(looking).__code__.co_consts
    texts = [text.partition(":")[0] for text in consts if isinstance(text, str)]
    code, positional = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    defaults = {**dict(zip(reversed(names), reversed(positional), strict=False)), **(function.__kwdefaults__ or {})}
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        kind = function.__annotations__.get(name, Any)
        if isinstance(kind, str):
            kind = eval(kind, {}, _Known({**vars(abc), **vars(builtins), **home}))  # what is written in the source
        is_looked_at = not are_fields or _is_simple(kind)
        if are_fields and is_looked_at:
            kind = reduce(or_, map(_may_be_nan, _parts(kind)))
        if kind is not Any:
            types = frozenset(
                float if part is NumberOrNaN else part
                for part in _parts(kind)
                if isinstance(part, type) and part not in _SPECIAL
            )
            found[name] = Rule(kind, defaults.get(name, _NOTHING), types, is_looked_at, not keeps or name in texts)
    return found


def _may_be_nan(kind: Any) -> Any:
    """The same kind, where NaN stands for "none": in fields of results and in sequences."""
    return NumberOrNaN if kind is float else kind


class _Known(dict[str, Any]):
    """Names in an annotation; those that only type checkers know may be anything."""

    def __missing__(self, name: str) -> Any:
        return Any


def _is_simple(kind: Any) -> bool:
    """Whether a kind is one of options: numbers, words, truth values, or several of these."""
    return all(part in _SIMPLE or get_origin(part) is Literal for part in _parts(kind))


def _is_protocol(kind: type) -> bool:
    return bool(vars(kind).get("_is_protocol"))


def _parts(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _is(found: Any, kind: Any, least: float = -math.inf) -> bool:
    """Whether a value may be meant where a kind is declared; True where that cannot be told."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_is(found, part, least) for part in inner)
    if origin is Annotated:
        if isinstance(inner[1], int):
            return _is(found, inner[0], inner[1]) and all(found <= most for most in inner[2:])
        return _is(found, inner[1])
    if origin is Literal:
        return isinstance(found, str) and found in inner
    if isinstance(kind, TypeVar):
        return kind.__bound__ is None or _is(found, kind.__bound__)
    if kind in (int, float, NumberOrNaN):
        if getattr(found, "ndim", None) == 0 and not isinstance(found, Real):  # a tensor or an array of one number
            found = found.item()
        number = isinstance(found, Integral if kind is int else Real) and not isinstance(found, bool)
        within = kind is NumberOrNaN or bool(found >= least) if number else False  # NaN is beyond any bound
        return within and (not isinstance(found, Integral) or LEAST <= int(found) <= MOST)
    if kind is bool:
        return isinstance(found, bool) or type(found).__name__ in ("bool", "bool_")  # of NumPy too
    if kind is None or kind is NoneType:
        return found is None
    if origin is type:
        plain = isinstance(inner[0], type) and not _is_protocol(inner[0])
        return isinstance(found, type) and (not plain or issubclass(found, inner[0]))
    if origin is abc.Callable:
        return callable(found)
    if origin is None:
        return _is_of_class(found, kind)
    return _is_container(found, origin, inner)


def _is_container(found: Any, origin: Any, inner: tuple[Any, ...]) -> bool:
    """The same, of sequences, mappings and what else has entries."""
    if not isinstance(origin, type) or origin.__module__ not in ("collections.abc", "builtins"):
        return _is_of_class(found, origin)
    if issubclass(origin, abc.Mapping):
        entries = islice(found.items(), _LOOKED_AT) if isinstance(found, abc.Mapping) else ()
        return isinstance(found, abc.Mapping) and all(
            _is(one, _may_be_nan(kind)) for pair in entries for one, kind in zip(pair, inner, strict=False)
        )
    if isinstance(found, str | bytes | type | abc.Mapping) or not hasattr(found, "__iter__"):
        return False
    if hasattr(found, "ndim"):
        return _is_array_of(found, inner)
    if not isinstance(found, abc.Sequence):  # looked at, an iterator would be used up
        return origin is not tuple
    if issubclass(origin, tuple) and inner[-1:] != (...,):
        return len(found) == len(inner) and all(map(_is, found, inner))
    return all(_is(one, _may_be_nan(inner[0])) for one in found[:_LOOKED_AT]) if inner else True


def _is_array_of(found: Any, inner: tuple[Any, ...]) -> bool:
    """Whether an array can stand for a sequence: one of numbers or texts, or of two axes for several of these."""
    wanted = {part for kind in inner[:1] for part in _parts(kind)}
    if not wanted or Any in wanted or not hasattr(found, "dtype"):
        return bool(found.ndim)
    if any(getattr(part, "__name__", "") == "Tensor" for part in wanted):
        return hasattr(found, "detach")
    kind = getattr(found.dtype, "kind", "f" if getattr(found.dtype, "is_floating_point", False) else "i")
    fits = (str in wanted and kind in "UOT") or (int in wanted and kind in "biu") or (float in wanted and kind in "iuf")
    return (fits and found.ndim == 1) or (found.ndim == 2 and any(get_origin(part) is not None for part in wanted))


def _is_of_class(found: Any, kind: Any) -> bool:
    if not isinstance(kind, type) or kind in (object, Any):
        return True
    if _is_protocol(kind):  # any of what it lists: only those who use a part of it know which
        parts = [vars(part) for part in kind.__mro__ if _is_protocol(part)]
        listed = {name for part in parts for name, value in part.items() if isinstance(value, FunctionType | property)}
        return not isinstance(found, type) and any(hasattr(found, name) for name in listed - _OF_ANY)
    if kind.__name__ == "ndarray":
        return hasattr(found, "__array__") or isinstance(found, list | tuple)
    if kind is Several:
        ordered = hasattr(found, "__len__") or hasattr(found, "__array__")
        ordered = ordered and not isinstance(found, str | bytes | type | abc.Mapping | abc.Set)
        return ordered and getattr(found, "ndim", 1) != 0
    return isinstance(found, kind)


def _spoken(kind: Any, least: float = -math.inf) -> str:
    """A kind in words."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_spoken(part, least) for part in inner))
    if origin is Annotated:
        most = f" and at most {inner[2]}" if len(inner) > 2 else ""
        return _spoken(inner[0], inner[1]) + most if isinstance(inner[1], int) else _spoken(inner[1])
    if origin is Literal:
        *words, last = (repr(word) for word in inner)
        return f"{', '.join(words)} or {last}" if words else last
    if kind in (bool, str, NoneType, None):
        return {bool: "True or False", str: "a text"}.get(kind, "None")
    if kind in (int, float):
        above = "" if least == -math.inf else f" of at least {least:g}"
        return f"a {'whole ' if kind is int else ''}number{above}"
    if origin is abc.Callable:
        return "a function"
    if isinstance(origin, type) and issubclass(origin, abc.Iterable):
        entries = next(
            (words for part, words in ((int, "whole numbers"), (float, "numbers"), (str, "texts")) if part in inner),
            "entries",
        )
        return "a mapping" if issubclass(origin, abc.Mapping) else f"several {entries}"
    name = getattr(origin or kind, "__name__", str(kind))
    return _KNOWN_AS.get(name, f"a {name}")
