"""BatchBALD on an accelerator: seconds per batch, and whether it picks what the CPU picks.

    seconds             wall time of a whole call of `natsel.select`, on a belief that already lies on the device
    peak_mib            memory of the device at the highest, the belief included
    same_picks_as_cpu   for seeds 0 and 1: does the same call on the CPU pick the same points in the same order?

One run per seed 0, 1, …; times are medians over the seeds. Needs torch and NumPy alone.
"""

from typing import Any

import torch

import natsel
from natsel.bench.laps import device_name, timed
from natsel.bench.pools import gaussian_pool

SIZES = ((10_000, 100, 10, 10), (10_000, 20, 47, 5), (10_000, 50, 100, 4), (100_000, 100, 10, 10))


def measure(repeat: int = 7) -> dict[str, Any]:
    """Every size on the first CUDA device."""
    if not torch.cuda.is_available():
        raise ValueError("accelerator: no CUDA device was found; run this where torch.cuda.is_available()")
    return {"device": device_name("cuda"), "rows": [measure_size(*size, "cuda", repeat) for size in SIZES]}


def measure_size(count: int, draws: int, classes: int, k: int, device: str, repeat: int) -> dict[str, Any]:
    """One size.

    >>> measure_size(20, 3, 2, 2, "cpu", 2)["same_picks_as_cpu"]
    [True, True]
    """
    log_probs_N_K_C = gaussian_pool(count, draws, classes)
    there, here = natsel.CategoricalSamples(log_probs_N_K_C.to(device)), natsel.CategoricalSamples(log_probs_N_K_C)
    natsel.select("batchbald", there, k=k)  # what is done once for all is not timed
    picks: list[list[int]] = []

    def select(seed: int) -> natsel.Selection:
        batch = natsel.select("batchbald", there, k=k, seed=seed)
        picks.append(batch.ids.tolist())
        return batch

    held_mib = torch.cuda.memory_allocated() / 2**20 if device == "cuda" else 0.0
    took, batch = timed(select, repeat, device)
    on_cpu = [natsel.select("batchbald", here, k=k, seed=seed).ids.tolist() for seed in range(min(2, repeat))]
    return {
        **{"N": count, "K": draws, "C": classes, "B": k},
        **took,
        "total_nats": batch.total,
        "peak_mib": held_mib + took["peak_extra_mib"],
        "same_picks_as_cpu": [a == b for a, b in zip(picks, on_cpu, strict=False)],
    }
