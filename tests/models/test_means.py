"""What a model believes and what it predicts are one posterior: the same means and variances, and labels teach both."""

import inspect
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import natsel
import natsel.models
from natsel.beliefs import CategoricalSamples, FisherFactors, GaussianFeatures, GaussianSamples, Targets
from natsel.data import Examples
from natsel.information.gaussians import mixture_variance
from natsel.memory import memory_budget
from natsel.models import BayesianLinear, GaussianProcess, GPyTorch, Gradients, LastLayer, ProbitGP, believe_both

RNG = np.random.default_rng(0)
INPUTS, POOL, TARGETS = (RNG.normal(size=(count, 2)) for count in (14, 9, 5))
NOISE = 0.05


def values(inputs):
    return 5 + 2 * inputs[:, 0] - inputs[:, 1]


LABELS, POOL_LABELS, TARGET_LABELS = (
    values(inputs) + np.sqrt(NOISE) * RNG.normal(size=len(inputs)) for inputs in (INPUTS, POOL, TARGETS)
)
NUMBERS = Examples(INPUTS, LABELS)
CLASSES = Examples(INPUTS, (LABELS > 5).astype(int))

with_gpytorch = pytest.mark.skipif(find_spec("gpytorch") is None, reason="needs the extra gp")


def gpytorch_process(classes: bool = False) -> GPyTorch:
    import gpytorch

    class Posterior:
        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    class Exact(Posterior, gpytorch.models.ExactGP):
        pass

    class Variational(Posterior, gpytorch.models.ApproximateGP):
        pass

    def make(inputs, labels):
        if classes:
            inner = gpytorch.variational.CholeskyVariationalDistribution(len(inputs))
            process = Variational(None)
            process.variational_strategy = gpytorch.variational.VariationalStrategy(process, inputs, inner)
            likelihood = gpytorch.likelihoods.BernoulliLikelihood()
        else:
            likelihood = gpytorch.likelihoods.GaussianLikelihood()
            likelihood.noise = NOISE
            process = Exact(inputs, labels, likelihood)
        process.mean_module = gpytorch.means.ConstantMean()
        process.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
        return process, likelihood

    return GPyTorch(make, steps=20 if classes else 0, draws=4000)


def gp(kernel=None, **options):
    return GaussianProcess(GaussianProcessRegressor(kernel or 9 * RBF(), optimizer=None, **{"alpha": NOISE, **options}))


@dataclass(frozen=True)
class Case:
    make: Any
    labelled: Examples = NUMBERS
    off: float = 1e-7  # from the rounding of features; from the number of draws where beliefs are made of them

    def fitted(self):
        return self.make().fit(self.labelled)


CASES = {
    "linear": Case(lambda: BayesianLinear(10.0, NOISE)),
    "linear by evidence": Case(BayesianLinear),
    "linear on a basis": Case(lambda: BayesianLinear(1.0, NOISE, basis=lambda rows: rows**2, intercept=False)),
    "gp": Case(gp),
    "gp standardised": Case(partial(gp, RBF() + WhiteKernel(0.3), normalize_y=True)),
    "gp in a pipeline": Case(
        lambda: GaussianProcess(make_pipeline(StandardScaler(), GaussianProcessRegressor(4 * RBF(), alpha=NOISE)))
    ),
    "gp of classes": Case(lambda: GaussianProcess(GaussianProcessClassifier(), draws=4000), CLASSES, off=0.03),
    "probit gp": Case(lambda: ProbitGP(draws=4000), CLASSES, off=0.03),
    "gpytorch": pytest.param(Case(gpytorch_process), marks=with_gpytorch),
    "gpytorch of classes": pytest.param(Case(partial(gpytorch_process, True), CLASSES, 0.03), marks=with_gpytorch),
    "last layer of numbers": Case(lambda: LastLayer(LinearRegression(), prior_precision=1.0)),
    "last layer of classes": Case(lambda: LastLayer(LogisticRegression(), prior_precision=1.0), CLASSES),
}
parametrised = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def expected(belief):
    """What a belief expects of each point: a number, or the probability of each class; None where it says neither."""
    if isinstance(belief, CategoricalSamples):
        return torch.einsum("nkc,k->nc", belief.log_probs_N_K_C.double().exp(), belief.log_weights_K.exp())
    if isinstance(belief, GaussianSamples):
        return belief.mean_N_K.double() @ belief.log_weights_K.exp()
    if isinstance(belief, GaussianFeatures):
        return belief.mean_N
    return belief.outputs_N_C if isinstance(belief, FisherFactors) and belief.kind == "softmax" else None


