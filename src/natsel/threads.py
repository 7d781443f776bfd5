"""How many threads a program should run, and how they wait: settings for the programs that natsel starts itself.

OpenMP, which torch and scikit-learn compute with, takes as many threads as there are cores, and by default a thread
that waits for the others spins for several milliseconds. Where other programs use the same cores, it spins through the
time that the one it waits for would need, and work on small tensors takes two to twenty times as long. So threads
spin for a fraction of a millisecond at most, which is as quick on an idle machine, and not at all on a busy one.

OpenMP reads its settings when it is loaded: they must be in the environment before torch is imported. The command line
and worker processes see to that; the library never changes the process of its user. docs/busy-machines.md.
"""

import math
import os
import sys
import time
from collections.abc import Mapping, MutableMapping
from pathlib import Path

COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""What says how many threads OpenMP, MKL (in torch) and OpenBLAS (in NumPy and SciPy) may use."""
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""What says how threads wait: to every OpenMP, to GNU's (torch on Linux), and to Intel's and LLVM's."""
_SLEEP = {"GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
_SPIN_SHORTLY = {"GOMP_SPINCOUNT": "10000", "KMP_BLOCKTIME": "1"}  # turns of a loop; milliseconds

_chosen_here: set[str] = set()


def available_cores(root: Path = Path("/")) -> int:
    """Cores that this process may use: all, those it is bound to, or as many as the limit of its container is worth.

    >>> 1 <= available_cores() <= (os.cpu_count() or 1)
    True
    """
    cores = len(_bound()) or os.cpu_count() or 1
    return max(1, min([cores, *(math.ceil(limit) for limit in _container_limits(root))]))


def idle_cores(seconds: float = 0.1, root: Path = Path("/")) -> float | None:
    """How many of the cores that this process is bound to did nothing meanwhile; None where the system does not say.

    >>> idle = idle_cores(0.01)
    >>> idle is None or idle >= 0
    True
    """
    before = _times(root)
    time.sleep(seconds)
    after = _times(root)
    spent = [(a[0] - b[0], a[1] - b[1]) for a, b in zip(after, before, strict=False)]
    if not spent or not all(whole > 0 for _, whole in spent):
        return None
    return sum(idle / whole for idle, whole in spent)


def settings(
    processes: int = 1, environment: Mapping[str, str] = os.environ, idle: float | None = None
) -> dict[str, str]:
    """Environment variables for each of some processes that run side by side; none that the user has set already.

    How many threads there are depends on the cores alone, since results depend on it in their last digits. How they
    wait depends on how many cores are `idle` (None: not known, as if all were).

    >>> settings(10**6, {})["OMP_NUM_THREADS"], settings(1, {}, idle=0.1)["GOMP_SPINCOUNT"]
    ('1', '0')
    >>> settings(1, {"OMP_NUM_THREADS": "3", "OMP_WAIT_POLICY": "ACTIVE"})
    {}
    """
    threads = max(1, available_cores() // processes)
    return _not_by_the_user(environment, threads, idle is not None and round(idle) < threads * processes)


def settle(environment: MutableMapping[str, str] = os.environ) -> bool:
    """Put the settings for one process into its own environment, with a thread for each core that is idle now.

    For the first lines of a program, and for nothing that others import. Returns whether it was in time, that is,
    before torch was imported; if not, nothing is changed.

    >>> import torch
    >>> settle({})
    False
    """
    if "torch" in sys.modules:
        return False
    cores, idle = available_cores(), idle_cores()
    threads = cores if idle is None else max(1, min(cores, round(idle)))
    chosen = _not_by_the_user(environment, threads, busy=False)
    environment.update(chosen)
    _chosen_here.update(chosen)  # processes started from here choose anew: these are not the user's
    return True


def _not_by_the_user(environment: Mapping[str, str], threads: int, busy: bool) -> dict[str, str]:
    users = {name for name in environment if name not in _chosen_here}
    counts = {} if users & set(COUNTS) else dict.fromkeys(COUNTS, str(threads))
    waiting = {} if users & set(WAITING) else _SLEEP if busy else _SPIN_SHORTLY
    return counts | waiting


def _bound() -> set[int]:
    """The cores that this process is bound to; none where the system does not say."""
    bound = getattr(os, "sched_getaffinity", None)
    return set() if bound is None else bound(0)


def _times(root: Path) -> list[tuple[int, int]]:
    """Ticks that each of these cores was idle, and ticks in all."""
    found = []
    try:
        for line in (root / "proc/stat").read_text().splitlines():
            name, *ticks = line.split()
            if name.startswith("cpu") and name[3:].isdecimal() and int(name[3:]) in _bound():
                numbers = [int(tick) for tick in ticks[:8]]  # guests are counted among these already
                found.append((sum(numbers[3:5]), sum(numbers)))  # idle, and idle while a disk works
    except (OSError, ValueError):
        return []
    return found


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
