"""Forgetting events: how often training made the prediction of an example wrong after it had been right.

    events_n = Σ_t 1[right at visit t − 1, wrong at visit t]        before the first visit no example counts as right
    score_n  = events_n, +∞ where example n was never right

docs/theory/data-pruning.md; Toneva et al. 2019.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from natsel.data.labels import as_numpy
from natsel.ids import as_ids, ids_for, keys_of
from natsel.options import Count, Rows


class ForgettingEvents:
    """Counts for N examples, or for examples with given ids, told visit by visit in any order of the examples.

    >>> events = ForgettingEvents(3)
    >>> for right in ([True, True, False], [False, True, False], [True, True, False]):
    ...     events.update([0, 1, 2], right)
    >>> events.scores().tolist(), events.scores(never=4.0).tolist()
    ([1.0, 0.0, inf], [1.0, 0.0, 4.0])
    """

    def __init__(self, examples: Rows | Count) -> None:
        """`examples`: how many there are, or their ids."""
        is_count = isinstance(examples, int | np.integer)
        column = as_ids(np.arange(int(examples)) if is_count else examples, "examples")
        self.ids = ids_for(column, len(column), "examples")
        self._position = {key: place for place, key in enumerate(keys_of(self.ids))}
        self._events_N = np.zeros(len(self.ids), dtype=np.int64)
        self._right_N = np.zeros(len(self.ids), dtype=bool)
        self._ever_N = np.zeros(len(self.ids), dtype=bool)

    def update(self, ids: Any, correct: Any) -> None:
        """Tell whether examples were predicted correctly at a visit; an id given twice counts as two visits."""
        places, right = self._places(as_ids(ids)), as_numpy(correct).astype(bool)
        if right.shape != places.shape:
            raise ValueError(f"correct: expected one for each of {len(places)} ids, found shape {right.shape}")
        while len(places):
            _, first = np.unique(places, return_index=True)
            now, at = right[first], places[first]
            self._events_N[at] += self._right_N[at] & ~now
            self._right_N[at] = now
            self._ever_N[at] |= now
            places, right = np.delete(places, first), np.delete(right, first)

    def scores(self, never: float = math.inf) -> Tensor:
        """The number of events of each example; `never` stands for examples that were never right, seen or not.

        Means over several trainings need a finite `never`, such as the number of epochs + 1.
        """
        if never != never or never < 0:
            raise ValueError(f"never: expected a number from 0 on or infinity, found {never}; infinity is usual")
        return torch.from_numpy(np.where(self._ever_N, self._events_N, never))

    def _places(self, ids: Any) -> Any:
        keys = keys_of(ids)
        if wrong := [key for key in keys if key not in self._position]:
            raise ValueError(f"ids: {wrong[0]!r} is none of the {len(self.ids)} examples; pass ids of examples")
        return np.array([self._position[key] for key in keys], dtype=np.int64)
