"""Random tables, small and round ones first, on which given assumptions hold.

Two values a variable and probabilities that are multiples of 1/2, 1/3, 1/4, … come first, then more values and any
probabilities. Assumptions hold by construction: each variable is drawn given those before it, a determined one is a
function of its causes, and of variables that are independent given others all but the first see those others alone.
Where the order drawn does not allow that, the table is thrown away.  Spec 01, A3.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from natsel.calculus.assumptions import Assumption, Determines, Independent

_DENOMINATORS = (2, 3, 4, 5, 6, 8, 10)
_EACH = 12  # tables of one denominator before any other kind is tried
_CONCENTRATIONS = (0.2, 0.7, 1.0, 5.0)

Table = NDArray[np.float64]


def assumed_names(assume: tuple[Assumption, ...]) -> Iterator[str]:
    """The variables that the assumptions speak of."""
    for each in assume:
        yield from (*each.by, *each.of) if isinstance(each, Determines) else (*each.given, *each.labels)


def table(
    names: list[str], sizes: tuple[int, ...], assume: tuple[Assumption, ...], trial: int, rng: np.random.Generator
) -> Table | None:
    """Weights of the cells of table number `trial`, axes as `names`; None where the assumptions do not hold.

    >>> float(table(["X", "Y"], (2, 2), (), trial=0, rng=np.random.default_rng(0)).sum())
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
