"""What is known about a pool: the state that a journal makes, followed as it grows and shown in the pool.

Writing goes one way: journal first, then the fold of what the journal holds, then the pool. What this process did and
what others did arrive by the same door.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from natsel import __version__
from natsel.choose import Method
from natsel.data.examples import Examples
from natsel.data.labels import as_numpy
from natsel.data.pool import Pool
from natsel.store import Ask, Journal, State, Terms

Array = np.ndarray[Any, Any]


def terms_of(method: Method, pool: Pool, k: int, seed: int, model: str, config: Mapping[str, Any]) -> Terms:
    """The terms of a run: what decides its batches, and notes for people."""
    decisive = {"objective": repr(method.objective), "search": repr(method.search), **config}
    notes = {"model": model, "points": len(pool), "classes": list(pool.classes)}
    return Terms(pool.fingerprint(), method.name, k, seed, decisive, notes, __version__)


class Record:
    """A run in a journal, its state and its pool.

    >>> record = Record(Journal(), "main", Terms("some data", "bald", 2, 0), Pool(np.zeros((3, 1))))
    >>> record.tell([2], [1])
    >>> record.free_ids(), record.labelled().labels
    (array([0, 1]), array([1]))
    """

    def __init__(self, journal: Journal, run: str, terms: Terms, pool: Pool, who: str = "") -> None:
        self.journal, self.pool, self.who = journal, pool, who
        before, aside = pool.labelled_ids.tolist(), pool.ignored_ids.tolist()
        values = pool.labels_of(before).tolist()
        self.state: State = journal.begin(run, terms)
        journal.tell(self.state, before, values, skipped=aside, who=who, only_new=True)
        self.follow()

    @property
    def run(self) -> int:
        """The number of the run in its journal."""
        return self.state.run

    def follow(self) -> State:
        """Fold in what was committed since, by anybody, and let the pool show it."""
        state = self.state
        if not self.journal.closed:
            self.journal.catch_up(state)
        labelled = [id for id in state.changed if id in state.values]
        self.pool.label(labelled, [state.values[id] for id in labelled])
        self.pool.ignore([id for id in state.changed if id in state.skipped])
        state.changed.clear()
        return state

    def ids(self, ids: Any) -> list[int]:
        """Ids as a list, each in the pool and named once."""
        self.pool.position_of(ids)
        chosen: list[int] = np.atleast_1d(as_numpy(ids)).tolist()
        if len(set(chosen)) < len(chosen):
            raise ValueError("ids: an id appears twice; give each once")
        return chosen

    def free_ids(self) -> Array:
        """Ids that may be handed out, in the order of the pool."""
        taken = [*self.state.values, *self.state.outstanding, *self.state.skipped]
        free_N = np.ones(len(self.pool), dtype=bool)
        free_N[self.pool.position_of(taken)] = False
        return self.pool.ids[free_N]

    def labelled(self) -> Examples:
        """Inputs and labels in the order first told."""
        ids, values = list(self.state.values), list(self.state.values.values())
        numbers = self.pool.regression or any(isinstance(value, float) for value in values)
        labels = np.array(values, dtype=np.float64 if numbers else np.int64)
        return Examples(self.pool.inputs_of(ids), labels, self.pool.classes)

    def ask(self, ask: Ask, limit: int | None = None) -> bool:
        """Hand a batch out, unless another client took one of its ids first."""
        number = self.journal.ask(self.state, ask, limit=limit)
        self.follow()
        return number is not None

    def tell(self, ids: Any, labels: Any, *, skipped: Any = (), who: str | None = None) -> None:
        """Check labels, write them and ids that got none in one transaction, and follow."""
        chosen, aside = self.ids(ids), self.ids(skipped)
        values = self.pool.as_labels(labels, "labels", "learner.skip").tolist()
        if len(values) != len(chosen):
            raise ValueError(f"labels: expected one for each of {len(chosen)} ids, found {len(values)}")
        self.journal.tell(self.state, chosen, values, skipped=aside, who=self.who if who is None else who)
        self.follow()

    def skip(self, ids: Any) -> None:
        """Set ids aside."""
        self.journal.skip(self.state, self.ids(ids), self.who)
        self.follow()

    def release(self, ids: Any) -> None:
        """Hand outstanding ids back."""
        self.journal.release(self.state, self.ids(ids), self.who)
        self.follow()
