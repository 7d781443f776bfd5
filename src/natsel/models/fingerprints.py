"""What a model is, as a fingerprint: the same in every process, and another one for whatever is not the same.

    fingerprint(value) = blake2b(what it is, the fingerprints of its parts)

    numbers, texts, arrays    what they hold
    functions                 code, constants, defaults, captured variables, and the globals that the code names
    classes                   their methods and values, and those of the classes that they derive from
    objects                   their class, and the arguments that they were made with or else their attributes
    networks                  the class, attributes and hooks of every layer, weights and buffers; where a fit starts
                              from new weights, their shapes alone

What comes with Python, natsel or an installed package is known by its name, and its options by those that differ from
their defaults; options that change only speed, place or messages are left out. Where code stands in a file makes no
difference. What cannot be known, such as an open file, is found again in no other process, which is said once.

Every store of results goes by this: folders of experiments, journals, checkpoints, spilled beliefs, embeddings; and so
do beliefs, which may be combined where they have one `draws_id`.
"""

import dataclasses
import dis
import functools
import hashlib
import importlib
import importlib.util
import inspect
import secrets
import sys
import sysconfig
import weakref
from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import pairwise
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from natsel.data.contents import fingerprint_of
from natsel.data.frames import FrameRows, by_position
from natsel.options import warn

_NEUTRAL = frozenset({"n_jobs", "verbose", "verbosity", "device", "progress"})
_NEUTRAL_OPTIONS = _NEUTRAL | {"memory", "cache", "cache_size", "copy_X", "random_state"}  # fits set the last by seeds
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_NAMED = (torch.dtype, torch.device, torch.layout, torch.memory_format, np.dtype, type(...), type(NotImplemented))
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))
# What these methods set is what a model learnt or saw last, and not what it is.
_USES = ("fit", "believe", "believe_together", "predictive", "load_weights", "forward")
_GROWS = frozenset({"append", "extend", "add", "update", "clear", "insert", "pop"})
_SILENT = ("__repr__", "__str__", "__annotate__", "__annotate_func__", "_abc_impl")
_MOST_WORDS, _MOST_VALUES = 200, 200_000

_PROCESS = secrets.token_hex(8)
_unknown: dict[int, Any] = {}  # held, so that no other value gets the same address
_said: set[type] = set()


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
    """What a model is made of, in words by the way to each part; under "" the fingerprint of all.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> dict(list(parts_of(RandomForestClassifier(30, max_depth=4, n_jobs=2)).items())[1:])
    {'model': 'RandomForestClassifier', 'max_depth': '4', 'n_estimators': '30'}
    """
    walk = _Walk()
    return {"": walk(model).hex(), **walk.words}


class _Told(str):
    """What there is to know of a part, in words."""


Parts = Iterable[tuple[str, Any]]


class _Walk:
    """One walk through all that a value is made of: digests, and the first parts in words."""

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
                if len(self._known) > _MOST_VALUES:
                    raise ValueError("too much to look at")
                text, parts = _taken_apart(value, fitted)
                if isinstance(value, nn.Parameter) and not fitted:  # tied weights are one
                    text += f" {self._tied.setdefault(id(value), len(self._tied))}"
                found = self._digest(path, text)
                for name, part in parts:
                    # A network that a function holds is taken as it is; one that a model of natsel holds starts afresh.
                    inner = fitted or not isinstance(value, nn.Module | list | tuple | Mapping)
                    inner = inner and not (name == "network" and _starts_afresh(value))
                    found += name.encode() + self(part, f"{path}.{name}" if path else name, inner)
            except Exception:  # of somebody else's object, which may do anything when it is looked at
                found = self._digest(path, _never_again(value, path))
            self._known[place] = value, hashlib.blake2b(found, digest_size=16).digest()
        return self._known[place][1]

    def _digest(self, path: str, text: str) -> bytes:
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
        if len(self.words) < _MOST_WORDS:
            short = text if len(text) <= 80 else f"{text[:60]}… #{digest.hexdigest()[:8]}"
            self.words.setdefault(path or "model", short)
        return digest.digest()


