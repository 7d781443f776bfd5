"""A Gaussian process on learnt features: both arms of one process, unsure far from its labels, and the same by seed."""

import numpy as np
import pytest
import torch
from torch import nn

import natsel
from natsel.causal import SLearner, TLearner, causal_synthetic, deep_kernel, pehe, with_treatment
from natsel.models.networks.spectral_norm import SpectralLinear

gpytorch = pytest.importorskip("gpytorch", reason="needs the extra gp")

DATA = causal_synthetic(200, 10, 50)


def fitted(seed=0, **options):
    return SLearner(deep_kernel(**{"inducing": 30, "steps": 150, **options})).fit(DATA.pool, seed=seed)


@pytest.fixture(scope="module")
def model():
    return fitted()


def test_effects_are_learnt_and_far_from_labels_nothing_is_known(model):
    belief = model.believe(DATA.test.inputs)
    assert isinstance(belief, natsel.GaussianPotentialOutcomes)
    assert pehe(belief.effect_N, DATA.effect_N) < 0.75 * pehe(np.full(50, DATA.effect_N.mean()), DATA.effect_N)
    near, far = (model.believe(with_treatment([x, x], [0, 1])).arm_moments() for x in (0.0, 40.0))
    prior = model.model.process.kernel.outputscale.item() * np.asarray(DATA.pool.labels).var()
    assert float(near.received_N.max()) < 0.3 * prior
    np.testing.assert_allclose(far.received_N, prior, rtol=0.02)
    # Far away both outcomes still go together, as far as the kernel says so of equal features.
    both = model.model.process.kernel.base_kernel(torch.tensor([[0.0]]).double(), torch.tensor([[1.0]]).double())
    np.testing.assert_allclose(far.effect_N, 2 * prior * (1 - both.to_dense().item()), rtol=0.05)


def test_one_seed_is_one_process_and_nothing_global_moves(model):
    state = torch.get_rng_state()
    first, same = (fitted(seed=7, steps=3).believe(DATA.test.inputs[:5]) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.features0_N_D, same.features0_N_D)
    assert not torch.allclose(first.effect_N, fitted(seed=8, steps=3).believe(DATA.test.inputs[:5]).effect_N)


def test_the_usual_extractor_keeps_distances_and_another_takes_its_place(model):
    layers = [part for part in model.model.process.network.modules() if isinstance(part, SpectralLinear)]
    assert len(layers) == 4
    with torch.no_grad():
        norms = [float(torch.linalg.matrix_norm(layer.used_weight(), 2)) for layer in layers]
    assert all(norm < 0.95 * 1.1 for norm in norms)
    own = fitted(extractor=lambda: nn.Linear(1, 3), steps=2)
    assert own.model.process.kernel.base_kernel.lengthscale.numel() == 1
    assert own.model.process.kernel(torch.zeros(2, 4).double()).shape == (2, 2)  # three features and the treatment


def test_units_of_inputs_and_outcomes_do_not_matter():
    covariates_N_D, scale = DATA.pool.inputs[:60].astype(np.float64), 1e-20
    other_N_D = covariates_N_D * [100.0, 1.0] + [7.0, 0.0]
    labels_N = np.asarray(DATA.pool.labels[:60], dtype=np.float64)
    first, second = (  # a few steps: over hundreds, training makes much of the last digit
        SLearner(deep_kernel(inducing=20, steps=5), treatment=-1).fit(natsel.Examples(rows, labels)).believe(rows)
        for rows, labels in ((covariates_N_D, labels_N), (other_N_D, scale * (labels_N - 50)))
    )
    np.testing.assert_allclose(second.effect_N, scale * first.effect_N, rtol=1e-3)
    np.testing.assert_allclose(second.arm_moments().effect_N, scale**2 * first.arm_moments().effect_N, rtol=1e-3)


@pytest.mark.parametrize("level", [0.7, 1e6 + 0.1, 0.0])
def test_outcomes_without_a_difference_leave_it_unsure(level):
    examples = natsel.Examples(DATA.pool.inputs[:30], np.full(30, level))
    belief = SLearner(deep_kernel(inducing=20, steps=5)).fit(examples).believe(DATA.test.inputs)
    np.testing.assert_allclose(belief.mean0, level, rtol=1e-6, atol=0.1)
    assert float(belief.arm_moments().received_N.min()) > 1e-3


def test_a_last_column_that_is_no_treatment_is_refused():
    with pytest.raises(ValueError, match=r"^model: DeepKernel takes the last column for the treatment"):
        TLearner(deep_kernel())
    with pytest.raises(ValueError, match=r"^treatment: expected 0 or 1, found 0.5"):
        deep_kernel().fit(natsel.Examples([[1.0, 0.5], [0.0, 0.2]], [1.0, 2.0]))
    with pytest.raises(ValueError, match=r"^extractor: expected a function that makes a network, it made int"):
        fitted(extractor=lambda: 3)
    assert fitted(inducing=np.int64(5), steps=1) is not None


def test_a_learner_asks_by_it():
    pool = natsel.Pool(DATA.pool.inputs[:40], labels=[*DATA.pool.labels[:12], *[None] * 28], regression=True)
    with natsel.ActiveLearner(SLearner(deep_kernel(steps=20)), pool, method="mu-rho-bald", k=3) as learner:
        assert len(set(learner.ask().ids)) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"learning_rate": -1.0}, "^learning_rate: expected a number above 0, found -1.0"),
        ({"inducing": 0}, "^inducing: expected a whole number from 1 on, found 0"),
        ({"extractor": nn.Linear(1, 2)}, "^extractor: expected a function that makes a network, found Linear"),
    ],
)
def test_wrong_arguments_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        deep_kernel(**options)
