"""Residual and plain networks for pictures and tables: sizes, layouts of pictures, features, and what they keep."""

import numpy as np
import pytest
import torch
from torch import nn

from natsel.data import Examples
from natsel.models import Deterministic, LastLayer, Training, fresh, lenet, resffn, resnet18, resnet50, vgg16
from natsel.models import wide_resnet as wide
from natsel.models.last_layer.readout import readout_of_module
from natsel.models.networks.residual_networks import AveragePoolShortcut
from natsel.models.networks.spectral_norm import SpectralConv2d, SpectralLinear

SMALL = {
    "resnet18": lambda **options: resnet18(5, 3, (8, 8), width=2, **options),
    "resnet50": lambda **options: resnet50(5, 3, (8, 8), width=1, **options),
    "wide": lambda **options: wide(5, 3, (8, 8), depth=10, widening=1, **options),
}
PICTURES = np.random.default_rng(0).integers(256, size=(6, 8, 8, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("make", "weights"),
    [
        (resnet18, 11_173_962),
        (resnet50, 23_520_842),
        (wide, 36_479_194),
        (vgg16, 14_728_266),
        (lenet, 44_426),
        (lambda: resffn(2, 2), 128 * 3 + 4 * 128 * 129 + 2 * 129),
    ],
)
def test_sizes_are_those_of_the_published_networks(make, weights):
    with torch.device("meta"):
        assert sum(parameter.numel() for parameter in make().parameters()) == weights


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("options", [{}, {"spectral": 3.0, "sensitive": True}])
def test_pictures_of_every_layout_are_the_same_and_features_go_into_the_last_layer(name, options):
    network = fresh(lambda: SMALL[name](**options), 0).eval()
    bytes_n = torch.from_numpy(PICTURES)
    logits_n_C = network(bytes_n.float() / 255)
    torch.testing.assert_close(network(bytes_n), logits_n_C)
    torch.testing.assert_close(network(bytes_n.float().permute(0, 3, 1, 2) / 255), logits_n_C)
    features_n_D = network[:-1](bytes_n)
    torch.testing.assert_close(network[-1](features_n_D), logits_n_C)
    readout = readout_of_module(network, PICTURES, torch.device("cpu"))
    torch.testing.assert_close(readout.features(PICTURES)[:, :-1], features_n_D)
    convolutions = [part for part in network.modules() if isinstance(part, nn.Conv2d)]
    assert all(isinstance(part, SpectralConv2d) == bool(options) for part in convolutions)
    assert any(isinstance(part, AveragePoolShortcut) for part in network.modules()) == bool(options)
    slopes = {part.negative_slope for part in network.modules() if isinstance(part, nn.LeakyReLU)}
    assert slopes == ({0.01} if options else set())
    with pytest.raises(ValueError, match=r"^inputs: expected pictures of 8×8 in 3 channels, found shape"):
        network(torch.zeros(2, 8, 8))


def test_grey_pictures_of_mnist_go_through_odd_sizes():
    network = resnet18(in_channels=1, shape=(28, 28), width=2, spectral=3.0, sensitive=True)
    assert network(torch.zeros(2, 28, 28)).shape == network(torch.zeros(2, 28, 28, 1)).shape == (2, 10)
    sides = [part.v.shape[2] for part in network.modules() if isinstance(part, SpectralConv2d)]
    assert sorted(set(sides)) == [4, 7, 14, 28]
    assert vgg16(4, 1, (28, 28), width=1)(torch.zeros(2, 28, 28)).shape == (2, 4)
    assert vgg16(4, width=1)[:-1](torch.zeros(2, 32, 32, 3)).shape == (2, 8)
    assert lenet(7)[:-1](torch.zeros(2, 28, 28)).shape == (2, 84)


@pytest.mark.parametrize("side", [6, 7])
def test_average_pooling_sees_every_pixel_and_a_strided_convolution_one_of_four(side):
    def seen(shortcut):
        pictures = torch.ones(1, 2, side, side, requires_grad=True)
        out = shortcut(pictures)
        assert out.shape == (1, 3, -(-side // 2), -(-side // 2))
        out.sum().backward()
        return (pictures.grad != 0).all(1)[0]

    assert bool(seen(AveragePoolShortcut(2, 3, 2)).all())
    strided = nn.Conv2d(2, 3, 1, 2)
    nn.init.ones_(strided.weight)
    assert seen(strided).sum() == (-(-side // 2)) ** 2
    means = AveragePoolShortcut(1, 2, 2)(torch.arange(9.0).view(1, 1, 3, 3))
    assert means[0, 0].tolist() == [[2.0, 3.5], [6.5, 8.0]]  # at the edges, of the pixels that there are
    assert means[0, 1].tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_the_residual_perceptron_is_its_formula():
    network = fresh(lambda: resffn(3, 2, depth=2, width=4), 0)
    rows = torch.randn(5, 3)
    found = rows @ network[1].weight.T + network[1].bias
    for layer in network[2:4]:
        found = found + (found @ layer.linear.weight.T + layer.linear.bias).clamp(min=0)
    torch.testing.assert_close(network[:-1](rows), found)
    plain = fresh(lambda: resffn(3, 2, depth=1, width=4, residual=False), 0)
    assert bool((plain[:-1](rows) >= 0).all())
    normalised = resffn(3, 2, spectral=0.65, iterations=5, dropout=0.1)
    assert [type(part) for part in normalised.modules()].count(SpectralLinear) == 5
    assert type(normalised[-1]) is nn.Linear


def test_they_are_trained_and_believe_like_other_networks():
    labels = (PICTURES[:, 0, 0, 0] > 127).astype(int)
    examples, training = Examples(PICTURES, labels), Training(max_epochs=1, epoch_samples=16)
    network = lambda: SMALL["wide"](spectral=3.0, sensitive=True, dropout=0.3)  # noqa: E731
    model = Deterministic(network, training, device="cpu").fit(examples)
    assert model.believe(PICTURES).shape == (6, 1, 5)
    again = Deterministic(network, training, device="cpu").load_weights(model.weights())
    assert torch.equal(again.believe(PICTURES).log_probs_N_K_C, model.believe(PICTURES).log_probs_N_K_C)
    belief = LastLayer(SMALL["resnet18"](sensitive=True), training=training, device="cpu").fit(examples)
    assert len(belief.believe(PICTURES)) == 6


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: resnet18(shape=(4, 9)), "shape: expected height and width of at least 8 pixels"),
        (lambda: wide(depth=27), "depth: must be 6 n [+] 4"),
        (lambda: vgg16(shape=(8, 8)), "shape: pictures must be at least 16×16"),
        (lambda: lenet(shape=(12, 28)), "shape: pictures must be at least 16×16"),
        (lambda: resffn(2, 2, depth=0), "depth, width: must be at least 1"),
        (lambda: resnet18(mean=(0.1, 0.2)), "mean: expected one number for each of 3 channels, found 2"),
    ],
)
def test_what_makes_no_sense_is_refused(make, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        make()
