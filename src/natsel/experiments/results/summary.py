"""What an experiment says, in numbers and in one sentence: labels needed for each target, and labels saved.

    needed = the median over seeds of the first number of labels that reaches the target
    saved  = 1 − needed(method) / needed(baseline)           so that it follows from the two numbers beside it

Every table, page and sentence takes both from here. Both are of the seeds that the method and the baseline have, at the
sizes that both have measured: who is measured more often would reach a level sooner by luck. The 95 % interval of what
is saved is a bootstrap over seeds: they are drawn with replacement, in pairs, and both medians are taken again (in
simulations with 6 to 20 seeds it held the true saving 94 to 98 % of the time). A run that ends before the target needed
*more* than its last size, which makes a saving a bound. With fewer seeds than six there is no interval; the least and
the greatest saving of a single seed stand for it.

The target of the sentence is fixed by a rule, not picked for effect: the highest one that the baseline's median run
reached, so that a saving can be a number; else the highest that any method's median run reached, and the saving is a
bound. The method is the one that saves most there. The best of several is flattered by luck (of methods that are all
like random the best of nine seems to save some 15 %), so the sentence says of how many it is the best, and its interval
is one of 1 − 0.05/methods. Levels of accuracy are above the share of the largest class, which takes no label.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from natsel.evaluation.curves import Run, bands, higher_is_better
from natsel.evaluation.savings import ENOUGH, Known, labels_saved, labels_to, needed_labels, quartiles, share_saved
from natsel.experiments.results.experiment import BASELINE, Curve, Experiment, is_share

_RESAMPLED = 4000
_LEVELS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.97, 0.98, 0.99)


@dataclass(frozen=True)
class Saving:
    """The share of labels saved against the baseline: 0.45 means 45 % fewer.

    `share` follows from the medians of both, here `baseline`, over `pairs` seeds that both have, of `runs`; `interval`
    is of 95 % (None for less than six seeds); `seeds` reaches from the least to the greatest saving of a single seed.
    """

    share: Known
    interval: Known | None
    seeds: Known
    pairs: int
    baseline: Known
    runs: Sequence[int]


@dataclass(frozen=True)
class Row:
    """A method and a target: quartiles of labels needed, how many of the runs compared reached it, what was saved."""

    method: str
    target: float
    needed: tuple[Known, Known, Known]
    reached: int
    runs: int
    saved: Saving | None
    """Against the baseline; None for the baseline itself, and where no seed has runs of both."""

    def as_dict(self) -> dict[str, Any]:
        """As a row of a table: what is only known to lie beyond some number is `more_than` that; None is not known."""
        lower, median, upper = ((one.low if one.exact else None) for one in self.needed)
        found: dict[str, Any] = {"method": self.method, "target": self.target, "needed": median, "lower": lower}
        found |= {"upper": upper, "more_than": None if self.needed[1].exact else self.needed[1].low}
        known = {"saved": self.saved and self.saved.share, "interval": self.saved and self.saved.interval}
        share = known["saved"]
        found |= {"reached": self.reached, "runs": self.runs, "saved": share.low if share and share.exact else None}
        for name, one in known.items():
            found[f"{name}_low"] = one.low if one and math.isfinite(one.low) else None
            found[f"{name}_high"] = one and one.high
        return found


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
    best = max((one for one, _ in _ends(experiment)[2].values()), default=math.nan)
    least = experiment.majority or 0.0 if experiment.metric == "accuracy" else 0.0
    return tuple(level for level in _LEVELS if least < level <= best)[-3:]


def table(experiment: Experiment) -> tuple[Row, ...]:
    """A row for each method and target, in the order of methods."""
    levels = targets(experiment)
    return tuple(_row(experiment, method, level) for method in experiment.methods for level in levels)


def headline(experiment: Experiment) -> str:
    """The result in one sentence of plain text.

    >>> def runs(method, size):
    ...     return [Curve(method, seed, [10, 20, 40], {"accuracy": [0.5, 18 / size, 0.9]}) for seed in range(3)]
    >>> headline(Experiment("digits", runs("random", 40) + runs("bald", 20), targets=[0.9]))
    'bald reached 90 % accuracy with 20 labels where random needed 40: 50 % saved (medians of 3 seeds, ...'
    """
    rows = table(experiment)
    target = _headline_target(experiment, rows)
    if target is None:
        return _where_it_ended(experiment)
    here = [row for row in rows if row.target == target]
    goal = f"{level(experiment.metric, target)} {experiment.metric}"
    baseline = next((row for row in here if row.method == BASELINE), None)
    compared = [row for row in here if row.saved is not None]
    if baseline is None or not compared:
        first = min(here, key=lambda row: row.needed[1].low if row.needed[1].exact else math.inf)
        missing = f"; there is no run of {BASELINE} to compare with" if baseline is None else ""
        return f"{first.method} reached {goal} with {labels(first.needed[1])} labels ({_seeds(first.runs)}){missing}."
    best = max(compared, key=lambda row: _rank(row.saved))
    saved = _saved(experiment, best.method, target, len(compared))
    assert saved is not None
    alike = [
        row.method for row in compared if row.needed[1] == best.needed[1] and _rank(row.saved) == _rank(best.saved)
    ]
    against = f"{' and '.join(alike)} reached {goal} with {labels(best.needed[1])} labels where"
    against += f" {BASELINE} needed {labels(saved.baseline).replace('>', 'more than ')}"
    seeds = _seeds(saved.pairs, saved.runs)
    if not best.needed[1].exact:
        return f"No method was seen to reach {goal} with fewer labels than {BASELINE} ({seeds})."
    if saved.share.high <= 0:
        return f"No method saved labels on the way to {goal}: the best, {against} ({seeds})."
    seeds = f"the best of {len(compared)} methods, {seeds}" if len(compared) > 1 else seeds
    doubt = f", {_interval(saved, len(compared))}" if saved.pairs > 1 else ""
    return f"{against}: {share(saved.share)} saved ({seeds}{doubt})."


def label_table(experiment: Experiment) -> tuple[list[str], list[list[str]]]:
    """The table of labels needed as texts, for people: its head and its rows, with what is saved in brackets, the
    numbers being medians over seeds, and where each method ended.

    >>> def runs(method, size):
    ...     return [Curve(method, seed, [10, 20, 40], {"accuracy": [0.5, 18 / size, 0.9]}) for seed in range(3)]
    >>> label_table(Experiment("digits", runs("random", 40) + runs("bald", 20), targets=[0.9]))[1]
    [['random', '40', '90 %'], ['bald', '20 (50 %)', '90 %']]
    """
    rows, (_, where, ends) = table(experiment), _ends(experiment)
    wanted = list(dict.fromkeys(row.target for row in rows))
    head = ["method", *(level(experiment.metric, target) for target in wanted), where]
    lines = []
    for method in experiment.methods:
        here = {row.target: row for row in rows if row.method == method}
        (value, count), runs = ends[method], len(experiment.of(method))
        final = level(experiment.metric, value) + (f" ({count} of {runs} runs)" if 0 < count < runs else "")
        lines.append([method, *(labels(here[one].needed[1]) + _in_brackets(here[one].saved) for one in wanted), final])
    return head, lines


def as_text(experiment: Experiment) -> str:
    """The table of labels needed, and the sentence, as plain text."""
    head, rows = label_table(experiment)
    first, *rest = (max(map(len, column)) for column in zip(head, *rows, strict=True))
    lines = ("  ".join([line[0].ljust(first), *map(str.rjust, line[1:], rest)]).rstrip() for line in (head, *rows))
    return "\n".join([caption(experiment), *lines, *unlike(experiment), headline(experiment)])


def caption(experiment: Experiment) -> str:
    """What the table of labels needed shows."""
    needed = f"Labels needed to reach a test {experiment.metric}, medians (saved against {BASELINE}):"
    return needed if targets(experiment) else f"Test {experiment.metric} of each method, median over seeds:"


def labels(known: Known) -> str:
    """A number of labels, or what it exceeds.

    >>> labels(Known(105, 105)), labels(Known(12345.5, math.inf))
    ('105', '>12345.5')
    """
    return ("" if known.exact else ">") + f"{known.low:.2f}".rstrip("0").rstrip(".")


def share(known: Known) -> str:
    """A share saved, or what bounds it.

    >>> share(Known(0.448, 0.448)), share(Known(0.31, 1.0)), share(Known(-math.inf, -0.2))
    ('45 %', 'at least 31 %', 'at most −20 %')
    """
    return f"{_percent(known.low)} %" if known.exact else span(known)


def span(known: Known) -> str:
    """An interval of shares, open where nothing is known.

    >>> span(Known(0.31, 0.55)), span(Known(-0.1, 1.0)), span(Known(-math.inf, 1.0))
    ('31 to 55 %', 'at least −10 %', 'unknown')
    """
    if math.isinf(known.low):
        return "unknown" if known.high >= 1 else f"at most {_percent(known.high)} %"
    return (
        f"at least {_percent(known.low)} %" if known.high >= 1 else f"{_percent(known.low)} to {_percent(known.high)} %"
    )


def level(metric: str, value: float, digits: int = 1) -> str:
    """A value of a metric in words: per cent for accuracies, three digits otherwise.

    >>> level("accuracy", 0.9), level("accuracy", 0.9996), level("nll", 0.30001), level("accuracy", math.nan)
    ('90 %', '99.96 %', '0.3', '–')
    """
    if math.isnan(value):
        return "–"
    if is_share(metric):
        return f"{_hundredths(value, digits)} %"
    return f"{value:.3g}".replace("-", "−")


def runs_of(experiment: Experiment, method: str) -> dict[int, Run]:
    """The experiment's metric over labels for each seed of a method, where it was measured."""

    def measured(curve: Curve) -> Run:
        pairs = zip(curve.sizes, curve.metrics.get(experiment.metric, ()), strict=False)
        return _run(pair for pair in pairs if not math.isnan(pair[1]))

    return {curve.seed: measured(curve) for curve in experiment.of(method)}


