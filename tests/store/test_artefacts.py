"""Artefacts can be made again: one that is missing or damaged is a reason to fit, never to stop."""

import os
import time
import warnings

import pytest
import torch

from learning.committee import Committee, blobs, pool
from natsel.learning import ActiveLearner, Stabilised
from natsel.store import Journal
from natsel.store.artefacts import Artefacts, folder_of
from store.made_journals import TERMS, filled


@pytest.fixture
def journal(tmp_path):
    with Journal(tmp_path / "run.db") as journal:
        filled(journal)
        yield journal


@pytest.fixture
def file(journal):
    (file,) = journal.path.with_suffix(".artefacts").iterdir()
    return file


def test_a_damaged_one_is_told_and_replaced_when_it_is_written_again(journal, file):
    content = file.read_bytes()
    for broken in (content[:-1] + b"!", b"", content[:20]):
        file.write_bytes(broken)
        with pytest.warns(UserWarning, match=r"tensors is damaged; it is made again from the labels"):
            assert journal.fetch(1, "weights", 1) is None
        journal.keep(1, "weights", 1, {"w": torch.ones(3)})
        assert file.read_bytes() == content
        assert journal.fetch(1, "weights", 1)["w"].tolist() == [1, 1, 1]


def test_a_missing_one_is_told(journal, file):
    file.unlink()
    with pytest.warns(UserWarning, match=r"safetensors is missing; it is made again"):
        assert journal.fetch(1, "weights", 1) is None
    file.parent.rmdir()
    with pytest.warns(UserWarning, match="is missing"):
        assert journal.fetch(1, "weights", 1) is None
    journal.keep(1, "weights", 1, {"w": torch.ones(3)})
    assert journal.fetch(1, "weights", 1) is not None


@pytest.mark.parametrize("loss", ["deleted", "damaged"])
def test_a_run_goes_on_without_its_checkpoints_and_predictions(tmp_path, loss):
    def live(name, budget):
        arguments = {"k": 3, "store": tmp_path / name, "checkpoints": True, "method": "bald", "test": blobs(seed=1)}
        with ActiveLearner(Committee(), pool(), **arguments) as learner:
            learner.run(budget, lambda ids: blobs().labels[ids], stop=[Stabilised(rounds=1000)])
            return learner.labelled_ids.tolist()

    whole = live("whole.db", 12)
    live("cut.db", 6)
    files = list((tmp_path / "cut.artefacts").iterdir())
    assert files
    for file in files:
        file.unlink() if loss == "deleted" else file.write_bytes(b"?" * 100)
    with pytest.warns(UserWarning, match="is made again from the labels"):
        assert live("cut.db", 12) == whole
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Journal(tmp_path / "cut.db") as journal:
            revisions = journal.kept(1, "weights")
            assert journal.fetch(1, "weights", revisions[-1]) is not None


@pytest.mark.parametrize("first", ["run.artefacts", "run.db"])
def test_a_journal_may_be_called_like_the_folder_of_another(tmp_path, first):
    names = [first, *{"run.artefacts", "run.db"} - {first}]
    journals = [Journal(tmp_path / name) for name in names]
    for journal in journals:
        state = filled(journal)
        assert journal.fetch(state.run, "weights", 1) is not None
        journal.close()
    for name in names:
        with Journal(tmp_path / name) as journal:
            assert journal.fetch(1, "weights", 1) is not None
            assert journal.check().notes == ()


def test_folders_made_before_keep_their_names(tmp_path):
    (tmp_path / "run.artefacts").mkdir()
    assert folder_of(tmp_path / "run.db") == tmp_path / "run.artefacts"
    assert folder_of(tmp_path / "run.v2.db") == tmp_path / "run.v2.artefacts"


def test_leftovers_of_kills_are_removed_and_nothing_else(tmp_path):
    folder = tmp_path / "run.artefacts"
    folder.mkdir()
    old = [".natsel-0123456789abcdef.tmp", ".natsel-mine.tmp", "notes.tmp", ".natsel-0123456789abcdef.tmp.bak"]
    for place in (tmp_path, folder):
        for name in old:
            (place / name).touch()
            os.utime(place / name, (time.time() - 2 * 86400,) * 2)
        (place / ".natsel-fedcba9876543210.tmp").touch()  # somebody may be writing to it
    with Journal(tmp_path / "run.db") as journal:
        filled(journal)
    for place in (tmp_path, folder):
        left = {file.name for file in place.iterdir() if not file.name.startswith("run.")} - {
            file.name for file in place.glob("*.safetensors")
        }
        assert left == {*old[1:], ".natsel-fedcba9876543210.tmp"}


def test_one_that_cannot_be_written_says_what_is_safe(tmp_path):
    with Journal(tmp_path / "run.db") as journal:
        state = journal.begin("main", TERMS)
        (tmp_path / "run.artefacts").symlink_to(tmp_path / "nowhere" / "at all")
        with pytest.raises(OSError, match=r"store: .* cannot be written .*labels are safe in the journal"):
            journal.keep(state.run, "weights", 1, {"w": torch.ones(3)})


def test_in_memory_they_are_kept_in_memory():
    kept = Artefacts(None)
    name, _ = kept.write({"w": torch.ones(2)})
    assert kept.look(name) == "sound"
    assert kept.look("another") == "missing"
    with Journal() as journal:
        journal.begin("main", TERMS)
        assert journal.keep(1, "weights", 1, {"w": torch.ones(2)}) == name
