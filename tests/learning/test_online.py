"""Learning without retraining: what enters the weights, when the model is fitted again, and how both compare."""

import math
import re

import numpy as np
import pytest
import torch

import natsel
from natsel import CategoricalSamples, Examples, GaussianFeatures, GaussianSamples, Pool
from natsel.beliefs.draws import NoSurvivingDraw
from natsel.evaluation.of_belief import evaluate
from natsel.information import log_mean
from natsel.learning.ahead import Look, _subset, likelihoods, look_ahead, metrics_under
from natsel.learning.online import Refit, learn_online, obi_versus_retraining
from natsel.seeds import derive


class Thresholds:
    """An exact posterior on a grid: draw k says that the label is 1 with probability sigmoid(8 (x − θ_k)).

    Fitting weighs the same draws by the labels, so that online and retrained are one and the same.
    """

    def __init__(self, draws=41, exact=True):
        self.theta_K = torch.linspace(-1, 1, draws, dtype=torch.float64)
        self.exact = exact
        self.seen = []

    def _log_probs(self, inputs):
        logits_N_K = 8 * (torch.as_tensor(np.asarray(inputs), dtype=torch.float64)[:, :1] - self.theta_K)
        return torch.stack([torch.zeros_like(logits_N_K), logits_N_K], 2).log_softmax(2)

    def fit(self, labelled, *, seed=0):
        self.seen.append((np.asarray(labelled.inputs)[:, 0].tolist(), seed))
        log_probs = self._log_probs(labelled.inputs)
        log_likelihood_K = log_probs[torch.arange(len(labelled)), :, torch.as_tensor(labelled.labels)].sum(0)
        self.log_weights_K = log_likelihood_K.log_softmax(0) if self.exact else None
        self.name = f"thresholds {len(self.seen)}"

    def believe(self, inputs):
        return CategoricalSamples(self._log_probs(inputs), self.log_weights_K, draws_id=self.name)


def steps(count=60, seed=0, theta=0.2):
    rng = np.random.default_rng(seed)
    inputs = rng.uniform(-1, 1, size=(count, 1))
    return Examples(inputs, (rng.random(count) < 1 / (1 + np.exp(-8 * (inputs[:, 0] - theta)))).astype(int))


