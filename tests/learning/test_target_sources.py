"""Targets in the loop: where they come from, which are drawn, and that a killed run draws the same."""

import math

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier

import natsel
from learning.committee import Committee, blobs, pool
from natsel import CategoricalSamples, Examples, Method, Pool, TargetInputs, Targets, TopK, memory_budget, select
from natsel.information.priors import class_prior_weights
from natsel.learning import ActiveLearner
from natsel.learning.target_sources import most_targets
from natsel.objectives import EPIG
from natsel.seeds import derive


def learner(targets="pool", method="epig", **changes):
    arguments = {"model": Committee(), "pool": pool(), "k": 3, "seed": 3, **changes}
    one = ActiveLearner(arguments.pop("model"), arguments.pop("pool"), method, targets=targets, **arguments)
    one.tell(list(range(0, 60, 10)), one.pool.answers(list(range(0, 60, 10))))
    return one


def fresh(count, seed):
    return np.random.default_rng(seed).normal(size=(count, 2))


def expected(one, targets, method="epig", number=1):
    """What an ask must be: select on the model's belief about the free ids and about these targets."""
    model = Committee().fit(one.labelled(), seed=derive(3, "fit", 6))
    free = np.setdiff1d(one.pool.ids, one.labelled_ids)
    free = np.setdiff1d(free, one.outstanding) if number > 1 else free
    belief = model.believe(one.pool.inputs_of(free)).with_ids(free)
    made = targets(model) if callable(targets) else targets
    return told(select(method, belief, 3, targets=made, seed=derive(3, "select", number)))


def told(selection):
    """Picks and their scores: other targets seldom change the picks, but always the scores."""
    return selection.ids.tolist(), selection.scores.tolist()


# Each kind of target, against the definition.


def test_a_set_small_enough_is_taken_whole():
    aims = blobs(8, seed=2).inputs
    one = learner(aims)
    wanted = expected(one, lambda model: model.believe(aims))
    assert told(one.ask()) == wanted


def test_a_larger_set_is_drawn_from_by_the_seed_of_the_batch():
    aims = blobs(50, seed=2).inputs
    one = learner(TargetInputs(aims, count=5))
    rng = np.random.default_rng(derive(3, "targets", 1))
    drawn = aims[np.sort(rng.choice(np.arange(50), 5, replace=False))]
    wanted = expected(one, lambda model: model.believe(drawn))
    assert told(one.ask()) == wanted


def test_a_stream_is_asked_for_each_batch_anew():
    calls = []

    def stream(count, seed):
        calls.append((count, seed))
        return fresh(count, seed)

    one = learner(TargetInputs(stream, count=7))
    wanted = expected(one, lambda model: model.believe(fresh(7, derive(3, "targets", 1))))
    assert told(one.ask()) == wanted
    wanted = expected(one, lambda model: model.believe(fresh(7, derive(3, "targets", 2))), number=2)
    assert told(one.ask()) == wanted
    assert calls == [(7, derive(3, "targets", 1)), (7, derive(3, "targets", 2))]


def test_the_pool_itself_is_all_of_it_but_what_is_set_aside():
    one = learner("pool")
    one.skip([5, 17])
    kept = np.setdiff1d(np.arange(60), [5, 17])
    drawn = TargetInputs("pool").draw(one.pool, seed=0)
    assert drawn.inputs.tolist() == one.pool.inputs[kept].tolist(), "labelled points still stand for inputs to come"
    assert not {5, 17} & set(one.ask(50).ids.tolist())


def test_weights_decide_what_counts():
    aims = blobs(8, seed=2).inputs
    weights = np.array([0, 0, 5.0, 0, 1, 0, 0, 0])
    one = learner(TargetInputs(aims, weights=weights))
    wanted = expected(one, lambda model: Targets(model.believe(aims[[2, 4]]), weights=[5.0, 1.0]))
    assert told(one.ask()) == wanted


def test_a_class_prior_weighs_the_pool_by_what_the_model_predicts():
    prior = [0.7, 0.3, 0.0]
    one = learner(TargetInputs("pool", class_prior=prior))

    def aims(model):
        belief = model.believe(one.pool.inputs)
        return Targets(belief, class_prior_weights(belief.mean_prediction().log_probs_N_C.exp(), torch.tensor(prior)))

    wanted = expected(one, aims)
    assert told(one.ask()) == wanted


