"""What a model is, as a fingerprint: the same in every process, and another one for whatever is not the same.

    numbers, texts, arrays    what they hold
    functions, classes        code, constants, defaults, captured variables, the globals that the code names, the bases
    objects                   their class, and the arguments that they were made with or else all that they hold
    networks                  attributes and hooks of all layers, buffers, weights (none, where each fit resets them)

What comes with Python, natsel or an installed package is known by its name, and its options by those that differ from
their defaults and change more than speed, place or messages; lines and files do not count. What cannot be known, such
as an open file, is found again by no other process, and that is said. All stores of results and `draws_id` go by this.
"""

import contextlib
import copyreg
import dataclasses
import dis
import functools
import hashlib
import importlib
import inspect
import re
import secrets
import sys
import sysconfig
import threading
import types
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from natsel.options import warn

_NEUTRAL = frozenset({"n_jobs", "verbose", "verbosity", "device", "progress"})
_NEUTRAL_OPTIONS = _NEUTRAL | {"memory", "cache", "cache_size", "copy_X", "random_state"}  # fits set the last by seeds
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_LOCKS = (type(threading.Lock()), type(threading.RLock()))  # which hold nothing
_NAMED = (np.generic, np.dtype, torch.dtype, torch.device, torch.layout, torch.memory_format, *_LOCKS)
_BY_NAME = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))
# What these methods set, or make longer, is what a model learnt or saw last, and not what it is.
_OTHER_USES = ("predictive", "geometry", "load_weights", "forward", "embed", "__call__")
_USES = ("fit", "believe", "believe_together", *_OTHER_USES)
_GROWS = ("append", "extend", "add", "update", "clear", "insert", "pop")
_PROCESS = secrets.token_hex(8)
_unknown: dict[int, Any] = {}  # held, so that no other value gets the same address
_said: set[type] = set()

Parts = Iterable[tuple[str, Any]]


def fingerprint(*parts: Any, bytes_of_digest: int = 12) -> str:
    """The hash of parts: bytes as they are, all else by what it is.

    >>> fingerprint("gp", 1, np.zeros(2)) == fingerprint("gp", 1, np.zeros(2)) != fingerprint("gp", 1, np.ones(2))
    True
    >>> fingerprint(nn.Dropout(0.1)) == fingerprint(nn.Dropout(0.2))
    False
    """
    digest, walk = hashlib.blake2b(digest_size=bytes_of_digest), _Walk()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else repr(part).encode() if _is_plain(part) else walk(part))
    return digest.hexdigest()


def weights_fingerprint(*modules: nn.Module) -> str:
    """The fingerprint of what modules learnt: all weights and persistent buffers."""
    return fingerprint(*(dict(module.state_dict()) for module in modules), bytes_of_digest=8)


def parts_of(model: Any) -> dict[str, str]:
    """What a model is made of, in words by the way to each of the first 200 parts; under "" the fingerprint of all.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> dict(list(parts_of(RandomForestClassifier(30, max_depth=4, n_jobs=2)).items())[1:])
    {'model': 'RandomForestClassifier', 'max_depth': '4', 'n_estimators': '30'}
    """
    walk = _Walk()
    return {"": walk(model).hex(), **walk.words}


class _Told(str):
    """What there is to know of a part, in words."""


class _Walk:
    """One walk through all that values are made of: digests, and the first parts in words."""

    def __init__(self) -> None:
        self.words: dict[str, str] = {}
        self._known: dict[tuple[int, bool], tuple[Any, bytes]] = {}  # values too: nothing else gets their address
        self._tied: dict[int, int] = {}

    def __call__(self, value: Any, path: str = "", fitted: bool = True) -> bytes:
        """The digest of a value; `fitted`: with the weights of networks."""
        if isinstance(value, _Told) or _is_plain(value):
            return self._digest(path, value if isinstance(value, _Told) else repr(value))
        place = id(value), fitted
        if place not in self._known:
            self._known[place] = value, b"itself"
            try:
                # A network that a function holds is taken as it is; one that a model of natsel holds starts afresh.
                inner = fitted or not isinstance(value, nn.Module | list | tuple | Mapping)
                homes = {one.__module__[:7] for one in type(value).__mro__} if hasattr(value, "believe") else ()
                text, parts = _taken_apart(value, fitted)
                if isinstance(value, nn.Parameter) and not fitted:  # tied weights are one
                    text += f" {self._tied.setdefault(id(value), len(self._tied))}"
                found = self._digest(path, text)
                for name, part in parts:
                    there = f"{path}.{name}" if path and name else path or name
                    found += name.encode() + self(part, there, inner and not (name == "network" and "natsel." in homes))
            except Exception:  # of somebody else's object, which may do anything when it is looked at
                found = self._digest(path, _never_again(value, path))
            self._known[place] = value, hashlib.blake2b(found, digest_size=16).digest()
        return self._known[place][1]

    def _digest(self, path: str, text: str) -> bytes:
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
        if len(self.words) < 200:
            short = text if len(text) <= 80 else f"{text[:60]}… #{digest.hexdigest()[:8]}"
            self.words.setdefault(path or "model", short)
        return digest.digest()


