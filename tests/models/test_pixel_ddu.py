"""Two uncertainties of every pixel: one Gaussian per class over all positions, entropy of the softmax."""

import numpy as np
import pytest
import torch
from torch import nn

from natsel.beliefs.gaussian_discriminant import GaussianDiscriminant
from natsel.data import Examples, made_scenes
from natsel.evaluation import auroc
from natsel.memory import memory_budget
from natsel.models import GaussianDensity, NeighbourDensity, PixelDDU, fresh, inputs_of, pixel_network


@pytest.fixture(scope="module")
def scenes():
    return made_scenes(12, size=12, unknown_shapes=1, border_width=2.0)


@pytest.fixture(scope="module")
def network():
    return fresh(pixel_network(4, width=5, blocks=1), 3).eval()


def by_hand(network, pictures):
    """What the last convolution sees of each pixel, and its logits."""
    with torch.no_grad():
        maps = network[:-1](inputs_of(network, pictures))
        return maps.movedim(1, -1).reshape(-1, maps.shape[1]), network[-1](maps)


def test_every_labelled_pixel_is_a_point_and_others_are_none(scenes, network):
    assert (scenes.labels == -1).any()
    features_p_D, logits = by_hand(network, scenes.inputs)
    labels_p = torch.as_tensor(scenes.labels).flatten()
    expected = GaussianDiscriminant.fit(features_p_D[labels_p >= 0], labels_p[labels_p >= 0], 4)
    model = PixelDDU.around(network, scenes, device="cpu")
    maps = model.maps(scenes.inputs)
    torch.testing.assert_close(
        maps.log_density_N_H_W.flatten(), expected.log_density(features_p_D), rtol=1e-6, atol=1e-6
    )
    log_probs = logits.double().log_softmax(1)
    torch.testing.assert_close(maps.entropy_N_H_W, -(log_probs.exp() * log_probs).sum(1))
    assert torch.equal(maps.predicted_N_H_W, logits.argmax(1))
    assert network.state_dict()["0.weight"] is not model.module.state_dict()["0.weight"]


def test_one_picture_at_a_time_gives_the_same_maps(scenes, network):
    whole = PixelDDU.around(network, scenes, scenes, device="cpu")
    asked = []
    with memory_budget(1000):
        parts = PixelDDU.around(network, scenes, scenes, device="cpu", progress=lambda done, of: asked.append(done))
        maps = parts.maps(scenes.inputs)
    assert asked == list(range(1, 13))
    assert whole.temperature != 1
    assert parts.temperature == pytest.approx(whole.temperature)
    expected = whole.maps(scenes.inputs)
    torch.testing.assert_close(maps.log_density_N_H_W, expected.log_density_N_H_W, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(maps.entropy_N_H_W, expected.entropy_N_H_W, rtol=1e-5, atol=1e-5)


def learn(module, labelled, seed):
    inputs, labels = inputs_of(module, labelled.inputs), torch.as_tensor(labelled.labels)
    optimiser = torch.optim.Adam(module.parameters(), 0.03)
    module.train()
    for _ in range(25):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(inputs), labels, ignore_index=-1).backward()
        optimiser.step()


def test_crosses_are_unfamiliar_and_borders_are_ambiguous():
    train, test = made_scenes(40, size=16), made_scenes(30, size=16, unknown_shapes=1, seed=1)
    model = PixelDDU(pixel_network(4, width=8, blocks=1), device="cpu", train=learn).fit(train, seed=1)
    maps = model.maps(test.inputs)
    known = test.labels >= 0
    density = -maps.log_density_N_H_W.numpy()
    assert auroc(density[known], density[test.masks["unknown"]]) > 0.9
    certain = test.masks["label_probs"].max(-1) == 1
    entropy = maps.entropy_N_H_W.numpy()
    assert auroc(entropy[known & certain], entropy[known & ~certain]) > 0.8
    again = PixelDDU(pixel_network(4, width=8, blocks=1), device="cpu", train=learn).fit(train, seed=1)
    assert torch.equal(again.maps(test.inputs).log_density_N_H_W, maps.log_density_N_H_W)


def test_a_named_layer_and_small_maps_are_enlarged(scenes):
    network = nn.Sequential(
        *(nn.Conv2d(3, 6, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 4, 1)),
        nn.Upsample(scale_factor=2),
    )
    small = PixelDDU.around(network, scenes, features="2", device="cpu").maps(scenes.inputs[:2])
    full = PixelDDU.around(network, scenes, features="1", density=GaussianDensity("shared"), device="cpu")
    assert small.log_density_N_H_W.shape == full.maps(scenes.inputs[:2]).log_density_N_H_W.shape == (2, 12, 12)
    assert full.fitted_density.means_C_D.shape == (4, 6)


def test_what_has_no_pixels_is_refused(scenes, network):
    with pytest.raises(ValueError, match=r"^labelled: expected one class per pixel, .* found labels shape \(12,\)"):
        PixelDDU.around(network, Examples(scenes.inputs, np.arange(12) % 4), device="cpu")
    with pytest.raises(ValueError, match=r"^network: expected outputs \(pictures, classes, H, W\), found \(1, 4\)"):
        PixelDDU.around(nn.Sequential(network, nn.AdaptiveAvgPool2d(1), nn.Flatten()), scenes, device="cpu")
    with pytest.raises(ValueError, match=r"^features: the network has no layer 'last'; its layers are .*; name one"):
        PixelDDU.around(network, scenes, features="last", device="cpu")
    with pytest.raises(ValueError, match=r"^labels: found \(12, 12\) pixels with labels up to 3, .* for 3 classes"):
        PixelDDU.around(pixel_network(3, width=4), scenes, device="cpu")
    with pytest.raises(ValueError, match=r"^density: pixels have Gaussians, found NeighbourDensity"):
        PixelDDU(network, density=NeighbourDensity())
    with pytest.raises(ValueError, match=r"^train: .* pass train="):
        PixelDDU(network, device="cpu").fit(scenes)
    with pytest.raises(ValueError, match=r"^model: it has learnt nothing yet"):
        PixelDDU(network, device="cpu").maps(scenes.inputs)
