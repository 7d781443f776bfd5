"""Names: no id is put to two oracles, whoever asks, and what a client left when it ended is answered by the next."""

import errno
import gc
import json
import os
import signal
import threading
import time

import numpy as np
import pytest

from learning.committee import Committee, pool
from natsel.learning import ActiveLearner
from natsel.learning.client_names import ClientNames
from natsel.store import Journal

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a POSIX system")


def learner(store, **changes):
    arguments = {"method": "random", "k": 4, "store": store, "candidates": 20, **changes}
    return ActiveLearner(Committee(), arguments.pop("pool", pool(100)), **arguments)


def forked(work):
    """A process that does some work and then ends without tidying up."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


@forks
def test_clients_without_a_name_never_put_one_id_to_two_oracles(tmp_path):
    learner(tmp_path / "run.db").close()
    begun, start = os.pipe()

    def client(number):
        asked = []

        def oracle(ids):
            asked.extend(ids.tolist())
            time.sleep(0.01)  # others are at work meanwhile
            return ids % 3

        with learner(tmp_path / "run.db") as one:
            os.close(start)
            os.read(begun, 1)  # returns when the last who could write has let go
            one.run(100, oracle)
        (tmp_path / f"{number}.json").write_text(json.dumps(asked))

    children = [forked(lambda number=number: client(number)) for number in range(4)]
    os.close(start)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    asked = [json.loads((tmp_path / f"{number}.json").read_text()) for number in range(4)]
    assert sorted(id for ids in asked for id in ids) == list(range(100))
    assert sum(bool(ids) for ids in asked) > 1, "one did all the work, so that nothing happened at the same time"
    assert [file.name for file in tmp_path.glob("*.lock")] == []


@pytest.mark.parametrize("in_memory", [False, True])
def test_threads_with_learners_of_their_own_never_put_one_id_to_two_oracles(tmp_path, in_memory):
    journal = Journal() if in_memory else Journal(tmp_path / "run.db")
    asked, together = [], threading.Barrier(4)

    def oracle(ids):
        asked.extend(ids.tolist())
        time.sleep(0.002)
        return ids % 3

    def client():
        one = learner(journal)
        together.wait()
        one.run(60, oracle)

    threads = [threading.Thread(target=client) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(asked) == len(set(asked)) == 60
    assert {ask.who for fit in journal.rounds(1) for ask in fit.asks} > {""}


def killed(store, **changes):
    """A client that asked for a batch and was killed before it was answered; what it asked for."""
    seen, says = os.pipe()

    def work():
        one = learner(store, **changes)
        os.write(says, json.dumps(one.ask().ids.tolist()).encode())
        time.sleep(60)

    child = forked(work)
    ids = json.loads(os.read(seen, 1000))
    return child, ids


def end(child):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@forks
def test_what_a_killed_client_without_a_name_left_is_answered_by_the_next(tmp_path):
    whole = learner(None)
    whole.run(20)
    child, ids = killed(tmp_path / "run.db")
    end(child)
    assert len(list(tmp_path.glob("*.lock"))) == 1, "nothing tidied up after it"
    with learner(tmp_path / "run.db") as one:
        assert one.outstanding.tolist() == ids
        one.run(20)
        assert one.labelled_ids.tolist() == whole.labelled_ids.tolist()
        assert one.who == ""
    assert list(tmp_path.glob("*.lock")) == []


@forks
def test_one_client_answers_for_all_that_ended_and_for_none_that_live(tmp_path):
    store = tmp_path / "run.db"
    children, batches = zip(*(killed(store) for _ in range(3)), strict=True)
    end(children[0])
    with learner(store) as one:
        reason = one.run(100)
        assert set(batches[0]) < set(one.labelled_ids)
        assert one.outstanding.tolist() == [*batches[1], *batches[2]], "they live, and may be asking a person"
        assert reason == "nothing is left to ask for: 8 ids are outstanding with other clients"
        end(children[1])
        end(children[2])
        one.run(100)
        assert one.n_labelled == 100
    asks = [ask for fit in Journal(store).rounds(1) for ask in fit.asks]
    assert [ask.who for ask in asks[:4]] == ["", "unnamed 2", "unnamed 3", ""]


@forks
def test_names_do_not_survive_a_fork(tmp_path):
    """A child has the parent's files, and must take no name from it when it ends."""
    with learner(tmp_path / "run.db") as one:
        ids = one.ask().ids.tolist()
        child = os.fork()
        if child == 0:
            one._record.names.let_go()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        with learner(tmp_path / "run.db") as two:
            two.run(8)
            assert two.who == "unnamed 2"
            assert one.outstanding.tolist() == ids


def test_a_name_ends_with_its_learner(tmp_path):
    one = learner(tmp_path / "run.db")
    ids = one.ask().ids.tolist()
    two = learner(tmp_path / "run.db")
    two.step()
    assert (one.who, two.who) == ("", "unnamed 2")
    assert two.outstanding.tolist() == ids
    del one
    gc.collect()
    two.step()
    assert two.outstanding.tolist() == [], "a notebook that makes its learner again leaves nothing behind"
    two.close()
    assert list(tmp_path.glob("*.lock")) == []


def test_who_only_looks_takes_no_name(tmp_path):
    with learner(tmp_path / "run.db") as one, learner(tmp_path / "run.db") as two:
        assert one.n_labelled == 0
        one.tell([1], [0])
        two.ask()
        assert two.who == ""
        assert one.who == ""
        one.ask()
        assert one.who == "unnamed 2"


