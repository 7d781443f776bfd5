"""What an experiment says, in numbers and in one sentence: labels needed for each target, and labels saved.

The target of the sentence is fixed by a rule, not picked for effect: the highest one that the baseline's median run
reached, so that a saving can be a number; else the highest that any method's median run reached, and the saving is a
bound. The method is the one that saves most there; a sentence on the best of several is a little flattered by luck, and
the report says so beside it.
"""

import math
from dataclasses import dataclass

from natsel.evaluation.curves import higher_is_better
from natsel.evaluation.savings import Known, Saved, labels_saved, labels_to, quartiles
from natsel.experiments.results.experiment import BASELINE, Curve, Experiment, is_share

_LEVELS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.97, 0.98, 0.99)


@dataclass(frozen=True)
class Row:
    """A method and a target: quartiles of the labels needed, how many runs reached it, and what was saved."""

    method: str
    target: float
    needed: tuple[Known, Known, Known]
    reached: int
    runs: int
    saved: Saved | None
    """Against the baseline, by seed; None for the baseline itself and where there is none."""


def targets(experiment: Experiment) -> tuple[float, ...]:
    """The experiment's targets, the hardest last; where it has none, the three highest round accuracies reached.

    >>> runs = [Curve("random", 0, [10, 20], {"accuracy": [0.55, 0.86]})]
    >>> targets(Experiment("digits", runs))
    (0.75, 0.8, 0.85)
    """
    if experiment.targets or not is_share(experiment.metric):
        return tuple(sorted(experiment.targets, reverse=not higher_is_better(experiment.metric)))
    best = max((_median_final(experiment, method) for method in experiment.methods), default=math.nan)
    return tuple(level for level in _LEVELS if level <= best)[-3:]


def table(experiment: Experiment) -> tuple[Row, ...]:
    """A row for each method and target, in the order of methods."""
    levels = targets(experiment)
    return tuple(_row(experiment, method, level) for method in experiment.methods for level in levels)


def headline(experiment: Experiment) -> str:
    """The result in one sentence of plain text.

    >>> def runs(method, size):
    ...     return [Curve(method, seed, [10, size], {"accuracy": [0.5, 0.9]}) for seed in range(3)]
    >>> headline(Experiment("digits", runs("random", 40) + runs("bald", 20), targets=[0.9]))
    'bald reached 90 % accuracy with 20 labels where random needed 40: 50 % saved (median of 3 seeds, ...'
    """
    rows = table(experiment)
    target = _headline_target(experiment, rows)
    if target is None:
        return _finals(experiment)
    here = [row for row in rows if row.target == target]
    goal = f"{level(experiment.metric, target)} {experiment.metric}"
    baseline = next((row for row in here if row.method == BASELINE), None)
    compared = [row for row in here if row.saved is not None]
    if baseline is None or not compared:
        first = min(here, key=lambda row: row.needed[1].low if row.needed[1].exact else math.inf)
        missing = f"; there is no run of {BASELINE} to compare with" if baseline is None else ""
        return f"{first.method} reached {goal} with {labels(first.needed[1])} labels ({_seeds(first.runs)}){missing}."
    best = max(compared, key=lambda row: _rank(row.saved))
    saved = best.saved
    assert saved is not None
    against = f"{best.method} reached {goal} with {labels(best.needed[1])} labels where {BASELINE} needed"
    against += f" {labels(baseline.needed[1]).replace('>', 'more than ')}"
    if not best.needed[1].exact:
        return f"No method was seen to reach {goal} with fewer labels than {BASELINE} ({_seeds(saved.pairs)})."
    if saved.median.high <= 0:
        return f"No method saved labels on the way to {goal}: the best, {against} ({_seeds(saved.pairs)})."
    doubt = f", {_interval(saved)}" if saved.pairs > 1 else ""
    return f"{against}: {share(saved.median)} saved ({_seeds(saved.pairs)}{doubt})."


def labels(known: Known) -> str:
    """A number of labels, or what it exceeds.

    >>> labels(Known(105, 105)), labels(Known(300, math.inf))
    ('105', '>300')
    """
    return f"{known.low:.4g}" if known.exact else f">{known.low:.4g}"


def share(known: Known) -> str:
    """A share saved, or what bounds it.

    >>> share(Known(0.448, 0.448)), share(Known(0.31, 1.0)), share(Known(-math.inf, -0.2))
    ('45 %', 'at least 31 %', 'at most −20 %')
    """
    if known.exact:
        return f"{_percent(known.low)} %"
    if math.isinf(known.low):
        return "unknown" if known.high >= 1 else f"at most {_percent(known.high)} %"
    return f"at least {_percent(known.low)} %" if known.high >= 1 else f"{span(known)}"


