"""Journals for tests: one with a row in every table."""

import sqlite3

import torch

from natsel.store import Acquisition, Ask, Journal, Points, Stop, Terms

TERMS = Terms(pool="some data", method="bald", k=2, seed=0, notes={"classes": ["cat", "dog"]})


def filled(journal, name="main"):
    """A row in every table."""
    state = journal.begin(name, TERMS, Points([1, 2, "c.png"], bytes(12)))
    journal.ask(state, Ask((Acquisition(1, 0.5), Acquisition(2, 0.5)), "bald", 0, 0))
    journal.tell(state, [1], [0], skipped=[2], who="anna", digests=[2**62 + 1])
    journal.tell(state, [1], [1], who="ben")
    journal.record_round(state.run, 1, 1, {"accuracy": 1.0}, {})
    journal.record_stop(state.run, Stop(1, "rule", "reason"))
    journal.keep(state.run, "weights", 1, {"w": torch.ones(3)})
    return state


def page_of(path, table):
    """Where the root page of a table or index begins in the file."""
    with sqlite3.connect(path) as database:
        (root,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    database.close()
    return 4096 * (root - 1)


def flip(path, place, bit=0):
    """Flip a bit of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


def count_of(path):
    """How many labels a journal holds."""
    with Journal(path, create=False) as journal:
        return len(journal.labels(1))
