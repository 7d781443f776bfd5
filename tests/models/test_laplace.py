"""laplace-torch posteriors as beliefs, against its own functional variances, where the package is installed."""

import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from natsel.beliefs import FisherFactors, FisherRows
from natsel.data import Examples
from natsel.information.weights.output_curvature import root
from natsel.models.last_layer.laplace import LaplaceTorch
from natsel.models.last_layer.last_layer import LastLayer

INPUTS = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
POOL = torch.as_tensor(np.random.default_rng(1).normal(size=(6, 2)).astype(np.float32))
CLASSES, NUMBERS = np.random.default_rng(2).integers(3, size=20), INPUTS @ np.array([[1.0], [2.0]], dtype=np.float32)


def fitted(subset, structure, likelihood="classification", bias=True, **options):
    laplace = pytest.importorskip("laplace")
    torch.manual_seed(0)
    outputs = 3 if likelihood == "classification" else 1
    network = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, outputs, bias=bias))
    labels = torch.as_tensor(CLASSES if outputs == 3 else NUMBERS)
    found = laplace.Laplace(network, likelihood, subset, structure, **options)
    found.fit(DataLoader(TensorDataset(torch.as_tensor(INPUTS), labels), batch_size=20))
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("structure", ["full", "diag", "kron"])
@pytest.mark.parametrize("subset", ["last_layer", "all"])
def test_blocks_are_the_functional_variances_seen_through_the_curvature(subset, structure, bias):
    posterior = fitted(subset, structure, bias=bias, prior_precision=0.7)
    belief = LaplaceTorch(posterior).believe(POOL)
    assert isinstance(belief, FisherFactors if subset == "last_layer" else FisherRows)
    mean_N_C, variance_N_C_C = posterior._glm_predictive_distribution(POOL)
    roots_N_C_C = root(mean_N_C.softmax(1).double(), "softmax")
    expected = roots_N_C_C @ variance_N_C_C.double() @ roots_N_C_C.mT
    torch.testing.assert_close(belief.factors.own(belief.precision), expected, rtol=2e-3, atol=1e-4)
    assert belief.warnings == ()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("subset", ["last_layer", "all"])
def test_regression_carries_its_noise(subset):
    posterior = fitted(subset, "full", "regression", sigma_noise=0.5, prior_precision=0.7)
    belief = LaplaceTorch(posterior).believe(POOL)
    variance_N = posterior._glm_predictive_distribution(POOL)[1].double().flatten()
    torch.testing.assert_close(belief.factors.own(belief.precision).flatten(), variance_N / 0.25, rtol=2e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_our_own_last_layer_is_the_same():
    posterior = fitted("last_layer", "full", prior_precision=0.7)
    ours = LastLayer.around(posterior.model, Examples(INPUTS, CLASSES), prior_precision=0.7, device="cpu")
    theirs = LaplaceTorch(posterior)
    torch.testing.assert_close(ours.precision.dense(15), theirs.precision.dense(15), rtol=1e-4, atol=1e-4)
    posterior.optimize_prior_precision(method="marglik", n_steps=2000, lr=1e-2)
    evident = LastLayer.around(posterior.model, Examples(INPUTS, CLASSES), device="cpu")
    assert evident.prior == pytest.approx(float(posterior.prior_precision), rel=0.02)


@pytest.mark.filterwarnings("ignore")
def test_a_singular_precision_gets_a_ridge_with_a_name():
    belief = LaplaceTorch(fitted("last_layer", "full", prior_precision=1e-30)).believe(POOL)
    (warning,) = belief.warnings
    assert "a ridge of" in warning
    assert bool(belief.factors.own(belief.precision).isfinite().all())


@pytest.mark.filterwarnings("ignore")
def test_what_is_no_fitted_posterior_is_refused():
    laplace = pytest.importorskip("laplace")
    with pytest.raises(ValueError, match="found Linear"):
        LaplaceTorch(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="no curvature yet"):
        LaplaceTorch(laplace.Laplace(nn.Sequential(nn.Linear(2, 3)), "classification", "all", "full"))


def test_the_extra_is_named_where_it_is_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "laplace.baselaplace", None)
    with pytest.raises(ValueError, match=r"pip install 'natsel\[laplace\]'"):
        LaplaceTorch(None)
