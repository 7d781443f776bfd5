"""Per-example gradients of a network: rows A_n J_n, with J_n the Jacobian of its outputs in all its weights.

    rows_n = A_n J_n          A_n: [R × C] as `output_curvature` has it: GGN root, or one residual

Each row is one vector-Jacobian product; examples and rows are batched by `torch.func`, in chunks that keep to the
memory budget. A module that cannot be batched (it branches on its numbers) is asked one example at a time.
docs/theory/weight-space.md, 3 and 4.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from natsel.memory import attempt, memory_budget
from natsel.models.networks.evaluation_mode import evaluating
from natsel.models.networks.inputs import reader_of
from natsel.models.networks.prediction import TRIED, bytes_per_point, check_outputs
from natsel.models.protocol import Progress

Rows = Callable[[Tensor, Tensor], Tensor]


def learnable(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that gradients are about, in their order: frozen ones do not count.

    >>> list(learnable(nn.Linear(2, 2)))
    ['weight', 'bias']
    """
    found = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    if not found:
        raise ValueError("network: it has no parameters that learn; unfreeze some or pass another network")
    return found


def gradient_rows(
    module: nn.Module,
    inputs: Any,
    roots_N_R_C: Callable[[slice], Tensor],
    rows: int,
    device: torch.device,
    *,
    project: Callable[[Tensor], Tensor] | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """[N, R, P] (or [N, R, q] through `project`) in the module's own precision; `roots_N_R_C(part)` gives A of a chunk.

    >>> module = nn.Linear(2, 1, bias=False)
    >>> ones = lambda part: torch.ones(len(range(3)[part]), 1, 1)
    >>> gradient_rows(module, torch.eye(3)[:, :2], ones, 1, torch.device("cpu"))[:, 0].tolist()
    [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    """
    parameters = learnable(module)
    weights = sum(parameter.numel() for parameter in parameters.values())
    dtype = next(iter(parameters.values())).dtype
    with evaluating(module):
        read = reader_of(module, inputs, device)
        first = read(slice(0, 1))
        with torch.no_grad():
            check_outputs(module, read(slice(0, TRIED)))
            forward = bytes_per_point(module, first)
        rows_of = _gradient_function(module, parameters, first, roots_N_R_C(slice(0, 1)).to(dtype))
        # Gradients of every row, once as the layers give them and once side by side, and activations for each row.
        bytes_each = (rows + 1) * (2 * forward + 2 * weights * first.element_size())
        size = max(1, memory_budget() // 4 // bytes_each)

        def work(part: slice) -> Tensor:
            found_n_R_P = rows_of(read(part), roots_N_R_C(part).to(dtype))
            if project is None:
                return found_n_R_P
            return project(found_n_R_P.flatten(0, 1)).view(len(found_n_R_P), rows, -1)

        whole: Tensor | None = None
        start, count = 0, len(inputs)
        while start < count:
            part = slice(start, min(start + size, count))
            found = attempt(work, part)
            if found is None:
                size = max(1, (part.stop - part.start) // 2)
                continue
            if whole is None:
                whole = found.new_empty((count, *found.shape[1:]))
            whole[part] = found
            start = part.stop
            if progress:
                progress(start, count)
    assert whole is not None
    return whole


def _gradient_function(
    module: nn.Module, parameters: dict[str, nn.Parameter], first: Tensor, roots_1_R_C: Tensor
) -> Rows:
    """Batched where the module allows, one by one elsewhere."""
    batched = _batched(module, parameters)
    try:
        # Two, since gradients of some layers (PReLU) lose the axis of examples, which one example does not show.
        batched(torch.cat([first, first]), torch.cat([roots_1_R_C, roots_1_R_C]))
    except (RuntimeError, ValueError):
        return _one_by_one(module, parameters)
    return batched


def _batched(module: nn.Module, parameters: dict[str, nn.Parameter]) -> Rows:
    values = {name: parameter.detach() for name, parameter in parameters.items()}
    others = {
        name: tensor.detach()
        for name, tensor in (*module.named_parameters(), *module.named_buffers())
        if name not in values
    }

    def one(example: Tensor, roots_R_C: Tensor) -> dict[str, Tensor]:
        def outputs(weights: dict[str, Tensor]) -> Tensor:
            found: Tensor = functional_call(module, {**weights, **others}, (example[None],))
            return found.reshape(-1)

        pull = vjp(outputs, values)[1]
        found: dict[str, Tensor] = vmap(lambda root_C: pull(root_C)[0])(roots_R_C)
        return found

    def rows_of(inputs_n: Tensor, roots_n_R_C: Tensor) -> Tensor:
        found = vmap(one)(inputs_n, roots_n_R_C)
        return torch.cat([found[name].detach().flatten(2) for name in values], 2)

    return rows_of


def _one_by_one(module: nn.Module, parameters: dict[str, nn.Parameter]) -> Rows:
    weights = list(parameters.values())

    def rows_of(inputs_n: Tensor, roots_n_R_C: Tensor) -> Tensor:
        found: list[Tensor] = []
        for example, roots_R_C in zip(inputs_n, roots_n_R_C, strict=True):
            with torch.enable_grad():
                outputs_C = module(example[None].clone()).reshape(-1)
                for root_C in roots_R_C:
                    parts = torch.autograd.grad(outputs_C, weights, root_C, retain_graph=True, allow_unused=True)
                    flat = [
                        torch.zeros_like(weight) if part is None else part
                        for part, weight in zip(parts, weights, strict=True)
                    ]
                    found.append(torch.cat([part.detach().flatten() for part in flat]))
        return torch.stack(found).view(len(inputs_n), -1, found[0].numel())

    return rows_of
