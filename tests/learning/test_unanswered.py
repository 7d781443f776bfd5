"""A batch that was asked for and not answered comes back to whoever asked, and to nobody else."""

import os
import signal
from contextlib import contextmanager

import numpy as np
import pytest

from learning.committee import Committee, Lines, blobs, pool
from natsel.data.pool import Pool
from natsel.learning import ActiveLearner
from natsel.store import Journal

ANSWERS = blobs(40).labels
AGAIN = "and not answered; learner.ask(new=True) goes on without them"


def opened(store, **changes):
    arguments = {"pool": pool(40), "method": "batchbald", "k": 3, "seed": 1, **changes}
    return ActiveLearner(Committee(), store=store, **arguments)


def loop(store, budget=6):
    """What the README shows, and what people write."""
    with opened(store) as one:
        while one.n_labelled < budget:
            batch = one.ask()
            one.tell(batch.ids, ANSWERS[batch.ids])


def labels(store):
    with Journal(store) as journal:
        return [(label.id, label.value, label.ask) for label in journal.labels(1)]


def test_a_killed_script_that_is_run_again_is_asked_the_same(tmp_path):
    for who in ("", "desk 1"):
        store = tmp_path / f"run{who}.db"
        with opened(store, who=who) as one:
            first = one.ask()
        with opened(store, who=who) as one:
            again = one.ask()
            assert list(again) == list(first)
            assert again.warnings[0].startswith("asked for at 2")
            assert again.warnings[0].endswith(AGAIN)
            assert first.warnings[0] in again.warnings
            assert not set(one.ask()) & set(first), "within one process two asks are two batches"
            assert one.summary()["n_outstanding"] == 6
            one.tell(first.ids, ANSWERS[first.ids])
        with opened(store, who=who) as one:
            one.tell(*[[id] for id in (one.outstanding[0], 1)])
            rest = one.ask(5)
            assert len(rest) == 2
            assert rest.warnings[0].endswith(AGAIN.replace("answered", "answered: the 2 that are left of 3 points"))
            assert rest.warnings[1] == "k and budget were not looked at: an earlier batch comes back as it was"
            assert list(rest) == list(one.outstanding)


def test_new_goes_on_without_what_is_not_answered(tmp_path):
    with opened(tmp_path / "run.db") as one:
        first = one.ask()
    with opened(tmp_path / "run.db") as one:
        other = one.ask(new=True)
        assert not set(other) & set(first)
        assert not any("not answered" in warning for warning in other.warnings)
        assert list(one.ask()) == list(first)
        with pytest.raises(ValueError, match="new: expected True or False, found 'yes'"):
            one.ask(new="yes")


def test_several_batches_come_back_one_by_one_in_order_and_as_they_were(tmp_path):
    with opened(tmp_path / "run.db") as one:
        one.tell(range(6), ANSWERS[:6])
        before = [one.ask(), one.ask(2)]
    with opened(tmp_path / "run.db") as one:
        again = [one.ask(), one.ask()]
        assert [list(batch) for batch in again] == [list(batch) for batch in before]
        for now, then in zip(again, before, strict=True):
            assert now.scores.tolist() == then.scores.tolist()
            assert (now.total, now.method, len(now)) == (then.total, then.method, len(then))
            picks, known = now.explain().picks, then.explain().picks
            assert [pick.epistemic for pick in picks] == [pick.epistemic for pick in known]
            assert [pick.aleatoric for pick in picks] == [pick.aleatoric for pick in known]
            assert now.rows()[0]["gain"] is None
            assert "were not kept" in now.warnings[-1]
            assert str(now.explain()).count("\n") >= len(now)
        assert len(one.model.fits if hasattr(one.model, "fits") else ()) == 0, "nothing is fitted for it"
        assert len(one.ask()) == 3
        assert len(one.model.fits) == 1


def test_a_batch_comes_back_to_no_other_name_and_from_nobody_who_lives(tmp_path):
    store = tmp_path / "run.db"
    with opened(store, who="ann") as ann, opened(store) as unnamed:
        first, second = ann.ask(), unnamed.ask()
        with opened(store, who="ann") as twin, opened(store) as other, opened(store, who="bob") as bob:
            batches = [first, second, twin.ask(), other.ask(), bob.ask(), ann.ask(), unnamed.ask()]
            assert len({id for batch in batches for id in batch}) == 21
    with opened(store, who="bob") as bob:
        assert list(bob.ask()) == list(batches[4])
    one, two = opened(store), opened(store)  # both find that the others have ended: each batch goes to one of them
    found = [one.ask(), two.ask(), one.ask(), one.ask()]
    assert [list(found[n]) for n in (0, 2, 3)] == [list(batches[n]) for n in (1, 3, 6)]
    assert not set(found[1]) & {id for batch in batches for id in batch}


def test_what_a_client_asks_beside_another_of_its_name_does_not_come_back_to_it(tmp_path):
    store = tmp_path / "run.db"
    one, two = opened(store, who="ann"), opened(store, who="ann")
    first, second = one.ask(), two.ask()
    assert not set(one.ask()) & {*first, *second}
    one.tell(one.outstanding[-3:], [0, 1, 2])
    one.close()
    assert list(two.ask()) == list(first), "whose client is gone"
    assert not set(two.ask()) & {*first, *second}


def test_batches_of_numbers_and_with_costs_come_back_too(tmp_path):
    inputs = np.random.default_rng(0).normal(size=(30, 2))

    def numbers():
        return ActiveLearner(
            Lines(), Pool(inputs, regression=True), "bald", k=3, store=tmp_path / "run.db", costs=np.arange(30) + 1.0
        )

    with numbers() as one:
        first = one.ask(budget=40.0)
        one.tell(first.ids[:1], [0.5])
        second = one.ask()
    with numbers() as one:
        rest, again = one.ask(budget=1.0), one.ask()
        assert list(rest) == list(first)[1:]
        assert rest.total_cost == sum(first.costs.tolist()[1:])
        assert np.isnan(rest.total)
        assert "k and budget" in rest.warnings[1]
        assert list(again) == list(second)
        assert again.explain().picks[0].epistemic == second.explain().picks[0].epistemic


def test_a_run_answers_what_is_left_as_ever(tmp_path):
    whole = opened(None)
    whole.run(9)
    with opened(tmp_path / "run.db") as one:
        one.ask()
    with opened(tmp_path / "run.db") as one:
        one.run(9)
        assert one.labelled_ids.tolist() == whole.labelled_ids.tolist()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_every_single_step_the_plain_loop_tells_what_it_would_have_told(tmp_path, monkeypatch):
    """Before each write of the journal, with what it writes before the commit, and after the commit."""
    loop(tmp_path / "whole.db")
    steps, writing = [0, 0], Journal._writing

    def step():
        steps[0] += 1
        if steps[0] == steps[1]:
            os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def counted(self, state=None):
        step()
        with writing(self, state) as database:
            yield database
            step()
        step()

    monkeypatch.setattr(Journal, "_writing", counted)
    loop(tmp_path / "counted.db")
    total, came_back = steps[0], 0
    assert total >= 3 * (2 + 2 * 3 - 1)
    for last in range(1, total + 1):
        store = tmp_path / f"{last}.db"
        child = os.fork()
        if child == 0:
            steps[:] = [0, last]
            loop(store)
            os._exit(1)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        came_back += bool(Journal(store).runs()) and bool(Journal(store).replay(1).outstanding)
        loop(store)
        assert labels(store) == labels(tmp_path / "whole.db"), f"killed at step {last} it went another way"
    assert came_back >= 4
