"""Rewriting: the chain rule, where it is true.

    H[A₁, …, Aₙ | C]      = Σᵢ H[Aᵢ | A₁, …, Aᵢ₋₁, C]            outcomes first: H[X, y] = H[y] + H[X | y]
    I[A; B₁, …, Bₙ | C]   = Σᵢ I[A; Bᵢ | B₁, …, Bᵢ₋₁, C]         and the same in untied variables of the head
    TC[A₁; …; Aₙ | C]     = Σᵢ I[A₁, …, Aᵢ₋₁; Aᵢ | C]
    KL(p(A₁, A₂) ‖ q(A₁, A₂)) = KL(p(A₁) ‖ q(A₁)) + KL(p(A₂ | A₁) ‖ q(A₂ | A₁))

Surprise does not chain in outcomes. Every candidate is compared with the original by its canonical form before it is
returned: a rule that does not hold for the mix at hand is never applied.
docs/theory/information-quantities.md, 3 to 5.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import permutations

from natsel.calculus.canonical import canonical
from natsel.calculus.expansion import MOST_ENTROPIES, entropies
from natsel.calculus.expressions import (
    KL,
    TC,
    CrossEntropy,
    Expectation,
    Expression,
    Group,
    H,
    I,
    Law,
    Sum,
    group,
    sum_of_terms,
)

# Atoms whose orders are all tried, and what these may take in all; others are tried as written, and outcomes first.
_LONGEST = 5
_MOST_TRIED = 4 * MOST_ENTROPIES
Make = Callable[[Group, Group], Expression]


def chain(expression: Expression) -> Expression:
    """The expression with the chain rule applied to the first quantity that chains.

    >>> from natsel.calculus import parse
    >>> str(chain(parse("H[X, y | Z]"))), str(chain(parse("I[X; Y1, Y2]")))
    ('H[y | Z] + H[X | y, Z]', 'I[X; Y1] + I[X; Y2 | Y1]')
    """
    refusals: list[str] = []
    chained = _chained(expression, refusals)
    if chained is None:
        why = refusals[0] if refusals else f"{expression} has no quantity with more than one variable to chain"
        raise ValueError(f"chain: {why}")
    return chained


def _chained(expression: Expression, refusals: list[str]) -> Expression | None:
    match expression:
        case Sum(terms):
            for place, (factor, term) in enumerate(terms):
                chained = _chained(term, refusals)
                if chained is not None:
                    return sum_of_terms([*terms[:place], (factor, chained), *terms[place + 1 :]])
            return None
        case Expectation(law, body):
            chained = _chained(body, refusals)
            return None if chained is None else Expectation(law, chained)
    candidates = list(_candidates(expression))
    if not candidates:
        return None
    form = canonical(expression)
    for candidate in candidates:
        if canonical(candidate) == form:
            return candidate
    refusals.append(_refusal(expression))
    return None


def _candidates(expression: Expression) -> Iterator[Expression]:
    match expression:
        case H(of, given, model):
            yield from _splits(of, given, lambda part, behind: H(part, behind, model))
        case I(groups, given):
            # The groups behind the head always chain, so that they come first.
            for place in (*range(1, len(groups)), 0):
                yield from _splits(groups[place], given, _in_place(expression, place))
        case TC(groups, given, model):
            before = [group(atom for each in groups[:place] for atom in each) for place in range(len(groups))]
            pairs = list(zip(before, groups, strict=True))[1:]
            for turned in (False, True):
                yield sum_of_terms((Fraction(1), I((b, a) if turned else (a, b), given, model)) for a, b in pairs)
        case CrossEntropy(p, q) | KL(p, q) if (p.of, p.given) == (q.of, q.given):
            between = type(expression)
            yield from _splits(p.of, p.given, lambda of, given: between(Law(p.name, of, given), Law(q.name, of, given)))


def _in_place(term: I, place: int) -> Make:
    def make(part: Group, behind: Group) -> Expression:
        return replace(term, groups=(*term.groups[:place], part, *term.groups[place + 1 :]), given=behind)

    return make


def _splits(atoms: Group, given: Group, make: Make) -> Iterator[Expression]:
    """Σ make(part | parts before, given): atom by atom in any order, then with the outcomes as one part."""
    if len(atoms) < 2:
        return
    tied = tuple(atom for atom in atoms if atom.tied)
    untied = tuple(atom for atom in atoms if not atom.tied)
    orders = [atoms, (*tied, *untied)]
    each = len(atoms) * entropies(make(atoms[:1], given))
    if len(atoms) <= _LONGEST and math.factorial(len(atoms)) * each <= _MOST_TRIED:
        orders += permutations(atoms)
    parts: list[list[Group]] = [[(atom,) for atom in order] for order in dict.fromkeys(orders)]
    if len(tied) > 1 and untied:
        parts.append([tied, *((atom,) for atom in untied)])
    for split in parts:
        terms: list[tuple[Fraction, Expression]] = []
        before: Group = ()
        for part in split:
            terms.append((Fraction(1), make(part, group((*before, *given)))))
            before = (*before, *part)
        yield sum_of_terms(terms)


def _refusal(expression: Expression) -> str:
    if isinstance(expression, I) and all(atom.tied for atom in expression.groups[0]) and len(expression.groups) == 2:
        head, rest = expression.groups
        gain = replace(expression, groups=(rest, head))
        return f"{expression} is a surprise, which does not chain in outcomes; the information gain {gain} does"
    return f"{expression} mixes variables and outcomes so that no chain rule holds; expand it instead"
