"""Optimisers: one step of Adam for all parameters in one call.

    m ← β₁ m + (1 − β₁) g,   v ← β₂ v + (1 − β₂) g²,   w ← w − η m̂ / (√v̂ + ε)        Kingma and Ba 2015

The arithmetic is torch's own fused kernel. It is called directly because making a `torch.optim.Optimizer` loads torch's
compiler, which takes a new process longer than loading torch did.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_KERNELS = {"adam": "_fused_adam_", "adamw": "_fused_adamw_"}


def stepper(parameters: Sequence[Tensor], kind: str, learning_rate: float, weight_decay: float) -> Callable[[], None]:
    """A function that moves the parameters once, by their gradients, which it then clears.

    >>> weight = torch.ones(1, requires_grad=True)
    >>> step = stepper([weight], "adam", 0.5, 0.0)
    >>> torch.autograd.backward(weight.sum()); step()
    >>> weight.detach(), weight.grad
    (tensor([0.5000]), None)
    """
    alike = {(parameter.dtype, parameter.device.type) for parameter in parameters}
    fused = alike in ({(torch.float32, "cpu")}, {(torch.float32, "cuda")})
    if kind in _KERNELS and fused and hasattr(torch, _KERNELS[kind]):
        return _Adam(parameters, _KERNELS[kind], learning_rate, weight_decay)
    return _of_torch(parameters, kind, learning_rate, weight_decay)


class _Adam:
    """The moments of each parameter."""

    def __init__(self, parameters: Sequence[Tensor], kernel: str, learning_rate: float, weight_decay: float) -> None:
        self.kernel, self.parameters = getattr(torch, kernel), parameters
        self.settings = {"lr": learning_rate, "weight_decay": weight_decay, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
        self.moments = [[torch.zeros_like(each) for each in parameters] for _ in range(2)]
        self.steps = [torch.zeros((), device=each.device) for each in parameters]

    @torch.no_grad()
    def __call__(self) -> None:
        used = [index for index, parameter in enumerate(self.parameters) if parameter.grad is not None]
        weights, means, squares, steps = (
            [each[index] for index in used] for each in (self.parameters, *self.moments, self.steps)
        )
        gradients = [weight.grad for weight in weights]
        torch._foreach_add_(steps, 1)
        self.kernel(weights, gradients, means, squares, [], steps, amsgrad=False, maximize=False, **self.settings)
        for weight in weights:
            weight.grad = None


def _of_torch(parameters: Sequence[Tensor], kind: str, learning_rate: float, weight_decay: float) -> Callable[[], None]:
    momentum = {"momentum": 0.9} if kind == "sgd" else {}
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    optimiser: torch.optim.Optimizer = kinds[kind](parameters, lr=learning_rate, weight_decay=weight_decay, **momentum)

    def step() -> None:
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step
