"""Which label counts where people disagree, and classes that are renamed, merged or misspelt."""

import statistics

import numpy as np
import pytest

from learning.committee import Committee, Lines, blobs
from natsel.data.examples import Examples
from natsel.data.pool import Pool
from natsel.experiments.report.campaign import described_changes, read_campaign
from natsel.experiments.report.campaign_page import campaign_page
from natsel.learning import ActiveLearner
from natsel.store import Journal, Terms

IDS = [f"t-{number}" for number in range(40)]


def opened(store=None, pool=None, **changes):
    made = pool or Pool(blobs(40).inputs, ids=IDS)
    arguments = {"method": "random", "k": 3, "seed": 1, **changes}
    return ActiveLearner(Committee(), made, store=store, **arguments)


def label_of(one, id):
    return {row["id"]: row["class"] for row in one.labels() if not row["superseded"]}.get(id)


def test_the_majority_counts_and_not_whoever_spoke_last(tmp_path):
    with opened(tmp_path / "run.db") as one:
        for who, label in (("ann", "HUM"), ("cem", "HUM"), ("bob", "DESC")):
            one.tell(["t-1"], [label], who=who)
        assert label_of(one, "t-1") == "HUM"
        assert one.disagreements() == {"t-1": {"ann": "HUM", "cem": "HUM", "bob": "DESC"}}
        assert [row["class"] for row in one.labels()] == ["HUM", "HUM", "DESC"], "the history stays"
        assert one.journal.runs()[0].terms.config["resolve"] == "majority"
        one.tell(["t-1"], ["DESC"], who="cem")  # one vote each, the last one
        assert label_of(one, "t-1") == "DESC"
        assert one.pool.classes[one.labelled().labels[0]] == "DESC"
    with opened(tmp_path / "run.db") as one:
        assert label_of(one, "t-1") == "DESC"
        assert "majority counts" in campaign_page(read_campaign(one.journal))


def test_votes_that_tie_leave_an_id_open_and_nobody_is_asked_again_unasked(tmp_path):
    with opened(tmp_path / "run.db", costs=np.arange(40.0) + 1) as one:
        one.tell(["t-0", "t-1", "t-2"], ["a", "b", "c"], who="ann")
        before = one.spent
        one.tell(["t-1"], ["a"], who="bob")
        assert one.labelled_ids.tolist() == one.pool.labelled_ids.tolist() == ["t-0", "t-2"]
        assert (one.summary()["n_labelled"], one.summary()["n_disputed"], one.n_labelled) == (2, 1, 2)
        assert one.spent == before, "it was paid for"
        assert label_of(one, "t-1") is None
        assert "t-1" not in one.ask(40)
        assert "open" in campaign_page(read_campaign(one.journal))
        one.release(one.outstanding)
        revision = one.journal.replay().revision
        one.tell(["t-1"], ["a"], who="bob")
        assert len(one.journal.labels(1)) == 4, "telling the same again changes nothing"
        one.release(["t-1"])
        assert "t-1" in one.ask(40)
        one.tell(["t-1"], ["a"], who="bob")
        assert "t-1" not in one.outstanding
        assert one.summary()["n_disputed"] == 1
        one.tell(["t-1"], ["a"], who="cem")
        assert one.labelled_ids.tolist() == one.pool.labelled_ids.tolist() == ["t-0", "t-2", "t-1"]
        assert one.journal.replay().revision == revision + 1
    with opened(tmp_path / "run.db", costs=np.arange(40.0) + 1) as one:
        assert one._record.state == one.journal.replay()
        assert one.labelled().labels.tolist() == [0, 2, 0]
        one.tell(["t-2"], ["a"], who="bob")
        one.skip(["t-2"], who="bob")  # and what is open may be set aside
        assert (one.summary()["n_disputed"], one.summary()["n_skipped"]) == (0, 1)
        assert one.journal.check().sound