def test_a_name_in_use_may_ask_and_tell_but_not_run(tmp_path):
    store = tmp_path / "run.db"
    with learner(store, who="anna") as one, learner(store, who="anna") as two, learner(store, who="ben") as ben:
        first, second = one.ask(), two.ask()
        assert not set(first) & set(second)
        two.tell(second.ids, [0, 1, 2, 0])
        for call in (two.step, lambda: two.run(20)):
            with pytest.raises(ValueError, match=r"who: another live client on .*run.db is called 'anna', and a run"):
                call()
        ben.run(12)
        assert set(first) <= set(one.outstanding)
        one.close()
        two.run(20)
        assert two.n_labelled == 20


def test_names_change_no_batch(tmp_path):
    def chosen(who, ahead):
        with learner(tmp_path / f"{who}-{ahead}.db", who=who, method="batchbald", seed=5) as one:
            names = [ClientNames(one.journal, "main") for _ in range(ahead)]
            assert [name.take() for name in names] == ["", "unnamed 2", "unnamed 3"][:ahead]
            one.run(16)
            return one.labelled_ids.tolist()

    assert chosen("", 0) == chosen("", 3) == chosen("anna", 0)


def test_runs_of_one_journal_have_names_of_their_own(tmp_path):
    with Journal(tmp_path / "run.db") as journal:
        one, two = learner(journal, run="one"), learner(journal, run="two", seed=1)
        one.ask(), two.ask()
        assert one.who == two.who == ""
    with pytest.raises(ValueError, match="who: expected the name of a client or a person, found 3"):
        learner(None, who=3)


def test_answers_of_two_people_are_kept_apart():
    one = learner(None, resolve="last")
    one.tell([1, 2, 3], [0, 1, 2], who="ann")
    one.tell([1, 2], [0, 2], who="bob")
    assert one.disagreements() == {2: {"ann": 1, "bob": 2}}
    assert one.pool.labels_of([2]).tolist() == [2], "the last told counts"
    one.tell([2], [1], who="ann")
    assert list(one.disagreements()[2].items()) == [("bob", 2), ("ann", 1)]
    assert one.pool.labels_of([2]).tolist() == [1]
    one.tell([2], [1], who="bob")
    assert one.disagreements() == {}
    said = {(label.id, label.who): label.value for label in one.journal.labels(1)}
    assert said == {(1, "ann"): 0, (2, "ann"): 1, (3, "ann"): 2, (1, "bob"): 0, (2, "bob"): 1}


def test_one_learner_in_six_threads_chooses_by_its_labels_and_asks_nothing_twice():
    one = learner(None, pool=pool(400), method="batchbald", k=2)
    one.tell(np.arange(12), np.arange(12) % 3)
    batches, failures, answers = [], [], pool(400).answers(np.arange(400))

    def work():
        try:
            for _ in range(8):
                batch = one.ask()
                batches.append(batch)
                one.tell(batch.ids, [answers[id] for id in batch.ids])
                assert one.n_labelled >= 14
                one.belief(ids=batch.ids)
        except BaseException as failure:
            failures.append(failure)
            raise

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [warning for batch in batches for warning in batch.warnings] == []
    assert len({id for batch in batches for id in batch.ids.tolist()}) == 2 * 48
    assert {ask.method for fit in one.history for ask in fit.asks} == {"batchbald"}
    assert one.n_labelled == 12 + 96
    assert all(fit.revision == fit.n_labelled for fit in one.history), "a fit knew other labels than its number names"


def test_threads_of_one_learner_put_no_id_to_two_oracles():
    one, asked = learner(None), []

    def oracle(ids):
        asked.extend(ids.tolist())
        time.sleep(0.002)
        return ids % 3

    threads = [threading.Thread(target=one.run, args=(60, oracle)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(asked) == len(set(asked)) == 60


def test_telling_waits_for_no_fit():
    fitting, told = threading.Event(), threading.Event()

    class Slow(Committee):
        def fit(self, labelled, validation=None, *, seed=0):
            fitting.set()
            assert told.wait(30)
            return super().fit(labelled, validation, seed=seed)

    one = ActiveLearner(Slow(), pool(), "batchbald", k=2)
    one.tell([0, 1, 2], [0, 1, 2])
    batches = []
    thread = threading.Thread(target=lambda: batches.append(one.ask()))
    thread.start()
    assert fitting.wait(30)
    one.tell([3], [0])  # would never return if it waited
    assert one.n_labelled == 4
    told.set()
    thread.join()
    assert one.model.fits[0][0] == [0, 1, 2]
    (fit,) = one.history
    assert (fit.revision, fit.n_labelled, len(batches[0])) == (3, 3, 2)


@forks
def test_a_disk_that_knows_no_locks_is_refused(tmp_path, monkeypatch):
    import fcntl

    def unable(*_):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    with learner(tmp_path / "run.db") as one:
        monkeypatch.setattr(fcntl, "flock", unable)
        with pytest.raises(ValueError, match=r"store: .*\.lock cannot be locked \(Operation not supported\); choose a"):
            one.ask()


def test_a_name_stays_with_its_journal_when_the_folder_is_changed(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with learner("run.db") as one, learner("run.db") as two:
        monkeypatch.chdir(tmp_path / "elsewhere")
        one.ask(), two.ask()
        assert (one.who, two.who) == ("", "unnamed 2")
        assert list((tmp_path / "elsewhere").iterdir()) == []
