"""The journal: what was asked, told and found out, in an SQLite file that is only ever added to.

**Nothing acknowledged is lost.** A write is one transaction (BEGIN IMMEDIATE … COMMIT) that is flushed to disk at its
commit. A method returns after its commit: what a caller saw done is whole in the one file of the journal, and what was
cut off never happened (`natsel.store.opening`). No row is ever changed: a correction is a new row, and triggers refuse
all else. Every transaction ends with a seal, so that a changed bit is seen on opening (`natsel.store.seals`).

**The order is one for all.** SQLite admits one writer at a time, so that `seq` numbers the commits of all processes in
the order in which they happened. State is a fold over the entries in that order (`natsel.store.state`): all who have
folded up to the same `seq` have the same state.

**No id is handed out twice.** `ask` reads what others committed and writes its own batch inside one transaction: nobody
else can write between the check that every id is free and the commit. An ask that comes too late is not recorded.

**The same next batch.** A learner decides by the state, the terms of the run (data, method, k, seed) and seeds derived
from numbers in the state: never by the clock or by what this process did before. So a run that is killed between two
commits, at any instruction, goes on from the last commit exactly as it would have gone on without being killed.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from natsel.containers import remove_leftovers
from natsel.ids import Key
from natsel.store import checking, queries, seals, writing
from natsel.store.artefacts import Artefacts
from natsel.store.checking import Report
from natsel.store.copying import copy
from natsel.store.exporting import label_rows, write_rows
from natsel.store.failures import explaining, is_busy
from natsel.store.history import Ask, Label, Round, Run, Stop, Terms
from natsel.store.opening import MEMORY, connect
from natsel.store.points import Points, joining
from natsel.store.state import Rule, RunState


class Journal:
    """A journal file, or one in memory that ends with the process. Processes and threads may share a file; a child
    made by fork opens its own. It is looked over for damage when it is opened; `check=False` spares a huge file that.

    >>> journal = Journal(":memory:")
    >>> state = journal.begin("main", Terms(pool="some data", method="bald", k=2, seed=0))
    >>> journal.tell(state, [3, 5], [0, 1])
    >>> journal.replay(state.run).values
    {3: 0, 5: 1}
    """

    def __init__(
        self, path: str | Path = MEMORY, *, create: bool = True, timeout: float = 60.0, check: bool = True
    ) -> None:
        if not isinstance(path, str | os.PathLike):
            raise ValueError(f"store: expected the path of a file or a natsel.Journal, found {path!r}")
        self.path = path if str(path) == MEMORY else Path(path)
        self.timeout = timeout
        self._connection = connect(path, create=create, timeout=timeout, check=check)
        # What every transaction is in: left in C, where no interrupt comes in between, it rolls back what is open.
        self._lock = threading.RLock()
        self._undo: AbstractContextManager[Any] = self._connection
        self._process = os.getpid()
        self.closed = False
        self._artefacts = Artefacts(self.path if isinstance(self.path, Path) else None)
        if isinstance(self.path, Path):
            remove_leftovers(self.path.parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Journal({str(self.path)!r})"

    def close(self) -> None:
        """Let go of the file. What was written stays written whether or not this is ever called."""
        with self._lock:
            self.closed, self._undo = True, nullcontext()
            self._connection.close()

    def begin(self, name: str, terms: Terms, points: Points | None = None, *, who: str = "") -> RunState:
        """The state of the run of this name, which is made if it is new.

        One that is known must have the same model and seed. What else differs in the terms is recorded as a change, and
        so are points and classes that the run does not know yet; a point with another input is refused.
        """
        with self._lock, self._undo, self._writing() as database:
            known = queries.run_named(database, name)
            if known is None:
                writing.run(database, name, terms)
                known = queries.run_named(database, name)
                assert known is not None
            before = known.current_terms
            differences = before.differences(terms)
            if differences:
                raise ValueError(
                    f"store: {self.path} holds a run of {'; '.join(differences)}; open it as it was or choose"
                    " another file"
                )
            if points is not None:
                held = queries.points(database, known.run)
                new = joining(held, points, self.path)
                if len(new):
                    writing.points(database, known.run, new, len(held), who)
            classes = [one for one in terms.notes.get("classes", ()) if not any(one in names for names in known.names)]
            changes = before.changes(terms)
            for detail in ({"classes": classes} if classes else None, {"terms": changes} if changes else None):
                if detail:
                    writing.amendment(database, known.run, detail, who)
        return self.replay(name, resolve=terms.rule)

    def add_classes(self, state: RunState, names: Sequence[str], who: str = "") -> None:
        """Record classes that turned up late; those that are known already are left out."""
        with self._lock, self._undo, self._writing(state) as database:
            new = [name for name in dict.fromkeys(names) if name not in state.classes]
            if new:
                writing.amendment(database, state.run, {"classes": new}, who)

    def rename_class(self, state: RunState, old: str, new: str, who: str = "") -> None:
        """Record that a class has another name, or that it is part of the class that has this name already."""
        with self._lock, self._undo, self._writing(state) as database:
            if old not in state.classes and state.renamed.get(old) != new:
                raise ValueError(
                    f"old: there is no class {old!r}; the classes are {', '.join(dict.fromkeys(state.classes))}"
                )
            if old in state.classes and old != new:
                writing.amendment(database, state.run, {"renamed": {old: new}}, who)

    def points(self, run: int) -> Points:
        """The points that a run is about, in the order in which they joined."""
        with self._lock, self._undo, self._reading() as database:
            return queries.points(database, run)

    def replay(self, run: int | str = "main", until: int | None = None, *, resolve: Rule | None = None) -> RunState:
        """The state of a run as all its entries, or those up to `until`, make it. `resolve` is its rule where that is a
        function of the user's: without it the label told last counts.
        """
        with self._lock, self._undo, self._reading() as database:
            known = next((one for one in queries.runs(database) if run in (one.run, one.name)), None)
            if known is None:
                raise ValueError(f"run: {self.path} has no run {run!r}; ask runs() for those it has")
            return queries.state(database, known, until, resolve)

    def catch_up(self, state: RunState) -> None:
        """Take in what was committed since, by anybody."""
        with self._lock, self._undo, self._reading() as database:
            state.fold(queries.changes(database, state.run, state.seq))

    def ask(self, state: RunState, ask: Ask, *, limit: int | None = None) -> int | None:
        """Hand out a batch and return its number; None, and nothing written, if somebody took one of its ids first.

        With `limit` the batch is also refused where it would bring more than so many ids to labelled or outstanding.
        """
        with self._lock, self._undo, self._writing(state) as database:
            taken = len(state.values) + len(state.outstanding) + len(ask.picks)
            if not all(state.free(id) for id in ask.ids) or (limit is not None and taken > limit):
                return None
            return writing.ask(database, state, ask)

    def tell(
        self,
        state: RunState,
        ids: Sequence[Key],
        values: Sequence[int | float],
        *,
        skipped: Sequence[Key] = (),
        who: str = "",
        only_new: bool = False,
        digests: Sequence[int] | None = None,
    ) -> None:
        """Write labels, and ids that got none, in one go. `digests` are of the inputs that the labels are for.

        What the same person has told already is not written again, so that a caller who does not know whether it was
        acknowledged may simply repeat it. `only_new` leaves out ids that anybody has labelled.
        An id with a label is not skipped.
        """
        values_by_id = dict(zip(ids, values, strict=True))
        with self._lock, self._undo, self._writing(state) as database:
            if only_new:
                known = {id for id in values_by_id if id in state.votes}
            else:
                votes = {id: state.votes_with(id, value, who) for id, value in values_by_id.items()}
                known = {id for id, one in votes.items() if one == state.votes.get(id)}
                known = {id for id in known if id in state.values or id in state.disputed}
                known = {id for id in known if state.counting(votes[id]) == state.values.get(id)}
            new = {id: value for id, value in values_by_id.items() if id not in known}
            writing.labels(database, state, new, who, dict(zip(ids, digests or (), strict=False)))
            aside = [id for id in skipped if id not in state.values and id not in values_by_id]
            writing.marks(database, state, "skip", aside, who)

    def skip(self, state: RunState, ids: Sequence[Key], who: str = "") -> None:
        """Set ids aside that nobody can or will label."""
        with self._lock, self._undo, self._writing(state) as database:
            labelled = [id for id in ids if id in state.values]
            if labelled:
                raise ValueError(f"ids: {labelled[0]} has a label; tell a better one instead of skipping it")
            writing.marks(database, state, "skip", ids, who)

    def release(self, state: RunState, ids: Sequence[Key], who: str = "") -> None:
        """Hand outstanding ids back, so that they may be asked for again; disputed ones may be, too."""
        with self._lock, self._undo, self._writing(state) as database:
            strangers = [id for id in ids if id not in state.outstanding and id not in state.disputed]
            if strangers:
                raise ValueError(f"ids: {strangers[0]} is not outstanding; only ids asked for can be released")
            writing.marks(database, state, "release", ids, who)

    def record_round(
        self, run: int, revision: int, n_labelled: int, metrics: Mapping[str, float], seconds: Mapping[str, float]
    ) -> None:
        """Write what came of a fit, unless it was written before (by another client, or before a kill)."""
        with self._lock, self._undo, self._writing() as database:
            if not queries.has_round(database, run, revision):
                writing.round(database, run, revision, n_labelled, metrics, seconds)

    def record_stop(self, run: int, stop: Stop) -> None:
        """Write why a run ended, once."""
        with self._lock, self._undo, self._writing() as database:
            if stop not in queries.stops(database, run):
                writing.stop(database, run, stop)

    def keep(self, run: int, kind: str, revision: int, tensors: Mapping[str, Tensor]) -> str:
        """Keep tensors of a round by the hash of their bytes; what is kept already stays. The hash is returned."""
        # The file is on disk before the row that names it: a kill in between leaves a file nobody names, no harm done.
        name, size = self._artefacts.write(tensors)
        with self._lock, self._undo, self._writing() as database:
            kept = queries.artefact(database, run, kind, revision)
            if kept is None:
                writing.artefact(database, run, kind, revision, name, size)
        return kept or name

    def fetch(self, run: int, kind: str, revision: int) -> dict[str, Tensor] | None:
        """The tensors kept for a round, None where there are none, or (with a warning) none that can be read."""
        with self._lock, self._undo, self._reading() as database:
            name = queries.artefact(database, run, kind, revision)
        return None if name is None else self._artefacts.read(name)

    def kept(self, run: int, kind: str) -> list[int]:
        """The rounds (by `revision`) for which something of this kind is kept, in order."""
        with self._lock, self._undo, self._reading() as database:
            return queries.kept(database, run, kind)

    def runs(self) -> list[Run]:
        """All runs in the journal."""
        with self._lock, self._undo, self._reading() as database:
            return queries.runs(database)

    def rounds(self, run: int) -> list[Round]:
        """The rounds of a run in order: fits with their metrics, stages' seconds and the batches asked for."""
        with self._lock, self._undo, self._reading() as database:
            return queries.rounds(database, run)

    def has_round(self, run: int, revision: int) -> bool:
        """Whether a fit to this revision of the labels is on record."""
        with self._lock, self._undo, self._reading() as database:
            return queries.has_round(database, run, revision)

    def labels(self, run: int, since: int = 0) -> list[Label]:
        """Every label ever told after entry `since`, corrections and all, in order."""
        with self._lock, self._undo, self._reading() as database:
            return queries.labels(database, run, since)

    def contents(self, run: int) -> dict[Key, int]:
        """Digests of the inputs that labels were told for, by id, where they were given."""
        with self._lock, self._undo, self._reading() as database:
            return queries.contents(database, run)

    def stops(self, run: int) -> list[Stop]:
        """Why the run ended, as often as it did."""
        with self._lock, self._undo, self._reading() as database:
            return queries.stops(database, run)

    def copy(self, path: str | Path) -> Report:
        """Copy the journal as it is at this moment to a new file, with its artefacts beside it, and check the copy.

        Others may go on writing meanwhile. A file that is there is not replaced.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Journal() as journal:
        ...     state = journal.begin("main", Terms(pool="some data", method="bald", k=2, seed=0))
        ...     journal.tell(state, [3, 5], [0, 1])
        ...     journal.copy(f"{folder}/backup.db").labels
        2
        """
        with self._lock, self._undo, self._reading() as database:
            return copy(database, self._artefacts, Path(path))

    def check(self) -> Report:
        """Check all there is to check: structure, seals, references, the fold of every run, artefacts.

        >>> Journal().check().sound
        True
        """
        with self._lock, self._undo, self._reading() as database:
            return checking.report(database, self._artefacts, self.path)

    def export(self, path: str | Path) -> int:
        """Write every label of every run to a `.csv` or `.json` file; how many they are is returned.

        A row has the run, id, value, name of the class where there is one, who told it and when, the number of the
        batch it answers, and whether a later label of the same id took its place.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Journal() as journal:
        ...     state = journal.begin("main", Terms(pool="some data", method="bald", k=2, seed=0))
        ...     journal.tell(state, [3, 5], [0, 1])
        ...     journal.export(f"{folder}/labels.csv")
        2
        """
        with self._lock, self._undo, self._reading() as database:
            rows = label_rows(database)
        write_rows(rows, path)
        return len(rows)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """The connection in a transaction that sees one moment of the journal."""
        with explaining(self.path, self.timeout):
            self._patiently("BEGIN")
            self._patiently("SELECT count(*) FROM sqlite_master")  # from now on nobody makes this reader wait
            yield self._connection

    @contextmanager
    def _writing(self, state: RunState | None = None) -> Iterator[sqlite3.Connection]:
        """The connection in a transaction that nobody else can write in; committed, on disk, when the block is left.

        A state given is brought up to date first: while the block runs, it is how things are.
        """
        with explaining(self.path, self.timeout):
            self._patiently("BEGIN IMMEDIATE")
            if state is not None:
                state.fold(queries.changes(self._connection, state.run, state.seq))
            yield self._connection
            seals.seal(self._connection)
            self._patiently("COMMIT")

    def _patiently(self, statement: str) -> None:
        """Execute a statement when its turn comes; Ctrl-C is heard after each short wait."""
        if self.closed:
            raise ValueError(f"store: {self.path} was closed; open it again")
        if os.getpid() != self._process:  # SQLite's locks do not survive a fork
            raise ValueError(f"store: {self.path} was opened before this process was forked; open it again here")
        deadline = time.monotonic() + self.timeout
        while True:
            try:
                self._connection.execute(statement)
                return
            except sqlite3.OperationalError as failure:
                if not is_busy(failure) or time.monotonic() > deadline:
                    raise
