"""The page of a labelling campaign: what the journal holds is on it, for any ids, and nothing else is needed."""

import base64
import csv
import io
import json
import re
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest

import natsel
from cli.conftest import call, refused  # noqa: F401  fixtures
from experiments.test_report import Page
from learning.committee import Committee, Lines, blobs
from natsel.experiments.report.any_report import report_campaign
from natsel.experiments.report.campaign import PAUSE, curve, described_changes, read_campaign
from natsel.experiments.report.campaign_page import campaign_page, sentence
from natsel.store import Acquisition, Ask, Journal, Label, Round, Terms

NAMES = ("left <b>", "right & co", "top")
IDS = [f"sub/img {n} <i>&.png" for n in range(60)]


def pool_of(count=60):
    some = blobs(60)
    return natsel.Pool(some.inputs[:count], ids=IDS[:count], classes=NAMES)


ANSWER = dict(zip(IDS, blobs(60).labels.tolist(), strict=True))


def answers(ids):
    return [ANSWER[id] for id in ids]


def learner_of(path, count=60, **options):
    options = {"test": blobs(30, seed=1), "validation": blobs(30, seed=2)} | options
    return natsel.ActiveLearner(Committee(), pool_of(count), store=path, **options)


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    """Two days at two desks: people disagree, ids are skipped and handed back, the run grows and changes."""
    path = tmp_path_factory.mktemp("campaign") / "run.db"
    with learner_of(path, 50, method="batchbald", k=4, who="desk <1>") as learner:
        for _ in range(3):
            batch = learner.ask()
            learner.tell(batch.ids, answers(batch.ids), who="ann <&>")
        learner.tell(batch.ids[:2], [(ANSWER[id] + 1) % 3 for id in batch.ids[:2]], who="bob")
        learner.tell(batch.ids[2:3], answers(batch.ids[2:3]), who="bob")
        learner.skip(learner.ask().ids[:1])
    with learner_of(path, 60, method="power-bald", k=3, who="desk 2") as learner:
        learner.add_classes(["late class"])
        batch = learner.ask()
        learner.tell(batch.ids[:1], answers(batch.ids[:1]))
        learner.release(batch.ids[1:2])
        learner.run(budget=20, oracle=answers)
    return path


@pytest.fixture(scope="module")
def text(journal):
    with Journal(journal) as opened:
        return campaign_page(read_campaign(opened))


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_the_page_is_one_file_that_asks_no_host_and_runs_nothing(text, page):
    for address in re.findall(r"""(?:\s(?:src|href)=|url\()["']?([^"')>\s]+)""", text):
        assert address.startswith(("data:", "#"))
    assert not re.findall(r"https?://|@import|<script|<link|javascript:|\son\w+=", text)
    assert {at["href"] for at in page.all("a") if at["href"].startswith("#")} == {
        f"#{at['id']}" for at in page.all("section")
    }


def test_every_section_tells_what_the_journal_holds(journal, page):
    with Journal(journal) as opened:
        campaign = read_campaign(opened)
    words = page.text
    assert sentence(campaign) in words
    metrics = campaign.rounds[-1].metrics
    assert f"accuracy on the test examples is {100 * metrics['accuracy']:.1f}".removesuffix(".0") in words
    for ask in campaign.asks:
        who = f"asked by {ask.who}, chosen by {ask.method}"
        assert (
            f"Batch {ask.number}: {len(ask.picks)} ids, {who} with {campaign.known_before[ask.number]} labels" in words
        )
        assert all(f"{pick.id}" in words for pick in ask.picks)
        assert all(warning in words for warning in ask.warnings)
    assert f"{campaign.gains_alone[1][-1]:.3g} nats per label" in words
    assert "3 ids, and people agree on 1 of them" in words
    first, second = campaign.disagreements
    said = campaign.disagreements[first]
    assert f"ann <&> : {NAMES[said['ann <&>']]} ; bob: {NAMES[said['bob']]}" in words.replace("ann <&>:", "ann <&> :")
    assert second in words
    assert "3 of 4 classes have labels" in words
    assert "late class" in words
    assert f"Set aside and not asked for again: 1 id. {campaign.skipped[0]}" in words
    assert f"Waiting for a label: {len(campaign.outstanding)} id" in words
    for change in ("10 points joined the pool", "a class joined: late class", "method is now power-bald", "k is now 3"):
        assert change in words
    assert "begun: method batchbald, batches of 4, seed 0, 50 points, 3 classes" in words
    assert f"stopped: {campaign.stops[0].reason}" in words
    assert f"natsel journal export {journal} labels.csv" in words


