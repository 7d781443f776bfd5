"""What a run knows: a fold over the entries of its journal, in the order in which they were committed.

    state_n = fold(state_{n−1}, entry_n)                    and nothing else: no clock, no random number, no memory

Whoever folds the same entries has the same state, so it makes no difference whether a process lived through them, was
killed and replayed them, or read those of another process.

    label of an id = resolve(what each person last said of it)          None: votes tie, and the id is disputed

Classes keep the numbers under which labels were told; where two were merged, both numbers have one name, and the lower
one counts.  docs/decisions/0020
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

from natsel.ids import Key


class Change(NamedTuple):
    """One id's part in an entry."""

    seq: int
    kind: str  # ask, tell, skip, release or amend
    id: Key
    value: Any  # of a label; of an amendment its detail as JSON
    ask: int | None  # the number of an ask
    who: str


class Asked(NamedTuple):
    """Which ask an outstanding id belongs to, and who asked."""

    ask: int
    who: str


def majority(votes: list[Any]) -> Any:
    """The class that most people say, None where two are said as often; of real numbers the last.

    >>> majority([1, 0, 1]), majority([1, 0]), majority([0.5, 1.5])
    (1, None, 1.5)
    """
    (most, count), *others = Counter(votes).most_common(2)
    return votes[-1] if isinstance(votes[-1], float) else None if others and others[0][1] == count else most


Rule = Callable[[list[Any]], Any]
RULES: dict[str, Rule] = {"majority": majority, "last": itemgetter(-1)}
ClassNames = tuple[tuple[str, ...], dict[str, str]]


def amended(classes: tuple[str, ...], renamed: dict[str, str], detail: Mapping[str, Any]) -> ClassNames:
    """The names of classes by their numbers, and what former names have become, after a change of the run.

    >>> amended(("DESC", "Desc."), {}, {"renamed": {"Desc.": "DESC"}})
    (('DESC', 'DESC'), {'Desc.': 'DESC'})
    """
    classes += tuple(name for name in detail.get("classes", ()) if name not in classes)
    for old, new in detail.get("renamed", {}).items():
        classes = tuple(new if name == old else name for name in classes)
        renamed = {before: new if name == old else name for before, name in {**renamed, old: old}.items()}
    return classes, {before: name for before, name in renamed.items() if before not in classes}


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
    changed: dict[Key, bool] = field(default_factory=dict, compare=False)
    """Ids whose labels or marks changed since whoever follows them last emptied this, and whether a label was lost."""
    resolve: Rule = RULES["last"]  # the label that votes of several people make, in the order said; None where they tie
    votes: dict[Key, dict[str, int | float]] = field(default_factory=dict, compare=False)  # what each person last said
    disputed: dict[Key, None] = field(default_factory=dict)
    """Ids without a label, for votes tie: not asked for again unless they are released."""
    renamed: dict[str, str] = field(default_factory=dict)  # what former names of classes have become
    _merged: dict[int | float, int] = field(default_factory=dict, repr=False)

    def fold(self, changes: Iterable[Change]) -> None:
        """Take changes in."""
        for change in changes:
            self.seq = change.seq
            if change.kind == "ask":
                assert change.ask is not None
                self.asks = change.ask
                self.outstanding[change.id] = Asked(change.ask, change.who)
                continue
            if change.kind == "amend":
                self._amend(json.loads(change.value))
                continue
            self.changed.setdefault(change.id, False)
            self.outstanding.pop(change.id, None)
            self.disputed.pop(change.id, None)
            if change.kind == "tell":
                self.votes[change.id] = self.votes_with(change.id, change.value, change.who)
                self.skipped.pop(change.id, None)
                self._count(change.id)
            elif change.kind == "skip":
                self.skipped[change.id] = None

    def free(self, id: Key) -> bool:
        """Whether an id may be handed out."""
        return not (id in self.values or id in self.outstanding or id in self.skipped or id in self.disputed)

    def votes_with(self, id: Key, value: int | float, who: str) -> dict[str, int | float]:
        """The votes on an id once somebody has told a label. All clients without a name are one person."""
        who = "" if who.startswith("unnamed ") and who[8:].isdigit() else who
        votes = dict(self.votes.get(id, ()))
        votes.pop(who, None)  # whoever says something again is now the last to have said it
        return {**votes, who: self._merged.get(value, value)}

    def counting(self, votes: Mapping[str, int | float]) -> int | float | None:
        """The label that counts; None where votes tie, or where a rule gives neither one of them nor a real number."""
        found = [*votes.values()]
        label = found[0] if len(found) == 1 else self.resolve([*found])
        real = isinstance(label, float) and isinstance(found[-1], float)
        return found[found.index(label)] if label in found else float(label) if real else None

    def counts(self, id: Key, value: int | float, who: str) -> bool:
        """Whether a label is what its teller says today, and the one that counts."""
        votes, value = self.votes.get(id, {}), self._merged.get(value, value)
        return votes.get(who, votes.get("")) == value == self.values.get(id)

    def _count(self, id: Key) -> None:
        label = self.counting(self.votes[id])
        self.revision += self.values.get(id) != label
        self.changed[id] = label is None or self.changed.get(id, False)
        if label is None:
            self.values.pop(id, None)
            self.disputed[id] = None
        else:
            self.disputed.pop(id, None)
            self.values[id] = label

    def _amend(self, detail: Mapping[str, Any]) -> None:
        self.classes, self.renamed = amended(self.classes, self.renamed, detail)
        if "renamed" in detail:
            self.revision += 1
            self._merged = {number: self.classes.index(name) for number, name in enumerate(self.classes)}
            for id, votes in self.votes.items():
                self.votes[id] = {who: self._merged.get(vote, vote) for who, vote in votes.items()}
                if id in self.values or id in self.disputed:
                    self._count(id)
