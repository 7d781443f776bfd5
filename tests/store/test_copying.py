"""Copies, checks and exports through the library."""

import csv
import json
import shutil
import threading

import pytest

from natsel.store import Journal
from natsel.store.exporting import salvage
from store.made_journals import TERMS, count_of, filled, flip, page_of


@pytest.fixture
def journal(tmp_path):
    with Journal(tmp_path / "run.db") as journal:
        filled(journal)
        yield journal


def test_a_copy_is_the_journal_and_its_artefacts(journal, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    report = journal.copy(tmp_path / "elsewhere" / "backup.db")
    assert (report.sound, report.runs, report.labels, report.artefacts, report.notes) == (True, 1, 2, 1, ())
    shutil.rmtree(tmp_path / "run.artefacts")
    with Journal(tmp_path / "elsewhere" / "backup.db") as copy:
        assert copy.replay("main") == journal.replay("main")
        assert copy.rounds(1) == journal.rounds(1)
        assert copy.fetch(1, "weights", 1)["w"].tolist() == [1, 1, 1]
        copy.tell(copy.replay("main"), [9], [1])
    assert count_of(journal.path) == 2
    assert sorted(file.name for file in (tmp_path / "elsewhere").iterdir()) == ["backup.artefacts", "backup.db"]


def test_one_in_memory_can_be_kept(tmp_path):
    with Journal() as journal:
        filled(journal)
        assert journal.copy(tmp_path / "kept.db").notes == ()
    with Journal(tmp_path / "kept.db") as kept:
        assert kept.fetch(1, "weights", 1) is not None
        assert kept.replay("main").values == {1: 1}


def test_nothing_is_ever_replaced(journal, tmp_path):
    other = tmp_path / "other.db"
    other.write_text("mine")
    for target in (other, journal.path, tmp_path):
        with pytest.raises(ValueError, match=r"path: .* is there already; choose another name"):
            journal.copy(target)
    assert other.read_text() == "mine"
    (tmp_path / "new.db-journal").write_bytes(b"log of a journal that is gone")
    with pytest.raises(ValueError, match=r"path: .*new.db-journal is left over from another journal"):
        journal.copy(tmp_path / "new.db")
    with pytest.raises(ValueError, match="there is no folder"):
        journal.copy(tmp_path / "no" / "new.db")
    assert count_of(journal.path) == 2
    assert not list(tmp_path.glob(".natsel-*"))


def test_a_missing_artefact_is_noted_and_the_rest_copied(journal, tmp_path):
    shutil.rmtree(tmp_path / "run.artefacts")
    report = journal.copy(tmp_path / "backup.db")
    assert report.sound
    (note,) = report.notes
    assert "is missing; it is made again when it is needed" in note
    assert count_of(tmp_path / "backup.db") == 2


def test_copies_made_while_others_write_hold_what_was_acknowledged(tmp_path):
    path, acknowledged, enough = tmp_path / "run.db", [0], threading.Event()
    with Journal(path) as journal:
        journal.begin("main", TERMS)

    def write():
        with Journal(path) as mine:
            while not enough.is_set():
                first = acknowledged[0]
                mine.tell(mine.replay("main"), range(first, first + 10), [0] * 10)
                acknowledged[0] = first + 10

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with Journal(path) as journal:
            for number in range(8):
                while acknowledged[0] < 10 * number:  # so that something happens between copies
                    assert writer.is_alive()
                before = acknowledged[0]
                assert journal.copy(tmp_path / f"{number}.db").labels >= before
    finally:
        enough.set()
        writer.join()


def test_a_check_names_what_is_wrong_and_what_is_safe(journal):
    report = journal.check()
    assert (report.sound, report.entries, report.whole, report.problems) == (True, 7, 7, ())
    journal._connection.execute("PRAGMA foreign_keys = OFF")
    journal._connection.execute("INSERT INTO marks VALUES (99, 0, 5)")
    report = journal.check()
    assert not report.sound
    assert report.whole == 7
    assert any("row 2 of marks belongs to a row of entries that is not there" in problem for problem in report.problems)
    assert any("rows of marks after entry 7 have no seal" in problem for problem in report.problems)


def test_a_check_looks_at_artefacts(journal, tmp_path):
    (file,) = (tmp_path / "run.artefacts").iterdir()
    file.write_bytes(b"?")
    report = journal.check()
    assert report.sound, "labels are"
    (note,) = report.notes
    assert f"artefact {file.stem} is damaged" in note


def test_labels_are_written_as_csv_and_json(journal, tmp_path):
    state = journal.begin("second", TERMS)
    journal.tell(state, [7], [0.25], who='chris, "dan"\né')
    assert journal.export(tmp_path / "labels.csv") == journal.export(tmp_path / "labels.json") == 3
    rows = json.loads((tmp_path / "labels.json").read_text(encoding="utf-8"))
    times = [row.pop("at") for row in rows]
    assert times == sorted(times)
    shared = {"run": "main", "id": 1}
    assert rows == [
        {**shared, "value": 0, "class": "cat", "who": "anna", "ask": 1, "superseded": True},
        {**shared, "value": 1, "class": "dog", "who": "ben", "ask": None, "superseded": False},
        {
            "run": "second",
            "id": 7,
            "value": 0.25,
            "class": None,
            "who": 'chris, "dan"\né',
            "ask": None,
            "superseded": False,
        },
    ]
    with (tmp_path / "labels.csv").open(encoding="utf-8", newline="") as stream:
        texts = list(csv.DictReader(stream))
    assert [{**row, "at": ""} for row in texts] == [
        {name: "" if value is None else str(value) for name, value in row.items()} | {"at": ""} for row in rows
    ]
    with pytest.raises(ValueError, match=r"path: expected a name that ends in .csv or .json, found run.db"):
        journal.export(tmp_path / "run.db")


def test_a_journal_without_labels_has_a_head_and_no_rows(tmp_path):
    with Journal() as journal:
        assert journal.export(tmp_path / "labels.csv") == 0
    assert (tmp_path / "labels.csv").read_text() == "run,id,value,class,who,at,ask,superseded\n"


def test_what_can_be_read_of_a_damaged_journal_is_written(tmp_path):
    path = tmp_path / "run.db"
    with Journal(path) as journal:
        state = journal.begin("main", TERMS)
        for first in range(0, 2000, 20):
            journal.tell(state, range(first, first + 20), [0, 1] * 10)
    content, root = bytearray(path.read_bytes()), page_of(path, "labels")
    leaves = int.from_bytes(content[root + 3 : root + 5], "big")
    assert leaves > 5
    pointer = root + 12 + 2 * (leaves // 2)
    cell = root + int.from_bytes(content[pointer : pointer + 2], "big")
    middle = 4096 * (int.from_bytes(content[cell : cell + 4], "big") - 1)
    content[middle : middle + 4096] = bytes(4096)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"natsel journal export --damaged"):
        Journal(path)
    before = path.read_bytes()
    count = salvage(path, tmp_path / "labels.json")
    rows = json.loads((tmp_path / "labels.json").read_text())
    assert 1000 < count == len(rows) < 2000
    assert {row["id"] for row in rows} >= {0, 1999}, "both sides of the page that is gone"
    assert all(row["value"] == row["id"] % 2 and row["class"] == ("cat", "dog")[row["value"]] for row in rows)
    sound = [row["id"] for row in rows if row["sound"]]
    assert sound == list(range(len(sound)))
    assert 0 < len(sound) < count
    assert path.read_bytes() == before


def test_a_salvage_marks_labels_that_became_others(journal, tmp_path):
    with Journal(journal.path) as other:
        other.tell(other.replay("main"), [1], [2], who="chris")
    journal.close()
    place, content = page_of(journal.path, "labels"), journal.path.read_bytes()
    cell = place + int.from_bytes(content[place + 12 : place + 14], "big")
    flip(journal.path, cell + 1 + content[cell])
    assert salvage(journal.path, tmp_path / "labels.json") == 3
    rows = json.loads((tmp_path / "labels.json").read_text())
    assert [(row["value"], row["sound"]) for row in rows] == [(0, True), (1, True), (3, False)]


def test_a_salvage_of_something_else_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("notes " * 200)
    with pytest.raises(ValueError, match=r"notes.txt is no journal"):
        salvage(tmp_path / "notes.txt", tmp_path / "labels.csv")
    with pytest.raises(ValueError, match="there is no file"):
        salvage(tmp_path / "none.db", tmp_path / "labels.csv")
    assert not (tmp_path / "labels.csv").exists()