class Lines:
    """Bayesian linear regression through the origin of features, exact: fit conditions the prior."""

    regression = True

    def __init__(self, noise=0.05, draws=None):
        self.noise, self.draws = noise, draws

    def fit(self, labelled, *, seed=0):
        self.labelled = labelled
        self.name = f"lines {len(labelled)}"

    def believe(self, inputs):
        rows = np.concatenate([np.asarray(inputs), np.asarray(self.labelled.inputs)])
        design = np.column_stack([np.ones(len(rows)), rows])
        prior = GaussianFeatures(design, self.noise, draws_id="prior")
        after = prior.condition(range(len(inputs), len(rows)), self.labelled.labels)[: len(inputs)]
        after = GaussianFeatures(after.features_N_D, after.noise_N, self.name, mean=after.mean_N)
        if self.draws is None:
            return after
        noise_D_K = torch.randn(2, self.draws, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        return GaussianSamples(after.mean_N[:, None] + after.features_N_D @ noise_D_K, self.noise, draws_id=self.name)


def slopes(count, seed=0):
    rng = np.random.default_rng(seed)
    inputs = rng.uniform(-1, 1, size=(count, 1))
    return Examples(inputs, 0.5 - 2 * inputs[:, 0] + rng.normal(scale=0.2, size=count))


def test_exact_inference_makes_no_difference():
    """Property 9: Δ(n) = 0 where the posterior is exact, with all of the draws."""
    data = steps(80)
    found = obi_versus_retraining(
        Thresholds(), data[:20], data[20:], start=5, ahead=5, step=5, trials=2, sub_trials=1, share=1.0
    )
    assert [(row.size, row.trial) for row in found.rows] == [(5, 0), (10, 0), (15, 0), (5, 1), (10, 1), (15, 1)]
    for row in found.rows:
        assert row.online[0] == pytest.approx(row.retrained, abs=1e-12)
        assert row.draws == 41
        assert row.surprise[0] > 0
        assert 1 <= row.effective_draws[0] <= 41
    assert found.change("nll", "gap") == pytest.approx((0, 0), abs=1e-12)
    assert found.change("nll", "online") == pytest.approx(found.change("nll", "retrained"), abs=1e-12)
    before = np.mean([row.before["nll"] for row in found.rows])
    assert found.change("nll", "retrained")[0] == pytest.approx(
        np.mean([row.retrained["nll"] for row in found.rows]) - before
    )


def test_every_size_is_fitted_once_a_trial_and_under_its_own_seed():
    data, model = steps(40), Thresholds()
    obi_versus_retraining(model, data[:14], data[20:], start=4, ahead=3, step=3, trials=2, sub_trials=2)
    sizes = [len(inputs) for inputs, _ in model.seen]
    assert sizes == [4, 7, 10, 13] * 2
    assert len({seed for _, seed in model.seen}) == 8
    assert model.seen[0][0] == data.inputs[:4, 0].tolist()


def test_only_new_labels_enter_the_weights_unless_asked():
    data = steps(30)
    model = Thresholds()
    arguments = {"start": 10, "ahead": 4, "trials": 1, "sub_trials": 1, "share": 1.0, "step": 99}
    new = obi_versus_retraining(model, data[:14], data[14:], **arguments).rows[0]
    both = obi_versus_retraining(model, data[:14], data[14:], include_train=True, **arguments).rows[0]
    model.fit(data[:10])
    belief = model.believe(data.inputs)
    for row, seen in ((new, range(10, 14)), (both, range(14))):
        after = belief.reweighted(belief.log_likelihood(seen, data.labels[list(seen)]))
        expected = evaluate(after[14:], data.labels[14:])
        assert row.online[0] == pytest.approx(expected, abs=1e-12)
        assert row.surprise[0] == pytest.approx(after.surprise(), abs=1e-12)
        assert row.effective_draws[0] == pytest.approx(after.effective_draws())
    assert both.effective_draws[0] < new.effective_draws[0]  # counted twice, the weights concentrate too much


def test_a_look_ahead_compares_each_part_of_the_draws_with_itself():
    data, model = steps(30), Thresholds()
    model.fit(data[:10])
    whole = look_ahead(model, data[10:14], data[14:], sub_trials=2, share=1.0)
    assert whole.before == (whole.whole,) * 2
    assert whole.draws == 41
    assert look_ahead(model, None, data[14:]) == Look(whole.whole)
    halves = look_ahead(model, data[10:14], data[14:], sub_trials=3, share=0.5, seed=1)
    belief = model.believe(data.inputs)
    assert halves.whole == pytest.approx(whole.whole)
    assert len({one["nll"] for one in halves.before}) == 3
    parts = [_subset(belief, 0.5, derive(1, sub)) for sub in range(3)]
    for part, before, online in zip(parts, halves.before, halves.online, strict=True):
        log_weights_K = torch.full((41,), -torch.inf, dtype=torch.float64)
        log_weights_K[part] = belief.log_weights_K[part]
        half = CategoricalSamples(belief.log_probs_N_K_C, log_weights_K.log_softmax(0), draws_id=belief.draws_id)
        assert before == pytest.approx(evaluate(half[14:], data.labels[14:]))
        after = half.condition(range(10, 14), data.labels[10:14])
        assert online == pytest.approx(evaluate(after[14:], data.labels[14:]))


def test_repeats_of_trained_points_are_refused():
    data = steps(30)
    ids = [*range(13), 3]
    arguments = {"start": 10, "ahead": 4, "trials": 1, "sub_trials": 1}
    with pytest.raises(ValueError, match=r"^ids: 3 is trained on at 10 labels .* twice; "):
        obi_versus_retraining(Thresholds(), data[:14], data[14:], ids=ids, **arguments)
    obi_versus_retraining(Thresholds(), data[:14], data[14:], ids=ids, include_train=True, **arguments)
    obi_versus_retraining(Thresholds(), data[:14], data[14:], ids=range(14), **arguments)


def test_parts_of_the_draws_are_random_repeatable_and_as_large_as_asked():
    data = steps(30)

    def run(**more):
        return obi_versus_retraining(
            lambda: Thresholds(), data[:14], data[14:], start=10, ahead=4, trials=1, sub_trials=3, **more
        ).rows[0]

    half, again, other = run(), run(), run(seed=1)
    assert half == again
    assert half.online != other.online
    assert half.draws == 20
    assert len({metrics["nll"] for metrics in half.online}) == 3
    assert all(worth <= 20 for worth in half.effective_draws)


def test_summary_is_plain_and_progress_is_told():
    told = []
    data = steps(400)
    found = obi_versus_retraining(
        Thresholds(exact=False),
        data[:20],
        data[20:],
        start=10,
        ahead=5,
        step=5,
        trials=2,
        sub_trials=2,
        progress=lambda *pair: told.append(pair),
    )
    assert told == [(done, 6) for done in range(1, 7)]
    summary = found.summary()
    assert summary["online_nll"] < 0 == summary["retrained_nll"]  # this one learns nothing by fitting
    assert summary["gap_nll"] == pytest.approx(summary["online_nll"])
    assert 0 < summary["effective_share"] < 1
    assert summary["surprise"] > 0
    assert math.isfinite(summary["online_accuracy_error"])
    with pytest.raises(ValueError, match=r"^what: .*; "):
        found.change("nll", "offline")


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        ({"start": 12}, r"^sequence: found 14 points, fewer than start \+ ahead = 17; "),
        ({"share": 0.0}, "^share: "),
        ({"share": 1.5}, "^share: "),
        ({"trials": 0}, "^trials: "),
        ({"ahead": 0}, "^ahead: "),
    ],
)
def test_bad_comparisons(wrong, found):
    data = steps(30)
    with pytest.raises(ValueError, match=found):
        obi_versus_retraining(Thresholds(), data[:14], data[14:], **{"start": 5, **wrong})


