"""A journal is one file: whoever copies it alone, at whatever moment, has all that was acknowledged or is told."""

import random
import shutil
import threading

from natsel.store import Acquisition, Ask, Journal
from store.made_journals import TERMS, count_of

PAGE = 4096


def test_the_file_alone_holds_all_that_was_told(tmp_path):
    """While the journal is open, and so also after a kill."""
    with Journal(tmp_path / "run.db") as journal:
        state = journal.begin("main", TERMS)
        for number in range(40):
            journal.tell(state, range(10 * number, 10 * number + 10), [0] * 10)
            shutil.copy(journal.path, tmp_path / "copy.db")
            assert count_of(tmp_path / "copy.db") == 10 * number + 10


def opened(path):
    """The labels of a copy, None where it is refused as one that was taken in mid-write."""
    try:
        with Journal(path, create=False) as journal:
            return journal.replay(1).values
    except ValueError as refusal:
        if "is damaged, or was copied in mid-write" in str(refusal):
            return None
        raise


def commits(path):
    """The file before and after each of some commits, small and large, with what was acknowledged before it."""
    with Journal(path) as journal:
        state = journal.begin("main", TERMS)
        for number in range(16):
            before, told = path.read_bytes(), dict(journal.replay(1).values)
            if number % 4 == 3:
                journal.ask(state, Ask(tuple(Acquisition(5000 + 9 * number + n, 0.5) for n in range(9)), "bald", 0, 0))
            else:
                ids = range(100 * number, 100 * number + random.Random(number).choice([1, 10, 80]))
                journal.tell(state, ids, [number] * len(ids), who="somebody" * (number % 3))
            yield before, path.read_bytes(), told


def test_a_copy_taken_in_mid_write_is_whole_or_refused(tmp_path):
    """A commit writes its pages one after the other. Any of them may be in a copy, and any not."""
    chance, copy, seen = random.Random(0), tmp_path / "copy.db", {"whole": 0, "refused": 0}
    for before, after, told in commits(tmp_path / "run.db"):
        pages = [at for at in range(0, len(after), PAGE) if before[at : at + PAGE] != after[at : at + PAGE]]
        assert pages
        parts = [pages[:cut] for cut in range(len(pages) + 1)]  # SQLite writes them in order
        parts += [[page for page in pages if chance.random() < 0.5] for _ in range(3)]
        for part in parts:
            mixed = bytearray(before)
            for at in part:
                mixed.extend(bytes(max(0, at + PAGE - len(mixed))))
                mixed[at : at + PAGE] = after[at : at + PAGE]
            copy.write_bytes(mixed)
            values = opened(copy)
            if values is None:
                assert part not in ([], pages), "a whole copy is refused"
            else:
                assert {id: values.get(id) for id in told} == told, "a copy opens and is short of labels"
            seen["refused" if values is None else "whole"] += 1
    assert min(seen.values()) > 25, seen


def test_copies_made_while_others_write_are_whole_or_refused(tmp_path):
    path, acknowledged, enough = tmp_path / "run.db", [0], threading.Event()

    def write():
        with Journal(path) as mine:
            state = mine.begin("main", TERMS)
            while not enough.is_set():
                first = acknowledged[0]
                mine.tell(state, range(first, first + 10), [0] * 10)
                acknowledged[0] = first + 10

    with Journal(path) as journal:
        journal.begin("main", TERMS)
    writer = threading.Thread(target=write)
    writer.start()
    whole = 0
    try:
        for number in range(25):
            while acknowledged[0] < 10 * number:
                assert writer.is_alive()
            before = acknowledged[0]
            shutil.copy(path, tmp_path / "copy.db")
            values = opened(tmp_path / "copy.db")
            assert values is None or len(values) >= before
            whole += values is not None
    finally:
        enough.set()
        writer.join()
    assert whole
    shutil.copy(path, tmp_path / "copy.db")
    assert count_of(tmp_path / "copy.db") == acknowledged[0]
