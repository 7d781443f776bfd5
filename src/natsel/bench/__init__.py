"""natsel bench: what natsel takes in time and memory, alone and against its peers, on one machine in one run.

    natsel bench quick | standard | full | CASE | FILE      natsel against its peers (`natsel.bench.comparison`)
    natsel bench standard --quality                         what BatchBALD batches are worth (`natsel.bench.quality`)
    natsel bench epig | epig-large                          EPIG against bare products and plain arithmetic
    natsel bench kernel-searches --python PYTHON            searches on a kernel, against bmdal_reg and bare products
    natsel bench fisher                                     BADGE, BAIT and EIG against their published arithmetic
    natsel bench believe                                    consistent dropout
    natsel bench selective-step                             steps of selective training against the passes they need
    natsel bench journal                                    what safety of labels costs
    natsel bench accelerator                                BatchBALD on a GPU

Settings of a measurement follow its name: `natsel bench epig:points=300,targets=40`; its file lists them. A comparison
with peers counts CPU time, peak extra memory, and the information of the batch under one judge who belongs to neither
side. Every measurement has a process of its own, with as many threads as are asked for; peers are installed from PyPI
into an environment of theirs (`setup`). The document that comes out says with which command, commit and versions it was
made, and on what machine.

The command line needs typer and rich. Where they are missing, as on a rented GPU machine with torch and NumPy alone, a
checkout runs the same from Python:

    PYTHONPATH=src python -c "from natsel.bench import measure; measure('accelerator', out='accelerator.json')"
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["measure", "setup", "show"]


def measure(
    case: str = "quick",
    *,
    threads: int = 1,
    repeat: int | None = None,
    out: str | Path | None = None,
    peers_python: str | None = None,
    quality: bool = False,
    seeds: int = 5,
    configurations: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Make a measurement and return its document; `show` prints it, `out` is where it is written as JSON.

    `case` is a measurement with its settings, or what is compared with peers: quick, standard, full, the name of one
    case, or the file of a pool. `repeat` is how often each contender runs, with seeds 0, 1, … where seeds matter (None:
    3 against peers, else what the measurement says); times are medians. `peers_python` is an interpreter that has the
    peers (None: this one). Batches are judged on `configurations` sampled label configurations (None: 500,000, or
    200,000 for `quality`). With `quality`, BatchBALD batches of `seeds` seeds on a family of pools are judged instead:
    what they claim, what they are worth, and what top-k BALD and a near-exhaustive greedy search are worth.

    A document of several cases is written anew after each, so that a long run that is cut short leaves what it had; a
    case run by its name takes its place in the document found there. `progress` is told what is going on.
    """
    from natsel.bench.cases import cases_of, measurement_of
    from natsel.bench.document import about

    for name, count in {"threads": threads, "seeds": seeds, "repeat": repeat, "configurations": configurations}.items():
        if count is not None and count < 1:
            raise ValueError(f"{name}: needs at least 1, found {count}")
    file = None if out is None else Path(out)
    if file is not None and not file.absolute().parent.is_dir():
        raise ValueError(f"out: the folder of {file} does not exist; make it first")
    tell = progress or (lambda line: None)
    # The call that makes this document, without the names of anyone's folders.
    command = f"natsel bench {Path(case).name} --threads {threads}"
    alone = measurement_of(case, repeat)
    without_peers = quality or (alone is not None and alone[0] != "natsel.bench.kernel_searches")
    idle = {"quality": quality and alone, "repeat": quality and repeat, "python": peers_python and without_peers}
    for name in filter(idle.get, idle):
        raise ValueError(f"{name}: {case}{' with --quality' if quality else ''} has no use for it; leave --{name} out")
    if alone:
        module, settings = alone
        times = f" --repeat {settings['repeat']}" if "repeat" in settings else ""
        times += " --python PYTHON" if peers_python else ""
        document = about(command + times, threads) | {"settings": settings}
        steps = _alone(case, document, module, peers_python, tell)
    else:
        cases = cases_of(case, quality)
        options = f" --quality --seeds {seeds}" if quality else f" --repeat {repeat or 3}"
        document = about(command + options + (" --python PYTHON" if peers_python else ""), threads)
        document |= {"configurations": configurations or (200_000 if quality else 500_000), "warnings": []}
        document |= {"rows": [], "quality": [], "jepig": [], "verdict": []}
        if file is not None and file.is_file() and case in {one.name for one in cases}:
            _keep_others(document, json.loads(file.read_text()), case)
        if quality:
            from natsel.bench.quality import judge_all

            steps = judge_all(cases, document, seeds, tell)
        else:
            from natsel.bench.comparison import compare_all

            steps = compare_all(cases, document, peers_python or sys.executable, repeat or 3, tell)
    for _ in steps:
        if file is not None:
            file.write_text(json.dumps(document, indent=1) + "\n")
    return document


def setup(directory: str | Path) -> Path:
    """Install the peers into an environment in this folder; returns its interpreter, for `peers_python`."""
    from natsel.bench.workers import setup

    return setup(directory)


def show(document: dict[str, Any]) -> None:
    """Print a document of `measure` as tables on stderr."""
    from natsel.bench.document import show

    show(document)


def _alone(
    case: str, document: dict[str, Any], module: str, peers_python: str | None, tell: Callable[[str], None]
) -> Iterator[None]:
    """Add what a measurement finds to its document; one that can meet a peer is told where."""
    from natsel.bench.workers import Workers

    tell(f"{case}: measuring")
    where = {"peers_python": peers_python} if module == "natsel.bench.kernel_searches" else {}
    with Workers(threads=document["threads"]) as workers:
        document["found"] = workers.natsel("measure", module=module, settings=document["settings"] | where)
    yield


def _keep_others(document: dict[str, Any], before: dict[str, Any], case: str) -> None:
    """A single case takes its place in the document that was there, if that was made on the same machine."""
    if all(before.get(key) == document[key] for key in ("machine", "threads", "configurations")):
        document["rows"] = [row for row in before["rows"] if row["case"] != case]
        document["quality"] = before["quality"]
        document["command"] = f"{before['command']}; {document['command']}"
