"""One measurement of one peer, in a process of its own and in the peers' own interpreter.

Reads a JSON job from stdin and prints one JSON line. Imports nothing but NumPy, torch and the peer, because natsel need
not be installed beside the peers; every measurement takes the `Meter` from here, so that one ruler measures all.

A job is {"do": "versions" or "select", "threads", "job": the arguments of that function}. Every implementation first
picks 2 of 32 points, untimed: what libraries load at the first call is not counted.
"""

import contextlib
import gc
import importlib
import importlib.metadata
import json
import platform
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# Each peer, and the modules that must import where it is to be used.
PEERS = {
    "batchbald-redux": ("batchbald_redux.batchbald",),
    "baal": ("baal.active.heuristics", "baal.active.heuristics.stochastics"),
}


class Meter:
    """CPU seconds, wall seconds and peak extra memory from now on.

    CPU seconds spent in Python's garbage collector are part of what a user waits for, but say little of an algorithm:
    they are counted in, and told apart as `gc_cpu_s`.
    """

    def __init__(self) -> None:
        gc.collect()
        _forget_peak()
        self.resting = _peak_bytes()
        self.gc_cpu_s = 0.0
        self._gc_since = 0.0

    def lap(self, work: Callable[[], Any]) -> tuple[Any, float, float]:
        """The result of some work, its CPU seconds over all threads, and its wall seconds."""
        gc.callbacks.append(self._collecting)
        try:
            cpu, wall = time.process_time(), time.perf_counter()
            result = work()
            return result, time.process_time() - cpu, time.perf_counter() - wall
        finally:
            gc.callbacks.remove(self._collecting)

    def _collecting(self, phase: str, info: dict[str, int]) -> None:
        now = time.process_time()
        if phase == "stop":
            self.gc_cpu_s += now - self._gc_since
        self._gc_since = now

    def peak_extra_mib(self) -> float:
        """How far resident memory has risen at most."""
        return max(0, _peak_bytes() - self.resting) / 2**20


def _peak_bytes() -> int:
    """The highest resident memory so far."""
    try:
        # Not ru_maxrss: Linux lets a child inherit that from the process that started it.
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    except (OSError, IndexError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _forget_peak() -> None:
    """Let the peak start from the present; where that is not allowed, loading may hide some of it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def main(jobs: Mapping[str, Callable[..., Any]]) -> None:
    """Run the job on stdin with as many threads as it says, and print its result as the last line."""
    asked = json.load(sys.stdin)
    if asked["do"] != "versions":  # which must work where torch does not
        import torch

        torch.set_num_threads(asked["threads"])
    print("\n" + json.dumps(jobs[asked["do"]](**asked["job"])), flush=True)


def versions() -> dict[str, Any]:
    """What is installed here, and for each peer that cannot be used why."""
    found: dict[str, Any] = {"python": platform.python_version(), "unusable": {}}
    for package in ("torch", "numpy", *PEERS):
        try:
            found[package] = importlib.metadata.version(package)
            for module in PEERS.get(package, ()):
                importlib.import_module(module)
        except Exception as reason:  # a peer may fail to import in any way; that must not end the benchmark
            found["unusable"][package] = f"{type(reason).__name__}: {reason}"
    return found


def select(package: str, path: str, k: int, seed: int, **job: Any) -> dict[str, Any]:
    """Let a peer pick k points of the pool; its own data layout is prepared before the clock starts."""
    import numpy as np
    import torch

    prepared = _redux if package == "batchbald-redux" else _baal
    log_probs_N_K_C = np.load(path, allow_pickle=False)
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002  the only seed the peers know
    prepared(log_probs_N_K_C[:32], 2, **job)()
    work = prepared(log_probs_N_K_C, k, **job)
    del log_probs_N_K_C
    meter = Meter()
    (picks, scores), *times = meter.lap(work)
    faults = [] if len(picks) == k else [f"returned {len(picks)} points for {k}"]
    if len(set(picks)) < len(picks):
        faults.append("picked a point twice")
    if bad := sum(score != score for score in scores):
        faults.append(f"{bad} of the scores are NaN")
    return what_it_took(meter, [int(pick) for pick in picks][:k], times, faults=faults)


def what_it_took(
    meter: Meter, indices: list[int], select: list[float], belief: list[float] | None = None, faults: Any = ()
) -> dict[str, Any]:
    """The result of a selection; `select` and `belief` are CPU and wall seconds of selecting and of making a belief."""
    belief_cpu, belief_wall = belief or (0.0, 0.0)
    return {
        "indices": indices,
        "cpu_s": belief_cpu + select[0],
        "belief_cpu_s": belief_cpu,
        "select_cpu_s": select[0],
        "gc_cpu_s": meter.gc_cpu_s,
        "wall_s": belief_wall + select[1],
        "peak_extra_mib": meter.peak_extra_mib(),
        "faults": list(faults),
    }


_Work = Callable[[], tuple[Any, Any]]  # what is timed; it returns picks and scores


def _redux(log_probs_N_K_C: Any, k: int, method: str, samples: int, dtype: str, **job: Any) -> _Work:
    import torch
    from batchbald_redux.batchbald import get_bald_batch, get_batchbald_batch

    tensor_N_K_C, kind = torch.from_numpy(log_probs_N_K_C), getattr(torch, dtype)

    def work() -> tuple[Any, Any]:
        if method == "batchbald":
            batch = get_batchbald_batch(tensor_N_K_C, k, num_samples=samples, dtype=kind)
        else:
            batch = get_bald_batch(tensor_N_K_C, k, dtype=kind)
        return batch.ids, batch.scores

    return work


def _baal(log_probs_N_K_C: Any, k: int, method: str, samples: int, beta: float, **job: Any) -> _Work:
    import numpy as np
    from baal.active.heuristics import BALD, BatchBALD
    from baal.active.heuristics.stochastics import PowerSampling

    probs_N_C_K = np.ascontiguousarray(np.exp(log_probs_N_K_C).swapaxes(1, 2))
    draws = probs_N_C_K.shape[2]

    def work() -> tuple[Any, Any]:
        if method == "batchbald":
            # It takes one point more than asked and ranks the last one first, so asking for one less gives the batch
            # it means; it draws `num_draw` configurations from each of the K draws.
            heuristic = BatchBALD(num_samples=k - 1, num_draw=max(1, samples // draws))
        elif method == "power-bald":
            heuristic = PowerSampling(BALD(), query_size=k, temperature=1 / beta)
        else:
            heuristic = BALD()
        ranks_N, scores_N = heuristic.get_ranks(probs_N_C_K)
        return ranks_N[:k], scores_N[ranks_N[:k]]

    return work


if __name__ == "__main__":
    main({"versions": versions, "select": select})
