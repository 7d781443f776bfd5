"""A belief taken apart into tensors and a description, and put together again with every field it had.

    description     field → None, a number, a text, a list, {"tensor": name} or {"form": name, "parts": {…}}

Files and shards hold both (`natsel.beliefs.files`, `natsel.beliefs.shards`), so that a field is kept wherever a belief
goes: what labels taught it, the precision of its weights, its warnings.
"""

import json
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import MISSING, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from natsel.beliefs.base import Belief, kinds
from natsel.beliefs.draws import Learnt
from natsel.beliefs.updates import Update
from natsel.ids import IdArray, as_ids, keys_of
from natsel.information.weights.precision import FORMS
from natsel.plugins import load_installed

FORMAT = 2

_FORMS: dict[str, type] = {**FORMS, "learnt": Learnt, "update": Update}
_NAMES = {form: name for name, form in _FORMS.items()}

Description = dict[str, Any]

IDS = "ids_N"
"""The name under which ids are stored: integers, or rows of bytes that spell each id in JSON, filled up with spaces."""


def taken_apart(belief: Belief) -> tuple[dict[str, Tensor], Description]:
    """The tensors of a belief by name, and what its fields are made of.

    >>> from natsel.beliefs import CategoricalSamples
    >>> tensors, description = taken_apart(CategoricalSamples.from_probs([[[0.5, 0.5]]], draws_id="fit 1"))
    >>> sorted(tensors), description["draws_id"]
    (['ids_N', 'log_probs_N_K_C', 'log_weights_K'], 'fit 1')
    """
    tensors: dict[str, Tensor] = {IDS: _ids_as_tensor(belief.ids)}
    names = [name for name in _fields_of(type(belief)) if name != "ids"]
    return tensors, {
        **{name: _described(getattr(belief, name), name, tensors) for name in names},
        IDS: {"tensor": IDS},
    }


def over_points(kind: type[Belief]) -> tuple[str, ...]:
    """The names of stored tensors that have one entry per point.

    >>> from natsel.beliefs import CategoricalSamples
    >>> over_points(CategoricalSamples)
    ('log_probs_N_K_C', 'ids_N')
    """
    return (*kind.points, IDS)


def names_of(description: Any) -> Iterator[str]:
    """The tensors that a description speaks of.

    >>> list(names_of({"draws_id": "fit 1", "log_weights_K": {"tensor": "log_weights_K"}}))
    ['log_weights_K']
    """
    if isinstance(description, dict) and isinstance(description.get("tensor"), str):
        yield description["tensor"]
    elif isinstance(description, dict | list):
        for part in description.values() if isinstance(description, dict) else description:
            yield from names_of(part)


def put_together(
    kind: type[Belief], description: Description, read: Callable[[str], Tensor], *, check: bool = True
) -> Belief:
    """The belief that was taken apart; without `check`, its first point alone is looked at.

    >>> from natsel.beliefs import GaussianFeatures
    >>> tensors, description = taken_apart(GaussianFeatures([[1.0]]).condition([0], [2.0]))
    >>> round(put_together(GaussianFeatures, description, tensors.get).log_evidence, 4)
    -2.2655
    """
    values = {name: _made(part, read) for name, part in description.items()}
    if IDS in values:
        values["ids"] = _ids_from_tensor(values.pop(IDS))
    given = {name: values[name] for name, field in _fields_of(kind).items() if field.init and name in values}
    check = check or not {*kind.points, "ids"} <= given.keys()  # a default for all points cannot be made from the first
    if not check:
        given |= {name: given[name][:1] for name in (*kind.points, "ids")}
    belief = kind._own(**given)
    # Making a belief checks it, and may round weights or rows once more: the stored bits are put back.
    belief._set(**{name: value for name, value in values.items() if not check or _same_type(value, belief, name)})
    return belief


def wrong_fields(kind: type[Belief], description: Mapping[str, Any], tensors: Container[str]) -> str | None:
    """What keeps a description from being a belief of this kind, None where nothing does.

    >>> from natsel.beliefs import GaussianFeatures
    >>> wrong_fields(GaussianFeatures, {"features_N_D": {"tensor": "features_N_D"}}, ())
    'lacks features_N_D, which every GaussianFeatures has; write it again'
    """
    known = _fields_of(kind)
    needed = [name for name, field in known.items() if field.default is field.default_factory is MISSING]
    lost = [name for name in needed if name not in description]
    lost += [name for name in names_of(dict(description)) if name not in tensors]
    if lost:
        return f"lacks {', '.join(lost)}, which every {kind.__name__} has; write it again"
    strange = [name for name in description if name not in known and name != IDS]
    if strange:
        return f"holds {', '.join(strange)}, which no {kind.__name__} of this natsel has; upgrade natsel"
    return None


def kind_called(name: str, where: str) -> type[Belief]:
    """The class of beliefs of this name.

    >>> kind_called("FisherRows", "path: a.npz").__name__
    'FisherRows'
    """
    known = _kinds_by_name()
    if name not in known:
        import natsel.beliefs

        for each in natsel.beliefs.__all__:  # some are imported when they are wanted
            getattr(natsel.beliefs, each)
        load_installed()
        known = _kinds_by_name()
    if name not in known:
        raise ValueError(
            f"{where} holds an unknown kind of belief {name!r}; known are {', '.join(sorted(known))}: import what"
            " defines another first"
        )
    return known[name]


def _kinds_by_name() -> dict[str, type[Belief]]:
    return {kind.__name__: kind for kind in kinds()}


def _fields_of(kind: type) -> dict[str, Any]:
    return {field.name: field for field in fields(kind)}


def _described(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        tensors[name] = value.detach().cpu()
        return {"tensor": name}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return [_described(part, f"{name}.{number}", tensors) for number, part in enumerate(value)]
    if type(value) in _NAMES:
        parts = {part: _described(getattr(value, part), f"{name}.{part}", tensors) for part in _fields_of(type(value))}
        return {"form": _NAMES[type(value)], "parts": parts}
    raise ValueError(
        f"{name}: a {type(value).__name__} cannot be stored; make fields of a belief of tensors, numbers, texts and"
        " tuples of them"
    )


def _made(description: Any, read: Callable[[str], Tensor]) -> Any:
    if isinstance(description, list):
        return tuple(_made(part, read) for part in description)
    if not isinstance(description, dict):
        return description
    if "tensor" in description:
        return read(description["tensor"])
    if description.get("form") not in _FORMS:
        raise ValueError(f"fields: found the unknown form {description.get('form')!r} of a value; upgrade natsel")
    return _FORMS[description["form"]](**{name: _made(part, read) for name, part in description["parts"].items()})


def _ids_as_tensor(ids: IdArray) -> Tensor:
    if ids.dtype.kind == "i":
        return torch.from_numpy(np.ascontiguousarray(ids))
    spelled = [json.dumps(key).encode() for key in keys_of(ids)]
    width = max(map(len, spelled), default=0)
    rows_N_W = np.frombuffer(b"".join(text.ljust(width) for text in spelled), dtype=np.uint8)
    return torch.from_numpy(rows_N_W.reshape(len(ids), width).copy())


def _ids_from_tensor(stored: Tensor) -> IdArray:
    rows = stored.numpy()
    return rows if rows.ndim == 1 else as_ids([json.loads(row.tobytes()) for row in rows])


def _same_type(value: Any, belief: Belief, name: str) -> bool:
    """Whether stored numbers are of the type that beliefs of this kind hold; others were converted, and stay so."""
    return not isinstance(value, Tensor) or value.dtype == getattr(belief, name).dtype
