"""Features and logits of one network, from one forward pass over the inputs.

    z = what the last linear layer is called with, or the output of a layer by name       (pictures: mean over pixels)

The network is in evaluation mode: no dropout, running statistics of batch norm as training left them.
"""

from typing import Any

import torch
from torch import Tensor, nn

from natsel.memory import chunked
from natsel.models.last_layer.readout import last_linear
from natsel.models.networks.evaluation_mode import evaluating
from natsel.models.networks.inputs import reader_of
from natsel.models.networks.prediction import POINTS_AT_A_TIME, TRIED, bytes_per_point, check_outputs
from natsel.models.protocol import Progress


def features_and_logits(
    module: nn.Module,
    inputs: Any,
    layer: str | None = None,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> tuple[Tensor, Tensor]:
    """features_N_D and logits_N_C of a trained network; `layer` names the layer whose output are the features.

    >>> network = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    >>> [tuple(part.shape) for part in features_and_logits(network, torch.zeros(4, 3))]
    [(4, 5), (4, 2)]
    >>> features_and_logits(network, torch.zeros(4, 3), "0")[0].shape
    torch.Size([4, 5])
    """
    device = torch.device(device)
    if len(inputs) == 0:
        raise ValueError("inputs: found none; pass at least one")
    seen: list[Tensor] = []
    if layer is None:
        hooked: nn.Module = last_linear(module, inputs, device)[0]
        hook = hooked.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()))
    else:
        hook = _layer_called(module, layer).register_forward_hook(lambda _, given, out: seen.append(_as_rows(out)))
    read = reader_of(module, inputs, device)

    def work(part: slice) -> Tensor:
        seen.clear()
        logits_n_C = module(read(part).clone())  # a module may work in place
        if not seen:
            raise ValueError(f"features: the network has a layer {layer!r} but does not call it; name another")
        if progress:
            progress(part.stop, len(inputs))
        return torch.cat([seen[-1].to(logits_n_C.dtype), logits_n_C], 1)

    try:
        with torch.no_grad(), evaluating(module):
            few = read(slice(0, TRIED))
            classes = check_outputs(module, few)
            bytes_each = bytes_per_point(module, few[:1])
            both_N = chunked(work, len(inputs), bytes_each, device, at_least=POINTS_AT_A_TIME)
    finally:
        hook.remove()
    return both_N[:, :-classes], both_N[:, -classes:]


def _layer_called(module: nn.Module, name: str) -> nn.Module:
    layers = dict(module.named_modules())
    if not isinstance(name, str) or name not in layers or not name:
        named = [one for one in layers if one]
        raise ValueError(
            f"features: the network has no layer {name!r}; its layers are {', '.join(named[-8:])}; name one of them, or"
            " leave it out for what the last linear layer sees"
        )
    found: nn.Module = layers[name]
    return found


def _as_rows(output: Any) -> Tensor:
    """The output of a layer as one row per input; of pictures the mean over pixels."""
    if not isinstance(output, Tensor) or output.ndim < 2:
        raise ValueError(f"features: the layer gives {type(output).__name__}, not rows of numbers; name another layer")
    return output.detach().flatten(2).mean(2) if output.ndim > 2 else output.detach()