def _taken_apart(value: Any, fitted: bool) -> tuple[str, Parts]:
    """What a value is in words, and what it is made of."""
    kind = type(value)
    own = [] if _is_installed(kind.__module__) else [("class", kind)]
    if isinstance(value, Enum):
        return f"{kind.__name__}.{value.name}", [("value", value.value)]
    if isinstance(value, np.generic):
        return repr(value.item()), []
    if isinstance(value, _NAMED):
        return str(value), []
    if isinstance(value, Tensor | np.ndarray):
        return _array(value, fitted)
    if isinstance(value, nn.Module):
        return kind.__name__, [*own, *_layer(value, fitted)]
    if isinstance(value, list | tuple):
        return f"{kind.__name__} of {len(value)}", [*own, *((str(place), one) for place, one in enumerate(value))]
    if isinstance(value, set | frozenset):
        return f"set of {len(value)}", [("", _Told(one)) for one in sorted(map(fingerprint, value))]
    if isinstance(value, Mapping):
        named = ((key if isinstance(key, str) else f"#{fingerprint(key)[:8]}", one) for key, one in value.items())
        return f"{kind.__name__} of {len(value)}", [*own, *named]
    if isinstance(value, functools.partial):
        return "partial", [("function", value.func), ("arguments", value.args), *value.keywords.items()]
    if isinstance(value, ModuleType | weakref.ref):
        return getattr(value, "__name__", "weak"), []
    if isinstance(value, type):
        return (value.__name__, _members(value)) if not _is_installed(value.__module__) else (_named(value), [])
    if isinstance(value, FunctionType):
        return (
            (value.__name__, _function(value))
            if not _is_installed(value.__module__)
            else (_named(value), _captured(value) if "<locals>" in value.__qualname__ else [])
        )
    if isinstance(value, MethodType):
        if getattr(sys.modules.get(value.__module__), value.__name__, None) == value:  # such as random.shuffle
            return _named(value), []
        return "method", [("function", value.__func__), ("of", value.__self__)]
    if isinstance(value, BuiltinFunctionType | np.ufunc):
        return _named(value), []
    if isinstance(value, property | functools.cached_property | staticmethod | classmethod) or (
        callable(value) and hasattr(value, "__wrapped__")  # such as a cache
    ):
        ways = ("__wrapped__", "__func__", "fget", "fset", "func")
        return kind.__name__, [(name, getattr(value, name)) for name in ways if hasattr(value, name)]
    if isinstance(rows := by_position(value), FrameRows):
        return f"frame #{fingerprint_of(rows)}", []
    return kind.__name__, [*own, *_object(value)]


def _array(value: Any, fitted: bool) -> tuple[str, Parts]:
    if isinstance(value, Tensor):
        learns = " that learn" if value.requires_grad else ""
        if value.is_meta or (isinstance(value, nn.Parameter) and not fitted):
            return f"weights {value.dtype} {tuple(value.shape)}{learns}", []
        numbers = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        kind, content = f"{value.dtype}{learns}", numbers.tobytes()
    elif value.dtype.hasobject:
        return f"objects {value.shape}", [("", value.ravel().tolist())]
    else:
        kind, content = value.dtype.str, np.ascontiguousarray(value).tobytes()
    return f"array {kind} {tuple(value.shape)} #{hashlib.blake2b(content, digest_size=16).hexdigest()}", []


def _layer(module: nn.Module, fitted: bool) -> Parts:
    """The parts of a layer: its attributes, the code of its hooks, its weights and buffers, and the layers inside."""
    kind, resets = type(module), hasattr(module, "reset_parameters") or hasattr(module, "_reset_parameters")
    passing = _OF_EVERY_MODULE | _changed_by_use(kind)
    for name, value in sorted(vars(module).items()):
        if name not in passing and not (name.startswith("_") and kind.__module__.startswith("torch.")):
            yield name, value
    for hook in (*module._forward_pre_hooks.values(), *module._forward_hooks.values()):
        code = getattr(hook, "__code__", None)  # what hooks hold is often what they saw last
        yield "hook", type(hook) if code is None else _Told("{} {}".format(*_code(code)[:2]))
    for name, buffer in module._buffers.items():
        afresh = not fitted and resets and buffer is not None
        yield name, _Told(f"buffer {buffer.dtype} {tuple(buffer.shape)}") if afresh else buffer  # type: ignore[union-attr]
    yield from module._parameters.items()
    yield from module._modules.items()


