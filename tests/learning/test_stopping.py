"""Stopping rules: each on its own, and in a run that is cut off and goes on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from learning.committee import Committee, Lines, blobs, pool
from natsel.data.pool import Pool
from natsel.learning import ActiveLearner, Budget, GainBelow, Stabilised, TargetAccuracy, View
from natsel.learning.stopping import kappa
from natsel.store import Round


def view(n_labelled=10, accuracies=(), gain=None, predictions=()):
    rounds = [Round(n, n + 1, n + 1, {"accuracy": value}, {}) for n, value in enumerate(accuracies)]
    return View(n_labelled, rounds, gain, lambda points: [np.array(classes) for classes in predictions])


def learner(**changes):
    return ActiveLearner(Committee(), pool(), **{"method": "bald", "k": 4, "seed": 3, "test": blobs(seed=1), **changes})


@pytest.mark.parametrize(
    ("rule", "seen", "stops"),
    [
        (Budget(10), view(9), False),
        (Budget(10), view(10), True),
        (Budget(0), view(0), True),
        (TargetAccuracy(0.9), view(accuracies=[0.95, 0.89]), False),
        (TargetAccuracy(0.9), view(accuracies=[0.1, 0.9]), True),
        (TargetAccuracy(0.9, patience=2), view(accuracies=[0.95]), False),
        (TargetAccuracy(0.9, patience=2), view(accuracies=[0.95, 0.8, 0.95]), False),
        (TargetAccuracy(0.9, patience=2), view(accuracies=[0.1, 0.95, 0.95]), True),
        (TargetAccuracy(0.9), view(), False),
        (GainBelow(0.1), view(gain=None), False),
        (GainBelow(0.1), view(gain=0.1), False),
        (GainBelow(0.1), view(gain=0.0999), True),
        (Stabilised(rounds=2), view(predictions=[[0, 1]] * 2), False),
        (Stabilised(rounds=2), view(predictions=[[1, 0], [0, 1], [0, 1], [0, 1]]), True),
        (Stabilised(rounds=2), view(predictions=[[0, 1], [1, 1], [0, 1]]), False),
        (Stabilised(0.5, rounds=2), view(predictions=[[0, 0, 1, 1], [0, 0, 1, 0], [0, 0, 1, 0]]), True),
    ],
)
def test_a_rule_stops_where_it_should(rule, seen, stops):
    assert (rule(seen) is not None) == stops


classes = st.lists(st.integers(0, 4), min_size=2, max_size=30)


@given(classes, classes)
def test_kappa_is_that_of_scikit_learn(first, second):
    size = min(len(first), len(second))
    a, b = np.array(first[:size]), np.array(second[:size])
    if len(set(first[:size]) | set(second[:size])) == 1:
        assert kappa(a, b) == 1
    else:
        assert kappa(a, b) == pytest.approx(cohen_kappa_score(a, b), abs=1e-12)


def test_the_first_rule_that_is_met_ends_a_run_and_is_written_down():
    one = learner()
    reason = one.run(60, stop=[GainBelow(0), TargetAccuracy(0.6)])
    assert reason.startswith("accuracy 0.")
    assert 0 < one.n_labelled < 60
    accuracies = [fit.metrics["accuracy"] for fit in one.history if fit.revision]
    assert accuracies[-1] >= 0.6
    assert max(accuracies[:-1], default=0) < 0.6, "it would have stopped before"
    (stop,) = one.journal.stops(1)
    assert (stop.rule, stop.reason) == ("TargetAccuracy(accuracy=0.6, patience=1)", reason)
    assert one.summary()["stopped"] == reason
    one.run(one.n_labelled + 4)
    assert one.summary()["stopped"] == f"the budget of {one.n_labelled} labels is used"


def test_the_gain_is_that_of_the_last_batch():
    seen = []
    one = learner(method="batchbald")
    one.run(16, stop=lambda view: seen.append(view.gain))
    gains = [np.mean([pick.score for pick in fit.asks[-1].picks]) for fit in one.history[1:-2]]
    assert seen == [None, None, *map(pytest.approx, gains)], "a batch drawn before there are labels has no gain"
    plain, seen = learner(method="entropy"), []
    plain.run(12, stop=lambda view: seen.append(view.gain))
    told = plain.history[1].asks[0].picks
    assert seen[2] == pytest.approx(np.mean([pick.epistemic for pick in told])), "entropy is not a gain"
    assert seen[2] != pytest.approx(np.mean([pick.score for pick in told]))
    assert learner(method="batchbald").run(60, stop=GainBelow(0.05)).startswith("the last batch was expected to tell")


def test_rules_that_need_what_is_not_there_say_so():
    with pytest.raises(ValueError, match="TargetAccuracy needs the test accuracy; pass test="):
        learner(test=None).run(20, stop=TargetAccuracy(0.9))
    inputs = np.random.default_rng(0).normal(size=(30, 2))
    numbers = ActiveLearner(Lines(), Pool(inputs, answers=inputs[:, 0]), "bald", k=5)
    with pytest.raises(ValueError, match="Stabilised compares classes"):
        numbers.run(20, stop=Stabilised())


def test_stabilised_decides_alike_however_often_a_run_is_taken_up(tmp_path):
    rule = Stabilised(agreement=0.9, rounds=2, points=50)
    whole = learner()
    reason = whole.run(60, stop=rule)
    assert reason.startswith("predictions have stabilised")
    store = tmp_path / "run.db"
    for _ in range(40):
        calls = []

        def tired(ids, calls=calls):
            if calls:
                raise KeyboardInterrupt
            calls.append(ids)
            return pool().answers(ids)

        with learner(store=store) as one:
            try:
                found = one.run(60, tired, stop=rule)
            except KeyboardInterrupt:
                continue
            break
    assert found == reason
    with learner(store=store) as one:
        assert one.labelled_ids.tolist() == whole.labelled_ids.tolist()
        assert one.journal.stops(1) == whole.journal.stops(1)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Budget(-1), "labels: expected a whole number of at least 0, found -1"),
        (lambda: Budget(2.5), "labels: expected a whole number"),
        (lambda: TargetAccuracy(95), "accuracy: expected a share above 0 and up to 1, found 95"),
        (lambda: TargetAccuracy(0), "accuracy: expected"),
        (lambda: TargetAccuracy(np.nan), "accuracy: expected"),
        (lambda: TargetAccuracy(0.9, patience=0), "patience: expected a whole number of at least 1, found 0"),
        (lambda: GainBelow(-0.1), "nats: expected a finite number of at least 0, found -0.1"),
        (lambda: GainBelow(np.inf), "nats: expected"),
        (lambda: GainBelow(np.nan), "nats: expected"),
        (lambda: Stabilised(agreement=1.01), "agreement: expected Cohen's kappa, at most 1, found 1.01"),
        (lambda: Stabilised(rounds=0), "rounds: expected a whole number of at least 1, found 0"),
        (lambda: Stabilised(points=0), "points: expected a whole number of at least 1, found 0"),
        (lambda: learner().run(20, stop=GainBelow), r"stop: found the class GainBelow; pass one of it: GainBelow\(…\)"),
        (lambda: learner().run(20, stop=[Budget(3), Stabilised]), "stop: found the class Stabilised"),
        (lambda: learner().run(20, stop=0.95), "stop: found 0.95, which is no rule"),
        (lambda: learner().run(20, stop=[0.95]), "stop: found 0.95, which is no rule"),
        (lambda: learner().run(20, stop=None), "stop: found None, which is no rule"),
    ],
)
def test_rules_that_make_no_sense_are_refused(make, complaint):
    with pytest.raises(ValueError, match=complaint):
        make()


@pytest.mark.parametrize("method", ["bald", "entropy"])
def test_the_gain_of_a_single_draw_is_no_reason_to_stop(method):
    from sklearn.naive_bayes import GaussianNB

    from natsel.models import Sklearn

    one = ActiveLearner(Sklearn(GaussianNB(var_smoothing=0.1)), pool(), method, k=4)
    with pytest.raises(ValueError, match="stop: GainBelow needs a model of several draws"):
        one.run(40, stop=GainBelow(0.01))
    assert one.run(20, stop=lambda view: "small" if view.gain is not None and view.gain < 1 else None).startswith(
        "the "
    )
