"""Contenders on one case: time, memory, and the information of what they picked under one judge.

    cpu_ratio = CPU seconds of the contender / CPU seconds of natsel         same machine, same run, medians

Scores that a package reports of its own batch are never compared: estimators differ by more than selections
do.
"""

from collections.abc import Callable
from statistics import fmean, median
from typing import Any

from natsel.bench.cases import CALLED, CONTENDERS, Case
from natsel.bench.processes import Failed, Workers

CONFIGURATIONS = 500_000
# A contender that needs this long is not measured again: its time says what there is to say.
_LONG_S = 30.0
# From this share on a row says how much of its time went into collecting garbage.
_MUCH_GC = 0.05

Row = dict[str, Any]


def compare(
    case: Case,
    workers: Workers,
    *,
    unusable: dict[str, str],
    repeat: int = 3,
    configurations: int = CONFIGURATIONS,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Row]:
    """A row for every contender of a case; one that is missing or fails says so in its row."""
    progress(f"{case.name}: pool")
    case = workers.sized(case)
    runs: dict[str, list[Row]] = {name: [] for name in case.contenders}
    trouble: dict[str, tuple[str, str]] = {
        name: ("missing", unusable[CONTENDERS[name].package])
        for name in case.contenders
        if CONTENDERS[name].package in unusable
    }
    for turn in range(repeat):  # everyone once, then everyone again: what else the machine does is shared
        for name, done in runs.items():
            if name in trouble or (done and cpu_seconds(done[-1]) > _LONG_S):
                continue
            progress(f"{case.name}: {name}, run {turn + 1} of {repeat}")
            try:
                done.append(workers.select(case, name, seed=turn))
            except Failed as reason:
                trouble[name] = ("failed", str(reason))
    progress(f"{case.name}: judging")
    information = judge(workers, [run["indices"] for done in runs.values() for run in done], configurations)
    rows = [_row(case, name, done, trouble.get(name), information) for name, done in runs.items()]
    _add_ratios(rows)
    return rows


def judge(workers: Workers, batches: list[list[int]], configurations: int) -> dict[frozenset[int], tuple[float, float]]:
    """Information and standard error of each batch of the pool at hand, each set judged once."""
    sets = [batch for batch in dict.fromkeys(map(frozenset, batches)) if batch]
    if not sets:
        return {}
    judged = workers.on_pool("score", batches=[sorted(batch) for batch in sets], configurations=configurations)
    return dict(zip(sets, map(tuple, judged["information"]), strict=True))


def cpu_seconds(run: Row) -> float:
    """What a selection cost in all: making the belief and selecting from it."""
    return float(run["belief_cpu_s"] + run["select_cpu_s"])


def _row(
    case: Case,
    name: str,
    runs: list[Row],
    trouble: tuple[str, str] | None,
    information: dict[frozenset[int], tuple[float, float]],
) -> Row:
    who = CONTENDERS[name]
    sizes = {"N": case.N, "K": case.K, "C": case.C, "B": case.k, "S": case.S}
    status, reason = ("ok", "") if runs else trouble or ("failed", "")
    faults = dict.fromkeys(fault for run in runs for fault in run["faults"])
    notes = [who.note, CALLED.get((name, case.method), ""), reason if not runs else "", *faults]
    row: Row = {
        "case": case.name,
        "label": case.label,
        "method": case.method,
        "pool": case.label.split()[1],
        **sizes,
        "contender": name,
        "package": who.package,
        "status": status,
        "note": "; ".join(filter(None, notes)),
    }
    if not runs:
        return row
    judged = [information[batch] for run in runs if (batch := frozenset(run["indices"]))]
    return {
        **row,
        "cpu_s": median(map(cpu_seconds, runs)),
        "belief_cpu_s": median(run["belief_cpu_s"] for run in runs),
        "select_cpu_s": median(run["select_cpu_s"] for run in runs),
        "gc_cpu_s": median(run["gc_cpu_s"] for run in runs),
        "cpu_s_runs": [cpu_seconds(run) for run in runs],
        "wall_s": median(run["wall_s"] for run in runs),
        "peak_extra_mib": max(run["peak_extra_mib"] for run in runs),
        "information": fmean(value for value, _ in judged) if judged else None,
        "information_se": max(error for _, error in judged) if judged else None,
        "information_runs": [value for value, _ in judged],
        "indices": runs[0]["indices"],
    }


def _add_ratios(rows: list[Row]) -> None:
    """Compare each row with the first, which is natsel's."""
    base = rows[0]
    if base["status"] != "ok":
        return
    for row in rows:
        if row["status"] != "ok":
            continue
        row["cpu_ratio"] = row["cpu_s"] / base["cpu_s"]
        row["cpu_ratio_without_gc"] = (row["cpu_s"] - row["gc_cpu_s"]) / (base["cpu_s"] - base["gc_cpu_s"])
        if row["gc_cpu_s"] > _MUCH_GC * row["cpu_s"]:
            share = f"{row['gc_cpu_s'] / row['cpu_s']:.0%} of its CPU time is garbage collection"
            row["note"] = "; ".join(filter(None, (row["note"], f"{share}, {row['cpu_ratio_without_gc']:.3g}x without")))
        row["wall_ratio"] = row["wall_s"] / base["wall_s"]
        # Below a MiB a peak is the noise of the allocator.
        row["memory_ratio"] = max(1.0, row["peak_extra_mib"]) / max(1.0, base["peak_extra_mib"])
        # Batches drawn at random differ by luck, which says nothing of who drew them.
        if row["information"] is not None and row["method"] in ("bald", "batchbald"):
            row["difference_mnat"] = 1000 * (row["information"] - base["information"])
