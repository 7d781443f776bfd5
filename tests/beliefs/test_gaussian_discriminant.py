"""Gaussian discriminant analysis: golden values, and what holds for any features."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from golden_values import golden
from natsel.beliefs import GaussianDiscriminant
from natsel.beliefs.feature_density import threshold_of
from natsel.information.class_moments import ClassMoments
from natsel.memory import memory_budget

CASES = golden("02-feature-density")
KINDS = {"full": "per-class", "tied": "shared", "diag": "diagonal"}


def fitted(inputs):
    return GaussianDiscriminant.fit(
        inputs["features_N_D"],
        inputs["labels_N"],
        covariance=KINDS[inputs["covariance"]],
        ddof=inputs["ddof"],
        prior=inputs["prior"],
        ridge=0.0,
    )


def clusters(seed, count=60, width=3, classes=3):
    rng = np.random.default_rng(seed)
    labels_N = rng.permutation(np.arange(count) % classes)
    mixing_C_D_D = rng.normal(size=(classes, width, width))
    noise_N_D = np.einsum("nde,ne->nd", mixing_C_D_D[labels_N], rng.normal(size=(count, width)))
    return torch.from_numpy(4 * rng.normal(size=(classes, width))[labels_N] + noise_N_D), torch.from_numpy(labels_N)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("gda")])
def test_golden_densities(name):
    inputs, expected = CASES[name]["inputs"], CASES[name]["outputs"]
    density, query = fitted(inputs), inputs["query_N_D"]
    close = {"rtol": 1e-10, "atol": 1e-12}
    found = {
        "means_C_D": density.means_C_D,
        "log_prob_N_C": density.class_log_densities(query),
        "log_density_N": density.log_density(query),
        "log_posterior_N_C": density.log_posterior(query),
        "mahalanobis_N": density.mahalanobis(query),
    }
    for key in found.keys() & expected.keys():
        torch.testing.assert_close(found[key], torch.tensor(expected[key], dtype=torch.float64), **close)
    kind = KINDS[inputs["covariance"]]
    moments = ClassMoments.of(torch.tensor(inputs["features_N_D"]), inputs["labels_N"], 3, kind)
    for own, matrix in zip(moments.covariances(inputs["ddof"]), expected["covariances_C_D_D"], strict=False):
        own = own if own.ndim == 2 else own.diag()
        torch.testing.assert_close(own, torch.tensor(matrix, dtype=torch.float64), rtol=1e-6, atol=1e-7)


def test_golden_cross_entropies_and_threshold():
    case = CASES["generative_cross_entropies_gda_mle"]
    found = fitted(case["inputs"]).cross_entropies(case["inputs"]["features_N_D"], case["inputs"]["labels_N"])
    expected = case["outputs"]
    assert found == pytest.approx((expected["H_Y_given_Z"], expected["H_YZ"], expected["H_Z"]), rel=1e-6, abs=1e-12)
    case = CASES["threshold_99"]
    log_density_N = fitted(case["inputs"]).log_density(case["inputs"]["features_N_D"])
    threshold = threshold_of(log_density_N, case["inputs"]["level"])
    assert -threshold == pytest.approx(case["outputs"]["tau"], rel=1e-12)
    assert int((log_density_N < threshold).sum()) == case["outputs"]["flagged"]


@given(st.integers(0, 10**6), st.sampled_from(["per-class", "shared", "diagonal"]), st.integers(1, 59))
@settings(max_examples=15, deadline=None)
def test_parts_merge_into_the_whole_in_any_order(seed, kind, cut):
    features_N_D, labels_N = clusters(seed)
    features_N_D += 1e4  # far from 0, where sums of squares would cancel
    whole = ClassMoments.of(features_N_D, labels_N, 3, kind)
    parts = (ClassMoments.of(features_N_D[part], labels_N[part], 3, kind) for part in (slice(cut, None), slice(0, cut)))
    merged = next(parts).merged(next(parts))
    with memory_budget(200):  # a few rows at a time
        small = ClassMoments.of(features_N_D.flip(0), labels_N.flip(0), 3, kind)
    for other in (merged, small):
        torch.testing.assert_close(other.counts_C, whole.counts_C)
        torch.testing.assert_close(other.means_C_D, whole.means_C_D, rtol=1e-12, atol=1e-9)
        torch.testing.assert_close(other.scatter, whole.scatter, rtol=1e-7, atol=1e-6)


@given(st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_density_is_that_of_the_mixture_and_moves_with_the_features(seed):
    features_N_D, labels_N = clusters(seed)
    density = GaussianDiscriminant.fit(features_N_D, labels_N)
    log_q_N_C = np.stack(
        [
            multivariate_normal(own.mean(0), np.cov(own.T), allow_singular=True).logpdf(features_N_D.numpy())
            for own in (features_N_D[labels_N == number].numpy() for number in range(3))
        ],
        1,
    )
    np.testing.assert_allclose(density.class_log_densities(features_N_D).numpy(), log_q_N_C, rtol=1e-7)
    log_density_N = density.log_density(features_N_D)
    best_N = (density.class_log_densities(features_N_D) + density.log_prior_C).amax(1)
    assert bool((log_density_N >= best_N).all())
    assert bool((log_density_N <= best_N + math.log(3)).all())
    mixing_D_D = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    moved_N_D = features_N_D @ mixing_D_D + 5.0
    moved_N = GaussianDiscriminant.fit(moved_N_D, labels_N).log_density(moved_N_D)
    torch.testing.assert_close(
        moved_N, log_density_N - torch.linalg.slogdet(mixing_D_D).logabsdet, rtol=1e-6, atol=1e-6
    )


def test_density_integrates_to_one():
    density = GaussianDiscriminant.fit(*clusters(3, width=2))
    side = torch.linspace(-40, 40, 321, dtype=torch.float64)
    total = density.log_density(torch.cartesian_prod(side, side)).exp().sum() * 0.25**2
    assert float(total) == pytest.approx(1, abs=1e-3)


def test_equal_covariances_priors_and_copies():
    features_N_D, labels_N = clusters(0, classes=2)
    one = features_N_D[labels_N == 0]
    both_N_D, both_N = torch.cat([one, one + 7.0]), torch.tensor([0] * len(one) + [1] * len(one))
    own = GaussianDiscriminant.fit(both_N_D, both_N)
    shared = GaussianDiscriminant.fit(both_N_D, both_N, covariance="shared")
    torch.testing.assert_close(own.log_density(both_N_D), shared.log_density(both_N_D))
    shrunk = GaussianDiscriminant.fit(both_N_D, both_N, shrinkage=0.7)
    torch.testing.assert_close(own.log_density(both_N_D), shrunk.log_density(both_N_D))
    for prior, shift in (("uniform", 0.0), ("none", math.log(2)), ([0.5, 0.5], 0.0)):
        other = GaussianDiscriminant.fit(both_N_D, both_N, prior=prior).log_density(both_N_D)
        torch.testing.assert_close(other, own.log_density(both_N_D) + shift)
    twice = GaussianDiscriminant.fit(both_N_D.repeat(2, 1), both_N.repeat(2), ddof=0)
    once = GaussianDiscriminant.fit(both_N_D, both_N, ddof=0)
    torch.testing.assert_close(twice.log_density(both_N_D), once.log_density(both_N_D))


def test_highest_joint_likelihood():
    features_N_D, labels_N = clusters(1)
    best = GaussianDiscriminant.fit(features_N_D, labels_N, ddof=0)
    _, joint, _ = best.cross_entropies(features_N_D, labels_N)
    generator = torch.Generator().manual_seed(0)
    for name in ("means_C_D", "log_prior_C", "whitening"):
        tensors = best.tensors()
        noise = 0.1 * torch.randn(tensors[name].shape, generator=generator, dtype=torch.float64)
        tensors[name] = (
            (tensors[name] + noise).log_softmax(0) if name == "log_prior_C" else tensors[name] + noise.tril()
        )
        if name == "whitening":
            tensors["log_det_C"] = tensors[name].diagonal(dim1=1, dim2=2).abs().log().sum(1)
        assert GaussianDiscriminant(**tensors).cross_entropies(features_N_D, labels_N)[1] > joint


def test_singular_covariances_get_a_ridge_that_is_told():
    generator = torch.Generator().manual_seed(0)
    features_N_D = torch.randn(8, 20, generator=generator)  # fewer points than features, and one class with one point
    labels_N = torch.tensor([0, 0, 0, 0, 1, 1, 1, 3])
    density = GaussianDiscriminant.fit(features_N_D, labels_N, classes=4)
    assert 1e-11 < float(density.ridge) < 1e-8
    assert "ridge" in density.warnings[0]
    away_N = density.log_density(features_N_D + 1.0)
    assert bool((away_N < density.log_density(features_N_D)).all())
    assert bool(away_N.isfinite().all())
    assert bool(density.class_log_densities(features_N_D)[:, 2].isneginf().all())  # a class without points
    assert (
        not GaussianDiscriminant.fit(features_N_D, labels_N, shrinkage=0.9, ridge=0.1)
        .log_density(features_N_D)
        .isnan()
        .any()
    )
    far = density.log_density(1e6 * features_N_D)
    assert bool(far.isfinite().all())


def test_dead_features_and_scaled_features():
    features_N_D, labels_N = clusters(2)
    dead_N_D = torch.cat([features_N_D, torch.zeros(len(features_N_D), 2)], 1)
    density = GaussianDiscriminant.fit(dead_N_D, labels_N)
    order = density.log_density(dead_N_D).argsort()
    torch.testing.assert_close(
        order, GaussianDiscriminant.fit(features_N_D, labels_N).log_density(features_N_D).argsort()
    )


@pytest.mark.parametrize("kind", ["per-class", "shared", "diagonal"])
def test_units_of_features_do_not_matter(kind):
    features_N_D, labels_N = clusters(2)
    units_D = torch.tensor([1e-9, 1.0, 1e9], dtype=torch.float64)
    moved = GaussianDiscriminant.fit(features_N_D * units_D, labels_N, covariance=kind)
    assert not moved.warnings
    expected_N = GaussianDiscriminant.fit(features_N_D, labels_N, covariance=kind).log_density(features_N_D)
    torch.testing.assert_close(moved.log_density(features_N_D * units_D), expected_N)
    constant = GaussianDiscriminant.fit(torch.nn.functional.pad(features_N_D, (0, 1), value=0.1), labels_N)
    assert "never change" in constant.warnings[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels_N": [0, 3]}, "labels_N: classes run"),
        ({"features_N_D": [[0.0], [math.nan]]}, "features_N_D: found NaN or infinity in row 1"),
        ({"features_N_D": [[0.0], [1e160]]}, "features_N_D: found 1e.160 in row 1"),
        ({"features_N_D": [0.0, 1.0]}, "features_N_D: expected points × features"),
        ({"classes": 2.5}, "classes: expected"),
        ({"ddof": 2}, "ddof: expected 0 or 1"),
        ({"prior": [0.0, 1.0]}, "prior: found 0 for all classes that have points"),
        (
            {"features_N_D": [[0.1]] * 7, "labels_N": [0] * 7},
            "all points of a class are equal",
        ),  # their mean is not 0.1
        ({"ridge": 0.0, "features_N_D": [[0.0, 0.0], [1.0, 1.0]]}, "singular with 0; use auto"),
        ({"features_N_D": [[1.0], [1.0]]}, "all points of a class are equal"),
        ({"prior": "flat"}, "prior: expected"),
        ({"prior": [0.5, 0.6]}, "prior: expected 2 probabilities"),
        ({"shrinkage": 2.0}, "shrinkage: expected"),
        ({"ridge": -1.0}, "ridge: expected"),
        ({"covariance": "full"}, "covariance: expected"),
        ({"labels_N": []}, "labels_N: found no points"),
    ],
)
def test_refused(change, message):
    settings = {"features_N_D": [[0.0], [1.0]], "labels_N": [0, 0], "classes": 2} | change
    with pytest.raises(ValueError, match=message):
        GaussianDiscriminant.fit(
            settings.pop("features_N_D"), settings.pop("labels_N"), settings.pop("classes"), **settings
        )


def test_other_features_are_refused_when_scored():
    density = GaussianDiscriminant.fit([[0.0], [1.0]], [0, 0])
    with pytest.raises(ValueError, match="expected 1 features per point"):
        density.log_density([[0.0, 1.0]])
    for score in (density.log_density, density.log_posterior, density.mahalanobis):
        with pytest.raises(ValueError, match="found NaN or infinity in row 0"):
            score([[math.nan]])
    with pytest.raises(ValueError, match="labels_N: classes run from 0 to 0, found -1"):
        density.cross_entropies([[0.0]], [-1])
    with pytest.raises(ValueError, match="found no points"):
        density.cross_entropies(torch.zeros(0, 1), [])
    with pytest.raises(ValueError, match="make both alike"):
        ClassMoments.of(torch.zeros(1, 2), [0], 1).merged(ClassMoments.of(torch.zeros(1, 3), [0], 1))
