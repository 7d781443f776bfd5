"""What a journal tells about a run: its terms, its rounds and the batches asked for in each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Terms:
    """What decides a run: nobody may go on with it on other terms. Only `notes` and natsel's version may differ."""

    pool: str
    method: str
    k: int
    seed: int
    config: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    natsel: str = ""

    def differences(self, other: "Terms") -> list[str]:
        """What is not the same in two terms, a phrase each.

        >>> Terms("a", "bald", 10, 0).differences(Terms("b", "bald", 10, 1))
        ['other inputs or ids', 'seed 0, not 1']
        """
        ours, theirs = self._decisive(), other._decisive()
        names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
        data = [] if self.pool == other.pool else self._other_data(other)
        return [*data, *(f"{name} {ours.get(name)}, not {theirs.get(name)}" for name in names)]

    def _decisive(self) -> dict[str, Any]:
        return {"method": self.method, "k": self.k, "seed": self.seed, **self.config}

    def _other_data(self, other: "Terms") -> list[str]:
        """What the notes say of how two pools differ, for their fingerprints tell people nothing."""
        ours, theirs = self.notes, other.notes
        kinds = ("points", "classes", "inputs")
        differ = [name for name in kinds if name in ours and ours[name] != theirs.get(name, ours[name])]
        phrases = {
            "points": "{} points, not {}".format(*(notes.get("points") for notes in (ours, theirs))),
            "classes": "classes {}, not {}".format(*(_listed(notes.get("classes", ())) for notes in (ours, theirs))),
            "inputs": "inputs {}, not {}".format(*(notes.get("inputs") for notes in (ours, theirs))),
        }
        return [phrases[name] for name in differ] or ["other inputs or ids"]


def _listed(names: Sequence[str]) -> str:
    more = f" … ({len(names)} in all)" if len(names) > 10 else ""
    return (", ".join(names[:10]) or "without names") + more


@dataclass(frozen=True)
class Run:
    """A run as the journal knows it."""

    run: int
    name: str
    created: str
    terms: Terms


@dataclass(frozen=True)
class Acquisition:
    """One pick of a batch. Epistemic and aleatoric are in nats, None where nothing was believed yet."""

    id: int
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

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids in the order picked."""
        return tuple(pick.id for pick in self.picks)


@dataclass(frozen=True)
class Label:
    """A label as it was told; the last one of an id counts. `ask` is the batch it answers, None where nobody asked."""

    seq: int
    id: int
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
    def ids(self) -> tuple[int, ...]:
        """The ids asked for in this round, in order."""
        return tuple(id for ask in self.asks for id in ask.ids)


@dataclass(frozen=True)
class Stop:
    """Why a run ended, and at which revision of its labels."""

    revision: int
    rule: str
    reason: str