def variance(belief):
    """The variance of each point's label, None where it is a class or where weights alone are spoken of."""
    if isinstance(belief, GaussianSamples):
        return mixture_variance(belief.mean_N_K, belief.variance_N_K, belief.log_weights_K)
    return belief.features_N_D.square().sum(1) + belief.noise_N if isinstance(belief, GaussianFeatures) else None


def covariance(belief):
    """Of the labels of all points, written out."""
    return (belief.features_N_D @ belief.features_N_D.T + belief.noise_N.diag()).numpy()


def test_every_model_that_predicts_is_here():
    offered = [getattr(natsel.models, name) for name in dir(natsel.models)]
    both = {model for model in offered if inspect.isclass(model) and hasattr(model, "predictive")}
    both.discard(natsel.models.ModelAdapter)  # passes on what a model predicts
    both.discard(natsel.models.WithTransforms)  # believes features that were changed on purpose
    both.discard(natsel.models.AssumedNoise)  # believes with another noise, on purpose
    both.discard(natsel.models.Sklearn)  # predicts by all trees of a boosted model; members are parts of it
    # Gradients believes rows over weights, which say nothing of labels: there is nothing to compare.
    assert both == {BayesianLinear, GaussianProcess, GPyTorch, ProbitGP, LastLayer, Gradients}


@parametrised
def test_beliefs_and_predictions_agree(case):
    model = case.fitted()
    pool, targets = believe_both(model, POOL, TARGETS)
    for belief, inputs in ((model.believe(POOL), POOL), (pool, POOL), (targets, TARGETS), (targets[1:4], TARGETS[1:4])):
        predicted = model.predictive(inputs)
        for moment in (expected, variance):
            believed = moment(belief)
            if believed is not None:
                torch.testing.assert_close(believed, moment(predicted).double(), rtol=case.off, atol=case.off)
    if isinstance(case.labelled.labels[0], np.floating):
        assert float(expected(model.predictive(POOL)).abs().min()) > 0.05, "means that could as well be 0"


def test_draws_of_a_last_layer_vary_around_what_it_predicts():
    model = CASES["last layer of numbers"].fitted()
    drawn = model.draws(POOL, count=20_000)
    features_N_D, precision = model.believe(POOL).features_N_D, model.precision.dense(3)
    spread_N = torch.linalg.solve(precision, features_N_D.double().T).T.mul(features_N_D.double()).sum(1)
    torch.testing.assert_close(expected(drawn), expected(model.predictive(POOL)), rtol=0, atol=0.01)
    torch.testing.assert_close(variance(drawn), variance(model.predictive(POOL)) + spread_N, rtol=0.05, atol=0)


def test_means_are_made_in_chunks_too():
    model = CASES["linear"].fitted()
    with memory_budget(100):
        assert torch.allclose(model.believe(POOL).mean_N, model.predictive(POOL).mean_N_K[:, 0], atol=1e-12)
    assert len(model.believe(POOL[:0])) == 0


def test_other_labels_are_another_fit():
    """Features alone do not tell them apart, and a belief is more than its features."""
    one, other = (BayesianLinear(10.0, NOISE).fit(Examples(INPUTS, labels)) for labels in (LABELS, LABELS + 1))
    with pytest.raises(ValueError, match="predict both with one"):
        other.believe(TARGETS).with_weights_of(one.believe(POOL).condition([0], POOL_LABELS[:1]))


def linear_kernel(inputs):
    design = np.concatenate([inputs, np.ones((len(inputs), 1))], 1)
    return 10 * design @ design.T


def cubic_kernel(inputs):
    design = np.concatenate([inputs**3, np.ones((len(inputs), 1))], 1)
    return design @ design.T


def smooth_kernel(variance, length):
    return lambda inputs: variance * np.exp(-((inputs[:, None] - inputs) ** 2).sum(-1) / (2 * length**2))


