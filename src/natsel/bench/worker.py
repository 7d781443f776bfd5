"""Natsel's side of the benchmark, a process for each job: make a pool, select, judge.

Reads a JSON job from stdin and prints one JSON line, as `peer_worker` does for the peers. The clock starts
after imports and loading, runs while the belief is made from a float32 array (its checks included), and while
points are selected; both are reported, and ratios use their sum.
"""

from typing import Any

import numpy as np
import torch

import natsel
from natsel.bench.peer_worker import Meter, main
from natsel.bench.pools import make_pool
from natsel.choose import METHODS
from natsel.information.joint import joint_mutual_information_sampled


def pool(job: dict[str, Any]) -> dict[str, Any]:
    """Write the pool a case names to a .npy file."""
    log_probs_N_K_C = make_pool(job["kind"], job["N"], job["K"], job["C"], job["seed"])
    np.save(job["pool"], log_probs_N_K_C.numpy())
    return {"shape": list(log_probs_N_K_C.shape)}


def select(job: dict[str, Any]) -> dict[str, Any]:
    """Pick k points of the pool with natsel."""
    torch.set_num_threads(job["threads"])
    method = chosen_method(job)
    log_probs_N_K_C = np.load(job["pool"], allow_pickle=False)
    natsel.select(method, natsel.CategoricalSamples(log_probs_N_K_C[:32]), k=2)
    meter = Meter()
    belief, belief_cpu, belief_wall = meter.lap(lambda: natsel.CategoricalSamples(log_probs_N_K_C))
    batch, select_cpu, select_wall = meter.lap(lambda: natsel.select(method, belief, k=job["k"], seed=job["seed"]))
    return {
        "indices": batch.indices.tolist(),
        "belief_cpu_s": belief_cpu,
        "select_cpu_s": select_cpu,
        "gc_cpu_s": meter.gc_cpu_s,
        "wall_s": belief_wall + select_wall,
        "peak_extra_mib": meter.peak_extra_mib(),
        "faults": [],
    }


def bare_pass(job: dict[str, Any]) -> dict[str, Any]:
    """What the hardware asks for reading the pool: every number exponentiated once and summed, in blocks."""
    torch.set_num_threads(job["threads"])
    log_probs_N_K_C = torch.from_numpy(np.load(job["pool"], allow_pickle=False))

    def work() -> float:
        block = max(1, (1 << 19) // log_probs_N_K_C[0].numel())
        return sum(part.exp().sum().item() for part in torch.split(log_probs_N_K_C, block))

    log_probs_N_K_C[:32].exp().sum()
    meter = Meter()
    _, cpu, wall = meter.lap(work)
    return {
        "indices": [],
        "belief_cpu_s": 0.0,
        "select_cpu_s": cpu,
        "gc_cpu_s": meter.gc_cpu_s,
        "wall_s": wall,
        "peak_extra_mib": meter.peak_extra_mib(),
        "faults": [],
    }


def score(job: dict[str, Any]) -> dict[str, Any]:
    """Information and standard error of every batch under the common judge: the same random numbers for each.

    I[Y_batch; Ω] = H[Ω] − E H[Ω | y_batch] in float64 over `configurations` sampled labels.  Spec 03b, 1.
    """
    torch.set_num_threads(job["threads"])
    log_probs_N_K_C = _mapped(job["pool"])
    results = []
    for batch in job["batches"]:
        # In the order of positions, so that a set has one value however it was found.
        log_probs_B_K_C = torch.from_numpy(np.array(log_probs_N_K_C[sorted(batch)]))
        generator = torch.Generator().manual_seed(job["seed"])
        results.append(joint_mutual_information_sampled(log_probs_B_K_C, job["configurations"], None, generator))
    return {"information": results}


def chosen_method(job: dict[str, Any]) -> natsel.Method:
    """The method of a job, with as many rows as it asks for.

    >>> chosen_method({"method": "batchbald", "rows": 16384}).objective
    EIG(rows=16384)
    """
    named = METHODS[job["method"]]
    objective = natsel.EIG(rows=job["rows"]) if job.get("rows") else named.objective
    search = natsel.Power(beta=job["beta"]) if job["method"] == "power-bald" else named.search
    return natsel.Method(objective, search, named.name)


def _mapped(path: str) -> Any:
    return np.load(path, mmap_mode="r", allow_pickle=False)


if __name__ == "__main__":
    main({"pool": pool, "select": select, "bare-pass": bare_pass, "score": score})
