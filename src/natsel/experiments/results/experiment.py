"""What an experiment leaves behind, as plain values: curves of methods over seeds, and what they picked.

A run is one method with one seed. After each fit it is measured, which gives one entry in `sizes` (labels held), in
every metric and in every stage of `seconds`; between two of these it picks a batch. Nothing here reads a journal or
draws a picture: `results.from_journals` makes these values, the report shows them, and JSON holds them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

Thumbnail = np.ndarray[Any, np.dtype[np.uint8]] | str
"""A small picture, uint8 of shape (H, W), (H, W, 1) or (H, W, 3), or a text."""

BASELINE = "random"
"""The method that others are compared with."""

UNEQUAL = 0.7
"""The share of the largest class from which on accuracy says little of the others."""


@dataclass(frozen=True)
class Batch:
    """Points picked together, in the order picked; the columns other than `ids` and `labels` may be left empty.

    `labels` are the answers (a class or a number; None: skipped or not answered yet). `epistemic` and `aleatoric` are
    the two parts of each pick's uncertainty in nats when it was picked; `scores` are what the method ranked by.
    `warnings` are what the selection said about itself, for example what was approximated.

    >>> Batch(ids=[7, 3], labels=[0, 1]).ids
    (7, 3)
    """

    ids: Sequence[int | str]
    labels: Sequence[float | None] = ()
    scores: Sequence[float] = ()
    epistemic: Sequence[float] = ()
    aleatoric: Sequence[float] = ()
    warnings: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", tuple(id if isinstance(id, str) else int(id) for id in self.ids))
        object.__setattr__(self, "warnings", tuple(self.warnings))
        for name in ("labels", "scores", "epistemic", "aleatoric"):
            column = tuple(None if value is None else _plain(value) for value in getattr(self, name))
            if column and len(column) != len(self.ids):
                raise ValueError(f"{name}: expected one for each of {len(self.ids)} ids, found {len(column)}; or none")
            object.__setattr__(self, name, column)


@dataclass(frozen=True)
class Curve:
    """One run: a method with one seed.

    `sizes` are the labels held at each measurement, `metrics` and `seconds` hold one number for each of them (nan: not
    measured; seconds are those spent at that size on fit, evaluate, believe, select …). `initial` is what was labelled
    before the first batch; `batches` are what the method picked. `stopped` says in a sentence why the run ended, or is
    empty where it has not.

    >>> Curve("bald", 0, [20, 30], {"accuracy": [0.5, 0.75]}).final("accuracy")
    0.75
    """

    method: str
    seed: int
    sizes: Sequence[int]
    metrics: Mapping[str, Sequence[float]]
    initial: Batch = field(default_factory=lambda: Batch(()))
    batches: Sequence[Batch] = ()
    seconds: Mapping[str, Sequence[float]] = field(default_factory=dict)
    stopped: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(int(size) for size in self.sizes))
        object.__setattr__(self, "batches", tuple(self.batches))
        if any(after <= before for before, after in zip(self.sizes, self.sizes[1:], strict=False)):
            raise ValueError(f"sizes: must grow from one measurement to the next, found {list(self.sizes)}; sort them")
        for name in ("metrics", "seconds"):
            columns = {key: tuple(_plain(value) for value in column) for key, column in getattr(self, name).items()}
            for key, column in columns.items():
                if len(column) != len(self.sizes):
                    raise ValueError(
                        f"{name}: expected {len(self.sizes)} values of {key!r}, one for each size, found {len(column)}"
                    )
            object.__setattr__(self, name, columns)

    @property
    def acquired(self) -> tuple[int | str, ...]:
        """Ids that the method picked, in order, without the initial set."""
        return tuple(id for batch in self.batches for id in batch.ids)

    @property
    def acquired_labels(self) -> tuple[float | None, ...]:
        """The answers for `acquired`; None where there is none."""
        return tuple(label for batch in self.batches for label in batch.labels or (None,) * len(batch.ids))

    def final(self, metric: str) -> float:
        """The last value of a metric, nan where it was never measured."""
        column = self.metrics.get(metric, ())
        return column[-1] if column else math.nan


@dataclass(frozen=True, eq=False)
class Experiment:
    """Methods compared over seeds on one task.

    `targets` are values of `metric` for the table of labels needed. `pool` is how many points could be picked, and
    `candidates` how many of them, drawn at random, were scored each round (None: all). `majority` is the share of the
    largest class among the test examples, which is right without a label. `thumbnails` maps ids to small
    pictures or texts; an id without one is shown by its number. `notes` are sentences a reader must know; `recipe` is
    whatever described the experiment, shown in full; `claims` are verdicts on what was expected, as plain values.

    >>> Experiment("digits", [Curve("random", 0, [10], {"accuracy": [0.5]})]).methods
    ('random',)
    """

    name: str
    curves: Sequence[Curve]
    about: str = ""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    classes: Sequence[str] = ()
    metric: str = "accuracy"
    targets: Sequence[float] = ()
    pool: int | None = None
    candidates: int | None = None
    majority: float | None = None
    thumbnails: Mapping[int | str, Thumbnail] = field(default_factory=dict)
    notes: Sequence[str] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    claims: Sequence[Mapping[str, Any]] = ()

    def __post_init__(self) -> None:
        for name in ("curves", "classes", "targets", "notes", "claims"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        seen = [(curve.method, curve.seed) for curve in self.curves]
        if len(set(seen)) < len(seen):
            twice = next(pair for pair in seen if seen.count(pair) > 1)
            raise ValueError(f"curves: {twice[0]!r} with seed {twice[1]} occurs twice; keep one curve for each")

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods in the order in which they first occur."""
        return tuple(dict.fromkeys(curve.method for curve in self.curves))

    def of(self, method: str) -> tuple[Curve, ...]:
        """The runs of one method, by seed."""
        return tuple(sorted((curve for curve in self.curves if curve.method == method), key=lambda run: run.seed))

    @property
    def uneven(self) -> bool:
        """Whether every run has sizes of its own, because part of each batch may be junk."""
        return any("junk" in curve.metrics for curve in self.curves)

    def ended(self, method: str) -> tuple[Curve, ...]:
        """The runs of a method that are no longer under way and have as many labels as any run has."""
        last = 0 if self.uneven else max((curve.sizes[-1] for curve in self.curves if curve.sizes), default=0)
        full = (one for one in self.of(method) if one.sizes and one.sizes[-1] >= last)
        return tuple(one for one in full if one.stopped or not self.recipe)  # a journal says when its run stopped

    def numbers(self) -> dict[str, Any]:
        """Everything but the thumbnails, as JSON takes it; what was not measured (nan) is None."""
        kept = {name: value for name, value in vars(self).items() if name not in ("curves", "thumbnails")}
        plain: dict[str, Any] = _without_nan({**kept, "curves": [asdict(curve) for curve in self.curves]})
        return plain


def is_share(metric: str) -> bool:
    """Whether a metric is read in per cent."""
    return metric.lower().endswith(("accuracy", "precision", "junk"))


def _plain(value: Any) -> float:
    """A number that JSON knows: whole numbers stay whole, so that classes read as classes."""
    return int(value) if isinstance(value, int | np.integer) else float(value)


def _without_nan(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(entry) for entry in value]
    return int(value) if isinstance(value, np.integer) else value
