"""Values on tables: from `at` to indices, and from indices to averages of log probabilities over what is untied.

    H_q[A | C]     = E_{p(A_u, C_u | a_t, c_t)}[ ln q(C) − ln q(A, C) ]       u untied, t tied; no q: p
    H(p ‖ q)       the same, with the law of each side as written
    E_{p(b|c)}[·]  one more axis for every variable in b, then a weighted sum over it

    at={"y": 3}               one outcome
    at={"y": ALL}             all of them: one axis of the result, in the order in which the expression names them
    at={"y": [0, 2, 1]}       several: one axis, the first, shared by all that have several

0·∞ = 0; +∞ where the law meets q = 0. A value is undefined, hence refused or NaN, where the law is taken given an
outcome of probability 0, or q(A | c) where q(c) = 0.

Tied outcomes are indices with one axis for everything that varies (points, all outcomes of a variable, the outcomes of
an expectation); a value has the same axes, of size 1 where it does not depend on them.
docs/theory/information-quantities.md, 3 and 10.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Any, Final, Literal, Protocol

import torch
from torch import Tensor

from natsel.calculus.discrete_joint import ZeroProbabilityOutcome
from natsel.calculus.expressions import (
    Atom,
    Content,
    CrossEntropy,
    Expectation,
    Expression,
    Group,
    H,
    Law,
    Number,
    conflict_between,
    free_atoms,
    free_symbols,
    tied_name,
    variable_of,
)
from natsel.information.entropies import LOG_FLOOR
from natsel.memory import chunked

Errors = Literal["raise", "nan"]
DescribePlace = Callable[[Mapping[str, int], list[int]], str]


class All(Enum):
    """The type of ALL: all outcomes of a variable."""

    ALL = "ALL"

    def __repr__(self) -> str:
        return "ALL"


ALL: Final = All.ALL


class LogTables(Protocol):
    """What log probabilities are read from; a measure need not sum to one."""

    @property
    def is_measure(self) -> bool: ...

    def size(self, name: str) -> int: ...

    def place(self, name: str, outcome: Any) -> int: ...

    def places(self, name: str, outcomes: Any) -> Tensor: ...

    def log_table(self, names: Sequence[str], at: Mapping[str, Tensor], dims: int) -> Tensor:
        """ln p(names), those in `at` tied to indices of `dims` axes: these axes first, then the untied names."""
        ...

    def for_points(self, part: slice) -> "LogTables":
        """The same for some of the points, where there are any."""
        ...


@dataclass(frozen=True)
class LeafContext:
    """Where a leaf is evaluated: the laws by name ("p" is the truth), and the outcomes that are tied."""

    laws: Mapping[str, LogTables]
    at: Mapping[str, Tensor]
    dims: int
    device: torch.device

    def constant(self, value: float) -> Tensor:
        return torch.full((1,) * self.dims, value, dtype=torch.float64, device=self.device)

    def tied_indices(self, atoms: Group) -> dict[str, Tensor]:
        """The index of every tied variable among the atoms."""
        if why := conflict_between(atoms):
            raise ValueError(why)
        return {atom.name: self.index(atom) for atom in atoms if atom.tied}

    def index(self, atom: Atom) -> Tensor:
        if atom.outcome is not None:
            place = self.laws["p"].place(atom.name, atom.outcome)
            return torch.full((1,) * self.dims, place, dtype=torch.int64, device=self.device)
        if atom.name not in self.at:
            self.laws["p"].size(atom.name)
            raise ValueError(f'at: {atom} has no outcome; pass at={{"{atom}": ...}}, or write {atom.name}=...')
        return self.at[atom.name]

    def inside_expectation(self, names: Sequence[str]) -> "LeafContext":
        """The context inside an expectation: an axis more for each name, along which it takes all its outcomes."""
        at = {name: index[(..., *(None for _ in names))] for name, index in self.at.items()}
        dims = self.dims + len(names)
        for place, name in enumerate(names, start=self.dims):
            shape = [1] * dims
            shape[place] = -1
            at[name] = torch.arange(self.laws["p"].size(name), device=self.device).view(shape)
        return replace(self, at=at, dims=dims)

    def for_points(self, part: slice) -> "LeafContext":
        """The context for some of the entries along the first axis."""
        at = {name: index[part] if index.shape[0] > 1 else index for name, index in self.at.items()}
        return replace(self, at=at, laws={name: law.for_points(part) for name, law in self.laws.items()})


def sum_of_leaves(leaves: Mapping[Expression, Fraction], context: LeafContext) -> Tensor:
    """Σ factor · leaf; NaN where a leaf is undefined or +∞ meets −∞."""
    value = context.constant(0.0)
    for leaf, factor in leaves.items():
        value = value + float(factor) * leaf_value(leaf, context)
    return value


def leaf_value(leaf: Expression, context: LeafContext) -> Tensor:
    """One leaf."""
    match leaf:
        case H(of, given, model):
            return _cross_entropy(Law("p", of, given), Law(model or "p", of, given), context)
        case CrossEntropy(p, q):
            return _cross_entropy(p, q, context)
        case Expectation(law, body):
            return _expectation(law, body, context)
        case Number(number):
            return context.constant(float(number))
        case Content(number):
            return context.constant(content_of(number))
    raise TypeError(f"expression: {type(leaf).__name__} is no leaf; expand it first")


def content_of(number: Fraction) -> float:
    """h(ρ) = −ln ρ of a fraction, however long.

    >>> round(content_of(Fraction(1, 2)), 6), content_of(Fraction(0))
    (0.693147, inf)
    """
    if number < 0:
        raise ValueError(f"h: found {number}; only numbers from 0 on have an information content")
    return math.log(number.denominator) - math.log(number.numerator) if number else math.inf


def _cross_entropy(law: Law, inside: Law, context: LeafContext) -> Tensor:
    """E_law[−ln inside]; both speak of one outcome of each variable, tied if either ties it."""
    ties = context.tied_indices((*law.of, *law.given))
    untied = [name for name in names_of((*law.of, *law.given)) if name not in ties]
    fixed = ties | context.tied_indices((*inside.of, *inside.given))
    for name in names_of((*inside.of, *inside.given)):
        if name not in fixed and name not in untied:
            raise ValueError(f"{name}: {inside.name} speaks of it and {law.name} does not average over it; tie it")
    table, dims = context.laws[inside.name], context.dims

    def log_q(group: Group) -> Tensor:
        names = names_of(group)
        at = {name: index for name, index in fixed.items() if name in names}
        found = table.log_table([*at, *(name for name in untied if name in names and name not in at)], at, dims)
        sizes = iter(found.shape[dims:])
        wide = [next(sizes) if name in names and name not in at else 1 for name in untied]
        return found.reshape([*found.shape[:dims], *wide])

    log_joint = log_q((*inside.of, *inside.given))
    log_given = log_q(inside.given) if inside.given else log_joint.new_zeros((1,) * log_joint.dim())
    if not untied:
        return log_given - log_joint  # NaN, as −inf − (−inf), where what is given cannot be
    own = law == inside
    over = tuple(range(dims, dims + len(untied)))
    log_law = log_joint if own else context.laws[law.name].log_table([*ties, *untied], ties, dims)
    if ties or context.laws[law.name].is_measure:
        weights = _normalised(log_law, over, "" if ties else law.name)
    else:
        weights = log_law.exp()
    if own and not ties:  # weights are the joint itself: a floor in place of −inf is faster than a mask, and comes to 0
        return (weights * (log_given.clamp_min(LOG_FLOOR) - log_joint.clamp_min(LOG_FLOOR))).sum(over)
    return torch.where(weights == 0, 0.0, weights * (log_given - log_joint)).sum(over)


def _expectation(law: Law, body: Expression, context: LeafContext) -> Tensor:
    names = names_of(law.of)
    for atom in law.of:
        if not atom.tied or atom.outcome is not None:
            raise ValueError(f"E: found {atom} in front of |; average over a symbol, such as x in E_{{p(x)}}[H[x]]")
    for atom in law.given:
        if not atom.tied or atom.name in names:
            raise ValueError(f"E: found {atom} behind |; only outcomes that are not averaged over may be given")
    inner = context.inside_expectation(names)
    table, given = context.laws[law.name], inner.tied_indices(law.given)
    at = {**given, **{name: inner.at[name] for name in names}}
    over = tuple(range(context.dims, inner.dims))
    weights = _normalised(table.log_table(list(at), at, inner.dims), over, "" if given else law.name)
    return torch.where(weights == 0, 0.0, weights * leaf_value(body, inner)).sum(over)


def _normalised(log_weights: Tensor, over: tuple[int, ...], name: str) -> Tensor:
    """Weights that sum to one, NaN where there are none; a law with a name has to sum to one as it is."""
    log_total = log_weights.logsumexp(over, keepdim=True)
    if name and not bool((log_total.abs() < 1e-4).all()):
        found = f"found a sum of {float(log_total.max().clamp_max(700).exp()):.6g}"
        raise ValueError(f"{name}: {found} where it is averaged over; pass one that sums to 1")
    return (log_weights - log_total).exp()


def names_of(atoms: Group) -> list[str]:
    """The variables of a group, each once."""
    return list(dict.fromkeys(atom.name for atom in atoms))


def outcomes_by_variable(at: Mapping[str, Any]) -> dict[str, Any]:
    """`at` by variable.

    >>> outcomes_by_variable({"y1": 3, "ω": 0})
    {'Y1': 3, 'Omega': 0}
    """
    found: dict[str, Any] = {}
    for symbol, outcome in at.items():
        name = variable_of(symbol) if symbol else None
        if name is None or name in found:
            raise ValueError(f"at: found {symbol!r}; name each variable once, by its lower-case name")
        found[name] = outcome
    return found


def context_of(
    expression: Expression,
    laws: Mapping[str, LogTables],
    asked: Mapping[str, Any],
    points: int | None = None,
    device: torch.device | None = None,
) -> tuple[LeafContext, tuple[int, ...]]:
    """The context with every outcome in its place, and the shape of the result, whose first axis counts `points`."""
    truth, device = laws["p"], device or torch.device("cpu")
    for name in asked:
        truth.size(name)
    free = [name for name in free_symbols(expression) if name in asked]
    every = [name for name in free if asked[name] is ALL]
    several = {name: truth.places(name, asked[name]).to(device) for name in free if _is_sequence(asked[name])}
    lengths = {tied_name(name): len(places) for name, places in several.items()}
    if len({*lengths.values(), *([] if points is None else [points])}) > 1:
        wanted = "as many of each" if points is None else f"{points}, one per point"
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
    return LeafContext(laws, at, len(shape), device), shape


def evaluate_leaves(
    leaves: Mapping[Expression, Fraction],
    context: LeafContext,
    shape: tuple[int, ...],
    errors: Errors,
    bytes_each: int,
    describe: DescribePlace,
    points: bool = False,
) -> Tensor:
    """The sum of the leaves, in chunks of the first axis; `describe` names a place, for the sentence of a refusal.

    With `points` the laws themselves vary along the first axis; else leaves that do not are evaluated once.
    """
    if shape:
        varying = {leaf: factor for leaf, factor in leaves.items() if points or _varies(leaf, context)}
        fixed = sum_of_leaves({leaf: factor for leaf, factor in leaves.items() if leaf not in varying}, context)

        def work(part: slice) -> Tensor:
            return (fixed + sum_of_leaves(varying, context.for_points(part))).expand(part.stop - part.start, *shape[1:])

        value = chunked(work, shape[0], bytes_each, context.device)
    else:
        value = sum_of_leaves(leaves, context)
    if errors == "raise" and bool(value.isnan().any()):
        _raise_undefined(leaves, context, value, describe)
    return value


def _raise_undefined(
    leaves: Mapping[Expression, Fraction], context: LeafContext, value: Tensor, describe: DescribePlace
) -> None:
    place = [int(axis) for axis in value.isnan().nonzero()[0]] if value.dim() else []
    here = context.for_points(slice(place[0], place[0] + 1)) if place else context
    at = {name: index[_entry_at(place, index)] for name, index in here.at.items()}
    here = replace(here, at=at)
    advice = "choose outcomes that can happen, or pass errors='nan'"
    for leaf in leaves:
        if bool(leaf_value(leaf, here).isnan().any()):
            named = {atom.name for atom in free_atoms(leaf)}
            where = describe({name: int(index) for name, index in at.items() if name in named}, place)
            raise ZeroProbabilityOutcome(
                f"{leaf} is undefined{where}: it is taken given an outcome of probability 0; {advice}"
            )
    where = describe({name: int(index) for name, index in at.items()}, place)
    raise ZeroProbabilityOutcome(f"at: the value is inf - inf{where}, which is undefined; {advice}")


def _varies(leaf: Expression, context: LeafContext) -> bool:
    return any(atom.name in context.at and context.at[atom.name].shape[0] > 1 for atom in free_atoms(leaf))


def _entry_at(place: list[int], index: Tensor) -> tuple[slice, ...]:
    """The entry of an index that belongs to a place of the result; the first axis is cut already."""
    starts = [0 if axis == 0 or index.shape[axis] == 1 else start for axis, start in enumerate(place)]
    return tuple(slice(start, start + 1) for start in starts)


def _is_sequence(outcome: Any) -> bool:
    if isinstance(outcome, str | All):
        return False
    if isinstance(outcome, Tensor):
        return outcome.dim() > 0
    return bool(getattr(outcome, "shape", hasattr(outcome, "__len__")))
