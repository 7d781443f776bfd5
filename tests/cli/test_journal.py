"""`natsel journal`, and the page on backups: what it tells people to type does what it says."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

import natsel
from natsel.store import Journal
from store.made_journals import filled, flip, page_of

PAGE = Path(__file__).parents[2] / "docs" / "backup.md"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Journal("run.db") as journal:
        filled(journal)
    return tmp_path


@pytest.fixture
def damaged(run):
    with Journal("run.db") as journal:
        journal.tell(journal.replay("main"), [1], [2], who="chris")
    path = run / "run.db"
    place, content = page_of(path, "labels"), path.read_bytes()
    cell = place + int.from_bytes(content[place + 12 : place + 14], "big")
    flip(path, cell + 1 + content[cell])
    return path


@pytest.mark.parametrize("command", ["copy", "check", "export"])
def test_every_help_shows_an_example(call, command):
    done = call("journal", command, "--help")
    assert done.code == 0
    assert f"Example: natsel journal {command} run.db" in done.out


def test_alone_it_shows_its_help(call):
    for arguments in (("journal",), ("journal", "--help")):
        done = call(*arguments)
        assert done.code == 0
        assert all(word in done.out for word in ("copy", "check", "export", "Example: natsel journal copy"))


def test_copy(call, run, refused):
    done = call("journal", "copy", "run.db", "backup.db")
    assert (done.code, done.err) == (0, "")
    assert done.out == "run.db is copied to backup.db: 1 run, 2 labels in 7 entries, 1 artefact\n"
    with Journal("backup.db", create=False) as copy:
        assert copy.replay("main").values == {1: 1}
        assert copy.fetch(1, "weights", 1) is not None
    assert "backup.db is there already; choose another name" in refused("journal", "copy", "run.db", "backup.db")
    assert "there is no journal none.db" in refused("journal", "copy", "none.db", "b.db")
    assert not Path("none.db").exists()
    found = json.loads(call("journal", "copy", "run.db", "again.db", "--json").out)
    assert (found["path"], found["sound"], found["labels"], found["notes"]) == ("again.db", True, 2, [])


def test_check(call, run):
    done = call("journal", "check", "run.db")
    assert done.code == 0
    assert done.out == "run.db is sound: 1 run, 2 labels in 7 entries, 1 artefact, all as written\n"
    shutil.rmtree("run.artefacts")
    done = call("journal", "check", "run.db")
    assert done.code == 0
    assert "is missing; it is made again when it is needed" in done.out
    assert json.loads(call("journal", "check", "run.db", "--json").out)["whole"] == 7


def test_check_of_a_damaged_one(call, damaged, refused):
    done = call("journal", "check", "run.db")
    assert done.code == 1
    assert "run.db is damaged: what was written after entry 7 is not as it was written" in done.out
    assert "safe: entries up to 7 are as written" in done.out
    found = call("journal", "check", "run.db", "--json")
    assert (found.code, json.loads(found.out)["sound"]) == (1, False)
    assert "entries up to 7 are as they were written" in refused("journal", "copy", "run.db", "backup.db")
    assert not Path("backup.db").exists()


def test_export(call, run, refused):
    done = call("journal", "export", "run.db", "labels.csv")
    assert (done.code, done.out) == (0, "2 labels of run.db are in labels.csv\n")
    first, *rows = Path("labels.csv").read_text().splitlines()
    assert first == "run,id,value,class,who,at,ask,superseded"
    assert [row.split(",")[3] for row in rows] == ["cat", "dog"]
    assert json.loads(call("journal", "export", "run.db", "labels.json", "--json").out)["labels"] == 2
    assert "expected a name that ends in .csv or .json" in refused("journal", "export", "run.db", "labels.txt")


def test_export_of_a_damaged_one(call, damaged, refused):
    assert "--damaged" in refused("journal", "export", "run.db", "labels.csv")
    assert not Path("labels.csv").exists()
    assert call("journal", "export", "run.db", "labels.json", "--damaged").code == 0
    rows = json.loads(Path("labels.json").read_text())
    assert [(row["value"], row["sound"]) for row in rows] == [(0, True), (1, True), (3, False)]


@pytest.mark.parametrize("name", ["notes.txt", "folder"])
def test_other_files_are_refused(refused, run, name):
    Path("notes.txt").write_text("notes " * 200)
    Path("folder").mkdir()
    for command in (
        ("copy", name, "b.db"),
        ("check", name),
        ("export", name, "a.csv"),
        ("export", name, "a.csv", "--damaged"),
    ):
        refused("journal", *command)


def test_the_page_does_what_it_says(call, run):
    blocks = re.findall(r"```(sh|python)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert {kind for kind, _ in blocks} == {"sh", "python"}
    for kind, text in blocks:
        if kind == "python":
            exec(text, {})
            continue
        for line in text.splitlines():
            program, *arguments = shlex.split(line)
            assert program == "natsel"
            assert call(*arguments).code == 0, line
    assert natsel.Journal("backup-2.db").replay("main").values == {1: 1}
    assert Path("labels.csv").exists()