def test_weights_are_turned_into_draws_where_a_joint_is_wanted():
    source = TargetInputs("pool", class_prior=[1.0, 0.0, 0.0], count=40, resample=True)
    drawn = source.draw(pool(), seed=1)
    assert len(drawn) == 60, "stand-ins for 40 targets: the whole small pool"
    probs_N_C = np.full((60, 3), [0.01, 0.495, 0.495])
    probs_N_C[7] = [0.98, 0.01, 0.01]
    targets = drawn.believed(CategoricalSamples.from_probs(probs_N_C[:, None]))
    assert targets.weights_M is None
    assert len(targets) == 40
    share = float((targets.belief.log_probs_N_K_C[:, 0, 0].exp() > 0.9).double().mean())
    assert share == pytest.approx(0.98 / (0.98 + 0.59), abs=0.2)
    assert len(learner(TargetInputs("pool", class_prior=[0.5, 0.5, 0.0], count=3), "jepig").ask()) == 3
    resampled = TargetInputs(np.arange(4.0)[:, None], weights=[0, 3, 0, 1], count=400, resample=True)
    inputs = resampled.draw(pool(), seed=0).inputs.ravel().tolist()
    assert set(inputs) == {1.0, 3.0}
    assert inputs.count(1.0) / 400 == pytest.approx(0.75, abs=0.07)


def test_labels_travel_with_their_targets():
    examples = blobs(20, seed=2)
    drawn = TargetInputs(examples, count=5).draw(pool(), seed=1)
    where = [examples.inputs.tolist().index(row) for row in drawn.inputs.tolist()]
    belief = CategoricalSamples.from_probs(np.full((5, 1, 3), 1 / 3))
    assert drawn.believed(belief).labels_M.tolist() == examples.labels[where].tolist()
    assert TargetInputs(examples.inputs, labels=examples.labels).draw(pool(), 0).labels.tolist() == (
        examples.labels.tolist()
    )
    streamed = TargetInputs(lambda count, seed: blobs(count, seed=seed)).draw(pool(), seed=4)
    assert streamed.labels.tolist() == blobs(1000, seed=4).labels.tolist()


# Sizes, and what the model is asked.


def test_targets_keep_to_a_quarter_of_the_memory_budget():
    belief = CategoricalSamples.from_probs(np.full((3, 10, 5), 0.2))
    each = 10 * 5 * 8 + 8
    with memory_budget(each * 4 * 7):
        assert most_targets(belief) == 7
        asked = []
        one = learner(TargetInputs(lambda count, seed: asked.append(count) or fresh(count, seed)))
        one.ask()
    assert asked == [math.floor(each * 7 / (6 * 3 * 8 + 8))]


def test_methods_that_look_at_no_targets_do_without():
    def refuse(count, seed):
        raise AssertionError("nobody asked")

    one, bare = learner(refuse, "batchbald"), learner(None, "batchbald")
    assert one.ask().ids.tolist() == bare.ask().ids.tolist()


def test_a_model_that_draws_both_together_is_asked_for_both():
    calls = []

    class Together(Committee):
        def believe_together(self, inputs, targets):
            calls.append((len(inputs), len(targets)))
            both = self.believe(np.concatenate([inputs, targets]))
            return both[: len(inputs)].with_ids(range(len(inputs))), both[len(inputs) :]

    aims = blobs(8, seed=2).inputs
    one = learner(aims, model=Together())
    assert one.ask().ids.tolist() == learner(aims).ask().ids.tolist()
    assert calls == [(54, 8)]


def test_draws_that_are_not_the_same_are_refused():
    class Fickle(Committee):
        def believe(self, inputs):
            belief = super().believe(inputs)
            return CategoricalSamples(belief.log_probs_N_K_C, draws_id=f"{len(inputs)} inputs")

    with pytest.raises(ValueError, match="predict both with the same draws"):
        learner(blobs(8, seed=2).inputs, model=Fickle()).ask()


def test_any_estimator_of_scikit_learn_and_any_unnamed_method():
    one = learner("pool", Method(EPIG(), TopK()), model=RandomForestClassifier(10, random_state=0))
    assert one.run(12) == "the budget of 12 labels is used"


# Going on after a kill.


def trajectory(one):
    return [(ask.number, ask.seed, ask.picks) for r in one.history for ask in r.asks], one.labelled_ids.tolist()


SOURCES = [
    TargetInputs(fresh, count=6),
    TargetInputs("pool", count=6),
    TargetInputs("pool", class_prior=[0.5, 0.5, 0], count=6),
]
# Every method and every source by default: what the one does with targets does not depend on where they come from.
LIVES = [
    pytest.param(method, targets, marks=() if one % 3 == other else pytest.mark.slow)
    for one, method in enumerate(["epig", "batch-epig", "power-epig", "jepig"])
    for other, targets in enumerate(SOURCES)
]


@pytest.mark.parametrize(("method", "targets"), LIVES)
def test_lives_that_end_after_each_batch_make_the_same_run(tmp_path, method, targets):
    def life(store, budget):
        with ActiveLearner(Committee(), pool(), method, k=3, seed=1, store=store, targets=targets) as one:
            one.run(budget)
            return trajectory(one)

    whole = life(tmp_path / "whole.db", 15)
    for budget in (3, 6, 9, 12, 15):
        found = life(tmp_path / "cut.db", budget)
    assert found == whole