def _taken_apart(value: Any, fitted: bool) -> tuple[str, Parts]:
    """What a value is in words, and what it is made of."""
    kind, mine = type(value), not _is_installed(type(value).__module__)
    own = [("class", kind)] if mine else []
    if isinstance(value, _NAMED):
        return kind.__name__ if isinstance(value, _LOCKS) else str(value), []
    if isinstance(value, Tensor | np.ndarray) and not isinstance(value, np.ma.MaskedArray):
        return _array(value, fitted)
    if isinstance(value, nn.Module):
        return kind.__name__, [*own, *_layer(value, fitted)]
    if isinstance(value, list | tuple | set | frozenset | Mapping):
        listed = sorted(map(fingerprint, value)) if isinstance(value, set | frozenset) else value
        pairs = listed.items() if isinstance(listed, Mapping) else enumerate(listed)
        named = ((str(name) if _is_plain(name) else fingerprint(name), one) for name, one in pairs)
        return f"{kind.__name__} of {len(value)}", [*own, *named]
    if isinstance(value, functools.partial):
        return "partial", [("function", value.func), ("arguments", value.args), *value.keywords.items()]
    if isinstance(value, type | types.FunctionType) and not _is_installed(value.__module__):
        return value.__name__, _members(value) if isinstance(value, type) else _function(value)
    in_module = isinstance(value, types.MethodType) and sys.modules.get(value.__module__)  # such as random.shuffle
    if (in_module and getattr(in_module, value.__name__, None) == value) or isinstance(value, _BY_NAME):
        name = getattr(value, "__qualname__", value.__name__)
        return f"{getattr(value, '__module__', '')}.{name}", _captured(value) if "<locals>" in name else []
    if isinstance(value, property | functools.cached_property) or hasattr(value, "cache_info"):
        ways = ("__wrapped__", "fget", "fset", "func")
        return kind.__name__, [(name, getattr(value, name)) for name in ways if hasattr(value, name)]
    return kind.__name__, [*own, *_object(value, mine)]


def _array(value: Any, fitted: bool) -> tuple[str, Parts]:
    about = f"{value.dtype} {tuple(value.shape)}{' that learn' * getattr(value, 'requires_grad', False)}"
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return f"objects {about}", [("", value.ravel().tolist())]
    if isinstance(value, Tensor) and (value.is_meta or (isinstance(value, nn.Parameter) and not fitted)):
        return f"weights {about}", []
    tensor = isinstance(value, Tensor)
    held: Any = value.detach().cpu().contiguous().reshape(-1) if tensor else np.ascontiguousarray(value).reshape(-1)
    content = held.view(torch.uint8).numpy() if tensor else held.view(np.uint8)
    return f"array {about} #{hashlib.blake2b(content, digest_size=16).hexdigest()}", []


def _layer(module: nn.Module, fitted: bool) -> Parts:
    """The parts of a layer: its attributes, the code of its hooks, its weights and buffers, and the layers inside."""
    kind: Any = type(module)
    resets = hasattr(module, "reset_parameters") or hasattr(module, "_reset_parameters")
    passing = _OF_EVERY_MODULE | _changed_by_use(kind) | _kept_by_frameworks(kind)
    yield from ((name, value) for name, value in sorted(vars(module).items()) if name not in passing)
    for hook in (*module._forward_pre_hooks.values(), *module._forward_hooks.values()):
        # What hooks hold is often what they saw last.
        yield "hook", _Told(_code(hook.__code__)[:2]) if isinstance(hook, types.FunctionType) else type(hook)
    buffers = {} if resets and not fitted else module._buffers
    yield from (*buffers.items(), *module._parameters.items(), *module._modules.items())


