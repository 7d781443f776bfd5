"""Bayesian linear regression against its textbook formulas, and beliefs that combine across calls and models."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import BayesianRidge

from natsel import CategoricalSamples
from natsel.beliefs import Targets
from natsel.data import Examples
from natsel.models.consistency import check_consistent
from natsel.models.joint_beliefs import believe_both
from natsel.models.processes.bayesian_linear import BayesianLinear
from natsel.models.protocol import Together
from natsel.objectives import EIG, Context, read
from natsel.objectives.jepig import JEPIG
from natsel.objectives.readings.gaussian import jepig_gaussian as _jepig  # noqa: F401

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(15, 3))
LABELS = INPUTS @ np.array([1.0, -2.0, 0.5]) + 4 + 0.3 * RNG.normal(size=15)
POOL = RNG.normal(size=(9, 3))


def with_ones(inputs):
    return np.concatenate([inputs, np.ones((len(inputs), 1))], 1)


def textbook(prior, noise):
    design = with_ones(INPUTS)
    covariance = np.linalg.inv(np.eye(4) / prior + design.T @ design / noise)
    return covariance @ design.T @ LABELS / noise, covariance


def test_features_and_means_are_the_posterior():
    model = BayesianLinear(prior=2.0, noise=0.1).fit(Examples(INPUTS, LABELS))
    mean, covariance = textbook(2.0, 0.1)
    belief = model.believe(POOL)
    expected = with_ones(POOL) @ covariance @ with_ones(POOL).T
    assert np.allclose(belief.features_N_D @ belief.features_N_D.T, expected, atol=1e-12)
    assert belief.noise_N.tolist() == [0.1] * 9
    assert np.allclose(model.mean_D, mean)
    predictive = model.predictive(POOL)
    assert np.allclose(predictive.mean_N_K[:, 0], with_ones(POOL) @ mean)
    assert np.allclose(predictive.variance_N_K[:, 0], expected.diagonal() + 0.1)


def test_two_calls_share_their_features():
    model = BayesianLinear(noise=0.1, prior=1.0).fit(Examples(INPUTS, LABELS))
    check_consistent(model.believe, POOL)
    assert not isinstance(model, Together)
    pool, targets = believe_both(model, POOL[:5], POOL[5:])
    whole = model.believe(POOL)
    assert torch.allclose(torch.cat([pool.features_N_D, targets.features_N_D]), whole.features_N_D, atol=1e-14)
    assert pool.draws_id == targets.draws_id == whole.draws_id
    assert (
        BayesianLinear(noise=0.1, prior=1.0).fit(Examples(INPUTS[:9], LABELS[:9])).believe(POOL).draws_id
        != whole.draws_id
    )


def test_jepig_becomes_bald_when_targets_span_the_weights():
    """MacKay: labels of many targets that span the weights tell all that a candidate's label could."""
    model = BayesianLinear(prior=1.0, noise=0.5).fit(Examples(INPUTS[:2], LABELS[:2]))
    spanning = np.tile(np.concatenate([np.eye(3), -np.eye(3)]), (2000, 1))
    pool, targets = believe_both(model, POOL, spanning)
    bald = read(EIG(), pool, Context(None, None, torch.Generator())).scores()
    jepig = read(JEPIG(), pool, Context(Targets(targets), None, torch.Generator())).scores()
    assert jepig.tolist() == pytest.approx(bald.tolist(), abs=5e-3)
    assert bool((jepig <= bald).all())


def test_what_is_not_given_is_chosen_by_evidence():
    model, above = BayesianLinear().fit(Examples(INPUTS, LABELS)), LABELS - LABELS.mean()
    reference = BayesianRidge(fit_intercept=False, tol=1e-8).fit(with_ones(INPUTS), above)
    assert model.fitted_noise == pytest.approx(1 / reference.alpha_, rel=0.01)
    assert model.fitted_prior == pytest.approx(1 / reference.lambda_, rel=0.01)
    assert BayesianLinear(noise=0.7).fit(Examples(INPUTS, LABELS)).fitted_noise == 0.7
    alike = BayesianLinear().fit(Examples(np.ones((3, 2)), np.zeros(3)))
    assert torch.isfinite(alike.believe(POOL[:, :2]).features_N_D).all()