def span(known: Known) -> str:
    """An interval of shares, open where nothing is known.

    >>> span(Known(0.31, 0.55)), span(Known(-0.1, 1.0)), span(Known(-math.inf, 1.0))
    ('31 to 55 %', 'at least −10 %', 'unknown')
    """
    if math.isinf(known.low) or known.high >= 1:
        return share(Known(known.low, 1.0) if known.high >= 1 else known)
    return f"{_percent(known.low)} to {_percent(known.high)} %"


def level(metric: str, value: float, digits: int = 1) -> str:
    """A value of a metric in words: per cent for accuracies, three digits otherwise.

    >>> level("accuracy", 0.9), level("accuracy", 0.8749), level("nll", 0.30001), level("accuracy", math.nan)
    ('90 %', '87.5 %', '0.3', '–')
    """
    if math.isnan(value):
        return "–"
    if is_share(metric):
        return f"{100 * value:.{digits}f}".removesuffix("." + "0" * digits) + " %"
    return f"{value:.3g}".replace("-", "−")


def runs_of(experiment: Experiment, method: str) -> dict[int, tuple[tuple[int, ...], tuple[float, ...]]]:
    """The experiment's metric over labels for each seed of a method, where it was measured."""
    return {curve.seed: _measured(curve, experiment.metric) for curve in experiment.of(method)}


def _measured(curve: Curve, metric: str) -> tuple[tuple[int, ...], tuple[float, ...]]:
    pairs = zip(curve.sizes, curve.metrics.get(metric, (math.nan,) * len(curve.sizes)), strict=True)
    known = [(size, value) for size, value in pairs if not math.isnan(value)]
    return tuple(size for size, _ in known), tuple(value for _, value in known)


def _row(experiment: Experiment, method: str, target: float) -> Row:
    higher = higher_is_better(experiment.metric)
    runs, others = runs_of(experiment, method), runs_of(experiment, BASELINE)
    saved = None if method == BASELINE else labels_saved(runs, others, target, higher=higher)
    reached = sum(labels_to(*run, target, higher=higher) is not None for run in runs.values())
    return Row(method, target, quartiles(runs.values(), target, higher=higher), reached, len(runs), saved)


def _headline_target(experiment: Experiment, rows: tuple[Row, ...]) -> float | None:
    """The target of the headline: the last that the baseline's median reached, else the last that anyone's did."""
    for candidates in ([row for row in rows if row.method == BASELINE], rows):
        reached = {row.target for row in candidates if row.needed[1].exact}
        for level in reversed(targets(experiment)):
            if level in reached:
                return level
    return None


def _rank(saved: Saved | None) -> tuple[float, float]:
    return (-math.inf, -math.inf) if saved is None else (saved.median.low, saved.median.high)


def _interval(saved: Saved) -> str:
    known = saved.interval or saved.seeds
    doubt = "" if known.low > 0 else ", so perhaps none"
    return f"{'95 % interval' if saved.interval else 'seeds give'} {span(known)}{doubt}"


def _finals(experiment: Experiment) -> str:
    ends = {method: _median_final(experiment, method) for method in experiment.methods}
    known = {method: value for method, value in ends.items() if not math.isnan(value)}
    if not known:
        return "Nothing has been measured yet."
    best = (max if higher_is_better(experiment.metric) else min)(known, key=lambda method: known[method])
    sizes = {curve.sizes[-1] for curve in experiment.of(best) if curve.sizes}
    reading = f"{best} ended at {experiment.metric} {level(experiment.metric, known[best])} with {max(sizes)} labels"
    if best != BASELINE and BASELINE in known:
        reading += f", {BASELINE} at {level(experiment.metric, known[BASELINE])}"
    return f"{reading} ({_seeds(len(experiment.of(best)))})."


def _median_final(experiment: Experiment, method: str) -> float:
    finals = sorted(values[-1] for _, values in runs_of(experiment, method).values() if values)
    if not finals:
        return math.nan
    return (finals[(len(finals) - 1) // 2] + finals[len(finals) // 2]) / 2


def _seeds(count: int) -> str:
    return "one seed" if count == 1 else f"median of {count} seeds"


def _percent(value: float) -> str:
    return f"{100 * value:.0f}".replace("-0", "0").replace("-", "−")
