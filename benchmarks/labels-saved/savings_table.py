"""The summary: from the units that are there to one result file, and from that file to one table.

    area       mean accuracy over all numbers of labels of a run, the first batch of chance included
    better     of a set: the 95 % interval of Student's t over seeds of the paired differences lies above 0
    matched    labels at which the mean curve of a method first has the accuracy that random's has with 150, by straight
               lines; a set on which it never has it counts as the last number of labels, and is counted

Differences are in points (hundredths) and pair runs of one set, model and seed. Means count every set alike; their two
intervals are those of `natsel.evaluation.paired_means`: over seeds, and over sets.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from natsel.containers import write_text
from natsel.evaluation.paired_means import paired_mean
from natsel.evaluation.savings import Known
from protocol import Protocol, Unit
from units import read_unit

_OVER = ("over_seeds", "over_sets")

Curve = NDArray[np.float64]
Runs = dict[tuple[str, str, int], dict[str, Curve]]  # by set, method and seed: the columns of a run


def write_summary(
    protocol: Protocol, units: Iterable[Unit], folder: Path, result: Path, table: Path, command: str
) -> str:
    """Write the result file and the table of what is there; the table."""
    document = summary(protocol, units, folder, command)
    if not document["models"]:
        raise ValueError(f"--folder: no unit is in {folder}; run some first")
    write_text(result, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    text = as_table(document)
    write_text(table, text)
    return text


def summary(protocol: Protocol, units: Iterable[Unit], folder: Path, command: str) -> dict[str, Any]:
    """What the units in a folder come to, as plain values."""
    found: dict[str, Runs] = {}
    made: list[dict[str, str]] = []
    for unit in units:
        place = unit.path(folder)
        if place.exists():
            header, *lines = read_unit(place)
            if header["terms"] != protocol.digest(unit):
                raise ValueError(f"{place}: was run on other terms; move it away, or take another --folder")
            if header["versions"] not in made:
                made.append(header["versions"])
            columns = {
                name: np.array([one.get(name, 0) for one in lines]) for name in ("accuracy", "balanced", "seconds")
            }
            found.setdefault(unit.model, {})[unit.data, unit.method, unit.seed] = columns
    return {
        "about": "labels-saved: accuracy by number of labels, each method against others by pairs of runs, in points",
        "command": command,
        "protocol": {"terms": vars(protocol.terms), "seeds": protocol.seeds, "judged": vars(protocol.judged)},
        "versions": made[-1] if made else {},
        **({"also_made_with": made[:-1]} if len(made) > 1 else {}),
        "models": {
            model: {"settings": protocol.settings(model), **of_model(runs, protocol)} for model, runs in found.items()
        },
    }


def of_model(runs: Runs, protocol: Protocol) -> dict[str, Any]:
    """The comparison of all methods under one model."""
    sets, methods = list(dict.fromkeys(key[0] for key in runs)), list(dict.fromkeys(key[1] for key in runs))
    per_set = [len({seed for one, _, seed in runs if one == data}) for data in sets]
    against = [other for other in protocol.judged.against if other in methods]
    compared: dict[str, Any] = {
        method: {
            "against": {other: _compared(runs, method, other, protocol) for other in against if other != method},
            **({"labels_matched": _matched(runs, method, protocol)} if "random" in methods else {}),
            "seconds_per_batch": _rounded(
                np.median([run["seconds"][:-1].mean() for (_, one, _), run in runs.items() if one == method])
            ),
        }
        for method in methods
    }
    return {
        "sets": sets,
        "seeds": {"fewest": min(per_set), "most": max(per_set)},
        "methods": compared,
        "bars": {
            method: bars(one["against"], protocol) for method, one in compared.items() if "random" in one["against"]
        },
        "labels": protocol.terms.sizes,
        "curves": [
            {"set": data, "method": method, "seed": seed, "accuracy": " ".join(f"{one:.4f}" for one in run["accuracy"])}
            for (data, method, seed), run in runs.items()
        ],
    }


def bars(against: Mapping[str, Any], protocol: Protocol) -> dict[str, bool]:
    """Which thresholds of the protocol a method reached."""
    judged, chance = protocol.judged, against["random"]
    first = judged.at[0]
    others = [other for other in against if other != "random"]
    return {
        "area": chance["area"]["mean"] >= judged.area,
        "better": chance["better"] > judged.better * len(chance["by_set"]),
        "worse": chance["worse"] <= judged.worse,
        f"at {first}": chance[f"at {first}"]["mean"] > 0,
        **{f"ahead of {one}": (against[one]["area"]["over_sets"] or [0])[0] > 0 for one in others},
    }


def as_table(document: Mapping[str, Any]) -> str:
    """The result file as a page of tables."""
    judged = document["protocol"]["judged"]
    parts = [
        "# Labels saved\n\nWritten by `python benchmarks/labels-saved summary`; how to read it: README.md beside it.\n"
    ]
    for model, found in document["models"].items():
        fewest, most = found["seeds"].values()
        seeds = f"{fewest} to {most} seeds" if fewest < most else f"{most} seed{'s' if most > 1 else ''}"
        parts.append(f"## {model}: {len(found['sets'])} sets, {seeds}\n")
        heads = ["method", "area − random (over seeds; over sets)", "sets better / worse"]
        heads += [f"at {size}" for size in judged["at"]]
        heads += ["balanced", f"labels for random’s {judged['matched']}", "s per batch"]
        rows = []
        by_area = sorted(
            found["methods"].items(),
            key=lambda one: -one[1]["against"].get("random", {"area": {"mean": 0}})["area"]["mean"],
        )
        for method, one in by_area:
            needed = one.get("labels_matched")
            reached = "" if needed is None else f"{needed['mean']:.0f}"
            if needed and needed["never_on"]:
                reached += f" (never on {needed['never_on']})"
            chance = one["against"].get("random")
            rows.append(
                [f"`{method}`", "", "", *([""] * len(judged["at"])), "", reached, f"{one['seconds_per_batch']:.2f}"]
                if chance is None
                else [
                    f"`{method}`",
                    f"{_signed(chance['area'])} ({'; '.join(_ends(chance['area'][one]) for one in _OVER)})",
                    f"{chance['better']} / {chance['worse']} of {len(chance['by_set'])}",
                    *(_signed(chance[f"at {size}"]) for size in judged["at"]),
                    _signed(chance["balanced"]),
                    reached,
                    f"{one['seconds_per_batch']:.2f}",
                ]
            )
        parts.append(_markdown(heads, rows))
        others = [one for one in judged["against"] if one != "random" and one in found["methods"]]
        rows = [
            [f"`{method}`", *(_with_sets(one["against"].get(other)) for other in others)]
            for method, one in by_area
            if method != "random"
        ]
        if others:
            parts.append("Area, minus that of another method (interval over sets; sets better / worse):\n")
            parts.append(_markdown(["method", *(f"− `{other}`" for other in others)], rows))
        rows = [
            [data, *(_of_set(one["against"].get("random"), data) for _, one in by_area if one["against"].get("random"))]
            for data in found["sets"]
        ]
        if rows and len(rows[0]) > 1:
            named = [f"`{method}`" for method, one in by_area if one["against"].get("random")]
            parts.append("Area − random by set (* beyond chance):\n")
            parts.append(_markdown(["set", *named], rows))
    return "\n".join(parts)


def _compared(runs: Runs, method: str, other: str, protocol: Protocol) -> dict[str, Any]:
    """One method minus another, by pairs of runs with the same set and seed."""
    sizes = protocol.terms.sizes
    pairs: dict[str, list[tuple[dict[str, Curve], dict[str, Curve]]]] = {}
    for data, one, seed in runs:
        if one == method and (data, other, seed) in runs:
            pairs.setdefault(data, []).append((runs[data, method, seed], runs[data, other, seed]))

    def differences(column: str, place: slice | int) -> dict[str, list[float]]:
        return {
            data: [100 * float(np.mean(one[column][place] - two[column][place])) for one, two in some]
            for data, some in pairs.items()
        }

    area = differences("accuracy", slice(None))
    by_set = {data: paired_mean({data: some}) for data, some in area.items()}
    over_seeds = {data: one.over_seeds for data, one in by_set.items() if one is not None}
    return {
        "area": _mean(area),
        "better": sum(one is not None and one.low > 0 for one in over_seeds.values()),
        "worse": sum(one is not None and one.high < 0 for one in over_seeds.values()),
        **{f"at {size}": _mean(differences("accuracy", sizes.index(size))) for size in protocol.judged.at},
        "balanced": _mean(differences("balanced", slice(None))),
        "by_set": {
            data: {"mean": _rounded(np.mean(some)), "over_seeds": _interval(over_seeds[data])}
            for data, some in area.items()
        },
    }


def _matched(runs: Runs, method: str, protocol: Protocol) -> dict[str, Any]:
    sizes, needed = protocol.terms.sizes, {}
    for data in dict.fromkeys(key[0] for key in runs):
        seeds = [seed for one, name, seed in runs if one == data and name == method and (data, "random", seed) in runs]
        if seeds:
            curve, chance = (
                np.mean([runs[data, one, seed]["accuracy"] for seed in seeds], axis=0) for one in (method, "random")
            )
            needed[data] = first_reached(sizes, curve, chance[sizes.index(protocol.judged.matched)])
    known = [sizes[-1] if one is None else one for one in needed.values()]
    return {
        "mean": _rounded(np.mean(known), 1),
        "never_on": sum(one is None for one in needed.values()),
        "by_set": {data: None if one is None else _rounded(one, 1) for data, one in needed.items()},
    }


def first_reached(sizes: Sequence[int], curve: Curve, level: float) -> float | None:
    """The number of labels at which a curve first has a level, by straight lines; None where it never has it.

    >>> first_reached([10, 20, 30], np.array([0.5, 0.7, 0.9]), 0.6), first_reached([10, 20], np.array([0.5, 0.7]), 0.8)
    (15.0, None)
    """
    for place, value in enumerate(curve):
        if value >= level:
            if place == 0:
                return float(sizes[0])
            share = (level - curve[place - 1]) / (value - curve[place - 1])
            return float(sizes[place - 1] + share * (sizes[place] - sizes[place - 1]))
    return None


def _mean(differences: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    found = paired_mean(differences)
    if found is None:
        return {"mean": 0.0, "over_seeds": None, "over_sets": None}
    return {
        "mean": _rounded(found.mean),
        "over_seeds": _interval(found.over_seeds),
        "over_sets": _interval(found.over_sets),
    }


def _interval(known: Known | None) -> list[float] | None:
    return None if known is None else [_rounded(known.low), _rounded(known.high)]


def _rounded(value: Any, digits: int = 2) -> float:
    return round(float(value), digits)


def _signed(found: Mapping[str, Any]) -> str:
    return f"{found['mean']:+.1f}".replace("-", "−")


def _ends(ends: Sequence[float] | None) -> str:
    return "–" if ends is None else f"{ends[0]:+.1f} to {ends[1]:+.1f}".replace("-", "−")


def _with_sets(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    return f"{_signed(found['area'])} ({_ends(found['area']['over_sets'])}; {found['better']} / {found['worse']})"


def _of_set(found: Mapping[str, Any] | None, data: str) -> str:
    if found is None or data not in found["by_set"]:
        return ""
    one = found["by_set"][data]
    ends = one["over_seeds"]
    return _signed(one) + ("*" if ends is not None and (ends[0] > 0 or ends[1] < 0) else "")


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---", *(["--:"] * (len(heads) - 1))], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