@pytest.mark.parametrize(
    ("times", "plus"), [(1e5, 0.0), (1e-3, 0.0), (1e-6, 0.0), (1.0, 1e4), (1.0, 1e6), (1e21, 0.0), (1e-24, 0.0)]
)
def test_the_evidence_knows_the_noise_in_any_units(times, plus):
    rng = np.random.default_rng(1)
    inputs, pool = rng.normal(size=(100, 4)), rng.normal(size=(50, 4))
    weights = np.array([1.0, -2.0, 0.5, 0.0])
    labels = (inputs @ weights + 0.3 * rng.normal(size=100)) * times + plus
    model = BayesianLinear().fit(Examples(inputs, labels))
    assert 0.7 < model.fitted_noise / (0.3 * times) ** 2 < 1.4
    off = (model.predictive(pool).mean.numpy() - plus) / times - pool @ weights
    assert np.sqrt((off**2).mean()) < 0.15
    alone = BayesianLinear(intercept=False).fit(Examples(inputs, labels - plus))
    assert 0.7 < alone.fitted_noise / (0.3 * times) ** 2 < 1.4


def test_a_prior_that_is_given_is_one_of_the_labels_themselves():
    far = Examples(INPUTS, LABELS + 1000.0)
    assert float(BayesianLinear(prior=1.0, noise=1.0).fit(far).predictive(POOL).mean.max()) < 1000
    assert float(BayesianLinear(noise=1.0).fit(far).predictive(POOL).mean.min()) > 990


def test_a_basis_and_no_intercept():
    model = BayesianLinear(1.0, 0.1, intercept=False, basis=lambda rows: np.concatenate([rows, rows**2], 1))
    assert model.fit(Examples(INPUTS, LABELS)).believe(POOL).features_N_D.shape == (9, 6)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="noise: expected a positive variance, found -1"):
        BayesianLinear(noise=-1.0)
    with pytest.raises(ValueError, match="fit the model first"):
        BayesianLinear().believe(POOL)
    model = BayesianLinear(1.0, 1.0).fit(Examples(INPUTS, LABELS))
    with pytest.raises(ValueError, match="inputs: fitted to rows of 3 numbers, found 2"):
        model.believe(POOL[:, :2])
    with pytest.raises(ValueError, match="basis: expected a row"):
        BayesianLinear(1.0, 1.0, basis=lambda rows: rows[:1]).fit(Examples(INPUTS, LABELS))
    with pytest.raises(ValueError, match="inputs: expected numbers"):
        model.believe(np.array(["a"]))


# Believing about both.


class Careless:
    """Draws that belong to the call, without saying so."""

    def fit(self, labelled, validation=None):
        return self

    def believe(self, inputs):
        return CategoricalSamples.from_probs(np.full((len(inputs), 4, 2), 0.5), draws_id=str(len(inputs)))


def test_believing_twice_checks_the_draws():
    with pytest.raises(ValueError, match="targets: their draws are '2' and those of the pool '3'"):
        believe_both(Careless(), np.zeros((3, 1)), np.zeros((2, 1)))
    with pytest.raises(ValueError, match="targets: found none"):
        believe_both(Careless(), np.zeros((3, 1)), np.zeros((0, 1)))


@pytest.mark.parametrize(
    ("answer", "said"), [((None, None), "not a belief"), ("short", "rows for 3 inputs of the pool")]
)
def test_what_models_answer_is_checked(answer, said):
    class Strange(Careless):
        def believe_together(self, pool, targets):
            return (self.believe(pool[:1]), self.believe(pool[:1])) if answer == "short" else answer

    with pytest.raises(ValueError, match=said):
        believe_both(Strange(), np.zeros((3, 1)), np.zeros((2, 1)))
