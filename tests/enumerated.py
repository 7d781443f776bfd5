"""The calculus by its definitions: plain dictionaries of probabilities, one outcome at a time, no logs of sums.

Slow and short: what the fast evaluation is compared with. Values are NaN where a quantity is undefined.
"""

import itertools
import math
import random
from typing import Any

from natsel.calculus.expressions import (
    KL,
    TC,
    Atom,
    Content,
    CrossEntropy,
    Expectation,
    Expression,
    H,
    I,
    Law,
    Number,
    Sum,
)

Outcomes = dict[str, int]


class Enumerated:
    """A joint distribution as {outcomes: probability}; `q` another one, not necessarily normalised."""

    def __init__(self, names: Any, p: Any, q: Any = None) -> None:
        self.names = list(names)
        self.sizes = dict(zip(self.names, p.shape, strict=True))
        self.p = {"p": {cell: float(p[cell]) for cell in itertools.product(*map(range, p.shape))}}
        if q is not None:
            self.p["q"] = {cell: float(q[cell]) for cell in self.p["p"]}

    def mass(self, law: str, outcomes: Outcomes) -> float:
        cells = ((dict(zip(self.names, cell, strict=True)), p) for cell, p in self.p[law].items())
        return math.fsum(p for cell, p in cells if all(cell[name] == place for name, place in outcomes.items()))

    def value(self, expression: Expression, at: Outcomes) -> float:
        match expression:
            case H(of, given, model):
                return self.cross(Law("p", of, given), Law(model or "p", of, given), at)
            case I((head, other), given, model):
                known = (*other, *given)
                return self.value(H(head, given, model), at) - self.value(H(head, known, model), at)
            case I((*groups, last), given, model):
                known = (*last, *given)
                return self.value(I(tuple(groups), given, model), at) - self.value(I(tuple(groups), known, model), at)
            case TC(groups, given, model):
                whole = tuple(atom for each in groups for atom in each)
                parts = math.fsum(self.value(H(each, given, model), at) for each in groups)
                return parts - self.value(H(whole, given, model), at)
            case CrossEntropy(p, q):
                return self.cross(p, q, at)
            case KL(p, q):
                return self.cross(p, q, at) - self.cross(p, p, at)
            case Expectation(law, body):
                return self.average(law, [atom.name for atom in law.of], at, lambda inner: self.value(body, inner))
            case Sum(terms):
                return sum(float(factor) * self.value(term, at) for factor, term in terms)
            case Content(number):
                return -math.log(number) if number else math.inf
            case Number(number):
                return float(number)
        raise TypeError(expression)

    def cross(self, law: Law, inside: Law, at: Outcomes) -> float:
        tied = fixed((*law.of, *law.given), at)
        untied = [atom.name for atom in (*law.of, *law.given) if not atom.tied]

        def content(outcomes: Outcomes) -> float:
            known = outcomes | fixed((*inside.of, *inside.given), at)
            names = {atom.name for atom in inside.given}
            below = {name: known[name] for name in names}
            above = below | {atom.name: known[atom.name] for atom in inside.of}
            bottom, top = self.mass(inside.name, below) if names else 1.0, self.mass(inside.name, above)
            return math.nan if bottom == 0 else math.inf if top == 0 else math.log(bottom) - math.log(top)

        if not untied:
            return content(tied)
        return self.average(Law(law.name, (), tuple(a for a in (*law.of, *law.given) if a.tied)), untied, at, content)

    def average(self, law: Law, names: list[str], at: Outcomes, body: Any) -> float:
        tied = fixed(law.given, at)
        whole = self.mass(law.name, tied)
        if whole == 0:
            return math.nan
        terms = []
        for cell in itertools.product(*(range(self.sizes[name]) for name in names)):
            outcomes = dict(zip(names, cell, strict=True))
            weight = self.mass(law.name, tied | outcomes) / whole
            if weight > 0:
                terms.append(weight * body(at | tied | outcomes))
        return math.fsum(terms)


def fixed(atoms: tuple[Atom, ...], at: Outcomes) -> Outcomes:
    return {atom.name: at[atom.name] if atom.outcome is None else atom.outcome for atom in atoms if atom.tied}


def random_expression(names: list[str], seed: int, q: bool = False) -> Expression:
    """A quantity over some of the variables, each tied or untied, maybe averaged over some of the tied ones."""
    rng = random.Random(seed)
    some = rng.sample(names, rng.randint(1, len(names)))
    atoms = [Atom(name, tied=rng.random() < 0.4) for name in some]
    kind = rng.choice(["H", "I", "TC"] if len(atoms) > 1 else ["H"])
    parts: list[list[Atom]] = [[] for _ in range(1 if kind == "H" else rng.randint(2, min(3, len(atoms))))]
    for place, atom in enumerate(atoms):
        (parts[place] if place < len(parts) else rng.choice([*parts, []])).append(atom)
    groups = tuple(tuple(part) for part in parts)
    used = {atom for part in groups for atom in part}
    given = tuple(atom for atom in atoms if atom not in used)
    model = "q" if q and rng.random() < 0.5 else None
    found = H(groups[0], given, model) if kind == "H" else (I if kind == "I" else TC)(groups, given, model)
    tied = [atom for atom in atoms if atom.tied]
    bound = tuple(atom for atom in tied if rng.random() < 0.4)
    if not bound:
        return found
    return Expectation(Law("p", bound, tuple(atom for atom in tied if atom not in bound and rng.random() < 0.7)), found)
