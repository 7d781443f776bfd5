"""natsel bench: natsel against its peers, on one machine in one run.

What counts is CPU time, peak extra memory, and the information of the batch under one judge who belongs to
neither side. Every measurement has a process of its own; peers are installed from PyPI into an environment of
theirs (`setup`). The document that comes out says on what machine, with which versions and with which command
it was made.
"""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

__all__ = ["run", "setup", "show"]


def run(
    case_set: str = "quick",
    *,
    peers_python: str | None = None,
    threads: int = 1,
    seeds: int = 5,
    out: Path | None = None,
    quality: bool = False,
    repeat: int = 3,
    configurations: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Measure a set of cases and return the document; `show` prints it.

    `case_set` is quick, standard, full, the name of one case, or the file of a pool; `peers_python` an interpreter
    that has the peers (None: this one); `repeat` how often each contender runs, with seeds 0, 1, ...; times are
    medians. Batches are judged on `configurations` sampled label configurations (None: 500,000, or 200,000 for
    `quality`). With `quality`, BatchBALD batches of `seeds` seeds on a family of pools are judged instead: what they
    claim, what they are worth, and what top-k BALD and a near-exhaustive greedy search are worth. `out`
    is where the document is written as JSON, anew after every case, so that a long run that is cut short leaves what
    it had; a case run by its name takes its place in the document found there. `progress` is told what is going on.
    """
    from natsel.bench.cases import cases_of
    from natsel.bench.compare import CONFIGURATIONS, compare
    from natsel.bench.processes import Failed, Workers
    from natsel.bench.quality import CONFIGURATIONS as QUALITY_CONFIGURATIONS
    from natsel.bench.quality import jepig_quality, verdict
    from natsel.bench.quality import quality as batch_quality
    from natsel.bench.result_table import machine
    from natsel.provenance import versions

    judged_on = configurations or (QUALITY_CONFIGURATIONS if quality else CONFIGURATIONS)
    _check(threads=threads, seeds=seeds, repeat=repeat, configurations=judged_on)
    cases = cases_of(case_set, quality)
    if out is not None and not Path(out).absolute().parent.is_dir():
        raise ValueError(f"out: the folder of {out} does not exist; make it first")
    document: dict[str, Any] = {
        "command": _command(case_set, peers_python, threads, seeds, quality, repeat),
        "date": datetime.now(UTC).date().isoformat(),
        "seed": 0,
        "threads": threads,
        "configurations": judged_on,
        "versions": versions(),
        "machine": machine(),
        "warnings": [],
        "rows": [],
        "quality": [],
        "jepig": [],
        "verdict": [],
    }
    if out is not None and case_set in {case.name for case in cases} and Path(out).is_file():
        _keep_others(document, json.loads(Path(out).read_text()), case_set)
    tell = progress or (lambda line: None)
    with Workers(peers_python or sys.executable, threads) as workers:
        if not quality:
            try:
                peers = workers.peers(do="versions")
            except Failed as reason:
                peers = {"unusable": dict.fromkeys(("batchbald-redux", "baal"), str(reason))}
            document["versions"]["peers"] = {name: found for name, found in peers.items() if name != "unusable"}
            document["warnings"] += _peer_warnings(document["versions"], peers["unusable"])
        for case in cases:
            common: dict[str, Any] = {"configurations": judged_on, "progress": tell}
            if quality:
                key, judged = ("jepig", jepig_quality) if case.method == "jepig" else ("quality", batch_quality)
                document[key].append(judged(case, seeds=seeds, **common))
                document["verdict"] = verdict(document["quality"], document["jepig"])
            else:
                document["rows"] += compare(case, workers, unusable=peers["unusable"], repeat=repeat, **common)
            if out is not None:
                Path(out).write_text(json.dumps(document, indent=1) + "\n")
    return document


def setup(directory: str | Path) -> Path:
    """Install the peers into an environment in this folder; returns its interpreter, for `peers_python`."""
    from natsel.bench.environment import setup

    return setup(directory)


def show(document: dict[str, Any]) -> None:
    """Print a document of `run` as tables on stderr."""
    from natsel.bench.result_table import show

    show(document)


def _keep_others(document: dict[str, Any], before: dict[str, Any], case: str) -> None:
    """A single case takes its place in the document that was there, if that was made on the same machine."""
    if all(before.get(key) == document[key] for key in ("machine", "threads", "configurations")):
        document["rows"] = [row for row in before["rows"] if row["case"] != case]
        document["quality"] = before["quality"]
        document["command"] = f"{before['command']}; {document['command']}"


def _check(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name}: needs at least 1, found {count}")


def _command(case_set: str, peers_python: str | None, threads: int, seeds: int, quality: bool, repeat: int) -> str:
    """The call that makes this document, without the names of anyone's folders."""
    parts = ["natsel bench", Path(case_set).name, f"--threads {threads}"]
    parts += [f"--quality --seeds {seeds}"] if quality else [f"--repeat {repeat}"]
    return " ".join([*parts, *(["--python PYTHON"] if peers_python else [])])


def _peer_warnings(versions: dict[str, Any], unusable: dict[str, str]) -> list[str]:
    warnings = [
        f"{package} cannot be used ({reason}); `natsel bench --setup DIR` installs it for `--python`"
        for package, reason in unusable.items()
    ]
    theirs = versions["peers"].get("torch", versions["torch"])
    if theirs.split("+")[0] != versions["torch"].split("+")[0]:
        warnings.append(f"torch differs: {versions['torch']} for natsel, {theirs} for the peers; compare with care")
    return warnings
