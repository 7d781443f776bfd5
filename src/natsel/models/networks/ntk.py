"""A perceptron in the neural tangent parametrisation: one learning rate suits all widths.

    layer(x) = g_w/√d · W x + g_b · b          W ~ N(0, 1), b = 0 at the start, d inputs; ReLU between the layers

The gains g_w = g_b = 0.2 belong to the deep ensembles of the regression benchmark (Adam, learning rate 0.375 that
falls to 0 along a straight line).  docs/theory/black-box.md; Holzmüller et al. 2023.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from natsel.options import Count


class ScaledLinear(nn.Module):
    """A linear layer that scales its weights when it is called, not when they are drawn.

    >>> ScaledLinear(4, 3)(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """

    def __init__(self, inputs: int, outputs: int, weight_gain: float = 0.2, bias_gain: float = 0.2) -> None:
        super().__init__()
        self.scale, self.bias_gain = weight_gain / inputs**0.5, bias_gain
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights from the unit normal distribution, no bias."""
        nn.init.normal_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, inputs_B_D: Tensor) -> Tensor:
        return F.linear(inputs_B_D * self.scale, self.weight, self.bias_gain * self.bias)


def ntk_mlp(features: Count, classes: Count = 1, hidden: tuple[int, ...] = (512, 512)) -> nn.Module:
    """A perceptron of `ScaledLinear` layers with ReLU between them; inputs of any shape are flattened.

    >>> ntk_mlp(8)(torch.zeros(2, 8)).shape
    torch.Size([2, 1])
    """
    widths = (features, *hidden)
    layers: list[nn.Module] = [nn.Flatten()]
    for width, following in pairwise(widths):
        layers += [ScaledLinear(width, following), nn.ReLU()]
    return nn.Sequential(*layers, ScaledLinear(widths[-1], classes))