def _object(value: Any, mine: bool) -> Parts:
    """The parts of an object: what it was made with where that can be found out, or else all that it holds."""
    kind: Any = type(value)
    usual, held = {} if mine else _defaults(kind), getattr(value, "__dict__", None)
    if hasattr(value, "get_params"):
        found = value.get_params(deep=False)
    elif dataclasses.is_dataclass(value):
        found = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.compare}
    else:
        makes = [_defaults(one) for one in kind.__mro__ if "__init__" in vars(one)]
        found = {name: getattr(value, name) for name in set().union(*makes) if hasattr(value, name)}
        if mine and held is not None:
            found |= {name: one for name, one in held.items() if name not in _changed_by_use(kind)}
        elif not kind.__module__.startswith("natsel.") or not {*usual} - {"train"} <= {*found}:
            taken: Any = copyreg.dispatch_table.get(kind)
            reduced = value.__reduce_ex__(4) if taken is None else taken(value)
            parts = [_Told(reduced)] if isinstance(reduced, str) else reduced[1:5]
            return [("", list(one) if hasattr(one, "__next__") else one) for one in parts]
    skipped = _NEUTRAL_OPTIONS if hasattr(value, "get_params") or not mine else _NEUTRAL
    silent = {
        name for name in {*found} & {*usual} - {*getattr(kind, "always_told", ())} if _same(found[name], usual[name])
    }
    return [(name, found[name]) for name in sorted({*found} - skipped - silent)]


def _same(one: Any, other: Any) -> bool:
    with contextlib.suppress(Exception):  # of arrays, whose comparison is no truth value
        return one is other or (type(one) is type(other) and bool(one == other))
    return False


@functools.lru_cache(maxsize=512)
def _defaults(kind: type) -> dict[str, Any]:
    """The arguments that a class takes, and what they are where nothing is said."""
    with contextlib.suppress(TypeError, ValueError):  # made in C, and says nothing about itself
        takes = [one for one in inspect.signature(kind).parameters.values() if "VAR" not in one.kind.name]
        fields = getattr(kind, "__dataclass_fields__", {}).items()
        made = {name: one.default_factory() for name, one in fields if callable(one.default_factory)}
        return {one.name: one.default for one in takes} | made
    return {}


def _members(kind: type) -> Parts:
    """The methods and values of a class, and the classes that it derives from."""
    yield "from", list(kind.__bases__)
    silent = ("__repr__", "__str__", "__annotate__", "__annotate_func__", "_abc_impl")
    for name, member in sorted(vars(kind).items()):
        one = getattr(member, "__func__", member)  # of static and class methods
        special = name.startswith("__") and not isinstance(one, types.FunctionType)
        if not (special or name in silent):
            yield name, one


def _function(function: types.FunctionType) -> Parts:
    """The parts of a function: its code and constants, what it captured, and what its code finds among the globals."""
    code, constants, names, attributes, imports = _code(function.__code__, function.__doc__)
    held = {"defaults": function.__defaults__, "keyword defaults": function.__kwdefaults__, **vars(function)}
    held |= {"code": _Told(code), "constants": _Told(constants), "__wrapped__": None}
    seen = {name: function.__globals__[name] for name in names if name in function.__globals__}
    yield from (*((name, one) for name, one in held.items() if one is not None), *_captured(function), *seen.items())
    modules = [*seen.values()]
    for name in imports:
        with contextlib.suppress(Exception):  # of a module that is not there
            modules.append(importlib.import_module(name, function.__globals__.get("__package__")))
    for module in modules:  # which grow by those inside
        if isinstance(module, types.ModuleType) and not _is_installed(module.__name__):
            used = [(name, vars(module)[name]) for name in attributes if name in vars(module)]
            modules += [one for _, one in used if isinstance(one, types.ModuleType) and one not in modules]
            yield from ((f"{module.__name__}.{name}", one) for name, one in used)


