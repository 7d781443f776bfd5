"""The learner, one promise at a time."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier

from learning.committee import Committee, Lines, blobs, pool
from natsel import EIG, CategoricalSamples, Method, Power, select
from natsel.choose import METHODS
from natsel.data.examples import Examples
from natsel.data.pool import Pool
from natsel.learning import ActiveLearner
from natsel.learning.learner import part_looked_at
from natsel.seeds import derive
from natsel.store import Journal


def test_bars_go_to_whoever_takes_them(monkeypatch):
    from natsel.learning import fitted_model

    bars = []

    class Told(fitted_model.ProgressBar):
        def __call__(self, done, total):
            super().__call__(done, total)
            bars.append(self.label)

    class Slow(Committee):
        def fit(self, labelled, validation=None, *, seed=0, progress=None):
            if progress:
                progress(1, 2)
            return super().fit(labelled, validation, seed=seed)

    monkeypatch.setattr(fitted_model, "ProgressBar", Told)
    for progress, expected in ((None, []), (True, ["fit to 4 labels"])):
        learner = ActiveLearner(Slow(), pool(), k=2, progress=progress)
        learner.tell(range(4), learner.pool.answers(range(4)))
        learner.ask()
        assert bars == expected


def learner(**changes):
    arguments = {"model": Committee(), "pool": pool(), "method": "batchbald", "k": 4, "seed": 3, **changes}
    return ActiveLearner(arguments.pop("model"), arguments.pop("pool"), **arguments)


def start(one, ids=range(0, 60, 10)):
    one.tell(list(ids), one.pool.answers(list(ids)))
    return one


def trajectory(one):
    """All that must not depend on when a process lived."""
    asks = [(ask.number, ask.seed, ask.revision, ask.method, ask.picks) for r in one.history for ask in r.asks]
    labels = [(label.id, label.value, label.ask) for label in one.journal.labels(1)]
    return asks, labels, [(r.revision, r.n_labelled, dict(r.metrics)) for r in one.history]


def test_an_ask_is_select_on_the_belief_about_free_ids():
    ids = np.arange(60) * 7 + 100
    one = start(learner(pool=pool(ids=ids)), ids[::10])
    first = one.ask()
    model = Committee().fit(one.labelled(), seed=derive(3, "fit", 6))
    free = np.setdiff1d(ids, one.labelled_ids)
    belief = model.believe(one.pool.inputs_of(free)).with_ids(free)
    expected = select("batchbald", belief, 4, seed=derive(3, "select", 1))
    assert first.ids.tolist() == expected.ids.tolist()
    assert first.scores.tolist() == expected.scores.tolist()
    second = one.ask(2)
    expected = select("batchbald", belief, 2, exclude=first.ids, seed=derive(3, "select", 2))
    assert second.ids.tolist() == expected.ids.tolist()
    assert one.outstanding.tolist() == [*first, *second]
    assert len(one.model.fits) == 1, "nothing was told in between, so nothing was learnt"


def test_before_any_label_the_batch_is_random_and_says_so():
    one = learner()
    first = one.ask()
    assert first.warnings == (
        "no labels yet: this batch was drawn at random, and the method decides from the first label on",
    )
    assert first.ids.tolist() == learner(method="bald").ask().ids.tolist(), "the same for every method"
    assert first.ids.tolist() != learner(seed=4).ask().ids.tolist()
    assert [pick.epistemic for pick in first.explain().picks] == [0, 0, 0, 0]
    (only,) = one.history
    assert (only.n_labelled, only.asks[0].method, only.asks[0].picks[0].epistemic) == (0, "random", None)
    with pytest.raises(ValueError, match="no labels to learn from yet"):
        one.belief(ids=[1])


def test_labels_come_late_partly_out_of_order_unasked_and_again():
    one = start(learner())
    first, second = one.ask(), one.ask()
    a, b, c, d = first
    one.tell(d, 1)
    one.tell([second.ids[0], b], np.array([2, 0]))
    one.tell(torch.tensor([59]), torch.tensor([1]))
    one.tell([d], [2])
    assert one.outstanding.tolist() == [a, c, *second.ids[1:]]
    assert one.labelled_ids.tolist() == [0, 10, 20, 30, 40, 50, d, second.ids[0], b, 59]
    assert one.labelled().labels.tolist()[6:] == [2, 2, 0, 1]
    assert one.pool.labelled_ids.tolist() == one.labelled_ids.tolist()
    assert one.pool.labels_of([d]).tolist() == [2]
    assert one.n_labelled == 10


def test_skipped_ids_never_come_again_and_released_ones_may():
    one = start(learner())
    first = one.ask()
    a, b, c, d = first
    one.skip([a, b])
    one.release(c)
    assert one.outstanding.tolist() == [d]
    assert one.pool.ignored_ids.tolist() == sorted([a, b])
    rest = [*one.ask(60)]
    assert c in rest
    assert not {a, b, d} & set(rest)
    one.tell(a, 0)  # it could be labelled after all
    assert one.pool.ignored_ids.tolist() == [b]
    assert a in one.labelled_ids


def test_an_ask_hands_out_what_is_left_and_then_nothing():
    one = start(learner())
    assert len(one.ask(50)) == 50
    last = one.ask(10)
    assert len(last) == 4
    assert last.warnings[-1] == "4 of 10 points: there are no more to hand out"
    none = one.ask()
    assert len(none) == 0
    assert none.warnings == ("no points are free: all are labelled, outstanding or skipped",)
    assert len(one.history[-1].asks) == 2, "an empty batch is not recorded"


def test_names_of_classes_are_labels_too():
    one = learner(pool=Pool(blobs().inputs, classes=("ant", "bee", "cat")))
    one.tell([1, 2, 3], ["cat", 0, "bee"])
    assert one.labelled().labels.tolist() == [2, 0, 1]
    assert one.labelled().classes == ("ant", "bee", "cat")
    with pytest.raises(ValueError, match="there is no class 'bea'; did you mean 'bee'"):
        one.tell([4, 5], ["ant", "bea"])
    assert one.n_labelled == 3, "nothing of a refused call is written"


@pytest.mark.parametrize(
    ("ids", "labels", "complaint"),
    [
        ([1, 60], [0, 1], "60 is not in the pool"),
        ([1, 1], [0, 1], "an id appears twice"),
        ([1, 2], [0], "expected one for each of 2 ids, found 1"),
        ([1], [-2], "found class -2"),
        ([1.5], [0], "expected integers or names, found"),
        ([1], [np.nan], r"labels: found no label for an id .* set it aside: learner.skip\(ids\)"),
        ([1, 2], [0, None], r"labels: found no label for an id .* set it aside: learner.skip\(ids\)"),
        ([1], [0.5], "labels: expected classes, found 0.5"),
        ([1], [[0]], "labels: expected one label each"),
    ],
)
def test_what_cannot_be_told_is_refused_before_anything_is_written(ids, labels, complaint):
    one = start(learner())
    with pytest.raises(ValueError, match=complaint):
        one.tell(ids, labels)
    assert one.journal.replay("main").revision == 6


def test_what_the_pool_knows_already_is_told_first_and_once(tmp_path):
    def begun():
        start = pool()
        start.label([4, 2], [1, 0])
        start.ignore([9])
        return learner(pool=start, store=tmp_path / "run.db")

    with begun() as one:
        assert one.labelled_ids.tolist() == [4, 2]
        one.tell([2, 30], [2, 0])
        batch = one.ask(57)
        assert 9 not in batch
        one.release(batch.ids)
    with begun() as one:
        assert one.labelled().labels.tolist() == [1, 2, 0], "the journal knows better than a pool that starts again"
        assert one.pool.labels_of([2]).tolist() == [2]
        assert len(one.journal.labels(1)) == 4


def test_a_run_follows_the_loop_as_described():
    test = blobs(seed=1)
    one = start(learner(test=test))
    seen = []
    one.progress = lambda done, total: seen.append((done, total))
    assert one.run(17) == "the budget of 17 labels is used"
    sizes = [fit.n_labelled for fit in one.history]
    assert sizes == [6, 10, 14, 17]
    assert [len(fit.ids) for fit in one.history] == [4, 4, 3, 0], "the last fit is evaluated and asks for nothing"
    assert seen == [(size, 17) for size in sizes]
    last = one.history[-1]
    belief = one.belief(test.inputs)
    right = belief.log_probs_N_K_C.exp().mean(1).argmax(-1).numpy() == test.labels
    assert last.metrics["accuracy"] == pytest.approx(right.mean())
    assert last.metrics["nll"] > 0
    assert set(one.history[0].seconds) == {"fit", "evaluate", "believe", "select"}
    assert one.labelled().labels.tolist() == one.pool.answers(one.labelled_ids)
    assert len(one.model.fits) == 4, "a fit for every set of labels, and no more"
    assert one.summary()["stopped"] == "the budget of 17 labels is used"
    assert one.run(17) == "the budget of 17 labels is used"
    assert len(one.journal.stops(1)) == 1
    one.run(20)
    assert one.n_labelled == 20


def test_a_run_ends_with_the_pool():
    one = learner(pool=pool(13))
    assert one.run(budget=100) == "nothing is left to ask for"
    assert one.n_labelled == 13
    assert [len(fit.ids) for fit in one.history] == [4, 4, 4, 1, 0]


def test_steps_are_rounds():
    one, whole = learner(), learner()
    batches = [[*one.step()] for _ in range(3)]
    whole.run(12)
    assert [list(fit.ids) for fit in whole.history][:3] == batches
    assert one.n_labelled == 12


@pytest.mark.parametrize("kind", ["array", "mapping", "callable", "names"])
def test_every_oracle_says_the_same(kind):
    ids = np.arange(60)[::-1] * 3
    labels = blobs().labels
    oracle = {
        "array": labels,
        "mapping": dict(zip(ids.tolist(), labels.tolist(), strict=True)),
        "callable": lambda wanted: labels[59 - wanted // 3],
        "names": np.array(["ant", "bee", "cat"])[labels],
    }[kind]
    bare = Pool(blobs().inputs, ids=ids, classes=("ant", "bee", "cat"))
    one, reference = learner(pool=bare), learner(pool=pool(ids=ids))
    one.run(12, oracle)
    reference.run(12)
    assert one.labelled_ids.tolist() == reference.labelled_ids.tolist()
    assert one.labelled().labels.tolist() == reference.labelled().labels.tolist()


def test_none_in_place_of_a_label_skips():
    one = learner()
    one.run(12, lambda ids: [None if id % 2 else 0 for id in ids])
    assert one.n_labelled == 12
    assert all(id % 2 == 0 for id in one.labelled_ids)
    skipped = one.pool.ignored_ids
    assert len(skipped)
    assert all(id % 2 for id in skipped)
    assert one.outstanding.tolist() == []


@pytest.mark.parametrize(
    ("oracle", "complaint"),
    [
        (lambda ids: [0], "gave 1 labels for 4 ids"),
        ({}, r"oracle: id .* \(4 in all\) has none; give every id one"),
        ([0, 1], r"one label for each of the pool's 60 rows, found shape \(2,\)"),
    ],
)
def test_an_oracle_that_fails_leaves_the_batch_outstanding(oracle, complaint):
    one = learner()
    with pytest.raises(ValueError, match=complaint):
        one.run(12, oracle)
    assert len(one.outstanding) == 4
    one.run(12)
    assert one.labelled_ids.tolist() == (other := learner(), other.run(12))[0].labelled_ids.tolist()


def test_candidates_look_at_a_seeded_part_of_what_is_free():
    seen = []

    class Watched(Committee):
        def believe(self, inputs):
            seen.append(len(inputs))
            return super().believe(inputs)

    one = start(learner(model=Watched(), candidates=20))
    batches = [[*one.ask()] for _ in range(3)]
    assert seen[2:] == [20, 20, 20]  # the first two tried whether draws are consistent
    again = start(learner(candidates=20))
    assert [[*again.ask()] for _ in range(3)] == batches
    free = np.setdiff1d(np.arange(60), one.labelled_ids)
    part = np.sort(np.random.default_rng(derive(3, "part", 1)).choice(54, 20, replace=False))
    assert set(batches[0]) <= set(free[part])


def test_a_part_of_the_pool_is_in_the_order_of_the_pool():
    """Random numbers belong to places, so that order decides; ids need not rise along the pool."""
    ids = np.random.default_rng(0).permutation(100)
    part = part_looked_at(ids, METHODS["bald"], 2, 40, seed=1)
    assert len(set(part)) == 40
    assert part.tolist() == [one for one in ids if one in set(part)]


def test_random_believes_about_nothing():
    seen = []

    class Watched(Committee):
        def believe(self, inputs):
            seen.append(len(inputs))
            return super().believe(inputs)

    one = start(learner(model=Watched(), method="random"))
    counts = np.zeros(60)
    for _ in range(40):
        batch = one.ask()
        assert len(set(batch)) == 4
        counts[batch.ids] += 1
        one.release(batch.ids)
    assert seen == [], "no model is fitted, so that nothing is believed"
    assert counts[::10].sum() == 0
    assert (counts > 0).sum() > 45, "160 draws from 54 leave few untouched"


def test_targets_are_believed_about_with_the_same_model():
    one = start(learner(targets=blobs(8, seed=2)))
    assert len(one.ask()) == 4  # bald does not look at them, but must be able to have them


def test_regression_runs_alike():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(50, 2))
    numbers = inputs @ [1.0, -2.0] + 0.1 * rng.normal(size=50)
    test = Examples(inputs, numbers)
    one = ActiveLearner(Lines(), Pool(inputs, answers=numbers), "batchbald", k=5, test=test)
    one.run(20)
    assert one.labelled().labels.dtype == np.float64
    assert one.labelled().labels.tolist() == numbers[one.labelled_ids].tolist()
    errors = [fit.metrics["rmse"] for fit in one.history if fit.revision]
    assert errors[-1] < 0.2
    assert {"rmse", "nll", "mae", "largest error"} <= set(one.history[-1].metrics)
    assert one.history[-2].asks[0].picks[0].epistemic > 0


def test_classes_not_seen_yet_are_known_of_from_the_test_set():
    bare = Pool(blobs().inputs)
    one = learner(pool=bare, test=blobs(seed=1))
    one.tell([0, 3, 6, 1], [0, 0, 0, 1])
    one.ask()
    assert one.belief(bare.inputs).shape[2] == 3


def test_a_model_that_takes_no_seed_and_any_scikit_learn_estimator_will_do():
    from sklearn.ensemble import RandomForestClassifier

    class Plain:
        def fit(self, labelled, validation=None):
            self.share = labelled.labels.mean()

        def believe(self, inputs):
            return CategoricalSamples.from_probs(np.full((len(inputs), 1, 3), 1 / 3))

    assert len(start(learner(model=Plain(), method="entropy")).ask()) == 4
    one = learner(model=RandomForestClassifier(10), method="bald")
    one.run(16)
    other = learner(model=RandomForestClassifier(10), method="bald")
    other.run(16)
    assert trajectory(one)[0][1:] == trajectory(other)[0][1:]


def test_draws_that_change_from_point_to_point_are_refused():
    class Noisy(Committee):
        def believe(self, inputs):
            return CategoricalSamples.from_logits(np.random.default_rng().normal(size=(len(inputs), 6, 3)))

    with pytest.raises(ValueError, match="two copies of one point"):
        start(learner(model=Noisy())).ask()


def test_a_belief_of_the_wrong_length_is_refused():
    class Short(Committee):
        def believe(self, inputs):
            return super().believe(inputs[1:] if len(inputs) == 54 else inputs)

    with pytest.raises(ValueError, match="believe gave 53 rows for 54 inputs"):
        start(learner(model=Short())).ask()


def test_checkpoints_spare_the_fit_and_bring_the_same_batch(tmp_path):
    arguments = {"store": tmp_path / "run.db", "checkpoints": True}
    with start(learner(**arguments)) as one:
        belief = one.belief(ids=[1, 2])
    with learner(**arguments) as two:
        assert torch.equal(two.belief(ids=[1, 2]).log_probs_N_K_C, belief.log_probs_N_K_C)
        assert two.model.fits == []
        assert two.ask().ids.tolist() == start(learner()).ask().ids.tolist()
    with pytest.raises(ValueError, match="checkpoints: Lines cannot give its weights"):
        learner(model=Lines(), checkpoints=True)


def test_any_method_of_the_grid_is_recorded_and_compared(tmp_path):
    store = tmp_path / "run.db"
    learner(method=Method(EIG(), Power(beta=4)), store=store).close()
    learner(method=Method(EIG(), Power(beta=4)), store=store).close()
    with pytest.raises(ValueError, match=r"method: the run goes by .*, a method of its own; pass it as method=…"):
        learner(method=None, store=store)
    with pytest.raises(ValueError, match=r"run of seed 3, not 4;"):
        learner(method=Method(EIG(), Power(beta=4)), store=store, seed=4)
    with pytest.raises(ValueError, match=r"pool: it lacks 1 of the 60 points that .*, the first 59; open it"):
        learner(method=Method(EIG(), Power(beta=4)), store=store, pool=pool(59))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"k": 0}, "k: expected"),
        ({"k": 2.5}, "k: expected"),
        ({"candidates": -1}, "candidates: expected"),
        ({"pool": np.zeros((3, 2))}, r"pool: expected a natsel.Pool, found ndarray; natsel.Pool\(inputs\) makes one"),
        ({"pool": Pool}, "pool: expected a natsel.Pool, found the class Pool"),
        ({"test": np.zeros((3, 2))}, r"test: expected natsel.Examples or a pair \(inputs, labels\), found ndarray"),
        ({"validation": 3}, "validation: expected natsel.Examples or a pair"),
        ({"test": ([[0.0]], [0], [1])}, "test: expected natsel.Examples or a pair"),
        ({"store": 3}, "store: expected the path of a file or a natsel.Journal, found 3"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        learner(**arguments)


def test_examples_of_another_task_are_refused():
    named = Pool(blobs().inputs, classes=("ant", "bee", "cat"))
    one = learner(pool=named, test=Examples(blobs().inputs[:2], ["cat", "bee"]))
    assert one._fitted.test.labels.tolist() == [2, 1], "classes are told apart by their names"
    with pytest.raises(ValueError, match="validation: found no labels"):
        learner(validation=Examples(blobs().inputs))
    assert learner(pool=named, test=(blobs().inputs, blobs().labels)).ask() is not None


@pytest.mark.parametrize("checkpoints", [False, True])
def test_a_network_taken_up_again_chooses_alike(tmp_path, checkpoints):
    from natsel.models.dropout.dropout import Dropout
    from natsel.models.networks.architectures import mlp
    from natsel.models.networks.training import Training

    def made(store):
        inputs = Pool(blobs().inputs.astype(np.float32), answers=blobs().labels)
        model = Dropout(mlp(2, 3, hidden=(16,)), draws=8, training=Training(max_epochs=4), device="cpu")
        return learner(model=model, pool=inputs, store=store, checkpoints=checkpoints, test=blobs(30, seed=1))

    whole = made(None)
    whole.run(16)
    for budget in (4, 8, 12, 16):
        with made(tmp_path / "run.db") as one:
            one.run(budget)
    with made(tmp_path / "run.db") as one:
        assert one.labelled_ids.tolist() == whole.labelled_ids.tolist()
        assert one.history[-1].metrics == whole.history[-1].metrics


def test_a_learner_can_be_read_after_it_is_closed(tmp_path):
    with learner(store=tmp_path / "run.db") as one:
        one.run(8)
    assert one.n_labelled == len(one.labelled_ids) == 8
    with pytest.raises(ValueError, match="was closed; open it again"):
        one.ask()
    with Journal() as journal, learner(store=journal) as two:
        two.run(4)
        two.close()
        assert two.history, "a journal that was handed in is left open"


def test_nothing_random_is_left_changed():
    np_before, torch_before = np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    learner(method="power-bald", candidates=30).run(12)
    assert np.random.get_state()[1].tolist() == np_before  # noqa: NPY002
    assert torch.get_rng_state().tolist() == torch_before


@pytest.mark.parametrize("method", ["batchbald", "power-bald", "random"])
def test_reopened_between_any_two_calls_it_goes_on_alike(tmp_path, method):
    """Ask, partial and late tells, corrections, skips, releases: by one learner, and by a new one for every call."""

    def calls():
        yield lambda one: one.ask(new=True)
        yield lambda one: one.tell(one.outstanding[:2], [0, 1])
        yield lambda one: one.ask(3, new=True)
        yield lambda one: one.tell(one.outstanding[::-1][:4], [2, 1, 0, 1])
        yield lambda one: one.skip(one.outstanding[:1])
        yield lambda one: one.tell(one.labelled_ids[:1], [2])
        yield lambda one: one.ask(new=True)
        yield lambda one: one.release(one.outstanding[1:3])
        yield lambda one: one.run(20)

    arguments = {"method": method, "candidates": 30, "test": blobs(seed=1)}
    whole = learner(**arguments)
    for number, call in enumerate(calls()):
        call(whole)
        with learner(store=tmp_path / "run.db", **arguments) as one:
            call(one)
            assert trajectory(one) == trajectory(whole), f"after call {number}"
            assert one.outstanding.tolist() == whole.outstanding.tolist()
    assert whole.n_labelled == 20


def test_two_clients_on_one_journal_see_each_other(tmp_path):
    store = tmp_path / "run.db"
    with learner(store=store, who="anna") as anna, learner(store=store, who="ben") as ben:
        start(anna)
        assert ben.n_labelled == 6
        first, second = anna.ask(), ben.ask()
        assert not set(first) & set(second)
        ben.tell(first.ids[:1], [0])
        assert first.ids[0] not in anna.outstanding
        assert anna.pool.labels_of(first.ids[:1]).tolist() == [0]
        anna.run(15)
        assert set(ben.outstanding) == set(second), "what ben was given is left to ben"
        assert ben.run(20) == "the budget of 20 labels is used"
        assert anna.n_labelled == 20
        assert {label.who for label in anna.journal.labels(1)} == {"anna", "ben"}


def test_an_id_taken_while_choosing_is_chosen_around(tmp_path):
    """Between this client's fit and its ask another takes its whole batch: it must choose again, without fitting."""
    store = tmp_path / "run.db"
    with start(learner(store=store, who="anna")) as anna, learner(store=store, who="ben", method="batchbald") as ben:
        believe = anna.model.believe
        taken = []

        def slow(inputs):
            belief = believe(inputs)
            if len(inputs) == 54 and not taken:
                taken.extend(ben.ask())
            return belief

        anna.model.believe = slow
        batch = anna.ask()
        assert len(taken) == len(batch) == 4
        assert not set(taken) & set(batch)
        assert len(anna.model.fits) == 1
        asks = [ask for fit in anna.history for ask in fit.asks]
        assert [(ask.number, ask.who) for ask in asks] == [(1, "ben"), (2, "anna")]
        assert asks[1].seed == derive(3, "select", 2)


