"""The sets: a pool to choose from and a test part, drawn from the parts of a data set by the seed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from natsel.data import load
from natsel.data.examples import Examples
from natsel.models import Backbone, Frozen, efficientnet_lite0, minilm
from natsel.seeds import derive
from protocol import Terms

PICTURES = ("mnist", "fashion")  # a convolution sees the picture; of all others a row of numbers is seen
EMBEDDED: dict[str, Callable[[], Backbone]] = {
    "cifar10": efficientnet_lite0,
    "clinc150": minilm,
    "trec": minilm,
    "sst2": minilm,
}


@dataclass(frozen=True, eq=False)
class Drawn:
    """The examples of one seed."""

    pool: Examples
    test: Examples

    @property
    def n_classes(self) -> int:
        """How many classes there are, with an example or without."""
        return len(self.pool.classes)


def drawn(name: str, seed: int, terms: Terms) -> Drawn:
    """A pool and a test part, the same for all models and methods of a seed."""
    parts = []
    for part, count, examples in zip(("pool", "test"), (terms.pool, terms.test), _whole(name), strict=True):
        rng = np.random.default_rng(derive(seed, "labels-saved", name, part))
        among = min(len(examples), terms.embedded) if name in EMBEDDED else len(examples)
        places = rng.permutation(among)[:count]
        rows = examples.inputs[places]
        if name in EMBEDDED:  # cached by content
            rows = Frozen(EMBEDDED[name]()).features(rows)
        parts.append(Examples(as_numbers(rows, name), np.asarray(examples.labels)[places], _names(examples)))
    return Drawn(*parts)


def first_labels(name: str, seed: int, count: int, points: int) -> NDArray[np.int64]:
    """The positions that are labelled at the start."""
    return np.random.default_rng(derive(seed, "labels-saved", name, "first")).choice(points, count, replace=False)


def as_numbers(rows: Any, name: str) -> Any:
    """Rows as the models of the protocol see them: tables flat, bytes of pictures in [0, 1]."""
    scale = 255 if np.asarray(rows).dtype == np.uint8 and np.asarray(rows).max(initial=0) > 1 else 1
    rows = np.asarray(rows, dtype=np.float32) / np.float32(scale)
    return rows if name in PICTURES else rows.reshape(len(rows), -1)


@cache
def _whole(name: str) -> tuple[Examples, Examples]:
    found = load(name)
    return found.train, found.test


def _names(examples: Examples) -> tuple[str, ...]:
    return examples.classes or tuple(map(str, range(int(np.asarray(examples.labels).max()) + 1)))