def test_a_batch_that_was_asked_for_is_not_asked_for_again(tmp_path):
    with learner(TargetInputs(fresh, count=9), store=tmp_path / "run.db") as one:
        first = one.ask().ids.tolist()
    with learner(TargetInputs(fresh, count=9), store=tmp_path / "run.db") as one:
        assert one.outstanding.tolist() == first
        second = one.ask(new=True).ids.tolist()
    bare = learner(TargetInputs(fresh, count=9))
    assert [bare.ask().ids.tolist(), bare.ask().ids.tolist()] == [first, second]


def test_another_client_in_between_makes_the_choice_anew(tmp_path, monkeypatch):
    """A batch whose ids were taken is chosen again with the targets of its new number."""
    store = tmp_path / "run.db"
    one, other = (learner(TargetInputs(fresh, count=9), store=store) for _ in range(2))
    seen: list[list[int]] = []
    asking = natsel.learning.learner.select

    def slow(*arguments, **options):
        if not seen:
            seen.append([])
            seen[0] = other.ask().ids.tolist()
        return asking(*arguments, **options)

    monkeypatch.setattr(natsel.learning.learner, "select", slow)
    found = one.ask().ids.tolist()
    alone = learner(TargetInputs(fresh, count=9))
    assert [seen[0], found] == [alone.ask().ids.tolist(), alone.ask().ids.tolist()]


def test_the_journal_says_what_the_targets_were_and_holds_on_to_it(tmp_path):
    store = tmp_path / "run.db"
    aims = TargetInputs(blobs(8, seed=2).inputs, weights=np.arange(8.0))
    with learner(aims, store=store) as one:
        (run,) = one.journal.runs()
        assert run.terms.config["targets"]["kind"] == "set"
        assert run.terms.config["targets"]["count"] == 1000
    learner(TargetInputs(blobs(8, seed=2).inputs, weights=np.arange(8.0)), store=store).close()
    for other in (
        TargetInputs(blobs(8, seed=3).inputs, weights=np.arange(8.0)),
        TargetInputs(blobs(8, seed=2).inputs, weights=np.ones(8)),
        TargetInputs(blobs(8, seed=2).inputs, weights=np.arange(8.0), count=3),
        "pool",
    ):
        with learner(other, store=store) as one:
            assert one.ask().warnings[-1] == "changed since the last batch: targets is another now"
            one.release(one.outstanding)
            (run,) = one.journal.runs()
            assert run.current_terms.config["targets"] == one.targets.terms() != run.terms.config["targets"]


# What cannot be.


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"inputs": "pond"}, "targets: found 'pond'"),
        ({"inputs": []}, "targets: found none"),
        ({"inputs": [[0.0]], "weights": [1, 2]}, "expected a weight for each of 1 inputs"),
        ({"inputs": [[0.0]], "weights": [-1]}, "weights are numbers from 0 on"),
        ({"inputs": [[0.0]], "weights": [0.0]}, "do not all vanish"),
        ({"inputs": "pool", "weights": [1]}, "weights belong to a set of inputs; found them with a pool"),
        ({"inputs": fresh, "labels": [1]}, "labels belong to a set of inputs; found them with a stream"),
        ({"inputs": [[0.0]], "weights": [1], "class_prior": [1.0]}, "both say how much a target counts"),
        ({"inputs": "pool", "class_prior": [0.5, 0.6]}, "class prior: expected the share of each class"),
        ({"inputs": "pool", "count": 0}, "targets: count: expected a whole number of at least 1"),
        ({"inputs": "pool", "resample": True}, "resample=True draws by weights"),
        ({"inputs": Examples([[0.0]], [0]), "labels": [0]}, "leave out labels="),
        ({"inputs": [[0.0]], "labels": [0, 1]}, "expected one for each of 1 inputs"),
    ],
)
def test_targets_that_make_no_sense_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        TargetInputs(**arguments)


def test_learners_refuse_what_they_cannot_do_at_once():
    with pytest.raises(ValueError, match=r'targets: epig asks what is learned about targets; .*targets="pool"'):
        learner(None)
    with pytest.raises(ValueError, match="method: ig weighs labels that are known"):
        learner(None, "ig")
    belief = CategoricalSamples.from_probs([[[0.5, 0.5]]])
    for given in (belief, Targets(belief)):
        with pytest.raises(ValueError, match="targets: found a belief"):
            learner(given)


def test_streams_and_pools_that_run_dry_say_so():
    with pytest.raises(ValueError, match="the stream gave none of 1000"):
        TargetInputs(lambda count, seed: np.zeros((0, 2))).draw(pool(), seed=0)
    empty = Pool(np.zeros((2, 1)))
    empty.ignore([0, 1])
    with pytest.raises(ValueError, match="every point of the pool is set aside"):
        TargetInputs("pool").draw(empty, seed=0)


def test_a_class_prior_needs_classes():
    drawn = TargetInputs([[0.0]], class_prior=[1.0]).draw(pool(), seed=0)
    with pytest.raises(ValueError, match="class_prior weighs classes"):
        drawn.believed(natsel.GaussianSamples([[0.0, 1.0]], 1.0))
