"""Counter-examples: a small distribution on which a statement fails.

Tables are drawn at random, the small and round ones first, and outcomes from what can happen. Where variables have
densities it is normal distributions that are drawn, with small whole numbers in their covariance. A trial takes as many
steps as the statement has entropies, and each a pass over the table: long statements get fewer trials, and those for
which no table is small enough are refused.  Spec 01, A3.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from natsel.calculus.assumptions import Assumption
from natsel.calculus.discrete_joint import DiscreteJoint, ZeroProbabilityOutcome
from natsel.calculus.evaluate import evaluate
from natsel.calculus.expansion import entropies
from natsel.calculus.expressions import (
    KL,
    CrossEntropy,
    Expectation,
    Expression,
    Outcome,
    Statement,
    Sum,
    tied_name,
)
from natsel.calculus.gaussian_joint import GaussianJoint
from natsel.calculus.random_tables import assumed_names, table
from natsel.calculus.tree import atoms_of, free_atoms, models_of

_CLEAR = 0.01  # nats by which a statement fails plainly; less, and a plainer failure is looked for
_ROUNDING = 1e-9
_MOST_CELLS = 100_000
MOST_VARIABLES = 16
"""Of two values each: 2^16 cells is the largest table that is drawn."""
_EASY = 30  # entropies of a small table, of which 1,000 trials take two or three seconds
_SMALL = 2500  # cells that take as long as the calls for one entropy
_OF_NORMALS = 5  # times as long as that of a small table
_SCALES = (1.0, 0.01, 0.25, 4.0)

Joint = DiscreteJoint | GaussianJoint
Situation = tuple[Joint, dict[str, Outcome], dict[str, DiscreteJoint]]


@dataclass(frozen=True)
class Counterexample:
    """A distribution (and outcomes, and models) on which the left and the right side are what they should not be."""

    joint: Joint
    at: dict[str, Outcome]
    left: float
    right: float
    q: dict[str, DiscreteJoint] = field(default_factory=dict)

    def __str__(self) -> str:
        where = "".join(f", {name}={outcome}" for name, outcome in self.at.items())
        tables = [_written("p", self.joint), *(_written(name, table) for name, table in self.q.items())]
        return f"left {self.left:.6g}, right {self.right:.6g}{where}, where\n" + "\n".join(tables)


def counterexample(
    statement: Statement, assume: tuple[Assumption, ...], trials: int, seed: int, discrete: bool = True
) -> Counterexample | None:
    """The first plain failure among `trials` distributions, or the plainest; None where the statement always held.

    >>> from natsel.calculus import parse_statement
    >>> found = counterexample(parse_statement("I[X;y] >= 0"), (), trials=100, seed=0)
    >>> round(found.left, 6), found.at
    (-0.056633, {'y': 1})
    """
    rng, best = np.random.default_rng(seed), None
    largest = 0.0
    for joint, at, q in _on_tables(statement, assume, trials, rng) if discrete else _normal(statement, trials, rng):
        try:
            left, right = (
                float(evaluate(side, joint, at=_free(side, at), q=q or None).value)
                for side in (statement.left, statement.right)
            )
        except ZeroProbabilityOutcome:
            continue
        off = {"=": abs(left - right), "<=": left - right, ">=": right - left}[statement.relation]
        if not math.isfinite(off) or off < _ROUNDING * (1 + abs(left) + abs(right)):
            continue
        if off > largest:
            largest, best = off, Counterexample(joint, at, left, right, q)
        if off > _CLEAR:
            break
    return best


def affordable(statement: Statement, trials: int, discrete: bool = True) -> int:
    """How many of so many trials are made of a statement, so that they take seconds: all where it is short.

    >>> from natsel.calculus import parse_statement
    >>> [affordable(parse_statement(text), 1000) for text in ("I[X;Y] >= 0", "I[A;B;C;D;E;F;G] <= H[A]")]
    [1000, 439]
    """
    variables = len({atom.name for side in (statement.left, statement.right) for atom in atoms_of(side)})
    each = 1 + 2 ** min(variables, MOST_VARIABLES) / _SMALL if discrete else _OF_NORMALS
    steps = each * max(1, entropies(statement.left) + entropies(statement.right))
    return max(1, min(trials, int(trials * _EASY / steps)))


def _free(side: Expression, at: dict[str, Outcome]) -> dict[str, Outcome]:
    symbols = {tied_name(atom.name) for atom in free_atoms(side) if atom.tied and atom.outcome is None}
    return {name: outcome for name, outcome in at.items() if name in symbols}


def _symbols(statement: Statement) -> list[str]:
    """The variables whose outcomes the statement speaks of by their lower-case names."""
    free = (free_atoms(statement.left) | free_atoms(statement.right)).keys()
    return list(dict.fromkeys(atom.name for atom in free if atom.tied and atom.outcome is None))


def _on_tables(
    statement: Statement, assume: tuple[Assumption, ...], trials: int, rng: np.random.Generator
) -> Iterator[Situation]:
    atoms = atoms_of(statement.left) | atoms_of(statement.right)
    names = list(dict.fromkeys([*(atom.name for atom in atoms), *assumed_names(assume)]))
    if not names or _speaks_of_everything(statement.left) or _speaks_of_everything(statement.right):
        names.append("Rest")
    said = {name: [atom.outcome for atom in atoms if atom.name == name and atom.outcome is not None] for name in names}
    models = models_of(statement.left) | models_of(statement.right)
    least = math.prod(len(_labels(said[name], 2)) for name in names)
    if least > _MOST_CELLS:
        raise ValueError(
            f"statement: its form does not prove it, and a counter-example of {len(names)} variables is a table of"
            f" {least:,} cells or more, which is too large to look for; state it of at most {MOST_VARIABLES} variables"
            " with few outcomes"
        )
    for trial in range(trials):
        largest = 2 + (5 * trial >= 2 * trials) + (5 * trial >= 4 * trials) if len(names) < 7 else 2
        labels = {name: _labels(said[name], int(rng.integers(2, largest + 1))) for name in names}
        sizes = tuple(len(labels[name]) for name in names)
        weights = table(names, sizes, assume, trial, rng) if math.prod(sizes) <= _MOST_CELLS else None
        if weights is None:
            continue
        outcomes = {name: each for name, each in labels.items() if each != list(range(len(each)))}
        joint = DiscreteJoint.from_counts(names, weights, outcomes)
        cells = np.argwhere(weights > 0)
        cell = dict(zip(names, cells[rng.integers(len(cells))], strict=True))
        at = {tied_name(name): joint.label(name, int(cell[name])) for name in _symbols(statement)}
        yield joint, at, {q: DiscreteJoint.from_counts(names, rng.integers(1, 6, sizes), outcomes) for q in models}


def _normal(statement: Statement, trials: int, rng: np.random.Generator) -> Iterator[Situation]:
    names = list(dict.fromkeys(atom.name for atom in atoms_of(statement.left) | atoms_of(statement.right)))
    for trial in range(trials if names else 0):
        loads = rng.integers(-1, 2, (len(names), len(names)))
        cov = _SCALES[trial % len(_SCALES)] * (loads @ loads.T + np.eye(len(names)))
        at: dict[str, Outcome] = {tied_name(name): int(rng.integers(-2, 3)) for name in _symbols(statement)}
        yield GaussianJoint(np.zeros(len(names)), cov, names), at, {}  # type: ignore[arg-type]


def _labels(said: list[Outcome], size: int) -> list[Outcome]:
    """As many outcomes as wanted, those that the statement names among them; 0, 1, … where they will do."""
    if all(isinstance(outcome, int) and 0 <= outcome < 8 for outcome in said):
        return list(range(max(size, *(int(outcome) + 1 for outcome in said)) if said else size))
    return [*said, *(f"other{number}" for number in range(max(1, size - len(said))))]


def _speaks_of_everything(expression: Expression) -> bool:
    match expression:
        case CrossEntropy(p, q) | KL(p, q):
            return not p.of or not q.of
        case Expectation(_, body):
            return _speaks_of_everything(body)
        case Sum(terms):
            return any(_speaks_of_everything(term) for _, term in terms)
        case _:
            return False


def _written(law: str, joint: Joint) -> str:
    if isinstance(joint, GaussianJoint):
        rows = "; ".join(", ".join(f"{float(value):g}" for value in row) for row in joint.cov)
        return f"  {law}({', '.join(joint.names)}) is normal with mean 0 and covariance [{rows}]"
    p = joint.log_p.exp().numpy()
    lines = []
    for cell in np.argwhere(p > 0):
        labels = (joint.label(name, int(place)) for name, place in zip(joint.names, cell, strict=True))
        outcomes = ", ".join(f"{name}={label}" for name, label in zip(joint.names, labels, strict=True))
        lines.append(f"  {law}({outcomes}) = {_number(float(p[tuple(cell)]))}")
    return "\n".join(lines)


def _number(p: float) -> str:
    fraction = Fraction(p).limit_denominator(200)
    return str(fraction) if abs(float(fraction) - p) < 1e-12 else f"{p:.4g}"
