"""One quantity, three spaces: draws of predictions, kernels, and weights agree; docs/unification.md speaks of this.

Bayesian linear regression is Gaussian throughout, so that kernels and weights agree exactly and draws as they grow in
number. In logistic regression weight space is an approximation that becomes exact as the posterior narrows.
"""

import numpy as np
import pytest
import torch

import natsel
from natsel import FisherFactors, GaussianFeatures, GaussianSamples, Targets
from natsel.models import LastLayer

NOISE, PRIOR = 0.4, 0.7
METHODS = pytest.mark.parametrize("method", ["bald", "epig", "jepig"])


def inputs(count: int, seed: int, width: int = 3) -> torch.Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def score(method: str, pool: natsel.Belief, targets: natsel.Belief) -> torch.Tensor:
    return natsel.score(method, pool, **({} if method == "bald" else {"targets": Targets(targets)}))


def regression() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The precision of the weights after some labels, a pool and targets."""
    seen, pool, targets = inputs(6, 0), inputs(9, 1), inputs(4, 2)
    return PRIOR * torch.eye(3, dtype=torch.float64) + seen.T @ seen / NOISE, pool, targets


@METHODS
def test_weights_and_kernels_agree_exactly_in_linear_regression(method):
    precision, pool, targets = regression()
    factor = torch.linalg.cholesky(torch.linalg.inv(precision))
    kernels = [GaussianFeatures(x @ factor, NOISE) for x in (pool, targets)]
    weights = [FisherFactors.gaussian(x, NOISE, precision=precision) for x in (pool, targets)]
    torch.testing.assert_close(score(method, *weights), score(method, *kernels), rtol=1e-10, atol=1e-12)


@METHODS
def test_draws_come_to_agree_as_they_grow_in_number_in_linear_regression(method):
    precision, pool, targets = regression()
    factor = torch.linalg.cholesky(torch.linalg.inv(precision))
    exact = score(method, *(FisherFactors.gaussian(x, NOISE, precision=precision) for x in (pool, targets)))
    off = []
    for draws in (100, 10_000):
        weights = inputs(draws, 3) @ factor.T
        found = score(method, *(GaussianSamples(x @ weights.T, NOISE) for x in (pool, targets)))
        off.append(float((found - exact).abs().max() / exact.max()))
    assert off[1] < 0.05
    assert off[1] < 0.5 * off[0]


@METHODS
def test_draws_come_to_agree_as_the_posterior_narrows_in_logistic_regression(method):
    pool, targets = inputs(8, 1), inputs(3, 2)
    off = []
    for prior in (1.0, 100.0):
        model = LastLayer.of_linear(inputs(3, 5), inputs(40, 0), prior_precision=prior, device="cpu")
        exact = score(method, *(model.believe(x) for x in (pool, targets)))
        found = score(method, *(model.draws(x, 50_000) for x in (pool, targets)))
        off.append(float((found - exact).abs().max() / exact.max()))
    assert off[1] < 0.05
    assert off[1] < 0.5 * off[0]


@pytest.mark.parametrize("size", [1, 3])
def test_batches_agree_too(size):
    """A greedy batch is worth the same in both exact spaces, pick by pick."""
    precision, pool, _ = regression()
    factor = torch.linalg.cholesky(torch.linalg.inv(precision))
    kernel, weight = GaussianFeatures(pool @ factor, NOISE), FisherFactors.gaussian(pool, NOISE, precision=precision)
    one, other = (natsel.select("batchbald", belief, size) for belief in (kernel, weight))
    np.testing.assert_array_equal(one.ids, other.ids)
    torch.testing.assert_close(one.scores, other.scores, rtol=1e-10, atol=1e-12)
