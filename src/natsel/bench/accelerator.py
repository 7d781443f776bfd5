"""BatchBALD on an accelerator: seconds a batch, and whether it picks what the CPU picks.

    python -m natsel.bench.accelerator [--out FILE]

Runs from the source tree with torch and NumPy alone. Times are medians over seeds of whole calls of `natsel.select`
on a belief that already lies on the device, synchronised before and after.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch

import natsel
from natsel.bench.pools import gaussian_pool
from natsel.provenance import versions

CASES = ((10_000, 100, 10, 10), (10_000, 20, 47, 5), (10_000, 50, 100, 4), (100_000, 100, 10, 10))
SEEDS = 7


def measure(count: int, draws: int, classes: int, k: int, device: str) -> dict[str, Any]:
    """One case: median and all times, the peak memory of the device, and the picks against the CPU's."""
    log_probs_N_K_C = gaussian_pool(count, draws, classes)
    there = natsel.CategoricalSamples(log_probs_N_K_C.to(device))
    here = natsel.CategoricalSamples(log_probs_N_K_C)
    natsel.select("batchbald", there, k=k)
    torch.cuda.reset_peak_memory_stats()
    seconds, same = [], []
    for seed in range(SEEDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        batch = natsel.select("batchbald", there, k=k, seed=seed)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        if seed < 2:
            same.append(batch.indices.tolist() == natsel.select("batchbald", here, k=k, seed=seed).indices.tolist())
    return {
        **{"N": count, "K": draws, "C": classes, "B": k},
        "seconds": median(seconds),
        "seconds_runs": seconds,
        "total_nats": batch.total,
        "peak_mib": torch.cuda.max_memory_allocated() / 2**20,
        "same_picks_as_cpu": same,
    }


def main() -> None:
    """Measure every case and print the document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results as JSON to this file")
    out = parser.parse_args().out
    if not torch.cuda.is_available():
        raise SystemExit("natsel: no CUDA device was found; run this where torch.cuda.is_available()")
    document = {
        "command": "python -m natsel.bench.accelerator",
        "device": torch.cuda.get_device_name(0),
        "versions": versions(),
        "seeds": SEEDS,
        "rows": [measure(*case, device="cuda") for case in CASES],
    }
    text = json.dumps(document, indent=1)
    print(text)
    if out is not None:
        out.write_text(text + "\n")


if __name__ == "__main__":
    main()
