"""Canonical form: every quantity as a sum of expected surprisals, which are linearly independent.

    ε(S; T)  = E_{p(S∖T | t)}[−ln p(S)]         S inside the logarithm, T what the sampling law is tied to
    H[A | C] = ε(A ∪ C; T) − ε(C; T)            T all outcomes of the term
    ε(∅; T)  = 0,   ε(S; T) = ε(S; S) where all of S is tied

Two expressions are the same for all distributions exactly when their forms are equal. Models q have surprisals of their
own, E[−ln q(S)]. An expectation unties: E_{p(b|c)}[ε(S; T)] = ε(S; T∖b) where T∖b = c.

Assumptions say what is known of the law p (not of models), and shorten the form:

    Determines("R", by="B")                    R = f(B)
    Independent("Y1, Y2", given="Omega")       p(y1, y2 | ω) = p(y1 | ω) p(y2 | ω)

docs/theory/information-quantities.md, 6.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from natsel.calculus.expansion import leaves
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
    Outcome,
    conflict_between,
    sum_of_terms,
    variable_of,
    with_data_tied,
)

Tie = tuple[str, Outcome | None]
EVERYTHING = "*"  # what a law with no group is over
_LARGEST_FACTOR = 10_000  # numbers with a prime factor above stay whole: sound, and nobody writes them


@dataclass(frozen=True)
class Determines:
    """`by` determines `of`: the variables of `of` are functions of those of `by`.

    >>> Determines("R", by="B")
    Determines(of=('R',), by=('B',))
    """

    of: str | tuple[str, ...]
    by: str | tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", _variables("of", self.of))
        object.__setattr__(self, "by", _variables("by", self.by))
        if not self.of or not self.by or set(self.of) & set(self.by):
            raise ValueError(f'of, by: found {self.of} and {self.by}; name two different sides, as in of="R", by="B"')


@dataclass(frozen=True)
class Independent:
    """`labels` are mutually independent given `given`; with nothing given, independent as they are.

    >>> Independent("Y1, Y2", given="Ω")
    Independent(labels=('Y1', 'Y2'), given=('Omega',))
    """

    labels: str | tuple[str, ...]
    given: str | tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", _variables("labels", self.labels))
        object.__setattr__(self, "given", _variables("given", self.given))
        if len(self.labels) < 2 or set(self.labels) & set(self.given):
            raise ValueError(f"labels: found {self.labels} given {self.given}; name two or more that are not given")


Assumption = Determines | Independent


def _variables(argument: str, names: "str | tuple[str, ...] | list[str]") -> tuple[str, ...]:
    """The variables that a text with commas, or a sequence of names, speaks of.

    >>> _variables("labels", "Y1, ω")
    ('Y1', 'Omega')
    """
    found = []
    for name in names.split(",") if isinstance(names, str) else names:
        variable = variable_of(name.strip()) if name.strip()[:1].isalpha() else None
        if variable is None:
            raise ValueError(f'{argument}: found {names!r}; name variables, as in "Y1, Y2"')
        found.append(variable)
    return tuple(dict.fromkeys(found))


class NotReducible(ValueError):
    """A number, but no sum of expected surprisals: it can be evaluated and not decided."""


@dataclass(frozen=True)
class Key:
    """An expected surprisal: `sampler` draws S∖T given `tied`, `model` stands inside the logarithm.

    With nothing inside it is the constant 1, or ln `prime`.

    >>> str(Key(frozenset("XY"), frozenset({("Y", None)})))
    'ε(X, Y; y)'
    """

    inside: frozenset[str] = frozenset()
    tied: frozenset[Tie] = frozenset()
    model: str = "p"
    sampler: str = "p"
    prime: int = 1

    @property
    def tied_names(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.tied)

    @property
    def is_constant(self) -> bool:
        return not self.inside

    def __str__(self) -> str:
        if self.is_constant:
            return "1" if self.prime == 1 else f"ln {self.prime}"
        ties = sorted(str(Atom(name, True, outcome)) for name, outcome in self.tied)
        below = "" if self.model == self.sampler == "p" else f"_{{{self.sampler}‖{self.model}}}"
        return f"ε{below}({', '.join(sorted(self.inside))}{'; ' if ties else ''}{', '.join(ties)})"


Form = dict[Key, Fraction]


def canonical(expression: Expression, assume: Iterable[Assumption] | Assumption = ()) -> Form:
    """The canonical form; NotReducible where the expression has none.

    >>> from natsel.calculus import parse
    >>> {str(key): int(factor) for key, factor in canonical(parse("H[y | X]")).items()}
    {'ε(X, Y; y)': 1, 'ε(X; y)': -1}
    """
    assumptions = (assume,) if isinstance(assume, Determines | Independent) else tuple(assume)
    (tied,) = with_data_tied(expression)
    form: defaultdict[Key, Fraction] = defaultdict(Fraction)
    for key, factor in _reduced_form(tied).items():
        for part, inner in under_assumptions(key, assumptions).items():
            form[part] += factor * inner
    return _without_zeros(form)


def _reduced_form(expression: Expression) -> Form:
    form: defaultdict[Key, Fraction] = defaultdict(Fraction)
    bodies: defaultdict[tuple[str, frozenset[Atom], frozenset[Atom]], list[tuple[Fraction, Expression]]]
    bodies = defaultdict(list)
    for leaf, factor in leaves(expression).items():
        if isinstance(leaf, Expectation):
            bodies[leaf.law.name, frozenset(leaf.law.of), frozenset(leaf.law.given)].append((factor, leaf.body))
            continue
        for key, inner in _leaf_form(leaf).items():
            form[key] += factor * inner
    # Expectations under one law as one, so that what cancels inside them need not be untied.
    for (name, of, given), body in bodies.items():
        for key, inner in _expectation_form(Law(name, tuple(of), tuple(given)), sum_of_terms(body)).items():
            form[key] += inner
    return _without_zeros(form)


def _leaf_form(leaf: Expression) -> Form:
    match leaf:
        case H(of, given, model):
            return _cross_entropy_form(Law("p", of, given), Law(model or "p", of, given))
        case CrossEntropy(p, q):
            return _cross_entropy_form(p, q)
        case Content(number):
            return _content_form(number)
        case Number(value):
            return {Key(): value}
    raise NotReducible(f"expression: {leaf} is no quantity that has a canonical form; evaluate it instead")


def _cross_entropy_form(p: Law, q: Law) -> Form:
    """E_p[−ln q(of | given)]: everything untied in p is averaged over, given its outcomes."""
    if not p.of or not q.of:
        if p.of or q.of:
            raise NotReducible(f"expression: one of the laws {p.name} and {q.name} has no variables; give both or none")
        return {Key(frozenset({EVERYTHING}), frozenset(), q.name, p.name): Fraction(1)}
    _refuse_conflict((*p.of, *p.given, *q.of, *q.given))
    if lost := {atom.name for atom in (*q.of, *q.given) if not atom.tied} - {atom.name for atom in (*p.of, *p.given)}:
        raise NotReducible(f"expression: {q.name} speaks of {min(lost)}, over which {p.name} does not average")
    tied = frozenset((atom.name, atom.outcome) for atom in (*p.of, *p.given, *q.of, *q.given) if atom.tied)
    own = frozenset((atom.name, atom.outcome) for atom in (*p.of, *p.given) if atom.tied)
    behind = frozenset(atom.name for atom in q.given)
    inside = behind | {atom.name for atom in q.of}
    form: defaultdict[Key, Fraction] = defaultdict(Fraction)
    for names, sign in ((inside, Fraction(1)), (behind, Fraction(-1))):
        if not names:
            continue
        key = normalised_key(Key(names, tied, q.name, p.name))
        # An outcome that only q names does not condition the law that samples.
        if key.tied - own and not names <= key.tied_names:
            raise NotReducible(f"expression: {q.name} is tied to an outcome that {p.name} does not know of; tie both")
        form[key] += sign
    return _without_zeros(form)


def normalised_key(key: Key) -> Key:
    """Where all of S is tied no expectation is left: T is S, and no law samples."""
    if key.inside <= key.tied_names:
        return replace(key, tied=frozenset(tie for tie in key.tied if tie[0] in key.inside), sampler="p")
    return key


def _expectation_form(law: Law, body: Expression) -> Form:
    """E_{law}[body], surprisal by surprisal."""
    known = frozenset((atom.name, atom.outcome) for atom in law.given)
    if any(not atom.tied for atom in law.given):
        raise NotReducible(f"expression: the expectation over {law.name} is not given outcomes; tie what is given")
    form: defaultdict[Key, Fraction] = defaultdict(Fraction)
    for key, factor in _reduced_form(body).items():
        bound = frozenset((atom.name, None) for atom in law.of) & key.tied
        if not bound:
            form[key] += factor
        elif key.inside <= key.tied_names and key.tied - bound <= known:
            form[normalised_key(replace(key, tied=known, sampler=law.name))] += factor
        elif key.tied - bound == known and key.sampler == law.name:
            form[normalised_key(replace(key, tied=known))] += factor
        else:
            raise NotReducible(
                f"expression: the average of {key} over {', '.join(sorted(name for name, _ in bound))} is no sum of "
                "expected surprisals, since its law does not know the other outcomes; evaluate it instead"
            )
    return _without_zeros(form)


def _content_form(number: Fraction) -> Form:
    """−ln of a number by its prime factors: logarithms of primes are independent."""
    if number <= 0:
        raise NotReducible(f"expression: h({number}) is infinite or undefined; leave it out")
    form: defaultdict[Key, Fraction] = defaultdict(Fraction)
    for whole, sign in ((number.numerator, -1), (number.denominator, 1)):
        rest, divisor = whole, 2
        while rest > 1 and divisor <= _LARGEST_FACTOR:
            while rest % divisor == 0:
                rest //= divisor
                form[Key(prime=divisor)] += sign
            divisor += 1
        if rest > 1:
            form[Key(prime=rest)] += sign
    return _without_zeros(form)


def under_assumptions(key: Key, assumptions: tuple[Assumption, ...]) -> Form:
    """A surprisal in the form that the assumptions leave, each applied as long as one changes something."""
    for assumption in assumptions:
        parts = (
            _apply_determines(key, assumption)
            if isinstance(assumption, Determines)
            else _apply_independent(key, assumption)
        )
        if parts != {key: 1}:
            form: defaultdict[Key, Fraction] = defaultdict(Fraction)
            for part, factor in parts.items():
                for final, inner in under_assumptions(normalised_key(part), assumptions).items():
                    form[final] += factor * inner
            return _without_zeros(form)
    return {key: Fraction(1)}


def _apply_determines(key: Key, assumption: Determines) -> Form:
    """R = f(B): where B stands, R says nothing more."""
    of, by = set(assumption.of), set(assumption.by)
    if key.sampler != "p":
        return {key: Fraction(1)}
    inside = key.inside - of if key.model == "p" and by <= key.inside else key.inside
    tied = frozenset(tie for tie in key.tied if tie[0] not in of) if by <= key.tied_names else key.tied
    return {replace(key, inside=inside, tied=tied): Fraction(1)}


def _apply_independent(key: Key, assumption: Independent) -> Form:
    """Labels that are independent given Ω: −ln p(ω, y…) falls apart, and where ω is known no other label says more."""
    labels, given = set(assumption.labels), set(assumption.given)
    names = key.tied_names
    if key.sampler == "p" and given <= names <= given | labels and key.inside - names <= labels:
        key = replace(key, tied=frozenset(tie for tie in key.tied if tie[0] in key.inside | given))
    some = key.inside & labels
    if key.model != "p" or len(some) < 2 or not given <= key.inside <= given | labels:
        return {key: Fraction(1)}
    form: Form = {replace(key, inside=frozenset(given | {label})): Fraction(1) for label in sorted(some)}
    if given:
        form[replace(key, inside=frozenset(given))] = Fraction(1 - len(some))
    return form


def _refuse_conflict(atoms: Group) -> None:
    if why := conflict_between(dict.fromkeys(atoms)):
        raise ValueError(f"expression: {why}")


def _without_zeros(form: Form) -> Form:
    return {key: factor for key, factor in form.items() if factor}
