"""Expressions at random, and their values straight from the definitions, by summing over the cells of a table.

The surprisal of an impossible outcome is ∞; NaN is what is undefined: ∞ − ∞, and a law given an impossible outcome.
"""

import itertools
import math

import numpy as np
from hypothesis import strategies as st

from natsel.calculus.expressions import (
    KL,
    TC,
    Atom,
    Content,
    CrossEntropy,
    Expectation,
    H,
    I,
    Law,
    Number,
    Sum,
    group,
    sum_of_terms,
)

NAMES = ("X", "Y", "Z")


# --- values -----------------------------------------------------------------------------------------------------------


class Situation:
    """A table, further laws, and the outcomes that the lower-case names stand for."""

    def __init__(self, p, names=NAMES, at=None, q=None):
        self.tables = {"p": np.asarray(p, float), **(q or {})}
        self.names, self.at = names, dict(at or {})
        self.known = {}

    def mass(self, law, fixed):
        """The probability that some variables have these values."""
        place = (law, frozenset(fixed.items()))
        if place not in self.known:
            index = tuple(fixed.get(name, slice(None)) for name in self.names)
            self.known[place] = float(np.sum(self.tables[law][index]))
        return self.known[place]

    def cells(self, names):
        sizes = [self.tables["p"].shape[self.names.index(name)] for name in names]
        for values in itertools.product(*map(range, sizes)):
            yield dict(zip(names, values, strict=True))

    def bound(self, more):
        return Situation(self.tables["p"], self.names, {**self.at, **more}, self.tables)

    def tied(self, atoms):
        return {a.name: self.at[a.name] if a.outcome is None else a.outcome for a in atoms if a.tied}

    def average(self, sampler, names, tied, function):
        """E of a function of a cell, under the sampler's law of the names given what is tied."""
        untied = [name for name in dict.fromkeys(names) if name not in tied]
        if not untied:
            return function(tied)  # no law is asked: the outcome may be impossible, and its surprisal ∞
        whole = self.mass(sampler, tied)
        if not whole:
            return math.nan
        total = 0.0
        for cell in self.cells(untied):
            weight = self.mass(sampler, {**tied, **cell})
            total += weight / whole * function({**tied, **cell}) if weight else 0.0
        return total


def log(probability):
    return math.log(probability) if probability else -math.inf


def value(expression, where):
    """The number that an expression is, from its definition; NaN where it is undefined."""
    match expression:
        case Sum(terms):
            return sum(float(factor) * value(term, where) for factor, term in terms)  # fsum refuses ∞ − ∞
        case Number(number):
            return float(number)
        case Content(number):
            return -math.log(number)
        case H(of, given, model):
            return value(CrossEntropy(Law("p", of, given), Law(model or "p", of, given)), where)
        case I((head,), given, model):
            return value(H(head, given, model), where)
        case I((*first, last), given, model):
            without, behind = I(tuple(first), given, model), I(tuple(first), group((*last, *given)), model)
            return value(without, where) - value(behind, where)
        case TC(groups, given, model):
            together = H(group(atom for each in groups for atom in each), given, model)
            return sum(value(H(each, given, model), where) for each in groups) - value(together, where)
        case KL(p, q):
            return value(CrossEntropy(p, q), where) - value(CrossEntropy(p, p), where)
        case CrossEntropy(p, q):
            of = [atom.name for atom in (*q.of, *q.given)]
            behind = [atom.name for atom in q.given]

            def content(cell):
                both = where.mass(q.name, {name: cell[name] for name in of})
                return log(where.mass(q.name, {n: cell[n] for n in behind}) if behind else 1.0) - log(both)

            drawn = [*p.of, *p.given]
            return where.average(p.name, [atom.name for atom in drawn], where.tied(drawn), content)
        case Expectation(law, body):
            names = [atom.name for atom in law.of]
            inner = lambda cell: value(body, where.bound({name: cell[name] for name in names}))  # noqa: E731
            return where.average(law.name, names, where.tied(law.given), inner)
    raise AssertionError(expression)


def surprisal(key, where):
    """ε(S; T) of the canonical form."""
    if key.is_constant:
        return math.log(key.prime) if key.prime > 1 else 1.0
    tied = {name: where.at[name] if outcome is None else outcome for name, outcome in key.tied}
    inside = sorted(key.inside)
    content = lambda cell: -log(where.mass(key.model, {name: cell[name] for name in inside}))  # noqa: E731
    return where.average(key.sampler, inside, tied, content)


def form_value(form, where):
    return math.fsum(float(factor) * surprisal(key, where) for key, factor in form.items())


def situation(seed, names=NAMES, zeros=True, sizes=None):
    """A random table with outcomes that can happen, and a positive law q that sums to one."""
    rng = np.random.default_rng(seed)
    shape = sizes or tuple(int(rng.integers(2, 4)) for _ in names)
    p = rng.dirichlet(np.full(math.prod(shape), 0.7)).reshape(shape)
    if zeros:
        p = p * (rng.random(shape) < 0.7)
        p[tuple(rng.integers(size) for size in shape)] += 0.1
        p /= p.sum()
    cells = np.argwhere(p > 0)
    at = dict(zip(names, (int(place) for place in cells[rng.integers(len(cells))]), strict=True))
    return Situation(p, names, at, {"q": rng.dirichlet(np.ones(math.prod(shape))).reshape(shape)})


# --- expressions ------------------------------------------------------------------------------------------------------

numbers = st.fractions(min_value=-4, max_value=4, max_denominator=6)


@st.composite
def quantities(draw, names=NAMES, bound=frozenset(), models=(None,), kinds=("H", "I", "TC")):
    """H, I or TC over some of the names; those in `bound` are tied where they occur."""
    atoms = [Atom(name, tied=name in bound or draw(st.booleans())) for name in draw(st.permutations(names))]
    kind = draw(st.sampled_from(kinds))
    count = 1 if kind == "H" else draw(st.integers(2, max(2, len(names))))
    groups = [group(draw(st.lists(st.sampled_from(atoms), min_size=1, max_size=3))) for _ in range(count)]
    given = group(draw(st.lists(st.sampled_from(atoms), max_size=2)))
    model = draw(st.sampled_from(models))
    return H(groups[0], given, model) if kind == "H" else (I if kind == "I" else TC)(tuple(groups), given, model)


@st.composite
def expressions(draw, names=NAMES, bound=frozenset(), models=(None,), depth=1):
    """Sums of quantities and of expectations over sums."""
    terms = []
    for _ in range(draw(st.integers(1, 3))):
        if depth and draw(st.integers(0, 3)) == 0:
            over = draw(st.sets(st.sampled_from(names), min_size=1))
            law_given = draw(st.sets(st.sampled_from(names))) - over
            law = Law("p", tuple(Atom(n, True) for n in sorted(over)), tuple(Atom(n, True) for n in sorted(law_given)))
            terms.append(Expectation(law, draw(expressions(names, bound | over, models, depth - 1))))
        else:
            terms.append(draw(quantities(names, bound, models)))
    return sum_of_terms((draw(numbers.filter(bool)), term) for term in terms)