def test_two_runs_share_a_budget(tmp_path):
    store = tmp_path / "run.db"
    with learner(store=store, who="anna") as anna, learner(store=store, who="ben") as ben:
        start(anna)
        ben.ask()
        assert anna.run(12) == "nothing is left to ask for: 4 ids are outstanding with other clients"
        assert anna.n_labelled == 8
        ben.run(12)
        assert ben.n_labelled == 12


def test_own_models_need_no_validation_and_must_return_a_belief():
    class Bare(Committee):
        def fit(self, labelled, seed=0):
            return super().fit(labelled, seed=seed)

    one = start(learner(model=Bare(), validation=blobs(seed=1)))
    assert one.ask().ids.tolist() == start(learner()).ask().ids.tolist(), "the seed came through"

    class Seen(Committee):
        def fit(self, labelled, others, /, *, seed=0):
            self.others = others
            return super().fit(labelled, seed=seed)

    seen = start(learner(model=Seen(), validation=blobs(seed=1)))
    seen.ask()
    assert len(seen.model.others) == 60

    class Probabilities(Committee):
        def believe(self, inputs):
            return np.full((len(inputs), 3), 1 / 3)

    with pytest.raises(ValueError, match=r"model: believe gave ndarray, not a belief; return one.*from_probs"):
        start(learner(model=Probabilities())).ask()


