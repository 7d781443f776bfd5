"""Damage is seen, and every trouble with files is one sentence that says what is safe and what to do."""

import os
import random
import shutil
import sqlite3
import stat
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from natsel.store import Journal, checking, schema
from store.flipped_journals import measure
from store.made_journals import TERMS, filled, flip, page_of


@pytest.fixture
def path(tmp_path):
    with Journal(tmp_path / "run.db") as journal:
        filled(journal)
    return tmp_path / "run.db"


def test_no_flipped_bit_goes_unseen():
    found = measure(count=80, seed=1, rounds=10)
    assert found["unseen"] == 0
    assert set(found["outcomes"]) == {"refused", "no matter"}, "every refusal is a sentence of the store"
    assert found["silently_changed_without_checks"] > 5, "flips hit nothing that matters"
    assert found["of_these_missed_by"]["integrity_check"] > 3, "SQLite's check would do"


def test_a_label_that_became_another_is_seen(path):
    """SQLite has no means to see it: no index holds the value."""
    with Journal(path) as journal:
        journal.tell(journal.replay("main"), [1], [2], who="chris")
    place, content = page_of(path, "labels"), path.read_bytes()
    cell = place + int.from_bytes(content[place + 12 : place + 14], "big")  # the third label of the page
    flip(path, cell + 1 + content[cell])  # the last byte of its record: its value
    with sqlite3.connect(path) as database:
        told = [value for (value,) in database.execute("SELECT value FROM labels ORDER BY rowid")]
        assert told == [0, 1, 3]
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()
    with pytest.raises(ValueError, match=r"entries up to 7 are as they were written; copy it again"):
        Journal(path)
    with Journal(path, check=False) as journal:
        assert [label.value for label in journal.labels(1)] == told
        report = journal.check()
    assert (report.sound, report.whole) == (False, 7)


def test_triggers_are_looked_at(path):
    """Without them a row could be changed; rows themselves are as they were."""
    database = sqlite3.connect(path)
    database.execute("DROP TRIGGER labels_no_UPDATE")
    database.close()
    with pytest.raises(ValueError, match="trigger labels_no_UPDATE is not natsel's"):
        Journal(path)


@pytest.mark.parametrize("last", [6, 8])
def test_a_file_that_is_short_of_entries_is_seen(path, last):
    """SQLite notes the number of the last entry in a place of its own; a page that is older than others shows there."""
    database = sqlite3.connect(path)
    database.execute("UPDATE sqlite_sequence SET seq = ?", (last,))
    database.commit()
    database.close()
    with pytest.raises(ValueError, match=r"the last entry is not 7\); entries up to 7 are as they were written"):
        Journal(path)


def test_rows_that_natsel_did_not_write_are_seen(path):
    database = sqlite3.connect(path)
    database.execute("INSERT INTO marks VALUES (1, 5, 9)")
    database.commit()
    database.close()
    with pytest.raises(ValueError, match="is not as it was written"):
        Journal(path)


@pytest.mark.parametrize("rows", ["entries", "artefacts"])
def test_rows_without_a_seal_are_seen(path, rows):
    database = sqlite3.connect(path)
    statements = {
        "entries": "INSERT INTO entries (run, kind, who, at) VALUES (1, 'skip', '', '')",
        "artefacts": "INSERT INTO artefacts VALUES (1, 'weights', 7, 'x', 1, '')",
    }
    database.execute(statements[rows])
    database.commit()
    database.close()
    with pytest.raises(ValueError, match=f"rows of {rows} after entry 7 have no seal"):
        Journal(path)


def test_a_cut_file_is_refused(path, tmp_path):
    whole = path.read_bytes()
    for size in (100, 4096, 4097, len(whole) // 2, len(whole) - 4096, len(whole) - 1):
        (tmp_path / "cut.db").write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"store: .*cut.db is (damaged|no journal)"):
            Journal(tmp_path / "cut.db")


