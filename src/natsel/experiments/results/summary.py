"""What an experiment says, in numbers and in one sentence: labels needed for each target, and labels saved.

    needed = the median over seeds of the first number of labels that reaches the target
    saved  = 1 − needed(method) / needed(baseline)           so that it follows from the two numbers beside it

Every table, page and sentence takes both from here. The 95 % interval of what is saved is a bootstrap over seeds: seeds
that both methods have are drawn with replacement, in pairs, and both medians are taken again (in simulations with 6 to
20 seeds it held the true saving 94 to 98 % of the time). A run that ends before the target needed *more* than its last
size, which makes a saving a bound. With fewer seeds than six there is no interval; the least and the greatest saving of
a single seed stand for it, and hold the saving between them.

The target of the sentence is fixed by a rule, not picked for effect: the highest one that the baseline's median run
reached, so that a saving can be a number; else the highest that any method's median run reached, and the saving is a
bound. The method is the one that saves most there; a sentence on the best of several is a little flattered by luck, and
the report says so beside it.
"""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from natsel.evaluation.curves import Run, bands, higher_is_better
from natsel.evaluation.savings import ENOUGH, Known, labels_saved, labels_to, quartiles
from natsel.experiments.results.experiment import BASELINE, Curve, Experiment, is_share

_RESAMPLED = 4000
_LEVELS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.97, 0.98, 0.99)


@dataclass(frozen=True)
class Saving:
    """The share of labels saved against the baseline: 0.45 means 45 % fewer.

    `share` follows from the medians of both; `interval` is a 95 % interval (None for less than six seeds); `seeds`
    reaches from the least to the greatest saving of a single seed, of `pairs` seeds that both have.
    """

    share: Known
    interval: Known | None
    seeds: Known
    pairs: int


@dataclass(frozen=True)
class Row:
    """A method and a target: quartiles of the labels needed, how many runs reached it, and what was saved."""

    method: str
    target: float
    needed: tuple[Known, Known, Known]
    reached: int
    runs: int
    saved: Saving | None
    """Against the baseline; None for the baseline itself, and where no seed has runs of both."""


def targets(experiment: Experiment) -> tuple[float, ...]:
    """The experiment's targets, the hardest last. Where it has none: the three highest round accuracies reached; for
    other metrics what the baseline's median run has come to after a half and after three quarters of its labels.

    >>> runs = [Curve("random", 0, [10, 20], {"accuracy": [0.55, 0.86]})]
    >>> targets(Experiment("digits", runs))
    (0.75, 0.8, 0.85)
    """
    if experiment.targets:
        return tuple(sorted(experiment.targets, reverse=not higher_is_better(experiment.metric)))
    if not is_share(experiment.metric):
        return _levels_of_baseline(experiment)
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
    'bald reached 90 % accuracy with 20 labels where random needed 40: 50 % saved (medians of 3 seeds, ...'
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
    if saved.share.high <= 0:
        return f"No method saved labels on the way to {goal}: the best, {against} ({_seeds(saved.pairs)})."
    doubt = f", {_interval(saved)}" if saved.pairs > 1 else ""
    return f"{against}: {share(saved.share)} saved ({_seeds(saved.pairs)}{doubt})."


def label_table(experiment: Experiment) -> tuple[list[str], list[list[str]]]:
    """The table of labels needed as texts, for people: its head and its rows, with what is saved in brackets, the
    numbers being medians over seeds, and where each method ended.

    >>> def runs(method, size):
    ...     return [Curve(method, seed, [10, size], {"accuracy": [0.5, 0.9]}) for seed in range(3)]
    >>> label_table(Experiment("digits", runs("random", 40) + runs("bald", 20), targets=[0.9]))[1]
    [['random', '40', '90 %'], ['bald', '20 (50 %)', '90 %']]
    """
    rows = table(experiment)
    wanted = list(dict.fromkeys(row.target for row in rows))
    head = ["method", *(level(experiment.metric, target) for target in wanted), "at the end"]
    lines = []
    for method in experiment.methods:
        here = {row.target: row for row in rows if row.method == method}
        final = level(
            experiment.metric, statistics.median(run.final(experiment.metric) for run in experiment.of(method))
        )
        lines.append([method, *(labels(here[one].needed[1]) + _in_brackets(here[one].saved) for one in wanted), final])
    return head, lines


def as_text(experiment: Experiment) -> str:
    """The table of labels needed, and the sentence, as plain text."""
    head, rows = label_table(experiment)
    widths = [max(len(line[column]) for line in (head, *rows)) for column in range(len(head))]
    lines = [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in (head, *rows)
    ]
    return "\n".join([caption(experiment), *(line.rstrip() for line in lines), headline(experiment)])


