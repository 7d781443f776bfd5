"""Kernels of members, and transforms of kernels: golden values, identities, and what is refused."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import natsel
from golden_values import golden
from natsel.beliefs.kernel_transforms import (
    ACSFeatures,
    ConditionOn,
    RandomProjection,
    Scale,
    Transforms,
    as_features,
    expected_log_likelihoods,
    projected,
    sum_of_kernels,
    transforms_called,
)

GOLDEN = golden("09-black-box")


def kernel(belief):
    features_N_D = as_features(belief).features_N_D.double()
    return features_N_D @ features_N_D.T


def members(seed, points=6, draws=5):
    return np.random.default_rng(seed).normal(size=(points, draws))


def pair(noise=0.25):
    case = GOLDEN["features"]["inputs"]
    return tuple(natsel.GaussianSamples(case[name], noise, draws_id="a") for name in ("mean_N_K", "train_mean_T_K"))


def test_features_of_members_are_the_golden_ones():
    pool, _ = pair()
    expected = GOLDEN["features"]["outputs"]
    np.testing.assert_allclose(pool.features().features_N_D, expected["features_N_D"], rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(kernel(pool), expected["kernel_N_N"], rtol=1e-9)
    case = GOLDEN["weighted_members"]
    weighted = natsel.GaussianSamples(case["inputs"]["mean_N_K"], 0.25, np.log(case["inputs"]["q_K"]))
    np.testing.assert_allclose(weighted.features().features_N_D, case["outputs"]["features_N_D"], rtol=1e-9)
    np.testing.assert_allclose(kernel(weighted), case["outputs"]["kernel_N_N"], rtol=1e-9)


@given(st.integers(0, 2**32), st.floats(0.1, 10), st.floats(-1e6, 1e6))
@settings(deadline=None)
def test_the_kernel_of_members_is_their_covariance(seed, factor, offset):
    mean_N_K = members(seed)
    covariance = kernel(natsel.GaussianSamples(mean_N_K, 1.0))
    np.testing.assert_allclose(covariance, np.cov(mean_N_K, bias=True), rtol=1e-9, atol=1e-12)
    assert np.linalg.matrix_rank(covariance, tol=1e-9) <= mean_N_K.shape[1] - 1
    assert float(torch.linalg.eigvalsh(covariance).min()) > -1e-12
    shared = np.random.default_rng(seed + 1).normal(size=(6, 1)) * offset  # the same function added to all members
    for other, times in (
        (mean_N_K + shared, 1.0),
        (mean_N_K[:, ::-1].copy(), 1.0),
        (np.repeat(mean_N_K, 2, 1), 1.0),
        (factor * mean_N_K, factor**2),
    ):
        tolerance = 1e-15 * (1 + float(np.abs(other).max())) * 10
        np.testing.assert_allclose(
            kernel(natsel.GaussianSamples(other, 1.0)), times * covariance, rtol=1e-8, atol=tolerance
        )


@given(st.integers(0, 2**32), st.floats(0.05, 5))
@settings(deadline=None)
def test_one_hot_and_dirichlet_mixtures_of_members_have_this_kernel(seed, alpha):
    mean_N_K = members(seed)
    count = mean_N_K.shape[1]
    ours = kernel(natsel.GaussianSamples(mean_N_K, 1.0)).numpy()
    q_K = np.full(count, 1 / count)
    one_hot = mean_N_K @ (np.diag(q_K) - np.outer(q_K, q_K)) @ mean_N_K.T
    np.testing.assert_allclose(ours, one_hot, rtol=1e-9, atol=1e-12)
    total = count * alpha  # of a Dirichlet distribution: Cov = (diag q − q qᵀ)/(1 + Σ α)
    concentration = np.full(count, alpha)
    spread = (np.diag(concentration) * total - np.outer(concentration, concentration)) / (total**2 * (1 + total))
    np.testing.assert_allclose(mean_N_K @ spread @ mean_N_K.T, ours / (1 + total), rtol=1e-9, atol=1e-12)


def test_dirichlet_mixtures_have_the_golden_kernel():
    ours, case = kernel(pair()[0]), GOLDEN["dirichlet"]
    for alpha, own, cross in zip(case["inputs"]["alphas"], *case["outputs"].values(), strict=True):
        assert float(ours[0, 0]) / (1 + 4 * alpha) == pytest.approx(own, rel=1e-9)
        assert float(ours[0, 3]) / (1 + 4 * alpha) == pytest.approx(cross, rel=1e-9)


def test_linear_regression_has_the_posterior_gradient_kernel_and_draws_find_it():
    """k_pred = ∇μ (G ᵀG/σ² + I)⁻¹ ∇μᵀ exactly; that of K draws is off by O(1/√K)."""
    rng, noise = np.random.default_rng(0), 0.3
    labelled_T_D, pool_N_D = rng.normal(size=(5, 3)), rng.normal(size=(7, 3))
    covariance_D_D = np.linalg.inv(labelled_T_D.T @ labelled_T_D / noise + np.eye(3))
    exact = pool_N_D @ covariance_D_D @ pool_N_D.T
    prior, known = natsel.GaussianFeatures(pool_N_D, noise), natsel.GaussianFeatures(labelled_T_D, noise)
    np.testing.assert_allclose(kernel(ConditionOn("labelled")(prior, known)[0]), exact, rtol=1e-8, atol=1e-12)
    errors = []
    for draws in (100, 10_000):
        weights_K_D = rng.multivariate_normal(np.zeros(3), covariance_D_D, size=draws)
        ours = kernel(natsel.GaussianSamples(pool_N_D @ weights_K_D.T, noise))
        errors.append(float(np.abs(ours.numpy() - exact).max() / exact.max()))
    assert errors[1] < 0.05
    assert errors[1] < errors[0] / 2


@given(st.integers(0, 2**32), st.sampled_from([1e-3, 0.1, 1.0, 100.0]), st.integers(1, 9))
@settings(deadline=None)
def test_the_three_forms_of_the_posterior_kernel_agree(seed, noise, count):
    rng = np.random.default_rng(seed)
    pool_N_D, known_T_D = rng.normal(size=(6, 4)), rng.normal(size=(count, 4))
    weight = pool_N_D @ np.linalg.inv(known_T_D.T @ known_T_D / noise + np.eye(4)) @ pool_N_D.T
    across = pool_N_D @ known_T_D.T
    inner = np.linalg.inv(known_T_D @ known_T_D.T + noise * np.eye(count))
    points = pool_N_D @ pool_N_D.T - across @ inner @ across.T
    deflated = torch.tensor(pool_N_D), torch.tensor(known_T_D)
    for position in range(count):  # one label after the other
        row_D = deflated[1][position].clone()
        pivot = float(row_D @ row_D) + noise
        beta = 1 / (math.sqrt(pivot) * (math.sqrt(pivot) + math.sqrt(noise)))
        deflated = tuple(part - beta * torch.outer(part @ row_D, row_D) for part in deflated)
    ours = ConditionOn("labelled")(natsel.GaussianFeatures(pool_N_D, noise), natsel.GaussianFeatures(known_T_D, noise))
    for other in (weight, points, (deflated[0] @ deflated[0].T).numpy()):
        np.testing.assert_allclose(kernel(ours[0]), other, atol=1e-8)


def test_conditioning_gives_the_golden_posterior_for_pool_and_labelled_alike():
    pool, labelled = pair()
    ours, theirs = ConditionOn("labelled")(pool, labelled)
    np.testing.assert_allclose(kernel(ours), GOLDEN["posterior_kernel"]["outputs"]["kernel_N_N"], rtol=1e-9)
    assert ours.draws_id == theirs.draws_id != pool.draws_id
    np.testing.assert_allclose(ours.mean_N, pool.mean)
    known = kernel(labelled).numpy()
    left = known - known @ np.linalg.inv(known + 0.25 * np.eye(2)) @ known
    np.testing.assert_allclose(kernel(theirs), left, rtol=1e-8)
    by_pool, _ = ConditionOn("pool")(pool)
    whole = kernel(pool).numpy()
    np.testing.assert_allclose(kernel(by_pool), whole - whole @ np.linalg.inv(whole + 0.25 * np.eye(9)) @ whole)


def test_acs_features_are_the_golden_ones_and_their_draws_come_from_the_posterior():
    case, (pool, labelled) = GOLDEN["acs_rf_features"], pair()
    v_N = kernel(ConditionOn("labelled")(pool, labelled)[0]).diagonal()
    np.testing.assert_allclose(v_N, case["outputs"]["v_N"], rtol=1e-9)
    features_N_D = pool.features().features_N_D
    z_N_Q = features_N_D @ torch.tensor(case["inputs"]["theta_Q_D"], dtype=torch.float64).T
    found = expected_log_likelihoods(z_N_Q, v_N, torch.full((9,), 0.25, dtype=torch.float64))
    np.testing.assert_allclose(found, case["outputs"]["features_N_Q"], rtol=1e-9)
    ours, theirs = ACSFeatures(20_000)(pool, labelled)
    assert (ours.features_N_D.shape, theirs.features_N_D.shape) == ((9, 20_000), (2, 20_000))
    mean_N = ours.features_N_D.sum(1) / math.sqrt(20_000)  # E z² = v
    torch.testing.assert_close(mean_N, 0.5 * (v_N / 0.25).log1p() - v_N / 0.25, rtol=0.05, atol=0)
    prior = ACSFeatures(20_000)(pool)[0].features_N_D.sum(1) / math.sqrt(20_000)  # no labels: v = k(x, x)
    own_N = kernel(pool).diagonal()
    torch.testing.assert_close(prior, 0.5 * (own_N / 0.25).log1p() - own_N / 0.25, rtol=0.05, atol=0)


def test_acs_features_with_learnt_noise_follow_the_formula():
    rng = np.random.default_rng(1)
    known_T_D, pool_N_D, y_T = rng.normal(size=(6, 3)), rng.normal(size=(4, 3)), rng.normal(size=6)
    known = natsel.Targets(natsel.GaussianFeatures(known_T_D, 0.1, mean=0.5), labels=y_T + 0.5)
    ours, _ = ACSFeatures(50_000, noise="learnt")(natsel.GaussianFeatures(pool_N_D, 0.1), known)
    sigma = np.linalg.inv(known_T_D.T @ known_T_D + np.eye(3))
    m_D = sigma @ known_T_D.T @ y_T
    a, b = 1 + 6 / 2, 1 + 0.5 * (y_T @ y_T - m_D @ np.linalg.inv(sigma) @ m_D)
    v_N = np.einsum("nd,de,ne->n", pool_N_D, sigma, pool_N_D)
    whole_N_Q = ours.features_N_D * math.sqrt(50_000)
    largest = -0.5 * (math.log(2 * math.pi) + b / a * (1 + v_N))  # where z is 0
    assert bool((whole_N_Q.max(1).values <= torch.tensor(largest) + 1e-9).all())
    np.testing.assert_allclose(whole_N_Q.max(1).values, largest, atol=1e-5)
    np.testing.assert_allclose(whole_N_Q.mean(1), largest - 0.5 * v_N, rtol=0.02)
    with pytest.raises(ValueError, match=r"^labelled: noise='learnt' is learnt from labels, found none"):
        ACSFeatures(5, noise="learnt")(natsel.GaussianFeatures(pool_N_D), natsel.GaussianFeatures(known_T_D))


def test_scaling_makes_the_mean_squared_length_one():
    pool, labelled = pair()
    ours, theirs = Scale()(pool, labelled)
    assert float(kernel(theirs).diagonal().mean()) == pytest.approx(1)
    size = float(kernel(labelled).diagonal().mean())
    torch.testing.assert_close(kernel(ours), kernel(pool) / size)
    torch.testing.assert_close(ours.noise_N, pool.features().noise_N)
    alone, nobody = Scale()(pool)
    assert nobody is None
    assert float(kernel(alone).diagonal().mean()) == pytest.approx(1)
    flat = natsel.GaussianFeatures([[0.0], [0.0]])
    assert float(Scale()(flat)[0].features_N_D.abs().max()) == 0


def test_projections_keep_the_kernel_on_average_and_are_the_same_in_pool_and_labelled():
    pool, labelled = pair()
    found = [RandomProjection(64, seed)(pool, labelled) for seed in range(60)]
    mean = torch.stack([kernel(ours) for ours, _ in found]).mean(0)
    assert float((mean - kernel(pool)).abs().max()) < 0.15
    ours, theirs = found[0]
    both = RandomProjection(64, 0)(natsel.GaussianFeatures(torch.cat([kernel_part(pool), kernel_part(labelled)])))[0]
    torch.testing.assert_close(both.features_N_D, torch.cat([ours.features_N_D, theirs.features_N_D]))
    wide = torch.randn(3, 9000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    whole = projected(wide, 8, 0)
    parts = projected(torch.cat([wide[:, :4096], torch.zeros(3, 4904)], 1), 8, 0) + projected(
        torch.cat([torch.zeros(3, 4096), wide[:, 4096:]], 1), 8, 0
    )
    torch.testing.assert_close(whole, parts)


def kernel_part(belief):
    return belief.features().features_N_D


def test_kernels_add():
    first, second = (natsel.GaussianSamples(members(seed), 0.5, ids=list("abcdef")) for seed in (0, 1))
    both = sum_of_kernels([first, second])
    torch.testing.assert_close(kernel(both), kernel(first) + kernel(second))
    assert both.noise_N.tolist() == [1.0] * 6
    torch.testing.assert_close(both.mean_N, first.mean + second.mean)
    with pytest.raises(ValueError, match=r"^beliefs: they are about different points"):
        sum_of_kernels([first, second[:3]])


def test_steps_apply_in_order_and_labels_reach_each():
    pool, labelled = pair()
    steps = ConditionOn("labelled"), Scale(), RandomProjection(5, 1), ACSFeatures(4, noise="learnt")
    known = natsel.Targets(labelled, labels=[0.0, 1.0])
    ours, theirs = Transforms(*steps)(pool, known)
    expected = steps[1](*steps[0](pool, labelled))
    expected = steps[2](*expected)
    expected = steps[3](expected[0], natsel.Targets(expected[1], labels=[0.0, 1.0]))
    assert torch.equal(ours.features_N_D, expected[0].features_N_D)
    assert torch.equal(theirs.features_N_D, expected[1].features_N_D)
    named = transforms_called("condition-on-labelled, scale, project-5, acs-learnt-4")
    assert named == Transforms(steps[0], steps[1], RandomProjection(5), steps[3])
    assert len(natsel.select("batchbald", Transforms(*steps[:3])(pool, labelled)[0], k=3)) == 3


def test_one_row_of_weight_space_is_read_as_features():
    rng = np.random.default_rng(0)
    rows_N_1_P, spread = rng.normal(size=(5, 1, 4)), rng.normal(size=(9, 4))
    precision = spread.T @ spread
    belief = natsel.FisherRows(rows_N_1_P, precision)
    exact = rows_N_1_P[:, 0] @ np.linalg.inv(precision) @ rows_N_1_P[:, 0].T
    np.testing.assert_allclose(kernel(belief), exact, rtol=1e-8)
    last = natsel.FisherFactors.gaussian(rows_N_1_P[:, 0], noise=4.0, precision=precision)
    np.testing.assert_allclose(kernel(last), exact / 4, rtol=1e-8)
    np.testing.assert_allclose(natsel.score("bald", as_features(belief)), natsel.score("bald", belief), rtol=1e-8)


def test_noise_of_each_member_and_point_is_averaged_in_the_features():
    belief = natsel.GaussianSamples([[0.0, 2.0], [1.0, 1.0]], [[1.0, 3.0], [0.5, 0.1]], np.log([0.25, 0.75]))
    assert belief.features().noise_N.tolist() == pytest.approx([2.5, 0.2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: natsel.GaussianSamples([[math.nan, 1.0]], 0.1), "^mean_N_K: found NaN or infinity in row 0"),
        (lambda: natsel.GaussianSamples([[0.0, 1.0]], 0.0), "^variance_N_K: variances must be positive"),
        (lambda: as_features(natsel.FisherRows(np.ones((2, 3, 4)))), "^belief: .*found FisherRows with 3 rows per"),
        (lambda: as_features(natsel.ClassProbabilities.from_probs([[0.5, 0.5]])), "^belief: .*found ClassProb"),
        (lambda: ConditionOn("labelled")(pair()[0]), "^labelled: found none to condition on"),
        (lambda: ConditionOn("test"), "^points: expected 'labelled' or 'pool', found 'test'"),
        (lambda: RandomProjection(0), "^size: expected a number of features from 1 on, found 0"),
        (lambda: ACSFeatures(5, noise="guessed"), "^noise: expected 'known' or 'learnt', found 'guessed'"),
        (lambda: Transforms(Scale), "^steps: expected transforms such as Scale"),
        (lambda: transforms_called("scale, project"), "^transforms: found 'project'; expected scale, "),
        (lambda: sum_of_kernels([]), "^beliefs: found none"),
        (
            lambda: Scale()(pair()[0], natsel.GaussianFeatures([[1.0]])),
            "^labelled: they have 1 features and the pool 4",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_one_member_is_told_that_it_cannot_disagree():
    one = natsel.GaussianSamples([[1.0], [2.0]], 0.1)
    assert any(sentence.startswith("one draw: ") for sentence in natsel.select("batchbald", one, k=1).warnings)
    assert float(kernel(one).abs().max()) == 0
