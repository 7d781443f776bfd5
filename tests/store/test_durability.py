"""What a journal withstands: other programs, other versions, full disks, torn files, forks."""

import hashlib
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import safetensors.torch
import torch

from natsel.containers import write_arrays
from natsel.experiments.running.folder import write_json
from natsel.store import Journal, schema
from natsel.store.artefacts import Artefacts
from store.made_journals import TERMS, filled


@pytest.fixture
def journal(tmp_path):
    with Journal(tmp_path / "run.db") as journal:
        yield journal


@pytest.fixture
def state(journal):
    return journal.begin("main", TERMS)


def test_commits_are_flushed_and_leave_no_log(journal, state):
    wanted = {"synchronous": 3, "journal_mode": "delete", "foreign_keys": 1, "cache_spill": 0}
    assert {name: journal._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in wanted} == wanted
    journal.tell(state, [1], [0])
    assert [file.name for file in journal.path.parent.iterdir()] == ["run.db"]


def test_no_program_can_change_or_remove_a_row(journal):
    filled(journal)
    with sqlite3.connect(journal.path) as stranger:
        tables = [name for (name,) in stranger.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        ours = [name for name in tables if not name.startswith("sqlite_")]
        assert len(ours) == 14
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
        journal._connection.execute("INSERT INTO labels VALUES (2, 9, 3.5, 1, NULL)")
    with pytest.raises(sqlite3.IntegrityError):
        journal._connection.execute("INSERT INTO labels VALUES (999, 0, 3, 1, NULL)")  # no such entry
    with pytest.raises(sqlite3.IntegrityError):
        journal._connection.execute("INSERT INTO labels VALUES (2, 9, 3, NULL, NULL)")


@pytest.mark.parametrize("version", [1, 2, 4])
def test_a_journal_of_another_version_is_refused_and_left_as_it_is(tmp_path, version):
    path = tmp_path / "run.db"
    with Journal(path) as journal:
        filled(journal)
        journal._connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=rf"run.db has journal version {version}, this natsel reads 3; open it"):
        Journal(path)
    assert path.read_bytes() == before


def test_a_journal_that_is_cut_off_in_the_making_is_empty(tmp_path, monkeypatch):
    path = tmp_path / "run.db"
    monkeypatch.setattr(schema, "STATEMENTS", [*schema.STATEMENTS, "CREATE TABLE nonsense ("])
    with pytest.raises(ValueError, match="cannot be read as a journal"):
        Journal(path)
    monkeypatch.undo()
    with Journal(path) as journal:
        assert journal.check().sound


def test_the_schema_is_that_of_every_journal_of_this_version():
    """Files are compared with it as a text: what changes here refuses them, and needs another version."""
    text = repr(sorted(schema.expected()))
    assert (schema.VERSION, hashlib.blake2b(text.encode(), digest_size=8).hexdigest()) == (3, "4077dd1a5af56e7a")


def test_other_files_are_refused_and_left_as_they_are(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("these are my notes, and they are longer than the head of a database\n" * 20)
    before = text.read_bytes()
    with pytest.raises(ValueError, match=r"notes.txt is no journal, or its first bytes are damaged"):
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
    with pytest.raises(OSError, match=r"store: no room is left for .*run.db .*nothing of this call was written"):
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
        with pytest.raises(TimeoutError, match=r"another program has held .*run.db for 0.2 s"):
            two.tell(state, [1], [0])
        one._connection.execute("ROLLBACK")
        two.tell(state, [1], [0])
        assert one.replay("main").values == {1: 0}


def test_a_journal_that_another_program_keeps_to_itself_is_not_waited_for_forever(tmp_path):
    path = tmp_path / "run.db"
    greedy = sqlite3.connect(path, isolation_level=None)
    greedy.execute("BEGIN EXCLUSIVE")
    with pytest.raises(TimeoutError, match=r"another program has held .*run.db for 0.2 s"):
        Journal(path, timeout=0.2)
    greedy.execute("ROLLBACK")
    greedy.close()
    Journal(path, timeout=0.2).close()


def test_opening_a_second_one_leaves_the_locks_of_the_first_alone(journal, state):
    """The system lets go of all locks of a process on a file as soon as the process closes it anywhere."""
    journal._connection.execute("BEGIN IMMEDIATE")
    Journal(journal.path).close()
    code = (
        "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute('BEGIN IMMEDIATE')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(journal.path)], capture_output=True, text=True, check=False)
    journal._connection.execute("ROLLBACK")
    assert "database is locked" in done.stderr


@pytest.mark.parametrize("times", [8, pytest.param(100, marks=pytest.mark.slow)])
def test_many_may_make_one_journal_at_once(tmp_path, times):
    """All see an empty file and want to be the first; each must end up with the same journal."""

    def make(path):
        gate.wait()
        with Journal(path) as journal:
            return journal.begin("main", TERMS)

    with ThreadPoolExecutor(6) as threads:
        for number in range(times):
            gate = threading.Barrier(6)
            states = [*threads.map(make, [tmp_path / f"{number}.db"] * 6)]
            assert all(state == states[0] for state in states)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a POSIX system")
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


def test_tensors_are_handed_over_in_the_order_of_their_names(monkeypatch):
    """Their bytes name the file, and must not hang on the order of a dictionary, whatever safetensors makes of it."""
    seen, real = [], safetensors.torch.save
    monkeypatch.setattr(safetensors.torch, "save", lambda tensors: seen.append(list(tensors)) or real(tensors))
    tensors = {name: torch.ones(1) for name in ("b", "c", "a")}
    kept = Artefacts(None)
    assert kept.write(tensors) == kept.write(dict(reversed(tensors.items())))
    assert seen == [["a", "b", "c"]] * 2


WRITERS = {
    "a file of arrays": lambda folder: write_arrays(folder / "a.npz", {"x": torch.ones(3)}, {}),
    "a file of tensors": lambda folder: write_arrays(folder / "a.safetensors", {"x": torch.ones(3)}, {}),
    "an artefact": lambda folder: Artefacts(folder / "run.db").write({"x": torch.ones(3)}),
    "an outcome": lambda folder: write_json(folder / "a.json", {"x": [1, 2, 3]}),
}


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system")
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("again", [False, True])
def test_a_file_is_on_disk_before_it_takes_its_name_and_its_folder_after(writer, again, tmp_path, monkeypatch):
    """Else a power cut leaves an empty file under the name, or the old one although the new was acknowledged."""
    events, fsync, replace = [], os.fsync, os.replace

    def flushed(handle):
        found = os.fstat(handle)
        events.append(("flush", found.st_ino, None if stat.S_ISDIR(found.st_mode) else found.st_size))
        fsync(handle)

    def renamed(source, target):
        events.append(("rename", os.stat(source).st_ino, None))
        replace(source, target)

    if again and writer != "an artefact":  # an artefact is never written twice
        WRITERS[writer](tmp_path)
    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", renamed)
    WRITERS[writer](tmp_path)
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert events == [
        ("flush", file.stat().st_ino, file.stat().st_size),
        ("rename", file.stat().st_ino, None),
        ("flush", file.parent.stat().st_ino, None),
    ]


def test_in_memory_nothing_touches_the_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Journal() as journal:
        state = filled(journal)
        assert journal.fetch(state.run, "weights", 1)["w"].tolist() == [1, 1, 1]
    assert list(tmp_path.iterdir()) == []