def caption(experiment: Experiment) -> str:
    """What the table of labels needed shows."""
    if not targets(experiment):
        return f"Test {experiment.metric} of each method, median over seeds:"
    return f"Labels needed to reach a test {experiment.metric}, medians (saved against {BASELINE}):"


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
    needed = quartiles(runs.values(), target, higher=higher)
    reached = sum(labels_to(*run, target, higher=higher) is not None for run in runs.values())
    saved = None if method == BASELINE else _saved(runs, others, target, higher)
    return Row(method, target, needed, reached, len(runs), saved)


def _saved(runs: Mapping[int, Run], others: Mapping[int, Run], target: float, higher: bool) -> Saving | None:
    """What a method saves, from the medians of all its runs and of the baseline's, with a bootstrap over the seeds that
    both have.
    """
    by_seed = labels_saved(runs, others, target, higher=higher)
    if by_seed is None:
        return None
    mine, theirs = (quartiles(some.values(), target, higher=higher)[1] for some in (runs, others))
    low, high = _share_saved(*((np.array(one.low), np.array(one.high)) for one in (mine, theirs)))
    interval = None
    if by_seed.pairs >= ENOUGH:
        seeds = sorted(set(runs) & set(others))
        drawn = np.random.default_rng(0).integers(len(seeds), size=(_RESAMPLED, len(seeds)))
        ends = [_ends([some[seed] for seed in seeds], target, higher) for some in (runs, others)]
        lows, highs = _share_saved(*(tuple(np.median(end[drawn], axis=1) for end in one) for one in ends))
        interval = Known(
            float(np.quantile(lows, 0.025, method="lower")), float(np.quantile(highs, 0.975, method="higher"))
        )
    return Saving(Known(float(low), float(high)), interval, by_seed.seeds, by_seed.pairs)


def _ends(runs: list[Run], target: float, higher: bool) -> tuple[Any, Any]:
    """The least and the most labels that each run may have needed."""
    reached = [labels_to(*run, target, higher=higher) for run in runs]
    pairs = [
        (size, size) if size is not None else (run[0][-1] if run[0] else 0, math.inf)
        for run, size in zip(runs, reached, strict=True)
    ]
    return tuple(np.array(pairs, dtype=np.float64).reshape(-1, 2).T)  # type: ignore[return-value]


def _share_saved(needed: tuple[Any, Any], baseline: tuple[Any, Any]) -> tuple[Any, Any]:
    """1 − m/r at the ends of what is known of both; a target that takes no label leaves nothing to save."""
    (low_m, high_m), (low_r, high_r) = needed, baseline
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(np.isinf(high_m) | (low_r == 0), -np.inf, 1 - high_m / low_r)
        high = np.where(np.isinf(high_r), 1.0, 1 - low_m / high_r)
    nothing = high_r == 0
    return np.where(nothing & (high_m == 0), 0.0, low), np.where(nothing, 0.0, high)


def _levels_of_baseline(experiment: Experiment) -> tuple[float, ...]:
    """What the baseline's median has come to after a half and three quarters of its labels, to three digits, rounded to
    the side that it has surely reached; empty without a baseline.
    """
    found = bands(list(runs_of(experiment, BASELINE).values()))
    if len(found.sizes) < 4:
        return ()
    higher = higher_is_better(experiment.metric)
    levels = []
    for part in (0.5, 0.75):
        wanted = found.sizes[0] + part * (found.sizes[-1] - found.sizes[0])
        so_far = found.median[: int(np.searchsorted(found.sizes, wanted)) + 1]
        value = float(so_far.max() if higher else so_far.min())
        unit = 10.0 ** (math.floor(math.log10(abs(value) or 1.0)) - 2)
        levels.append(float(f"{(math.floor if higher else math.ceil)(value / unit) * unit:.6g}"))
    return tuple(sorted(dict.fromkeys(levels), reverse=not higher))


def _headline_target(experiment: Experiment, rows: tuple[Row, ...]) -> float | None:
    """The target of the headline: the last that the baseline's median reached, else the last that anyone's did."""
    for candidates in ([row for row in rows if row.method == BASELINE], rows):
        reached = {row.target for row in candidates if row.needed[1].exact}
        for level in reversed(targets(experiment)):
            if level in reached:
                return level
    return None


def _rank(saved: Saving | None) -> tuple[float, float]:
    return (-math.inf, -math.inf) if saved is None else (saved.share.low, saved.share.high)


def _in_brackets(saved: Saving | None) -> str:
    """What a method saved; nothing where nothing is known."""
    if saved is None or math.isinf(saved.share.low):
        return ""
    return f" ({'' if saved.share.exact else '≥ '}{_percent(saved.share.low)} %)"


def _interval(saved: Saving) -> str:
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
    return "one seed" if count == 1 else f"medians of {count} seeds"


def _percent(value: float) -> str:
    return f"{100 * value:.0f}".replace("-0", "0").replace("-", "−")
