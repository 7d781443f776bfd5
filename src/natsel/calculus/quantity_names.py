"""Naming: what people call a quantity, read off which of its variables are tied.

    I[X; Y] mutual information    I[X; y] information gain    I[y; X] surprise    I[x; y] point-wise

D and D_… behind | count as outcomes.  Spec 01, 3.
"""

from natsel.calculus.expressions import (
    KL,
    TC,
    Content,
    CrossEntropy,
    Expectation,
    Expression,
    Group,
    H,
    I,
    Number,
)
from natsel.calculus.tree import is_data

# By whether the head and the other group are tied.
_PAIRS = {
    (False, False): "mutual information",
    (True, True): "point-wise mutual information",
    (False, True): "information gain",
    (True, False): "surprise",
}


def name_of(expression: Expression) -> str:
    """The name of a quantity; empty for sums, which have none.

    >>> from natsel.calculus import parse
    >>> name_of(parse("I[X; y]")), name_of(parse("I[y; X]"))
    ('information gain', 'surprise')
    """
    match expression:
        case H(of, given, model) if model in (None, "p"):
            return _entropy(of, given)
        case H(_, given, _):
            return "conditional cross-entropy" if _some_untied(given) else "cross-entropy"
        case I(_, _, model) | TC(_, _, model) if model not in (None, "p"):
            return ""
        case I(groups, given):
            name = _information(groups)
            return f"conditional {name}" if _some_untied(given) else name
        case TC(_, given):
            return "conditional total correlation" if _some_untied(given) else "total correlation"
        case CrossEntropy(p, q):
            return "entropy" if p == q else "cross-entropy"
        case KL():
            return "KL divergence"
        case Content():
            return "information content"
        case Number():
            return "constant"
        case Expectation(law, H(of, (), None)) if set(of) <= set(law.of) and law.given and law.name == "p":
            return "expected prior surprisal under the posterior"
        case Expectation(_, body):
            inner = name_of(body)
            return f"expected {inner}" if inner else ""
        case _:
            return ""


def _entropy(of: Group, given: Group) -> str:
    if all(atom.tied for atom in of):
        if _some_untied(given):
            return "expected information content"
        return "conditional information content" if given else "information content"
    if any(atom.tied for atom in of):
        return "conditional mixed joint entropy" if given else "mixed joint entropy"
    if _some_untied(given):
        return "conditional entropy"
    if given:
        return f"entropy of the conditional at {', '.join(map(str, given))}"
    return "entropy" if len(of) == 1 else "joint entropy"


def _information(groups: tuple[Group, ...]) -> str:
    ties = [{atom.tied for atom in each} for each in groups]
    if len(groups) > 2:
        if set().union(*ties) == {False}:
            return "interaction information"
        return f"{'point-wise' if set().union(*ties) == {True} else 'mixed'} interaction information"
    if any(len(tie) == 2 for tie in ties):
        return "mixed mutual information"
    head, rest = (tie == {True} for tie in ties)
    return _PAIRS[head, rest]


def _some_untied(given: Group) -> bool:
    return any(not atom.tied and not is_data(atom.name) for atom in given)
