"""The two-sided gradient penalty of DUQ: outputs that change with inputs neither too much nor too little.

    penalty = weight · mean over examples of ( ‖∇_x Σ_c z_c(x)‖₂ − norm )²

z_c(x) are the outputs of the network. The penalty is added to the loss of each step: `Training(penalty=
JacobianPenalty())`, or by a training loop of one's own. Its gradient needs a second pass backwards, so that a step
takes about twice as long; spectral normalisation (`spectral_norm.py`) is cheaper. x is what the network is called with:
pictures count in [0, 1].  docs/theory/deterministic-uncertainty.md; van Amersfoort et al. 2020.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class JacobianPenalty:
    """A penalty for `Training(penalty=…)`, called with the module, the inputs and the outputs of a step.

    >>> inputs = torch.ones(2, 3, requires_grad=True)
    >>> float(JacobianPenalty(weight=1.0)(nn.Identity(), inputs, 3 * inputs[:, :1]))  # (3 − 1)²
    4.0
    """

    weight: float = 0.5
    norm: float = 1.0

    def __post_init__(self) -> None:
        for name in ("weight", "norm"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}: cannot be negative (found {getattr(self, name)}); DUQ takes 0.5 and 1")

    def __call__(self, module: nn.Module, inputs_B: Tensor, outputs_B_C: Tensor) -> Tensor:
        (slopes_B,) = torch.autograd.grad(outputs_B_C.sum(), inputs_B, create_graph=True)
        norm_B = torch.linalg.vector_norm(slopes_B.flatten(1), dim=1)
        penalty: Tensor = self.weight * (norm_B - self.norm).square().mean()
        return penalty