def paired(experiment: Experiment, method: str) -> tuple[dict[int, Run], dict[int, Run]]:
    """The runs of a method and of the baseline with the seeds that both have, at the sizes that both have measured (and
    all from the last of the shorter on: there the other may still arrive).
    """
    both = [runs_of(experiment, one) for one in (method, BASELINE)]
    seeds = sorted(set(both[0]) & set(both[1]))
    sizes = [{size for seed in seeds for size in runs[seed][0]} for runs in both]
    last = min(max(some, default=0) for some in sizes)
    kept = {size for some in sizes for size in some if size >= last or experiment.uneven or size in sizes[0] & sizes[1]}
    pairs = [{seed: zip(*runs[seed], strict=True) for seed in seeds} for runs in both]
    one, other = ({seed: _run(pair for pair in run if pair[0] in kept) for seed, run in of.items()} for of in pairs)
    return one, other


def _run(pairs: Iterable[tuple[int, float]]) -> Run:
    known = list(pairs)
    return tuple(size for size, _ in known), tuple(value for _, value in known)


def unlike(experiment: Experiment) -> list[str]:
    """What has to be said where methods have not been run, or not been measured, alike.

    >>> unlike(Experiment("digits", [Curve("random", 0, [10], {}), Curve("bald", 1, [10], {})]))
    ['Not every method has been run with every seed: only those in common are compared.']
    """
    seeds = [{run.seed for run in experiment.of(method)} for method in experiment.methods]
    sizes = [{size for run in experiment.of(method) for size in run.sizes} for method in experiment.methods]
    last = min((max(one, default=0) for one in sizes), default=0)
    grids = [] if experiment.uneven else [{size for size in one if size < last} for one in sizes]
    words = "Not every method has been {}: only those in common are compared."
    of = {"run with every seed": seeds, "measured at the same numbers of labels": grids}
    return [words.format(what) for what, some in of.items() if any(one != some[0] for one in some)]


