"""Junk in the pool: rejected or shown, counted, and the same after a kill."""

import numpy as np
import pytest

from learning.committee import Committee, blobs, pool
from natsel import ActiveLearner, Examples, Pool
from natsel.data.transforms import with_junk
from natsel.learning import Queries, junk_share
from natsel.learning.oracles import answers
from natsel.models import Dropout, Ensemble, Training, mlp

QUICK = Training(max_epochs=4)


def mixed():
    """40 points in three clouds, and 20 far from all of them that are junk."""
    return with_junk(blobs(40), np.random.default_rng(1).normal(size=(20, 2)) + 12)


def model(kind=Dropout):
    size = {"draws": 8} if kind is Dropout else {"members": 3}
    return kind(mlp(2, 3), training=QUICK, device="cpu", **size)


@pytest.mark.parametrize(
    "oracle",
    [
        lambda ids: ([0] * len(ids), np.asarray(ids) >= 40),
        lambda ids: (np.zeros(len(ids), dtype=int), list(map(bool, ids >= 40))),
        lambda ids: [(0, bool(id >= 40)) for id in ids],
        lambda ids: [(None if id >= 40 else 0) for id in ids],
        {id: (0, id >= 40) for id in range(60)},
        {id: (None if id >= 40 else 0) for id in range(60)},
    ],
)
def test_oracles_say_what_is_junk_in_several_ways(oracle):
    there = Pool(np.zeros((60, 1)), classes=("a", "b"))
    assert answers(oracle, there, [3, 50]) == [0, None]
    assert answers(oracle, there, [3, 4]) == [0, 0]


def test_two_labels_for_two_ids_are_no_pair():
    there = Pool(np.zeros((60, 1)), classes=("a", "b"))
    assert answers(lambda ids: (1, 0), there, [3, 4]) == [1, 0]
    assert answers(lambda ids: ("a", "b"), there, [3, 4]) == ["a", "b"]


def test_rejected_junk_teaches_nothing_and_costs_no_labels():
    one = ActiveLearner(Committee(), Pool.with_answers(mixed()), "random", k=4, seed=2)
    assert one.run(16) == "the budget of 16 labels is used"
    assert (one.labelled_ids < 40).all()
    assert one.summary()["n_skipped"] > 0
    assert len(one.model.fits[-1][0]) == 16


def test_queries_are_a_budget_that_junk_uses():
    one = ActiveLearner(Committee(), Pool.with_answers(mixed()), "random", k=4, seed=2)
    assert one.run(stop=Queries(16)) == "the budget of 16 queries is used"
    assert one.n_labelled + one.summary()["n_skipped"] == 16
    assert one.n_labelled < 16
    for wrong in (-1, 2.5, True):
        with pytest.raises(ValueError, match="queries: expected a whole number"):
            Queries(wrong)


def test_the_share_of_junk_in_each_batch_and_so_far():
    one = ActiveLearner(Committee(), Pool.with_answers(mixed()), "random", k=4, seed=2)
    one.run(stop=Queries(20))
    each, so_far = junk_share(one.history, range(40, 60))
    asks = sorted((ask for r in one.history for ask in r.asks), key=lambda ask: ask.number)
    assert each == [np.mean([id >= 40 for id in ask.ids]) for ask in asks]
    assert so_far[-1] == pytest.approx(one.summary()["n_skipped"] / 20)
    assert so_far[0] == each[0]


@pytest.mark.parametrize("kind", [Dropout, pytest.param(Ensemble, marks=pytest.mark.slow)])
def test_exposed_junk_is_learnt_as_no_class_at_all(kind):
    seen = []

    class Watched(kind):
        def fit(self, labelled, validation=None, **options):
            seen.append(labelled)
            return super().fit(labelled, validation, **options)

    size = {"draws": 8} if kind is Dropout else {"members": 3}
    watched = Watched(mlp(2, 3), training=Training(max_epochs=40), device="cpu", **size)
    everything = mixed()
    one = ActiveLearner(watched, Pool.with_answers(everything), "bald", k=4, junk="expose", test=blobs(30, seed=3))
    one.tell(list(range(12)), one.pool.answers(list(range(12))))
    one.skip([40, 45, 50])
    one.ask()
    soft = np.asarray(seen[-1].labels)
    assert soft[:12].tolist() == np.eye(3)[everything.labels[:12]].tolist()
    assert soft[12:].tolist() == [[1 / 3] * 3] * 3
    assert np.asarray(seen[-1].inputs[12:]).tolist() == everything.inputs[[40, 45, 50]].tolist()
    assert one.history[-1].n_labelled == 12
    far = one.belief(ids=range(51, 60)).log_probs_N_K_C.exp().mean(1)
    plain = ActiveLearner(model(kind), Pool.with_answers(mixed()), "bald", k=4)
    plain._fitted.model.training = Training(max_epochs=40)
    plain.tell(list(range(12)), plain.pool.answers(list(range(12))))
    sure = plain.belief(ids=range(51, 60)).log_probs_N_K_C.exp().mean(1)
    assert float(far.max(1).values.mean()) < float(sure.max(1).values.mean()) - 0.1


def test_every_change_of_what_is_taught_is_a_fit_of_its_own():
    one = ActiveLearner(model(), pool(), "bald", k=2, junk="expose")
    one.tell([0, 1, 2], one.pool.answers([0, 1, 2]))
    names = []
    for change in (lambda: None, lambda: one.skip([7]), lambda: one.tell([7], [0]), lambda: one.tell([7], [1])):
        change()
        one.belief(ids=[9])
        names.append(one._fitted.revision)
    assert names == sorted(set(names))
    assert [r.revision for r in one.history if r.revision] == names


def test_exposed_runs_go_on_alike_after_a_kill(tmp_path):
    def life(store, stop):
        with ActiveLearner(
            model(), Pool.with_answers(mixed()), "bald", k=3, seed=1, store=store, junk="expose", test=blobs(20, seed=3)
        ) as one:
            one.run(stop=Queries(stop))
            asks = [(ask.number, ask.seed, ask.picks) for r in one.history for ask in r.asks]
            return asks, [(r.revision, dict(r.metrics)) for r in one.history], one.labelled_ids.tolist()

    whole = life(tmp_path / "whole.db", 15)
    for queries in (3, 9, 15):
        found = life(tmp_path / "cut.db", queries)
    assert found == whole
    with pytest.raises(ValueError, match="junk expose, not None"):
        ActiveLearner(model(), Pool.with_answers(mixed()), "bald", k=3, seed=1, store=tmp_path / "whole.db")


def test_junk_that_cannot_be_shown_is_refused():
    with pytest.raises(ValueError, match="junk: expected 'reject' or 'expose', found 'keep'"):
        ActiveLearner(Committee(), pool(), junk="keep")
    with pytest.raises(ValueError, match="junk: 'expose' teaches that no class is likely, found Committee"):
        ActiveLearner(Committee(), pool(), junk="expose")
    numbers = Pool.with_answers(Examples(np.zeros((4, 1)), np.array([0.5, 1.5, 2.5, 3.5])))
    with pytest.raises(ValueError, match="found real numbers"):
        ActiveLearner(model(), numbers, junk="expose")