def _object(value: Any) -> Parts:
    """The parts of an object: what it was made with where that can be found out, or else all that it holds."""
    kind = type(value)
    mine, of_natsel = not _is_installed(kind.__module__), kind.__module__.startswith("natsel.")
    found: dict[str, Any] = {}
    if hasattr(value, "get_params"):
        found = value.get_params(deep=False)
    elif dataclasses.is_dataclass(value):
        found = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.compare}
    elif of_natsel or (mine and hasattr(value, "__dict__")):
        passing = _changed_by_use(kind)
        found = {name: one for name, one in vars(value).items() if name not in passing} if mine else {}
        makes = [
            inspect.signature(one).parameters for one in kind.__mro__ if "__init__" in vars(one) and one is not object
        ]
        found |= {name: getattr(value, name) for name in sorted(set().union(*makes)) if hasattr(value, name)}
    if not found and not (mine and hasattr(value, "__dict__")):
        reduced = value.__reduce_ex__(4)
        return [("", _Told(reduced))] if isinstance(reduced, str) else [("", part) for part in reduced[1:3]]
    told = getattr(kind, "always_told", ())
    usual = {} if mine else _defaults(kind)
    return [
        (name, one)
        for name, one in sorted(found.items())
        if name not in (_NEUTRAL if mine and not hasattr(value, "get_params") else _NEUTRAL_OPTIONS)
        and (
            name in told
            or name not in usual
            or not (one is usual[name] or fingerprint(one) == fingerprint(usual[name]))
        )
    ]


def _defaults(kind: type) -> dict[str, Any]:
    try:
        found = {name: one.default for name, one in inspect.signature(kind).parameters.items()}
    except (TypeError, ValueError):  # made in C, and says nothing about itself
        return {}
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    return found | {one.name: one.default_factory() for one in fields if callable(one.default_factory)}


def _members(kind: type) -> Parts:
    """The methods and values of a class, and the classes that it derives from."""
    yield "from", list(kind.__bases__)
    for name, member in sorted(vars(kind).items()):
        special = name.startswith("__") and not isinstance(member, FunctionType)
        if not (special or name in _SILENT or isinstance(member, MemberDescriptorType | GetSetDescriptorType)):
            yield name, member


def _function(function: FunctionType) -> Parts:
    """The parts of a function: its code and constants, what it captured, and what its code finds among the globals."""
    digest, constants, names, attributes, imports = _code(function.__code__, function.__doc__)
    yield "code", _Told(digest)
    yield "constants", _Told(constants)
    held = {"defaults": function.__defaults__, "keyword defaults": function.__kwdefaults__, **vars(function)}
    yield from ((name, one) for name, one in held.items() if one is not None and name != "__wrapped__")
    yield from _captured(function)
    seen = [(name, function.__globals__[name]) for name in names if name in function.__globals__]
    yield from seen
    modules = [one for _, one in seen if isinstance(one, ModuleType)]
    modules += [_imported(name, function.__globals__.get("__package__")) for name in imports]
    for module in modules:  # which grow by those inside
        if module is not None and not _is_installed(module.__name__):
            used = [(name, vars(module)[name]) for name in attributes if name in vars(module)]
            modules += [one for _, one in used if isinstance(one, ModuleType) and one not in modules]
            yield from ((f"{module.__name__}.{name}", one) for name, one in used)