def test_a_regressor_takes_whole_numbers_for_numbers(tmp_path):
    from sklearn.linear_model import Ridge

    store, inputs = tmp_path / "run.db", np.arange(20.0)[:, None]
    with ActiveLearner(Ridge(), Pool(inputs), "bald", k=2, store=store) as one:
        one.tell([0, 1, 2], [1, 2, 3])
        one.tell(3, 1.5)
        one.tell(4, -1)
        one.run(9, oracle=lambda ids: -ids)
        assert one.labelled().labels.tolist()[:5] == [1, 2, 3, 1.5, -1]
        assert one.summary()["n_skipped"] == 0
        assert one.n_labelled == 9
    with ActiveLearner(Ridge(), Pool(inputs), "bald", k=2, store=store) as two:
        assert two.labelled().labels.dtype == np.float64
    below = Pool(inputs, answers=-np.arange(20))
    ActiveLearner(Ridge(), below)
    assert below.answers([0, 1, 19]) == [0.0, -1.0, -19.0]


def test_a_journal_of_whole_numbers_goes_on_as_numbers(tmp_path):
    """Regressors wrote such journals before pools could be told the kind."""
    from sklearn.linear_model import Ridge

    store, inputs = tmp_path / "run.db", np.arange(20.0)[:, None]
    with ActiveLearner(Ridge(), Pool(inputs), "bald", k=2, store=store) as one:
        one.journal.tell(one.journal.replay("main"), [0, 1, 2], [1, 2, 3])
    with ActiveLearner(Ridge(), Pool(inputs), "bald", k=2, store=store, test=(inputs, [1] * 20)) as two:
        assert two.labelled().labels.dtype == np.float64
        two.tell(3, 1.5)
        assert len(two.ask()) == 2
        assert {"rmse", "nll"} <= set(two.history[-1].metrics)


