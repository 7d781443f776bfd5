"""What is known about a pool: the state that a journal makes, followed as it grows and shown in the pool.

Writing goes one way: journal first, then the fold of what the journal holds, then the pool. What this process did and
what others did arrive by the same door. Threads may share a record: each of its methods is done before the next begins.
"""

import threading
from dataclasses import replace
from typing import Any

import numpy as np

from natsel.data.examples import Examples
from natsel.data.labels import as_numpy
from natsel.data.pool import Pool
from natsel.learning.names import Names
from natsel.store import Ask, Journal, State, Terms

Array = np.ndarray[Any, Any]


class Record:
    """A run in a journal, its state and its pool. `trusted`: that the pool is the one the labels were told for.

    >>> record = Record(Journal(), "main", Terms("some data", "bald", 2, 0), Pool(np.zeros((3, 1))))
    >>> record.tell([2], [1])
    >>> record.free_ids(), record.labelled().labels
    (array([0, 1]), array([1]))
    """

    def __init__(
        self,
        journal: Journal,
        run: str,
        terms: Terms,
        pool: Pool,
        names: Names | None = None,
        trusted: bool = False,
    ) -> None:
        self.journal, self.pool, self.names = journal, pool, names or Names(journal, run)
        self.lock = threading.RLock()
        before, aside = pool.labelled_ids.tolist(), pool.ignored_ids.tolist()
        values = pool.labels_of(before).tolist()
        self.state: State = journal.begin(run, terms)
        if not trusted:
            self._refuse_other_inputs()
        digests = pool.digests_of(before)
        journal.tell(self.state, before, values, skipped=aside, who=self.names.name, only_new=True, digests=digests)
        self.follow()

    @property
    def run(self) -> int:
        """The number of the run in its journal."""
        return self.state.run

    def follow(self) -> State:
        """Fold in what was committed since, by anybody, and let the pool show it."""
        with self.lock:
            state = self.state
            if not self.journal.closed:
                self.journal.catch_up(state)
            labelled = [id for id in state.changed if id in state.values]
            self.pool.restore(labelled, [state.values[id] for id in labelled])
            self.pool.ignore([id for id in state.changed if id in state.skipped])
            state.changed.clear()
            return state

    def now(self) -> State:
        """The state after all that was committed, as it stays for whoever has it."""
        with self.lock:
            state = self.follow()
            return replace(
                state,
                values=dict(state.values),
                outstanding=dict(state.outstanding),
                skipped=dict(state.skipped),
                changed={},
            )

    def ids(self, ids: Any) -> list[int]:
        """Ids as a list, each in the pool and named once."""
        self.pool.position_of(ids)
        chosen: list[int] = np.atleast_1d(as_numpy(ids)).tolist()
        if len(set(chosen)) < len(chosen):
            raise ValueError("ids: an id appears twice; give each once")
        return chosen

    def free_ids(self) -> Array:
        """Ids that may be handed out, in the order of the pool."""
        with self.lock:
            taken = [*self.state.values, *self.state.outstanding, *self.state.skipped]
        free_N = np.ones(len(self.pool), dtype=bool)
        free_N[self.pool.position_of(taken)] = False
        return self.pool.ids[free_N]

    def labelled(self, state: State | None = None) -> Examples:
        """Inputs and labels in the order first told, of this state or as things are."""
        told = (state or self.now()).values
        ids, values = list(told), list(told.values())
        numbers = self.pool.regression or any(isinstance(value, float) for value in values)
        labels = np.array(values, dtype=np.float64 if numbers else np.int64)
        return Examples(self.pool.inputs_of(ids), labels, self.pool.classes)

    def ask(self, ask: Ask, limit: int | None = None) -> bool:
        """Hand a batch out, unless another client took one of its ids first."""
        with self.lock:
            number = self.journal.ask(self.state, ask, limit=limit)
            self.follow()
        return number is not None

    def tell(self, ids: Any, labels: Any, *, skipped: Any = (), who: str | None = None) -> None:
        """Check labels, write them and ids that got none in one transaction, and follow."""
        chosen, aside = self.ids(ids), self.ids(skipped)
        values = self.pool.as_labels(labels, "labels", "learner.skip", ids=chosen).tolist()
        if len(values) != len(chosen):
            raise ValueError(f"labels: expected one for each of {len(chosen)} ids, found {len(values)}")
        teller, digests = self.names.name if who is None else who, self.pool.digests_of(chosen)
        with self.lock:
            self.journal.tell(self.state, chosen, values, skipped=aside, who=teller, digests=digests)
            self.follow()

    def skip(self, ids: Any) -> None:
        """Set ids aside."""
        chosen = self.ids(ids)
        with self.lock:
            self.journal.skip(self.state, chosen, self.names.name)
            self.follow()

    def release(self, ids: Any) -> None:
        """Hand outstanding ids back."""
        chosen = self.ids(ids)
        with self.lock:
            self.journal.release(self.state, chosen, self.names.name)
            self.follow()

    def _refuse_other_inputs(self) -> None:
        """Labels belong to the inputs that they were told for."""
        told = self.journal.contents(self.run)
        ids = [id for id in told if id in self.state.values]
        found = dict(zip(ids, self.pool.digests_of(ids), strict=True))
        moved = [id for id in ids if found[id] != told[id]]
        if moved:
            raise ValueError(
                f"pool: {len(moved)} of the {len(ids)} labels in {self.journal.path} were told for other inputs, the"
                f" first for id {moved[0]}; open it with the inputs as they were, or choose another file"
            )
