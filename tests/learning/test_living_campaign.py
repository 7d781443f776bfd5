"""A campaign lives: pools grow, classes turn up late, methods change; the journal records it and decides the rest."""

from pathlib import Path
from uuid import UUID

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from learning.committee import Committee, blobs
from natsel.data.pool import Pool
from natsel.learning import ActiveLearner
from natsel.store import Journal

EVERYTHING = blobs(90)
NAMES = [f"scan {number:03d}.png" for number in range(90)]
KINDS = ("ant", "bee", "cat")


def opened(store, points, *, method="bald", k=3, classes=(), **arguments):
    """A learner about some points, which go by their names."""
    rows = list(points)
    pool = Pool(EVERYTHING.inputs[rows], ids=[NAMES[row] for row in rows], classes=classes)
    return ActiveLearner(Committee(), pool, method, k, store, seed=1, **arguments)


def named(ids):
    return [KINDS[EVERYTHING.labels[NAMES.index(id)]] for id in ids]


@pytest.mark.parametrize(
    "ids",
    [NAMES, [Path("scans") / name for name in NAMES], [UUID(int=number) for number in range(90)]],
    ids=["texts", "paths", "uuids"],
)
def test_ids_of_any_kind_come_back_as_they_were_given(tmp_path, ids):
    def made(store):
        return ActiveLearner(Committee(), Pool(EVERYTHING.inputs, ids=ids), "batchbald", 4, store, seed=1)

    plain = ActiveLearner(Committee(), Pool(EVERYTHING.inputs), "batchbald", 4, seed=1)
    with made(tmp_path / "run.db") as one:
        for learner, names in ((plain, None), (one, ids)):
            batch = learner.ask()
            rows = [number if names is None else names.index(number) for number in batch]
            learner.tell(batch.ids, EVERYTHING.labels[rows])
        assert list(one.labelled_ids) == [ids[number] for number in plain.labelled_ids]
    with made(tmp_path / "run.db") as one:  # as after a kill
        batch, expected = one.ask(), plain.ask()
        assert list(batch) == [ids[number] for number in expected]
        assert list(one.outstanding) == list(batch)
        one.tell(str(batch.ids[0]), 1)  # a path or a UUID may be told as its text
        one.skip(batch.ids[1:2])
        one.release(batch.ids[2:])
        assert one.labelled_ids[-1] == batch.ids[0]
        assert list(one.belief(ids=batch.ids[:2]).ids) == list(batch.ids[:2])
    with Journal(tmp_path / "run.db") as journal:
        assert all(isinstance(label.id, str) for label in journal.labels(1))
        assert journal.export(tmp_path / "labels.csv") == 5
    assert str(batch.ids[0]) in (tmp_path / "labels.csv").read_text()


def test_a_pool_may_grow_in_any_order_and_the_next_batch_follows_from_the_journal(tmp_path):
    old, new = list(range(20, 60)), list(range(90))
    with opened(tmp_path / "run.db", old) as one:
        batch = one.ask()
        one.tell(batch.ids, named(batch))
    for number, order in enumerate((new, new[::-1], new[40:] + new[:40])):
        copy = tmp_path / f"copy {number}.db"
        with Journal(tmp_path / "run.db") as journal:
            journal.copy(copy)
        if number:  # the same points, sorted otherwise on another day
            with opened(copy, new) as first:
                assert first.n_labelled == 3
        with opened(copy, order) as one:
            found = one.ask(5)
            if number == 0:
                expected = list(found)
                assert found.warnings[-1] == "changed since the last batch: 50 points joined the pool"
            assert list(found) == expected, "the order of joining decides, not the order of the files today"
            (run,) = one.journal.runs()
            assert [amendment.detail for amendment in run.amendments] == [
                {"points": 40},
                {"classes": sorted(set(named(batch)))},
                {"points": 50},
            ]


def test_a_point_stays_what_it_was_and_none_is_lost(tmp_path):
    opened(tmp_path / "run.db", range(40)).close()
    with pytest.raises(ValueError, match=r"pool: it lacks 10 of the 40 points that .*, the first 'scan 000.png'; open"):
        opened(tmp_path / "run.db", range(10, 60))
    rows = EVERYTHING.inputs[:50].copy()
    rows[7] += 1
    with pytest.raises(ValueError, match=r"pool: 1 of the 40 points .* holds another input now: 'scan 007.png'; open"):
        ActiveLearner(Committee(), Pool(rows, ids=NAMES[:50]), "bald", 3, tmp_path / "run.db", seed=1)
    with opened(tmp_path / "run.db", range(40)) as one:
        (run,) = one.journal.runs()
        assert [amendment.detail for amendment in run.amendments] == [{"points": 40}], "nothing refused is written"


