"""A labelling campaign as its journal tells it: one run of a learner, and what follows from its entries.

    curve       a metric after each fit, over the number of labels the fit knew
    gain        what a label of each batch was expected to tell about the parameters, in nats: the mean over its picks
    wait        seconds from the ask of a batch to each label that answers it
    labels per hour    labels that answered a batch / hours worked on them

Labels that are told together were worked on from the ask that they answer, or from what the same person told before,
whichever was later. Where that is more than half an hour ago it was a pause, and neither the time nor the labels count.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from natsel.evaluation.curves import Run as CurvePoints
from natsel.ids import Key
from natsel.learning.fitted_model import VALIDATION
from natsel.learning.run_tables import mean_gain
from natsel.store import Ask, Journal, Label, Round, Run, Stop
from natsel.store.state import Asked

PAUSE = 30 * 60.0
"""Seconds without a label after which somebody is taken to have paused."""


@dataclass(frozen=True)
class Pace:
    """How somebody labelled: `waits` are seconds from ask to label; `per_hour` is None where no time was measured."""

    who: str
    n_labels: int
    waits: tuple[float, ...]
    per_hour: float | None


@dataclass(frozen=True)
class Campaign:
    """One run of a journal at one moment."""

    journal: str
    """The name of the file."""
    run: Run
    rounds: Sequence[Round]
    labels: Sequence[Label]
    """All that were told, corrections too."""
    values: Mapping[Key, int | float]
    """The labels that count."""
    votes: Mapping[Key, Mapping[str, int | float]]
    """What each person last said of an id, in the order said."""
    outstanding: Mapping[Key, Asked]
    skipped: Sequence[Key]
    stops: Sequence[Stop]
    n_points: int
    others: Mapping[str, Sequence[Round]]
    """The rounds of the other runs in the journal, by the names of the runs."""

    @property
    def asks(self) -> list[Ask]:
        """All batches in the order asked."""
        return sorted((ask for one in self.rounds for ask in one.asks), key=lambda ask: ask.number)

    @property
    def known_before(self) -> dict[int, int]:
        """How many labels each batch was chosen with, by the number of the batch."""
        return {ask.number: one.n_labelled for one in self.rounds for ask in one.asks}

    @property
    def metrics(self) -> list[str]:
        """The names of all metrics, those of the test examples first."""
        found = dict.fromkeys(name for one in self.rounds for name in one.metrics)
        return sorted(found, key=lambda name: name.startswith(VALIDATION))

    @property
    def main_metric(self) -> str | None:
        """The metric that a reader looks at first; None where nothing was measured."""
        return main_metric(self.rounds)

    @property
    def gains_alone(self) -> CurvePoints:
        """Over the labels known: the mean of what the label of a pick tells by itself, I[Y;Ω|x] in nats."""
        return self._over_labels(lambda ask: _mean([pick.epistemic for pick in ask.picks]))

    @property
    def gains_in_batch(self) -> CurvePoints:
        """The same after what the labels of earlier picks tell, of batches whose method counts that."""

        def counted(ask: Ask) -> float | None:
            alone, found = _mean([pick.epistemic for pick in ask.picks]), mean_gain([ask])
            differs = alone is not None and found is not None and not math.isclose(alone, found, rel_tol=1e-6)
            return found if differs else None

        return self._over_labels(counted)

    def _over_labels(self, value: Callable[[Ask], float | None]) -> CurvePoints:
        """A number per batch over the labels it was chosen with; batches with as many labels share a mean."""
        by_size: dict[int, list[float | None]] = {}
        for one in self.rounds:
            by_size.setdefault(one.n_labelled, []).extend(value(ask) for ask in one.asks)
        means = {size: mean for size in sorted(by_size) if (mean := _mean(by_size[size])) is not None}
        return list(means), list(means.values())

    @property
    def disagreements(self) -> dict[Key, Mapping[str, int | float]]:
        """Ids that people gave different labels, and who last said what."""
        return {id: votes for id, votes in self.votes.items() if len({*votes.values()}) > 1}

    @property
    def told_twice(self) -> int:
        """How many ids have a label from more than one person."""
        return sum(len(votes) > 1 for votes in self.votes.values())

    @property
    def paces(self) -> list[Pace]:
        """How fast each person labelled, those with most labels first."""
        people = dict.fromkeys(label.who for label in self.labels)
        asked = {ask.number: seconds_of(ask.at) for ask in self.asks}
        found = [_pace(who, [label for label in self.labels if label.who == who], asked) for who in people]
        return sorted(found, key=lambda pace: -pace.n_labels)

    def label_name(self, value: int | float | None) -> str:
        """A label in words: the name of its class, else the number; "" for none."""
        if value is None:
            return ""
        classes = self.run.classes
        if isinstance(value, int):
            return classes[value] if 0 <= value < len(classes) else str(value)
        return f"{value:.4g}"

    def n_labelled_before(self, seq: int) -> int:
        """How many ids had a label before an entry."""
        return len({label.id for label in self.labels if label.seq < seq})


def read_campaign(journal: Journal, run: str | None = None) -> Campaign:
    """The run of this name; without one, the run that was changed last.

    >>> from natsel.store import Terms
    >>> journal = Journal()
    >>> state = journal.begin("main", Terms("some data", "bald", 2, 0))
    >>> journal.tell(state, ["a.png"], [1])
    >>> read_campaign(journal).values
    {'a.png': 1}
    """
    runs = journal.runs()
    if not runs:
        raise ValueError(f"run: {journal.path} holds no run yet; a learner with store={str(journal.path)!r} makes one")
    chosen = next((one for one in runs if one.name == run), None)
    if chosen is None and run is not None:
        names = ", ".join(repr(one.name) for one in runs[:10])
        raise ValueError(f"run: {journal.path} has no run {run!r}; it has {names}")
    states = {one.run: journal.replay(one.run) for one in runs}
    if chosen is None:
        chosen = max(runs, key=lambda one: states[one.run].seq)
    state, points = states[chosen.run], len(journal.points(chosen.run))
    return Campaign(
        journal=str(journal.path),
        run=chosen,
        rounds=journal.rounds(chosen.run),
        labels=journal.labels(chosen.run),
        values=dict(state.values),
        votes=dict(state.votes),
        outstanding=dict(state.outstanding),
        skipped=list(state.skipped),
        stops=journal.stops(chosen.run),
        n_points=points or int(chosen.terms.notes.get("points", 0)),
        others={one.name: journal.rounds(one.run) for one in runs if one.run != chosen.run},
    )


def main_metric(rounds: Sequence[Round]) -> str | None:
    """The metric of a run that a reader looks at first.

    >>> main_metric([Round(0, 5, 5, {"validation nll": 0.3, "validation accuracy": 0.9}, {})])
    'validation accuracy'
    """
    names = dict.fromkeys(name for one in rounds for name in one.metrics)
    wanted = [f"{before}{name}" for before in ("", VALIDATION) for name in ("accuracy", "rmse")]
    return next((name for name in (*wanted, *names) if name in names), None)


def curve(rounds: Sequence[Round], metric: str) -> CurvePoints:
    """A metric over the number of labels; where labels were corrected, the last fit to so many labels counts.

    >>> curve([Round(0, 5, 5, {"rmse": 2.0}, {}), Round(1, 6, 5, {"rmse": 1.0}, {})], "rmse")
    ([5], [1.0])
    """
    found = {one.n_labelled: one.metrics[metric] for one in rounds if math.isfinite(one.metrics.get(metric, math.nan))}
    sizes = sorted(found)
    return sizes, [found[size] for size in sizes]


def seconds_of(at: str) -> float | None:
    """A time in seconds; None where it cannot be read.

    >>> seconds_of("1970-01-01T00:01:00+00:00"), seconds_of("")
    (60.0, None)
    """
    try:
        return datetime.fromisoformat(at).timestamp()
    except (ValueError, TypeError):
        return None


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean of what is known and finite; None where nothing is."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    return sum(known) / len(known) if known else None


def _pace(who: str, labels: Sequence[Label], asked: Mapping[int, float | None]) -> Pace:
    waits: list[float] = []
    worked, counted, before = 0.0, 0, -math.inf
    by_entry: dict[int, list[Label]] = {}
    for label in labels:
        by_entry.setdefault(label.seq, []).append(label)
    for told in by_entry.values():
        at = seconds_of(told[0].at)
        starts = [start for label in told if label.ask is not None and (start := asked.get(label.ask)) is not None]
        if at is None:
            continue
        waits += [max(0.0, at - start) for start in starts]
        took = at - max(*starts, before) if starts else math.inf
        if took <= PAUSE:
            worked, counted = worked + max(0.0, took), counted + len(starts)
        before = at
    return Pace(who, len(labels), tuple(waits), 3600 * counted / worked if worked > 0 else None)


def described_changes(detail: Mapping[str, Any]) -> list[str]:
    """What changed about a run, as phrases.

    >>> described_changes({"points": 200}), described_changes({"terms": {"k": 5, "search": "TopK()"}})
    (['200 points joined the pool'], ['k is now 5', 'search is now TopK()'])
    """
    said = []
    if "points" in detail:
        said.append(f"{detail['points']:,} points joined the pool")
    if detail.get("classes"):
        count = len(detail["classes"])
        said.append(f"{'a class' if count == 1 else f'{count} classes'} joined: {', '.join(detail['classes'])}")
    said += [f"class {old!r} is now {new!r}" for old, new in detail.get("renamed", {}).items()]
    terms = dict(detail.get("terms", {}))
    if "method" in terms:  # a method is its objective and its search
        terms = {name: value for name, value in terms.items() if name not in ("objective", "search")}
    for name, value in terms.items():
        data = name in ("validation", "test", "targets")
        said.append(f"{name}: {'other ones' if value else 'none'} from now on" if data else f"{name} is now {value}")
    return said
