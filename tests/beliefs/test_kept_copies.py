"""Arrays handed over belong to the caller: what becomes of them afterwards changes no belief, target or cost.

That every kind of belief keeps to it is held by the conformance suite.
"""

import numpy as np
import pandas as pd
import pytest
import torch

import natsel
from natsel import CategoricalSamples, FisherRows, GaussianFeatures, GaussianSamples, PotentialOutcomes
from natsel.beliefs import Targets, TwoModels
from natsel.choose.costs import as_costs
from natsel.information.weights.precision import Dense, Diagonal, Isotropic, Kronecker, LowRank
from natsel.learning.point_costs import PointCosts


def probs(points=12, draws=4, classes=3, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(classes), size=(points, draws))


def everything(belief, targets, costs):
    """All that is asked of a belief, as plain values."""
    found = [natsel.score("bald", belief).tolist(), natsel.score("epig", belief, targets=targets).tolist()]
    for method, known in (("batchbald", {}), ("jepig", {"targets": targets.belief}), ("bald", {"given": belief[:2]})):
        picks = natsel.select(method, belief, 3, **known)
        found += [picks.ids.tolist(), picks.scores.tolist(), str(picks.explain())]
    found.append(natsel.select("bald", belief, costs=costs, budget=5.0).ids.tolist())
    return [*found, belief.predict_proba().tolist(), belief.condition([0], [1]).log_weights_K.tolist()]


@pytest.mark.parametrize("make", [np.array, torch.tensor], ids=["array", "tensor"])
def test_all_is_the_same_once_every_array_was_overwritten(make):
    log_probs, about = make(np.log(probs())), make(np.log(probs(3, seed=1)))
    log_weights, ids = make(np.log([0.1, 0.2, 0.3, 0.4])), np.arange(12) + 100
    weights, labels, cost = make([1.0, 2.0, 0.5]), make([0, 1, 2]), make(np.linspace(1, 2, 12))
    belief = CategoricalSamples(log_probs, log_weights, ids=ids)
    targets = Targets(CategoricalSamples(about, log_weights), weights=weights, labels=labels)
    selection = natsel.select("batchbald", belief, 3)
    before, explained = everything(belief, targets, as_costs(cost, belief.ids)), str(selection.explain())
    costs = as_costs(cost, belief.ids)
    pig = natsel.score("pig", belief, labels=np.zeros(12, dtype=int), targets=targets)
    for array in (log_probs, about, log_weights, ids, weights, labels, cost):
        array[...] = 1
    assert everything(belief, targets, costs) == before
    assert str(selection.explain()) == explained
    assert torch.equal(natsel.score("pig", belief, labels=np.zeros(12, dtype=int), targets=targets), pig)


def test_columns_of_a_table_are_no_longer_looked_at():
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(8, 4)))
    belief = GaussianSamples(table, 0.5)
    scores_N = natsel.score("bald", belief)
    table.iloc[:, :] = 0.0
    assert torch.equal(natsel.score("bald", belief), scores_N)


def test_parts_and_other_layouts_of_a_tensor_are_copied():
    whole = torch.randn(4, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    beliefs = [GaussianFeatures(part) for part in (whole[:, 2:5], whole.T[1:3], whole[0].expand(3, -1))]
    scores = [natsel.score("bald", belief) for belief in beliefs]
    whole.zero_()
    for belief, score_N in zip(beliefs, scores, strict=True):
        assert torch.equal(natsel.score("bald", belief), score_N)


@pytest.mark.parametrize(
    "make",
    [
        lambda one: Isotropic(one[0, 0]),
        lambda one: Diagonal(one.diagonal()),
        Dense,
        lambda one: Kronecker(torch.ones(1, 1, dtype=torch.float64), one),
        lambda one: LowRank(one[:2] / 2, one.diagonal()[:2], one[0, 0]),
        lambda one: one,
        lambda one: one.diagonal(),
    ],
    ids=["isotropic", "diagonal", "dense", "kronecker", "low-rank", "matrix", "numbers"],
)
def test_precisions_are_their_own(make):
    tensor = 2 * torch.eye(3, dtype=torch.float64)
    belief = FisherRows(torch.ones(5, 1, 3, dtype=torch.float64), make(tensor))
    scores_N = natsel.score("trace-eig", belief)
    tensor.fill_(7.0)
    assert torch.equal(natsel.score("trace-eig", belief), scores_N)
    assert belief.precision.dense(3).max() <= 4


def test_costs_of_a_learner_are_its_own():
    cost = np.linspace(1, 2, 4)
    costs = PointCosts(cost, natsel.Pool(np.zeros((4, 1))))
    cost[:] = 100
    assert costs.total([0, 3]) == 3.0


def test_treatments_and_propensities_are_copied_where_arms_are_beliefs():
    arms = [GaussianSamples(np.random.default_rng(seed).normal(size=(4, 3)), 0.5) for seed in range(2)]
    treatment, propensity = np.array([0, 1, 1, 0], dtype=np.int8), np.full(4, 0.3)
    belief = PotentialOutcomes.from_arms(*arms, treatment, propensity)
    treatment[:], propensity[:] = 1, 0.9
    assert belief.treatment_N.tolist() == [0, 1, 1, 0]
    assert belief.propensity_N.tolist() == [0.3] * 4


# No more memory than that.


def memory(tensor):
    return tensor.untyped_storage().data_ptr()


def test_a_copy_is_made_only_of_what_the_caller_holds():
    belief = CategoricalSamples.from_probs(probs())
    kept = memory(belief.log_probs_N_K_C)
    assert memory(belief[2:5].log_probs_N_K_C) == memory(belief.with_ids(range(12)).log_probs_N_K_C) == kept
    assert memory(belief.condition([0], [1]).log_probs_N_K_C) == kept
    assert memory(TwoModels.of(belief, [belief]).teacher.log_probs_N_K_C) == kept


def test_beliefs_of_own_arrays_are_made_without_a_copy():
    tensor = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert memory(GaussianFeatures._own(tensor).features_N_D) == memory(tensor)
    assert memory(GaussianFeatures(tensor).features_N_D) != memory(tensor)
    with pytest.raises(ValueError, match="features_N_D: expected two axes"):
        GaussianFeatures._own(tensor[0])
    assert memory(GaussianFeatures(tensor).features_N_D) != memory(tensor), "a refusal changes nothing for later"
