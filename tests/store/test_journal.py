"""The journal: what is written stays, in one order, and makes the same state for everybody."""

import math
import sqlite3
import threading
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsel.store import Acquisition, Ask, Journal, Points, RunState, Stop, Terms

NOTES = {"points": 5, "classes": ["a", "b"]}
TERMS = Terms(pool="some data", method="bald", k=2, seed=0, config={"candidates": None}, notes=NOTES, natsel="1")


def batch(*ids, revision=0, who=""):
    return Ask(tuple(Acquisition(id, 0.5) for id in ids), "bald", seed=7, revision=revision, who=who)


@pytest.fixture
def journal(tmp_path):
    with Journal(tmp_path / "run.db") as journal:
        yield journal


@pytest.fixture
def state(journal):
    return journal.begin("main", TERMS)


def test_everything_comes_back(journal, state):
    picks = (Acquisition(5, 0.25, 0.5, 0.125), Acquisition(3, None))
    asked = Ask(picks, "bald", 2**63 - 1, 0, 0.75, -1.5, {"select": 0.5}, ("careful",), who="anna")
    assert journal.ask(state, asked) == 1
    journal.tell(state, [3], [1], skipped=[5], who="anna")
    journal.record_round(state.run, 1, 1, {"accuracy": 0.5, "nll": math.inf, "odd": math.nan}, {"fit": 2.0})
    journal.ask(state, batch(9, 8, revision=1))
    journal.record_stop(state.run, Stop(1, "Budget(labels=1)", "enough"))
    path = journal.path
    journal.close()
    with Journal(path, create=False) as again:
        (run,) = again.runs()
        assert (run.name, run.terms) == ("main", TERMS)
        first, second = again.rounds(run.run)
        assert first.asks == (Ask(picks, "bald", 2**63 - 1, 0, 0.75, -1.5, {"select": 0.5}, ("careful",), 1, "anna"),)
        assert (first.n_labelled, first.ids, first.seconds) == (0, (5, 3), {"select": 0.5})
        assert (second.number, second.revision, second.n_labelled, second.ids) == (1, 1, 1, (9, 8))
        assert second.metrics["accuracy"] == 0.5
        assert second.metrics["nll"] == math.inf
        assert math.isnan(second.metrics["odd"])
        assert second.seconds == {"fit": 2.0}
        (label,) = again.labels(run.run)
        assert (label.id, label.value, label.who, label.ask) == (3, 1, "anna", 1)
        assert again.labels(run.run, since=label.seq) == []
        assert again.stops(run.run) == [Stop(1, "Budget(labels=1)", "enough")]
        now = again.replay("main")
        assert (now.asks, now.revision, now.values, list(now.outstanding), list(now.skipped)) == (
            2,
            1,
            {3: 1},
            [9, 8],
            [5],
        )


def test_numbers_keep_their_kind(journal, state):
    journal.tell(state, [1, 2, 3], [1, 1.0, -0.1])
    values = journal.replay(state.run).values
    assert [type(value) for value in values.values()] == [int, float, float]
    assert values[3] == -0.1


def test_a_correction_is_a_new_row_and_keeps_its_place(journal, state):
    journal.tell(state, [4, 2], [0, 1], who="anna")
    journal.tell(state, [4], [1], who="ben")
    journal.catch_up(state)
    assert list(state.values.items()) == [(4, 1), (2, 1)]
    assert [(label.id, label.value, label.who) for label in journal.labels(state.run)] == [
        (4, 0, "anna"),
        (2, 1, "anna"),
        (4, 1, "ben"),
    ]
    assert state.revision == 3


def test_repeating_what_was_told_changes_nothing(journal, state):
    for _ in range(3):
        journal.tell(state, [4, 2], [0, 1], skipped=[7], who="anna")
    journal.catch_up(state)
    assert len(journal.labels(state.run)) == 2
    assert state.revision == 2
    journal.tell(state, [4], [0], who="ben")  # a second opinion is written down, but is nothing new to learn from
    journal.catch_up(state)
    assert len(journal.labels(state.run)) == 3
    assert state.revision == 2
    journal.tell(state, [4], [1], who="ben")
    journal.tell(state, [4], [0], who="anna")  # anna insists: what she last said is no longer what counts
    assert journal.replay(state.run).values[4] == 0


