"""Gaussian beliefs: what is refused, moments of draws as features, slices with ids."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from natsel import GaussianFeatures, GaussianSamples

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("features", "found"),
    [
        ([1.0, 2.0], r"expected two axes \(points, features\), found shape \(2,\)"),
        ([[[1.0]]], r"found shape \(1, 1, 1\)"),
        (torch.zeros(3, 0), r"found shape \(3, 0\)"),
        ([[1.0, 2.0], [NAN, 0.0]], "NaN or infinity in row 1"),
        ([[1.0], [2.0], [INF]], "NaN or infinity in row 2"),
        ([["a"]], "expected numbers"),
    ],
)
def test_bad_features(features, found):
    with pytest.raises(ValueError, match=rf"^features_N_D: .*{found}"):
        GaussianFeatures(features)


@pytest.mark.parametrize(
    ("noise", "found"),
    [
        (0.0, "positive and finite, found 0;"),
        (-1.0, "positive and finite, found -1;"),
        (NAN, "positive and finite, found nan;"),
        (INF, "positive and finite, found inf;"),
        ([1.0, 0.0], "found 0;"),
        ([1.0, 2.0, 3.0], r"expected shape \(2,\), found \(3,\)"),
        ([[1.0, 2.0]] * 3, r"expected shape \(2,\)"),
        ("loud", "expected numbers"),
    ],
)
def test_bad_noise(noise, found):
    with pytest.raises(ValueError, match=rf"^noise: .*{found}"):
        GaussianFeatures([[1.0], [2.0]], noise=noise)


def test_an_infinite_variance_is_what_the_message_shows():
    with pytest.raises(ValueError, match="found inf"):
        GaussianFeatures([[1.0], [2.0]], noise=[1.0, INF])


@pytest.mark.parametrize(
    ("mean", "variance", "argument"),
    [
        ([1.0, 2.0], 1.0, "mean_N_K"),
        (torch.zeros(3, 0), 1.0, "mean_N_K"),
        ([[NAN, 1.0]], 1.0, "mean_N_K"),
        ([[0.0, 1.0]], 0.0, "variance_N_K"),
        ([[0.0, 1.0]], [[1.0, -2.0]], "variance_N_K"),
        ([[0.0, 1.0]], [[1.0, NAN]], "variance_N_K"),
        ([[0.0, 1.0]], [1.0, 2.0, 3.0], "variance_N_K"),
    ],
)
def test_bad_draws(mean, variance, argument):
    with pytest.raises(ValueError, match=rf"^{argument}: .*; "):
        GaussianSamples(mean, variance)


def test_bad_weights_and_ids():
    with pytest.raises(ValueError, match=r"^log_weights_K: .*pass logarithms"):
        GaussianSamples([[0.0, 1.0]], 1.0, [0.5, 0.5])
    with pytest.raises(ValueError, match=r"^ids: "):
        GaussianSamples([[0.0, 1.0]], 1.0, ids=[1, 2])
    with pytest.raises(ValueError, match=r"^ids: "):
        GaussianFeatures([[0.0], [1.0]], ids=[4, 4])


def test_noise_is_a_variance_one_or_one_a_point():
    assert GaussianFeatures([[1.0], [2.0]]).noise_N.tolist() == [1.0, 1.0]
    assert GaussianFeatures([[1.0], [2.0]], noise=2).noise_N.tolist() == [2.0, 2.0]
    assert GaussianFeatures([[1.0], [2.0]], noise=np.array([0.5, 4.0])).noise_N.tolist() == [0.5, 4.0]
    assert GaussianFeatures([[1.0]], noise=torch.tensor(0.25)).noise_N.dtype == torch.float64


def test_variances_broadcast_over_draws_and_points():
    assert GaussianSamples([[0.0, 1.0], [2.0, 3.0]], 0.5).variance_N_K.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    per_point = GaussianSamples([[0.0, 1.0], [2.0, 3.0]], [[0.5], [0.25]])
    assert per_point.variance_N_K.tolist() == [[0.5, 0.5], [0.25, 0.25]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_precision_of_features_is_kept_and_half_widened(dtype):
    belief = GaussianFeatures(torch.ones(2, 3, dtype=dtype))
    assert belief.features_N_D.dtype == (torch.float32 if dtype == torch.float16 else dtype)


@settings(deadline=None)
@given(seed=st.integers(0, 1000), count=st.integers(1, 6), draws=st.integers(1, 6))
def test_features_of_draws_have_the_weighted_covariance(seed, count, draws):
    rng = np.random.default_rng(seed)
    mean, variance = rng.standard_normal((count, draws)), rng.random((count, draws)) + 0.1
    weights = rng.dirichlet(np.ones(draws))
    features = GaussianSamples(mean, variance, np.log(weights), draws_id="d", ids=range(5, 5 + count)).features()
    covariance = mean @ (np.diag(weights) - np.outer(weights, weights)) @ mean.T
    assert np.allclose(features.features_N_D @ features.features_N_D.T, covariance, atol=1e-12)
    assert np.allclose(features.noise_N, variance @ weights, atol=1e-12)
    assert features.ids.tolist() == list(range(5, 5 + count))
    assert features.draws_id == "d"


def test_a_large_common_offset_does_not_drown_the_spread():
    mean = torch.tensor([[0.0, 1.0, 2.0]]) + 1e6
    variance = GaussianSamples(mean, 1.0).features().features_N_D.square().sum()
    assert float(variance) == pytest.approx(2 / 3, rel=1e-6)


def beliefs():
    rng = np.random.default_rng(0)
    ids = [50, 10, 40, 20, 30]
    return [
        GaussianFeatures(rng.standard_normal((5, 3)), rng.random(5) + 0.1, draws_id="d", ids=ids),
        GaussianSamples(rng.standard_normal((5, 3)), rng.random((5, 3)) + 0.1, draws_id="d", ids=ids),
    ]


@pytest.mark.parametrize("belief", beliefs(), ids=["features", "samples"])
@pytest.mark.parametrize(
    ("which", "positions"),
    [
        (slice(1, 3), [1, 2]),
        (-1, [4]),
        ([4, 0, -2], [4, 0, 3]),
        (np.array([True, False, False, True, False]), [0, 3]),
        (torch.tensor([2, 2]), [2, 2]),
        ([], []),
    ],
)
def test_slices_take_every_per_point_field(belief, which, positions):
    part = belief[which]
    assert type(part) is type(belief)
    assert part.draws_id == "d"
    for name in belief.points:
        assert torch.equal(getattr(part, name), getattr(belief, name)[positions])
    for name in belief.draws:
        assert torch.equal(getattr(part, name), getattr(belief, name))


@pytest.mark.parametrize("belief", beliefs(), ids=["features", "samples"])
def test_frozen_and_movable(belief):
    for field in dataclasses.fields(belief):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(belief, field.name, None)
    moved = belief.to("meta")
    assert {getattr(moved, name).device.type for name in belief.points + belief.draws} == {"meta"}
    assert belief.device.type == "cpu"


def test_inputs_are_left_alone():
    features = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    noise = torch.ones(4, dtype=torch.float64)
    before = features.clone(), noise.clone()
    belief = GaussianFeatures(features, noise)
    assert torch.equal(belief.features_N_D, features)
    assert torch.equal(features, before[0])
    assert torch.equal(noise, before[1])


def test_no_points_are_a_belief_too():
    assert len(GaussianFeatures(torch.zeros(0, 3))) == 0
    assert len(GaussianSamples(torch.zeros(0, 3), 1.0).features()) == 0
