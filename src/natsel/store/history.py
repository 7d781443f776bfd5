"""What a journal tells about a run: its terms, its rounds and the batches asked for in each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from natsel.ids import Key
from natsel.store.state import ClassNames, Rule, amended

_MAY_CHANGE = ("method", "k", "objective", "search", "candidates", "targets", "validation", "test", "costs")


@dataclass(frozen=True)
class Terms:
    """What decides a run. The method, k, candidates, targets, costs, validation and test examples may change between
    rounds, which the journal then records; the model and the seed may not. `notes` and natsel's version decide nothing.
    """

    pool: str
    method: str
    k: int
    seed: int
    config: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    natsel: str = ""
    rule: Rule | None = field(default=None, compare=False, repr=False)  # what config["resolve"] names, if a function

    def differences(self, other: "Terms") -> list[str]:
        """What is not the same in two terms and may not change, a phrase each.

        >>> Terms("a", "bald", 10, 0).differences(Terms("a", "entropy", 5, 1))
        ['seed 0, not 1']
        """
        ours, theirs = self._decisive(), other._decisive()
        names = [name for name in self._names(other) if name not in _MAY_CHANGE]
        before, now = (one.notes.get("parts", {}) for one in (self, other))
        told = {"model": f"another model ({changed_parts(before, now)})"} if before or now else {}
        return [told.get(name) or f"{name} {ours.get(name)}, not {theirs.get(name)}" for name in names]

    def changes(self, other: "Terms") -> dict[str, Any]:
        """What other terms have that is not the same and may change.

        >>> Terms("a", "bald", 10, 0).changes(Terms("a", "entropy", 10, 0))
        {'method': 'entropy'}
        """
        theirs = other._decisive()
        return {name: theirs.get(name) for name in self._names(other) if name in _MAY_CHANGE}

    def changed(self, changes: Mapping[str, Any]) -> "Terms":
        """The terms after changes.

        >>> Terms("a", "bald", 10, 0).changed({"k": 5}).k
        5
        """
        config = {name: value for name, value in changes.items() if name not in ("method", "k")}
        method, k = changes.get("method", self.method), changes.get("k", self.k)
        return replace(self, method=method, k=k, config={**self.config, **config})

    def other_data(self, other: "Terms") -> str:
        """What the notes say of how two pools differ, for their fingerprints tell people nothing."""
        return "; ".join(self._other_data(other))

    def _names(self, other: "Terms") -> list[str]:
        ours, theirs = self._decisive(), other._decisive()
        return [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]

    def _decisive(self) -> dict[str, Any]:
        return {"method": self.method, "k": self.k, "seed": self.seed, "resolve": "last", **self.config}

    def _other_data(self, other: "Terms") -> list[str]:
        ours, theirs = self.notes, other.notes
        kinds = ("points", "classes", "inputs")
        differ = [name for name in kinds if name in ours and ours[name] != theirs.get(name, ours[name])]
        phrases = {
            "points": "{} points, not {}".format(*(notes.get("points") for notes in (ours, theirs))),
            "classes": "classes {}, not {}".format(*(_listed(notes.get("classes", ())) for notes in (ours, theirs))),
            "inputs": "inputs {}, not {}".format(*(notes.get("inputs") for notes in (ours, theirs))),
        }
        return [phrases[name] for name in differ] or ["other inputs or ids"]


def changed_parts(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """Which parts of a model are others now, in words: those that say most first, at most three.

    >>> changed_parts({"hidden": "8", "rate": "0.1"}, {"hidden": "512", "rate": "0.1"})
    'hidden: 8 → 512'
    """
    names = [name for name in {**ours, **theirs} if name and ours.get(name) != theirs.get(name)]
    names.sort(key=lambda name: ("code" in name, "class" in name.split(".")))
    said = [f"{name}: {ours.get(name, 'nothing')} → {theirs.get(name, 'nothing')}" for name in names[:3]]
    more = [f"and {len(names) - 3} more"] if len(names) > 3 else []
    return ", ".join(said + more) or "in parts that were not noted"


def _listed(names: Sequence[str]) -> str:
    more = f" … ({len(names)} in all)" if len(names) > 10 else ""
    return (", ".join(names[:10]) or "without names") + more


@dataclass(frozen=True)
class Amendment:
    """What changed about a run: `detail` has the number of `points` that joined, `classes` that were added, what was
    `renamed`, or `terms` that are other ones from then on.
    """

    seq: int
    who: str
    at: str
    detail: Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """A run as the journal knows it: the terms it began on, and what changed since."""

    run: int
    name: str
    created: str
    terms: Terms
    amendments: tuple[Amendment, ...] = ()

    @property
    def current_terms(self) -> Terms:
        """The terms as they are now."""
        terms = self.terms
        for amendment in self.amendments:
            terms = terms.changed(amendment.detail.get("terms", {}))
        return terms

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of their numbers; two that were merged have one name."""
        return self.names[0]

    @property
    def names(self) -> ClassNames:
        """The names of the classes by their numbers, and what former names have become."""
        begun: ClassNames = (tuple(self.terms.notes.get("classes", ())), {})
        return reduce(lambda names, one: amended(names[0], names[1], one.detail), self.amendments, begun)


@dataclass(frozen=True)
class Acquisition:
    """One pick of a batch. Epistemic and aleatoric are in nats, None where nothing was believed yet."""

    id: Key
    score: float | None
    epistemic: float | None = None
    aleatoric: float | None = None


@dataclass(frozen=True)
class Ask:
    """A batch that was asked for. `revision` names the labels its model knew; `number` counts from 1 (0: none)."""

    picks: tuple[Acquisition, ...]
    method: str
    seed: int
    revision: int
    total: float | None = None
    log_prob: float | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    number: int = 0
    who: str = ""
    at: str = field(default="", compare=False)
    """When it was asked for; the same batch asked for at another time is the same batch."""

    @property
    def ids(self) -> tuple[Key, ...]:
        """The ids in the order picked."""
        return tuple(pick.id for pick in self.picks)


@dataclass(frozen=True)
class Label:
    """A label as it was told; the last one of an id counts. `ask` is the batch it answers, None where nobody asked."""

    seq: int
    id: Key
    value: int | float
    who: str
    at: str
    ask: int | None


@dataclass(frozen=True)
class Round:
    """A fit to one revision of the labels: how good it was, how long each stage took, which batches were asked for."""

    number: int
    revision: int
    n_labelled: int
    metrics: Mapping[str, float]
    seconds: Mapping[str, float]
    asks: tuple[Ask, ...] = ()

    @property
    def ids(self) -> tuple[Key, ...]:
        """The ids asked for in this round, in order."""
        return tuple(id for ask in self.asks for id in ask.ids)


@dataclass(frozen=True)
class Stop:
    """Why a run ended, and at which revision of its labels."""

    revision: int
    rule: str
    reason: str
