"""`Selection.total` of searches that take points alone: what the batch is worth together."""

import math

import pytest
import torch

import natsel
from natsel.choose import batch_value
from natsel.objectives.readings.draws.eig_categorical import CategoricalEIG


def draws(points, n_draws, classes, seed=0, scale=1.0):
    logits_N_K_C = scale * torch.randn(points, n_draws, classes, generator=torch.Generator().manual_seed(seed))
    return natsel.CategoricalSamples.from_logits(logits_N_K_C)


@pytest.mark.parametrize("name", ["bald", "power-bald"])
def test_no_batch_tells_more_than_its_draws_can(name):
    """The newcomer's case: scores that add up to several times ln 100."""
    belief = draws(100, 100, 10)
    selection = natsel.select(name, belief, k=30)
    assert float(selection.scores.sum()) > 2 * math.log(100)
    assert selection.total <= math.log(100)
    again = natsel.select("batchbald", belief[selection.picked.ids], k=30)
    assert selection.total == pytest.approx(again.total, rel=0.01), "estimated from other rows"


@pytest.mark.parametrize("name", ["bald", "power-bald"])
def test_a_small_batch_is_worked_out_exactly(name):
    belief = draws(12, 5, 3)
    selection = natsel.select(name, belief, k=4)
    best = natsel.select("best-bald", belief[selection.picked.ids], k=4)
    assert selection.total == pytest.approx(best.total, abs=1e-9)
    assert selection.total < float(selection.scores.sum()) - 0.01


def test_k_means_plus_plus_too():
    features_N_D = torch.randn(30, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    method = natsel.Method(natsel.LogDet(), natsel.KMeansPP())
    selection = natsel.select(method, natsel.GaussianFeatures(features_N_D), k=8)
    picked_8_D = features_N_D[selection.ids]
    kernel_8_8 = torch.eye(8, dtype=torch.float64) + picked_8_D @ picked_8_D.T
    assert selection.total == pytest.approx(float(torch.logdet(kernel_8_8)))


def test_scores_that_add_up_stay_a_sum():
    for name in ("entropy", "margin", "power-entropy", "random"):
        selection = natsel.select(name, draws(20, 4, 3), k=5)
        assert selection.total == pytest.approx(float(selection.scores.sum()))


def test_the_total_leaves_the_generator_of_a_caller_alone():
    mine, used = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    natsel.select("power-bald", draws(60, 20, 10), k=30, seed=mine)
    torch.rand(60, dtype=torch.float64, generator=used)  # the noise of the search, one number per point
    assert torch.equal(mine.get_state(), used.get_state())


def test_rows_are_cut_to_what_there_is_time_for(monkeypatch):
    """Counted work, not seconds: rows times numbers stay within bounds; beyond them it is a bound."""
    made = []
    init = CategoricalEIG.__init__
    monkeypatch.setattr(
        CategoricalEIG,
        "__init__",
        lambda self, objective, *rest: made.append(objective.rows) or init(self, objective, *rest),
    )
    belief = draws(300, 20, 10, scale=0.1)
    natsel.select("power-bald", belief, k=10)
    assert made == [4096, 4096]
    made.clear()
    natsel.select("power-bald", belief, k=300)
    assert made[1] * 300 * 200 <= 1e8 < (made[1] + 1) * 300 * 200
    made.clear()
    monkeypatch.setattr(batch_value, "_NUMBERS", 1e5)
    selection = natsel.select("power-bald", draws(300, 20, 10), k=300)
    assert len(made) == 1, "a second state was made"
    assert selection.total == pytest.approx(math.log(20)), "the sum of scores is more than the draws can tell"
    weak = natsel.select("power-bald", belief, k=300)
    assert weak.total == pytest.approx(min(float(weak.scores.sum()), math.log(20)))


def test_known_labels_follow_their_points():
    belief, labels_N = draws(8, 4, 3), torch.arange(8) % 3
    pig = natsel.Method(natsel.PIG(), natsel.TopK())
    targets = natsel.Targets(draws(8, 4, 3)[5:], labels=[0, 1, 2])
    selection = natsel.select(pig, belief, k=3, labels=labels_N, targets=targets)
    chosen = selection.ids.tolist()
    best = natsel.Method(natsel.PIG(), natsel.Exhaustive())
    alone = natsel.select(best, belief[chosen], k=3, labels=labels_N[chosen], targets=targets)
    assert selection.total == pytest.approx(alone.total, abs=1e-9)
