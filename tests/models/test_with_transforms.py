"""Models with transforms of their kernels: what is believed is a function of the fit, and learners can use it."""

import copy

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from torch import nn

import natsel
from natsel.beliefs.kernel_transforms import ACSFeatures, ConditionOn, RandomProjection, Scale, Transforms
from natsel.data import Examples
from natsel.models import BayesianLinear, LastLayer, Sklearn, WithTransforms
from natsel.models.kinds import KINDS, DataFacts
from natsel.models.networks.architectures import fresh

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(60, 3))
LABELS = INPUTS[:, 0] + 0.1 * RNG.normal(size=60)
LABELLED, POOL = Examples(INPUTS[:12], LABELS[:12]), INPUTS[12:]
PROCESS = GaussianProcessRegressor(RBF(), alpha=0.1, optimizer=None)
ALL = Transforms(Scale(), ConditionOn("labelled"), RandomProjection(6, seed=2))


@pytest.mark.parametrize("inner", [RandomForestRegressor(8), BayesianLinear()], ids=["forest", "linear"])
def test_what_is_believed_is_the_transform_of_what_the_model_believes(inner):
    model = WithTransforms(inner, ALL).fit(LABELLED, seed=3)
    plain = natsel.models.ModelAdapter(inner).fit(LABELLED, seed=3)
    expected, _ = ALL(plain.believe(POOL), plain.believe(LABELLED.inputs))
    belief = model.believe(POOL)
    torch.testing.assert_close(belief.features_N_D, expected.features_N_D)
    assert belief.draws_id == expected.draws_id == model.believe(POOL[:3]).draws_id
    torch.testing.assert_close(model.believe(POOL[[5, 5, 9]]).features_N_D, belief.features_N_D[[5, 5, 9]])
    torch.testing.assert_close(model.predictive(POOL).mean, plain.predictive(POOL).mean)
    pool, targets = natsel.models.believe_both(model, POOL[:9], POOL[9:])
    torch.testing.assert_close(torch.cat([pool.features_N_D, targets.features_N_D]), belief.features_N_D)


def test_features_that_belong_to_one_call_are_transformed_within_it():
    model, plain = (WithTransforms(PROCESS, step).fit(LABELLED) for step in (Scale(), Transforms()))
    pool, targets = model.believe_together(POOL[:9], POOL[9:])
    before = natsel.models.GaussianProcess(PROCESS).fit(LABELLED)
    both = before.believe(np.concatenate([POOL, LABELLED.inputs])).features_N_D
    size = float(both[48:].square().sum(1).mean())
    features_N_D = torch.cat([pool.features_N_D, targets.features_N_D])
    torch.testing.assert_close(features_N_D @ features_N_D.T, both[:48] @ both[:48].T / size)
    assert (len(pool), len(targets), pool.draws_id) == (9, 39, targets.draws_id)
    own = plain.believe(POOL)
    torch.testing.assert_close(own.features_N_D.square().sum(1), both[:48].square().sum(1))


def test_one_output_of_weight_space_becomes_features_for_every_gaussian_method():
    network = fresh(nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)), 0).double()
    layer = LastLayer.around(network, LABELLED, prior_precision=1.0, device="cpu")
    model = WithTransforms(layer, Transforms())
    model._labelled, model._known = LABELLED, natsel.Targets(layer.believe(LABELLED.inputs))
    belief = model.believe(POOL)
    assert isinstance(belief, natsel.GaussianFeatures)
    torch.testing.assert_close(natsel.score("bald", belief), natsel.score("bald", layer.believe(POOL)))
    prior = LastLayer.around(network, LABELLED, prior_precision=1.0, structure="identity", device="cpu")
    after, _ = ConditionOn("labelled")(prior.believe(POOL), prior.believe(LABELLED.inputs))
    torch.testing.assert_close(natsel.score("bald", after), natsel.score("bald", belief))  # the posterior by its labels


@pytest.mark.parametrize("method", ["batchbald", "badge", "core-set", "lcmd", "acs-fw", "epig", "bald"])
@pytest.mark.parametrize("inner", [RandomForestRegressor(8), PROCESS], ids=["forest", "process"])
def test_learners_choose_by_it(method, inner):
    acs = Transforms(Scale(), ACSFeatures(5, noise="learnt"))
    model = WithTransforms(inner, acs if method == "acs-fw" else ALL)
    learner = natsel.ActiveLearner(
        model, natsel.Pool(INPUTS), method=method, k=3, targets="pool" if method == "epig" else None
    )
    learner.run(9, dict(enumerate(LABELS.tolist())))
    assert learner.n_labelled == 9


@pytest.mark.parametrize("method", ["core-set", "batchbald", "epig", "lcmd", "badge"])
def test_learners_choose_by_a_bare_process(method):
    learner = natsel.ActiveLearner(
        PROCESS, natsel.Pool(INPUTS), method=method, k=3, targets="pool" if method == "epig" else None
    )
    learner.run(9, dict(enumerate(LABELS.tolist())))
    assert learner.n_labelled == 9


def test_a_copy_is_fitted_apart():
    model = WithTransforms(RandomForestRegressor(8), Scale()).fit(LABELLED)
    before = model.believe(POOL).features_N_D
    copy.copy(model).fit(Examples(INPUTS[:30], LABELS[:30]))
    assert torch.equal(model.believe(POOL).features_N_D, before)


def test_recipes_name_transforms():
    facts = DataFacts("lines", "table", (3,), 0)
    model = KINDS["forest"].build({"trees": 8, "transforms": "scale, project-6"}, facts)
    assert model.transforms == Transforms(Scale(), RandomProjection(6))
    assert model.fit(LABELLED).believe(POOL).features_N_D.shape == (48, 6)
    for options, found, message in (
        ({"transforms": "scale, shrink"}, facts, "^model.transforms: found 'shrink'"),
        ({"transforms": "condition-on-pool"}, facts, r"^model.transforms: ConditionOn\('pool'\) makes"),
        ({"transforms": "scale"}, DataFacts("two", "table", (3,), 2), "^model.transforms: they are for real labels"),
    ):
        with pytest.raises(ValueError, match=message):
            KINDS["forest"].build(options, found)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WithTransforms(PROCESS, ConditionOn("pool")), r"^transforms: ConditionOn\('pool'\) makes what is"),
        (lambda: WithTransforms(PROCESS, Transforms(Transforms(ConditionOn("pool")))), "^transforms: ConditionOn"),
        (lambda: WithTransforms(RandomForestClassifier(), Scale()), "^model: kernel transforms are for numbers, found"),
        (lambda: WithTransforms(PROCESS, Scale()).believe(POOL), "^model: it has learnt nothing yet"),
        (lambda: WithTransforms(PROCESS, Scale), "^steps: expected transforms such as Scale"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_model_says_what_its_inner_one_says():
    assert WithTransforms(Sklearn(RandomForestRegressor()), Scale()).regression is True
    adapter = natsel.models.ModelAdapter(WithTransforms(RandomForestRegressor(), Scale()))
    assert (adapter.regression, adapter.consistent_by_design) == (True, True)
