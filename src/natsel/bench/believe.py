"""Consistent dropout, measured: seconds for many pictures, where the time goes, and what it takes in memory.

    python -m natsel.bench.believe [--count 2000] [--draws 100] [--device cpu] [--json]

The network is the BatchBALD one; the pictures are MNIST's where it is found, noise otherwise (the work is the same).
The profile says which share of all operations' own time went into matrix products and convolutions, and which share of
the time on the clock. The direct route computes one draw after another, each a whole pass through the network. On a
busy machine trust the CPU seconds. Runs from the source tree with torch and NumPy alone.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

import natsel
from natsel.data.examples import Examples
from natsel.models.dropout.dropout import Dropout
from natsel.models.dropout.mask_plan import Plan, outputs_of, plan_of
from natsel.models.networks.architectures import mnist_cnn
from natsel.models.networks.inputs import as_device
from natsel.models.networks.training import Training
from natsel.provenance import versions

# Names of what torch counts as a product: aten::mm, bmm, addmm, mkldnn_convolution, cudnn_convolution …
_PRODUCTS = ("mm", "convolution", "conv2d", "gemm", "xmma", "cutlass", "fprop", "wgrad")
_DIRECT = 64
_PROFILED = 2_000  # with fewer, what is done once for all pictures (drawing masks) would count for too much


def measure(count: int = 2_000, draws: int = 100, device: str | None = None) -> dict[str, Any]:
    """Believe about `count` pictures and say what it took.

    >>> found = measure(count=8, draws=3, device="cpu")
    >>> found["count"], found["route"]
    (8, 'together')
    """
    place = as_device(device)
    inputs, source = _pictures(count)
    model = Dropout(mnist_cnn, draws, Training(max_epochs=1, epoch_samples=64), place)
    model.fit(Examples(inputs[:20], np.arange(len(inputs[:20])) % 10))
    before = _memory(place)
    model.believe(
        inputs[:50]
    )  # what is done once for all, as loading kernels, is not timed; memory counts from here on
    _wait(place)
    start, spent = time.perf_counter(), time.process_time()
    belief = model.believe(inputs)
    _wait(place)
    seconds, spent = time.perf_counter() - start, time.process_time() - spent
    extra = _peak_memory(place) - before
    assert isinstance(belief, natsel.CategoricalSamples)
    some = inputs[: min(count, _PROFILED)]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the profiler sees the operations of one thread only
    profiles = [_profile(lambda: model.believe(some), place) for _ in range(3)]
    torch.set_num_threads(threads)
    products, all_operations, clock = min(profiles, key=lambda each: each[2])  # the least disturbed
    few = inputs[:_DIRECT]
    direct, direct_seconds = _directly(model, few, place)
    return {
        "count": count,
        "draws": draws,
        "pictures": source,
        "device": torch.cuda.get_device_name(place) if place.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "seconds": seconds,
        "cpu_seconds": spent,
        "ms_a_picture": 1e3 * seconds / count,
        "share_of_operations": products / all_operations,
        "share_of_clock": products / clock,
        "peak_extra_mib": extra / 2**20,
        "result_mib": belief.log_probs_N_K_C.nbytes / 2**20,
        "budget_mib": natsel.memory_budget() / 2**20,
        "direct_ms_a_picture": 1e3 * direct_seconds / len(few),
        "times_faster": direct_seconds / len(few) / (seconds / count),
        "largest_difference": float((direct - belief.log_probs_N_K_C[: len(few)]).abs().max()),
        "route": model.route,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2_000, help="how many pictures")
    parser.add_argument("--draws", type=int, default=100, help="how many draws of each")
    parser.add_argument("--device", help="cpu or cuda (default: an accelerator where there is one)")
    parser.add_argument("--threads", type=int, help="threads of torch")
    parser.add_argument("--json", action="store_true", help="print a document for machines")
    chosen = parser.parse_args()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    found = measure(chosen.count, chosen.draws, chosen.device)
    if chosen.json:
        command = f"python -m natsel.bench.believe --count {chosen.count} --draws {chosen.draws}"
        print(json.dumps({"command": command, "versions": versions(), **found}, indent=1))
        return
    print(
        f"{found['count']:,} pictures ({found['pictures']}) × {found['draws']} draws on {found['device']},"
        f" {found['threads']} threads: {found['seconds']:.2f} s ({found['cpu_seconds']:.2f} s CPU),"
        f" {found['ms_a_picture']:.3f} ms a picture\n"
        f"products and convolutions: {found['share_of_operations']:.0%} of all operations' time,"
        f" {found['share_of_clock']:.0%} of the clock's\n"
        f"peak extra memory {found['peak_extra_mib']:.0f} MiB, of which the belief is {found['result_mib']:.0f} MiB"
        f" (budget {found['budget_mib']:.0f} MiB)\n"
        f"directly, draw after draw: {found['direct_ms_a_picture']:.2f} ms a picture, {found['times_faster']:.1f} times"
        f" as long; largest difference of log probabilities {found['largest_difference']:.1e}"
    )


def _pictures(count: int) -> tuple[Any, str]:
    try:
        from natsel.data.load import load

        inputs = np.asarray(load("mnist").train.inputs)
        return np.concatenate([inputs] * -(-count // len(inputs)))[:count], "MNIST"
    except ValueError:  # not on this machine
        return np.random.default_rng(0).integers(256, size=(count, 28, 28), dtype=np.uint8), "noise"


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _memory(device: torch.device) -> int:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return int(torch.cuda.memory_allocated(device))
    status = Path("/proc/self/status")
    return _kilobytes(status, "VmRSS") if status.exists() else _peak_memory(device)


def _peak_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _kilobytes(status: Path, name: str) -> int:
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(name)) * 1024


def _profile(work: Callable[[], Any], device: torch.device) -> tuple[float, float, float]:
    """Seconds in matrix products and convolutions, in all operations, and on the clock."""
    cuda = device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    with profile(activities=activities) as found:
        start = time.perf_counter()
        work()
        _wait(device)
        clock = time.perf_counter() - start
    own = {
        row.key: (row.self_device_time_total if cuda else row.self_cpu_time_total) / 1e6 for row in found.key_averages()
    }
    products = sum(spent for name, spent in own.items() if any(part in name.lower() for part in _PRODUCTS))
    return products, sum(own.values()), clock


def _directly(model: Dropout, inputs: Any, device: torch.device) -> tuple[torch.Tensor, float]:
    assert model.module is not None
    with torch.no_grad():
        plan: Plan = plan_of(model.module, inputs, 0, model.draws, device)
        slow = replace(plan, route="one by one", draw_bytes=0)
        start = time.perf_counter()
        outputs = outputs_of(slow, model.module, inputs, 0, range(model.draws), device).log_softmax(-1)
        _wait(device)
        return outputs, time.perf_counter() - start


if __name__ == "__main__":
    main()