def test_points_that_a_run_began_with_did_not_join(page):
    assert "50 points joined" not in page.text


def test_both_curves_are_drawn_and_readable_without_seeing_them(page):
    labels = [at["aria-label"] for at in page.all("svg") if "aria-label" in at]
    (accuracy,) = {label for label in labels if label.startswith("accuracy over labels")}
    assert re.search(r"test from \d.* % at 4 labels to .*; validation from \d.* % at 4 labels", accuracy)
    assert any(label.startswith("nll over labels: test from") for label in labels)
    assert [at["aria-label"] for at in page.all("span") if "nats a label can remove" in at.get("aria-label", "")]


def test_the_download_holds_all_labels(journal, page):
    (link,) = [at for at in page.all("a") if "download" in at]
    content = base64.b64decode(link["href"].split(",")[1]).decode()
    with Journal(journal) as opened:
        labels = opened.labels(1)
    rows = list(csv.DictReader(io.StringIO(content)))
    assert [(row["id"], row["value"], row["who"]) for row in rows] == [(x.id, str(x.value), x.who) for x in labels]
    assert sum(row["superseded"] == "True" for row in rows) == 3


def test_pictures_are_shown_for_ids_that_are_files_below_a_folder_and_for_no_other(journal, tmp_path):
    image = pytest.importorskip("PIL.Image", reason="needs the extra images")
    (tmp_path / "images" / "sub").mkdir(parents=True)
    with Journal(journal) as opened:
        campaign = read_campaign(opened)
    first, second, third = campaign.asks[0].ids[:3]
    image.fromarray(np.full((300, 200, 3), 200, np.uint8)).save(tmp_path / "images" / first)
    (tmp_path / "images" / second).write_bytes(b"no picture at all")
    image.fromarray(np.zeros((9, 9), np.uint8)).save(tmp_path / "outside.png")
    (tmp_path / "images" / third).symlink_to(tmp_path / "outside.png")
    made = report_campaign(journal, tmp_path / "page.html", pictures=tmp_path / "images")
    page = Page(made.page.read_text(encoding="utf-8"))
    assert [at["alt"] for at in page.all("img")] == [first]
    assert page.all("img")[0]["src"].startswith("data:image/jpeg;base64,")
    assert second in page.text
    with pytest.raises(ValueError, match=r"pictures: no id that was asked for names an image below .*; leave it out"):
        report_campaign(journal, tmp_path / "page.html", pictures=tmp_path)


