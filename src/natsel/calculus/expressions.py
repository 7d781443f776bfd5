"""Expressions: information quantities as values, before anything is computed.

    H[A | C]            entropy of a group A given a group C; H_q[A | C] its cross-entropy under a model q
    I[A; B; … | C]      mutual information, information gain, surprise, interaction: ordered, the head comes first
    TC[A; B; … | C]     total correlation
    H(p ‖ q), KL(p ‖ q) between two named laws
    E_{p(b | c)}[ … ]   an expectation over outcomes that are tied inside
    sums, differences and multiples of these

A group is a tuple of atoms. An atom is a variable, untied (`X`: averaged over) or tied to an outcome (`x`, or `X=3`:
observed). Atoms of a group are a set: repeated ones collapse, order is kept for printing alone.  Spec 01, 3 and A1.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

Outcome = int | float | str


@dataclass(frozen=True)
class Atom:
    """A variable, untied or tied to an outcome; `outcome` None: the outcome that the lower-case name stands for.

    >>> str(Atom("Y1")), str(Atom("Y1", tied=True)), str(Atom("Y1", tied=True, outcome=3))
    ('Y1', 'y1', 'Y1=3')
    """

    name: str
    tied: bool = False
    outcome: Outcome | None = None

    def __post_init__(self) -> None:
        if self.outcome is not None and not self.tied:
            raise ValueError(f"atom: {self.name} has the outcome {self.outcome!r}, so that it is tied; pass tied=True")
        if isinstance(self.outcome, float) and not math.isfinite(self.outcome):
            raise ValueError(f"atom: {self.name} has the outcome {self.outcome}; name it by a finite number or by text")

    def __str__(self) -> str:
        if not self.tied:
            return self.name
        if self.outcome is None:
            return tied_name(self.name)
        if not isinstance(self.outcome, str):
            return f"{self.name}={self.outcome}"
        return '{}="{}"'.format(self.name, self.outcome.replace("\\", "\\\\").replace('"', '\\"'))


Group = tuple[Atom, ...]


def tied_name(name: str) -> str:
    """How the outcome of a variable is written: its name with the first letter in lower case.

    >>> tied_name("Omega"), tied_name("Y_acq")
    ('omega', 'y_acq')
    """
    return name[0].lower() + name[1:]


def group(atoms: Iterable[Atom]) -> Group:
    """Atoms as a group: repeated ones collapse."""
    return tuple(dict.fromkeys(atoms))


class Expression:
    """What every expression can do: be added, subtracted and multiplied by a number.

    >>> str(H((Atom("X"),)) - 2 * H((Atom("X"),), (Atom("Y", tied=True),)))
    'H[X] - 2 H[X | y]'
    """

    def __add__(self, other: "Expression | float") -> "Expression":
        return total([(Fraction(1), self), (Fraction(1), expression_of(other))])

    def __radd__(self, other: float) -> "Expression":
        return expression_of(other) + self

    def __sub__(self, other: "Expression | float") -> "Expression":
        return total([(Fraction(1), self), (Fraction(-1), expression_of(other))])

    def __rsub__(self, other: float) -> "Expression":
        return expression_of(other) - self

    def __neg__(self) -> "Expression":
        return total([(Fraction(-1), self)])

    def __mul__(self, factor: float | Fraction) -> "Expression":
        return total([(Fraction(factor), self)])

    __rmul__ = __mul__

    def __str__(self) -> str:
        from natsel.calculus.formatting import plain

        return plain(self)


@dataclass(frozen=True)
class H(Expression):
    """H[of | given], or H_q[of | given] where `model` names a law q."""

    of: Group
    given: Group = ()
    model: str | None = None

    __str__ = Expression.__str__


@dataclass(frozen=True)
class I(Expression):  # noqa: E742 the name it has in every paper
    """I[A; B; … | given]: two groups or more; the head comes first."""

    groups: tuple[Group, ...]
    given: Group = ()
    model: str | None = None

    __str__ = Expression.__str__


@dataclass(frozen=True)
class TC(Expression):
    """TC[A; B; … | given] = Σ H[Aᵢ | given] − H[A, B, … | given]."""

    groups: tuple[Group, ...]
    given: Group = ()
    model: str | None = None

    __str__ = Expression.__str__


@dataclass(frozen=True)
class Law:
    """A named law, p(X | y); with no group at all, `p`, it is over all variables there are."""

    name: str
    of: Group = ()
    given: Group = ()


@dataclass(frozen=True)
class CrossEntropy(Expression):
    """H(p ‖ q) = E_p[−ln q]; q need not sum to one."""

    p: Law
    q: Law

    __str__ = Expression.__str__


@dataclass(frozen=True)
class KL(Expression):
    """KL(p ‖ q) = H(p ‖ q) − H(p)."""

    p: Law
    q: Law

    __str__ = Expression.__str__


@dataclass(frozen=True)
class Content(Expression):
    """h(ρ) = −ln ρ of a number."""

    number: Fraction

    __str__ = Expression.__str__


@dataclass(frozen=True)
class Number(Expression):
    """A constant, in nats."""

    value: Fraction

    __str__ = Expression.__str__


@dataclass(frozen=True)
class Expectation(Expression):
    """E_{p(b | c)}[body]: the atoms of `law.of` are tied inside the body and averaged over here."""

    law: Law
    body: Expression

    __str__ = Expression.__str__


@dataclass(frozen=True)
class Sum(Expression):
    """Σ factor · expression, in the order written; never nested, and no term is a bare multiple of a Sum."""

    terms: tuple[tuple[Fraction, Expression], ...]

    __str__ = Expression.__str__


@dataclass(frozen=True)
class Statement:
    """`left = right`, or with <=, >= or != between."""

    left: Expression
    relation: str
    right: Expression

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"


def expression_of(value: Expression | float | Fraction) -> Expression:
    """An expression as it is, a number as a constant, and the expression that something else wraps."""
    value = getattr(value, "expression", value)
    return value if isinstance(value, Expression) else Number(Fraction(value))


def total(terms: Iterable[tuple[Fraction, Expression]]) -> Expression:
    """A sum, flattened; no term is 0, one with factor 1 is itself. Equal terms are not merged: it stays as written."""
    flat: list[tuple[Fraction, Expression]] = []
    for factor, term in terms:
        for inner, part in term.terms if isinstance(term, Sum) else ((Fraction(1), term),):
            whole = factor * inner
            flat.append((Fraction(1), Number(whole * part.value)) if isinstance(part, Number) else (whole, part))
    if not flat:
        return Number(Fraction(0))
    if len(flat) == 1 and flat[0][0] == 1:
        return flat[0][1]
    return Sum(tuple(flat))
