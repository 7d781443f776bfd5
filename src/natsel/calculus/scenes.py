"""From `at` to a scene, and from a scene to values with what is undefined refused.

    at={"y": 3}               one outcome
    at={"y": ALL}             all of them: an axis of the result, in the order in which the expression names them
    at={"y": [0, 2, 1]}       several: one axis, the first, shared by all that have several

Spec 01, A2.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum
from fractions import Fraction
from typing import Any, Final, Literal

import torch
from torch import Tensor

from natsel.calculus.discrete_joint import ZeroProbabilityOutcome
from natsel.calculus.expressions import Expression, tied_name
from natsel.calculus.leaf_values import Scene, Tables, total_of, value_of
from natsel.calculus.symbols import variable_of
from natsel.calculus.tree import free_atoms
from natsel.memory import chunked

Errors = Literal["raise", "nan"]
Told = Callable[[Mapping[str, int], list[int]], str]


class All(Enum):
    """The type of ALL: all outcomes of a variable."""

    ALL = "ALL"

    def __repr__(self) -> str:
        return "ALL"


ALL: Final = All.ALL


def asked_for(at: Mapping[str, Any]) -> dict[str, Any]:
    """`at` by variable.

    >>> asked_for({"y1": 3, "ω": 0})
    {'Y1': 3, 'Omega': 0}
    """
    found: dict[str, Any] = {}
    for symbol, outcome in at.items():
        name = variable_of(symbol) if symbol else None
        if name is None or name in found:
            raise ValueError(f"at: found {symbol!r}; name each variable once, by its lower-case name")
        found[name] = outcome
    return found


def free_symbols(expression: Expression) -> list[str]:
    """The variables whose outcomes must come from `at`, in the order in which the expression names them."""
    return list(dict.fromkeys(atom.name for atom in free_atoms(expression) if atom.tied and atom.outcome is None))


def scene_of(
    expression: Expression,
    laws: Mapping[str, Tables],
    asked: Mapping[str, Any],
    points: int | None = None,
    device: torch.device | None = None,
) -> tuple[Scene, tuple[int, ...]]:
    """The scene with every outcome in its place, and the shape of the result, whose first axis counts `points`."""
    truth, device = laws["p"], device or torch.device("cpu")
    for name in asked:
        truth.size(name)
    free = [name for name in free_symbols(expression) if name in asked]
    every = [name for name in free if asked[name] is ALL]
    several = {name: truth.places(name, asked[name]).to(device) for name in free if _is_several(asked[name])}
    lengths = {tied_name(name): len(places) for name, places in several.items()}
    if len({*lengths.values(), *([] if points is None else [points])}) > 1:
        wanted = "as many of each" if points is None else f"{points}, one a point"
        raise ValueError(
            f"at: found {', '.join(f'{count} of {name}' for name, count in lengths.items())}; give {wanted}"
        )
    first = [points] if points is not None else list(lengths.values())[:1]
    shape = (*first, *(truth.size(name) for name in every))
    at: dict[str, Tensor] = {}
    for name in free:
        view = [1] * len(shape)
        if name in several:
            view[0] = -1
            at[name] = several[name].view(view)
        elif name in every:
            view[len(first) + every.index(name)] = -1
            at[name] = torch.arange(truth.size(name), device=device).view(view)
        else:
            at[name] = torch.full(view, truth.place(name, asked[name]), dtype=torch.int64, device=device)
    return Scene(laws, at, len(shape), device), shape


def solved(
    leaves: Mapping[Expression, Fraction],
    scene: Scene,
    shape: tuple[int, ...],
    errors: Errors,
    bytes_each: int,
    told: Told,
    points: bool = False,
) -> Tensor:
    """The sum of the leaves, in chunks of the first axis; `told` names a place, for the sentence of a refusal.

    With `points` the laws themselves vary along the first axis; else leaves that do not are evaluated once.
    """
    if shape:
        varying = {leaf: factor for leaf, factor in leaves.items() if points or _varies(leaf, scene)}
        fixed = total_of({leaf: factor for leaf, factor in leaves.items() if leaf not in varying}, scene)

        def work(part: slice) -> Tensor:
            return (fixed + total_of(varying, scene.cut(part))).expand(part.stop - part.start, *shape[1:])

        value = chunked(work, shape[0], bytes_each, scene.device)
    else:
        value = total_of(leaves, scene)
    if errors == "raise" and bool(value.isnan().any()):
        _refuse(leaves, scene, value, told)
    return value


def _refuse(
    leaves: Mapping[Expression, Fraction],
    scene: Scene,
    value: Tensor,
    told: Told,
) -> None:
    place = [int(axis) for axis in value.isnan().nonzero()[0]] if value.dim() else []
    here = scene.cut(slice(place[0], place[0] + 1)) if place else scene
    at = {name: index[_corner(place, index)] for name, index in here.at.items()}
    here = replace(here, at=at)
    advice = "choose outcomes that can happen, or pass errors='nan'"
    for leaf in leaves:
        if bool(value_of(leaf, here).isnan().any()):
            named = {atom.name for atom in free_atoms(leaf)}
            where = told({name: int(index) for name, index in at.items() if name in named}, place)
            raise ZeroProbabilityOutcome(
                f"{leaf} is undefined{where}: it is taken given an outcome of probability 0; {advice}"
            )
    where = told({name: int(index) for name, index in at.items()}, place)
    raise ZeroProbabilityOutcome(f"at: the value is inf - inf{where}, which is undefined; {advice}")


def _varies(leaf: Expression, scene: Scene) -> bool:
    return any(atom.name in scene.at and scene.at[atom.name].shape[0] > 1 for atom in free_atoms(leaf))


def _corner(place: list[int], index: Tensor) -> tuple[slice, ...]:
    """The entry of an index that belongs to a place of the result; the first axis is cut already."""
    starts = [0 if axis == 0 or index.shape[axis] == 1 else start for axis, start in enumerate(place)]
    return tuple(slice(start, start + 1) for start in starts)


def _is_several(outcome: Any) -> bool:
    if isinstance(outcome, str | All):
        return False
    return (
        outcome.dim() > 0
        if isinstance(outcome, Tensor)
        else bool(getattr(outcome, "shape", hasattr(outcome, "__len__")))
    )
