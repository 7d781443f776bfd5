"""The numbers behind the leaves: averages of log probabilities over what is untied.

    H_q[A | C]     = E_{p(A_u, C_u | a_t, c_t)}[ ln q(C) − ln q(A, C) ]       u untied, t tied; no q: p
    H(p ‖ q)       the same, with the law of each side as written
    E_{p(b|c)}[·]  an axis more for every variable in b, then a weighted sum over it

0·∞ = 0; +∞ where the law meets q = 0; NaN where a value is undefined, for the caller to refuse: the law given an
outcome of probability 0, or q(A | c) where q(c) = 0.  Spec 01, 3 and 6.1.

Tied outcomes are indices with one axis for everything that varies (points, all outcomes of a variable, the outcomes of
an expectation); a value has the same axes, of size 1 where it does not depend on them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import torch
from torch import Tensor

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
)
from natsel.calculus.symbols import clash
from natsel.information.entropies import LOG_FLOOR


class Tables(Protocol):
    """What log probabilities are read from; a measure need not sum to one."""

    @property
    def is_measure(self) -> bool: ...

    def size(self, name: str) -> int: ...

    def place(self, name: str, outcome: Any) -> int: ...

    def places(self, name: str, outcomes: Any) -> Tensor: ...

    def log_table(self, names: Sequence[str], at: Mapping[str, Tensor], dims: int) -> Tensor:
        """ln p(names), those in `at` tied to indices of `dims` axes: these axes first, then the untied names."""
        ...

    def cut(self, part: slice) -> "Tables":
        """The same for some of the points, where there are any."""
        ...


@dataclass(frozen=True)
class Scene:
    """Where a leaf is evaluated: the laws by name ("p" is the truth), and the outcomes that are tied."""

    laws: Mapping[str, Tables]
    at: Mapping[str, Tensor]
    dims: int
    device: torch.device

    def constant(self, value: float) -> Tensor:
        return torch.full((1,) * self.dims, value, dtype=torch.float64, device=self.device)

    def ties(self, atoms: Group) -> dict[str, Tensor]:
        """The index of every tied variable among the atoms."""
        if why := clash(atoms):
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

    def bound(self, names: Sequence[str]) -> "Scene":
        """The scene inside an expectation: an axis more for each name, along which it takes all its outcomes."""
        at = {name: index[(..., *(None for _ in names))] for name, index in self.at.items()}
        dims = self.dims + len(names)
        for place, name in enumerate(names, start=self.dims):
            shape = [1] * dims
            shape[place] = -1
            at[name] = torch.arange(self.laws["p"].size(name), device=self.device).view(shape)
        return replace(self, at=at, dims=dims)

    def cut(self, part: slice) -> "Scene":
        """The scene for some of the entries along the first axis."""
        at = {name: index[part] if index.shape[0] > 1 else index for name, index in self.at.items()}
        return replace(self, at=at, laws={name: law.cut(part) for name, law in self.laws.items()})


def total_of(leaves: Mapping[Expression, Fraction], scene: Scene) -> Tensor:
    """Σ factor · leaf; NaN where a leaf is undefined or +∞ meets −∞."""
    value = scene.constant(0.0)
    for leaf, factor in leaves.items():
        value = value + float(factor) * value_of(leaf, scene)
    return value


def value_of(leaf: Expression, scene: Scene) -> Tensor:
    """One leaf."""
    match leaf:
        case H(of, given, model):
            return _cross(Law("p", of, given), Law(model or "p", of, given), scene)
        case CrossEntropy(p, q):
            return _cross(p, q, scene)
        case Expectation(law, body):
            return _expectation(law, body, scene)
        case Number(number):
            return scene.constant(float(number))
        case Content(number):
            return scene.constant(content(number))
    raise TypeError(f"expression: {type(leaf).__name__} is no leaf; expand it first")


def content(number: Fraction) -> float:
    """h(ρ) = −ln ρ of a fraction, however long.

    >>> round(content(Fraction(1, 2)), 6), content(Fraction(0))
    (0.693147, inf)
    """
    if number < 0:
        raise ValueError(f"h: found {number}; only numbers from 0 on have an information content")
    return math.log(number.denominator) - math.log(number.numerator) if number else math.inf


def _cross(law: Law, inside: Law, scene: Scene) -> Tensor:
    """E_law[−ln inside]; both speak of one outcome of each variable, tied if either ties it."""
    ties = scene.ties((*law.of, *law.given))
    untied = [name for name in names_of((*law.of, *law.given)) if name not in ties]
    fixed = ties | scene.ties((*inside.of, *inside.given))
    for name in names_of((*inside.of, *inside.given)):
        if name not in fixed and name not in untied:
            raise ValueError(f"{name}: {inside.name} speaks of it and {law.name} does not average over it; tie it")
    table, dims = scene.laws[inside.name], scene.dims

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
    log_law = log_joint if own else scene.laws[law.name].log_table([*ties, *untied], ties, dims)
    if ties or scene.laws[law.name].is_measure:
        weights = _normalised(log_law, over, "" if ties else law.name)
    else:
        weights = log_law.exp()
    if own and not ties:  # weights are the joint itself: a floor in place of −inf is faster than a mask, and comes to 0
        return (weights * (log_given.clamp_min(LOG_FLOOR) - log_joint.clamp_min(LOG_FLOOR))).sum(over)
    return torch.where(weights == 0, 0.0, weights * (log_given - log_joint)).sum(over)


def _expectation(law: Law, body: Expression, scene: Scene) -> Tensor:
    names = names_of(law.of)
    for atom in law.of:
        if not atom.tied or atom.outcome is not None:
            raise ValueError(f"E: found {atom} in front of |; average over a symbol, such as x in E_{{p(x)}}[H[x]]")
    for atom in law.given:
        if not atom.tied or atom.name in names:
            raise ValueError(f"E: found {atom} behind |; only outcomes that are not averaged over may be given")
    inner = scene.bound(names)
    table, given = scene.laws[law.name], inner.ties(law.given)
    at = {**given, **{name: inner.at[name] for name in names}}
    over = tuple(range(scene.dims, inner.dims))
    weights = _normalised(table.log_table(list(at), at, inner.dims), over, "" if given else law.name)
    return torch.where(weights == 0, 0.0, weights * value_of(body, inner)).sum(over)


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
