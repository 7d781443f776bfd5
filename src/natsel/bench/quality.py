"""What BatchBALD batches are worth on a family of pools, under an outside judge.

    claimed    the total that natsel states                      worth     I[Y_batch; Ω] of `natsel.bench.judge`
    top-k      the worth of the k best BALD scores               reference the worth of a near-exhaustive greedy batch

on pools where labels tell little or much, points are independent, correlated or copies of each other, and committees
are real. Some picks of each batch are looked at one by one: was another point better at that step, and did the
selection say that noise decided? Where targets have too many labellings to list, JEPIG is sampled too, and compared
with that of the judge. `verdict` compares all of it with the bars. docs/theory/batchbald.md, 11.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from statistics import fmean
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

import natsel
from natsel.bench.cases import Case
from natsel.bench.judge import Beaten, beaten, joint_predictive_gains, worth
from natsel.bench.laps import timed
from natsel.bench.pools import make_pool
from natsel.information.joint_labels import DynamicJointEntropy

# Steps looked at one by one in each batch, spread over it; a quarter of the labellings is enough for differences.
_STEPS = 4
_SHARE = 4
_BEATEN = "unflagged picks beaten by more than two claimed standard errors ≤ 5 %"
# Levels of the reference: sampled configurations, and how many candidates go on to the next level.
_LEVELS = ((2_048, 64), (8_192, 8), (50_000, 1))


def judge_all(
    cases: Iterable[Case], document: dict[str, Any], seeds: int, progress: Callable[[str], None]
) -> Iterator[None]:
    """Add what is found on every pool, and the verdict so far, to a document, one pool per step."""
    for case in cases:
        progress(f"{case.name}: {seeds} seeds")
        key, judged = ("jepig", jepig_quality) if case.method == "jepig" else ("quality", quality)
        document[key].append(judged(case, seeds, document["configurations"]))
        document["verdict"] = verdict(document["quality"], document["jepig"])
        yield


def quality(case: Case, seeds: int = 5, configurations: int = 200_000) -> dict[str, Any]:
    """One pool: claims and worth of natsel's batches over seeds, and of their rivals.

    >>> row = quality(Case("x", "batchbald", "independent:1", N=20, K=4, C=2, k=2), seeds=1, configurations=1000)
    >>> row["claimed"][0] == max(row["claimed"]), row["picks"]["seen"]
    (True, 2)
    """
    log_probs_N_K_C = make_pool(case.pool, case.N, case.K, case.C).double().log_softmax(-1)
    belief, plain_N_K_C = natsel.CategoricalSamples(log_probs_N_K_C), log_probs_N_K_C.numpy()
    judged = cache(lambda batch: worth(plain_N_K_C[sorted(batch)], configurations))
    reference = judged(frozenset(reference_batch(log_probs_N_K_C, case.k)))
    top_k = judged(frozenset(natsel.select("bald", belief, k=case.k).ids.tolist()))
    possible = float(natsel.score("bald", belief).topk(case.k).values.sum())
    batches: list[natsel.Selection] = []
    took, _ = timed(lambda seed: batches.append(natsel.select("batchbald", belief, k=case.k, seed=seed)), seeds)
    looks: list[dict[str, Any]] = []
    steps: dict[tuple[frozenset[int], int], Beaten] = {}
    for batch in batches:
        picks = batch.ids.tolist()
        for step in _steps(case.k):
            key = frozenset(picks[:step]), picks[step]
            if key not in steps:
                steps[key] = beaten(plain_N_K_C, picks, step, configurations // _SHARE)
            looks.append(_look(batch, step, steps[key]))
    worths = [judged(frozenset(batch.ids.tolist())) for batch in batches]
    lost = [look for look in looks if look["beaten"] and not look["flagged"]]
    return {
        "case": case.name,
        "label": case.label,
        "configurations": configurations,
        "claimed": [batch.total for batch in batches],
        "worth": [value for value, _ in worths],
        "worth_se": max(error for _, error in worths),
        "top_k": top_k[0],
        "top_k_se": top_k[1],
        "reference": reference[0],
        "reference_se": reference[1],
        "possible": min(possible, math.log(belief.shape[1])),
        "cpu_s": fmean(took["cpu_seconds_runs"]),
        "picks": {
            "seen": len(looks),
            "unflagged": sum(not look["flagged"] for look in looks),
            "beaten_unflagged": len(lost),
            "worst_share_of_best": min((look["share"] for look in looks), default=1.0),
            "beaten": lost,
        },
    }


def reference_batch(log_probs_N_K_C: Tensor, k: int, seed: int = 0) -> list[int]:
    """A near-exhaustive greedy batch, i_t = argmax_i I[Y_i; Ω | Y_1..t−1]: positions of k points, in the order picked.

    Every candidate is scored at every step, with no bounds carried over and no race, on fresh configurations at each of
    three levels (all of them are listed while they are fewer). It uses the plain float64 formulas of
    `natsel.information.joint_labels`, and so is independent of the posterior rows, float32 products and lazy search of
    `natsel.select`. It is still greedy: another batch may beat it by luck of the path.

    >>> copies_N_K_C = torch.eye(2).log().expand(3, 2, 2)
    >>> reference_batch(copies_N_K_C, 2)
    [0, 1]
    """
    count, draws, _ = log_probs_N_K_C.shape
    generator = torch.Generator().manual_seed(seed)
    states = [DynamicJointEntropy(torch.zeros(draws), size, generator) for size, _ in _LEVELS]
    free_N = torch.ones(count, dtype=torch.bool)
    picks: list[int] = []
    for _ in range(min(k, count)):
        best_n = free_N.nonzero().squeeze(1)
        for state, (_, survivors) in zip(states, _LEVELS, strict=True):
            gain_n = state.gains(log_probs_N_K_C[best_n])
            best_n = best_n[gain_n.argsort(descending=True, stable=True)[:survivors]]
        picks.append(int(best_n[0]))
        free_N[picks[-1]] = False
        for state in states:
            state.add(log_probs_N_K_C[picks[-1]])
    return picks


def jepig_quality(case: Case, seeds: int = 5, configurations: int = 200_000) -> dict[str, Any]:
    """One pool and its targets: how far sampled JEPIG ranks points as the judge does, on five times the labellings.

    >>> case = Case("x", "jepig", "correlated:1", N=20, K=5, C=2, k=2, M=2)
    >>> min(jepig_quality(case, seeds=1, configurations=10_000)["rank_correlations"]) > 0.98
    True
    """
    both_N_K_C = make_pool(case.pool, case.N + case.M, case.K, case.C).double().log_softmax(-1)
    targets, belief = (natsel.CategoricalSamples(part) for part in (both_N_K_C[: case.M], both_N_K_C[case.M :]))
    plain_N_K_C = both_N_K_C.numpy()
    truth_N = joint_predictive_gains(plain_N_K_C[case.M :], plain_N_K_C[: case.M], 5 * configurations)
    apart_n = _apart(truth_N)
    scores = [natsel.score("jepig", belief, targets=targets, seed=seed).numpy() for seed in range(seeds)]
    return {
        "case": case.name,
        "label": f"{case.label} M={case.M}",
        "configurations": 5 * configurations,
        "mean": float(truth_N.mean()),
        "apart": len(apart_n),
        "rank_correlations": [float(spearmanr(score_N[apart_n], truth_N[apart_n])[0]) for score_N in scores],
        "rmse": [float(np.sqrt(np.square(score_N - truth_N).mean())) for score_N in scores],
    }


def _apart(score_N: Any) -> Any:
    """Positions whose scores differ by more than 1 % from the next lower of them."""
    kept = [int(score_N.argmin())]
    for position in score_N.argsort(kind="stable")[1:]:
        if score_N[position] - score_N[kept[-1]] > 0.01 * abs(score_N[position]):
            kept.append(int(position))
    return np.array(kept)


def _steps(k: int) -> list[int]:
    """A few steps, from 0, spread over a batch; the last is always among them."""
    return sorted({k - 1 - round(part * k / _STEPS) for part in range(_STEPS)} - set(range(-_STEPS, 0)))


def _look(batch: natsel.Selection, step: int, found: Beaten) -> dict[str, Any]:
    """One pick against the best point at its step: beaten by more than two of its claimed standard errors?"""
    assert batch.gaps is not None
    assert batch.gap_errors is not None
    gap, error = float(batch.gaps[step]), float(batch.gap_errors[step])
    # The judge has noise of its own, and picks within rounding of each other are level.
    sure = found.deficit - 3 * found.error > 2 * error + 1e-6
    return {
        "step": step,
        "flagged": error > 0 and gap < 2 * error,
        "beaten": sure,
        "deficit": found.deficit,
        "deficit_se": found.error,
        "claimed_se": error,
        "share": 1 - found.deficit / found.best if found.best > 1e-6 else 1.0,
    }


def verdict(rows: list[dict[str, Any]], jepig: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each bar, what was found, where it was worst, and whether it holds.

    >>> verdict([], [])
    []
    """
    bars = []
    if rows:
        names = [row["case"] for row in rows]
        to_reference = [[value / row["reference"] - 1 for value in row["worth"]] for row in rows]
        average = fmean(value for values in to_reference for value in values)
        unflagged, lost = (sum(row["picks"][key] for row in rows) for key in ("unflagged", "beaten_unflagged"))
        against_top_k = [
            (min(row["worth"]) - row["top_k"]) / max(math.hypot(row["worth_se"], row["top_k_se"]), 1e-12)
            for row in rows
        ]
        off = [max(abs(c / w - 1) for c, w in zip(row["claimed"], row["worth"], strict=True)) for row in rows]
        over = [max(row["claimed"]) - row["possible"] for row in rows]
        bars += [
            _bar("worth − top-k BALD, in standard errors, ≥ −3", against_top_k, names, least=-3),
            _bar("worth / reference − 1 on average ≥ −0.3 %", [average], ["all"], least=-0.003),
            _bar("worth / reference − 1 at worst ≥ −1 %", [min(values) for values in to_reference], names, least=-0.01),
            _bar("|claimed / worth − 1| ≤ 0.5 %", off, names, most=0.005),
            _bar("claimed − possible ≤ 0", over, names, most=1e-9),
            _bar(_BEATEN, [lost / max(1, unflagged)], [f"{lost} of {unflagged}"], most=0.05),
        ]
    if jepig:
        ranked, names = [min(row["rank_correlations"]) for row in jepig], [row["case"] for row in jepig]
        bars.append(_bar("rank correlation of sampled JEPIG with the judge's ≥ 0.98", ranked, names, least=0.98))
    return bars


def _bar(
    name: str, values: list[float], at: list[str], least: float = -math.inf, most: float = math.inf
) -> dict[str, Any]:
    worst = min(values) if most == math.inf else max(values)
    return {"bar": name, "found": worst, "at": at[values.index(worst)], "holds": least <= worst <= most}
