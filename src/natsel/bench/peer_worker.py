"""One measurement of one peer, in a process of its own and in the peers' own interpreter.

Reads a JSON job from stdin and prints one JSON line. Imports nothing but NumPy, torch and the peer, because natsel need
not be installed beside the peers; every measurement takes the `Meter` from here, so that one ruler measures all.

A job is {"do": "versions", "select" or "kernel_search", "threads", "job": the arguments of that function}. Every
implementation first picks 2 of 32 points, untimed: what libraries load at the first call is not counted.
"""

import contextlib
import gc
import importlib
import importlib.metadata
import json
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

# Each peer, and the modules that must import where it is to be used.
PEERS = {
    "batchbald-redux": ("batchbald_redux.batchbald",),
    "baal": ("baal.active.heuristics", "baal.active.heuristics.stochastics"),
    "bmdal_reg": ("bmdal_reg.bmdal.selection",),
}
# A run that takes this many seconds is not made again: its time says what there is to say.
LONG_S = 30.0


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


def versions(packages: Sequence[str] = ("batchbald-redux", "baal")) -> dict[str, Any]:
    """What is installed here, and for each of these peers that cannot be used why."""
    found: dict[str, Any] = {"python": platform.python_version(), "unusable": {}}
    for package in ("torch", "numpy", *packages):
        try:
            found[package] = importlib.metadata.version(package)
            for module in PEERS.get(package, ()):
                _imported(module)
        except Exception as reason:  # a peer may fail to import in any way; that must not end the benchmark
            found["unusable"][package] = f"{type(reason).__name__}: {reason}"
    return found


def _imported(module: str) -> Any:
    """A module of a peer. bmdal_reg 3.0.2 uses a name that NumPy 2 has dropped."""
    with contextlib.suppress(ImportError):  # then the peer says what it misses
        import numpy as np

        np.Inf = np.inf  # type: ignore[attr-defined]  # noqa: NPY201
    return importlib.import_module(module)


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


def kernel_search(
    path: str, search: str, given: int, with_given: bool, k: int, noise: float, repeat: int, seed: int = 0
) -> dict[str, Any]:
    """Let bmdal_reg pick k of the points in a file of features, whose last `given` rows are points already held."""
    import numpy as np
    import torch

    features_X_D = torch.from_numpy(np.load(path, allow_pickle=False))
    pool_N_D, given_T_D = features_X_D[: len(features_X_D) - given], features_X_D[len(features_X_D) - given :]

    def work(count: int, size: int) -> list[int]:
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002  the only seed the peer knows
        picked_k = kernel_searcher(search, pool_N_D[:size], given_T_D, noise, with_given).select(count)
        return [int(position) for position in picked_k]

    with contextlib.redirect_stdout(sys.stderr):  # it tells its progress, and stdout is for the result
        work(2, 32)
        return repeated(lambda: work(k, len(pool_N_D)), repeat)


def kernel_searcher(
    search: str, pool_N_D: Any, given_T_D: Any, noise: float, with_given: bool, oversample: float = 1.0
) -> Any:
    """The object of bmdal_reg that makes this search; its `select(k)` may be called once.

    `search` is maxdiag, maxdet, bait, maxdist, kmeanspp, lcmd or fw. maxdiag knows no points that are given: there the
    kernel is conditioned on them first, as that package's transform does it.
    """
    data, maps, features, selection = (
        _imported(f"bmdal_reg.bmdal.{name}") for name in ("feature_data", "feature_maps", "features", "selection")
    )
    plain = maps.IdentityFeatureMap(n_features=pool_N_D.shape[1])
    pool, held = (features.Features(plain, data.TensorFeatureData(rows)).precompute() for rows in (pool_N_D, given_T_D))
    if search == "maxdiag":
        return selection.MaxDiagSelectionMethod(held.posterior_tfm(noise**0.5)(pool) if with_given else pool)
    classes: dict[str, tuple[Any, dict[str, float]]] = {
        "maxdet": (selection.MaxDetSelectionMethod, {"noise_sigma": noise**0.5}),
        "bait": (
            selection.BaitFeatureSpaceSelectionMethod,
            {"noise_sigma": noise**0.5, "overselection_factor": oversample},
        ),
        "maxdist": (selection.MaxDistSelectionMethod, {}),
        "kmeanspp": (selection.KmeansppSelectionMethod, {}),
        "lcmd": (selection.LargestClusterMaxDistSelectionMethod, {}),
        "fw": (selection.FrankWolfeSelectionMethod, {}),
    }
    kind, settings = classes[search]
    return kind(pool, held, sel_with_train=with_given, verbosity=0, **settings)


def repeated(work: Callable[[], Any], repeat: int) -> dict[str, Any]:
    """The result of some work, and what its runs took: so many, or fewer where one takes long."""
    runs: list[list[float]] = []
    result, peak = None, 0.0
    while len(runs) < repeat and not (runs and runs[-1][1] > LONG_S):
        result = None
        meter = Meter()
        result, *times = meter.lap(work)
        runs.append(times)
        peak = max(peak, meter.peak_extra_mib())
    cpu_runs, wall_runs = (list(times) for times in zip(*runs, strict=True))
    return {"result": result, "cpu_s_runs": cpu_runs, "wall_s_runs": wall_runs, "peak_extra_mib": peak}


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
    main({"versions": versions, "select": select, "kernel_search": kernel_search})