def _captured(function: types.FunctionType) -> Parts:
    """The variables that a function captured where it was made."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return [(name, cell.cell_contents) for name, cell in cells if name not in _NEUTRAL]


@functools.lru_cache(maxsize=4096)
def _code(code: types.CodeType, about: str | None = None) -> tuple[str, str, list[str], list[str], list[str]]:
    """What code does, as a hash, without lines and files; its constants; the names of globals, of attributes and of
    modules that it asks for, those of the functions inside too. `about` is its docstring.
    """
    inner = [_code(one) for one in code.co_consts if isinstance(one, types.CodeType)]
    held = [one for one in code.co_consts if not (one is None or one is about or isinstance(one, types.CodeType))]
    gaps = [one is None or one is about or 2 * isinstance(one, types.CodeType) for one in code.co_consts]
    takes = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], code.co_argcount, code.co_posonlyargcount
    does = sys.version_info[:2], code.co_code, code.co_names, code.co_exceptiontable, code.co_flags, takes, gaps
    steps = list(dis.get_instructions(code))
    names = [step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    three = [each for each in zip(steps, steps[1:], steps[2:], strict=False) if each[2].opname == "IMPORT_NAME"]
    imports = ["." * int(level.argval or 0) + step.argval for level, _, step in three]
    shown = [f"{{{', '.join(sorted(map(repr, one)))}}}" if isinstance(one, frozenset) else repr(one) for one in held]
    constants = ", ".join(shown + [one[1] for one in inner if one[1]])
    wanted = zip((names, code.co_names, imports), *(one[2:] for one in inner), strict=True)
    asked = [sorted(set().union(*each)) for each in wanted]
    digest = hashlib.blake2b(repr((does, [one[0] for one in inner])).encode(), digest_size=8).hexdigest()
    return digest, constants, *asked  # type: ignore[return-value]


@functools.lru_cache(maxsize=512)
def _changed_by_use(kind: type) -> frozenset[str]:
    """The attributes that learning and predicting set or make longer; of a model of natsel, all but its making."""
    found: set[str] = set()
    for name, method in (pair for one in kind.__mro__ for pair in vars(one).items()):
        natsels = str(getattr(method, "__module__", "")).startswith("natsel.") and not issubclass(kind, nn.Module)
        if isinstance(method, types.FunctionType) and (name in _USES or (natsels and name != "__init__")):
            for before, step in pairwise(dis.get_instructions(method)):
                grows = step.opname in ("LOAD_ATTR", "LOAD_METHOD") and step.argval in _GROWS
                found |= {before.argval} if grows else {step.argval} if step.opname == "STORE_ATTR" else set()
    return frozenset(found)


@functools.lru_cache(maxsize=512)
def _kept_by_frameworks(kind: type) -> frozenset[str]:
    """The attributes with an underscore that classes of torch or of an installed package set, such as a trainer."""
    makes = [vars(one)["__init__"] for one in kind.__mro__ if "__init__" in vars(one) and _is_installed(one.__module__)]
    steps = [step for make in makes if isinstance(make, types.FunctionType) for step in dis.get_instructions(make)]
    return frozenset(one.argval for one in steps if one.opname == "STORE_ATTR" and one.argval.startswith("_"))


@functools.cache
def _is_installed(module: str | None) -> bool:
    """Whether a module is one of Python, of natsel or of an installed package, and not the user's own."""
    top = (module or "__main__").partition(".")[0]
    file = getattr(sys.modules.get(top), "__file__", None) or ""
    if top == "__main__" or not (file or top in sys.stdlib_module_names):
        return False
    standard = sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")
    return top == "natsel" or not file or bool(re.search("(site|dist)-packages", file)) or file.startswith(standard)


def _is_plain(value: Any) -> bool:
    return type(value) in _PLAIN or (type(value) is tuple and all(map(_is_plain, value)))


def _never_again(value: Any, path: str) -> str:
    """A text for what cannot be known: the same for the same value, and another one in every other process."""
    name = type(value).__name__
    if type(value) not in _said:
        _said.add(type(value))
        warn(
            f"{path or 'model'}: one {name} cannot be told from another, so that no other process finds results again"
            " that are kept with it; make it inside of the function that uses it"
        )
    _unknown[id(value)] = value
    return f"{name} {_PROCESS} {id(value)}"
