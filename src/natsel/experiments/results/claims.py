"""Claims: what the runs of a recipe are expected to show, declared in its file and judged from the runs.

    { claim = "H6", says = "EPIG is above BALD", method = "epig", than = "bald", at = 100 }
    { claim = "H6", says = "most of all here", kind = "gap", method = "epig", than = "bald", largest = "redundant" }
    { claim = "H3", says = "BALD loses as the pool grows", kind = "falls", method = "bald" }

    above     median over seeds of (metric of one method − metric of another), seed by seed, larger than the margin
    gap       that median is larger in one variant than in every other
    falls     the method's median falls from each variant to the next
    log-error the method's mean ln(error) is below that of another, over all data sets of a group of variants (see
              `natsel.experiments.results.log_errors`); `variants` names groups, or all are meant

`at` says where curves are compared: at so many labels, over [from, to], at the "end", or over "all" of them. `margin`
is the least difference that counts (below 0: "not worse by more"); `variants` are the variants that it is about.

Two methods are compared by the seeds and sizes that both have. A claim is open where there are none, or where a run of
these seeds is under way, died before the labels it speaks of, or has an error that is no number: nobody gains by a run
that is left out. Else it holds ("pass") or does not ("fail"), by the median; where a 95 % interval (of "log-error" that
over seeds) holds the margin, it is "not beyond chance". Too few seeds for one: the least and the greatest are told.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np

from natsel.experiments.recipe.checks import Table, each, key, number, one_of, text, whole
from natsel.experiments.results.experiment import Curve, Experiment, is_share

Floats = np.ndarray[Any, np.dtype[np.float64]]
Verdicts = Sequence[Mapping[str, Any]]
"""Verdicts as plain values, which is how files hold them: see `ClaimVerdict.as_dict`."""

CHANCE = "not beyond chance"
_NEEDS = {"above": {"than"}, "gap": {"than", "largest"}, "falls": set(), "log-error": {"than"}}
"""The kinds of claims, and which keys of a comparison each needs."""


def _at(value: Any, key: str) -> int | tuple[int, int] | str:
    if isinstance(value, str):
        return str(one_of("end", "all")(value, key))
    if isinstance(value, list | tuple):
        low, *rest = each(whole(0))(value, key)
        if len(rest) != 1 or rest[0] < low:
            raise ValueError(f"{key}: expected [from, to] in labels, found {list(value)}")
        return int(low), int(rest[0])
    return int(whole(0)(value, key))


@dataclass(frozen=True)
class Claim(Table):
    """A claim about methods of a recipe, or across the variants of a plan; see the module.

    >>> Claim.from_table({"claim": "H4", "says": "EPIG is above random", "method": "epig", "than": "random"}).at
    'end'
    """

    claim: str = key(text)
    says: str = key(text)
    method: str = key(text)
    than: str = key(text, default="")
    kind: str = key(one_of(*_NEEDS), default="above")
    at: int | tuple[int, int] | str = key(_at, default="end")
    metric: str = key(text, default="accuracy")
    margin: float = key(number(-1, 1), default=0.0)
    largest: str = key(text, default="")
    variants: tuple[str, ...] = key(each(text), default=())

    @classmethod
    def from_table(cls, found: Any, where: str = "claims") -> Self:
        """A claim from a recipe's entry."""
        made = super().from_table(found, where)
        for name in ("than", "largest"):
            if not getattr(made, name) and name in _NEEDS[made.kind]:
                raise ValueError(f"{where}.{name}: the recipe does not say; add it")
            if getattr(made, name) and name not in _NEEDS[made.kind]:
                raise ValueError(f"{where}.{name}: a claim of kind {made.kind!r} takes none; take it out")
        if made.kind == "log-error" and "at" in found:
            raise ValueError(f"{where}.at: a claim of kind 'log-error' is about all rounds; take it out")
        if made.kind == "log-error" and is_share(made.metric):
            raise ValueError(f"{where}.metric: 'log-error' speaks of an error, found {made.metric!r}; name one: rmse")
        return made


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim, whether it held (None: open, or `chance`: what was found may be chance), and why.

    >>> ClaimVerdict("H1", "EPIG goes to 0", True, "0.0007 nats").word
    'pass'
    """

    claim: str
    says: str
    passed: bool | None
    evidence: str
    where: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    chance: bool = False

    @property
    def word(self) -> str:
        """How it ended, in a word."""
        return CHANCE if self.chance else "open" if self.passed is None else "pass" if self.passed else "fail"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"verdict": self.word}


def judged(claims: Sequence[Claim], experiment: Experiment) -> list[ClaimVerdict]:
    """The verdict of each claim about one experiment.

    >>> runs = [Curve(name, 0, [10, 20], {"accuracy": [0.5, end]}) for name, end in (("bald", 0.8), ("epig", 0.9))]
    >>> judged([Claim("H6", "EPIG is above BALD", "epig", "bald")], Experiment("digits", runs))[0].word
    'pass'
    """
    return [_above(claim, experiment) for claim in claims if claim.kind == "above"]


def judged_across(
    claims: Sequence[Claim],
    experiments: Mapping[str, Experiment],
    groups: Mapping[str, Sequence[str]] | None = None,
) -> list[ClaimVerdict]:
    """The verdict of each claim that compares variants, in the order of the variants; `groups` are those of a grid."""
    found = []
    for claim in (one for one in claims if one.kind != "above"):
        if claim.kind == "log-error":
            wanted = {name: group for name, group in (groups or {}).items() if name in (claim.variants or groups or ())}
            found += [_log_error(claim, name, group, experiments) for name, group in wanted.items()]
        else:
            named = (*claim.variants, claim.largest) if claim.variants else tuple(experiments)
            kept = {name: one for name, one in experiments.items() if name in named}
            found.append((_gap if claim.kind == "gap" else _falls)(claim, kept))
    return found


def counted(verdicts: Verdicts) -> str:
    """How many claims held, in a sentence.

    >>> counted([{"verdict": "pass"}, {"verdict": "fail"}])
    '1 of 2 claims held, 1 did not hold.'
    """
    count = Counter(str(one["verdict"]) for one in verdicts)
    parts = [f"{count['pass']} of {len(verdicts)} claims held"]
    parts += [f"{count[CHANCE]} {'is' if count[CHANCE] == 1 else 'are'} {CHANCE}"] if count[CHANCE] else []
    parts += [f"{count['fail']} did not hold"] if count["fail"] else []
    parts += [f"{count['open']} {'is' if count['open'] == 1 else 'are'} open"] if count["open"] else []
    return ", ".join(parts) + "."


def as_lines(verdicts: Verdicts) -> list[str]:
    """One line of text for each claim.

    >>> as_lines([{"claim": "H1", "says": "it is so", "verdict": "pass", "evidence": "3 > 2", "where": ""}])
    ['pass  H1  it is so: 3 > 2']
    """
    placed = [dict(one) | {"place": f"{one['where']}: " if one.get("where") else ""} for one in verdicts]
    return ["{verdict}  {claim}  {place}{says}: {evidence}".format(**one) for one in placed]


def value_at(curve: Curve, metric: str, at: int | tuple[int, int] | str, among: Sequence[int] = ()) -> float | None:
    """A curve's mean over the labels a claim speaks of, at the sizes `among`; None where it has no finite one there.

    >>> value_at(Curve("bald", 0, [10, 20, 30], {"accuracy": [0.5, 0.7, 0.9]}), "accuracy", (20, 30))
    0.8
    """
    sizes, values = np.array(curve.sizes), np.array(curve.metrics.get(metric, ()), dtype=np.float64)
    if not len(values):
        return None
    whole = {"end": (sizes[-1], sizes[-1]), "all": (0, sizes[-1])}
    low, high = whole[at] if isinstance(at, str) else at if isinstance(at, tuple) else (at, at)
    wanted = (sizes >= low) & (sizes <= high) & ~np.isnan(values) & (np.isin(sizes, among) if len(among) else True)
    if sizes[-1] < high or not wanted.any():  # a run that ended before is no evidence for what comes later
        return None
    return float(values[wanted].mean()) if np.isfinite(values[wanted]).all() else None


def _value(claim: Claim, experiment: Experiment, curve: Curve, beside: Curve) -> float | None:
    """What a claim says about a run; None of one that has not come so far."""
    ended = claim.at not in ("end", "all") or curve in experiment.ended(curve.method)
    among = () if claim.at == "end" or experiment.uneven else beside.sizes
    return value_at(curve, claim.metric, claim.at, among) if ended else None


def _differences(claim: Claim, experiment: Experiment) -> tuple[Floats, Floats, Floats] | str:
    """The values of both methods and their differences (above 0: the first is better) by seed; or what is missing."""
    from natsel.evaluation.curves import higher_is_better  # waits for torch, which reading a recipe does not need

    one, other = ({run.seed: run for run in experiment.of(method)} for method in (claim.method, claim.than))
    pairs = {
        seed: (_value(claim, experiment, one[seed], other[seed]), _value(claim, experiment, other[seed], one[seed]))
        for seed in sorted(set(one) & set(other))
    }
    missing = [str(seed) for seed, pair in pairs.items() if None in pair]
    if len(missing) == len(pairs):
        sizes = sorted({size for run in (*one.values(), *other.values()) for size in run.sizes})
        at = f"; they were measured at {', '.join(map(str, sizes))}" if isinstance(claim.at, int) else ""
        return f"no seed has runs of both {claim.method} and {claim.than} {_place(claim)}{at}"
    if missing:
        words = "has not come so far, or has no finite value there"
        return f"a run of {claim.method} or {claim.than} with seed {' and '.join(missing)} {words}"
    first, second = np.array(list(pairs.values()), dtype=np.float64).T
    return first, second, first - second if higher_is_better(claim.metric) else second - first


def _above(claim: Claim, experiment: Experiment) -> ClaimVerdict:
    from natsel.evaluation.savings import median_interval

    pairs = _differences(claim, experiment)
    if isinstance(pairs, str):
        return ClaimVerdict(claim.claim, claim.says, None, pairs)
    first, second, difference = pairs
    median, wins = float(np.median(difference)), int((difference > 0).sum())
    evidence = (
        f"{claim.method} against {claim.than} {_place(claim)}: median difference {_signed(claim, median)} (pairs of"
        f" runs: {len(difference)}, {claim.method} better in {wins}; medians of each"
        f" {_shown(claim, np.median(first))} and {_shown(claim, np.median(second))})"
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
    return _judged(claim, median, interval, evidence, numbers=numbers)


def _judged(claim: Claim, found: float, interval: Any, evidence: str, **rest: Any) -> ClaimVerdict:
    """By the interval where there is one: it is beyond chance where it leaves the margin out."""
    chance = interval is not None and interval.low <= claim.margin <= interval.high
    passed = None if chance else found > claim.margin
    return ClaimVerdict(claim.claim, claim.says, passed, evidence, chance=chance, **rest)


def _gap(claim: Claim, experiments: Mapping[str, Experiment]) -> ClaimVerdict:
    pairs = {name: _differences(claim, experiment) for name, experiment in experiments.items()}
    gaps = {name: float(np.median(found[2])) for name, found in pairs.items() if not isinstance(found, str)}
    if claim.largest not in gaps or len(gaps) < max(2, len(pairs)):
        return ClaimVerdict(claim.claim, claim.says, None, "runs of two variants or more are needed to compare")
    others = max(gap for name, gap in gaps.items() if name != claim.largest)
    evidence = ", ".join(f"{name} {_signed(claim, gap)}" for name, gap in gaps.items())
    passed = gaps[claim.largest] > others + claim.margin
    evidence = f"{claim.method} against {claim.than} {_place(claim)}: {evidence}"
    return ClaimVerdict(claim.claim, claim.says, passed, evidence, numbers={"gaps": gaps})


def _falls(claim: Claim, experiments: Mapping[str, Experiment]) -> ClaimVerdict:
    found = {name: [_value(claim, one, run, run) for run in one.of(claim.method)] for name, one in experiments.items()}
    medians = {name: float(np.median(np.array(of, float))) for name, of in found.items() if of and None not in of}
    if len(medians) < max(2, sum(map(bool, found.values()))):
        return ClaimVerdict(claim.claim, claim.says, None, f"runs of {claim.method} in two variants or more are needed")
    steps = np.diff(list(medians.values()))
    evidence = f"{claim.method} {_place(claim)}: " + ", ".join(
        f"{name} {_shown(claim, value)}" for name, value in medians.items()
    )
    falls = bool((steps < -claim.margin).all())
    return ClaimVerdict(claim.claim, claim.says, falls, evidence, numbers={"medians": medians})


def _log_error(claim: Claim, name: str, group: Sequence[str], experiments: Mapping[str, Experiment]) -> ClaimVerdict:
    from natsel.evaluation.savings import Known  # waits for torch, as the next one does
    from natsel.experiments.results.log_errors import difference, interval, log_errors, signed, without_mean

    known = {variant: experiments[variant] for variant in group if variant in experiments}
    of_both = [log_errors(known, method, claim.metric) for method in (claim.method, claim.than)]
    found = difference(*of_both)
    if found is None or set(found.by_set) != set(group):
        missing = f"not all of {len(group)} data sets have runs of both {claim.method} and {claim.than} to the end"
        return ClaimVerdict(claim.claim, claim.says, None, missing, name)
    untold = [one for method in (claim.method, claim.than) for one in without_mean(known, method, claim.metric)]
    if untold:
        return ClaimVerdict(claim.claim, claim.says, None, f"no mean can be told of {', '.join(untold)}", name)
    evidence = (
        f"ln({claim.metric}) of {claim.method} minus {claim.than}: {signed(found.mean)}"
        f"{interval(found.over_seeds, ', 95 % interval over seeds ')}"
        f"{interval(found.over_sets, ', over data sets ')}; below 0 on {found.below} of {len(found.by_set)} data sets"
        f" ({found.pairs} pairs of runs)"
    )
    ends = {name: one and [one.low, one.high] for name, one in vars(found).items() if name.startswith("over_")}
    numbers = {"difference": found.mean, "pairs": found.pairs, "by_set": found.by_set, **ends}
    seeds = found.over_seeds and Known(-found.over_seeds.high, -found.over_seeds.low)
    return _judged(claim, -found.mean, seeds, evidence, where=name, numbers=numbers)


def _place(claim: Claim) -> str:
    if isinstance(claim.at, tuple):
        return f"over {claim.at[0]} to {claim.at[1]} labels"
    return {"end": "at the end", "all": "over all labels"}.get(str(claim.at), f"at {claim.at} labels")


def _shown(claim: Claim, value: Any) -> str:
    return f"{100 * float(value):.1f} %" if is_share(claim.metric) else f"{float(value):.4g}"


def _signed(claim: Claim, value: float) -> str:
    text = f"{100 * value:+.1f} points" if is_share(claim.metric) else f"{value:+.4g}"
    return text.replace("-", "−")
