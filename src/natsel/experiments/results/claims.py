"""Claims judged: what the runs say about what they were expected to show, with the evidence.

    above     median over seeds of (metric of one method − metric of another), seed by seed, larger than the margin
    gap       that median is larger in one variant than in every other
    falls     the method's median falls from each variant to the next

A claim is open where runs are missing: no seed in common, or curves that do not reach the labels it speaks of. Pass and
fail speak of medians; the evidence says how many seeds agree and gives a 95 % interval of the median or, where seeds
are too few for one, the least and the greatest of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from natsel.evaluation.curves import higher_is_better
from natsel.evaluation.savings import median_interval
from natsel.experiments.recipe.declared_claims import Claim
from natsel.experiments.results.experiment import Curve, Experiment
from natsel.experiments.results.summary import is_share

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Verdict:
    """A claim, whether it held (None: open), and why.

    >>> Verdict("H1", "EPIG goes to 0", True, "0.0007 nats").word
    'pass'
    """

    claim: str
    says: str
    passed: bool | None
    evidence: str
    where: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def word(self) -> str:
        """How it ended, in a word."""
        return "open" if self.passed is None else "pass" if self.passed else "fail"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"verdict": self.word}


def judged(claims: Sequence[Claim], experiment: Experiment, where: str = "") -> list[Verdict]:
    """The verdict of each claim about one experiment.

    >>> runs = [Curve(name, 0, [10, 20], {"accuracy": [0.5, end]}) for name, end in (("bald", 0.8), ("epig", 0.9))]
    >>> judged([Claim("H6", "EPIG is above BALD", "epig", "bald")], Experiment("digits", runs))[0].word
    'pass'
    """
    return [_above(claim, experiment, where) for claim in claims if claim.kind == "above"]


def judged_across(claims: Sequence[Claim], experiments: Mapping[str, Experiment]) -> list[Verdict]:
    """The verdict of each claim that compares variants, in the order of the variants."""
    return [(_gap if claim.kind == "gap" else _falls)(claim, experiments) for claim in claims if claim.kind != "above"]


def value_at(curve: Curve, metric: str, at: int | tuple[int, int] | str) -> float | None:
    """A curve's mean over the labels a claim speaks of; None where it was not measured there.

    >>> value_at(Curve("bald", 0, [10, 20, 30], {"accuracy": [0.5, 0.7, 0.9]}), "accuracy", (20, 30))
    0.8
    """
    sizes, values = np.array(curve.sizes), np.array(curve.metrics.get(metric, ()), dtype=np.float64)
    if not len(values):
        return None
    if at == "end":
        wanted = sizes == sizes[-1]
    elif at == "all":
        wanted = np.ones(len(sizes), dtype=bool)
    else:
        low, high = at if isinstance(at, tuple) else (at, at)
        if sizes[-1] < high:  # a run that ended before is no evidence for what comes later
            return None
        wanted = (sizes >= low) & (sizes <= high)
    wanted &= np.isfinite(values)
    return float(values[wanted].mean()) if wanted.any() else None


def _values(experiment: Experiment, method: str, claim: Claim) -> dict[int, float]:
    found = {curve.seed: value_at(curve, claim.metric, claim.at) for curve in experiment.of(method)}
    return {seed: value for seed, value in found.items() if value is not None}


def _differences(claim: Claim, experiment: Experiment) -> tuple[Floats, Floats, Floats] | None:
    """The values of both methods and their differences (above 0: the first is better) by seed; None without pairs."""
    one, other = (_values(experiment, method, claim) for method in (claim.method, claim.than))
    seeds = sorted(set(one) & set(other))
    if not seeds:
        return None
    first, second = (np.array([values[seed] for seed in seeds]) for values in (one, other))
    return first, second, first - second if higher_is_better(claim.metric) else second - first


def _above(claim: Claim, experiment: Experiment, where: str) -> Verdict:
    pairs = _differences(claim, experiment)
    if pairs is None:
        missing = f"no seed has runs of both {claim.method} and {claim.than} {_place(claim)}"
        return Verdict(claim.claim, claim.says, None, missing, where)
    first, second, difference = pairs
    median, wins = float(np.median(difference)), int((difference > 0).sum())
    evidence = (
        f"{claim.method} {_shown(claim, np.median(first))}, {claim.than} {_shown(claim, np.median(second))}"
        f" {_place(claim)}: {_signed(claim, median)} (median of {len(difference)} pairs of runs,"
        f" {claim.method} better in {wins})"
    )
    numbers = {"difference": median, "pairs": len(difference), "wins": wins, "differences": difference.tolist()}
    interval = median_interval(difference)
    if interval is not None:
        evidence += f", 95 % interval {_signed(claim, interval.low)} to {_signed(claim, interval.high)}"
        numbers["interval"] = [interval.low, interval.high]
    elif len(difference) > 1:
        evidence += f", seeds give {_signed(claim, difference.min())} to {_signed(claim, difference.max())}"
    if claim.margin:
        evidence += f"; more than {_signed(claim, claim.margin)} was wanted"
    return Verdict(claim.claim, claim.says, median > claim.margin, evidence, where, numbers)


def _gap(claim: Claim, experiments: Mapping[str, Experiment]) -> Verdict:
    pairs = {name: _differences(claim, experiment) for name, experiment in experiments.items()}
    gaps = {name: float(np.median(found[2])) for name, found in pairs.items() if found is not None}
    if claim.largest not in gaps or len(gaps) < 2:
        return Verdict(claim.claim, claim.says, None, "runs of two variants or more are needed to compare")
    others = max(gap for name, gap in gaps.items() if name != claim.largest)
    evidence = ", ".join(f"{name} {_signed(claim, gap)}" for name, gap in gaps.items())
    passed = gaps[claim.largest] > others + claim.margin
    evidence = f"{claim.method} − {claim.than} {_place(claim)}: {evidence}"
    return Verdict(claim.claim, claim.says, passed, evidence, "", {"gaps": gaps})


def _falls(claim: Claim, experiments: Mapping[str, Experiment]) -> Verdict:
    wanted = {name: one for name, one in experiments.items() if not claim.variants or name in claim.variants}
    found = {name: _values(one, claim.method, claim) for name, one in wanted.items()}
    medians = {name: float(np.median(list(values.values()))) for name, values in found.items() if values}
    if len(medians) < 2:
        return Verdict(claim.claim, claim.says, None, f"runs of {claim.method} in two variants or more are needed")
    steps = np.diff(list(medians.values()))
    evidence = f"{claim.method} {_place(claim)}: " + ", ".join(
        f"{name} {_shown(claim, value)}" for name, value in medians.items()
    )
    return Verdict(claim.claim, claim.says, bool((steps < -claim.margin).all()), evidence, "", {"medians": medians})


def _place(claim: Claim) -> str:
    if isinstance(claim.at, tuple):
        return f"over {claim.at[0]} to {claim.at[1]} labels"
    return {"end": "at the end", "all": "over all labels"}.get(str(claim.at), f"at {claim.at} labels")


def _shown(claim: Claim, value: Any) -> str:
    return f"{100 * float(value):.1f} %" if is_share(claim.metric) else f"{float(value):.4g}"


def _signed(claim: Claim, value: float) -> str:
    text = f"{100 * value:+.1f} points" if is_share(claim.metric) else f"{value:+.4g}"
    return text.replace("-", "−")
