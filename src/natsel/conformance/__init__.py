"""The conformance suite: what every belief, objective, search and named method keeps to, those of plug-ins too.

    pytest --pyargs natsel.conformance                        everything that is registered
    pytest --pyargs natsel.conformance -k "MyBelief"          what concerns one entry

Tests read the registries, so that a new entry is covered at once. Only two things have to be said about it: how to make
a small pool of a new kind of belief (`MAKERS`), and what a new quantity is, worked out a second time (`reference`). A
plug-in says both in a module that it names under the entry-point group `natsel.conformance`.  docs/plug-ins.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from natsel.beliefs import Belief

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Maker:
    """How to make the arrays of one kind of belief, in float64 and named as its constructor names them."""

    arrays: Callable[[np.random.Generator, int, int, int], Arrays]  # (rng, points, draws or features, classes)
    labels: Callable[[np.random.Generator, Arrays], np.ndarray]  # one per point, possible under the belief
    certain: Callable[[Arrays], Arrays]  # point 0 made worth least; hard zeros elsewhere, where the kind knows them


MAKERS: dict[type[Belief], Maker] = {}

REFERENCES: dict[tuple[str, type], tuple[Callable[[Any], np.ndarray], bool]] = {}
"""(quantity, belief) → the scores of all points of a pool, and whether they must be equal to them."""
SET_REFERENCES: dict[tuple[str, type], tuple[Callable[[Any], float], bool]] = {}
"""(quantity, belief) → the value of a pool as one set, for objectives that build a batch."""


def reference(quantity: str, kind: type, exact: bool = True, table: dict = REFERENCES) -> Callable:
    """Enter a reference, a function of a pool; it reads `pool.arrays`, and `pool.about.arrays` for targets.

    `exact` says whether scores must equal it, or may lie to the side that `guarantee` declares.
    """

    def enter(work: Callable) -> Callable:
        table[quantity, kind] = (work, exact)
        return work

    return enter
