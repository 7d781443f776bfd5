"""What some work takes: the one way in which every measurement takes time and memory.

    seconds          wall time: the median over the runs
    cpu_seconds      CPU time of all threads: the median over the runs
    peak_extra_mib   the highest memory of any run beyond what was held before it: resident memory on the CPU, memory
                     allocated by torch on an accelerator

On a busy machine trust the CPU seconds: they do not count the time that other programs had the processor.
"""

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import torch

from natsel.bench.peer_worker import Meter


def timed(
    work: Callable[[int], Any], repeat: int = 1, device: str = "cpu", first: Callable[[], Any] = lambda: None
) -> tuple[dict[str, Any], Any]:
    """What `work(0)`, `work(1)`, … took, and the result of the last one. Work on an accelerator is waited for.

    `first` is what is done once before: its memory counts, its time does not.

    >>> took, result = timed(lambda run: run + 1, repeat=2)
    >>> result, sorted(took), len(took["seconds_runs"])
    (2, ['cpu_seconds', 'cpu_seconds_runs', 'peak_extra_mib', 'seconds', 'seconds_runs'], 2)
    """
    place, laps, peaks, result = torch.device(device), [], [], None
    for run in range(repeat):
        result = None  # so that what the run before made does not count as held
        if place.type == "cuda":
            torch.cuda.synchronize(place)
            torch.cuda.reset_peak_memory_stats(place)
            held = torch.cuda.memory_allocated(place)
        meter = Meter()
        if run == 0:
            first()
        result, cpu, wall = meter.lap(partial(_waited, work, run, place))
        laps.append((cpu, wall))
        peaks.append(
            (torch.cuda.max_memory_allocated(place) - held) / 2**20 if place.type == "cuda" else meter.peak_extra_mib()
        )
    cpu_runs, wall_runs = (list(times) for times in zip(*laps, strict=True))
    took = {"seconds": median(wall_runs), "cpu_seconds": median(cpu_runs), "peak_extra_mib": max(peaks)}
    return took | {"seconds_runs": wall_runs, "cpu_seconds_runs": cpu_runs}, result


def device_name(device: str | torch.device) -> str:
    """What a reader calls a device.

    >>> device_name("cpu")
    'cpu'
    """
    place = torch.device(device)
    return torch.cuda.get_device_name(place) if place.type == "cuda" else place.type


def _waited(work: Callable[[int], Any], run: int, place: torch.device) -> Any:
    result = work(run)
    if place.type == "cuda":
        torch.cuda.synchronize(place)
    return result