def _row(experiment: Experiment, method: str, target: float) -> Row:
    higher = higher_is_better(experiment.metric)
    runs = paired(experiment, method)[0] or runs_of(experiment, method)
    needed = quartiles(runs.values(), target, higher=higher)
    reached = sum(labels_to(*run, target, higher=higher) is not None for run in runs.values())
    saved = None if method == BASELINE else _saved(experiment, method, target)
    return Row(method, target, needed, reached, len(runs), saved)


def _saved(experiment: Experiment, method: str, target: float, among: int = 1) -> Saving | None:
    """What a method saves, from the medians of both over the seeds that both have, with a bootstrap over these; `among`
    is of how many methods it is the best.
    """
    both, higher = paired(experiment, method), higher_is_better(experiment.metric)
    by_seed = labels_saved(*both, target, higher=higher)
    if by_seed is None:
        return None
    mine, theirs = (quartiles(some.values(), target, higher=higher)[1] for some in both)
    interval = None
    if by_seed.pairs >= ENOUGH:
        drawn = np.random.default_rng(0).integers(by_seed.pairs, size=(_RESAMPLED, by_seed.pairs))
        known = [[needed_labels(run, target, higher) for run in some.values()] for some in both]
        ends = np.array([[end for one in some for end in (one.low, one.high)] for some in known]).reshape(2, -1, 2)
        medians = np.median(ends[:, drawn], axis=2).swapaxes(0, 1).reshape(_RESAMPLED, 4)
        kinds, which = np.unique(medians, axis=0, return_inverse=True)
        shares = [share_saved(Known(*kind[:2]), Known(*kind[2:])) for kind in kinds.tolist()]
        low, high = np.array([(one.low, one.high) for one in shares]).T[:, which.reshape(-1)]
        low = np.quantile(low, 0.025 / among, method="lower")
        interval = Known(float(low), float(np.quantile(high, 1 - 0.025 / among, method="higher")))
    counts = len(experiment.of(method)), len(experiment.of(BASELINE))
    return Saving(share_saved(mine, theirs), interval, by_seed.seeds, by_seed.pairs, theirs, counts)


