"""Looking ahead: re-weighted draws are Bayes' rule on the new labels alone, for each random part of the draws."""

import math

import numpy as np
import pytest
import torch

import natsel
from natsel import CategoricalSamples, Examples
from natsel.beliefs.draws import NoSurvivingDraw
from natsel.evaluation.of_belief import evaluate
from natsel.experiments.studies.look_ahead import _random_draws, look_ahead, metrics_under
from natsel.seeds import derive


class Thresholds:
    """An exact posterior on a grid: draw k says that the label is 1 with probability sigmoid(8 (x − θ_k)).

    Fitting weighs the same draws by the labels, so that re-weighting and fitting again are one and the same.
    """

    def __init__(self, draws=41):
        self.theta_K = torch.linspace(-1, 1, draws, dtype=torch.float64)

    def _log_probs(self, inputs):
        logits_N_K = 8 * (torch.as_tensor(np.asarray(inputs), dtype=torch.float64)[:, :1] - self.theta_K)
        return torch.stack([torch.zeros_like(logits_N_K), logits_N_K], 2).log_softmax(2)

    def fit(self, labelled):
        log_probs = self._log_probs(labelled.inputs)
        log_likelihood_K = log_probs[torch.arange(len(labelled)), :, torch.as_tensor(labelled.labels)].sum(0)
        self.log_weights_K = log_likelihood_K.log_softmax(0)
        return self

    def believe(self, inputs):
        return CategoricalSamples(self._log_probs(inputs), self.log_weights_K, draws_id="thresholds")


def steps(count, seed=0, theta=0.2):
    rng = np.random.default_rng(seed)
    inputs = rng.uniform(-1, 1, size=(count, 1))
    return Examples(inputs, (rng.random(count) < 1 / (1 + np.exp(-8 * (inputs[:, 0] - theta)))).astype(int))


@pytest.mark.parametrize("size", [5, 10, 15])
def test_exact_inference_makes_no_difference(size):
    """Re-weighting equals training again where the posterior is exact, with all of the draws."""
    data = steps(80)
    found = look_ahead(Thresholds().fit(data[:size]), data[size : size + 5], data[20:], sub_trials=2, share=1.0)
    retrained = Thresholds().fit(data[: size + 5]).believe(data.inputs[20:])
    assert list(found.online) == [pytest.approx(evaluate(retrained, data.labels[20:]), abs=1e-12)] * 2
    assert list(found.before) == [pytest.approx(found.whole, abs=1e-12)] * 2
    assert found.online[0]["nll"] != found.whole["nll"]
    assert found.draws == 41


def test_only_new_labels_enter_the_weights_of_each_part_of_the_draws():
    data = steps(30)
    model = Thresholds().fit(data[:10])
    found = look_ahead(model, data[10:14], data[14:], sub_trials=3, share=0.5, seed=1)
    belief = model.believe(data.inputs)
    assert found.whole == pytest.approx(evaluate(belief[14:], data.labels[14:]))
    assert found.draws == 20
    assert len({one["nll"] for one in found.before}) == len({one["nll"] for one in found.online}) == 3
    for number in range(3):
        part = _random_draws(41, 0.5, derive(1, number))
        log_weights_K = torch.full((41,), -torch.inf, dtype=torch.float64)
        log_weights_K[part] = belief.log_weights_K[part]
        half = CategoricalSamples(belief.log_probs_N_K_C, log_weights_K.log_softmax(0), draws_id=belief.draws_id)
        after = half.condition(range(10, 14), data.labels[10:14])
        assert found.before[number] == pytest.approx(evaluate(half[14:], data.labels[14:]))
        assert found.online[number] == pytest.approx(evaluate(after[14:], data.labels[14:]))
        assert found.surprise[number] == pytest.approx(after.surprise(), abs=1e-12)
        assert found.effective_draws[number] == pytest.approx(after.effective_draws())


def test_parts_of_the_draws_are_random_and_repeatable():
    data = steps(30)
    model = Thresholds().fit(data[:10])
    first, again, other = (look_ahead(model, data[10:14], data[14:], sub_trials=2, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first.online != other.online
    part = _random_draws(41, 0.5, seed=3).tolist()
    assert len(set(part)) == len(part) == 20


def test_labels_that_no_draw_allows_are_named():
    class Sure(Thresholds):
        def _log_probs(self, inputs):
            return torch.tensor([[[0.0, -math.inf]]], dtype=torch.float64).expand(len(inputs), 41, 2)

    inputs = np.zeros((10, 1))
    model = Sure().fit(Examples(inputs, [0] * 10))
    with pytest.raises(NoSurvivingDraw, match=r"^new: no draw gives these 4 labels any probability; smooth"):
        look_ahead(model, Examples(inputs[:4], [0, 0, 0, 1]), Examples(inputs, [0] * 10), sub_trials=2)


def test_metrics_in_chunks_are_those_of_the_whole():
    data = steps(50)
    model = Thresholds().fit(data[:5])
    sets_S_K = torch.randn(3, 41, generator=torch.Generator().manual_seed(0), dtype=torch.float64).log_softmax(1)
    belief = model.believe(data.inputs)
    direct = [evaluate(CategoricalSamples(belief.log_probs_N_K_C, one), data.labels) for one in sets_S_K]
    for budget in (1 << 30, 40_000, 1):
        with natsel.memory_budget(budget):
            found = metrics_under(sets_S_K, model, data)
        assert found == [pytest.approx(expected, abs=1e-12) for expected in direct]
