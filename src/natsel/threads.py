"""How many threads a program should run, and how they wait: settings for the programs that natsel starts itself.

OpenMP, which torch and scikit-learn compute with, takes as many threads as there are cores, and by default a thread
that waits for the others spins. Where other programs use the same cores, it spins through the time that the one it
waits for would need, and work on small tensors takes ten to fifty times as long. Threads that sleep while they wait
cost a few microseconds per wait instead. OpenMP reads its settings when it is loaded: they must be in the environment
before torch is imported. The command line and worker processes see to that; the library never changes the process of
its user. docs/busy-machines.md.
"""

import math
import os
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path

COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""What says how many threads OpenMP, MKL (in torch) and OpenBLAS (in NumPy and SciPy) may use."""
WAITING = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
"""Threads sleep at once: for any OpenMP, and for Intel's (in some builds of torch), which has a word of its own."""
_ALSO_WAITING = "GOMP_SPINCOUNT"  # the word of GNU's OpenMP: whoever sets it has chosen how threads wait

_chosen_here: set[str] = set()


def available_cores(root: Path = Path("/")) -> int:
    """Cores that this process may use: all, those it is bound to, or as many as the limit of its container is worth.

    >>> 1 <= available_cores() <= (os.cpu_count() or 1)
    True
    """
    bound = getattr(os, "sched_getaffinity", None)
    cores = len(bound(0)) if bound is not None else os.cpu_count() or 1
    return max(1, min([cores, *(math.ceil(limit) for limit in _container_limits(root))]))


def settings(processes: int = 1, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Environment variables for each of some processes that run side by side; none that the user has set already.

    >>> settings(10**6, {})["OMP_NUM_THREADS"], settings(1, {})["OMP_WAIT_POLICY"]
    ('1', 'PASSIVE')
    >>> settings(1, {"OMP_NUM_THREADS": "3", "GOMP_SPINCOUNT": "100"})
    {}
    """
    users = {name for name in environment if name not in _chosen_here}
    chosen: dict[str, str] = {}
    if not users & {*WAITING, _ALSO_WAITING}:
        chosen |= WAITING
    if not users & set(COUNTS):
        chosen |= dict.fromkeys(COUNTS, str(max(1, available_cores() // processes)))
    return chosen


def settle(environment: MutableMapping[str, str] = os.environ) -> bool:
    """Put the settings for one process into its own environment; whether it was in time, that is, before torch came.

    For the first lines of a program, and for nothing that others import. Too late, it changes nothing.

    >>> import torch
    >>> settle({})
    False
    """
    if "torch" in sys.modules:
        return False
    chosen = settings(1, environment)
    environment.update(chosen)
    _chosen_here.update(chosen)  # processes started from here choose anew: these are not the user's
    return True


def _container_limits(root: Path) -> list[float]:
    """CPU limits of the control groups of this process, in cores; none where there are no such groups."""
    try:
        groups = [line.split(":", 2) for line in (root / "proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return []
    found = []
    for _, controllers, path in groups:
        if controllers == "":  # version 2: every group above limits as well
            place = root / "sys/fs/cgroup"
            for folder in [place, *(place / parent.relative_to("/") for parent in _upwards(path))]:
                found.append(_ratio(*_words(folder / "cpu.max")))
        elif "cpu" in controllers.split(","):
            for name in ("cpu", "cpu,cpuacct"):
                place = root / "sys/fs/cgroup" / name
                for folder in [place, *(place / parent.relative_to("/") for parent in _upwards(path))]:
                    quota, period = _words(folder / "cpu.cfs_quota_us"), _words(folder / "cpu.cfs_period_us")
                    found.append(_ratio(*quota, *period))
    return [limit for limit in found if limit is not None]


def _upwards(path: str) -> list[Path]:
    whole = Path(path)
    return [whole, *whole.parents][:-1] if whole.is_absolute() else []


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _ratio(*words: str) -> float | None:
    """Quota by period, or None where either is missing or nothing is limited ("max", or −1)."""
    if len(words) != 2 or not all(word.isdecimal() for word in words) or int(words[1]) == 0:
        return None
    return int(words[0]) / int(words[1])
