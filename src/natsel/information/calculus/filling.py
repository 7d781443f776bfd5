"""Getting an expression ready for a joint: its groups rewritten, its bare laws spelled out.

    H(p ‖ q)        over all variables of the joint
    H(p(X) ‖ q)     q over what p is over

Spec 01, 2 and A1.
"""

from collections.abc import Callable

from natsel.information.calculus.expressions import (
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
)

# Takes a group and whether it stands behind `|`.
ChangeGroup = Callable[[Group, bool], Group]


def rewritten(expression: Expression, change: ChangeGroup) -> Expression:
    """The same expression with every group changed."""

    def law(each: Law) -> Law:
        return Law(each.name, change(each.of, False), change(each.given, True))

    match expression:
        case H(of, given, model):
            return H(change(of, False), change(given, True), model)
        case I(groups, given, model):
            return I(tuple(change(each, False) for each in groups), change(given, True), model)
        case TC(groups, given, model):
            return TC(tuple(change(each, False) for each in groups), change(given, True), model)
        case CrossEntropy(p, q):
            return CrossEntropy(law(p), law(q))
        case KL(p, q):
            return KL(law(p), law(q))
        case Expectation(over, body):
            return Expectation(law(over), rewritten(body, change))
        case Sum(terms):
            return Sum(tuple((factor, rewritten(term, change)) for factor, term in terms))
        case _:
            return expression


def filled(expression: Expression, everything: Callable[[], Group]) -> Expression:
    """The same expression with every bare law `p` spelled out: over what the law beside it has, else over all.

    >>> from natsel.information.calculus import Atom, parse
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