def test_labels_of_a_pool_are_one_vote_however_often_it_is_opened(tmp_path):
    def with_labels():
        return Pool(blobs(40).inputs, ["a", "b", *[None] * 38], ids=IDS)

    with opened(tmp_path / "run.db", with_labels(), who="desk 1") as one:
        one.tell(["t-1"], ["a"], who="ann")
        assert one.summary()["n_disputed"] == 1
    with opened(tmp_path / "run.db", with_labels(), who="desk 2") as one:
        assert one.summary()["n_disputed"] == 1
        assert one.pool.labelled_ids.tolist() == ["t-0"]
        assert len(one.labels()) == 3


def test_where_every_label_is_open_the_next_batch_is_random(tmp_path):
    one = opened(method="bald")
    one.tell(["t-1"], ["a"], who="ann")
    assert len(one.ask(2)) == 2
    one.tell(["t-1"], ["b"], who="bob")
    assert one.ask(2).warnings[0].startswith("no labels yet")
    with pytest.raises(ValueError, match="there are no labels to learn from yet"):
        one.predict(ids=["t-2"])


def test_without_a_name_all_labels_are_one_persons():
    """Clients without a name have names that nobody gave them: "", "unnamed 2", …"""
    with Journal() as journal:
        one, two = opened(journal), opened(journal)
        one.ask(), two.ask()
        assert two.who == "unnamed 2"
        one.tell(["t-1"], ["a"])
        two.tell(["t-1"], ["b"])
        assert label_of(one, "t-1") == "b"
        assert one.disagreements() == {}


def test_runs_go_on_by_the_rule_they_have(tmp_path):
    with opened(tmp_path / "last.db", resolve="last") as one:
        one.tell(["t-1"], ["a"], who="ann")
        one.tell(["t-1"], ["b"], who="bob")
        assert label_of(one, "t-1") == "b"
        assert "resolve" not in one.journal.runs()[0].terms.config, "as runs from before there were rules"
    with opened(tmp_path / "last.db") as one:
        assert label_of(one, "t-1") == "b"
    with pytest.raises(ValueError, match=r"holds a run of resolve last, not majority; open it as it was"):
        opened(tmp_path / "last.db", resolve="majority")
    with Journal(tmp_path / "old.db") as journal:
        state = journal.begin("main", Terms("data", "bald", 2, 0))
        for who, label in (("ann", 0), ("cem", 0), ("bob", 1)):
            journal.tell(state, [4], [label], who=who)
        assert journal.replay().values == {4: 1}


def test_numbers_go_by_the_last_or_by_a_function_of_all(tmp_path):
    def numbers(**changes):
        pool = Pool(blobs(40).inputs, regression=True)
        return ActiveLearner(Lines(), pool, "random", store=tmp_path / f"{len(changes)}.db", **changes)

    for rule, expected in (({}, [4.0]), ({"resolve": statistics.median}, [2.0])):
        with numbers(**rule) as one:
            for who, number in (("ann", 1.0), ("bob", 2.0), ("cem", 4.0)):
                one.tell([3], [number], who=who)
            assert one.labelled().labels.tolist() == expected
        with numbers(**rule) as one:
            assert one.labelled().labels.tolist() == expected
            said = campaign_page(read_campaign(one.journal))
            assert ("function median, which no journal holds" in said) == bool(rule)
    with pytest.raises(ValueError, match=r"resolve: expected .* a function with a name, .* again, found 'median'"):
        ActiveLearner(Lines(), Pool(blobs(40).inputs, regression=True), store=tmp_path / "1.db")
    for wrong in ("majority", "first", 3, lambda votes: votes[0]):
        with pytest.raises(ValueError, match=r"resolve: expected 'majority' \(of classes\), 'last' or a function"):
            ActiveLearner(Lines(), Pool(blobs(40).inputs, regression=True), resolve=wrong)


