"""Expanding: every quantity as a sum of entropies.

    I[A₁; A₂; …; Aₙ | C] = Σ_{S ⊆ {2..n}} (−1)^|S| H[A₁ | A_S, C]        (the recursion I[A;B|C] = H[A|C] − H[A|B,C])
    TC[A₁; …; Aₙ | C]    = Σᵢ H[Aᵢ | C] − H[A₁, …, Aₙ | C]
    H(p(A|C) ‖ q(A|C))   = H_q[A | C]          KL(p(A|C) ‖ q(A|C)) = H_q[A | C] − H[A | C]

What is left are the leaves: H terms, expectations whose body is such a sum, cross-entropies between laws over different
groups, contents and constants. An interaction of n groups has 2^(n−1) of them, so that there is a limit. Before
leaves get values, bare laws get groups: H(p ‖ q) is over all variables of the joint; in H(p(X) ‖ q), q is over X.
docs/theory/information-quantities.md, 2 to 5 and 9.
"""

from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations

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
    Number,
    Sum,
    group,
    sum_of_terms,
)

MOST_ENTROPIES = 1 << 12
"""Entropies that an expression may be a sum of: an I of 13 groups, whose value on a table takes 2 s; each more doubles
them, and more than doubles the time."""


def leaves(expression: Expression) -> dict[Expression, Fraction]:
    """The leaves of an expression with their factors: equal ones merged, those with factor 0 left out.

    >>> from natsel.calculus import parse
    >>> {str(leaf): int(factor) for leaf, factor in leaves(parse("I[X;Y|z] + H[X|Y,z]")).items()}
    {'H[X | z]': 1}
    """
    if (count := entropies(expression)) > MOST_ENTROPIES:
        many = f"{count:,}" if count < 10**9 else f"about 2^{count.bit_length() - 1}"
        raise ValueError(
            f"expression: it is a sum of {many} entropies, more than {MOST_ENTROPIES:,}; an I doubles them with each"
            f" variable, so that {MOST_ENTROPIES.bit_length()} are the most: use fewer variables or fewer terms"
        )
    found: defaultdict[Expression, Fraction] = defaultdict(Fraction)
    _collect(expression, Fraction(1), found)
    return {leaf: factor for leaf, factor in found.items() if factor}


def entropies(expression: Expression) -> int:
    """How many entropies an expression is a sum of, counted without expanding it: equal ones and those that cancel too.

    >>> from natsel.calculus import parse
    >>> entropies(parse("I[X;Y;Z] - TC[X;Y]"))
    7
    """
    match expression:
        case Sum(terms):
            return sum(entropies(term) for _, term in terms)
        case I(groups):
            return 1 << len(groups) - 1
        case TC(groups):
            return len(groups) + 1
        case KL():
            return 2
        case Expectation(_, body):
            return entropies(body)
        case Number():
            return 0
        case _:
            return 1


def expand(expression: Expression) -> Expression:
    """The same quantity as a sum of entropies.

    >>> from natsel.calculus import parse
    >>> str(expand(parse("I[X; Y; z]")))
    'H[X] - H[X | Y] - H[X | z] + H[X | Y, z]'
    """
    return sum_of_terms((factor, leaf) for leaf, factor in leaves(expression).items())


def _collect(expression: Expression, factor: Fraction, found: defaultdict[Expression, Fraction]) -> None:
    match expression:
        case Sum(terms):
            for inner, term in terms:
                _collect(term, factor * inner, found)
        case I((head, *rest), given, model):
            for size in range(len(rest) + 1):
                for some in combinations(rest, size):
                    behind = group((*(atom for part in some for atom in part), *given))
                    found[_entropy(head, behind, model)] += factor * (-1) ** size
        case TC(groups, given, model):
            for each in groups:
                found[_entropy(each, given, model)] += factor
            found[_entropy(group(atom for each in groups for atom in each), given, model)] -= factor
        case H(of, given, model):
            found[_entropy(of, given, model)] += factor
        case CrossEntropy(p, q) if (p.of, p.given) == (q.of, q.given) and p.name == "p" and p.of:
            found[_entropy(p.of, p.given, q.name)] += factor
        case KL(p, q):
            _collect(CrossEntropy(p, q), factor, found)
            _collect(CrossEntropy(p, p), -factor, found)
        case Expectation(law, body):
            for leaf, inner in leaves(body).items():
                found[leaf if isinstance(leaf, Number) else Expectation(law, leaf)] += factor * inner
        case Number(value):
            found[Number(Fraction(1))] += factor * value
        case _:
            found[expression] += factor


def _entropy(of: Group, given: Group, model: str | None) -> Expression:
    """H[of | given]; a model named p is the truth itself, and what is given already says nothing more."""
    return H(of, given, None if model == "p" else model)


def with_bare_laws_filled(expression: Expression, all_variables: Callable[[], Group]) -> Expression:
    """The same expression with groups for every bare law `p`: those of the law beside it, else all variables.

    >>> from natsel.calculus import Atom, parse
    >>> str(with_bare_laws_filled(parse("KL(p || q)"), lambda: (Atom("X"), Atom("Y"))))
    'KL(p(X, Y) || q(X, Y))'
    """
    match expression:
        case CrossEntropy(p, q) | KL(p, q):
            of, given = (p.of, p.given) if p.of else (q.of, q.given)
            of = of or all_variables()
            return type(expression)(*(law if law.of else Law(law.name, of, given) for law in (p, q)))
        case Expectation(law, body):
            return Expectation(law, with_bare_laws_filled(body, all_variables))
        case Sum(terms):
            return Sum(tuple((factor, with_bare_laws_filled(term, all_variables)) for factor, term in terms))
        case _:
            return expression
