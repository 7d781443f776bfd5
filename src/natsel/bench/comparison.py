"""Contenders on one case: time, memory, and the information of what they picked under one judge.

    cpu_ratio       = CPU seconds of the contender / CPU seconds of natsel       same machine, same run, medians
    difference_mnat = 1000 · (information of the contender's batch − information of natsel's batch)

Scores that a package reports of its own batch are never compared: estimators differ by more than selections do.
"""

from collections.abc import Callable, Iterable, Iterator
from statistics import fmean, median
from typing import Any

from natsel.bench.cases import CALLED, CONTENDERS, Case
from natsel.bench.peer_worker import PEERS
from natsel.bench.workers import Failed, Workers

# A contender that needs this long is not measured again: its time says what there is to say.
_LONG_S = 30.0
# From this share on a row says how much of its time went into collecting garbage.
_MUCH_GC = 0.05

Row = dict[str, Any]


def compare_all(
    cases: Iterable[Case], document: dict[str, Any], peers_python: str, repeat: int, progress: Callable[[str], None]
) -> Iterator[None]:
    """Add the rows of all cases to a document, one case per step, and a warning for every peer that cannot be used."""
    versions = document["versions"]
    with Workers(peers_python, document["threads"]) as workers:
        try:
            versions["peers"] = workers.peers("versions")
            unusable = versions["peers"].pop("unusable")
        except Failed as reason:
            versions["peers"], unusable = {}, dict.fromkeys(PEERS, str(reason))
        document["warnings"] += [
            f"{package} cannot be used ({reason}); `natsel bench --setup DIR` installs it for `--python`"
            for package, reason in unusable.items()
        ]
        ours, theirs = versions["torch"], versions["peers"].get("torch", versions["torch"])
        if theirs.split("+")[0] != ours.split("+")[0]:
            warning = f"torch differs: {ours} for natsel, {theirs} for the peers; compare with care"
            document["warnings"].append(warning)
        common: dict[str, Any] = {"configurations": document["configurations"], "progress": progress}
        for case in cases:
            document["rows"] += compare(case, workers, unusable=unusable, repeat=repeat, **common)
            yield


def compare(
    case: Case,
    workers: Workers,
    *,
    unusable: dict[str, str],
    repeat: int = 3,
    configurations: int = 500_000,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Row]:
    """A row for every contender of a case; one that is missing or fails says so in its row."""
    progress(f"{case.name}: pool")
    case = workers.sized(case)
    runs: dict[str, list[Row]] = {name: [] for name in case.contenders}
    packages = {name: CONTENDERS[name].package for name in case.contenders}
    trouble = {name: ("missing", unusable[package]) for name, package in packages.items() if package in unusable}
    for turn in range(repeat):  # everyone once, then everyone again: what else the machine does is shared
        for name, done in runs.items():
            if name in trouble or (done and done[-1]["cpu_s"] > _LONG_S):
                continue
            progress(f"{case.name}: {name}, run {turn + 1} of {repeat}")
            try:
                done.append(workers.select(case, name, seed=turn))
            except Failed as reason:
                trouble[name] = ("failed", str(reason))
    progress(f"{case.name}: judging")
    information = workers.information([run["indices"] for done in runs.values() for run in done], configurations)
    rows = [_row(case, name, done, trouble.get(name), information) for name, done in runs.items()]
    _add_ratios(rows)
    return rows


def _row(
    case: Case,
    name: str,
    runs: list[Row],
    trouble: tuple[str, str] | None,
    information: dict[frozenset[int], tuple[float, float]],
) -> Row:
    who = CONTENDERS[name]
    status, reason = ("ok", "") if runs else trouble or ("failed", "")
    faults = dict.fromkeys(fault for run in runs for fault in run["faults"])
    row: Row = {
        "case": case.name,
        "label": case.label,
        "method": case.method,
        "pool": case.label.split()[1],
        **{"N": case.N, "K": case.K, "C": case.C, "B": case.k, "S": case.S},
        "contender": name,
        "package": who.package,
        "status": status,
        "note": "; ".join(filter(None, [who.note, CALLED.get((name, case.method), ""), reason, *faults])),
    }
    if not runs:
        return row
    judged = [information[batch] for run in runs if (batch := frozenset(run["indices"]))]
    times = ("cpu_s", "belief_cpu_s", "select_cpu_s", "gc_cpu_s", "wall_s")
    return {
        **row,
        **{key: median(run[key] for run in runs) for key in times},
        "cpu_s_runs": [run["cpu_s"] for run in runs],
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
    for row in (row for row in rows if row["status"] == "ok"):
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
