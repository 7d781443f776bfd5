"""Sketched gradients of networks made of linear layers, without a single gradient: factors in place of weights.

    z_l = W_l u_l,   ∂f/∂W_l = δ_l u_lᵀ          u_l: what layer l sees, with a 1 where it has a bias;  δ_l = ∂f/∂z_l
    k(x, x') = Σ_l (u_l·u'_l)(δ_l·δ'_l)

    column j of the sketch = q^(−½) Σ_l (a_lj·δ_l)(b_lj·u_l)          a, b: random signs

That is the sketch of the whole gradient by signs a_loj b_lij, products of a sign for the output and a sign for the
input of a weight: right on average, and Σ in·out numbers of a gradient become Σ (in + out) that are looked at. Columns
are less exact than those of independent signs: the variance of a squared length is up to 8/q of its square, not 2/q.
docs/theory/black-box.md; docs/theory/weight-space.md, 4.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from natsel.memory import chunked
from natsel.models.last_layer.per_example import learnable
from natsel.models.last_layer.readout import LinearLayer, seen_by_weights
from natsel.models.last_layer.sketch import Sketch
from natsel.models.networks.evaluation_mode import evaluating
from natsel.models.networks.inputs import reader_of
from natsel.models.networks.prediction import bytes_per_point, check_outputs
from natsel.models.protocol import Progress


def layer_sketch_rows(
    module: nn.Module,
    inputs: Any,
    roots_N_R_C: Callable[[slice], Tensor],
    rows: int,
    sketch: Sketch,
    device: torch.device,
    *,
    progress: Progress | None = None,
) -> Tensor:
    """[N, R, q] in the module's own precision, as `gradient_rows` with a projection; `roots_N_R_C(part)` gives A.

    >>> module = nn.Linear(2, 1, bias=False)
    >>> ones = lambda part: torch.ones(len(range(3)[part]), 1, 1)
    >>> rows = layer_sketch_rows(module, torch.eye(3)[:, :2], ones, 1, Sketch(8, "products"), torch.device("cpu"))
    >>> rows.square().sum(2).round(decimals=4).flatten().tolist()
    [1.0, 1.0, 0.0]
    """
    layers = linear_layers(module)
    signs = [sketch.signs(number, _counts(layer), device) for number, layer in enumerate(layers)]
    with evaluating(module):
        read = reader_of(module, inputs, device)
        first = read(slice(0, 1))
        with torch.no_grad():
            check_outputs(module, first)
            forward = bytes_per_point(module, first)

        def work(part: slice) -> Tensor:
            inputs_l, outputs_l, outputs_n_C = _traced(module, layers, read(part))
            roots_n_R_C = roots_N_R_C(part).to(outputs_n_C)
            found_R: list[Tensor] = []
            for row in range(rows):
                deltas_l = torch.autograd.grad(
                    outputs_n_C, outputs_l, roots_n_R_C[:, row], retain_graph=row + 1 < rows, allow_unused=True
                )
                found_n_Q = outputs_n_C.new_zeros(len(outputs_n_C), sketch.columns)
                for (left_O_Q, right_I_Q), seen_n_I, delta_n_O in zip(signs, inputs_l, deltas_l, strict=True):
                    if delta_n_O is not None:
                        found_n_Q += (delta_n_O @ left_O_Q.to(delta_n_O)) * (seen_n_I @ right_I_Q.to(seen_n_I))
                found_R.append(found_n_Q)
            if progress:
                progress(part.stop, len(inputs))
            sketched_n_R_Q: Tensor = torch.stack(found_R, 1) / sketch.columns**0.5
            return sketched_n_R_Q

        # The activations and their gradients, and three tables of q columns.
        bytes_each = 4 * forward + 4 * (rows + 3) * sketch.columns * first.element_size()
        return chunked(work, len(inputs), bytes_each, device)


def linear_layers(module: nn.Module) -> list[LinearLayer]:
    """The layers that hold all weights that learn; refused where some are elsewhere.

    >>> len(linear_layers(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))))
    2
    """
    layers = [layer for layer in module.modules() if isinstance(layer, LinearLayer) and layer.weight.requires_grad]
    inside = {id(parameter) for layer in layers for parameter in layer.parameters() if parameter.requires_grad}
    whole = all(layer.bias is None or layer.bias.requires_grad for layer in layers)
    others = [name for name, parameter in learnable(module).items() if id(parameter) not in inside]
    if others or not whole:
        found = f"weights elsewhere ({', '.join(others[:3])})" if others else "a layer whose bias does not learn"
        raise ValueError(
            f"sketch: products of signs are for weights of linear layers, found {found}; use entries='rademacher'"
        )
    return layers


def _counts(layer: LinearLayer) -> tuple[int, int]:
    """Outputs and inputs, the constant of a bias counted."""
    outputs, inputs = layer.weight.shape
    return outputs, inputs + (layer.bias is not None)


def _traced(
    module: nn.Module, layers: list[LinearLayer], inputs_n: Tensor
) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """What the weights of each layer see, what it gives, and the outputs of the module, ready for gradients."""
    seen: dict[LinearLayer, tuple[Tensor, Tensor]] = {}
    odd: list[LinearLayer] = []

    def caught(layer: nn.Module, given: tuple[Tensor, ...], found: Tensor) -> None:
        assert isinstance(layer, LinearLayer)
        if layer in seen or given[0].ndim != 2:
            odd.append(layer)
        seen[layer] = (given[0], found)

    hooks = [layer.register_forward_hook(caught) for layer in layers]
    try:
        with torch.enable_grad():
            outputs_n_C = module(inputs_n.clone())
    finally:
        for hook in hooks:
            hook.remove()
    if odd or len(seen) < len(layers):
        raise ValueError(
            "sketch: products of signs need linear layers that are called once each, with one row per input; use"
            " entries='rademacher'"
        )
    caught_l = [seen[layer] for layer in layers]
    inputs_l = [seen_by_weights(layer, given.detach()) for layer, (given, _) in zip(layers, caught_l, strict=True)]
    return inputs_l, [found for _, found in caught_l], outputs_n_C.reshape(len(inputs_n), -1)