def test_any_classifier_chooses_by_what_its_members_disagree_about():
    from sklearn.linear_model import LogisticRegression

    first = start(learner(model=LogisticRegression(), method="bald")).ask()
    assert not first.warnings
    assert first.scores.max() > 0


def test_progress_is_shown_while_a_batch_is_chosen(monkeypatch):
    shown = []

    class Bar:
        def __init__(self, label):
            self.label = label

        def __call__(self, done, total):
            shown.append((self.label, done, total))

        def wipe(self):
            shown.append((self.label, "wiped"))

    monkeypatch.setattr("natsel.learning.fitted_model.ProgressBar", Bar)
    one = start(learner(method="batchbald", progress=True))
    one.ask(3)
    assert [line for line in shown if line[0] == "choose"] == [
        ("choose", 1, 3),
        ("choose", 2, 3),
        ("choose", 3, 3),
        ("choose", "wiped"),
    ]


WORDS = ["low", "high", "low", "high"]


def named(**changes):
    pandas = pytest.importorskip("pandas", reason="needs the extra tables")
    rows = pandas.DataFrame({"x": np.arange(12.0)}, index=[f"p{place}" for place in range(12)])
    return ActiveLearner(RandomForestClassifier(5, random_state=0), Pool(rows), **{"method": "bald", "k": 4, **changes})


