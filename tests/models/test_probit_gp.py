"""The probit process: expectation propagation against exact posteriors by quadrature, draws against closed forms."""

import math

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from scipy.stats import multivariate_normal

from natsel import information
from natsel.data import Examples
from natsel.models.joint_beliefs import believe_both
from natsel.models.processes.probit_gp import ProbitGP, propagate

RNG = np.random.default_rng(0)


def two_bells(count, seed=0):
    rng = np.random.default_rng(seed)
    inputs = rng.standard_t(5, size=(count, 2)) * math.sqrt(0.8)
    return inputs, (rng.random(count) < ndtr(20 * (np.tanh(2 * inputs[:, 0]) - inputs[:, 1]))).astype(np.int64)


def by_quadrature(kernel, signs):
    """Evidence, means and covariances of two latent values on a fine grid."""
    grid = np.linspace(-22, 22, 881)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    weight = multivariate_normal(cov=kernel).pdf(np.stack([a, b], -1)) * ndtr(signs[0] * a) * ndtr(signs[1] * b)
    total = weight.sum()
    points = np.stack([a.ravel(), b.ravel()])
    return (
        math.log(total * (grid[1] - grid[0]) ** 2),
        (points * weight.ravel()).sum(1) / total,
        np.cov(points, aweights=weight.ravel(), ddof=0),
    )


@pytest.mark.parametrize("signs", [(1.0, 1.0), (1.0, -1.0)])
@pytest.mark.parametrize("amplitude", [1.0, 10.0])
def test_two_labels_give_nearly_the_exact_posterior(signs, amplitude):
    kernel = amplitude * np.array([[1.0, 0.6], [0.6, 1.0]])
    sites = propagate(kernel, np.array(signs))
    evidence, mean, covariance = by_quadrature(kernel, signs)
    assert sites.log_evidence == pytest.approx(evidence, abs=5e-3)
    assert kernel @ sites.weights_N == pytest.approx(mean, rel=0.02)
    root = np.sqrt(sites.precision_N)
    half = np.linalg.solve(sites.factor_N_N, root[:, None] * kernel)
    assert np.allclose(kernel - half.T @ half, covariance, rtol=0.1, atol=0.15)


def test_one_label_is_exact():
    """Its two moments have closed forms, and expectation propagation matches both."""
    model = ProbitGP(variance=4.0).fit(Examples(np.zeros((1, 1)), np.array([1])))
    mean, variance = model._moments(torch.zeros(1, 1, dtype=torch.float64))
    assert model.sites.log_evidence == pytest.approx(math.log(0.5), abs=1e-12)
    density = math.sqrt(2 / math.pi)
    assert float(mean) == pytest.approx(4 * density / math.sqrt(5), rel=1e-9)
    assert float(variance) == pytest.approx(4 - 16 * density**2 / 5, rel=1e-9)


def test_sites_have_settled_and_do_not_depend_on_the_order():
    inputs, labels = two_bells(40)
    model = ProbitGP().fit(Examples(inputs, labels))
    assert model.sites.sweeps < 50
    order = RNG.permutation(40)
    shuffled = ProbitGP().fit(Examples(inputs[order], labels[order]))
    assert shuffled.sites.log_evidence == pytest.approx(model.sites.log_evidence, abs=1e-6)
    assert np.allclose(shuffled.sites.precision_N, model.sites.precision_N[order], rtol=1e-3)
    mirrored = ProbitGP().fit(Examples(inputs, 1 - labels)).predictive(inputs).log_probs_N_K_C
    assert torch.allclose(mirrored.flip(2), model.predictive(inputs).log_probs_N_K_C, atol=1e-9)


