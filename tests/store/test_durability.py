"""What a journal withstands: other programs, other versions, full disks, torn files, forks."""

import os
import shutil
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from natsel.store import Acquisition, Ask, Journal, Stop, Terms, schema

TERMS = Terms(pool="some data", method="bald", k=2, seed=0)


@pytest.fixture
def journal(tmp_path):
    with Journal(tmp_path / "run.db") as journal:
        yield journal


@pytest.fixture
def state(journal):
    return journal.begin("main", TERMS)


def filled(journal):
    """A journal with a row in every table."""
    state = journal.begin("main", TERMS)
    journal.ask(state, Ask((Acquisition(1, 0.5), Acquisition(2, 0.5)), "bald", 0, 0))
    journal.tell(state, [1], [0], skipped=[2])
    journal.record_round(state.run, 1, 1, {"accuracy": 1.0}, {})
    journal.record_stop(state.run, Stop(1, "rule", "reason"))
    journal.keep(state.run, "weights", 1, {"w": torch.ones(3)})
    return state


def test_commits_are_flushed_and_readers_do_not_wait(journal):
    assert journal._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert journal._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert journal._connection.execute("PRAGMA foreign_keys").fetchone() == (1,)


def test_no_program_can_change_or_remove_a_row(journal):
    filled(journal)
    with sqlite3.connect(journal.path) as stranger:
        tables = [name for (name,) in stranger.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        ours = [name for name in tables if not name.startswith("sqlite_")]
        assert len(ours) == 10
        for table in ours:
            rows = stranger.execute(f"SELECT * FROM {table}").fetchall()
            columns = [column[1] for column in stranger.execute(f"PRAGMA table_info({table})")]
            assert rows, f"{table} is empty, so that nothing is tested"
            holes = ", ".join("?" * len(columns))
            for statement in (
                f"UPDATE {table} SET {columns[-1]} = {columns[-1]}",
                f"UPDATE OR REPLACE {table} SET {columns[0]} = {columns[0]} + 1",
                f"DELETE FROM {table}",
                f"INSERT OR REPLACE INTO {table} VALUES ({holes})",
            ):
                with pytest.raises(sqlite3.IntegrityError, match="never changed"):
                    stranger.execute(statement, rows[0] if "INSERT" in statement else ())
            assert stranger.execute(f"SELECT * FROM {table}").fetchall() == rows


def test_tables_refuse_values_of_another_kind(journal):
    filled(journal)
    with pytest.raises(sqlite3.IntegrityError):
        journal._connection.execute("INSERT INTO labels VALUES (2, 9, 'three', 1, NULL)")
    with pytest.raises(sqlite3.IntegrityError):
        journal._connection.execute("INSERT INTO labels VALUES (999, 0, 3, 1, NULL)")  # no such entry
    with pytest.raises(sqlite3.IntegrityError):
        journal._connection.execute("INSERT INTO labels VALUES (2, 9, 3, NULL, NULL)")


def test_a_newer_journal_is_refused_and_an_older_one_brought_up_to_date(tmp_path, monkeypatch):
    path = tmp_path / "run.db"
    with Journal(path) as journal:
        filled(journal)
    added = ["CREATE TABLE moods (seq INTEGER PRIMARY KEY, mood TEXT) STRICT"]
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, added])
    with Journal(path) as journal:
        assert journal._connection.execute("SELECT count(*) FROM moods").fetchone() == (0,)
        assert journal.replay("main").values == {1: 0}
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"newer natsel \(journal version 2, this one reads up to 1\)"):
        Journal(path)


def test_a_migration_that_is_cut_off_leaves_the_old_version(tmp_path, monkeypatch):
    path = tmp_path / "run.db"
    Journal(path).close()
    broken = ["CREATE TABLE moods (mood TEXT) STRICT", "CREATE TABLE nonsense ("]
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, broken])
    with pytest.raises(ValueError, match="cannot be read as a journal"):
        Journal(path)
    monkeypatch.undo()
    with Journal(path) as journal:
        tables = journal._connection.execute("SELECT name FROM sqlite_master WHERE name = 'moods'").fetchall()
        assert tables == []


def test_other_files_are_refused_and_left_as_they_are(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("these are my notes, and they are longer than the head of a database\n" * 20)
    before = text.read_bytes()
    with pytest.raises(ValueError, match="cannot be read as a journal"):
        Journal(text)
    assert text.read_bytes() == before
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE mine (x)")
    database.close()
    before = other.read_bytes()
    with pytest.raises(ValueError, match="database of another program"):
        Journal(other)
    assert other.read_bytes() == before
    with pytest.raises(ValueError, match="is a folder"):
        Journal(tmp_path)
    with pytest.raises(ValueError, match="there is no folder"):
        Journal(tmp_path / "no" / "run.db")
    with pytest.raises(ValueError, match="there is no journal"):
        Journal(tmp_path / "none.db", create=False)
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "empty.db").touch()  # what a kill in the first instant leaves
    Journal(tmp_path / "empty.db").close()


