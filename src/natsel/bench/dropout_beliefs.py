"""Consistent dropout: seconds for many pictures, which share of them is matrix products, and what it takes in memory.

    share_of_operations   own time of matrix products and convolutions / own time of all operations
    share_of_clock        the same / time on the clock
    times_faster          ms per picture draw after draw, each a whole pass through the network / ms per picture of ours

The network is that of the BatchBALD paper; the pictures are MNIST's where it is found, noise otherwise (the work is the
same). The profile is that of one thread, and the one with the least time of three. Needs torch and NumPy alone.
docs/decisions/0008-dropout-is-caught-where-it-is-called.md.
"""

import time
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

import natsel
from natsel.bench.laps import device_name, timed
from natsel.data.examples import Examples
from natsel.models.dropout.dropout import Dropout
from natsel.models.dropout.mask_plan import outputs_of, plan_of
from natsel.models.networks.architectures import mnist_cnn
from natsel.models.networks.inputs import as_device
from natsel.models.networks.training import Training

# Names of what torch counts as a product: aten::mm, bmm, addmm, mkldnn_convolution, cudnn_convolution …
_PRODUCTS = ("mm", "convolution", "conv2d", "gemm", "xmma", "cutlass", "fprop", "wgrad")
_DIRECT = 64
_PROFILED = 2_000  # with fewer, what is done once for all pictures (drawing masks) would count for too much


def measure(count: int = 2_000, draws: int = 100, device: str | None = None, repeat: int = 1) -> dict[str, Any]:
    """Believe about `count` pictures and say what it took; `device` None takes an accelerator where there is one.

    >>> found = measure(count=8, draws=3, device="cpu")
    >>> found["device"], found["route"]
    ('cpu', 'together')
    """
    place = as_device(device)
    inputs, source = _pictures(count)
    model = Dropout(mnist_cnn, draws, Training(max_epochs=1, epoch_samples=64), place)
    model.fit(Examples(inputs[:20], np.arange(len(inputs[:20])) % 10))
    # What is done once for all, as loading kernels, is not timed; its memory counts.
    first = partial(model.believe, inputs[:50])
    took, belief = timed(lambda run: model.believe(inputs), repeat, str(place), first)
    assert isinstance(belief, natsel.CategoricalSamples)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the profiler sees the operations of one thread only
    profiles = [_profile(model, inputs[:_PROFILED], place) for _ in range(3)]
    torch.set_num_threads(threads)
    products, all_operations, clock = min(profiles, key=lambda each: each[2])  # the least disturbed
    few = inputs[:_DIRECT]
    module = model.module
    assert module is not None
    with torch.no_grad():
        plan = replace(plan_of(module, few, 0, draws, place), route="one by one", draw_bytes=0)
        direct, log_probs_n_K_C = timed(
            lambda run: outputs_of(plan, module, few, 0, range(draws), place).log_softmax(-1), repeat, str(place)
        )
    each, direct_each = took["seconds"] / count, direct["seconds"] / len(few)
    return {
        "pictures": source,
        "device": device_name(place),
        **took,
        "ms_per_picture": 1e3 * each,
        "share_of_operations": products / all_operations,
        "share_of_clock": products / clock,
        "result_mib": belief.log_probs_N_K_C.nbytes / 2**20,
        "budget_mib": natsel.memory_budget() / 2**20,
        "direct_ms_per_picture": 1e3 * direct_each,
        "times_faster": direct_each / each,
        "largest_difference": float((log_probs_n_K_C - belief.log_probs_N_K_C[: len(few)]).abs().max()),
        "route": model.route,
    }


def _pictures(count: int) -> tuple[Any, str]:
    try:
        from natsel.data.load import load

        inputs = np.asarray(load("mnist").train.inputs)
        return np.concatenate([inputs] * -(-count // len(inputs)))[:count], "MNIST"
    except ValueError:  # not on this machine
        return np.random.default_rng(0).integers(256, size=(count, 28, 28), dtype=np.uint8), "noise"


def _profile(model: Dropout, inputs: Any, place: torch.device) -> tuple[float, float, float]:
    """Seconds in matrix products and convolutions, in all operations, and on the clock."""
    cuda = place.type == "cuda"
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]) as found:
        start = time.perf_counter()
        model.believe(inputs)
        if cuda:
            torch.cuda.synchronize(place)
        clock = time.perf_counter() - start
    rows = found.key_averages()
    own = {row.key: (row.self_device_time_total if cuda else row.self_cpu_time_total) / 1e6 for row in rows}
    products = sum(spent for name, spent in own.items() if any(part in name.lower() for part in _PRODUCTS))
    return products, sum(own.values()), clock