def test_told_labels_go_by_their_own_ids():
    pandas = pytest.importorskip("pandas", reason="needs the extra tables")
    ids = ["p3", "p0", "p7", "p5"]
    column = pandas.Series(WORDS, index=ids)
    for told in (
        (ids, column[::-1]),
        (ids, dict(column[::-1])),
        (column,),
        (column.to_dict(),),
        (column.index, column),
    ):
        one = named()
        one.tell(*told)
        assert {row["id"]: row["class"] for row in one.labels()} == dict(zip(ids, WORDS, strict=True))
    one = named()
    one.tell(ids, pandas.Series(WORDS))  # an index that counts names nothing
    assert [row["class"] for row in one.labels()] == WORDS
    with pytest.raises(ValueError, match=r"labels: id 'q3' \(1 in all\) is not among the ids, which go by 'p3'"):
        one.tell(ids, column.rename({"p3": "q3"}))
    with pytest.raises(ValueError, match="labels: found none beside the ids; pass tell"):
        one.tell(pandas.Series(WORDS))
    with pytest.raises(ValueError, match="labels: found none beside the ids; pass tell"):
        one.tell(ids)
    with pytest.raises(ValueError, match="ids: 'q1' is not in the pool"):
        one.tell({"q1": "low"})
    assert one.n_labelled == 4


