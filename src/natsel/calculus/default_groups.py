"""Getting an expression ready for a joint: its bare laws spelled out.

    H(p ‖ q)        over all variables of the joint
    H(p(X) ‖ q)     q over what p is over

Spec 01, 2 and A1.
"""

from collections.abc import Callable

from natsel.calculus.expressions import (
    KL,
    CrossEntropy,
    Expectation,
    Expression,
    Group,
    Law,
    Sum,
)


def filled(expression: Expression, everything: Callable[[], Group]) -> Expression:
    """The same expression with every bare law `p` spelled out: over what the law beside it has, else over all.

    >>> from natsel.calculus import Atom, parse
    >>> str(filled(parse("KL(p || q)"), lambda: (Atom("X"), Atom("Y"))))
    'KL(p(X, Y) || q(X, Y))'
    """

    def pair(p: Law, q: Law) -> tuple[Law, Law]:
        of, given = (p.of, p.given) if p.of else (q.of, q.given)
        of = of or everything()
        return (p if p.of else Law(p.name, of, given)), (q if q.of else Law(q.name, of, given))

    match expression:
        case CrossEntropy(p, q):
            return CrossEntropy(*pair(p, q))
        case KL(p, q):
            return KL(*pair(p, q))
        case Expectation(law, body):
            return Expectation(law, filled(body, everything))
        case Sum(terms):
            return Sum(tuple((factor, filled(term, everything)) for factor, term in terms))
        case _:
            return expression