def test_draws_have_the_closed_forms_means_and_bald():
    inputs, labels = two_bells(20)
    model = ProbitGP(draws=20_000).fit(Examples(inputs, labels), seed=3)
    pool = two_bells(50, seed=1)[0]
    belief = model.believe(pool)
    mean = belief.log_probs_N_K_C.double().exp().mean(1)
    assert torch.allclose(mean, model.predictive(pool).log_probs_N_K_C[:, 0].exp(), atol=0.015)
    bald = information.mutual_information(belief.log_probs_N_K_C.double())
    assert torch.allclose(bald, model.bald(pool), atol=0.01)
    assert belief.log_probs_N_K_C.dtype == torch.float32


def test_joint_draws_have_the_posterior_covariance():
    inputs, labels = two_bells(20)
    model = ProbitGP(draws=50_000).fit(Examples(inputs, labels))
    pool, targets = two_bells(6, seed=1)[0], two_bells(4, seed=2)[0]
    one, other = believe_both(model, pool, targets)
    assert one.draws_id == other.draws_id
    assert other.ids.tolist() == [0, 1, 2, 3]
    both = torch.cat([one.log_probs_N_K_C, other.log_probs_N_K_C]).double()
    latent = torch.special.ndtri(both[..., 1].exp().clamp(1e-7, 1 - 1e-7)).clamp(-5, 5)
    rows = torch.from_numpy(np.concatenate([pool, targets]))
    taken = model._taken(rows)
    covariance = model._kernel(rows, rows) - taken.T @ taken
    mean = model._moments(rows)[0]
    exact = mean[:, None] + torch.linalg.cholesky(covariance + 1e-9 * torch.eye(10)) @ torch.randn(
        10, 50_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    assert torch.allclose(latent.cov(), exact.clamp(-5, 5).cov(), atol=0.25)
    assert model.believe(pool).draws_id != one.draws_id
    again = ProbitGP(draws=50_000).fit(Examples(inputs, labels)).believe_together(pool, targets)[0]
    assert torch.equal(again.log_probs_N_K_C, one.log_probs_N_K_C)


def test_it_learns_two_bells():
    inputs, labels = two_bells(60)
    model = ProbitGP().fit(Examples(inputs, labels))
    tests, truth = two_bells(2000, seed=9)
    assert (model.predictive(tests).log_probs_N_K_C[:, 0].argmax(1).numpy() == truth).mean() > 0.9
    far = model.bald(np.array([[40.0, 40.0]]))
    assert float(far) == pytest.approx(
        float(information.gaussian_predictive.probit_bald(torch.zeros(1), torch.tensor([10.0])))
    )


def test_one_class_and_contradictions_are_learnt():
    same = ProbitGP().fit(Examples(np.array([[0.0], [0.1]]), np.array([1, 1]), classes=("a", "b")))
    assert float(same.predictive(np.array([[0.0]])).log_probs_N_K_C.exp()[0, 0, 1]) > 0.8
    torn = ProbitGP().fit(Examples(np.array([[0.0], [0.0]]), np.array([0, 1])))
    assert float(torn.predictive(np.array([[0.0]])).log_probs_N_K_C.exp()[0, 0, 1]) == pytest.approx(0.5, abs=1e-6)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="labels: a probit process takes the two classes"):
        ProbitGP().fit(Examples(np.zeros((3, 1)), np.array([0, 1, 2])))
    with pytest.raises(ValueError, match="labels: a probit process takes the two classes"):
        ProbitGP().fit(Examples(np.zeros((3, 1)), np.array([0.5, 1.0, 2.0])))
    with pytest.raises(ValueError, match="length: expected a positive number"):
        ProbitGP(length=0.0)
    with pytest.raises(ValueError, match="draws: expected"):
        ProbitGP(draws=0)
    with pytest.raises(ValueError, match="fit the model first"):
        ProbitGP().believe(np.zeros((1, 1)))
    with pytest.raises(ValueError, match="inputs: fitted to rows of 1 numbers, found 2"):
        ProbitGP().fit(Examples(np.zeros((1, 1)), np.array([1]))).believe(np.zeros((1, 2)))
