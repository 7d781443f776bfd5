"""Lengths of per-example gradients, layer by layer: no example's gradient is held as a whole.

    ‖∇_θ l_n‖² = Σ over layers of ‖∇_W l_n‖² + ‖∇_b l_n‖²

With a what a layer reads and δ = ∂l/∂(what it returns), at places t (pixels; a linear layer has one):

    linear, convolution   ∇_W = Σ_t δ_t a_tᵀ,   ∇_b = Σ_t δ_t         a_t: the pixels under the kernel
                          ‖∇_W‖² = Σ_{t,u} (a_t·a_u)(δ_t·δ_u)         the same number, cheaper where places are few
    batch norm            ∇_γ = Σ_t δ_t (a_t − mean)/√(var + ε),  ∇_β = Σ_t δ_t         with fixed statistics

One ordinary backward pass gives δ of all examples of a chunk. Whole gradients (`per_example.py`) of a ResNet-18 need
eight times the memory per example, and convolutions with as many groups as examples. They are made for networks with
other layers that learn, with a layer used twice, or with weights used outside of their layer: for the first two
examples, lengths are computed both ways and compared.  Goodfellow 2015; Li et al. 2022; docs/theory/data-pruning.md, 1.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from natsel.memory import chunked
from natsel.models.last_layer.per_example import gradient_rows, learnable
from natsel.models.networks.evaluation_mode import evaluating
from natsel.models.networks.inputs import reader_of
from natsel.models.networks.prediction import POINTS_AT_A_TIME, bytes_per_point, check_outputs
from natsel.models.protocol import Progress

_AGREE = 1e-3
"""Relative difference up to which both ways count as equal."""


def gradient_lengths(
    module: nn.Module,
    inputs: Any,
    residuals: Callable[[slice], Tensor],
    device: torch.device,
    *,
    progress: Progress | None = None,
) -> Tensor:
    """‖r_n J_n‖ of each example in float64, J_n the Jacobian of the outputs in all weights that learn.

    `residuals(part)` gives r_n_C of a chunk, the gradient of a loss in the outputs. The module is in evaluation mode.

    >>> ones = lambda part: torch.ones(len(range(2)[part]), 1)
    >>> gradient_lengths(nn.Linear(2, 1, bias=False), torch.tensor([[3.0, 4.0], [0.0, 1.0]]), ones, torch.device("cpu"))
    tensor([5., 1.], dtype=torch.float64)
    """
    learnable(module)  # refuses a network that learns nothing
    with evaluating(module):
        read = reader_of(module, inputs, device)
        first = read(slice(0, 1))
        with torch.no_grad():
            check_outputs(module, first)
            forward = bytes_per_point(module, first)
        bytes_each = _bytes_by_layers(module, inputs, read, residuals, device)
        if bytes_each is None:
            return _by_whole_gradients(module, inputs, residuals, device, progress)

        def work(part: slice) -> Tensor:
            found_n = _by_layers(module, read(part), residuals(part))
            assert found_n is not None
            if progress:
                progress(part.stop, len(inputs))
            return found_n[0]

        # Activations, once for the forward pass and once for their gradients, and what the widest layer works with.
        return chunked(work, len(inputs), 3 * forward + bytes_each, device, at_least=POINTS_AT_A_TIME)


def _by_whole_gradients(
    module: nn.Module,
    inputs: Any,
    residuals: Callable[[slice], Tensor],
    device: torch.device,
    progress: Progress | None = None,
) -> Tensor:
    rows = lambda part: residuals(part)[:, None]  # noqa: E731
    return gradient_rows(module, inputs, rows, 1, device, project=_row_lengths, progress=progress)[:, 0, 0]


def _row_lengths(rows_n_P: Tensor) -> Tensor:
    lengths_n_1: Tensor = torch.linalg.vector_norm(rows_n_P, dim=1, keepdim=True, dtype=torch.float64)
    return lengths_n_1


def _bytes_by_layers(
    module: nn.Module,
    inputs: Any,
    read: Callable[[slice], Tensor],
    residuals: Callable[[slice], Tensor],
    device: torch.device,
) -> int | None:
    """What the widest layer works with, in bytes per example; None where lengths layer by layer would be wrong."""
    if not _known_layers(module):
        return None
    two = slice(0, min(2, len(inputs)))
    # Not the residuals themselves: where predictions are sure these are 0, and so would both lengths be.
    any_n_C = torch.linspace(1, 2, residuals(two).shape[1], device=device).expand(len(read(two)), -1)
    with _all_digits(device):
        try:
            found = _by_layers(module, read(two), any_n_C)
        except (RuntimeError, ValueError, IndexError):
            return None
        if found is None:
            return None
        whole_n = _by_whole_gradients(module, inputs[two], lambda part: any_n_C[part], device)
    return found[1] if torch.allclose(found[0], whole_n, rtol=_AGREE, atol=1e-12) else None


@contextmanager
def _all_digits(device: torch.device) -> Iterator[None]:
    """A block in which convolutions on an accelerator keep the digits of float32, not three of them."""
    if device.type != "cuda":
        yield
        return
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def _known_layers(module: nn.Module) -> bool:
    """Whether all that learns belongs to one layer of a kind whose gradients have a formula above."""
    owners: set[int] = set()
    for part in module.modules():
        own = [parameter for parameter in part.parameters(recurse=False) if parameter.requires_grad]
        if not own:
            continue
        # Exact types: a subclass, or a layer whose weight is computed from others, may do anything.
        if type(part) is nn.Conv2d:
            known = part.groups == 1 and part.padding_mode == "zeros" and not isinstance(part.padding, str)
        elif type(part) in (nn.BatchNorm1d, nn.BatchNorm2d):
            known = part.running_mean is not None
        else:
            known = type(part) is nn.Linear
        if not known or any(id(parameter) in owners for parameter in own):
            return False
        owners.update(id(parameter) for parameter in own)
    return True


@dataclass
class _Squares:
    """What a backward pass adds up: squared lengths, and the most bytes per example of a layer."""

    square_n: Tensor
    calls: list[nn.Module] = field(default_factory=list)
    bytes_each: int = 1

    def add(self, layer: nn.Module, seen_n: Tensor, delta_n: Tensor) -> None:
        if isinstance(layer, nn.Conv2d):
            sides: dict[str, Any] = {"dilation": layer.dilation, "padding": layer.padding, "stride": layer.stride}
            seen_n_D_T = F.unfold(seen_n, layer.kernel_size, **sides)
        elif isinstance(layer, nn.Linear):
            if seen_n.ndim != 2:
                raise ValueError("seen_n: a linear layer over several places")
            seen_n_D_T = _places_last(seen_n)
        else:
            assert isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d)
            assert layer.running_mean is not None
            assert layer.running_var is not None
            seen_n_D_T, delta_n_D_T = _places_last(seen_n), _places_last(delta_n)
            scale_D = (layer.running_var + layer.eps).rsqrt()
            normal_n_D_T = (seen_n_D_T - layer.running_mean[:, None]) * scale_D[:, None]
            self._count((delta_n_D_T * normal_n_D_T).sum(2), layer.weight)
            self._count(delta_n_D_T.sum(2), layer.bias)
            return
        delta_n_O_T = _places_last(delta_n)
        features, places = seen_n_D_T.shape[1:]
        outputs = delta_n_O_T.shape[1]
        self._count(delta_n_O_T.sum(2), layer.bias)
        if not layer.weight.requires_grad:
            return
        if places == 1:
            self.square_n += seen_n_D_T.square().sum((1, 2)).double() * delta_n_O_T.square().sum((1, 2)).double()
        elif places * (features + outputs) < features * outputs:
            seen_n_T_T, delta_n_T_T = (one.transpose(1, 2) @ one for one in (seen_n_D_T, delta_n_O_T))
            self.square_n += (seen_n_T_T * delta_n_T_T).sum((1, 2)).double().clamp_min(0)
        else:
            self.square_n += (delta_n_O_T @ seen_n_D_T.transpose(1, 2)).square().sum((1, 2)).double()
        numbers = features * places + 2 * min(features * outputs, 2 * places * places)
        self.bytes_each = max(self.bytes_each, numbers * seen_n.element_size())

    def _count(self, gradient_n_D: Tensor, parameter: Tensor | None) -> None:
        if parameter is not None and parameter.requires_grad:
            self.square_n += gradient_n_D.square().sum(1).double()


def _places_last(values_n: Tensor) -> Tensor:
    """[n, features, …] → [n, features, T]."""
    return values_n[:, :, None] if values_n.ndim == 2 else values_n.flatten(2)


def _by_layers(module: nn.Module, inputs_n: Tensor, residuals_n_C: Tensor) -> tuple[Tensor, int] | None:
    """lengths_n and bytes per example; None where a layer with weights was not used exactly once."""
    squares = _Squares(torch.zeros(len(inputs_n), dtype=torch.float64, device=inputs_n.device))
    with _watched(module, squares) as layers, torch.enable_grad():
        # In-place modules must not reach the leaf, nor the numbers of the user.
        inputs_n = inputs_n.detach().clone().requires_grad_()
        outputs_n_C = module(inputs_n * 1)
        # Of the inputs alone: no gradient of a weight is made.
        torch.autograd.grad(outputs_n_C, inputs_n, residuals_n_C.to(outputs_n_C.dtype), allow_unused=True)
    if sorted(map(id, squares.calls)) != sorted(map(id, layers)):
        return None
    return squares.square_n.sqrt(), squares.bytes_each


@contextmanager
def _watched(module: nn.Module, squares: _Squares) -> Iterator[list[nn.Module]]:
    """A block in which every layer that learns adds its part to `squares` during a backward pass."""
    layers = [part for part in module.modules() if any(one.requires_grad for one in part.parameters(recurse=False))]

    def called(layer: nn.Module, given: tuple[Tensor, ...], returned: Tensor) -> None:
        squares.calls.append(layer)
        seen_n = given[0].detach()
        returned.register_hook(lambda delta_n: squares.add(layer, seen_n, delta_n.detach()))  # type: ignore[no-untyped-call]

    hooks = [layer.register_forward_hook(called) for layer in layers]
    try:
        yield layers
    finally:
        for hook in hooks:
            hook.remove()