def test_two_clients_one_of_which_knows_more_points(tmp_path):
    with opened(tmp_path / "run.db", range(30), who="ann") as ann:
        ann.tell(NAMES[:6], named(NAMES[:6]))
        with opened(tmp_path / "run.db", range(60), who="ben") as ben:
            far = ben.ask(40)
            assert len(far) == 40
            near = ann.ask(20)
            assert not {*near} & {*far}
            assert {*ann.outstanding} == {*near, *far}
            ann.tell(near.ids, named(near))
            late = next(id for id in far if id not in ann.pool.ids)
            ben.tell([late], named([late]))
            assert ann.n_labelled == ben.n_labelled == 7 + len(near)
            with pytest.raises(ValueError, match=f"pool: 1 labelled points joined .* the first '{late}'; make the"):
                ann.predict(ids=NAMES[:1])
            assert len(ann.ask()) == 0, "what she can see is used up, and that takes no fit"


def test_a_class_may_turn_up_late_by_name(tmp_path):
    with opened(tmp_path / "run.db", range(60)) as one:
        one.tell(NAMES[:2], ["cat", "ant"])
        one.ask(1)
        one.tell(NAMES[2:4], ["bee", "ant"])
        assert one.pool.classes == ("ant", "cat", "bee")
        assert one.belief(ids=NAMES[:3]).shape[2] == 3
    with opened(tmp_path / "run.db", range(60), classes=("bee", "ant", "cat", "dog")) as again:  # sorted otherwise
        assert again.pool.classes == ("ant", "cat", "bee", "dog")
        assert again.labelled().labels.tolist() == [1, 0, 2, 0]
        with pytest.raises(ValueError, match=r"no class 'owl'; .* if it is new, call learner.add_classes\(\['owl'\]\)"):
            again.tell(NAMES[4:5], ["owl"])
        again.add_classes(["owl"])
        again.tell(NAMES[4:5], ["owl"])
        assert again.labelled().labels.tolist() == [1, 0, 2, 0, 4]
    with Journal(tmp_path / "run.db") as journal:
        journal.export(tmp_path / "labels.csv")
    assert "owl" in (tmp_path / "labels.csv").read_text()


def test_classes_added_by_one_client_are_known_to_all(tmp_path):
    with opened(tmp_path / "run.db", range(60), who="ann") as ann, opened(tmp_path / "run.db", range(60)) as ben:
        ann.tell(NAMES[:2], ["cat", "ant"])
        ben.tell(NAMES[2:4], ["dog", "cat"])
        ann.tell(NAMES[4:5], ["dog"])
        assert ann.pool.classes == ben.pool.classes == ("ant", "cat", "dog")
        assert ann.n_labelled == 5
        assert ann.labelled().labels.tolist() == ben.labelled().labels.tolist() == [1, 0, 2, 1, 2]


def test_validation_and_test_examples_are_numbered_like_the_run(tmp_path):
    kinds = np.array(KINDS)[EVERYTHING.labels]
    examples = (EVERYTHING.inputs[60:], kinds[60:])
    opened(tmp_path / "run.db", range(60), classes=KINDS).close()
    with opened(tmp_path / "run.db", range(60), classes=KINDS[::-1], test=examples) as one:
        one.tell(NAMES[:30], kinds[:30])
        one.ask()
        assert one.history[-1].metrics["accuracy"] > 0.7, "numbered by chance it would be a third"


def test_method_and_k_may_change_between_rounds_and_stay_when_they_are_not_named(tmp_path):
    with opened(tmp_path / "run.db", range(60)) as one:
        one.tell(NAMES[:6], named(NAMES[:6]))
        one.ask()
    with opened(tmp_path / "run.db", range(60), method="entropy", k=5) as one:
        assert "changed since the last batch: method is now entropy; k is now 5" in one.ask().warnings  # the old one
        batch = one.ask()
        assert len(batch) == 5
        assert batch.warnings[-1] == "changed since the last batch: method is now entropy; k is now 5"
        assert one.ask().warnings == ()
    with opened(tmp_path / "run.db", range(60), method=None, k=None) as one:
        assert (one.method.name, one.k) == ("entropy", 5)
        assert one.ask(new=True).warnings == ()
        asks = [ask for fit in one.history for ask in fit.asks]
        assert [ask.method for ask in asks] == ["bald", "entropy", "entropy", "entropy"]
    fresh = opened(None, range(60), method=None, k=None)
    assert (fresh.method.name, fresh.k) == ("power-bald", 10)
    again = opened(None, range(60))  # the same history in one process gives the same batches
    again.tell(NAMES[:6], named(NAMES[:6]))
    assert list(again.ask()) == list(asks[0].ids)


def test_partly_labelled_data_is_the_normal_case():
    labels = np.full(90, np.nan)
    labels[:12] = EVERYTHING.labels[:12]
    pool = Pool(EVERYTHING.inputs, labels, ids=NAMES)
    one = ActiveLearner(RandomForestClassifier(5), pool, "bald", 4)
    assert (one.n_labelled, pool.regression) == (12, False)
    batch = one.ask()
    assert not {*batch} & {*NAMES[:12]}
    assert not any("random" in warning for warning in batch.warnings)
    full = ActiveLearner(RandomForestClassifier(5), Pool(EVERYTHING.inputs, EVERYTHING.labels), "bald", 4)
    assert full.ask().warnings == (
        "no points are free: every point has a label; labels that a simulation hides are passed as answers=…",
    )