def test_the_front_door_takes_learners_journals_and_files(journal, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with natsel.ActiveLearner(Lines(), natsel.Pool(np.eye(4), regression=True), k=2, run="numbers") as learner:
        learner.tell([0, 1, 2, 3], [0.5, -1.25, 2.0, 2.5])
        learner.ask()
        with pytest.raises(ValueError, match="page: the journal is in memory"):
            natsel.report(learner)
        written = natsel.report(learner, "page.html")
        again = natsel.report(learner.journal, "again.html", run="numbers")
    words = Page(written.read_text(encoding="utf-8")).text
    assert "4 numbers from -1.25 to 2.5" in words
    assert "Nothing has been measured" in words
    assert "no name" in words
    assert again.read_text(encoding="utf-8") == written.read_text(encoding="utf-8")
    backup = tmp_path / "copy of run.db"
    with Journal(journal) as opened:
        opened.copy(backup)
    assert natsel.report(str(backup)) == tmp_path / "copy of run.html"


def test_of_several_runs_the_last_changed_is_shown_unless_one_is_named(tmp_path, call, refused):  # noqa: F811
    path = tmp_path / "two.db"
    for name, method in (("one", "bald"), ("two/2", "random"), ("one", "bald")):
        with learner_of(path, run=name, method=method, k=3) as learner:
            learner.run(budget=6 if learner.n_labelled == 0 else 9, oracle=answers)
    done = call("report", path)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("9 labels: accuracy on the test examples is ")
    words = Page((tmp_path / "two.html").read_text(encoding="utf-8")).text
    assert "The journal holds 2 runs; this page is about 'one'." in words
    assert "two/2 2 6" in words  # the other one, with its batches and labels
    done = call("report", path, "--run", "two/2", "--json")
    found = json.loads(done.out)
    assert (found["run"], found["labels"], found["report"]) == ("two/2", 6, str(tmp_path / "two-two-2.html"))
    assert set(found["metrics"]) == {
        "accuracy",
        "nll",
        "brier",
        "ece",
        "balanced accuracy",
        "validation accuracy",
        "validation nll",
    }
    assert "run: " in refused("report", path, "--run", "three")
    assert "it has 'one', 'two/2'" in refused("report", path, "--run", "three")


def test_what_is_no_journal_and_no_folder_of_runs_is_refused_in_one_sentence(tmp_path, refused, journal):  # noqa: F811
    (tmp_path / "notes.txt").write_text("no journal")
    for name, found in (("notes.txt", "is a file and no folder"), ("none.db", "there is no folder")):
        assert found in refused("report", tmp_path / name)
        with pytest.raises(ValueError, match=rf"{found}.*; name the folder of an experiment, .* or the journal of a"):
            natsel.report(tmp_path / name)
    with Journal(tmp_path / "new.db"):
        pass
    assert "new.db holds no run yet; a learner with store=" in refused("report", tmp_path / "new.db")
    assert "leave --figures out" in refused("report", journal, "--figures", tmp_path / "figures")
    assert "leave --run out" in refused("report", tmp_path, "--run", "main")
    assert "there is no folder" in refused("report", journal, "--pictures", tmp_path / "nowhere")
    assert not list(tmp_path.glob("*.html"))


def test_a_run_before_its_first_label_has_a_page(tmp_path):
    with learner_of(tmp_path / "run.db", who="desk") as learner:
        words = Page(natsel.report(learner).read_text(encoding="utf-8")).text
        assert "No label has been told yet." in words
        assert "Nothing has been asked yet." in words
        learner.ask()
        assert "Waiting for a label: 10 ids" in Page(natsel.report(learner).read_text(encoding="utf-8")).text


def test_long_campaigns_make_pages_of_bounded_size():
    with Journal() as journal:
        state = journal.begin("main", Terms("data", "bald", 80, 0))
        for number in range(30):
            ids = [f"point {80 * number + n}" for n in range(80)]
            picks = tuple(Acquisition(id, 0.5, 0.5, 0.1) for id in ids)
            journal.ask(state, Ask(picks, "bald", 0, state.revision))
            journal.tell(state, ids, [number % 3] * 80, who="ann")
            journal.catch_up(state)
        page = Page(campaign_page(read_campaign(journal)))
    assert sum(tag == "details" and at.get("class") == "card" for tag, at in page.tags) == 12
    assert "and 30 more" in page.text
    assert "The first batch and the last 11" in page.text


# Times, which a journal writes down by itself, are made up here.

NOON = datetime.fromisoformat("2025-03-01T12:00:00+00:00")


def at(seconds):
    return (NOON + timedelta(seconds=seconds)).isoformat()


def campaign_with(asks, labels):
    with Journal() as journal:
        journal.begin("main", Terms("data", "bald", 2, 0))
        empty = read_campaign(journal)
    asked = [Ask((), "bald", 0, 0, number=n, at=at(when)) for n, when in asks.items()]
    told = [Label(seq, id, 0, who, at(when), ask) for seq, id, who, when, ask in labels]
    return replace(empty, rounds=[Round(0, 0, 0, {}, {}, tuple(asked))], labels=told)


def test_pace_counts_from_the_ask_or_from_what_the_same_person_told_before():
    campaign = campaign_with(
        asks={1: 0, 2: 100},
        labels=[
            (1, "a", "ann", 20, 1),
            (1, "b", "ann", 20, 1),  # told together: 20 s for both
            (2, "c", "bob", 30, 1),  # 30 s from the ask
            (3, "d", "ann", 60, 1),  # 40 s from what ann told before
            (4, "e", "ann", 110, 2),  # 10 s from the ask
            (5, "f", "ann", 110 + PAUSE + 1, 2),  # after a pause: neither counts
            (6, "g", "bob", 5000, None),  # answers nothing
        ],
    )
    ann, bob = campaign.paces
    assert (ann.who, ann.n_labels, ann.waits) == ("ann", 5, (20, 20, 60, 10, 11 + PAUSE))
    assert ann.per_hour == pytest.approx(3600 * 4 / 70)
    assert (bob.who, bob.n_labels, bob.waits) == ("bob", 2, (30,))
    assert bob.per_hour == pytest.approx(3600 / 30)


def test_a_clock_that_was_set_back_makes_no_time_negative():
    (pace,) = campaign_with(asks={1: 100}, labels=[(1, "a", "ann", 40, 1)]).paces
    assert pace.waits == (0,)
    assert pace.per_hour is None


def test_times_of_asks_come_from_the_journal(journal):
    with Journal(journal) as opened:
        asks = read_campaign(opened).asks
    times = [datetime.fromisoformat(ask.at) for ask in asks]
    assert all(one <= other for one, other in pairwise(times))


def test_gains_of_methods_are_told_apart():
    alone = Ask((Acquisition(1, 0.4, 0.4), Acquisition(2, 0.2, 0.2)), "bald", 0, 5, number=1)
    joint = Ask((Acquisition(3, 0.6, 0.6), Acquisition(4, 0.1, 0.5)), "batchbald", 0, 7, number=2)
    other = Ask((Acquisition(5, 9.0, 0.3),), "entropy", 0, 7, number=3)  # its scores are no gains
    rounds = [Round(0, 5, 5, {}, {}, (alone,)), Round(1, 7, 7, {}, {}, (joint, other))]
    campaign = replace(campaign_with({}, []), rounds=rounds)
    sizes, values = campaign.gains_alone
    assert (sizes, values) == ([5, 7], [pytest.approx(0.3), pytest.approx((0.55 + 0.3) / 2)])
    assert campaign.gains_in_batch == ([7], [pytest.approx(0.35)])


def test_a_curve_takes_the_last_fit_to_so_many_labels_and_leaves_gaps_out():
    rounds = [Round(n, n, size, metrics, {}) for n, (size, metrics) in enumerate([(0, {}), (5, {"nll": 3.0})])]
    rounds += [Round(2, 6, 5, {"nll": 2.0}, {}), Round(3, 9, 8, {"nll": float("nan")}, {})]
    assert curve(rounds, "nll") == ([5], [2.0])


def test_changes_are_told_in_words():
    changes = {
        "method": "entropy",
        "objective": "Entropy()",
        "search": "TopK()",
        "test": "30 examples 1f",
        "targets": None,
    }
    assert described_changes({"terms": changes}) == [
        "method is now entropy",
        "test: other ones from now on",
        "targets: none from now on",
    ]
    assert described_changes({"classes": ["a", "b"]}) == ["2 classes joined: a, b"]


def test_the_page_says_whether_labels_went_by_id_or_by_position(tmp_path):
    for name, labels in (("by id", {3: 1, 0: 0}), ("by position", [0, 1, None, None])):
        path = tmp_path / f"{name}.db"
        pool = natsel.Pool(np.zeros((4, 2)), labels=labels)
        natsel.ActiveLearner(Committee(), pool, store=path).close()
        with Journal(path) as opened:
            assert f"<div><dt>labels given</dt><dd>{name}</dd></div>" in campaign_page(read_campaign(opened))
