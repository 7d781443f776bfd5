"""A model as a text that is the same in every process: what decides what it learns, as far as that can be found out.

    Sklearn(estimator=RandomForestClassifier(max_depth=4, n_estimators=30))

The text has the class and those of its arguments that differ from their defaults. Arguments are found in `get_params`
of scikit-learn, in the fields of a dataclass, in the variables that a function captured, or else in attributes that
have the names of arguments. A network is described by its layers. Options that change only speed, place or messages
are left out. Arrays are left out too: they are data.
"""

import dataclasses
import functools
import hashlib
import inspect
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import numpy as np
import torch

_NEUTRAL = frozenset(
    {"n_jobs", "verbose", "verbosity", "device", "progress", "memory", "cache", "cache_size", "copy_X"}
)
_DEEPEST = 8

Item = tuple[str, Any]


def text_of(value: Any, depth: int = 0) -> str:
    """The text of a model, or of anything it was made with.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> text_of(RandomForestClassifier(30, max_depth=4, n_jobs=2))
    'RandomForestClassifier(max_depth=4, n_estimators=30)'
    """
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, Enum | torch.dtype | torch.device):
        return str(value)
    if isinstance(value, torch.nn.Module):
        return f"{type(value).__name__} {_layers(value)}"
    if depth > _DEEPEST or _is_data(value):
        return type(value).__name__
    if isinstance(value, Mapping):
        return _call("", ((str(name), entry) for name, entry in value.items()), depth)
    if isinstance(value, list | tuple | set | frozenset):
        texts = [text_of(entry, depth + 1) for entry in value]
        return f"({', '.join(texts if isinstance(value, list | tuple) else sorted(texts))})"
    if isinstance(value, functools.partial):
        given = [(str(number), entry) for number, entry in enumerate(value.args)]
        return _call(text_of(value.func, depth + 1), [*given, *value.keywords.items()], depth)
    if isinstance(getattr(value, "__name__", None), str):  # a class or a function
        name, captured = getattr(value, "__qualname__", value.__name__), _captured(value)
        return _call(name, captured, depth) if captured else name
    return _call(type(value).__name__, _arguments(value, depth), depth)


def _call(name: str, items: Iterable[Item], depth: int) -> str:
    texts = [
        f"{key}={text_of(entry, depth + 1)}" for key, entry in items if key not in _NEUTRAL and not _is_data(entry)
    ]
    return f"{name}({', '.join(texts)})"


def _arguments(value: Any, depth: int) -> list[Item]:
    """The arguments that an object was made with, without those that have their default."""
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        made = {field.name: field.default_factory() for field in fields if callable(field.default_factory)}
        defaults = {field.name: made.get(field.name, field.default) for field in fields}
        found = {field.name: getattr(value, field.name, None) for field in fields if field.repr}
    else:
        takes: Mapping[str, inspect.Parameter]
        try:
            takes = inspect.signature(type(value)).parameters
        except (TypeError, ValueError):  # made in C, and says nothing about itself
            takes = {}
        defaults = {name: one.default for name, one in takes.items()}
        if hasattr(value, "get_params"):
            found = value.get_params(deep=False)
            found.pop("random_state", None)  # every fit sets it by the seed of the run
        else:
            found = {name: getattr(value, name) for name in takes if hasattr(value, name)}
    told = getattr(type(value), "always_told", ())
    return [
        (name, entry)
        for name, entry in found.items()
        if name not in defaults or name in told or text_of(entry, depth + 1) != text_of(defaults[name], depth + 1)
    ]


def _captured(function: Any) -> list[Item]:
    """The variables that a function captured where it was made."""
    cells, code = getattr(function, "__closure__", None), getattr(function, "__code__", None)
    if not cells or code is None:
        return []
    return [(name, cell.cell_contents) for name, cell in zip(code.co_freevars, cells, strict=True)]


def _layers(module: torch.nn.Module) -> str:
    """A short digest of the architecture of a network, without its weights."""
    shapes = [(name, tuple(tensor.shape)) for name, tensor in module.state_dict().items()]
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", repr(module)) + repr(shapes)
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


def _is_data(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, np.generic)
