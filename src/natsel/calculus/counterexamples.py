"""Counter-examples: a small distribution on which a statement fails.

Tables are drawn at random, and outcomes from what can happen. Two values per variable and probabilities that are
multiples of 1/2, 1/3, 1/4, … come first, then more values and any probabilities. Assumptions hold by construction:
each variable is drawn given those before it, a determined one is a function of its causes, and of variables that are
independent given others all except the first depend on those others only. Where the order drawn does not allow that,
the table is thrown away. Where variables have densities, normal distributions are drawn, with small whole numbers in
their covariance. A trial takes as many steps as the statement has entropies, and each step is a pass over the table:
long statements get fewer trials, and those for which no table is small enough are refused.
docs/theory/information-quantities.md, 7.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from natsel.calculus.canonical import Assumption, Determines, Independent
from natsel.calculus.discrete_joint import DiscreteJoint, ZeroProbabilityOutcome
from natsel.calculus.evaluate import evaluate
from natsel.calculus.expansion import entropies
from natsel.calculus.expressions import Outcome, Statement, atoms_of, free_symbols, groups_of, models_of, tied_name
from natsel.calculus.gaussian_joint import GaussianJoint

_CLEAR = 0.01  # nats by which a statement fails plainly; less, and a plainer failure is looked for
_ROUNDING = 1e-9
_MOST_CELLS = 100_000
MOST_VARIABLES = 16
"""Of two values each: 2^16 cells is the largest table that is drawn."""
_EASY = 30  # entropies of a small table, of which 1,000 trials take two or three seconds
_SMALL = 2500  # cells that take as long as the calls for one entropy
_OF_NORMALS = 5  # times as long as that of a small table
_SCALES = (1.0, 0.01, 0.25, 4.0)
_DENOMINATORS = (2, 3, 4, 5, 6, 8, 10)
_EACH = 12  # tables of one denominator before any other kind is tried
_CONCENTRATIONS = (0.2, 0.7, 1.0, 5.0)

Table = NDArray[np.float64]
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
        tables = [_table_text("p", self.joint), *(_table_text(name, table) for name, table in self.q.items())]
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
    tables = _random_situations(statement, assume, trials, rng)
    for joint, at, q in tables if discrete else _random_gaussian_situations(statement, trials, rng):
        try:
            left, right = (
                float(
                    evaluate(side, joint, at={x: at[x] for x in map(tied_name, free_symbols(side))}, q=q or None).value
                )
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


def affordable_trials(statement: Statement, trials: int, discrete: bool = True) -> int:
    """How many of so many trials are made of a statement, so that they take seconds: all where it is short.

    >>> from natsel.calculus import parse_statement
    >>> [affordable_trials(parse_statement(text), 1000) for text in ("I[X;Y] >= 0", "I[A;B;C;D;E;F;G] <= H[A]")]
    [1000, 439]
    """
    variables = len({atom.name for side in (statement.left, statement.right) for atom in atoms_of(side)})
    each = 1 + 2 ** min(variables, MOST_VARIABLES) / _SMALL if discrete else _OF_NORMALS
    steps = each * max(1, entropies(statement.left) + entropies(statement.right))
    return max(1, min(trials, int(trials * _EASY / steps)))


def _random_situations(
    statement: Statement, assume: tuple[Assumption, ...], trials: int, rng: np.random.Generator
) -> Iterator[Situation]:
    atoms = atoms_of(statement.left) | atoms_of(statement.right)
    assumed = [(*a.by, *a.of) if isinstance(a, Determines) else (*a.given, *a.labels) for a in assume]
    names = list(dict.fromkeys([*(atom.name for atom in atoms), *(name for each in assumed for name in each)]))
    if not names or any(not of for side in (statement.left, statement.right) for of, _ in groups_of(side)):
        names.append("Rest")  # a bare law is over more than the statement names
    said = {name: [atom.outcome for atom in atoms if atom.name == name and atom.outcome is not None] for name in names}
    models = models_of(statement.left) | models_of(statement.right)
    symbols = dict.fromkeys(free_symbols(statement.left) + free_symbols(statement.right))
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
        weights = random_table(names, sizes, assume, trial, rng) if math.prod(sizes) <= _MOST_CELLS else None
        if weights is None:
            continue
        outcomes = {name: each for name, each in labels.items() if each != list(range(len(each)))}
        joint = DiscreteJoint.from_counts(names, weights, outcomes)
        cells = np.argwhere(weights > 0)
        cell = dict(zip(names, cells[rng.integers(len(cells))], strict=True))
        at = {tied_name(name): joint.label(name, int(cell[name])) for name in symbols}
        yield joint, at, {q: DiscreteJoint.from_counts(names, rng.integers(1, 6, sizes), outcomes) for q in models}


def _random_gaussian_situations(statement: Statement, trials: int, rng: np.random.Generator) -> Iterator[Situation]:
    names = list(dict.fromkeys(atom.name for atom in atoms_of(statement.left) | atoms_of(statement.right)))
    symbols = dict.fromkeys(free_symbols(statement.left) + free_symbols(statement.right))
    for trial in range(trials if names else 0):
        loads = rng.integers(-1, 2, (len(names), len(names)))
        cov = _SCALES[trial % len(_SCALES)] * (loads @ loads.T + np.eye(len(names)))
        at: dict[str, Outcome] = {tied_name(name): int(rng.integers(-2, 3)) for name in symbols}
        yield GaussianJoint(np.zeros(len(names)), cov, names), at, {}  # type: ignore[arg-type]


def _labels(said: list[Outcome], size: int) -> list[Outcome]:
    """As many outcomes as wanted, those that the statement names among them; 0, 1, … where they will do."""
    if all(isinstance(outcome, int) and 0 <= outcome < 8 for outcome in said):
        return list(range(max(size, *(int(outcome) + 1 for outcome in said)) if said else size))
    return [*said, *(f"other{number}" for number in range(max(1, size - len(said))))]


def _table_text(law: str, joint: Joint) -> str:
    if isinstance(joint, GaussianJoint):
        rows = "; ".join(", ".join(f"{float(value):g}" for value in row) for row in joint.cov)
        return f"  {law}({', '.join(joint.names)}) is normal with mean 0 and covariance [{rows}]"
    p = joint.log_p.exp().numpy()
    lines = []
    for cell in np.argwhere(p > 0):
        labels = (joint.label(name, int(place)) for name, place in zip(joint.names, cell, strict=True))
        outcomes = ", ".join(f"{name}={label}" for name, label in zip(joint.names, labels, strict=True))
        lines.append(f"  {law}({outcomes}) = {_number_text(float(p[tuple(cell)]))}")
    return "\n".join(lines)


def _number_text(p: float) -> str:
    fraction = Fraction(p).limit_denominator(200)
    return str(fraction) if abs(float(fraction) - p) < 1e-12 else f"{p:.4g}"


def random_table(
    names: list[str], sizes: tuple[int, ...], assume: tuple[Assumption, ...], trial: int, rng: np.random.Generator
) -> Table | None:
    """Weights of the cells of table number `trial`, axes as `names`; None where the assumptions do not hold.

    >>> float(random_table(["X", "Y"], (2, 2), (), trial=0, rng=np.random.default_rng(0)).sum())
    2.0
    """
    kinds = [*_DENOMINATORS, None] if trial >= _EACH * len(_DENOMINATORS) else [_DENOMINATORS[trial // _EACH]]
    denominator = kinds[trial % len(kinds)]
    if not assume:
        return _weights((), sizes, denominator, rng)
    order = _ordered(names, assume, rng)
    size = dict(zip(names, sizes, strict=True))
    joint, before = np.ones(()), list[str]()
    for name in order:
        parents = _parents(name, before, assume)
        shape = tuple(size[parent] for parent in parents)
        if any(isinstance(each, Determines) and name in each.of and set(each.by) <= set(before) for each in assume):
            rows = np.eye(size[name])[rng.integers(size[name], size=shape)]
        else:
            rows = _weights(shape, (size[name],), denominator, rng)
            rows = rows / rows.sum(-1, keepdims=True)
        axes = tuple(slice(None) if earlier in parents else None for earlier in before)
        joint = joint[..., None] * rows[(*axes, slice(None))]
        before.append(name)
    joint = joint.transpose([before.index(name) for name in names])
    return joint if all(_holds(joint, names, assumption) for assumption in assume) else None


def _weights(
    shape: tuple[int, ...], sizes: tuple[int, ...], denominator: int | None, rng: np.random.Generator
) -> Table:
    cells = math.prod(sizes)
    alpha = np.full(cells, 1.0 if denominator else rng.choice(_CONCENTRATIONS))
    p = rng.dirichlet(alpha, size=shape)
    p = p if denominator is None else rng.multinomial(denominator, p).astype(float)
    return np.asarray(p, dtype=np.float64).reshape(*shape, *sizes)


def _ordered(names: list[str], assume: tuple[Assumption, ...], rng: np.random.Generator) -> list[str]:
    """The variables in a random order, each determined one behind those that determine it."""
    order = [names[index] for index in rng.permutation(len(names))]
    for _ in assume:
        for assumption in assume:
            if isinstance(assumption, Determines):
                for name in assumption.of:
                    order.remove(name)
                    order.insert(1 + max(order.index(cause) for cause in assumption.by), name)
    return order


def _parents(name: str, before: list[str], assume: tuple[Assumption, ...]) -> list[str]:
    parents = list(before)
    for assumption in assume:
        if isinstance(assumption, Determines) and name in assumption.of and set(assumption.by) <= set(before):
            return [earlier for earlier in before if earlier in assumption.by]
        if isinstance(assumption, Independent) and name in assumption.labels and set(assumption.labels) & set(before):
            parents = [earlier for earlier in parents if earlier in assumption.given]
    return parents


def _holds(joint: Table, names: list[str], assumption: Assumption) -> bool:
    def marginal(some: set[str]) -> Table:
        summed = joint.sum(tuple(axis for axis, name in enumerate(names) if name not in some), keepdims=True)
        return np.asarray(summed, dtype=np.float64)

    if isinstance(assumption, Determines):
        both, cause = marginal({*assumption.of, *assumption.by}), marginal(set(assumption.by))
        return bool(np.all((both < 1e-12) | (np.abs(both - cause) < 1e-12)))
    given = set(assumption.given)
    ground = marginal(given)
    product = ground.copy()
    for label in assumption.labels:
        product = product * marginal(given | {label}) / np.where(ground > 0, ground, 1.0)
    return bool(np.allclose(marginal(given | set(assumption.labels)), product, atol=1e-12))
