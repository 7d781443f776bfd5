"""Pictures reach a convolutional network with their channels first, whichever way round they are stored."""

import numpy as np
import pytest
import torch
from torch import nn

from natsel.data import Examples
from natsel.models import (
    Deterministic,
    Dropout,
    Ensemble,
    Gradients,
    LastLayer,
    Training,
    fresh,
    inputs_of,
    mlp,
    mnist_cnn,
)

RNG = np.random.default_rng(0)
ONE = Training(max_epochs=1, epoch_samples=16)


class View(nn.Module):
    """Fails on tensors whose numbers are not in the order of their axes."""

    def forward(self, x):
        return x.view(len(x), -1)


def convolutional(channels: int, side: int = 8) -> nn.Module:
    size = 4 * (side - 2) ** 2
    return nn.Sequential(nn.Conv2d(channels, 4, 3), nn.ReLU(), View(), nn.Dropout(), nn.Linear(size, 3))


MODELS = {
    "dropout": lambda network: Dropout(network, draws=3, training=ONE, device="cpu"),
    "draws that judge": lambda network: Dropout(
        network, draws=3, training=Training(max_epochs=1, epoch_samples=16, validation_draws=2), device="cpu"
    ),
    "ensemble": lambda network: Ensemble(network, 2, ONE, device="cpu"),
    "last layer": lambda network: LastLayer(network, training=ONE, device="cpu", structure="diagonal"),
    "gradients": lambda network: Gradients(network, sketch=16, training=ONE, device="cpu"),
}


def pictures(*shape, dtype=np.uint8):
    found = RNG.integers(0, 256, shape, dtype=np.uint8)
    return found if dtype == np.uint8 else (found / 255).astype(dtype)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", [(12, 8, 8, 3), (12, 8, 8, 1), (12, 8, 8)], ids=str)
def test_every_model_believes_as_if_channels_had_come_first(kind, dtype, shape):
    stored = pictures(*shape, dtype=dtype)
    first = np.stack([stored[..., channel] for channel in range(shape[3])] if len(shape) == 4 else [stored], 1)
    labels = np.arange(12) % 3
    beliefs = [
        MODELS[kind](convolutional(first.shape[1])).fit(Examples(each, labels), Examples(each, labels)).believe(each)
        for each in (first, stored)
    ]
    assert beliefs[0].draws_id == beliefs[1].draws_id
    for name in beliefs[0].points:
        assert np.array_equal(*(np.asarray(getattr(belief, name)) for belief in beliefs))


def test_one_picture_and_many_are_read_alike():
    network, stored = fresh(convolutional(1), 0), pictures(9, 8, 8)
    whole = inputs_of(network, stored)
    assert whole.shape == (9, 1, 8, 8)
    for count in (1, 2, 3):
        assert torch.equal(inputs_of(network, stored[:count]), whole[:count])


class Own(nn.Module):
    """Moves axes itself, and has its say before the convolution."""

    def __init__(self):
        super().__init__()
        self.rest = convolutional(3)

    def forward(self, x):
        return self.rest(x.permute(0, 3, 1, 2).contiguous() - 0.5)


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (convolutional(3), (2, 3, 8, 8)),
        (convolutional(8), (2, 8, 8, 8)),  # both ways round have as many channels
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)), (2, 3, 8, 3)),
        (Own(), (2, 8, 8, 3)),
        (nn.Sequential(nn.Unflatten(1, (1, 8)), convolutional(1)), (2, 8, 8)),
        (mnist_cnn(), (2, 28, 28)),
        (mnist_cnn(), (2, 28, 28, 1)),
        (mlp(64, 3), (2, 8, 8)),
        (nn.Sequential(nn.Conv1d(8, 2, 3), nn.Flatten(), nn.Linear(12, 3)), (2, 8, 8)),
    ],
)
def test_what_fits_as_it_is_stays_as_it_is(network, shape):
    assert inputs_of(network, pictures(*shape)).shape == shape


def test_a_network_that_normalises_first_gets_channels_first_too():
    class Normalise(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean_C_1_1", torch.tensor([0.1, 0.2, 0.3])[:, None, None])

        def forward(self, x):
            return x - self.mean_C_1_1

    network = nn.Sequential(Normalise(), convolutional(3, side=10))
    assert inputs_of(network, pictures(2, 10, 10, 3)).shape == (2, 3, 10, 10)


@pytest.mark.parametrize("kind", MODELS)
def test_shapes_that_do_not_fit_are_told_in_one_sentence(kind):
    for network, shape, said in (
        (convolutional(3), (6, 8, 8), r"each has shape \(8, 8\), and the network expects \(3, height, width\)"),
        (convolutional(1), (6, 8, 8, 3), r"each has shape \(8, 8, 3\), and the network expects \(1, height, width\)"),
        (convolutional(3), (6, 9, 9, 3), r"each has shape \(3, 9, 9\), and the network expects \(3, height, width\)"),
        (mlp(60, 3), (6, 8, 8), r"each has shape \(8, 8\), and the network expects \(60,\)"),
    ):
        with pytest.raises(ValueError, match=rf"^inputs: {said}.*; reshape the inputs, or make the network") as error:
            MODELS[kind](network).fit(Examples(pictures(*shape), np.arange(6) % 3))
        assert "\n" not in str(error.value)


def test_beliefs_about_other_shapes_are_refused_too():
    model = Deterministic(convolutional(3), ONE, "cpu").fit(Examples(pictures(6, 8, 8, 3), np.arange(6) % 3))
    with pytest.raises(ValueError, match=r"^inputs: each has shape \(8, 8\), and the network expects \(3, height"):
        model.believe(pictures(6, 8, 8))
    words = nn.Sequential(nn.Embedding(9, 2), nn.Flatten(), nn.Linear(6, 2))
    with pytest.raises(ValueError, match=r"^inputs: .* looks up whole numbers .* call \.long\(\)"):
        Deterministic.around([words], device="cpu").believe(np.ones((2, 3)))
    assert len(Deterministic.around([words], device="cpu").believe(np.ones((2, 3), dtype=int))) == 2
    twice = type("Twice", (nn.Module,), {"forward": lambda self, x: (x, x)})()
    with pytest.raises(ValueError, match=r"^network: expected outputs of shape \(points, classes\), found tuple"):
        Deterministic.around([twice], device="cpu").believe(np.ones((2, 3)))