def test_labels_that_no_draw_allows_are_named():
    class Sure(Thresholds):
        def _log_probs(self, inputs):
            return torch.tensor([[[0.0, -math.inf]]], dtype=torch.float64).expand(len(inputs), 41, 2)

        def fit(self, labelled, *, seed=0):
            self.log_weights_K, self.name = None, "sure"

    inputs = np.zeros((10, 1))
    with pytest.raises(NoSurvivingDraw, match=r"^sequence: at 5 labels no draw .*; smooth"):
        obi_versus_retraining(
            Sure(), Examples(inputs, [0] * 6 + [1] * 4), Examples(inputs, [0] * 10), start=5, trials=1
        )


def test_a_belief_without_draws_is_refused():
    with pytest.raises(ValueError, match=r"^model: its belief is GaussianFeatures, without draws .*; "):
        obi_versus_retraining(Lines(), slopes(10), slopes(5), start=3, ahead=2, trials=1)


def test_metrics_in_parts_are_those_of_the_whole():
    data, model = steps(50), Thresholds()
    model.fit(data[:5])
    sets_S_K = torch.randn(3, 41, generator=torch.Generator().manual_seed(0), dtype=torch.float64).log_softmax(1)
    belief = model.believe(data.inputs)
    direct = [evaluate(CategoricalSamples(belief.log_probs_N_K_C, one), data.labels) for one in sets_S_K]
    for budget in (1 << 30, 40_000, 1):
        with natsel.memory_budget(budget):
            found = metrics_under(sets_S_K, model, data)
        assert found == [pytest.approx(expected, abs=1e-12) for expected in direct]


def test_numbers_are_compared_too():
    data = slopes(60)
    found = obi_versus_retraining(
        Lines(draws=4000), data[:16], data[16:], start=6, ahead=5, step=5, trials=1, sub_trials=2
    )
    assert sorted(found.rows[0].before) == ["nll", "rmse"]
    assert found.change("nll", "gap")[0] == pytest.approx(0, abs=0.02)  # Monte Carlo with exact draws
    assert found.change("rmse", "gap")[0] == pytest.approx(0, abs=0.02)
    model = Lines(draws=50)
    model.fit(data[:6])
    belief = model.believe(data.inputs)
    assert metrics_under(belief.log_weights_K[None], model, data)[0] == pytest.approx(evaluate(belief, data.labels))
    assert likelihoods(belief, data.labels).sum(0).tolist() == pytest.approx(
        belief.log_likelihood(range(60), data.labels).tolist()
    )


def test_online_learning_picks_what_exact_retraining_would():
    """With an exact posterior the draws need never be made anew: the same picks and predictions, and one fit."""
    data, test = steps(60), steps(40, seed=1)
    runs = []
    for refit in (Refit(draws=0.0, surprise=math.inf), Refit(every=1)):
        pool = Pool.of(data)
        pool.label([0, 1], data.labels[:2])
        runs.append(learn_online(Thresholds(), pool, "bald", k=1, budget=12, test=test, refit=refit))
    online, retrained = runs
    assert (online.fits, retrained.fits) == (1, 11)
    assert online.picked_ids.tolist() == retrained.picked_ids.tolist()
    for mine, theirs in zip(online.steps, retrained.steps, strict=True):
        assert mine.metrics == pytest.approx(theirs.metrics, abs=1e-9)
        assert (mine.bought, mine.distinct) == (theirs.bought, theirs.distinct)
    assert [step.bought for step in online.steps] == list(range(2, 13))
    assert all(step.surprise == 0 for step in retrained.steps)
    assert online.steps[-1].surprise > online.steps[1].surprise > 0
    assert online.reselection_rate == 0


