"""Processes of GPyTorch: what their beliefs hold is GPyTorch's own posterior. Skipped without the extra `gp`."""

import numpy as np
import pytest
import torch

from natsel.data import Examples
from natsel.models.joint_beliefs import believe_both
from natsel.models.processes.gpytorch_process import GPyTorch

gpytorch = pytest.importorskip("gpytorch", reason="needs the extra gp")
pytestmark = pytest.mark.filterwarnings("ignore")  # GPyTorch's own

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(20, 2))
LABELS = np.sin(2 * INPUTS[:, 0]) + 0.1 * RNG.normal(size=20)
POOL, TARGETS = RNG.normal(size=(15, 2)), RNG.normal(size=(6, 2))


def exact(inputs, labels):
    class Process(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(inputs, labels, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    return Process(likelihood), likelihood


def variational(likelihood):
    def make(inputs, labels):
        class Process(gpytorch.models.ApproximateGP):
            def __init__(self):
                inner = gpytorch.variational.CholeskyVariationalDistribution(len(inputs))
                strategy = gpytorch.variational.VariationalStrategy(self, inputs, inner, learn_inducing_locations=False)
                super().__init__(strategy)
                self.mean_module = gpytorch.means.ZeroMean()
                self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

            def forward(self, x):
                return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

        return Process(), likelihood()

    return make


@pytest.mark.parametrize("kind", ["exact", "variational"])
def test_regression_features_are_the_posterior(kind):
    make = exact if kind == "exact" else variational(gpytorch.likelihoods.GaussianLikelihood)
    model = GPyTorch(make, steps=60).fit(Examples(INPUTS, LABELS), seed=1)
    pool, targets = believe_both(model, POOL, TARGETS)
    features = torch.cat([pool.features_N_D, targets.features_N_D])
    with torch.no_grad():
        posterior = model.process(torch.from_numpy(np.concatenate([POOL, TARGETS])))
    assert torch.allclose(features @ features.T, posterior.covariance_matrix, atol=1e-8)
    assert pool.noise_N.tolist() == pytest.approx([float(model.likelihood.noise)] * len(POOL))
    predictive = model.predictive(POOL)
    assert predictive.mean_N_K[:, 0].tolist() == pytest.approx(posterior.mean[: len(POOL)].tolist(), abs=1e-8)
    assert model.regression is True
    residual = model.predictive(INPUTS).mean_N_K[:, 0].numpy() - LABELS
    assert np.sqrt((residual**2).mean()) < 0.5 * LABELS.std()


def test_classes_are_joint_draws_of_the_posterior():
    model = GPyTorch(variational(gpytorch.likelihoods.BernoulliLikelihood), steps=60, draws=20_000)
    model.fit(Examples(INPUTS, (LABELS > 0).astype(int)), seed=1)
    pool, targets = model.believe_together(POOL, TARGETS)
    assert pool.shape == (15, 20_000, 2)
    assert pool.draws_id == targets.draws_id != model.believe(POOL).draws_id
    mean = pool.log_probs_N_K_C.exp().mean(1)
    assert torch.allclose(mean.double(), model.predictive(POOL).log_probs_N_K_C[:, 0].exp(), atol=0.02)
    again = GPyTorch(variational(gpytorch.likelihoods.BernoulliLikelihood), steps=60, draws=20_000)
    again.fit(Examples(INPUTS, (LABELS > 0).astype(int)), seed=1)
    assert torch.equal(again.believe_together(POOL, TARGETS)[0].log_probs_N_K_C, pool.log_probs_N_K_C)


def test_what_it_cannot_read_is_refused():
    with pytest.raises(ValueError, match="make: found a StudentTLikelihood"):
        GPyTorch(variational(gpytorch.likelihoods.StudentTLikelihood)).fit(Examples(INPUTS, LABELS))
    with pytest.raises(ValueError, match="labels: BernoulliLikelihood takes the two classes"):
        GPyTorch(variational(gpytorch.likelihoods.BernoulliLikelihood)).fit(Examples(INPUTS, np.arange(20) % 3))
    with pytest.raises(ValueError, match="make: expected a function"):
        GPyTorch(None)
    with pytest.raises(ValueError, match="fit the model first"):
        GPyTorch(exact).believe(POOL)


def test_the_global_random_state_is_left_alone():
    before = torch.random.get_rng_state()
    GPyTorch(exact, steps=1).fit(Examples(INPUTS, LABELS)).believe(POOL)
    assert torch.equal(before, torch.random.get_rng_state())
