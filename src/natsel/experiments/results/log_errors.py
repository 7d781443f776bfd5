"""Errors of methods averaged over data sets: the mean logarithm of each error, and how far a method is from random.

    log error of a run  =  mean over its rounds, the first left out, of ln(error)          lower is better
    of a method         =  mean over data sets of the mean over seeds
    difference          =  of the method − of the baseline, seed by seed                   below 0 is better; −0.1 is
                           an error smaller by a tenth

The variants of a group are averaged: a plan with a grid has a group for each value of its first axis, such as one kind
of model on several data sets. The first round is left out because all methods of a seed start alike. Runs that have not
come to the end, and those of which an error is 0, infinite or NaN, have no such mean: `without_mean` names them, and of
a method that has one of the latter nothing is told. `natsel.evaluation.paired_means` has the intervals.
docs/theory/black-box.md; Kirsch 2023, black-box batch active learning; Holzmüller et al. 2023.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from natsel.evaluation.of_belief import ERRORS, MEMBER
from natsel.evaluation.paired_means import PairedMean, paired_mean
from natsel.evaluation.savings import Known
from natsel.experiments.results.experiment import BASELINE, Curve, Experiment

BySet = Mapping[str, Mapping[int, float]]
"""A number for each seed of each data set."""


@dataclass(frozen=True)
class Entry:
    """One method and one error: its mean logarithm (∞ where it cannot be told), and its difference from the baseline
    (None for that itself).
    """

    log_error: float
    difference: PairedMean | None
    published: float | None = None


@dataclass(frozen=True)
class Group:
    """Variants that are averaged, and what came of it: an entry for each method and each error."""

    name: str
    variants: tuple[str, ...]
    metrics: tuple[str, ...]
    entries: Mapping[str, Mapping[str, Entry]]
    source: str = ""
    """Where the published numbers stand beside the entries come from."""
    untold: tuple[str, ...] = ()
    """Runs without a mean of the main error, in words."""

    @property
    def main(self) -> str:
        """The error that the group is judged by first: the root mean square, where it was measured."""
        return next((one for one in self.metrics if one.endswith("rmse")), self.metrics[0])

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "variants": list(self.variants),
            "methods": {
                method: {metric: _entry(one) for metric, one in row.items()} for method, row in self.entries.items()
            },
            **({"published": self.source} if self.source else {}),
        }


def group_of(
    name: str, experiments: Mapping[str, Experiment], published: Mapping[str, Any] | None = None
) -> Group | None:
    """What the experiments of a group say together; None where they measured no errors, or nothing in common.

    >>> def runs(method, end):
    ...     return [Curve(method, seed, [10, 20], {"rmse": [1.0, end]}) for seed in range(2)]
    >>> sets = {name: Experiment(name, runs("random", 1.0) + runs("bald", 0.5), metric="rmse") for name in "ab"}
    >>> round(group_of("forest", sets).entries["bald"]["rmse"].difference.mean, 4)  # ln ½
    -0.6931
    """
    member = bool(experiments) and all(one.metric.startswith(MEMBER) for one in experiments.values())
    wanted = [f"{MEMBER if member else ''}{error}" for error in ERRORS]
    metrics = tuple(one for one in wanted if all(_measured(metric, one) for metric in experiments.values()))
    if not metrics or not experiments:
        return None
    methods = tuple(dict.fromkeys(method for one in experiments.values() for method in one.methods))
    beside = _published(published or {})
    entries: dict[str, dict[str, Entry]] = {}
    for method in methods:
        row = {}
        for metric in metrics:
            values = log_errors(experiments, method, metric)
            if set(values) != set(experiments):
                continue
            base = {} if method == BASELINE else log_errors(experiments, BASELINE, metric)
            mean = float(np.mean([np.mean(list(seeds.values())) for seeds in values.values()]))
            known = beside.get(method, {}).get(metric.removeprefix(MEMBER))
            ended = [run for one in experiments.values() for run in one.ended(method)]
            whole = all(mean_log(run, metric) is not None for run in ended)
            row[metric] = Entry(mean, difference(values, base), known) if whole else Entry(math.inf, None, known)
        if row:
            entries[method] = row
    if not entries:
        return None
    group = Group(name, tuple(experiments), metrics, entries, str((published or {}).get("source", "")))
    return replace(group, untold=tuple(one for m in methods for one in without_mean(experiments, m, group.main)))


def log_errors(experiments: Mapping[str, Experiment], method: str, metric: str) -> dict[str, dict[int, float]]:
    """The mean ln(error) of each run of a method that has one, by experiment and seed; without any, none."""
    values = {name: {run.seed: mean_log(run, metric) for run in one.ended(method)} for name, one in experiments.items()}
    known = {name: {seed: value for seed, value in of.items() if value is not None} for name, of in values.items()}
    return {name: of for name, of in known.items() if of}


def without_mean(experiments: Mapping[str, Experiment], method: str, metric: str) -> list[str]:
    """The runs of a method that have no mean ln(error), in words.

    >>> without_mean({"wine": Experiment("wine", [Curve("bald", 0, [10, 20], {"rmse": [9, 0]})])}, "bald", "rmse")
    ['bald on wine with seed 0']
    """
    known, runs = log_errors(experiments, method, metric), {name: one.of(method) for name, one in experiments.items()}
    left_out = ((name, run.seed) for name, of in runs.items() for run in of if run.seed not in known.get(name, ()))
    return [f"{method} on {name} with seed {seed}" for name, seed in left_out]


def mean_log(curve: Curve, metric: str) -> float | None:
    """The mean of ln(error) over all rounds but the first; None where one is 0, infinite or NaN, or there is none.

    >>> mean_log(Curve("bald", 0, [10, 20, 30], {"rmse": [9.0, 1.0, 1.0]}), "rmse")
    0.0
    """
    values = curve.metrics.get(metric, ())[1:]
    whole = bool(values) and all(0 < value < math.inf for value in values)
    return sum(map(math.log, values)) / len(values) if whole else None


def difference(values: BySet, base: BySet) -> PairedMean | None:
    """Values of a method minus those of another, on the data sets and seeds that both have.

    >>> difference({"a": {0: 1.0, 1: 2.0}}, {"a": {0: 3.0, 1: 3.0}}).mean
    -1.5
    """
    pairs: dict[str, Sequence[float]] = {}
    for name in values:
        seeds = sorted(set(values[name]) & set(base.get(name, {})))
        pairs[name] = [values[name][seed] - base[name][seed] for seed in seeds]
    return paired_mean(pairs)


def curve_over_sets(
    experiments: Mapping[str, Experiment], method: str, metric: str
) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
    """For each seed that all experiments have: mean ln(error) over the experiments, at each number of labels."""
    by_set = [{run.seed: run for run in experiment.ended(method)} for experiment in experiments.values()]
    runs = []
    for seed in sorted(set.intersection(*(set(one) for one in by_set))) if by_set else ():
        curves = [one[seed] for one in by_set]
        sizes = sorted(set.intersection(*(set(curve.sizes) for curve in curves)))
        logs = [
            float(np.mean([np.log(curve.metrics[metric][curve.sizes.index(size)] or math.nan) for curve in curves]))
            for size in sizes
        ]
        runs.append((tuple(sizes), tuple(logs)))
    return runs


def as_lines(group: Group) -> list[str]:
    """The main error of each method in a table of text, with its difference from the baseline, best first."""
    ranked = sorted(group.entries, key=lambda method: group.entries[method][group.main].log_error)
    width = max(len(method) for method in ranked)
    lines = [f"{group.name}: mean ln({group.main}) over {len(group.variants)} data sets, and minus {BASELINE}:"]
    for method in ranked:
        entry = group.entries[method][group.main]
        found = entry.difference
        aside = "" if found is None else f"  {signed(found.mean)}{interval(found.over_seeds, ', seeds ')}"
        aside += "" if found is None else f"{interval(found.over_sets, ', data sets ')}"
        beside = "" if entry.published is None else f"  (published {signed(entry.published)})"
        lines.append(f"  {method.ljust(width)}  {signed(entry.log_error)}{aside}{beside}")
    return lines + ([f"  no mean can be told of {', '.join(group.untold)}"] if group.untold else [])


def signed(value: float) -> str:
    """A logarithm with its sign, to three digits; – for none.

    >>> signed(-0.1234), signed(0.5)
    ('−0.123', '+0.500')
    """
    return "–" if not math.isfinite(value) else f"{value:+.3f}".replace("-", "−")


def interval(known: Known | None, before: str = "") -> str:
    """An interval in words; empty where there is none.

    >>> interval(Known(-0.2, 0.1))
    '−0.200 to +0.100'
    """
    return "" if known is None else f"{before}{signed(known.low)} to {signed(known.high)}"


def _measured(experiment: Experiment, metric: str) -> bool:
    return any(metric in curve.metrics for curve in experiment.curves)


def _published(table: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Published numbers by method and error."""
    columns = table.get("columns", ())
    return {
        method: dict(zip(columns, row, strict=True))
        for method, row in table.items()
        if method not in ("columns", "source")
    }


def _entry(entry: Entry) -> dict[str, Any]:
    found: dict[str, Any] = {"log_error": entry.log_error if math.isfinite(entry.log_error) else None}
    if entry.difference is not None:
        one = entry.difference
        found |= {"difference": one.mean, "pairs": one.pairs, "by_set": one.by_set}
        found |= {"over_seeds": _ends(one.over_seeds), "over_sets": _ends(one.over_sets)}
    return found | ({} if entry.published is None else {"published": entry.published})


def _ends(known: Known | None) -> list[float] | None:
    return None if known is None else [known.low, known.high]
