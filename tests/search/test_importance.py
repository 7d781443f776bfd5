"""Importance sampling: golden probabilities and weights, an unbiased mean gradient, zeros, and what is refused."""

from types import SimpleNamespace

import pytest
import torch

import natsel
from golden_values import golden
from natsel import ImportanceSampling
from natsel.search.importance import inverse_of_sums, log_probabilities

CASE = golden("07-rho")["rho_loss_batch"]


def drawn(scores, k, seed=0, allowed=None):
    scores_N = torch.tensor(scores, dtype=torch.float64)
    allowed_N = torch.ones(len(scores_N), dtype=torch.bool) if allowed is None else torch.tensor(allowed)
    state = SimpleNamespace(scores=lambda: scores_N)
    return ImportanceSampling()(state, k, allowed_N, torch.Generator().manual_seed(seed))


def test_golden_probabilities_and_weights():
    expected, inputs = CASE["expected"], CASE["inputs"]
    norms_N = torch.tensor(expected["gradient_norm"], dtype=torch.float64)
    log_probs_N, notes = log_probabilities(norms_N, torch.arange(6))
    assert notes == ()
    assert log_probs_N.exp().tolist() == pytest.approx(expected["is_probabilities"], rel=1e-10)
    belief = natsel.ExampleLosses(expected["loss"], logits_N_C=inputs["logits_nB_C"])
    found = set()
    for seed in range(20):
        selection = natsel.select("grad-norm-is", belief, k=6, labels=inputs["labels"], seed=seed)
        weights = [expected["is_weights"][place] for place in selection]
        assert selection.weights.tolist() == pytest.approx(weights, rel=1e-10)
        chances = [expected["is_probabilities"][place] for place in selection]
        assert selection.log_prob == pytest.approx(float(torch.tensor(chances).log().sum()), rel=1e-5)
        found |= set(selection)
    assert found >= {1, 2, 3}


def test_the_weighted_mean_is_that_of_all_points_and_the_mean_weight_is_the_share_that_can_be_drawn():
    """Exact over the probabilities, and the draws follow these."""
    scores_N = torch.tensor([0.5, 0.0, 2.0, 1.0, 0.0], dtype=torch.float64)
    gradients_N = torch.tensor([0.3, 0.0, -1.7, 0.9, 0.0], dtype=torch.float64)  # 0 where the score is
    probs_N = log_probabilities(scores_N, torch.arange(5))[0].exp()
    picks = [drawn(scores_N.tolist(), 5, seed) for seed in range(2000)]
    positions_S = torch.cat([one.positions for one in picks])
    weights_S = torch.cat([one.weights for one in picks])
    weight_N = torch.zeros(5, dtype=torch.float64).scatter(0, positions_S, weights_S)
    assert float((probs_N * weight_N).sum()) == pytest.approx(3 / 5)
    assert float((probs_N * weight_N * gradients_N).sum()) == pytest.approx(float(gradients_N.mean()))
    shares_N = positions_S.bincount(minlength=5) / len(positions_S)
    error_N = (probs_N * (1 - probs_N) / len(positions_S)).sqrt()
    assert bool(((shares_N - probs_N).abs() <= 4.5 * error_N).all())


def test_equal_scores_and_zeros_weigh_alike():
    for score in (0.0, 0.7, 1e-300, 1e300):
        picks = drawn([score] * 8, 8)
        assert picks.weights.tolist() == pytest.approx([1.0] * 8, rel=1e-12)
        assert len(set(picks.positions.tolist())) < 8, "with replacement"
        assert any("drawn alike" in note for note in picks.notes) == (score == 0)


def test_negative_and_forbidden_points_are_never_drawn():
    allowed = [True, True, True, True, False]
    picks = [drawn([-0.5, 1.0, -torch.inf, 3.0, 9.0], 4, seed, allowed) for seed in range(50)]
    assert {place for one in picks for place in one.positions.tolist()} == {1, 3}
    weights = {round(weight, 9) for one in picks for weight in one.weights.tolist()}
    assert weights == {round(4 / 3, 9), round(4 / 9, 9)}, "three points of a finite score are candidates"
    assert "negative ones count as 0 under ImportanceSampling (lowest -0.5 at position 0)" in picks[0].notes[0]
    alike = [drawn([0.0, -torch.inf, 0.0], 3, seed) for seed in range(20)]
    assert {place for one in alike for place in one.positions.tolist()} == {0, 2}
    assert {*alike[0].weights.tolist()} == {1.0}


def test_the_last_number_falls_on_a_point_that_can_be_drawn():
    below_one = torch.tensor([1 - 2**-53], dtype=torch.float64)
    assert inverse_of_sums(torch.tensor([0.1] * 10 + [0.0], dtype=torch.float64), below_one).tolist() == [9]


def test_refused():
    with pytest.raises(ValueError, match=r"scores: \+infinity at position 1"):
        drawn([0.0, torch.inf], 1)
    with pytest.raises(ValueError, match="scores: all are −infinity"):
        drawn([-torch.inf] * 2, 1)
    belief = natsel.CategoricalSamples.from_probs([[[0.9, 0.1], [0.4, 0.6]]] * 3)
    method = natsel.Method(natsel.EIG(), ImportanceSampling())
    with pytest.raises(ValueError, match="costs: ImportanceSampling may draw a point several times"):
        natsel.select(method, belief, k=1, costs=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="may draw a point several times, and a learner asks for each label once"):
        natsel.learning.target_sources.targets_for(method, None)
