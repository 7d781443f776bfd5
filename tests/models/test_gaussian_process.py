"""Gaussian processes of scikit-learn: features and draws hold scikit-learn's own posterior, jointly for two calls."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, ExpSineSquared, Matern, WhiteKernel
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from natsel import memory_budget
from natsel.beliefs import Targets
from natsel.data import Examples
from natsel.information.gaussian_predictive import epig_gaussian, jepig_gaussian
from natsel.models.joint_beliefs import believe_both
from natsel.models.processes.gaussian_process import GaussianProcess, is_gaussian_process
from natsel.models.processes.joint_features import pivoted_cholesky
from natsel.models.protocol import Model, Together
from natsel.objectives import Context, read
from natsel.objectives.epig import EPIG
from natsel.objectives.jepig import JEPIG
from natsel.objectives.readings.gaussian import epig_gaussian as _epig  # noqa: F401
from natsel.objectives.readings.gaussian import jepig_gaussian as _jepig  # noqa: F401

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(12, 2))
LABELS = 3 * np.sin(INPUTS[:, 0]) + 5 + 0.2 * RNG.normal(size=12)
POOL, TARGETS = RNG.normal(size=(30, 2)), RNG.normal(size=(7, 2))

PROCESSES = {
    "rbf": GaussianProcessRegressor(ConstantKernel(2.0) * RBF(0.8), alpha=0.05, optimizer=None),
    "white": GaussianProcessRegressor(RBF() + WhiteKernel(0.2), alpha=0.01, optimizer=None, normalize_y=True),
    "default": GaussianProcessRegressor(alpha=0.1),
    "rough": GaussianProcessRegressor(Matern(nu=0.5) + DotProduct(), alpha=0.3, optimizer=None),
    "piped": make_pipeline(StandardScaler(), GaussianProcessRegressor(RBF(), alpha=0.1, optimizer=None)),
}


def posterior(model, inputs):
    """Means and covariances of labels as scikit-learn gives them, with the noise that it leaves out of new points."""
    rows = model.fitted[:-1].transform(inputs) if hasattr(model.fitted, "steps") else inputs
    process = model.fitted[-1] if hasattr(model.fitted, "steps") else model.fitted
    mean, covariance = process.predict(rows, return_cov=True)
    scale = float(np.ravel(process._y_train_std)[0])
    return mean, covariance + scale**2 * process.alpha * np.eye(len(inputs))


@pytest.mark.parametrize("name", PROCESSES)
def test_features_and_noise_are_the_joint_posterior(name):
    model = GaussianProcess(PROCESSES[name]).fit(Examples(INPUTS, LABELS))
    pool, targets = model.believe_together(POOL, TARGETS)
    features = torch.cat([pool.features_N_D, targets.features_N_D])
    noise = torch.cat([pool.noise_N, targets.noise_N])
    mean, covariance = posterior(model, np.concatenate([POOL, TARGETS]))
    found = (features @ features.T + noise.diag()).numpy()
    assert np.allclose(found, covariance, atol=1e-9)
    if name == "white":
        assert pool.noise_N.numpy() == pytest.approx(np.full(30, (0.2 + 0.01) * LABELS.var()))
    predictive = model.predictive(POOL)
    assert predictive.mean_N_K[:, 0].numpy() == pytest.approx(mean[:30])
    assert predictive.variance_N_K[:, 0].numpy() == pytest.approx(covariance.diagonal()[:30])


@pytest.mark.parametrize("name", ["rbf", "rough"])
def test_scores_are_those_of_the_process_algebra(name):
    model = GaussianProcess(PROCESSES[name]).fit(Examples(INPUTS, LABELS))
    pool, targets = believe_both(model, POOL, TARGETS)
    whole = torch.from_numpy(posterior(model, np.concatenate([POOL, TARGETS]))[1])
    reading = Context(Targets(targets), None, torch.Generator())
    epig = epig_gaussian(whole.diagonal()[:30], whole[:30, 30:], whole.diagonal()[30:])
    torch.testing.assert_close(read(EPIG(), pool, reading).scores(), epig, rtol=1e-6, atol=1e-9)
    jepig = jepig_gaussian(whole.diagonal()[:30], whole[:30, 30:], whole[30:, 30:])
    torch.testing.assert_close(read(JEPIG(), pool, reading).scores(), jepig, rtol=1e-6, atol=1e-9)
    for objective, size in ((EPIG(), 3), (JEPIG(), 3)):
        state = read(objective, pool, reading)
        batch = [state.add(position) for position in (4, 9, 17)][:size]
        a = [4, 9, 17]
        if isinstance(objective, JEPIG):
            expected = float(jepig_gaussian(whole[a][:, a], whole[a, 30:], whole[30:, 30:]))
        else:
            pairs = [jepig_gaussian(whole[a][:, a], whole[a][:, [j]], whole[[j]][:, [j]]) for j in range(30, 37)]
            expected = float(torch.stack(pairs).mean())
        assert sum(batch) == pytest.approx(expected, abs=1e-8)


def test_given_noise_takes_the_place_of_alpha():
    belief = GaussianProcess(PROCESSES["rbf"], noise=0.7).fit(Examples(INPUTS, LABELS)).believe(POOL)
    assert belief.noise_N.tolist() == [0.7] * 30


def test_beliefs_of_two_calls_are_not_combined():
    model = GaussianProcess(PROCESSES["rbf"]).fit(Examples(INPUTS, LABELS))
    assert isinstance(model, Model)
    assert isinstance(model, Together)
    pool, targets = model.believe(POOL), model.believe(TARGETS)
    assert pool.draws_id != targets.draws_id
    assert model.believe(POOL).draws_id == pool.draws_id
    with pytest.raises(ValueError, match="targets: their draws are"):
        read(EPIG(), pool, Context(Targets(targets), None, torch.Generator()))
    one, other = model.believe_together(POOL, TARGETS)
    assert one.draws_id == other.draws_id
    assert one.ids.tolist() == list(range(30))
    assert other.ids.tolist() == list(range(7))
    elsewhere = GaussianProcess(PROCESSES["rbf"]).fit(Examples(INPUTS, LABELS + 1)).believe_together(POOL, TARGETS)[0]
    assert elsewhere.draws_id != one.draws_id


def test_the_estimator_is_left_alone_and_nothing_is_remembered():
    estimator = GaussianProcessRegressor(RBF(), alpha=0.1)
    model = GaussianProcess(estimator).fit(Examples(INPUTS, LABELS), seed=1)
    assert not hasattr(estimator, "kernel_")
    first = model.believe(POOL)
    model.fit(Examples(INPUTS[:5], LABELS[:5]))
    again = model.fit(Examples(INPUTS, LABELS), seed=1).believe(POOL)
    assert torch.equal(first.features_N_D, again.features_N_D)


# Classes.


def logistic_classes():
    return Examples(INPUTS, (INPUTS[:, 0] > 0).astype(np.int64))


def test_class_draws_have_the_laplace_posterior():
    model = GaussianProcess(GaussianProcessClassifier(RBF(), optimizer=None), draws=40_000).fit(
        logistic_classes(), seed=2
    )
    pool, targets = believe_both(model, POOL, TARGETS)
    log_probs = torch.cat([pool.log_probs_N_K_C, targets.log_probs_N_K_C]).double()
    latent = (log_probs[..., 1] - log_probs[..., 0]).numpy()
    inner = model.fitted.base_estimator_
    inputs = np.concatenate([POOL, TARGETS])
    cross = inner.kernel_(inner.X_train_, inputs)
    root = inner.W_sr_
    weight = root[:, None] * np.linalg.solve(
        np.eye(12) + root[:, None] * inner.kernel_(inner.X_train_) * root, np.diag(root)
    )
    covariance = inner.kernel_(inputs) - cross.T @ weight @ cross
    assert latent.mean(1) == pytest.approx(cross.T @ (inner.y_train_ - inner.pi_), abs=0.03)
    assert np.allclose(np.cov(latent), covariance, atol=0.03)
    assert np.allclose(pool.log_probs_N_K_C.exp().mean(1), model.fitted.predict_proba(POOL), atol=0.01)
    assert torch.allclose(
        model.predictive(POOL).log_probs_N_K_C[:, 0].exp(), torch.from_numpy(model.fitted.predict_proba(POOL))
    )


def test_seeds_decide_the_draws():
    first, same, other = (
        GaussianProcess(GaussianProcessClassifier(RBF(), optimizer=None), draws=5)
        .fit(logistic_classes(), seed=seed)
        .believe(POOL)
        for seed in (1, 1, 2)
    )
    assert torch.equal(first.log_probs_N_K_C, same.log_probs_N_K_C)
    assert not torch.equal(first.log_probs_N_K_C, other.log_probs_N_K_C)
    assert first.draws_id == same.draws_id != other.draws_id


def test_what_has_no_joint_posterior_is_refused():
    classifier = GaussianProcess(GaussianProcessClassifier())
    with pytest.raises(ValueError, match="two classes, found 3"):
        classifier.fit(Examples(INPUTS, np.arange(12) % 3))
    with pytest.raises(ValueError, match="two classes, found 1"):
        classifier.fit(Examples(INPUTS, np.zeros(12, dtype=np.int64), classes=("a", "b")))
    with pytest.raises(ValueError, match="estimator: expected a GaussianProcess"):
        GaussianProcess(Ridge())
    with pytest.raises(ValueError, match="alpha for each example"):
        GaussianProcess(GaussianProcessRegressor(alpha=np.ones(3)))
    with pytest.raises(ValueError, match="noise: expected"):
        GaussianProcess(GaussianProcessClassifier(), noise=1.0)
    with pytest.raises(ValueError, match="draws: expected"):
        GaussianProcess(GaussianProcessClassifier(), draws=0)
    with pytest.raises(ValueError, match="fit the model first"):
        GaussianProcess(PROCESSES["rbf"]).believe(POOL)
    model = GaussianProcess(PROCESSES["rbf"]).fit(Examples(INPUTS, LABELS))
    with pytest.raises(ValueError, match="inputs: fitted to rows of 2 numbers, found 3"):
        model.believe(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="NaN or infinity in row 1"):
        model.believe(np.array([[0.0, 0.0], [np.nan, 0.0]]))
    assert not is_gaussian_process(Ridge())
    assert is_gaussian_process(PROCESSES["piped"])


# Pivoted Cholesky.


@settings(deadline=None)
@given(seed=st.integers(0, 999), count=st.integers(1, 90), width=st.integers(1, 80))
def test_pivoted_cholesky_is_a_square_root(seed, count, width):
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(count, width, generator=generator, dtype=torch.float64)
    whole = root @ root.T
    features = pivoted_cholesky(whole.diagonal(), lambda i, j: whole[i][:, j], 1e-10)
    assert torch.allclose(features @ features.T, whole, atol=1e-7)
    assert features.shape[1] <= min(count, width)


def test_a_smooth_kernel_needs_few_features_and_copies_none():
    inputs = np.repeat(np.linspace(0, 5, 400), 5)
    kernel = torch.from_numpy(np.exp(-((inputs[:, None] - inputs) ** 2) / 2))
    features = pivoted_cholesky(kernel.diagonal(), lambda i, j: kernel[i][:, j], 1e-9)
    assert features.shape[1] < 40
    assert torch.allclose(features @ features.T, kernel, atol=1e-7)
    constant = pivoted_cholesky(torch.zeros(3, dtype=torch.float64), lambda i, j: torch.zeros(len(i), len(j)), 1e-9)
    assert constant.tolist() == [[0], [0], [0]]


def test_more_features_than_memory_allows_are_refused():
    kernel = torch.eye(2000, dtype=torch.float64)
    with memory_budget(1 << 20), pytest.raises(ValueError, match="inputs: 2000 of them under this kernel"):
        pivoted_cholesky(kernel.diagonal(), lambda i, j: kernel[i][:, j], 1e-9)


@pytest.mark.parametrize(("labelled", "alpha"), [(4, 0.5), (12, 0.05)])
def test_a_kernel_that_is_none_is_refused(labelled, alpha):
    """ExpSineSquared is a kernel of one column: of more, no functions have the covariances that it gives."""
    rng = np.random.default_rng(0)
    inputs, pool, labels = rng.normal(size=(labelled, 3)), rng.normal(size=(40, 3)), rng.normal(size=labelled)
    model = GaussianProcess(GaussianProcessRegressor(ExpSineSquared(1.0, 2.0), alpha=alpha, optimizer=None))
    with pytest.raises(ValueError, match=r"^estimator: its kernel gives no covariances of these inputs"):
        model.fit(Examples(inputs, labels)).believe(pool)
    sound = model.fit(Examples(inputs[:, :1], labels))
    belief, predicted = sound.believe(pool[:, :1]), sound.predictive(pool[:, :1])
    found_N = belief.features_N_D.square().sum(1) + belief.noise_N
    torch.testing.assert_close(found_N, predicted.variance_N_K[:, 0], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kernel", [RBF(100.0), DotProduct(), 1e4 * RBF(3.0), ExpSineSquared(1.0, 2.0)])
def test_rounding_of_ill_conditioned_kernels_is_not_refused(kernel):
    for seed in (7, 14, 24, 27):
        rng = np.random.default_rng(seed)
        inputs = rng.normal(size=(40, 1))
        pool = np.concatenate([rng.normal(size=(60, 1)), inputs[:10], inputs[:10]])
        process = GaussianProcess(GaussianProcessRegressor(kernel, alpha=1e-8, optimizer=None))
        assert len(process.fit(Examples(inputs, rng.normal(size=40))).believe(pool)) == 80
