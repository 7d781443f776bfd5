"""One measurement of one peer, in a process of its own and in the peers' own interpreter.

Reads a JSON job from stdin and prints one JSON line. Imports nothing but NumPy, torch and the peer, because
natsel need not be installed beside the peers; natsel's own worker takes the `Meter` from here, so that one
ruler measures all.

A job is {"do": "versions"}, or {"do": "select", "package", "method", "k", "seed", "threads", "pool", ...}
where `pool` is a .npy file of log_probs_N_K_C. Every implementation first picks 2 of 32 points, untimed, to
have its libraries awake.
"""

import gc
import importlib.metadata
import json
import platform
import sys
import time
from collections.abc import Callable
from typing import Any

PEERS = ("batchbald-redux", "baal")


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
        with open("/proc/self/status") as status:
            fields = dict(line.split(":", 1) for line in status)
        return int(fields["VmHWM"].split()[0]) * 1024
    except (OSError, KeyError):
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _forget_peak() -> None:
    """Let the peak start from the present; where that is not allowed, loading may hide some of it."""
    try:
        with open("/proc/self/clear_refs", "w") as clear:
            clear.write("5")
    except OSError:
        pass


def main(do: dict[str, Callable[[dict[str, Any]], dict[str, Any]]]) -> None:
    """Run the job on stdin and print its result as the last line."""
    job = json.load(sys.stdin)
    print("\n" + json.dumps(do[job["do"]](job)), flush=True)


def versions(job: dict[str, Any]) -> dict[str, Any]:
    """What is installed here, and for each peer that cannot be used why."""
    found: dict[str, Any] = {"python": platform.python_version(), "unusable": {}}
    for package in ("torch", "numpy", *PEERS):
        try:
            found[package] = importlib.metadata.version(package)
            if package in PEERS:
                _selector(package, "bald")
        except Exception as reason:  # a peer may fail to import in any way; that must not end the benchmark
            found["unusable"][package] = f"{type(reason).__name__}: {reason}"
    return found


def select(job: dict[str, Any]) -> dict[str, Any]:
    """Let a peer pick k points of the pool; its own data layout is prepared before the clock starts."""
    import numpy as np
    import torch

    torch.set_num_threads(job["threads"])
    selector = _selector(job["package"], job["method"])
    log_probs_N_K_C = np.load(job["pool"], allow_pickle=False)
    torch.manual_seed(job["seed"])
    np.random.seed(job["seed"])  # noqa: NPY002  the only seed the peers know
    selector(log_probs_N_K_C[:32], {**job, "k": 2})()
    work = selector(log_probs_N_K_C, job)
    del log_probs_N_K_C
    meter = Meter()
    (picks, scores), cpu, wall = meter.lap(work)
    faults = [] if len(picks) == job["k"] else [f"returned {len(picks)} points for {job['k']}"]
    if len(set(picks)) < len(picks):
        faults.append("picked a point twice")
    if bad := sum(score != score for score in scores):
        faults.append(f"{bad} of the scores are NaN")
    return {
        "indices": [int(pick) for pick in picks][: job["k"]],
        "belief_cpu_s": 0.0,
        "select_cpu_s": cpu,
        "gc_cpu_s": meter.gc_cpu_s,
        "wall_s": wall,
        "peak_extra_mib": meter.peak_extra_mib(),
        "faults": faults,
    }


def _selector(package: str, method: str) -> Callable[[Any, dict[str, Any]], Callable[[], tuple[Any, Any]]]:
    return _redux(method) if package == "batchbald-redux" else _baal(method)


def _redux(method: str) -> Callable[[Any, dict[str, Any]], Callable[[], tuple[Any, Any]]]:
    import torch
    from batchbald_redux.batchbald import get_bald_batch, get_batchbald_batch

    def prepared(log_probs_N_K_C: Any, job: dict[str, Any]) -> Callable[[], tuple[Any, Any]]:
        tensor_N_K_C = torch.from_numpy(log_probs_N_K_C)
        dtype = getattr(torch, job["dtype"])

        def work() -> tuple[Any, Any]:
            if method == "batchbald":
                batch = get_batchbald_batch(tensor_N_K_C, job["k"], num_samples=job["samples"], dtype=dtype)
            else:
                batch = get_bald_batch(tensor_N_K_C, job["k"], dtype=dtype)
            return batch.indices, batch.scores

        return work

    return prepared


def _baal(method: str) -> Callable[[Any, dict[str, Any]], Callable[[], tuple[Any, Any]]]:
    import numpy as np
    from baal.active.heuristics import BALD, BatchBALD
    from baal.active.heuristics.stochastics import PowerSampling

    def prepared(log_probs_N_K_C: Any, job: dict[str, Any]) -> Callable[[], tuple[Any, Any]]:
        probs_N_C_K = np.ascontiguousarray(np.exp(log_probs_N_K_C).swapaxes(1, 2))
        draws, k = probs_N_C_K.shape[2], job["k"]

        def work() -> tuple[Any, Any]:
            if method == "batchbald":
                # It takes one point more than asked and ranks the last one first, so asking for one less
                # gives the batch it means; it draws `num_draw` configurations from each of the K draws.
                heuristic = BatchBALD(num_samples=k - 1, num_draw=max(1, job["samples"] // draws))
            elif method == "power-bald":
                heuristic = PowerSampling(BALD(), query_size=k, temperature=1 / job["beta"])
            else:
                heuristic = BALD()
            ranks_N, scores_N = heuristic.get_ranks(probs_N_C_K)
            return ranks_N[:k], scores_N[ranks_N[:k]]

        return work

    return prepared


if __name__ == "__main__":
    main({"versions": versions, "select": select})
