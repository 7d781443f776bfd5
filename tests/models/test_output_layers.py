"""Output layers that know distances."""

import numpy as np
import pytest
import torch
from torch import nn

import natsel
from natsel.data.examples import Examples
from natsel.models import (
    DDU,
    CentroidOutputs,
    GaussianDensity,
    LastLayer,
    RandomFeatureOutputs,
    Training,
    fresh,
    mlp,
    with_outputs,
)

TRAINING = Training(max_epochs=8, epoch_samples=256, batch=32, learning_rate=0.01)


def clusters(seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(90) % 3
    return Examples((4 * np.eye(3)[labels] + rng.normal(size=(90, 3))).astype(np.float32), labels)


def test_random_features_approach_a_kernel_of_distances():
    layer = RandomFeatureOutputs(4, 2, width=20_000, projection=4)[0]
    with torch.no_grad():
        layer.projection.copy_(torch.eye(4))
        features_N_D = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
        seen_N_D = nn.functional.layer_norm(features_N_D, (4,))
        phi_N_W = layer(features_N_D)
        expected_N_N = torch.exp(-0.5 * torch.cdist(seen_N_D, seen_N_D) ** 2 / 4)
        torch.testing.assert_close(phi_N_W @ phi_N_W.T, expected_N_N, atol=0.05, rtol=0)


def test_the_last_layer_on_random_features_learns_and_is_drawn():
    network = with_outputs(mlp(3, 3, (16,), 0.0), RandomFeatureOutputs(16, 3, width=64, projection=8))
    model = LastLayer(network, training=TRAINING, device="cpu").fit(clusters())
    belief = model.draws(clusters(1).inputs, 20)
    assert float((belief.predict() == torch.from_numpy(clusters(1).labels)).double().mean()) > 0.8
    assert bool((natsel.score("bald", belief) > 0).any())


def test_centroids_are_far_from_what_is_far():
    network = with_outputs(mlp(3, 3, (16,), 0.0), CentroidOutputs(16, 3, size=8))
    model = DDU(network, "2", GaussianDensity("shared"), training=TRAINING, device="cpu").fit(clusters())
    inside, outside = (model.believe(clusters(1).inputs * scale) for scale in (1, 30))
    assert natsel.score("max-logit", outside).median() > natsel.score("max-logit", inside).median()
    assert float((inside.predict() == torch.from_numpy(clusters(1).labels)).double().mean()) > 0.8


def test_a_fit_draws_the_fixed_numbers_anew_and_by_its_seed():
    network = with_outputs(mlp(3, 3, (16,), 0.0), RandomFeatureOutputs(16, 3, width=8))
    first, again, other = (fresh(network, seed)[-1][0].frequency for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_refused():
    with pytest.raises(ValueError, match=r"network: expected nn\.Sequential"):
        with_outputs(nn.Linear(2, 2), CentroidOutputs(2, 2))
    with pytest.raises(ValueError, match="length_scale: must be greater"):
        CentroidOutputs(2, 2, length_scale=0.0)
