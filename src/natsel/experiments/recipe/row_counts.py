"""Parts of examples by counts: so many rows, so many of each class, or all there are."""

from typing import Any

import numpy as np

from natsel.data import Examples
from natsel.experiments.recipe.recipe import Counts

Array = np.ndarray[Any, Any]


def taken(order: Array, examples: Examples, counts: Counts, key: str) -> tuple[Array, Array]:
    """The first rows in an order that make up the counts, and those that are left, in the order given.

    >>> taken(np.array([2, 0, 1, 3]), Examples(np.zeros(4), [0, 1, 0, 1]), (1, None), "data.train")
    (array([2, 1, 3]), array([0]))
    """
    if counts is None:
        return order, order[:0]
    if isinstance(counts, int):
        if counts > len(order):
            raise ValueError(f"{key}: asked for {counts} of {len(order)} rows; ask for fewer")
        return order[:counts], order[counts:]
    if examples.labels is None or np.asarray(examples.labels).dtype.kind != "i":
        raise ValueError(f"{key}: a list counts rows of each class, and these have none; give one number")
    if len(counts) != examples.n_classes:
        raise ValueError(f"{key}: expected a count for each of {examples.n_classes} classes, found {len(counts)}")
    labels, wanted = np.asarray(examples.labels)[order], np.zeros(len(order), dtype=bool)
    for one, count in enumerate(counts):
        places = np.flatnonzero(labels == one)
        if count is not None and count > len(places):
            raise ValueError(f"{key}: asked for {count} of the {len(places)} rows of class {one}; ask for fewer")
        wanted[places[:count]] = True
    return order[wanted], order[~wanted]


def part_of(examples: Examples, counts: Counts, seed: int, key: str) -> Examples:
    """A random part of some examples by counts, in their own order.

    >>> len(part_of(Examples(np.zeros(9)), 4, 0, "data.test"))
    4
    """
    if counts is None or counts == len(examples):
        return examples
    order = np.random.default_rng(seed).permutation(len(examples))
    return examples[np.sort(taken(order, examples, counts, key)[0])]
