"""Selective training: how long a step takes beside the passes that it needs, and beside a plain step.

    plain         forward and backward on n_b examples that lie ready, and the optimiser
    needed        forward without gradients on n_B candidates that lie ready, then a plain step
    selective     next(loader), then a plain step on the n_b selected of n_B candidates
    overlapped    as selective with lag=True: the next candidates are scored before the step, on a GPU while it runs
    bfloat16      as overlapped, with candidates scored in bfloat16
    …_graph       on a GPU: the same with cuda_graph=True

    over_needed = selective / needed              overlapped_over_plain = overlapped / plain

The contenders take turns, a block of steps each, so that whatever else the machine does meets all of them alike; times
are medians over the blocks, in milliseconds per step: CPU time, or wall time with a GPU, which is waited for at the
end of each block. Examples lie in the memory of the device, or with data=host in that of the machine. Needs torch and
NumPy alone.
docs/theory/training-selection.md, 6.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from natsel.bench.laps import device_name
from natsel.models import mlp, resnet18, wide_resnet
from natsel.sampling import SelectiveLoader

NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp 64-128-10": (lambda: mlp(64, 10, (128,)), (64,)),
    "mlp 784-512-512-10": (lambda: mlp(784, 10, (512, 512)), (784,)),
    "wide resnet 10-1, 16×16": (lambda: wide_resnet(shape=(16, 16), depth=10, widening=1), (16, 16, 3)),
}
LARGER: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "resnet-18, a quarter wide, 32×32": (lambda: resnet18(shape=(32, 32), width=16), (32, 32, 3)),
    "resnet-18, 32×32": (lambda: resnet18(shape=(32, 32)), (32, 32, 3)),
}
"""Where there is a GPU."""


def measure(
    batch: int = 32, percent: int = 10, device: str = "cpu", data: str = "device", steps: int = 5, repeat: int = 20
) -> dict[str, Any]:
    """Each network in `repeat` blocks of so many steps; `percent` of the candidates are trained on."""
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device: no CUDA device was found; leave it out for the CPU")
    if data not in ("device", "host"):
        raise ValueError(f"data: expected device or host, found {data!r}")
    networks = NETWORKS if device == "cpu" else NETWORKS | LARGER
    sizes = batch, percent, device, data, steps, repeat
    return {"device": device_name(device), "rows": [measure_network(name, *sizes) for name in networks]}


def measure_network(
    name: str, batch: int, percent: int, device: str, data: str, steps: int, repeat: int
) -> dict[str, Any]:
    """One network.

    >>> row = measure_network("mlp 64-128-10", 4, 50, "cpu", "device", steps=1, repeat=2)
    >>> row["n_B"], row["selective_ms"] > 0
    (8, True)
    """
    make, shape = (NETWORKS | LARGER)[name]
    n_candidates = -(-100 * batch // percent)
    generator = torch.Generator().manual_seed(0)
    inputs_N = torch.randn(100 * n_candidates, *shape, generator=generator)
    labels_N = torch.randint(0, 10, (len(inputs_N),), generator=generator)
    there_N, there_labels_N = inputs_N.to(device), labels_N.to(device)
    pair = (there_N, there_labels_N) if data == "device" else (inputs_N.numpy(), labels_N.numpy())
    loader_options: dict[str, dict[str, Any]] = {
        "selective": {},
        "overlapped": {"lag": True},
        "bfloat16": {"lag": True, "precision": "bfloat16"},
    }
    if device == "cuda":
        loader_options |= {
            f"{each}_graph": loader_options[each] | {"cuda_graph": True} for each in list(loader_options)
        }
    contenders: dict[str, Iterator[None]] = {}
    for contender in ("plain", "needed", *loader_options):
        torch.manual_seed(0)
        network = make().to(device).train()
        if contender in loader_options:
            loader = SelectiveLoader(
                pair,
                network,
                irreducible_loss=torch.zeros(len(inputs_N)),
                keep=percent / 100,
                batch=batch,
                **loader_options[contender],
            )
            batches = _selected(loader)
        else:
            scored = n_candidates if contender == "needed" else 0
            batches = _ready(
                network, scored, torch.split(there_N, n_candidates), torch.split(there_labels_N, n_candidates), batch
            )
        contenders[contender] = _training(network, batches)
    took = _turns(contenders, steps, repeat, device)
    return {
        "network": name,
        "n_b": batch,
        "n_B": n_candidates,
        **{f"{contender}_ms": ms for contender, ms in took.items()},
        **{
            each.replace("selective", "over_needed"): took[each] / took["needed"]
            for each in loader_options
            if each.startswith("selective")
        },
        **{
            f"{each}_over_plain": took[each] / took["plain"]
            for each in loader_options
            if not each.startswith("selective")
        },
    }


Batches = Iterator[Any]
"""Of inputs, labels and weights (None: all alike)."""


def _selected(loader: SelectiveLoader) -> Batches:
    while True:
        yield from loader


def _ready(network: nn.Module, scored: int, inputs: Sequence[Tensor], labels: Sequence[Tensor], batch: int) -> Batches:
    """The first of each batch of candidates in turn, after a pass over so many of them."""
    for inputs_n, labels_n in cycle(zip(inputs, labels, strict=True)):
        if scored:
            with torch.no_grad():
                network(inputs_n[:scored])
        yield inputs_n[:batch], labels_n[:batch], None


def _training(network: nn.Module, batches: Batches) -> Iterator[None]:
    """One training step after the other."""
    optimiser = torch.optim.SGD(network.parameters(), lr=1e-3)
    for inputs_B, labels_B, weights_B in batches:
        optimiser.zero_grad()
        loss_B = nn.functional.cross_entropy(network(inputs_B), labels_B, reduction="none")
        (loss_B if weights_B is None else weights_B * loss_B).mean().backward()
        optimiser.step()
        yield


def _turns(contenders: dict[str, Iterator[None]], steps: int, repeat: int, device: str) -> dict[str, float]:
    """Milliseconds per step of each, taken turn by turn; the first block of each is not counted."""
    clock = time.perf_counter if device == "cuda" else time.process_time
    took: dict[str, list[float]] = {contender: [] for contender in contenders}
    for _ in range(repeat + 1):
        for contender, training in contenders.items():
            if device == "cuda":
                torch.cuda.synchronize()
            start = clock()
            for _ in range(steps):
                next(training)
            if device == "cuda":
                torch.cuda.synchronize()
            took[contender].append((clock() - start) / steps)
    return {contender: 1e3 * median(blocks[1:]) for contender, blocks in took.items()}
