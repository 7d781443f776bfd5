"""Soft spectral normalisation: norms as those of the unrolled matrices, and what normalised layers do in training."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from natsel.data import Examples
from natsel.models import Training, fresh, operator_norm, resffn, spectrally_normalised, train
from natsel.models.networks.ensemble import stacked, unstack
from natsel.models.networks.spectral_norm import SpectralConv2d, SpectralLinear
from natsel.models.networks.training import train_members

CPU = torch.device("cpu")


def unrolled(layer, weight, height, width):
    """The matrix of a convolution, entry by entry."""
    weight = weight.detach().double().numpy()
    outputs, per_group, rows, columns = weight.shape
    out_h, out_w = F.conv2d(torch.zeros(1, layer.in_channels, height, width), layer.weight, None, layer.stride,
                            layer.padding, layer.dilation, layer.groups).shape[2:]  # fmt: skip
    matrix = np.zeros((outputs, out_h, out_w, layer.in_channels, height, width))
    for o, y, x, i, a, b in np.ndindex(outputs, out_h, out_w, per_group, rows, columns):
        at_y = y * layer.stride[0] - layer.padding[0] + a * layer.dilation[0]
        at_x = x * layer.stride[1] - layer.padding[1] + b * layer.dilation[1]
        if 0 <= at_y < height and 0 <= at_x < width:
            channel = o // (outputs // layer.groups) * per_group + i
            matrix[o, y, x, channel, at_y, at_x] += weight[o, i, a, b]
    return matrix.reshape(outputs * out_h * out_w, -1)


SHAPES = [
    # kernel, stride, padding, dilation, groups, height, width
    (3, 1, 1, 1, 1, 4, 5),
    (3, 2, 1, 1, 1, 4, 5),
    (3, 2, 1, 1, 1, 7, 6),
    (3, 2, 0, 1, 1, 6, 6),
    (2, 3, 0, 1, 2, 7, 5),
    (3, 1, 2, 2, 1, 4, 4),
    (1, 2, 0, 1, 1, 5, 4),
]


@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation", "groups", "height", "width"), SHAPES)
def test_the_norm_is_that_of_the_unrolled_matrix(kernel, stride, padding, dilation, groups, height, width):
    torch.manual_seed(0)
    plain = nn.Conv2d(2, 4, kernel, stride, padding, dilation, groups)
    expected = np.linalg.norm(unrolled(plain, plain.weight, height, width), 2)
    assert operator_norm(plain, (height, width)) == pytest.approx(expected, rel=1e-9)
    layer = spectrally_normalised(plain, expected / 3, iterations=400, input_shape=(2, height, width)).train()
    used = layer.used_weight()  # four hundred steps
    found = np.linalg.norm(unrolled(plain, used, height, width), 2)
    assert found == pytest.approx(expected / 3, rel=1e-3)
    assert operator_norm(layer) == pytest.approx(found, rel=1e-5)
    small = spectrally_normalised(plain, expected * 1.01, input_shape=(2, height, width)).train()
    assert torch.equal(small.used_weight(), plain.weight)  # below the coefficient nothing changes


def test_linear_layers_and_reshaped_convolutions_have_the_norm_of_their_matrix():
    torch.manual_seed(0)
    linear = SpectralLinear(5, 3, coefficient=0.1, iterations=60).train()
    assert float(torch.linalg.matrix_norm(linear.used_weight().detach(), 2)) == pytest.approx(0.1, rel=1e-4)
    assert operator_norm(linear) == pytest.approx(0.1, rel=1e-4)
    reshaped = SpectralConv2d(2, 3, 3, coefficient=0.1, iterations=60, conv_norm="reshape").train()
    assert float(torch.linalg.matrix_norm(reshaped.used_weight().detach().flatten(1), 2)) == pytest.approx(
        0.1, rel=1e-4
    )
    matrix = np.ones((3, 2))
    layer = nn.Linear(2, 3)
    nn.init.ones_(layer.weight)
    assert operator_norm(layer) == pytest.approx(math.sqrt(6)) == pytest.approx(np.linalg.norm(matrix, 2))


def test_vectors_move_by_one_step_in_training_and_stay_in_evaluation():
    torch.manual_seed(0)
    layer = SpectralConv2d(2, 4, 3, padding=1, coefficient=0.2, input_size=(6, 6))
    with torch.no_grad():
        layer.weight.copy_(torch.randn_like(layer.weight))  # u and v are those of other weights
    u, v = layer.u.clone(), layer.v.clone()
    layer.eval()(torch.zeros(1, 2, 6, 6))
    assert torch.equal(layer.u, u)
    assert torch.equal(layer.v, v)
    layer.train()(torch.zeros(1, 2, 6, 6))
    moved_v = F.conv_transpose2d(u, layer.weight, padding=1)
    moved_u = F.conv2d(moved_v, layer.weight, padding=1)
    torch.testing.assert_close(layer.v, moved_v / moved_v.norm())
    torch.testing.assert_close(layer.u, moved_u / moved_u.norm())
    outputs = layer(torch.randn(1, 2, 6, 6)) + layer(torch.randn(1, 2, 6, 6))  # two passes, then one backwards
    outputs.sum().backward()
    # Above the coefficient the used weight does not change where the weight is stretched.
    slope = layer.weight.grad
    assert abs(float((slope * layer.weight.detach()).sum())) < 1e-4 * float(slope.norm())


def network():
    return nn.Sequential(
        *(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 4, 3, stride=2), nn.Flatten()),
        *(nn.Linear(36, 5), nn.ReLU(), nn.Linear(5, 2)),
    )


def test_all_layers_but_the_last_linear_one_are_normalised_and_the_module_given_stays():
    torch.manual_seed(0)
    plain = network()
    before = torch.get_rng_state()
    normalised = spectrally_normalised(plain, 1e9, linear=True, input_shape=(1, 8, 8))
    assert torch.equal(before, torch.get_rng_state())
    kinds = [type(part).__name__ for part in normalised]
    assert kinds[::2] == ["SpectralConv2d", "SpectralConv2d", "SpectralLinear", "Linear"]
    assert normalised[2].v.shape == (1, 3, 8, 8)
    assert [type(part) for part in plain[:3:2]] == [nn.Conv2d, nn.Conv2d]
    pictures = torch.randn(2, 1, 8, 8)
    torch.testing.assert_close(normalised(pictures), plain(pictures))
    assert type(spectrally_normalised(plain)[4]) is nn.Linear
    with pytest.raises(ValueError, match=r"^module: found no layer to normalise in Linear"):
        spectrally_normalised(nn.Linear(2, 2))


def test_copies_states_and_fresh_starts():
    torch.manual_seed(0)
    given = spectrally_normalised(network(), 0.3, linear=True)  # sizes are not known yet
    pictures = torch.randn(2, 1, 8, 8)
    for _ in range(3):
        given.train()(pictures)
    same, loaded = copy.deepcopy(given), spectrally_normalised(network(), 0.3, linear=True)
    loaded.load_state_dict(given.state_dict())
    torch.testing.assert_close(loaded.eval()(pictures), given.eval()(pictures))
    same.train()(pictures)
    assert not torch.equal(same[0].u, given[0].u)
    # A fresh start has the weights of a network without normalisation, and vectors of these weights.
    again, plain = fresh(given, 7).eval(), fresh(network(), 7)
    assert torch.equal(again[6].weight, plain[6].weight)
    assert torch.equal(again[0].weight, plain[0].weight)
    assert operator_norm(again[0]) == pytest.approx(0.3, rel=0.02)
    assert operator_norm(again[4]) == pytest.approx(0.3, rel=0.02)


def test_training_keeps_the_norm_of_layers_that_learn_their_sizes_there():
    rng = np.random.default_rng(0)
    examples = Examples(rng.random((40, 8, 8)), rng.integers(2, size=40))
    module = spectrally_normalised(network(), 0.5, iterations=2)
    train(module, examples, training=Training(max_epochs=2, learning_rate=0.01, epoch_samples=200), device="cpu")
    assert 0.4 < operator_norm(module[0], (8, 8)) < 0.5 * 1.05
    assert 0.4 < operator_norm(module[2]) < 0.5 * 1.05


def test_networks_that_learn_side_by_side_have_norms_of_their_own():
    rng = np.random.default_rng(0)
    examples = Examples(rng.normal(size=(60, 2)), rng.integers(2, size=60))
    modules = [fresh(lambda: resffn(2, 2, 2, 8, spectral=0.5, iterations=3), seed) for seed in (0, 1)]
    members = stacked(modules, examples)
    training = Training(max_epochs=2, epoch_samples=256, learning_rate=0.03)
    train_members(members, examples, None, training, [0, 1], CPU)
    unstack(members, modules)
    alone = fresh(lambda: resffn(2, 2, 2, 8, spectral=0.5, iterations=3), 1)
    train(alone, examples, training=training, seed=1, device="cpu")
    for module in modules:
        assert 0.45 < operator_norm(module[2].linear) < 0.5 * 1.01
    torch.testing.assert_close(modules[1][2].linear.u, alone[2].linear.u, rtol=1e-3, atol=1e-4)
    assert not torch.allclose(modules[0][2].linear.u, modules[1][2].linear.u)


def test_residual_layers_with_a_norm_below_one_keep_distances_up_to_factors():
    torch.manual_seed(0)
    layer = SpectralLinear(6, 6, coefficient=0.6, iterations=200).train()
    nn.init.normal_(layer.weight)
    layer.used_weight()
    layer.eval()
    one, other = torch.randn(2, 200, 6)
    before = (one - other).norm(dim=1)
    after = (one + layer(one) - other - layer(other)).norm(dim=1)
    assert bool((after <= (1 + 0.601) * before).all())
    assert bool((after >= (1 - 0.601) * before).all())
    assert bool((after < before).any())
    assert bool((after > before).any())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: SpectralLinear(2, 2, coefficient=0), "coefficient: must be greater than 0"),
        (lambda: SpectralLinear(2, 2, iterations=0), "iterations: must be at least 1"),
        (lambda: SpectralConv2d(1, 1, 3, conv_norm="exact"), "conv_norm: expected operator or reshape"),
        (lambda: SpectralConv2d(1, 1, 3, padding=1, padding_mode="circular"), "padding_mode: the norm of a conv"),
        (lambda: SpectralConv2d(1, 1, 2, padding="same"), "padding: 'same' with the kernel"),
        (lambda: operator_norm(nn.ReLU()), "layer: expected a linear layer or a Conv2d, found ReLU"),
        (lambda: operator_norm(nn.Conv2d(1, 1, 3)), "input_size: expected height and width"),
    ],
)
def test_what_makes_no_sense_is_refused(make, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        make()