def test_trained_labels_never_enter_the_weights():
    data = steps(60)
    pool, model = Pool.of(data, ids=range(100, 160)), Thresholds()
    run = learn_online(model, pool, "bald", k=2, budget=20, refit=Refit(draws=0.0, surprise=math.inf, every=6))
    whys = [step.refit for step in run.steps]
    assert whys == ["the first", None, None, "every 6", None, None, "every 6", None, None, "every 6"]
    # At the last fit everything is trained on, and the weights are those of the fit alone.
    assert run.steps[-1].surprise == 0
    assert len(model.seen[-1][0]) == len(pool.labelled_ids) == 20
    assert model.seen[-1][0] == data.inputs[pool.labelled_ids - 100, 0].tolist()
    fresh = Thresholds()
    fresh.fit(pool.labelled())
    assert run.steps[-1].effective_draws == pytest.approx(fresh.believe(data.inputs).effective_draws())


def test_a_trained_id_is_refused_at_the_door():
    from natsel.learning.online import _Online

    pool = Pool.of(steps(10))
    pool.label([0, 1, 2], [0, 1, 0])
    learner = _Online(Thresholds(), pool, None, None, 0)
    learner.fit(None)
    with pytest.raises(ValueError, match=r"^labels: id 1 was trained on, and would count twice; "):
        learner.learn({1: 1})


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (Refit(draws=0.5, surprise=math.inf), r"of 41 draws left"),
        (Refit(draws=0.0, surprise=0.3), r"surprise of \d\.\d\d nats"),
        (Refit(draws=0.0, surprise=math.inf, nll=-9.0), r"validation loss up by"),
    ],
)
def test_what_makes_it_fit_again(rule, reason):
    pool, validation = Pool.of(steps(60)), steps(20, seed=2)
    run = learn_online(
        Thresholds(exact=False), pool, "bald", k=1, budget=12, refit=rule, validation=validation, test=validation
    )
    found = [step.refit for step in run.steps[1:] if step.refit]
    assert found
    assert all(re.search(reason, why) for why in found)


def test_a_rule_on_validation_needs_validation():
    with pytest.raises(ValueError, match=r"^validation: .*; "):
        learn_online(Thresholds(), Pool.of(steps(20)), "bald", budget=3, refit=Refit(nll=0.1))


def test_reasons_in_order():
    calm = {"effective": 9.0, "draws": 10, "nats": 0.1, "worse": 0.0, "bought": 1}
    assert Refit().reason(**calm) is None
    assert Refit().reason(**{**calm, "effective": 0.9}) == "0.9 of 10 draws left"
    assert Refit().reason(**{**calm, "nats": 0.7 * math.log(10) + 0.01}) == "surprise of 1.62 nats"
    assert Refit().reason(**{**calm, "nats": 0.7 * math.log(10) - 0.01}) is None
    assert Refit().reason(**{**calm, "draws": 1, "nats": 5.0, "effective": 0.01}) is None
    assert Refit(nll=0.1).reason(**{**calm, "worse": 0.2}) == "validation loss up by 0.20 nats"
    assert Refit(every=2).reason(**calm) is None


def test_labels_that_no_draw_allows_and_new_classes_make_it_fit_again():
    class Table:
        """Certain of the classes it saw, in one draw of two."""

        def fit(self, labelled, *, seed=0):
            self.classes = int(np.max(labelled.labels)) + 1

        def believe(self, inputs):
            probs = np.zeros((len(inputs), 2, max(2, self.classes)))
            probs[:, :, 0] = 1
            return CategoricalSamples.from_probs(probs, draws_id=str(self.classes))

    pool = Pool(np.zeros((6, 1)), classes=("a", "b", "c"))
    pool.label([0], ["a"])
    answers = {1: 0, 2: 1, 3: 2, 4: 2, 5: 0}
    run = learn_online(Table(), pool, natsel.Method(natsel.Entropy(), natsel.TopK()), budget=6, oracle=answers)
    assert [step.refit for step in run.steps] == [
        "the first",
        None,
        "no draw allows the labels",
        "a class that the model has not heard of",
        "no draw allows the labels",
        None,
    ]


def test_points_that_nobody_can_label_are_set_aside():
    data = steps(12)
    pool = Pool.of(data)
    labels = {id: None if id % 3 == 0 else int(data.labels[id]) for id in range(12)}
    run = learn_online(Thresholds(), pool, "bald", k=3, budget=50, oracle=labels)
    assert len(pool.labelled_ids) == 8
    assert sorted(pool.ignored_ids) == [0, 3, 6, 9]
    assert run.steps[-1].bought == 8