def test_repeating_a_correction_changes_nothing():
    """What somebody told last decides whether it is told again, not what was told first."""
    with Journal() as journal:
        state = journal.begin("main", TERMS)
        for value in (0, 1, 1, 1):
            journal.tell(state, [4], [value], who="anna")
        assert [label.value for label in journal.labels(state.run)] == [0, 1]
        journal.tell(state, [4], [0], who="anna")
        assert [label.value for label in journal.labels(state.run)] == [0, 1, 0]


def test_of_two_that_ask_for_one_id_the_second_gets_nothing(tmp_path):
    with Journal(tmp_path / "run.db") as one, Journal(tmp_path / "run.db") as two:
        first, second = one.begin("main", TERMS), two.begin("main", TERMS)
        assert one.ask(first, batch(1, 2)) == 1
        assert two.ask(second, batch(2, 3)) is None
        assert second.asks == 1, "it learns what was taken"
        assert two.ask(second, batch(3, 4)) == 2
        one.tell(first, [1], [0])
        two.skip(second, [3])
        for taken in (1, 2, 3, 4):
            assert two.ask(second, batch(9, taken)) is None
        one.release(first, [2])
        assert two.ask(second, batch(2)) == 3
        assert one.replay("main") == two.replay("main")


def test_a_limit_counts_what_others_have_outstanding(journal, state):
    assert journal.ask(state, batch(1, 2), limit=3) == 1
    assert journal.ask(state, batch(3, 4), limit=3) is None
    assert journal.ask(state, batch(3), limit=3) == 2


def test_what_cannot_be_is_refused_and_nothing_of_it_written(journal, state):
    journal.tell(state, [1], [0])
    with pytest.raises(ValueError, match="ids: 1 has a label"):
        journal.skip(state, [5, 1])
    with pytest.raises(ValueError, match="ids: 6 is not outstanding"):
        journal.release(state, [6])
    with pytest.raises(sqlite3.IntegrityError):
        journal.ask(state, batch(7, 7))
    assert journal.replay(state.run) == RunState(state.run, 1, 0, 1, {1: 0}, classes=("a", "b"))


def test_changes_of_a_run_are_recorded_and_add_up(journal, state):
    for change in (
        {"method": "random"},
        {"method": "random", "k": 3},
        {"method": "random", "k": 3, "config": {"candidates": 5}},
        {"method": "random", "k": 3, "config": {"candidates": 5}, "notes": {"classes": ["a", "c"]}},
    ):
        journal.begin("main", Terms(**{**vars(TERMS), **change}), who="anna")
        again = journal.begin("main", Terms(**{**vars(TERMS), **change}))  # the same terms again change nothing
    (run,) = journal.runs()
    details = [{"terms": {"method": "random"}}, {"terms": {"k": 3}}, {"terms": {"candidates": 5}}, {"classes": ["c"]}]
    assert [amendment.detail for amendment in run.amendments] == details
    assert {amendment.who for amendment in run.amendments} == {"anna"}
    assert (run.current_terms.method, run.current_terms.k, run.classes) == ("random", 3, ("a", "b", "c"))
    assert run.terms == TERMS
    assert again.classes == ("a", "b", "c")
    journal.add_classes(state, ["d", "a", "d"])
    journal.catch_up(state)
    assert state.classes == ("a", "b", "c", "d")
    assert journal.replay("main", until=run.amendments[2].seq).classes == ("a", "b")
    assert journal.check().sound


