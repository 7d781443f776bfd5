"""The draws of a module's dropout over many points: how they are computed, and in how much memory.

Most modules bear that their batch grows K-fold at the first dropout, and then only what comes after it is repeated.
Some do not (a connection that skips the dropout, a reshape that knows the batch's size): both ways are tried on a few
points, and where the answers differ the draws are computed one at a time, which every module bears. The trial also
counts the bytes that a point and each of its draws take; chunks of points, and where need be of draws, keep to the
memory budget.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal

import torch
from torch import Tensor, nn

from natsel.memory import chunked, memory_budget, rows_per_chunk
from natsel.models.dropout.masks import Draws, Masks
from natsel.models.networks.evaluation_mode import evaluating
from natsel.models.networks.inputs import DEPENDS, as_device, reader_of, shapes_explained
from natsel.models.networks.outputs import refuse_probabilities
from natsel.models.networks.prediction import TRIED, agree
from natsel.models.protocol import Progress

# What a chunk may make in all on a CPU; little of it is alive at once. Smaller chunks pay more for starting each
# operation, larger ones leave the caches that threads share (measured, CPU time per picture: on one thread 1.6 ms at 8
# MB per chunk, 1.3 at 20, 1.2 at 32, 1.1 to 1.2 at 48 to 100, 1.5 at 160; on two threads 1.2 at 32, 1.1 to 1.5 at 64).
_CPU_CHUNK = 32 << 20


@dataclass(frozen=True)
class MaskPlan:
    """How a module's draws are computed: all together or one by one, and the bytes a point and each draw of it take."""

    route: Literal["together", "one by one"]
    point_bytes: int
    draw_bytes: int

    def draws_at_once(self, draws: int) -> int:
        """As many draws as the memory budget holds for one point."""
        if self.route == "one by one":
            return 1
        return max(1, min(draws, (memory_budget() - self.point_bytes) // max(1, self.draw_bytes)))


def dropout_logits(
    module: nn.Module, inputs: Any, seed: int, draws: Sequence[int], device: torch.device | str | None = None
) -> Tensor:
    """[N, K, C]: the outputs of a module for some draws of its dropout, the same draws for every input.

    >>> module = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 2))
    >>> outputs = dropout_logits(module, torch.ones(4, 3), seed=0, draws=range(10), device="cpu")
    >>> outputs.shape, bool((outputs[0] == outputs[3]).all())
    (torch.Size([4, 10, 2]), True)
    """
    device = as_device(device)
    with evaluating(module), torch.no_grad():
        plan = plan_of(module, inputs, seed, len(draws), device)
        return outputs_of(plan, module, inputs, seed, draws, device)


def mean_outputs(
    module: nn.Module, inputs: Any, seed: int, draws: int, device: torch.device
) -> Callable[[Tensor], Tensor]:
    """A function from inputs to what the mean over draws says: log probabilities, or one number. `inputs` are a sample.

    The draws stay the same while the module learns, so that two answers differ by the weights alone.

    >>> module = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 2))
    >>> mean = mean_outputs(module, torch.ones(4, 3), seed=0, draws=20, device=torch.device("cpu"))
    >>> mean(torch.ones(4, 3)).exp().sum(1).allclose(torch.ones(4))
    True
    """
    with evaluating(module), torch.no_grad():
        plan = plan_of(module, inputs, seed, draws, device)

    def outputs(inputs_N: Tensor) -> Tensor:
        with evaluating(module), torch.no_grad():
            outputs_N_K_C = outputs_of(plan, module, inputs_N, seed, range(draws), device)
        if outputs_N_K_C.shape[-1] == 1:
            return outputs_N_K_C.mean(1)
        return outputs_N_K_C.log_softmax(-1).logsumexp(1) - math.log(draws)

    return outputs


def plan_of(module: nn.Module, inputs: Any, seed: int, draws: int, device: torch.device) -> MaskPlan:
    """Try a few points and draws: which route gives the right answers, and how much memory a point takes."""
    if any(hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None) for part in module.modules()):
        raise ValueError("network: it is compiled, so that it draws no masks; pass the module before torch.compile")
    inputs_n = reader_of(module, inputs, device)(slice(0, TRIED))
    if len(inputs_n) == 1:  # a second point, so that one that depends on its neighbours is noticed
        inputs_n = torch.cat([inputs_n, (inputs_n / 2).to(inputs_n.dtype)])
    masks, few = Masks(seed, memory_budget() // 8), range(4)
    with shapes_explained(module, inputs_n):
        singly = [_forward(module, inputs_n, masks, [draw], draws, counting=True) for draw in few]
    right_n_K_C = torch.cat([outputs for outputs, _ in singly], 1)
    refuse_probabilities(right_n_K_C)
    if not singly[0][1].active:
        raise ValueError(
            "network: it calls no dropout, so that all its draws would be the same; add nn.Dropout layers with p > 0,"
            " or use natsel.models.Ensemble"
        )
    if not bool(right_n_K_C.isfinite().all()):
        raise ValueError("network: its outputs are NaN or infinite; lower the learning rate or scale the inputs")
    for place, row in enumerate(inputs_n):
        alone_1_K_C = torch.cat([_forward(module, row[None], masks, [draw], draws)[0] for draw in few], 1)
        if not agree(right_n_K_C[place : place + 1], alone_1_K_C, right_n_K_C):
            raise ValueError(DEPENDS)
    count = len(inputs_n)
    one_by_one = MaskPlan("one by one", singly[0][1].bytes // count, 0)
    if draws == 1:
        return one_by_one
    try:
        found_n_K_C, four = _forward(module, inputs_n, masks, few, draws, counting=True)
        _, two = _forward(module, inputs_n, masks, few[:2], draws, counting=True)
    except (RuntimeError, ValueError, IndexError, TypeError):  # whatever a module does with a batch it did not expect
        return one_by_one
    if not agree(right_n_K_C, found_n_K_C, right_n_K_C):
        return one_by_one
    draw_bytes = (four.bytes - two.bytes) // (2 * count)
    return MaskPlan("together", max(0, two.bytes // count - 2 * draw_bytes), draw_bytes)


def outputs_of(
    plan: MaskPlan,
    module: nn.Module,
    inputs: Any,
    masks: Masks | int,
    draws: Sequence[int],
    device: torch.device,
    *,
    then: Callable[[Tensor], Tensor] | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """[N, K, C] in chunks that keep to the memory budget, each passed through `then`; `masks`, or their seed."""
    at_once = plan.draws_at_once(len(draws))
    drawn = Masks(masks, memory_budget() // 8) if isinstance(masks, int) else masks
    pieces = [draws[start : start + at_once] for start in range(0, len(draws), at_once)]
    read = reader_of(module, inputs, device)

    def work(part: slice) -> Tensor:
        inputs_n = read(part)
        outputs_n_K_C = torch.cat([_forward(module, inputs_n, drawn, piece, len(draws))[0] for piece in pieces], 1)
        return outputs_n_K_C if then is None else then(outputs_n_K_C)

    return _over_points(work, len(inputs), plan.point_bytes + at_once * plan.draw_bytes, device, progress)


def _over_points(
    work: Callable[[slice], Tensor], count: int, bytes_each: int, device: torch.device, progress: Progress | None
) -> Tensor:
    """`work` over all points in chunks; on a CPU each thread goes through a part of the points of its own.

    Threads inside every operation would wait for each other thousands of times a second, and for other programs on the
    machine each time (measured with a busy neighbour: ten times as long on two threads as on one).
    """
    done, counting = 0, Lock()

    def worked(part: slice) -> Tensor:
        nonlocal done
        found = work(part)
        with counting:
            done += part.stop - part.start
            if progress is not None:
                progress(done, count)
        return found

    if device.type != "cpu":
        return chunked(worked, count, bytes_each, device)
    threads = max(1, min(torch.get_num_threads(), count))
    rows = max(1, min(memory_budget() // threads, _CPU_CHUNK) // max(1, bytes_each))
    bytes_each = rows_per_chunk(1, device) // rows
    if threads == 1:
        return chunked(worked, count, bytes_each, device)
    first = work(slice(0, 1))  # for its shape; and the masks are drawn once, before threads ask for them
    whole = first.new_empty((count, *first.shape[1:]))

    def span(number: int) -> None:
        start, stop = count * number // threads, count * (number + 1) // threads

        def write(part: slice) -> Tensor:
            there = slice(start + part.start, start + part.stop)
            whole[there] = worked(there)
            return whole[there, :0]

        torch.set_num_threads(1)  # inside this thread
        with torch.no_grad():
            chunked(write, stop - start, bytes_each, device)

    try:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(span, range(threads)))
    finally:
        torch.set_num_threads(threads)
    return whole


@torch.no_grad()
def _forward(
    module: nn.Module, inputs_n: Tensor, masks: Masks, draws: Sequence[int], total: int, counting: bool = False
) -> tuple[Tensor, Draws]:
    """[n, K, C] in one pass, and what the pass saw."""
    with Draws(masks, draws, len(inputs_n), total, counting) as seen:
        outputs = module(inputs_n.clone())  # a module may work in place, and these may be the user's own numbers
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or len(outputs) != len(inputs_n) * len(draws):
        found = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ValueError(
            f"network: expected outputs of shape (points, classes), found {found}; end it with a linear layer"
        )
    return outputs.reshape(len(inputs_n), len(draws), -1), seen