def _captured(function: FunctionType) -> Parts:
    """The variables that a function captured where it was made."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            if name not in _NEUTRAL:
                yield name, cell.cell_contents
        except ValueError:  # nothing is in it yet
            continue


@functools.lru_cache(maxsize=4096)
def _code(code: CodeType, about: str | None = None) -> tuple[str, str, list[str], list[str], list[str]]:
    """What code does, as a hash, without lines and files; its constants; the names of globals, of attributes and of
    modules that it asks for, those of the functions inside too. `about` is its docstring.
    """
    inner = [_code(one) for one in code.co_consts if isinstance(one, CodeType)]
    constants = [one for one in code.co_consts if not isinstance(one, CodeType) and (one is None or one is not about)]
    takes = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    counts = code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags
    does = (code.co_code, code.co_names, code.co_exceptiontable, takes, counts, *(one[0] for one in inner))
    steps = list(dis.get_instructions(code))
    names = [step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    imports = [
        "." * int(steps[place - 2].argval or 0) + step.argval
        for place, step in enumerate(steps)
        if step.opname == "IMPORT_NAME"
    ]
    shown = [_shown(one) for one in constants if one is not None] + [one[1] for one in inner if one[1]]
    listed = [
        sorted({*found, *(name for one in inner for name in one[place])})
        for place, found in enumerate((names, code.co_names, imports), start=2)
    ]
    version = sys.version_info[:2]  # the same text has other code
    return hashlib.blake2b(repr((version, does)).encode(), digest_size=8).hexdigest(), ", ".join(shown), *listed  # type: ignore[return-value]


def _shown(constant: Any) -> str:
    return f"{{{', '.join(sorted(map(repr, constant)))}}}" if isinstance(constant, frozenset) else repr(constant)


def _imported(name: str, package: str | None) -> ModuleType | None:
    """A module of the user's that a function imports when it is called."""
    try:
        name = importlib.util.resolve_name(name, package)
        top = name.partition(".")[0]
        spec = None if top in sys.modules else importlib.util.find_spec(top)
        installed = _is_installed(top) if spec is None else _lies_installed(spec.origin)
        return None if installed else importlib.import_module(name)
    except (ImportError, ValueError):
        return None


@functools.lru_cache(maxsize=512)
def _changed_by_use(kind: type) -> frozenset[str]:
    """The attributes that learning and predicting set, or that they append to; of models of natsel, all but making."""
    found: set[str] = set()
    for one in kind.__mro__:
        of_model = one.__module__.startswith("natsel.") and not issubclass(one, nn.Module)
        for name, method in vars(one).items():
            if isinstance(method, FunctionType) and (name in _USES or (of_model and name != "__init__")):
                for before, step in pairwise(dis.get_instructions(method)):
                    grows = step.opname in ("LOAD_ATTR", "LOAD_METHOD") and step.argval in _GROWS
                    found |= {before.argval} if grows else {step.argval} if step.opname == "STORE_ATTR" else set()
    return frozenset(found)


def _starts_afresh(model: Any) -> bool:
    """Whether a model is one of natsel's, which give their networks new weights before each fit."""
    return not isinstance(model, nn.Module) and any(one.__module__.startswith("natsel.") for one in type(model).__mro__)


@functools.cache
def _is_installed(module: str | None) -> bool:
    top = (module or "__main__").partition(".")[0]
    if top in ("natsel", "builtins", "__main__"):
        return top != "__main__"
    found = sys.modules.get(top)
    file = getattr(found, "__file__", None) or next(iter(getattr(found, "__path__", ())), None)
    return top in sys.stdlib_module_names if file is None else _lies_installed(file)


def _lies_installed(file: str | None) -> bool:
    place = Path(file or "")
    standard = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    of_packages = {"site-packages", "dist-packages"} & {*place.parts}
    return file in ("built-in", "frozen") or bool(of_packages) or any(place.is_relative_to(one) for one in standard)


def _named(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"


def _is_plain(value: Any) -> bool:
    kind = type(value)
    return kind in _PLAIN or (kind is tuple and all(map(_is_plain, value)))


def _never_again(value: Any, path: str) -> str:
    """A text for what cannot be known: the same for the same value, and another one in every other process."""
    kind = type(value)
    if kind not in _said:
        _said.add(kind)
        warn(
            f"{path or 'model'}: one {kind.__name__} cannot be told from another, so that results kept of what uses it"
            " are found again by no other process; make it inside of the function that uses it"
        )
    _unknown[id(value)] = value
    return f"{kind.__name__} {_PROCESS} {id(value)}"
