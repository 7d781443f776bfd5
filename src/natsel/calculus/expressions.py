"""Expressions: information quantities as values, before anything is computed.

    H[A | C]            entropy of a group A given a group C; H_q[A | C] its cross-entropy under a model q
    I[A; B; … | C]      mutual information, information gain, surprise, interaction: ordered, the head comes first
    TC[A; B; … | C]     total correlation
    H(p ‖ q), KL(p ‖ q) between two named laws
    E_{p(b | c)}[ … ]   an expectation over outcomes that are tied inside
    sums, differences and multiples of these

A group is a tuple of atoms. An atom is a variable, untied (`X`: averaged over) or tied to an outcome (`x`, or `X=3`:
observed). The atoms of a group are a set: repeated ones are kept once, and order matters only for printing.

    Ω, ω → Omega, omega      Y₁ → Y1      upper case: untied, lower case: tied to an outcome
    D, D_train, …            data: outcomes in spite of the capital letter, where they stand only behind |

Names are kept in ASCII where the alphabet is Greek, so that `Ω` and `Omega` are one variable.
docs/theory/information-quantities.md, 1, 3 to 5 and 9.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

Outcome = int | float | str


GREEK = {
    **{"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta"},
    **{"ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "ο": "omicron", "π": "pi"},
    **{"ρ": "rho", "σ": "sigma", "τ": "tau", "υ": "upsilon", "φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega"},
}
# Letters that look the same in print: final sigma, micro sign, Ohm sign, and the open forms of theta, phi and epsilon.
_TWINS = {"ς": "sigma", "µ": "mu", "\u2126": "Omega", "ϑ": "theta", "ϕ": "phi", "ϵ": "epsilon"}
_ASCII = str.maketrans(
    GREEK
    | {letter.upper(): name.capitalize() for letter, name in GREEK.items()}
    | _TWINS
    | {subscript: str(digit) for digit, subscript in enumerate("₀₁₂₃₄₅₆₇₈₉")}
)


def ascii_name(name: str) -> str:
    """A name in the library's spelling.

    >>> ascii_name("Ω"), ascii_name("y₁₂"), ascii_name("Y_acq")
    ('Omega', 'y12', 'Y_acq')
    """
    return name.translate(_ASCII)


def variable_of(name: str) -> str | None:
    """The variable that a name, upper or lower case, belongs to; None where its first letter has no two cases.

    >>> variable_of("ω"), variable_of("Y1"), variable_of("中")
    ('Omega', 'Y1', None)
    """
    name = ascii_name(name)
    upper = name[0].upper() + name[1:]
    has_two_cases = len(name[0].upper()) == 1 and name in (upper, tied_name(upper)) and upper != tied_name(upper)
    return upper if has_two_cases else None


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
    """Atoms as a group: repeated ones are kept once."""
    return tuple(dict.fromkeys(atoms))


class Expression:
    """What every expression can do: be added, subtracted and multiplied by a number.

    >>> str(H((Atom("X"),)) - 2 * H((Atom("X"),), (Atom("Y", tied=True),)))
    'H[X] - 2 H[X | y]'
    """

    def __add__(self, other: "Expression | float") -> "Expression":
        return sum_of_terms([(Fraction(1), self), (Fraction(1), expression_of(other))])

    def __radd__(self, other: float) -> "Expression":
        return expression_of(other) + self

    def __sub__(self, other: "Expression | float") -> "Expression":
        return sum_of_terms([(Fraction(1), self), (Fraction(-1), expression_of(other))])

    def __rsub__(self, other: float) -> "Expression":
        return expression_of(other) - self

    def __neg__(self) -> "Expression":
        return sum_of_terms([(Fraction(-1), self)])

    def __mul__(self, factor: float | Fraction) -> "Expression":
        return sum_of_terms([(Fraction(factor), self)])

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


@dataclass(frozen=True)
class I(Expression):  # noqa: E742 the name it has in every paper
    """I[A; B; … | given]: two groups or more; the head comes first."""

    groups: tuple[Group, ...]
    given: Group = ()
    model: str | None = None


@dataclass(frozen=True)
class TC(Expression):
    """TC[A; B; … | given] = Σ H[Aᵢ | given] − H[A, B, … | given]."""

    groups: tuple[Group, ...]
    given: Group = ()
    model: str | None = None


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


@dataclass(frozen=True)
class KL(Expression):
    """KL(p ‖ q) = H(p ‖ q) − H(p)."""

    p: Law
    q: Law


@dataclass(frozen=True)
class Content(Expression):
    """h(ρ) = −ln ρ of a number."""

    number: Fraction


@dataclass(frozen=True)
class Number(Expression):
    """A constant, in nats."""

    value: Fraction


@dataclass(frozen=True)
class Expectation(Expression):
    """E_{p(b | c)}[body]: the atoms of `law.of` are tied inside the body and averaged over here."""

    law: Law
    body: Expression


@dataclass(frozen=True)
class Sum(Expression):
    """Σ factor · expression, in the order written; never nested, and no term is a bare multiple of a Sum."""

    terms: tuple[tuple[Fraction, Expression], ...]


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


def sum_of_terms(terms: Iterable[tuple[Fraction, Expression]]) -> Expression:
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


def conflict_between(atoms: Iterable[Atom]) -> str:
    """Why these atoms cannot stand in one quantity, or nothing: a variable is either untied or has one outcome.

    >>> conflict_between([Atom("X"), Atom("X", tied=True)])
    'X stands both for the variable and for its outcome x; write one of the two'
    >>> conflict_between([Atom("X"), Atom("Y", tied=True)])
    ''
    """
    seen: dict[str, Atom] = {}
    for atom in atoms:
        first = seen.setdefault(atom.name, atom)
        if first == atom:
            continue
        if first.tied and atom.tied:
            return f"{atom.name} has two outcomes, {first} and {atom}; write one of the two"
        outcome = first if first.tied else atom
        return f"{atom.name} stands both for the variable and for its outcome {outcome}; write one of the two"
    return ""


def is_data(name: str) -> bool:
    """Whether a name stands for a data set: D or D_ and more.

    >>> is_data("D"), is_data("D_train"), is_data("Day")
    (True, True, False)
    """
    return name == "D" or name.startswith("D_")


def subexpressions(expression: Expression) -> Iterator[Expression]:
    """The expression itself, then everything inside its sums and expectations, in the order written."""
    yield expression
    match expression:
        case Expectation(_, body):
            yield from subexpressions(body)
        case Sum(terms):
            for _, term in terms:
                yield from subexpressions(term)


def groups_of(expression: Expression) -> Iterator[tuple[Group, Group]]:
    """Every (targets, given) in an expression, those of laws too."""
    for part in subexpressions(expression):
        match part:
            case H(of, given):
                yield of, given
            case I(groups, given) | TC(groups, given):
                yield tuple(atom for each in groups for atom in each), given
            case CrossEntropy(p, q) | KL(p, q):
                yield p.of, p.given
                yield q.of, q.given
            case Expectation(law, _):
                yield law.of, law.given


def atoms_of(expression: Expression) -> dict[Atom, None]:
    """Every atom of an expression, once, in the order of first occurrence."""
    return {atom: None for of, given in groups_of(expression) for atom in (*of, *given)}


def free_atoms(expression: Expression) -> dict[Atom, None]:
    """The atoms that no expectation binds.

    >>> from natsel.calculus import parse
    >>> [str(atom) for atom in free_atoms(parse("E_{p(x|y)}[H[x,z]]"))]
    ['y', 'z']
    """
    match expression:
        case Expectation(law, body):
            return dict.fromkeys(law.given) | {atom: None for atom in free_atoms(body) if atom not in law.of}
        case Sum(terms):
            return {atom: None for _, term in terms for atom in free_atoms(term)}
        case _:
            return atoms_of(expression)


def free_symbols(expression: Expression) -> list[str]:
    """The variables whose outcomes are written by their lower-case names and must be given, in the order written."""
    return list(dict.fromkeys(atom.name for atom in free_atoms(expression) if atom.tied and atom.outcome is None))


def models_of(expression: Expression) -> dict[str, None]:
    """The names of all laws except p, in the order of first occurrence."""
    names: list[str | None] = []
    for part in subexpressions(expression):
        match part:
            case H(_, _, model) | I(_, _, model) | TC(_, _, model):
                names.append(model)
            case CrossEntropy(p, q) | KL(p, q):
                names += [p.name, q.name]
            case Expectation(law, _):
                names.append(law.name)
    return {name: None for name in names if name not in (None, "p")}


def with_data_tied(*expressions: Expression) -> tuple[Expression, ...]:
    """The expressions with D, D_… tied where, in all of them, it stands only behind |.

    >>> from natsel.calculus import parse
    >>> [str(each) for each in with_data_tied(parse("H[Y | x, D]"))]
    ['H[Y | x, d]']
    """
    pairs = [pair for expression in expressions for pair in groups_of(expression)]
    targets = {atom.name for of, _ in pairs for atom in of}
    names = {atom.name for _, given in pairs for atom in given if not atom.tied and is_data(atom.name)} - targets

    def tie(atoms: Group, given: bool) -> Group:
        if not given:
            return atoms
        return tuple(Atom(atom.name, tied=True) if atom.name in names and not atom.tied else atom for atom in atoms)

    return tuple(with_groups_changed(expression, tie) for expression in expressions) if names else expressions


def with_groups_changed(expression: Expression, change: Callable[[Group, bool], Group]) -> Expression:
    """The same expression with every group changed; `change` takes a group and whether it stands behind `|`."""

    def law(each: Law) -> Law:
        return Law(each.name, change(each.of, False), change(each.given, True))

    match expression:
        case H(of, given, model):
            return H(change(of, False), change(given, True), model)
        case I(groups, given, model) | TC(groups, given, model):
            return type(expression)(tuple(change(each, False) for each in groups), change(given, True), model)
        case CrossEntropy(p, q) | KL(p, q):
            return type(expression)(law(p), law(q))
        case Expectation(over, body):
            return Expectation(law(over), with_groups_changed(body, change))
        case Sum(terms):
            return Sum(tuple((factor, with_groups_changed(term, change)) for factor, term in terms))
        case _:
            return expression