def test_a_full_disk_loses_nothing_that_was_acknowledged(journal, state):
    journal.tell(state, [1], [0])
    journal.catch_up(state)
    pages = journal._connection.execute("PRAGMA page_count").fetchone()[0]
    journal._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        journal.tell(state, list(range(2, 5000)), [0] * 4998)
    assert state.values == journal.replay("main").values == {1: 0}
    journal._connection.execute("PRAGMA max_page_count = 1000000")
    journal.tell(state, [2], [1])
    assert journal.replay("main").values == {1: 0, 2: 1}


def test_a_writer_that_hangs_is_named_after_the_timeout(tmp_path):
    path = tmp_path / "run.db"
    with Journal(path) as one, Journal(path, timeout=0.2) as two:
        state = one.begin("main", TERMS)
        one._connection.execute("BEGIN IMMEDIATE")
        assert two.replay("main") == state, "readers do not wait"
        started = time.monotonic()
        with pytest.raises(TimeoutError, match=r"another program has held .*run.db for 0.2 s"):
            two.tell(state, [1], [0])
        assert time.monotonic() - started < 5
        one._connection.execute("ROLLBACK")
        two.tell(state, [1], [0])
        assert one.replay("main").values == {1: 0}


def test_a_journal_that_another_program_keeps_to_itself_is_not_waited_for_forever(tmp_path):
    path = tmp_path / "run.db"
    greedy = sqlite3.connect(path, isolation_level=None)
    greedy.execute("BEGIN EXCLUSIVE")
    with pytest.raises(TimeoutError, match=r"run.db has been busy for 0.2 s"):
        Journal(path, timeout=0.2)
    greedy.execute("ROLLBACK")
    greedy.close()
    Journal(path, timeout=0.2).close()


def test_many_may_make_one_journal_at_once(tmp_path):
    """All see an empty file and want to be the first; each must end up with the same journal."""

    def make(path):
        gate.wait()
        with Journal(path) as journal:
            return journal.begin("main", TERMS)

    with ThreadPoolExecutor(6) as threads:
        for number in range(25):
            gate = threading.Barrier(6)
            states = [*threads.map(make, [tmp_path / f"{number}.db"] * 6)]
            assert all(state == states[0] for state in states)


def test_a_torn_log_opens_as_it_was_at_some_commit_and_keeps_all_that_was_whole(journal, tmp_path):
    """Cut the log anywhere, as a power cut may: what was complete before the cut is there, the rest never happened."""
    journal._connection.execute("PRAGMA wal_autocheckpoint = 0")
    state = journal.begin("main", TERMS)
    log = journal.path.with_name("run.db-wal")
    sizes, states = [log.stat().st_size], [journal.replay("main")]
    for number in range(12):
        if number % 3 == 0:
            journal.ask(state, Ask((Acquisition(100 + number, 0.5),), "bald", 0, 0))
        else:
            journal.tell(state, range(number * 10, number * 10 + 7), [number] * 7)
        sizes.append(log.stat().st_size)
        states.append(journal.replay("main"))
    whole = log.read_bytes()
    cuts = sorted({*sizes, *(size - 1 for size in sizes[1:]), *range(sizes[0], len(whole), 2777)})
    for cut in cuts:
        copy = tmp_path / "copy.db"
        shutil.copy(journal.path, copy)
        copy.with_name("copy.db-wal").write_bytes(whole[:cut])
        with Journal(copy) as torn:
            acknowledged = max(n for n, size in enumerate(sizes) if size <= cut)
            assert torn.replay("main") == states[acknowledged]
            assert torn._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        for left in tmp_path.glob("copy.db*"):
            left.unlink()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_made_by_fork_must_open_its_own(journal, state):
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            journal.tell(state, [1], [0])
            os.write(writes, b"wrote")
        except ValueError as refusal:
            os.write(writes, str(refusal).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"before this process was forked; open it again here" in os.read(reads, 1000)


def test_a_closed_journal_says_so(journal, state):
    journal.close()
    journal.close()
    with pytest.raises(ValueError, match="was closed; open it again"):
        journal.tell(state, [1], [0])


def test_tensors_are_kept_by_content_and_checked_when_read(journal, state):
    shared = torch.arange(6.0)
    tensors = {"b": shared[::2], "a": shared.reshape(2, 3), "n": torch.tensor(7)}
    name = journal.keep(state.run, "weights", 1, tensors)
    assert journal.keep(state.run, "weights", 2, dict(reversed(tensors.items()))) == name
    (file,) = journal.path.with_suffix(".artefacts").iterdir()
    assert file.name == f"{name}.safetensors"
    found = journal.fetch(state.run, "weights", 2)
    assert {key: value.tolist() for key, value in found.items()} == {
        key: value.tolist() for key, value in tensors.items()
    }
    assert journal.kept(state.run, "weights") == [1, 2]
    assert journal.fetch(state.run, "weights", 3) is None
    assert journal.keep(state.run, "weights", 1, {"a": torch.zeros(1)}) == name, "what is kept stays"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(ValueError, match="is damaged"):
        journal.fetch(state.run, "weights", 1)
    file.unlink()
    with pytest.raises(ValueError, match="is missing; keep the folder beside the journal"):
        journal.fetch(state.run, "weights", 1)


def test_in_memory_nothing_touches_the_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Journal() as journal:
        state = filled(journal)
        assert journal.fetch(state.run, "weights", 1)["w"].tolist() == [1, 1, 1]
    assert list(tmp_path.iterdir()) == []