def test_points_join_and_stay_what_they_are(journal):
    first = Points(["b.png", 7, "a.png"], b"bbbb7777aaaa")
    journal.begin("main", TERMS, first)
    grown = Points(["a.png", "c.png", 7, "b.png"], b"aaaacccc7777bbbb")
    state = journal.begin("main", TERMS, grown)
    assert journal.points(state.run) == Points(["b.png", 7, "a.png", "c.png"], b"bbbb7777aaaacccc")
    for wrong, sentence in (
        (Points(["a.png", "c.png", 7], b"aaaacccc7777"), "pool: it lacks 1 of the 4 points .* the first 'b.png'"),
        (Points(["a.png", "c.png", "7", "b.png"], b"aaaacccc7777bbbb"), "pool: it lacks 1 of the 4 points .* first 7"),
        (Points(["b.png", 7, "a.png", "c.png", "d"], b"bbbb7777aaaaXcccdddd"), "holds another input now: 'c.png'"),
    ):
        with pytest.raises(ValueError, match=sentence):
            journal.begin("main", TERMS, wrong)
    assert len(journal.points(state.run)) == 4, "nothing of what was refused is written"
    journal.tell(state, ["a.png", 7], [0, 1])
    assert journal.replay("main").values == {"a.png": 0, 7: 1}
    many = Points(list(range(100_000)), bytes(400_000))
    counted = journal.begin("counted", TERMS, many)
    assert journal.points(counted.run) == many
    assert journal._connection.execute("SELECT length(ids) FROM points WHERE count = 100000").fetchone() == (0,)
    assert journal.check().sound


def test_a_run_is_only_continued_on_its_own_terms(journal, state):
    assert journal.begin("main", TERMS) == state
    others = {
        "seed 0, not 1": {"seed": 1},
        "model None, not Forest": {"config": {"candidates": None, "model": "Forest"}},
    }
    for what, change in others.items():
        with pytest.raises(ValueError, match=f"run.db holds a run of {what}; open it"):
            journal.begin("main", Terms(**{**vars(TERMS), **change}))
    journal.begin("main", Terms(**{**vars(TERMS), "natsel": "2", "notes": {"model": "another"}}))
    journal.begin("another", Terms(**{**vars(TERMS), "seed": 1}))
    assert [run.name for run in journal.runs()] == ["main", "another"]
    with pytest.raises(ValueError, match="has no run 'third'"):
        journal.replay("third")


def test_a_fit_and_a_stop_are_written_once(journal, state):
    for accuracy in (0.5, 0.6):  # a second client, or a second life, measured the same fit
        journal.record_round(state.run, 1, 1, {"accuracy": accuracy}, {"fit": accuracy})
        journal.record_stop(state.run, Stop(1, "rule", "reason"))
    (only,) = journal.rounds(state.run)
    assert only.metrics == {"accuracy": 0.5}
    assert len(journal.stops(state.run)) == 1
    assert journal.has_round(state.run, 1)
    assert not journal.has_round(state.run, 2)


def test_runs_in_one_file_do_not_see_each_other(journal, state):
    other = journal.begin("other", TERMS)
    journal.tell(state, [1], [0])
    journal.tell(other, [2], [1])
    assert journal.ask(other, batch(1)) == 1
    assert journal.replay("main").values == {1: 0}
    assert journal.replay("other").values == {2: 1}


ids = st.lists(st.integers(0, 7), min_size=1, max_size=4, unique=True)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), ids),
        st.tuples(st.just("tell"), ids, st.integers(0, 2)),
        st.tuples(st.just("skip"), ids),
        st.tuples(st.just("release"), ids),
    ),
    max_size=25,
)


@settings(deadline=None)
@given(steps)
def test_replaying_is_the_same_as_having_been_there(steps):
    """Two clients take turns on one journal; a plain simulation says what must come out, and so must every replay."""
    journal = Journal()
    clients = [journal.begin("main", TERMS), journal.begin("main", TERMS)]
    values, outstanding, skipped, asks = {}, {}, set(), 0
    for turn, (kind, ids, *label) in enumerate(steps):
        client = clients[turn % 2]
        if kind == "ask":
            free = not any(id in values or id in outstanding or id in skipped for id in ids)
            asks += free
            assert journal.ask(client, batch(*ids)) == (asks if free else None)
            outstanding |= dict.fromkeys(ids, asks) if free else {}
        elif kind == "tell":
            journal.tell(client, ids, label * len(ids))
            values |= dict.fromkeys(ids, label[0])
            outstanding = {id: ask for id, ask in outstanding.items() if id not in ids}
            skipped -= set(ids)
        elif kind == "skip":
            if any(id in values for id in ids):
                with pytest.raises(ValueError, match="has a label"):
                    journal.skip(client, ids)
                continue
            journal.skip(client, ids)
            skipped |= set(ids)
            outstanding = {id: ask for id, ask in outstanding.items() if id not in ids}
        elif all(id in outstanding for id in ids):
            journal.release(client, ids)
            outstanding = {id: ask for id, ask in outstanding.items() if id not in ids}
    replayed = journal.replay("main")
    assert list(replayed.values.items()) == list(values.items())
    assert {id: asked.ask for id, asked in replayed.outstanding.items()} == outstanding
    assert list(replayed.outstanding) == list(outstanding)
    assert set(replayed.skipped) == skipped
    assert replayed.asks == asks
    for client in clients:
        journal.catch_up(client)
        assert client == replayed
        assert list(client.values) == list(replayed.values)
    # A replay in two parts, cut anywhere, is a replay in one.
    for cut in range(replayed.seq + 1):
        part = journal.replay("main", until=cut)
        journal.catch_up(part)
        assert part == replayed