LEARNERS = {  # a model whose hyper-parameters stay as they are, and the covariance it has before any label
    "linear": (lambda: BayesianLinear(10.0, NOISE), linear_kernel),
    "linear on a basis": (lambda: BayesianLinear(1.0, NOISE, basis=lambda rows: rows**3), cubic_kernel),
    "gp": (gp, smooth_kernel(9, 1)),
    "gpytorch": pytest.param(gpytorch_process, smooth_kernel(np.log(2), np.log(2)), marks=with_gpytorch),
}
learners = pytest.mark.parametrize(("make", "kernel"), LEARNERS.values(), ids=LEARNERS.keys())


def posterior(kernel, inputs):
    """Mean and covariance of labels at inputs once those of INPUTS are known, by algebra on matrices written out."""
    prior = kernel(np.concatenate([INPUTS, inputs])) + NOISE * np.eye(len(INPUTS) + len(inputs))
    seen = len(INPUTS)
    gain = np.linalg.solve(prior[:seen, :seen], prior[:seen, seen:]).T
    return gain @ LABELS, prior[seen:, seen:] - gain @ prior[:seen, seen:]


def log_density(moments, labels, which):
    mean, cover = moments
    return multivariate_normal(mean[which], cover[np.ix_(which, which)]).logpdf(labels[which])


@learners
def test_beliefs_are_the_posterior(make, kernel):
    mean, cover = posterior(kernel, POOL)
    belief = make().fit(NUMBERS).believe(POOL)
    np.testing.assert_allclose(belief.mean_N, mean, atol=1e-6)
    np.testing.assert_allclose(covariance(belief), cover, atol=1e-6)


@learners
@pytest.mark.parametrize("which", [[3], [0, 4, 8]])
def test_conditioning_on_labels_is_fitting_to_them(make, kernel, which):
    model, more = make().fit(NUMBERS), make()
    after = model.believe(POOL).condition(which, POOL_LABELS[which])
    more.fit(Examples(np.concatenate([INPUTS, POOL[which]]), np.concatenate([LABELS, POOL_LABELS[which]])))
    fitted = more.believe(POOL)
    np.testing.assert_allclose(after.mean_N, fitted.mean_N, atol=1e-6)
    np.testing.assert_allclose(covariance(after), covariance(fitted), atol=1e-6)
    pool, targets = believe_both(model, POOL, TARGETS)
    follow = targets.with_weights_of(pool.condition(which, POOL_LABELS[which]))
    np.testing.assert_allclose(follow.mean_N, more.predictive(TARGETS).mean_N_K[:, 0], atol=1e-6)


@learners
def test_the_evidence_is_the_density_of_the_labels(make, kernel):
    belief = make().fit(NUMBERS).believe(POOL)
    which = [1, 2, 7]
    after = belief.condition(which, POOL_LABELS[which])
    assert after.log_evidence == pytest.approx(log_density(posterior(kernel, POOL), POOL_LABELS, which), abs=1e-6)
    one_by_one = belief.condition([1], POOL_LABELS[[1]]).condition([2, 7], POOL_LABELS[[2, 7]])
    assert one_by_one.log_evidence == pytest.approx(after.log_evidence, abs=1e-7)


@learners
def test_pig_and_jpig_are_ratios_of_densities(make, kernel):
    pool, targets = believe_both(make().fit(NUMBERS), POOL, TARGETS)
    labels = np.concatenate([POOL_LABELS, TARGET_LABELS])
    moments, aims = posterior(kernel, np.concatenate([POOL, TARGETS])), list(range(len(POOL), len(labels)))

    def ln(*which):
        return log_density(moments, labels, list(which))

    pig = [np.mean([ln(i, j) - ln(i) - ln(j) for j in aims]) for i in range(len(POOL))]
    jpig = [ln(i, *aims) - ln(i) - ln(*aims) for i in range(len(POOL))]
    for name, right in (("pig", pig), ("jpig", jpig)):
        found = natsel.score(name, pool, labels=POOL_LABELS, targets=Targets(targets, labels=TARGET_LABELS))
        np.testing.assert_allclose(found, right, atol=1e-5)