def test_a_function_may_leave_classes_open():
    def two_thirds(votes):
        found = statistics.mode(votes)
        return found if 3 * votes.count(found) >= 2 * len(votes) else None

    one = opened(resolve=two_thirds)
    for who, label in (("ann", "a"), ("bob", "b"), ("cem", "a")):
        one.tell(["t-1"], [label], who=who)
    assert label_of(one, "t-1") == "a"
    one.tell(["t-1"], ["b"], who="dan")
    assert one.summary()["n_disputed"] == 1


def test_classes_are_merged_and_renamed_for_all_and_for_good(tmp_path):
    with opened(tmp_path / "run.db") as one, opened(tmp_path / "run.db") as other:
        one.tell(IDS[:6], ["Desc.", "HUM", "DESC", "NUM", "HUM", "Desc."], who="ann")
        other.tell(["t-2", "t-0"], ["Desc.", "DESC"], who="bob")  # two ties that are none
        assert other.summary()["n_disputed"] == 2
        revision = other.journal.replay().revision
        one.rename_class("Desc.", "DESC")
        one.rename_class("Desc.", "DESC")  # a script that is run again
        one.rename_class("HUM", "PERSON")
        assert one.pool.classes == ("DESC", "PERSON", "NUM")
        assert one.disagreements() == {}
        assert other.summary()["n_disputed"] == 0
        assert other.pool.classes == one.pool.classes
        assert other.journal.replay().revision > revision, "labels changed, so a model learns again"
        for learner in (one, other):
            named = dict(
                zip(learner.labelled_ids, np.array(learner.pool.classes)[learner.labelled().labels], strict=True)
            )
            assert named["t-0"] == named["t-2"] == named["t-5"] == "DESC"
            assert (named["t-1"], named["t-3"]) == ("PERSON", "NUM")
            assert learner.pool.labels_of(["t-3"]).tolist() == [2]
        other.tell("t-7", "Desc.")  # whoever goes on writing it so
        other.tell(["t-8"], ["NUM"])
        assert [row["class"] for row in one.labels()][-2:] == ["DESC", "NUM"]
        assert {(row["value"], row["class"]) for row in one.labels()} == {(0, "DESC"), (1, "PERSON"), (2, "NUM")}
        assert set(one.predict(ids=IDS)) <= {"DESC", "PERSON", "NUM"}
        assert one.predict_proba(ids=IDS).shape == (40, 3)
        for wrong, said in ((3, "new: expected the name of a class, found 3"), (" num", "did you mean 'NUM'")):
            with pytest.raises(ValueError, match=said):
                one.rename_class("PERSON", wrong)
        with pytest.raises(ValueError, match=r"old: there is no class 'LOC'; the classes are DESC, PERSON, NUM"):
            one.rename_class("LOC", "NUM")
        page = campaign_page(read_campaign(one.journal))
        assert "3 of 3 classes have labels" in page
        assert "class &#x27;Desc.&#x27; is now &#x27;DESC&#x27;" in page
        assert one.journal.check().sound
    as_it_was = Pool(blobs(40).inputs, ["Desc.", *[None] * 38, "Desc."], ids=IDS)
    with opened(tmp_path / "run.db", as_it_was, test=(blobs(3).inputs, ["HUM", "NUM", "Desc."])) as one:
        assert one.pool.classes == ("DESC", "PERSON", "NUM")
        assert [row["class"] for row in one.labels()][-1] == "DESC"
        assert one.labelled().labels.tolist() == one.pool.labels_of(one.labelled_ids).tolist()
        assert one._fitted.test.classes == one.pool.classes
        one.add_classes(["Desc."])  # a class of its own after all
        one.tell(["t-9"], ["Desc."])
        assert label_of(one, "t-9") == "Desc."
        assert label_of(one, "t-0") == "DESC"
    assert described_changes({"renamed": {"a": "b"}}) == ["class 'a' is now 'b'"]