def test_no_sentence_advises_to_remove_a_journal(path, tmp_path):
    """Whatever is broken, the file may hold labels."""
    chance = random.Random(3)
    sentences = set()
    for _ in range(80):
        content = bytearray(path.read_bytes())
        at = chance.randrange(0, len(content), 512)
        content[at : at + 512] = chance.randbytes(512)
        (tmp_path / "broken.db").write_bytes(content)
        try:
            Journal(tmp_path / "broken.db", timeout=0.2).close()
        except (ValueError, OSError) as refusal:
            sentences.add(str(refusal))
    assert len(sentences) > 4
    for sentence in sentences:
        assert sentence.startswith("store: ")
        assert ";" in sentence
        assert "remove" not in sentence
        assert "delete" not in sentence


def test_what_may_not_be_written_says_so_and_is_read(path):
    with Journal(path) as journal:
        state = journal.replay("main")
        journal._connection.execute("PRAGMA query_only = ON")
        with pytest.raises(PermissionError, match=r"run.db or its folder may not be written to .*it holds is safe"):
            journal.tell(state, [5], [1])
        assert journal.replay("main") == state


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX system")
def test_a_read_only_folder_can_be_read_and_says_so():
    folder = Path(tempfile.mkdtemp(prefix="natsel-test-"))
    try:
        with Journal(folder / "run.db") as journal:
            filled(journal)
        (folder / "run.db").chmod(0o444)
        folder.chmod(0o555)
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                if os.getuid() == 0:
                    os.setuid(65534)  # rights mean nothing to root
                os.write(writes, _tried(folder).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(writes)
        found = os.read(reads, 4000).decode().split("\n")
        assert found[0] == "{1: 1}"
        assert "run.db or its folder may not be written to" in found[1]
        assert "new.db or its folder may not be written to" in found[2]
    finally:
        folder.chmod(stat.S_IRWXU)
        shutil.rmtree(folder)


def _tried(folder):
    told = []
    with Journal(folder / "run.db") as journal:
        state = journal.replay("main")
        told.append(repr(state.values))
        try:
            journal.tell(state, [5], [1])
        except Exception as failure:
            told.append(f"{type(failure).__name__} {failure}")
    try:
        Journal(folder / "new.db")
    except Exception as failure:
        told.append(f"{type(failure).__name__} {failure}")
    return "\n".join(told)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX system")
def test_a_disk_that_takes_no_more_says_so_and_goes_on(path):
    """A limit on the size of files stands for a full disk; SQLite calls it an error of the disk."""
    import resource
    import signal

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with Journal(path) as journal:
        state = journal.replay("main")
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, before[1]))
        try:
            with pytest.raises(OSError, match=r"store: .*run.db .*all before it is safe"):
                journal.tell(state, range(100, 9000), [1] * 8900)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert journal.replay("main").values == {1: 1}
        journal.tell(state, [7], [1])
    with Journal(path) as journal:
        assert journal.replay("main").values == {1: 1, 7: 1}


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX system")
def test_a_journal_that_is_moved_away_under_a_learner_says_so(path):
    with Journal(path) as journal:
        state = journal.replay("main")
        path.rename(path.with_name("moved.db"))
        with pytest.raises(OSError, match=r"run.db was moved or removed while it was open; nothing of this call"):
            journal.tell(state, [5], [1])
        path.with_name("moved.db").rename(path)
        journal.tell(state, [5], [1])
        assert journal.replay("main").values == {1: 1, 5: 1}


def test_a_reader_that_hangs_is_named_and_nothing_is_lost(tmp_path):
    """A commit waits for those who read, and not forever."""
    path = tmp_path / "run.db"
    with Journal(path) as one, Journal(path, timeout=0.2) as two:
        state = one.begin("main", TERMS)
        one._connection.execute("BEGIN")
        one._connection.execute("SELECT * FROM runs").fetchone()
        with pytest.raises(TimeoutError, match=r"has held .*run.db for 0.2 s; nothing of this call was written"):
            two.tell(state, [1], [0])
        one._connection.execute("ROLLBACK")
        assert two.replay("main").values == {}
        two.tell(state, [1], [0])
        assert one.replay("main").values == {1: 0}


def test_a_schema_whose_kinds_and_names_are_no_texts_is_refused(path, monkeypatch):
    with closing(sqlite3.connect(path)) as database:
        others, found = {(b"index", b"a", ""), ("index", "b", "")}, schema.found
        monkeypatch.setattr(schema, "found", lambda one: found(one) | (others if one is database else set()))
        assert "is not natsel's" in checking.damage(database)
