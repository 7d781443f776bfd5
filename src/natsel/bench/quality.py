"""What BatchBALD batches are worth on a family of pools, under an outside judge.

    claimed    the total that natsel states                      worth     I[Y_batch; Ω] of `natsel.bench.judge`
    top-k      the worth of the k best BALD scores               reference the worth of a near-exhaustive greedy batch

on pools where labels tell little or much, points are independent, correlated or copies of each other, and committees
are real. Some picks of each batch are looked at one by one: was another point better at that step, and did the
selection say that noise decided? Where targets have too many labellings to list, JEPIG is sampled as well, and held to
the judge's. `verdict` holds all of it against the bars.
"""

import math
import time
from collections.abc import Callable
from statistics import fmean
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import natsel
from natsel.bench.cases import Case
from natsel.bench.judge import Beaten, beaten, joint_predictive_gains, worth
from natsel.bench.pools import make_pool
from natsel.bench.reference import reference_batch

CONFIGURATIONS = 200_000
# Steps looked at one by one in each batch, spread over it; a quarter of the labellings is enough for differences.
_STEPS = 4
_SHARE = 4


def quality(
    case: Case,
    *,
    seeds: int = 5,
    configurations: int = CONFIGURATIONS,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """One pool: claims and worth of natsel's batches over seeds, and of their rivals.

    >>> row = quality(Case("x", "batchbald", "independent:1", N=20, K=4, C=2, k=2), seeds=1, configurations=1000)
    >>> row["claimed"][0] == max(row["claimed"]), row["picks"]["seen"]
    (True, 2)
    """
    progress(f"{case.name}: pool")
    log_probs_N_K_C = make_pool(case.pool, case.N, case.K, case.C).double().log_softmax(-1)
    belief, plain_N_K_C = natsel.CategoricalSamples(log_probs_N_K_C), log_probs_N_K_C.numpy()
    known: dict[frozenset[int], tuple[float, float]] = {}

    def judged(indices: list[int]) -> tuple[float, float]:
        key = frozenset(indices)
        if key not in known:
            known[key] = worth(plain_N_K_C[sorted(key)], configurations)
        return known[key]

    progress(f"{case.name}: reference")
    reference, reference_error = judged(reference_batch(log_probs_N_K_C, case.k))
    top_k, top_k_error = judged(natsel.select("bald", belief, k=case.k).indices.tolist())
    possible = float(natsel.score("bald", belief).topk(case.k).values.sum())
    runs: list[dict[str, Any]] = []
    looked: list[dict[str, Any]] = []
    steps: dict[tuple[frozenset[int], int], Beaten] = {}
    for seed in range(seeds):
        progress(f"{case.name}: seed {seed}")
        start = time.process_time()
        batch = natsel.select("batchbald", belief, k=case.k, seed=seed)
        runs.append(
            {"claimed": batch.total, "cpu_s": time.process_time() - start, "worth": judged(batch.indices.tolist())}
        )
        picks = batch.indices.tolist()
        for step in _steps(case.k):
            key = frozenset(picks[:step]), picks[step]
            if key not in steps:
                steps[key] = beaten(plain_N_K_C, picks, step, configurations // _SHARE)
            looked.append(_look(batch, step, steps[key]))
    return {
        "case": case.name,
        "label": case.label,
        "configurations": configurations,
        "claimed": [run["claimed"] for run in runs],
        "worth": [run["worth"][0] for run in runs],
        "worth_se": max(run["worth"][1] for run in runs),
        "top_k": top_k,
        "top_k_se": top_k_error,
        "reference": reference,
        "reference_se": reference_error,
        "possible": min(possible, math.log(belief.shape[1])),
        "cpu_s": fmean(run["cpu_s"] for run in runs),
        "picks": {
            "seen": len(looked),
            "unflagged": sum(not look["flagged"] for look in looked),
            "beaten_unflagged": sum(look["beaten"] and not look["flagged"] for look in looked),
            "worst_share_of_best": min((look["share"] for look in looked), default=1.0),
            "beaten": [look for look in looked if look["beaten"] and not look["flagged"]],
        },
    }


def jepig_quality(
    case: Case,
    *,
    seeds: int = 5,
    configurations: int = CONFIGURATIONS,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """One pool and its targets: how far sampled JEPIG ranks points as the judge does, on five times the labellings.

    >>> case = Case("x", "jepig", "correlated:1", N=20, K=5, C=2, k=2, M=2)
    >>> min(jepig_quality(case, seeds=1, configurations=10_000)["rank_correlations"]) > 0.98
    True
    """
    progress(f"{case.name}: pool and targets")
    both_N_K_C = make_pool(case.pool, case.N + case.M, case.K, case.C).double().log_softmax(-1)
    targets, belief = (natsel.CategoricalSamples(part) for part in (both_N_K_C[: case.M], both_N_K_C[case.M :]))
    progress(f"{case.name}: judging")
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
    ranked = [min(row["rank_correlations"]) for row in jepig]
    bars = [
        {
            "bar": "rank correlation of sampled JEPIG with the judge's ≥ 0.98",
            "found": min(ranked),
            "at": jepig[ranked.index(min(ranked))]["case"],
            "holds": min(ranked) >= 0.98,
        }
        for _ in ranked[:1]
    ]
    if not rows:
        return bars
    against_top_k = [
        (min(row["worth"]) - row["top_k"]) / max(math.hypot(row["worth_se"], row["top_k_se"]), 1e-12) for row in rows
    ]
    to_reference = [[value / row["reference"] - 1 for value in row["worth"]] for row in rows]
    off = [max(abs(c / w - 1) for c, w in zip(row["claimed"], row["worth"], strict=True)) for row in rows]
    over = [max(row["claimed"]) - row["possible"] for row in rows]
    unflagged = sum(row["picks"]["unflagged"] for row in rows)
    lost = sum(row["picks"]["beaten_unflagged"] for row in rows)

    def bar(name: str, values: list[float], worst: float, holds: bool) -> dict[str, Any]:
        return {"bar": name, "found": worst, "at": rows[values.index(worst)]["case"], "holds": holds}

    mean_worst = [min(values) for values in to_reference]
    average = fmean(value for values in to_reference for value in values)
    return [
        bar(
            "worth − top-k BALD, in standard errors, ≥ −3", against_top_k, min(against_top_k), min(against_top_k) >= -3
        ),
        {"bar": "worth / reference − 1 on average ≥ −0.3 %", "found": average, "at": "all", "holds": average >= -0.003},
        bar("worth / reference − 1 at worst ≥ −1 %", mean_worst, min(mean_worst), min(mean_worst) >= -0.01),
        bar("|claimed / worth − 1| ≤ 0.5 %", off, max(off), max(off) <= 0.005),
        bar("claimed − possible ≤ 0", over, max(over), max(over) <= 1e-9),
        {
            "bar": "unflagged picks beaten by more than two claimed standard errors ≤ 5 %",
            "found": lost / max(1, unflagged),
            "at": f"{lost} of {unflagged}",
            "holds": lost <= 0.05 * unflagged,
        },
        *bars,
    ]
