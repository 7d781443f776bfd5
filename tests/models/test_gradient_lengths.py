"""Lengths of per-example gradients, layer by layer, are those of whole gradients."""

import pytest
import torch
from torch import nn

from natsel.models import resnet18
from natsel.models.last_layer import gradient_lengths as lengths
from natsel.models.last_layer.gradient_lengths import gradient_lengths
from natsel.models.last_layer.per_example import gradient_rows

CPU = torch.device("cpu")


def residuals_for(count, outputs):
    drawn = torch.randn(count, outputs, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return lambda part: drawn[part]


def whole(module, inputs, residuals):
    rows_N_1_P = gradient_rows(module.eval(), inputs, lambda part: residuals(part)[:, None], 1, CPU)
    return rows_N_1_P[:, 0].norm(dim=1)


class Twice(nn.Module):
    """One layer is used twice."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, inputs):
        return self.layer(torch.relu(self.layer(inputs)))


class Outside(nn.Module):
    """A weight is used outside of its layer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, inputs):
        return self.layer(inputs) + torch.sin(inputs @ self.layer.weight.T)


def small_resnet():
    return resnet18(3, shape=(8, 8), width=2)


def convolutions():
    """Strides, dilation, padding and a bias; modules that work in place; a frozen weight; many and few places."""
    layers = nn.Sequential(
        *(nn.Conv2d(3, 4, (3, 2), stride=(2, 1), padding=(2, 1), dilation=(2, 1)), nn.ReLU(inplace=True)),
        *(nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Conv2d(4, 16, 3, stride=3, bias=False), nn.Flatten()),
        *(nn.Linear(32, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)),
    )
    layers[6].weight.requires_grad_(False)
    return layers


@pytest.mark.parametrize(
    ("make", "shape", "by_layers"),
    [
        (small_resnet, (8, 8, 3), True),
        (convolutions, (3, 8, 5), True),
        (Twice, (6,), False),
        (Outside, (6,), False),
        (lambda: nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 3)), (6,), False),
        (lambda: nn.Sequential(nn.Linear(6, 4), nn.PReLU(), nn.Linear(4, 3)), (6,), False),
    ],
)
def test_lengths_are_those_of_whole_gradients(make, shape, by_layers, monkeypatch):
    torch.manual_seed(0)
    module = make().double()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):  # other statistics than those of an untrained network
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2.0)
    module.train()
    inputs = torch.randn(5, *shape, dtype=torch.float64)
    outputs = 6 if make is Twice else 3
    residuals = residuals_for(5, outputs)
    expected_N = whole(module, inputs, residuals)
    module.train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    used = []
    way = lengths._by_whole_gradients
    monkeypatch.setattr(lengths, "_by_whole_gradients", lambda *given: used.append(len(given[1])) or way(*given))
    torch.testing.assert_close(gradient_lengths(module, inputs, residuals, CPU), expected_N, rtol=1e-9, atol=0)
    assert (5 in used) != by_layers  # all five, or the two that are compared
    assert module.training
    assert all(parameter.grad is None for parameter in module.parameters())
    assert all((value == before[name]).all() for name, value in module.state_dict().items())


def test_sure_predictions_at_the_front_do_not_hide_that_layers_are_not_enough():
    torch.manual_seed(0)
    module, inputs = Outside(), torch.randn(4, 6)
    drawn = residuals_for(4, 3)(slice(0, 4))
    drawn[:2] = 0.0
    found_N = gradient_lengths(module, inputs, lambda part: drawn[part], CPU)
    torch.testing.assert_close(found_N.float(), whole(module, inputs, lambda part: drawn[part]))


def test_chunks_change_nothing():
    import natsel

    module, inputs = small_resnet(), torch.rand(7, 8, 8, 3)
    residuals = residuals_for(7, 3)
    done = []
    at_once_N = gradient_lengths(module, inputs, residuals, CPU)
    with natsel.memory_budget(1):
        one_by_one_N = gradient_lengths(module, inputs, residuals, CPU, progress=lambda at, of: done.append((at, of)))
    torch.testing.assert_close(one_by_one_N, at_once_N, rtol=1e-5, atol=0)
    assert done == [(at, 7) for at in range(1, 8)]
