"""Causal active learning: how soon the effect of a treatment is known, and which points each objective picks.

    f ~ GP(mean of the labels, two_arm_kernel),  y = f(x, t) + noise
    √PEHE = √ mean_n (τ̂_n − τ_n)² on test points, after every round of k labels

    synthetic   x on a line, propensities known; the kernel is given: 9 exp(−(x − x')²/(2·0.7²))·(0.3 + 0.7·1{t = t'}),
                noise 1
    ihdp        25 covariates and outcomes standardised; scale, length scale, correlation of the arms and noise by the
                likelihood of the first labels; propensities by logistic regression on all treatments

Pictures, whose model is an ensemble of networks, go through the same rounds: `causal_pictures.py`.

Of the points acquired after the first: the mean probability of the treatment that was not received, the 1-Wasserstein
distance of treated and control points, and the entropy of their histogram (`natsel.causal.overlap_of`).
docs/theory/causal-bald.md; Jesson et al. 2021.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from natsel.beliefs import Belief
from natsel.evaluation.curves import Bands
from natsel.experiments.report.charts import Axes, Line, chart, small_chart
from natsel.experiments.report.method_styles import key
from natsel.experiments.report.page import table
from natsel.experiments.results.claims import ClaimVerdict
from natsel.experiments.studies.units import Array, Units
from natsel.seeds import derive

Rows = list[dict[str, Any]]

RANDOM, OVERLAP, SIGN = "random", "propensity", "sign-error"
TAU, MU, RHO, MU_RHO, MU_PI, EXACT = "tau-bald", "mu-bald", "rho-bald", "mu-rho-bald", "mu-pi-bald", "rho-exact"
BY_OVERLAP = (OVERLAP, MU_PI, RHO, MU_RHO, MU, RANDOM, SIGN, TAU)
"""From most to least overlap of what is acquired, as in a reference run."""

_ARMS = ("control", "treated")
_TEMPERED = {RHO: 8.0, OVERLAP: 1.0}  # of half a logarithm; and propensities are not tempered
INSIDE = 1.5
"""Where synthetic points of both treatments are frequent: |x| below this."""
_BINS = {"synthetic": (-3.0, 3.0, 24), "ihdp": (0.0, 1.0, 20), "mnist": (-2.0, 2.0, 20)}
_AXIS = {"synthetic": "x", "ihdp": "estimated propensity", "mnist": "φ, which digit and brightness decide"}
_REFERENCE = {  # top 10 of 1,500 points, 8 seeds: √PEHE at 100 and 300 labels, at 300 inside, then overlap of acquired
    RANDOM: (1.51, 1.08, 0.35, 0.299, 1.20, 0.946),
    OVERLAP: (1.50, 1.43, 0.77, 0.685, 0.86, 0.809),
    SIGN: (1.57, 0.78, 0.46, 0.152, 2.41, 0.828),
    TAU: (1.98, 0.82, 0.54, 0.122, 2.81, 0.850),
    MU: (0.80, 0.66, 0.31, 0.343, 1.34, 0.956),
    RHO: (1.74, 1.68, 0.73, 0.476, 0.14, 0.667),
    MU_RHO: (0.80, 0.62, 0.26, 0.382, 1.01, 0.941),
    MU_PI: (1.08, 0.65, 0.26, 0.554, 0.39, 0.874),
    EXACT: (0.81, 0.63, 0.29, 0.417, 0.67, 0.928),
}


def run(settings: Mapping[str, Any], units: Units, device: str | None = None) -> dict[str, Any]:
    """The √PEHE of each method and trial after every round, and what was acquired."""
    return rounds(settings, partial(_task, settings), units)


class Learner(Protocol):
    """A model of both outcomes of all points of a task, which takes up more and more labels."""

    def observe(self, at_k: Array, outcome_k: Array) -> None:
        """Take up the outcomes of some points."""

    def believe(self, treatment_N: Array, propensity_N: Array) -> Belief:
        """What is believed about both outcomes of the first N points."""

    def effects(self, first: int) -> Array:
        """The expected effects of all points from this one on."""


@dataclass(frozen=True)
class Task:
    """What a trial has: N points to ask about, T to be judged by, and the model before its first label."""

    learner: Callable[[], Learner]
    features_N_D: Array
    """Of which the overlap of treatments is measured."""
    shown_N: Array
    """Of which acquired points are counted in the figure."""
    treatment_N: Array
    outcome_N: Array
    propensity_N: Array
    effect_T: Array
    start_n: Array
    outcome_scale: float = 1.0
    inside_T: Array | None = None
    """Whether a test point lies where both treatments are frequent."""


def rounds(settings: Mapping[str, Any], task_of: Callable[[int], Task], units: Units) -> dict[str, Any]:
    """Rows for each method and trial, all methods of a trial with the same task and first labels."""
    if RANDOM not in settings["methods"] or len(settings["methods"]) < 2:
        raise ValueError(f"methods: found {list(settings['methods'])}; all are compared with {RANDOM}: name both")
    if not 2 <= settings["start"] < settings["labels"]:
        raise ValueError(
            f"start: expected 2 or more, and less than the {settings['labels']} labels of the last round, found"
            f" {settings['start']}; change start or labels"
        )
    rows = []
    for trial in range(settings["trials"]):
        task = cache(partial(task_of, trial))  # made once, and only where something is left to measure
        for method in settings["methods"]:
            rows.append(units.measured(f"{trial}-{method}", partial(_acquired, settings, trial, method, task)))
        last = ", ".join(f"{row['method']} {row['pehe'][-1]:.3f}" for row in rows if row["trial"] == trial)
        units.tell(f"trial {trial + 1} of {settings['trials']}: √PEHE {last}")
    return {"rows": rows, **{name: settings[name] for name in ("set", "search", "trials", "start", "k")}}


def _task(settings: Mapping[str, Any], trial: int) -> Task:
    from natsel.causal import Propensity, causal_ihdp, causal_synthetic, treatment_of, two_arm_kernel
    from natsel.experiments.studies.two_arm_process import TwoArmProcess

    seed, synthetic = derive(settings["seed"], "trial", trial), settings["set"] == "synthetic"
    data = causal_synthetic(pool=settings["pool"], seed=seed) if synthetic else causal_ihdp(seed=seed)
    pool = data.pool[: settings["pool"]]
    inputs_N_D, inputs_T_D = (np.array(part.inputs, dtype=np.float64) for part in (pool, data.test))
    start_n = np.random.default_rng(derive(seed, "start")).permutation(len(pool))[: settings["start"]]
    outcome_N, scale, inside_T = np.asarray(pool.labels, dtype=np.float64), 1.0, None
    if synthetic:
        propensity_N, kernel, noise = np.asarray(pool.masks["propensity"]), two_arm_kernel(0.7), 1.0
        shown_N, inside_T = inputs_N_D[:, 0], abs(inputs_T_D[:, 0]) < INSIDE
    else:
        propensity_N = shown_N = Propensity(treatment=-1).fit(inputs_N_D)(inputs_N_D)
        middle_D, spread_D = inputs_N_D[:, :-1].mean(0), inputs_N_D[:, :-1].std(0)
        for part in (inputs_N_D, inputs_T_D):
            part[:, :-1] = (part[:, :-1] - middle_D) / np.where(spread_D > 0, spread_D, 1.0)
        scale = float(outcome_N[start_n].std()) or 1.0
        outcome_N = outcome_N / scale
        kernel, noise = _fitted(inputs_N_D[start_n], outcome_N[start_n])
    learner = partial(TwoArmProcess, kernel, noise, np.concatenate([inputs_N_D, inputs_T_D]))
    known = treatment_of(inputs_N_D, -1), outcome_N, propensity_N, data.effect_N, start_n
    return Task(learner, inputs_N_D[:, :-1], shown_N, *known, scale, inside_T)


def _fitted(inputs_n_D: Array, outcome_n: Array) -> tuple[Any, float]:
    """Kernel and noise by the likelihood of the first labels."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import WhiteKernel

    from natsel.causal import two_arm_kernel

    prior = two_arm_kernel(float(np.sqrt(inputs_n_D.shape[1])), 0.5, 1.0) + WhiteKernel(0.3, (1e-3, 10.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a value at its bound, such as arms without correlation
        found = GaussianProcessRegressor(prior).fit(inputs_n_D, outcome_n - outcome_n.mean()).kernel_
    return found.k1, float(found.k2.noise_level)


def _method(name: str, search: str) -> Any:
    """The method as it is, or drawn at temperature 0.25 (published runs of mu-pi-bald tempered only the variance)."""
    from natsel.choose.methods import resolve
    from natsel.search import Power, Softmax

    method = resolve(name)
    if search == "top" or name == RANDOM:
        return method
    in_nats = name in (SIGN, EXACT)  # all others are logarithms already
    return replace(method, search=Power(beta=4.0) if in_nats else Softmax(beta=_TEMPERED.get(name, 4.0)))


def _acquired(settings: Mapping[str, Any], trial: int, name: str, made: Callable[[], Task]) -> dict[str, Any]:
    """One run of active learning from the first labels to the last."""
    from natsel.causal import overlap_of, pehe
    from natsel.choose.select import select

    task = made()
    method, learner, pool = _method(name, settings["search"]), task.learner(), len(task.outcome_N)
    if pool < settings["labels"]:
        raise ValueError(f"labels: {settings['labels']} wanted, but the pool has {pool} points; ask for fewer")
    labelled, new = np.empty(0, dtype=np.int64), task.start_n
    row: dict[str, Any] = {"trial": trial, "method": name, "labels": [], "pehe": []}
    while len(new):
        learner.observe(new, task.outcome_N[new])
        labelled = np.concatenate([labelled, new])
        effect_T = learner.effects(pool)
        row["labels"].append(len(labelled))
        row["pehe"].append(pehe(effect_T, task.effect_T, task.outcome_scale))
        count, new = min(settings["k"], settings["labels"] - len(labelled)), new[:0]
        if count:
            belief, seed = learner.believe(task.treatment_N, task.propensity_N), derive(settings["seed"], name, trial)
            picked = select(method, belief, count, exclude=labelled, seed=derive(seed, len(labelled)))
            new = np.asarray(picked.ids, dtype=np.int64)
    later = labelled[len(task.start_n) :]
    points = np.concatenate([task.features_N_D, task.treatment_N[:, None]], 1)[later]
    found = overlap_of(points, task.propensity_N[later], treatment=-1)
    row |= {"counterfactual": found.counterfactual_propensity, "distance": found.distance, "entropy": found.entropy}
    if task.inside_T is not None:
        row["inside"] = pehe(effect_T[task.inside_T], task.effect_T[task.inside_T])
    low, high, bins = _BINS[settings["set"]]
    for arm, words in enumerate(_ARMS):
        of_arm = task.shown_N[later[task.treatment_N[later] == arm]]
        row[words] = np.histogram(of_arm, bins, (low, high))[0].tolist()
    return row


def claims(findings: Mapping[str, Any]) -> list[ClaimVerdict]:
    """What Jesson et al. 2021 found, judged by means over trials, with bars from a reference run.

    >>> claims({"rows": [], "set": "synthetic"})
    []
    """
    rows, synthetic = findings["rows"], findings["set"] == "synthetic"
    verdicts = [*_claims_last(rows), *_claims_overlap(rows)] if synthetic else _claims_paired(rows)
    verdicts += _claim_best(rows) if findings["set"] == "mnist" else []
    return [replace(one, where=f"{findings['set']}, {findings['search']}") for one in verdicts]


def _claims_last(rows: Rows) -> list[ClaimVerdict]:
    """By means at the last budget."""
    last, verdicts = {method: _mean(rows, method, "pehe") for method in _methods(rows)}, []
    for method, claim, others in _claimed(rows):
        words = f"at {rows[0]['labels'][-1]} labels {_listed(last, (method, *others))}"
        if claim == "C1":
            says = f"{method} ends at most at 0.7 times the √PEHE of {RANDOM}"
            verdicts.append(ClaimVerdict(claim, says, last[method] <= 0.7 * last[RANDOM], words))
        says = f"{method} does not end above the √PEHE of {', '.join(others)}"
        verdicts.append(ClaimVerdict(claim, says, all(last[method] <= last[other] for other in others), words))
    return verdicts


def _claims_paired(rows: Rows) -> list[ClaimVerdict]:
    """By ratios within a trial: √PEHE differs tenfold between the response surfaces of two trials of IHDP."""
    verdicts = []
    for method, claim, others in _claimed(rows):
        log_ratio_O_S_R = np.stack([_log_ratio(rows, method, other)[:, 1:] for other in others])  # all start alike
        if claim == "C1":
            ratio_R = np.exp(log_ratio_O_S_R[0].mean(0))
            says = f"√PEHE of {method} is below that of {RANDOM} at every budget, geometric mean of ratios"
            above = [str(n) for n, ratio in zip(rows[0]["labels"][1:], ratio_R, strict=True) if ratio >= 1]
            words = f"{ratio_R.min():.3f} to {ratio_R.max():.3f}; not below at: {', '.join(above) or 'none'}"
            verdicts.append(ClaimVerdict(claim, says, not above, words))
            p_R = [_chance(log_ratio_S) for log_ratio_S in log_ratio_O_S_R[0].T]
            says = f"√PEHE of {method} is below that of {RANDOM} at every budget, paired one-sided t-tests at 5 %"
            found = [p for p in p_R if p is not None]
            words = (
                f"p < 0.05 at {sum(p < 0.05 for p in found)} of {len(p_R)} budgets; largest {max(found, default=1):.2g}"
            )
            verdicts.append(ClaimVerdict(claim, says, max(found) < 0.05 if found else None, words))
        for other, log_ratio_S in zip(others, log_ratio_O_S_R.mean(2), strict=True):
            count, p = len(log_ratio_S), _chance(log_ratio_S)
            says = f"√PEHE of {method} is below that of {other}, mean over budgets, paired one-sided t-test at 5 %"
            words = f"geometric mean of ratios {np.exp(log_ratio_S.mean()):.3f}, lower in {(log_ratio_S < 0).sum()} of"
            words += f" {count} trials" + ("" if p is None else f", p = {p:.2g}")
            verdicts.append(ClaimVerdict(claim, says, None if p is None else p < 0.05, words))
    return verdicts


def _chance(log_ratio_S: Array) -> float | None:
    """One-sided: that trials without a difference give ratios as low as these; None for fewer than three trials."""
    from scipy.stats import ttest_1samp

    return float(ttest_1samp(log_ratio_S, 0.0, alternative="less").pvalue) if len(log_ratio_S) > 2 else None


def _claim_best(rows: Rows) -> list[ClaimVerdict]:
    """For inputs of many dimensions: by means over budgets and trials."""
    over = {method: float(_curves(rows, method)[:, 1:].mean()) for method in _methods(rows)}
    if MU_RHO not in over:
        return []
    says = f"√PEHE of {MU_RHO} is the lowest, mean over budgets and trials"
    return [ClaimVerdict("C6", says, min(over, key=over.__getitem__) == MU_RHO, _listed(over, tuple(over)))]


def _claims_overlap(rows: Rows) -> list[ClaimVerdict]:
    """By means over what was acquired."""
    if not set(BY_OVERLAP) <= set(_methods(rows)):
        return []
    overlap, distance, entropy = (
        {method: _mean(rows, method, name) for method in BY_OVERLAP}
        for name in ("counterfactual", "distance", "entropy")
    )
    ordered = all(overlap[one] > overlap[other] for one, other in pairwise(BY_OVERLAP))
    alike = max(distance[RHO], distance[MU_PI]) <= distance[RANDOM] / 2 and distance[OVERLAP] < distance[RANDOM]
    unlike = min(distance[TAU], distance[SIGN]) >= 1.5 * distance[RANDOM]
    even = entropy[MU_RHO] > max(entropy[RHO], entropy[OVERLAP])
    says = (
        f"mean probability of the other treatment at acquired points: {' > '.join(BY_OVERLAP)}",
        f"treated and control points: distance of {RHO} and {MU_PI} at most half that of {RANDOM}, of {OVERLAP} below"
        f" it, of {TAU} and {SIGN} at least 1.5 times it",
        f"{MU_RHO} spreads its points more evenly than {RHO} and {OVERLAP}",
    )
    return [
        ClaimVerdict("C3", says[0], ordered, _listed(overlap, BY_OVERLAP)),
        ClaimVerdict("C4", says[1], alike and unlike, _listed(distance, BY_OVERLAP)),
        ClaimVerdict("C5", says[2], even, f"entropy {_listed(entropy, (MU_RHO, RHO, OVERLAP))}"),
    ]


def _claimed(rows: Rows) -> list[tuple[str, str, tuple[str, ...]]]:
    """Objectives of uncertainty that labels can reduce, their claim, and the others that they are said to beat."""
    methods = _methods(rows)
    others = tuple(method for method in (RANDOM, OVERLAP, SIGN) if method in methods)
    claims = {MU_RHO: "C1", MU: "C2", MU_PI: "C2", RHO: "C2"}
    return [(method, claim, others) for method, claim in claims.items() if method in methods]


def sections(findings: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Learning curves, a table of methods beside those of a reference run, and which points each method picks."""
    rows, name = findings["rows"], findings["set"]
    methods, labels = _methods(rows), rows[0]["labels"]
    paired = name != "synthetic"
    words = "√PEHE over that of random, geometric mean" if paired else "√PEHE on test points, mean"
    lines = [_line(rows, method, place - 1 if place else None, paired) for place, method in enumerate(methods)]
    drawn = chart(lines, Axes("labels", f"{words} ± standard error", lambda value: f"{value:.3g}"), words)
    parts = [("curves", "How soon the effect is known", f'<div class="card">{drawn}</div>{_table(findings)}')]
    low, high, bins = _BINS[name]
    middle = np.linspace(low, high, bins + 1)[:-1] + (high - low) / bins / 2
    picks = [[_drawn(rows, method, arm, place, middle) for place, arm in enumerate(_ARMS)] for method in methods]
    scale, figures = [line for both in picks for line in both], []
    for method, both in zip(methods, picks, strict=True):
        drawn = small_chart(both, Axes(_AXIS[name], "points per trial"), f"Points that {method} picks", scale=scale)
        figures.append(f'<figure class="card"><figcaption>{method}</figcaption>{drawn}</figure>')
    about = f"<p>Points acquired after the first {labels[0]}, mean of trials: {key(0)} control, {key(1)} treated.</p>"
    body = f'{about}{_why_effects_mislead(rows)}<div class="panels">{"".join(figures)}</div>'
    return [*parts, ("picks", "Which points each method picks", body)]


def _why_effects_mislead(rows: Rows) -> str:
    """Of the objective that looks at the effect alone, what it asks about."""
    if not {TAU, MU_RHO} <= set(_methods(rows)):
        return ""
    share = {method: _mean(rows, method, "counterfactual") for method in (TAU, MU_RHO)}
    return (
        f"<p>{TAU} asks where the effect is unsure. Where nearly all points received one treatment it stays unsure,"
        " however many of them are labelled, as no label there shows the other outcome. The mean probability of the"
        f" other treatment is {share[TAU]:.2f} at the points it asks about, {share[MU_RHO]:.2f} with {MU_RHO}.</p>"
    )


def _table(findings: Mapping[str, Any]) -> str:
    rows, labels = findings["rows"], findings["rows"][0]["labels"]
    shown = [n for n in (100, 200, 300) if n in labels[:-1]] + labels[-1:]
    synthetic, cells = findings["set"] == "synthetic", []
    overlap = [*(["inside"] if synthetic else []), "counterfactual", "distance", "entropy"]
    for method in _methods(rows):
        values = [_curves(rows, method)[:, labels.index(n)] for n in shown]
        cell = [method, *(f"{value.mean():.2f} ± {_error(value):.2f}" for value in values)]
        cells.append(cell + [f"{_mean(rows, method, name):.3f}" for name in overlap])
    head = ["method", *(f"{n} labels" for n in shown)]
    head += [*([f"|x| &lt; {INSIDE:g}"] if synthetic else []), "other treatment", "distance", "entropy"]
    caption = (
        f"√PEHE, mean ± standard error of {findings['trials']} trials, {findings['k']} labels per round by"
        f" {findings['search']}; of acquired points: mean probability of the treatment not received, distance of"
        " treated and control points, entropy of their histogram"
    )
    body = f'<div class="card">{table(head, cells, caption)}</div>'
    if synthetic:
        head = ["method", "100 labels", "300 labels", *head[-4:]]
        lines = [[method, *(f"{value:g}" for value in values)] for method, values in _REFERENCE.items()]
        caption = "A reference run by other code: the 10 best of 1,500 points per round, 8 seeds"
        body += f'<p>{caption}:</p><div class="card">{table(head, lines, caption)}</div>'
    return body


def _line(rows: Rows, method: str, place: int | None, paired: bool) -> Line:
    values_S_R = _log_ratio(rows, method, RANDOM) if paired else _curves(rows, method)
    middle, error = values_S_R.mean(0), np.array([_error(value_S) for value_S in values_S_R.T])
    low, middle, high = (np.exp(one) if paired else one for one in (middle - error, middle, middle + error))
    sizes = np.array(rows[0]["labels"], dtype=np.float64)
    return Line(method, place, Bands(sizes, low, middle, high, np.full(len(middle), len(values_S_R))))


def _drawn(rows: Rows, method: str, arm: str, place: int, middle: Array) -> Line:
    counts = np.mean([row[arm] for row in _of(rows, method)], axis=0)
    return Line(arm, place, Bands(middle, counts, counts, counts, np.ones(len(counts), dtype=np.int64)))


def _methods(rows: Rows) -> list[str]:
    """Random first: it is the baseline."""
    return sorted(dict.fromkeys(row["method"] for row in rows), key=lambda method: method != RANDOM)


def _of(rows: Rows, method: str) -> Rows:
    return sorted((row for row in rows if row["method"] == method), key=lambda row: int(row["trial"]))


def _curves(rows: Rows, method: str) -> Array:
    return np.array([row["pehe"] for row in _of(rows, method)])


def _log_ratio(rows: Rows, method: str, other: str) -> Array:
    found: Array = np.log(_curves(rows, method) / _curves(rows, other))
    return found


def _mean(rows: Rows, method: str, name: str) -> float:
    """Over trials; of a curve, at its end."""
    return float(np.mean([row[name][-1] if name == "pehe" else row[name] for row in _of(rows, method)]))


def _error(values_S: Array) -> float:
    return float(values_S.std(ddof=1) / np.sqrt(len(values_S))) if len(values_S) > 1 else 0.0


def _listed(values: Mapping[str, float], methods: tuple[str, ...]) -> str:
    return ", ".join(f"{method} {values[method]:.3f}" for method in methods)
