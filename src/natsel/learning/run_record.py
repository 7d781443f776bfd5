"""A run as a learner sees it: its journal, the state that the journal's entries make, and the pool that shows it.

Writing goes one way: into the journal first, then from the journal into the state, then into the pool. What this
process wrote and what other processes wrote arrive by the same path. Threads may share a record: its methods run one
at a time.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from natsel.data.alignment import aligned
from natsel.data.examples import Examples
from natsel.data.pool import Pool
from natsel.ids import IdArray, Key, as_ids, keys_of
from natsel.learning.client_names import ClientNames
from natsel.store import Ask, Journal, Points, RunState, Terms

Array = np.ndarray[Any, Any]


class RunRecord:
    """A run in a journal, its state and its pool. `trusted`: the pool is known to be the one the labels were told for.

    >>> record = RunRecord(Journal(), "main", Terms("some data", "bald", 2, 0), Pool(np.zeros((3, 1))))
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
        names: ClientNames | None = None,
        trusted: bool = False,
        points: Points | None = None,
    ) -> None:
        self.journal, self.pool, self.names = journal, pool, names or ClientNames(journal, run)
        self.lock = threading.RLock()
        self._handed: set[int] = set()  # the numbers of the batches that were handed out here
        self._asks_before: dict[str, int] = {}  # how many batches there were when a name became this client's
        before, aside = keys_of(pool.labelled_ids), keys_of(pool.ignored_ids)
        self.state: RunState = journal.begin(run, terms, points, who=self.names.name)
        if self.state.classes:
            pool.number_classes_as(self.state.classes, self.state.renamed)
        values = renumbered(pool.labels_of(before).tolist(), pool.classes, self.state.classes)
        # The order in which points joined the run, whatever the order of the pool is today.
        self._order_N = pool.position_of(journal.points(self.run).keys) if points is not None else np.arange(len(pool))
        if not trusted:
            self._refuse_other_inputs()
        digests = pool.digests_of(before)
        journal.tell(self.state, before, values, skipped=aside, who=self.names.name, only_new=True, digests=digests)
        self.catch_up()

    @property
    def run(self) -> int:
        """The number of the run in its journal."""
        return self.state.run

    def catch_up(self) -> RunState:
        """Take in what anybody committed since the last call, and show it in the pool. The state is returned."""
        with self.lock:
            state = self.state
            if not self.journal.closed:
                self.journal.catch_up(state)
            if state.classes:
                self.pool.number_classes_as(state.classes, state.renamed)
            changed = self._known(state.changed)
            self.pool.release([id for id in changed if state.changed[id]])  # also where it has another label since
            labelled = [id for id in changed if id in state.values]
            values = renumbered([state.values[id] for id in labelled], state.classes, self.pool.classes)
            self.pool.restore(labelled, values)
            self.pool.ignore([id for id in changed if id in state.skipped])
            state.changed.clear()
            return state

    def snapshot(self) -> RunState:
        """A copy of the state after everything that was committed; it does not change any more."""
        with self.lock:
            state = self.catch_up()
            return replace(
                state,
                values=dict(state.values),
                outstanding=dict(state.outstanding),
                skipped=dict(state.skipped),
                disputed=dict(state.disputed),
                votes=dict(state.votes),
                changed={},
            )

    def _known(self, keys: Iterable[Key]) -> list[Key]:
        """Those of some ids that are in this pool: another client may have opened the run with a larger one."""
        listed = list(keys)
        return [key for key, held in zip(listed, self.pool.holds(listed).tolist(), strict=True) if held]

    def free_ids(self) -> IdArray:
        """Ids that may be handed out, in the order in which the points joined the run."""
        with self.lock:
            state = self.state
            taken = self._known([*state.values, *state.outstanding, *state.skipped, *state.disputed])
        free_N = np.ones(len(self.pool), dtype=bool)
        free_N[self.pool.position_of(taken)] = False
        return self.pool.ids[self._order_N[free_N[self._order_N]]]

    def ids_of(self, keys: Iterable[Key]) -> IdArray:
        """Ids as the user has them, of keys in the journal; those that this pool lacks as they are written."""
        listed = list(keys)
        known = self._known(listed)
        ids = self.pool.ids[self.pool.position_of(known)]
        if len(known) == len(listed):
            return ids
        id_of = dict(zip(known, ids, strict=True))
        return as_ids([id_of.get(key, key) for key in listed])

    def labelled(self, state: RunState | None = None) -> Examples:
        """Inputs and labels in the order first told, of the state given or of the present one."""
        state = state or self.snapshot()
        classes = tuple(dict.fromkeys(state.classes)) or self.pool.classes
        ids, values = list(state.values), renumbered([*state.values.values()], state.classes, classes)
        lost = [id for id, held in zip(ids, self.pool.holds(ids).tolist(), strict=True) if not held]
        if lost:
            raise ValueError(
                f"pool: {len(lost)} labelled points joined the run later and are not in this pool, the first"
                f" {lost[0]!r}; make the pool again with all points there are now"
            )
        numbers = self.pool.regression or any(isinstance(value, float) for value in values)
        labels = np.array(values, dtype=np.float64 if numbers else np.int64)
        return Examples(self.pool.inputs_of(ids), labels, classes)

    def ask(self, ask: Ask, limit: int | None = None) -> bool:
        """Hand a batch out; False, and nothing written, where another client took one of its ids first."""
        with self.lock:
            number = self.journal.ask(self.state, ask, limit=limit)
            self._handed.add(number or 0)
            self.catch_up()
        return number is not None

    def left_behind(self, busy: Iterable[Key]) -> tuple[int, list[Key]]:
        """The first batch that was asked for under names of this client before they were its own, and what of it, but
        for `busy` ids, is still outstanding. It counts as handed out here.
        """
        with self.lock:
            names = self.names.held({asked.who for asked in self.catch_up().outstanding.values()})
            asked = self.catch_up().outstanding  # again: who had a name before may have told everything in the meantime
            before = self._asks_before = {**dict.fromkeys(names, self.state.asks), **self._asks_before}
            left = {id: asked[id].ask for id in self._known(asked) if asked[id].ask <= before.get(asked[id].who, 0)}
            left = {id: ask for id, ask in left.items() if ask not in self._handed and id not in busy}
            first = min(left.values(), default=0)
            self._handed.add(first)
            return first, [id for id, ask in left.items() if ask == first]

    def tell(self, ids: Any, labels: Any, *, skipped: Any = (), who: str | None = None) -> None:
        """Check labels, then write them, and the ids that got none, in one transaction."""
        chosen, aside = self._checked_ids(ids), self._checked_ids(skipped)
        labels, _ = aligned(labels, as_ids(ids), listed=True, what="ids")
        self.add_classes(self.pool.new_classes(labels, ids, "labels", "learner"))
        with self.lock:  # no other thread may number the classes anew in between
            values = self.pool.as_labels(labels, "labels", "learner.skip", ids=chosen).tolist()
            names = self.pool.classes
        teller, digests = self.names.name if who is None else who, self.pool.digests_of(chosen)
        with self.lock:
            values = renumbered(values, names, self.state.classes)
            self.journal.tell(self.state, chosen, values, skipped=aside, who=teller, digests=digests)
            self.catch_up()

    def add_classes(self, names: Sequence[str]) -> None:
        """Record classes that turned up late."""
        if names:
            self.pool.add_classes(names)  # refused here where labels are numbers
            with self.lock:
                self.journal.add_classes(self.state, names, self.names.name)
                self.catch_up()

    def skip(self, ids: Any, who: str | None = None) -> None:
        """Set ids aside."""
        chosen = self._checked_ids(ids)
        with self.lock:
            self.journal.skip(self.state, chosen, self.names.name if who is None else who)
            self.catch_up()

    def release(self, ids: Any) -> None:
        """Hand outstanding ids back."""
        chosen = self._checked_ids(ids)
        with self.lock:
            self.journal.release(self.state, chosen, self.names.name)
            self.catch_up()

    def _checked_ids(self, ids: Any) -> list[Key]:
        """Ids as they are written down, each of them in the pool and named once."""
        self.pool.position_of(ids)
        chosen = keys_of(as_ids(ids))
        if len(set(chosen)) < len(chosen):
            raise ValueError("ids: an id appears twice; give each once")
        return chosen

    def _refuse_other_inputs(self) -> None:
        """Refuse a pool in which a labelled id has another input than the one its label was told for."""
        then = self.journal.contents(self.run)
        ids = self._known(id for id in then if id in self.state.values)
        now = dict(zip(ids, self.pool.digests_of(ids), strict=True))
        moved = [id for id in ids if now[id] != then[id]]
        if moved:
            raise ValueError(
                f"pool: {len(moved)} of the {len(ids)} labels in {self.journal.path} were told for other inputs, the"
                f" first for id {moved[0]}; open it with the inputs as they were, or choose another file"
            )


def renumbered(values: list[Any], names: tuple[str, ...], others: tuple[str, ...]) -> list[Any]:
    """Numbers of classes among some names as those among others. In a journal, classes that were merged have one name.

    >>> renumbered([2, 3], ("a", "b", "a", "c"), ("a", "b", "c"))
    [0, 2]
    """
    return values if not names or names == others else [others.index(names[value]) for value in values]