def test_a_pool_may_be_picked_from_again_and_repeats_are_paid_for_once_learnt():
    data = steps(6)
    pool = Pool.of(data)
    pool.label([0], data.labels[:1])
    run = learn_online(
        Thresholds(), pool, "bald", k=1, budget=30, allow_reselection=True, refit=Refit(draws=0, surprise=math.inf)
    )
    assert run.steps[-1].bought == 30
    assert len(run.picked_ids) == 29
    assert run.steps[-1].distinct == len(pool.labelled_ids) <= 6
    again = 29 - (len(pool.labelled_ids) - 1)
    assert run.reselection_rate == pytest.approx(again / 29)
    # A label that is known moves nothing: evidence of one oracle is not multiplied.
    for before, after in zip(run.steps, run.steps[1:], strict=False):
        if before.again:
            assert (after.effective_draws, after.surprise) == (before.effective_draws, before.surprise)
    without = learn_online(Thresholds(), Pool.of(data), "bald", k=1, budget=30)
    assert without.steps[-1].bought == 6
    assert without.reselection_rate == 0


def test_the_same_seed_gives_the_same_run():
    def run(seed):
        return learn_online(
            Thresholds(), Pool.of(steps(40)), "power-bald", k=3, budget=15, seed=seed, test=steps(10, 5)
        )

    assert run(0) == run(0)
    assert run(0).picked_ids.tolist() != run(1).picked_ids.tolist()


def test_targets_are_for_methods_that_look_at_some():
    """Methods are compared under one call: those about no targets do as they would without."""
    data, picks = steps(40), []
    for targets in (None, steps(10, 5).inputs):
        run = learn_online(Thresholds(), Pool.of(data), "bald", k=3, budget=12, targets=targets)
        picks.append(run.picked_ids.tolist())
    assert picks[0] == picks[1]
    assert (
        learn_online(Thresholds(), Pool.of(data), "epig", k=3, budget=12, targets=targets).picked_ids.tolist()
        != picks[0]
    )


def test_joint_gaussians_learn_online_without_any_draws():
    data, targets = slopes(30), slopes(10, seed=4)
    picks = []
    for refit in (Refit(), Refit(every=1)):
        pool = Pool.of(data)
        pool.label([0, 1], data.labels[:2])
        run = learn_online(Lines(), pool, "bald", k=1, budget=10, refit=refit, test=targets)
        picks.append(run.picked_ids.tolist())
        assert run.fits == (1 if refit.every is None else 9)
    assert picks[0] == picks[1]


def test_real_labels_reweight_draws_of_numbers():
    pool = Pool.of(slopes(30))
    run = learn_online(Lines(draws=2000), pool, "bald", k=2, budget=12, test=slopes(30, seed=3))
    assert run.fits < len(run.steps)
    assert run.steps[-1].metrics["rmse"] < 0.5


def test_no_warning_escapes_and_the_weights_of_test_points_follow():
    data, test = steps(60), steps(30, seed=7)
    pool = Pool.of(data)
    pool.label([0], data.labels[:1])
    model = Thresholds(draws=5, exact=False)
    run = learn_online(model, pool, "bald", k=1, budget=15, test=test, refit=Refit(draws=0.0, surprise=math.inf))
    model.fit(data[:1])
    belief = model.believe(data.inputs)
    new = run.picked_ids
    after = belief.reweighted(belief.log_likelihood(new, data.labels[new]))
    direct = log_mean(model.believe(test.inputs).log_probs_N_K_C, after.log_weights_K)
    assert run.steps[-1].metrics["nll"] == pytest.approx(natsel.evaluation.nll(direct, test.labels))
    assert after.warnings


def test_dropout_is_compared_and_learns_online():
    """The usual case end to end: a network's draws, made again for every part of the test set."""
    from natsel.models import Dropout, Training
    from natsel.models.networks.architectures import mlp

    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(80, 4)).astype(np.float32)
    data = Examples(inputs, (inputs[:, 0] > 0).astype(int))
    model = Dropout(mlp(4, 2), draws=30, training=Training(max_epochs=5), device="cpu")
    found = obi_versus_retraining(model, data[:20], data[20:], start=10, ahead=5, step=5, trials=1, sub_trials=2)
    assert [row.draws for row in found.rows] == [15, 15]
    assert all(math.isfinite(value) for name, value in found.summary().items() if "error" not in name)
    pool = Pool.of(data[:30])
    run = learn_online(model, pool, "batchbald", k=2, budget=8, test=data[30:])
    assert run.steps[-1].bought == 8
