"""Walking: which variables and outcomes an expression speaks of, and data read as what it is, a context.

    D, D_train, …   outcomes in spite of the capital letter: where such a name stands behind | alone, it is tied

Spec 01, 1.
"""

from collections.abc import Callable, Iterator

from natsel.calculus.expressions import (
    KL,
    TC,
    Atom,
    CrossEntropy,
    Expectation,
    Expression,
    Group,
    H,
    I,
    Law,
    Sum,
)


def is_data(name: str) -> bool:
    """Whether a name stands for a data set: D or D_ and more.

    >>> is_data("D"), is_data("D_train"), is_data("Day")
    (True, True, False)
    """
    return name == "D" or name.startswith("D_")


def groups_of(expression: Expression) -> Iterator[tuple[Group, Group]]:
    """Every (targets, given) in an expression, those of laws too."""
    match expression:
        case H(of, given):
            yield of, given
        case I(groups, given) | TC(groups, given):
            yield tuple(atom for each in groups for atom in each), given
        case CrossEntropy(p, q) | KL(p, q):
            yield p.of, p.given
            yield q.of, q.given
        case Expectation(law, body):
            yield law.of, law.given
            yield from groups_of(body)
        case Sum(terms):
            for _, term in terms:
                yield from groups_of(term)


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


def models_of(expression: Expression) -> dict[str, None]:
    """The names of all laws but p, in the order of first occurrence."""
    match expression:
        case H(_, _, model) | I(_, _, model) | TC(_, _, model):
            names = [model]
        case CrossEntropy(p, q) | KL(p, q):
            names = [p.name, q.name]
        case Expectation(law, body):
            names = [law.name, *models_of(body)]
        case Sum(terms):
            names = [name for _, term in terms for name in models_of(term)]
        case _:
            names = []
    return {name: None for name in names if name not in (None, "p")}


def with_data_tied(*expressions: Expression) -> tuple[Expression, ...]:
    """The expressions with D, D_… tied where, in all of them, it stands behind | alone.

    >>> from natsel.calculus import parse
    >>> [str(each) for each in with_data_tied(parse("H[Y | x, D]"))]
    ['H[Y | x, d]']
    """
    pairs = [pair for expression in expressions for pair in groups_of(expression)]
    targets = {atom.name for of, _ in pairs for atom in of}
    names = {atom.name for _, given in pairs for atom in given if not atom.tied and is_data(atom.name)} - targets
    return tuple(_tied(expression, names) for expression in expressions) if names else expressions


def _tied(expression: Expression, names: set[str]) -> Expression:
    def tied(atoms: Group, given: bool) -> Group:
        if not given:
            return atoms
        return tuple(Atom(atom.name, tied=True) if atom.name in names and not atom.tied else atom for atom in atoms)

    return rewritten(expression, tied)


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