def test_a_column_that_only_counts_is_refused_beside_the_same_numbers_in_another_order():
    pandas = pytest.importorskip("pandas", reason="needs the extra tables")
    one = learner()
    with pytest.raises(ValueError, match=r"labels.to_dict\(\) to go by id, or labels.to_numpy\(\) to go by position"):
        one.tell([1, 0], pandas.Series([0, 1]))
    one.tell([1, 0], pandas.Series([0, 1]).to_dict())
    assert one.pool.labels_of([0, 1]).tolist() == [0, 1]


def test_an_oracle_that_is_a_column_answers_by_id():
    pandas = pytest.importorskip("pandas", reason="needs the extra tables")
    one = named()
    truth = pandas.Series(np.arange(12) // 6, index=one.pool.ids)
    one.run(8, truth.sample(frac=1, random_state=1))
    assert one.pool.labels_of(one.labelled_ids).tolist() == truth[one.labelled_ids].tolist()
    with pytest.raises(ValueError, match=r"oracle: .* is not among the rows of the pool"):
        one.run(12, truth.rename(lambda id: id + "?"))
    unnamed = learner()  # an array names nothing
    column = pandas.Series(np.arange(60) % 2, index=np.arange(60)[::-1])
    unnamed.run(4, column)
    assert unnamed.pool.labels_of(unnamed.labelled_ids).tolist() == (unnamed.labelled_ids % 2).tolist()


def test_a_belief_about_a_data_frame_goes_by_its_index():
    one = named()
    one.tell(["p0", "p11"], ["low", "high"])
    rows = one.pool.inputs.frame.iloc[[4, 2]]
    assert one.belief(rows).ids.tolist() == ["p4", "p2"]
    assert one.predict(rows).tolist() == one.predict(ids=["p4", "p2"]).tolist()


def test_a_journal_says_how_labels_were_put_beside_the_inputs():
    one = learner(pool=Pool(np.arange(9.0)[:, None], labels={8: 1, 0: 0}))
    assert one.journal.runs()[0].terms.notes["labels"] == "by id"
    two = learner(pool=Pool(np.arange(9.0)[:, None], answers=[0] * 9))
    assert two.journal.runs()[0].terms.notes["answers"] == "by position"


@pytest.mark.parametrize("name", ["test", "validation"])
def test_examples_for_tests_come_in_any_form(name):
    rows = np.array([[-1.0], [20.0]], dtype=np.float32)
    pairs = torch.utils.data.TensorDataset(torch.tensor(rows), torch.tensor([0, 1]))
    forms = [(rows, [0, 1]), Examples(rows, [0, 1]), pairs, (rows, {1: 1, 0: 0})]
    found = [learner(**{name: form})._fitted._examples_given[name] for form in forms]
    for one in found:
        assert np.asarray(one.inputs[:]).tolist() == rows.tolist()
        assert one.labels.tolist() == [0, 1]
    frame = pytest.importorskip("pandas", reason="needs the extra tables").DataFrame({"x": [-1.0, 20.0], "y": [0, 1]})
    one = learner(**{name: (frame, "y")})._fitted._examples_given[name]
    assert (one.inputs.names, one.labels.tolist()) == (("x",), [0, 1])


def test_random_fits_no_model_to_choose(tmp_path):
    model = Committee()
    one = start(learner(model=model, method="random", store=tmp_path / "run.db"))
    batch = one.ask()
    one.tell(batch.ids, one.pool.answers(batch.ids))
    again = one.step()
    assert model.fits == []
    assert again.warnings == ()
    assert [(pick.score is None, pick.epistemic, pick.gain) for pick in again.explain().picks] == [
        (False, None, None)
    ] * 4
    assert [(fit.n_labelled, len(fit.ids)) for fit in one.history] == [(6, 4), (10, 4)]
    assert one.run(22) == "the budget of 22 labels is used"
    assert len(model.fits) == 1, "at the end of a run"
    one.step()
    assert len(one.predict(ids=[0])) == 1
    assert len(model.fits) == 2, "for who asks for predictions"


def test_random_is_measured_where_there_are_examples_and_picks_the_same():
    measured, plain = (start(learner(method="random", **more)) for more in ({"test": blobs(seed=1)}, {}))
    for one in (measured, plain):
        one.run(18)
    assert measured.labelled_ids.tolist() == plain.labelled_ids.tolist()
    assert [len(one.model.fits) for one in (measured, plain)] == [4, 1]
    assert all("accuracy" in fit.metrics for fit in measured.history)
    watched = start(learner(method="random"))
    watched.run(18, stop=lambda view: None)
    assert len(watched.model.fits) == 4, "a rule may look at the model"


def test_an_ask_where_nothing_is_free_fits_nothing():
    one = start(learner())
    one.ask(54)
    one.tell(one.outstanding, one.pool.answers(one.outstanding))
    fits = len(one.model.fits)
    assert len(one.ask(new=True)) == 0
    assert len(one.model.fits) == fits


def test_a_warning_that_stands_is_said_once_in_a_run(tmp_path):
    def draws(warnings):
        return [one.split(":")[0] for one in warnings if "draws" in one]

    few = {"model": Committee(2), "k": 10}
    one = start(learner(**few))
    assert [draws(one.step().warnings) for _ in range(2)] == [["draws exhausted"], []]
    assert [draws(ask.warnings) for fit in one.history for ask in fit.asks] == [["draws exhausted"]] * 2, "it keeps all"
    with start(learner(**few, store=tmp_path / "run.db")) as one:
        assert draws(one.step().warnings) == ["draws exhausted"]
    with learner(**few, store=tmp_path / "run.db") as one:
        assert draws(one.step().warnings) == [], "the run has said it, whoever opens it again"


def test_rare_positives_are_counted_and_ranked():
    everything = blobs(60, classes=2)
    rare = np.where(np.arange(60) % 10 == 0, 1, 0)
    pool = Pool(everything.inputs, answers=rare)
    one = start(learner(pool=pool, test=Examples(everything.inputs, rare)), range(12))
    one.run(20)
    last = one.history[-1].metrics
    assert last["positives found"] == one.labelled().labels.sum() >= 2
    assert 0 <= last["average precision"] <= 1
    three = start(learner(test=blobs(seed=1)))
    three.run(10)
    assert not {"positives found", "average precision"} & set(three.history[-1].metrics)