votes = st.lists(
    st.one_of(
        st.tuples(
            st.just("tell"), st.integers(0, 3), st.integers(0, 2), st.sampled_from(["ann", "bob", "", "unnamed 2"])
        ),
        st.tuples(st.just("rename"), st.sampled_from(["a", "b", "c"]), st.sampled_from(["a", "b", "d"])),
        st.tuples(st.just("release"), st.integers(0, 3)),
        st.tuples(st.just("skip"), st.integers(0, 3)),
    ),
    max_size=20,
)


@settings(deadline=None)
@given(votes)
def test_votes_and_names_of_classes_replay_the_same_in_parts(steps):
    """Labels are counted by a plain simulation: the last of each person, by the names that the classes have now."""
    journal = Journal()
    notes, config = {"classes": ["a", "b", "c"]}, {"resolve": "majority"}
    state = journal.begin("main", Terms("data", "bald", 2, 0, config, notes))
    said, aside = {}, set()
    for kind, *what in steps:
        if kind == "tell":
            id, number, who = what
            journal.tell(state, [id], [number], who=who)
            person = "" if who == "unnamed 2" else who
            said.setdefault(id, {}).pop(person, None)
            said[id][person] = number
            aside.discard(id)
        elif kind == "rename" and what[0] in state.classes:
            journal.rename_class(state, *what)
        elif kind == "skip" and what[0] in state.disputed:
            journal.skip(state, what)
            aside.add(what[0])
        elif kind == "release" and what[0] in state.disputed:
            journal.release(state, what)
            aside.add(what[0])
        journal.catch_up(state)
        number_of = {name: number for number, name in reversed([*enumerate(state.classes)])}
        expected = {}
        for id, votes in said.items():
            counts = Counter(number_of[state.classes[vote]] for vote in votes.values()).most_common(2)
            if id not in aside and (len(counts) == 1 or counts[0][1] > counts[1][1]):
                expected[id] = counts[0][0]
        assert state.values == expected
    replayed = journal.replay()
    assert replayed == state
    assert list(replayed.values) == list(state.values)
    for cut in range(replayed.seq + 1):
        part = journal.replay("main", until=cut)
        journal.catch_up(part)
        assert part == replayed
    assert journal.check().sound


def test_threads_may_share_a_journal(journal, state):
    def tell(start):
        mine = journal.replay("main")
        for id in range(start, start + 25):
            journal.tell(mine, [id], [0])

    threads = [threading.Thread(target=tell, args=(start,)) for start in (0, 100, 200, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    labels = journal.labels(state.run)
    assert len(labels) == len({label.id for label in labels}) == 100
    assert all(a.seq < b.seq for a, b in pairwise(labels))


@pytest.mark.parametrize("path", [3, b"run.db", ["run.db"]])
def test_only_a_path_is_opened(path):
    with pytest.raises(ValueError, match=r"store: expected the path of a file or a natsel.Journal, found"):
        Journal(path)


def test_long_lists_of_classes_are_cut():
    ours, theirs = (Terms("ab"[n], "bald", 2, 0, notes={"classes": [*map(str, range(20 + n))]}) for n in (0, 1))
    assert ours.other_data(theirs) == (
        "classes 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 … (20 in all), not 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 … (21 in all)"
    )