def _levels_of_baseline(experiment: Experiment) -> tuple[float, ...]:
    """What the baseline's median has come to after a half and three quarters of its labels, to three digits, rounded to
    the side that it has surely reached; empty without a baseline.
    """
    found, higher = bands(list(runs_of(experiment, BASELINE).values())), higher_is_better(experiment.metric)
    levels = []
    for part in (0.5, 0.75) if len(found.sizes) >= 4 else ():
        wanted = found.sizes[0] + part * (found.sizes[-1] - found.sizes[0])
        so_far = found.median[: int(np.searchsorted(found.sizes, wanted)) + 1]
        value = float(so_far.max() if higher else so_far.min())
        unit = 10.0 ** (math.floor(math.log10(abs(value) or 1.0)) - 2)
        levels.append(float(f"{(math.floor if higher else math.ceil)(value / unit) * unit:.6g}"))
    return tuple(sorted(dict.fromkeys(levels), reverse=not higher))


def _headline_target(experiment: Experiment, rows: tuple[Row, ...]) -> float | None:
    """The target of the headline: the last that the baseline's median reached, else the last that anyone's did."""
    for candidates in ([row for row in rows if row.method == BASELINE], rows):
        if reached := {row.target for row in candidates if row.needed[1].exact}:
            return [level for level in targets(experiment) if level in reached][-1]
    return None


def _rank(saved: Saving | None) -> tuple[float, float]:
    return (-math.inf, -math.inf) if saved is None else (saved.share.low, saved.share.high)


def _in_brackets(saved: Saving | None) -> str:
    """What a method saved; nothing where nothing is known."""
    if saved is None or math.isinf(saved.share.low):
        return ""
    return f" ({'' if saved.share.exact else '≥ '}{_percent(saved.share.low)} %)"


def _interval(saved: Saving, among: int) -> str:
    known = saved.interval or saved.seeds
    doubt = "" if known.low > 0 else ", so perhaps none"
    words = f"95 % interval{' widened for that:' if among > 1 else ''}" if saved.interval else "seeds give"
    return f"{words} {span(known)}{doubt}"


def _ends(experiment: Experiment) -> tuple[int, str, dict[str, tuple[float, int]]]:
    """The last number of labels that all methods have come to (with junk each run's own), in words, and of each method
    the median there over the seeds that all have (else over its own), and of how many runs.
    """
    runs = {method: runs_of(experiment, method) for method in experiment.methods}
    sizes = [{size for some, _ in of.values() for size in some} for of in runs.values()] or [set()]
    last = max(set.union(*sizes), default=0)
    at = last if experiment.uneven else max(set.intersection(*sizes), default=last)
    own = {method: {seed: dict(zip(*run, strict=True)) for seed, run in of.items()} for method, of in runs.items()}
    if experiment.uneven:
        own = {method: {seed: {at: run[max(run)]} for seed, run in of.items() if run} for method, of in own.items()}
    there = {method: {seed: run[at] for seed, run in of.items() if at in run} for method, of in own.items()}
    common = set.intersection(*([set(one) for one in there.values() if one] or [set()]))
    kept = {method: [one[seed] for seed in one if seed in (common or one)] for method, one in there.items()}
    where = "at the end" if at == last else f"at {at} labels"
    return at, where, {method: (statistics.median(one or [math.nan]), len(one)) for method, one in kept.items()}


def _where_it_ended(experiment: Experiment) -> str:
    at, where, ends = _ends(experiment)
    known = {method: one for method, one in ends.items() if one[1]}
    if not known:
        return "Nothing has been measured yet."
    best = (max if higher_is_better(experiment.metric) else min)(known, key=lambda method: known[method][0])
    value, count = known[best]
    reading = f"{best} {'ended' if where == 'at the end' else 'was'} at"
    reading += f" {experiment.metric} {level(experiment.metric, value)} with {at} labels"
    if best != BASELINE and BASELINE in known:
        reading += f", {BASELINE} at {level(experiment.metric, known[BASELINE][0])}"
    among = f"the best of {len(known)} methods, " if len(known) > 2 else ""
    return f"{reading} ({among}{_seeds(count, [len(experiment.of(method)) for method in known])})."


def _seeds(count: int, runs: Sequence[int] = ()) -> str:
    """How many seeds a sentence speaks of; with the numbers of runs where there are more."""
    words = "one seed" if count == 1 else f"medians of {count} seeds"
    of = " and ".join(map(str, sorted(set(runs))))
    return words if max(runs, default=0) <= count else f"{words} in common, of {of}"


def _percent(value: float) -> str:
    return _hundredths(value, 0).replace("-", "−")


def _hundredths(value: float, digits: int) -> str:
    """A share in per cent, with more digits where less than all would be read as all."""
    while value < 1 and float(f"{100 * value:.{digits}f}") == 100 and digits < 9:
        digits += 1
    text = f"{100 * value:.{digits}f}"
    return "0" if float(text) == 0 else text.removesuffix("." + "0" * digits)