@pytest.mark.parametrize("typed", ["desc", "DESC ", " Desc", "ＤＥＳＣ"])
def test_a_class_that_is_written_otherwise_is_asked_about_and_not_made(typed):
    one = opened()
    one.tell(["t-0"], ["DESC"])
    with pytest.raises(ValueError, match=r"labels: for id 't-2' there is no class .*; did you mean 'DESC'\?; if it is"):
        one.tell(["t-1", "t-2"], ["DESC", typed])
    assert one.pool.classes == ("DESC",)
    one.add_classes([typed])
    one.tell(["t-1", "t-2"], ["DESC", typed])
    assert one.pool.classes == ("DESC", typed)
    pool = Pool([[0.0], [1.0]], ["DESC", None])
    with pytest.raises(
        ValueError, match=r"values: for id 1 .* did you mean 'DESC'\?; if it is new, call pool.add_class"
    ):
        pool.label([1], [typed])


def test_names_that_differ_by_a_letter_are_two_classes():
    one = opened()
    one.tell(["t-0", "t-1", "t-2"], ["cat", "cut", "cats"])
    assert one.pool.classes == ("cat", "cats", "cut")


def test_two_spellings_in_one_column_are_refused_with_both_and_where_they_are():
    with pytest.raises(
        ValueError, match=r"labels: for id 'b' there is no class 'desc'; did you mean 'DESC', as for id 'a'"
    ):
        Pool([[0.0], [1.0], [2.0]], ["DESC", "desc", "HUM"], ids=["a", "b", "c"])
    with pytest.raises(
        ValueError, match=r"for id 't-3' there is no class 'desc'; did you mean 'DESC', as for id 't-1'"
    ):
        opened().tell(["t-1", "t-3"], ["DESC", "desc"])
    assert Pool([[0.0], [1.0]], ["a", "A"], classes=("a", "A")).classes == ("a", "A"), "said on purpose"


def test_all_wrong_labels_are_named_with_their_ids():
    one = opened(pool=Pool(blobs(40).inputs, ids=IDS, classes=("DESC", "HUM")))
    with pytest.raises(ValueError, match="labels: for id") as refusal:
        one.tell(IDS[:6], ["desc", "HUM", "HUN", "??", "LOC", "desc"])
    assert str(refusal.value) == (
        "labels: for id 't-3' there is no class '??'; the classes are DESC, HUM; for id 't-2' there is no class 'HUN';"
        " did you mean 'HUM'?; for id 't-4' there is no class 'LOC'; the classes are DESC, HUM, and 1 more; if it is"
        " new, call learner.add_classes(['??', 'HUN', 'LOC']) first"
    )
    with pytest.raises(ValueError, match="for id 't-1' there is no class 'desc '; did you mean 'DESC'"):
        one.tell(IDS[:2], ["HUM", "desc "])
    assert one.n_labelled == 0


def test_a_pool_of_another_day_that_writes_a_class_otherwise_is_refused(tmp_path):
    opened(tmp_path / "run.db", Pool(blobs(40).inputs, ["DESC", "HUM", *[None] * 38], ids=IDS)).close()
    with pytest.raises(ValueError, match=r"classes: .* there is no class 'desc'; did you mean 'DESC'"):
        opened(tmp_path / "run.db", Pool(blobs(40).inputs, ["desc", "HUM", *[None] * 38], ids=IDS))
    with opened(tmp_path / "run.db", Pool(blobs(40).inputs, ids=IDS)) as one:
        assert one.pool.classes == ("DESC", "HUM")


def test_a_pool_follows_merged_classes_in_labels_and_answers():
    pool = Pool.with_answers(Examples(np.zeros((4, 1)), np.array([0, 1, 2, 1]), ("a", "b", "c")))
    pool.label([1, 2], ["b", "c"])
    pool.number_classes_as(("c", "a"), {"b": "a"})
    assert pool.classes == ("c", "a")
    assert pool.answers([0, 1, 2, 3]) == [1, 1, 0, 1]
    assert pool.labels_of([1, 2]).tolist() == [1, 0]
    pool.label([3], ["b"])
    assert pool.labels_of([3]).tolist() == [1]
