"""What a run knows: a fold over the entries of its journal, in the order in which they were committed.

    state_n = fold(state_{n−1}, entry_n)                    and nothing else: no clock, no random number, no memory

Whoever folds the same entries has the same state, so it makes no difference whether a process lived through them, was
killed and replayed them, or read those of another process.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from natsel.ids import Key


class Change(NamedTuple):
    """One id's part in an entry."""

    seq: int
    kind: str  # ask, tell, skip or release
    id: Key
    value: int | float | None  # of a label
    ask: int | None  # the number of an ask
    who: str


class Asked(NamedTuple):
    """Which ask an outstanding id belongs to, and who asked."""

    ask: int
    who: str


@dataclass
class RunState:
    """A run after the entries up to `seq`.

    >>> state = RunState(run=1)
    >>> state.fold([Change(1, "ask", 7, None, 1, ""), Change(2, "tell", 7, 0, 1, "")])
    >>> state.values, state.outstanding
    ({7: 0}, {})
    """

    run: int
    seq: int = 0
    asks: int = 0
    """How many batches were asked for."""
    revision: int = 0
    """How many label changes there were (a new label, or another value): it names what a model could learn from so far.
    The tables of the journal call it `told`.
    """
    values: dict[Key, int | float] = field(default_factory=dict)
    """Labels by id in the order first told; a correction keeps its place."""
    outstanding: dict[Key, Asked] = field(default_factory=dict)
    """Ids handed out and not come back, in the order asked."""
    skipped: dict[Key, None] = field(default_factory=dict)
    """Ids that nobody can or will label."""
    classes: tuple[str, ...] = ()
    """The names of the classes, in the order of their numbers; empty where classes have none."""
    changed: dict[Key, None] = field(default_factory=dict, compare=False)
    """Ids whose labels or marks changed since whoever follows them last emptied this."""

    def fold(self, changes: Iterable[Change]) -> None:
        """Take changes in."""
        for change in changes:
            self.seq = change.seq
            if change.kind == "ask":
                assert change.ask is not None
                self.asks = change.ask
                self.outstanding[change.id] = Asked(change.ask, change.who)
                continue
            self.changed[change.id] = None
            self.outstanding.pop(change.id, None)
            if change.kind == "tell":
                assert change.value is not None
                self.revision += self.values.get(change.id) != change.value
                self.values[change.id] = change.value
                self.skipped.pop(change.id, None)
            elif change.kind == "skip":
                self.skipped[change.id] = None

    def free(self, id: Key) -> bool:
        """Whether an id may be handed out."""
        return not (id in self.values or id in self.outstanding or id in self.skipped)
