"""`tell` and `ask` interrupted at random instants, by a program with a seed; tracebacks are kept, as notebooks do.

A timer of the system raises KeyboardInterrupt at an instant between the beginning of a call and about its end. After
each, another connection must be able to write at once, and the learner that was interrupted must go on with all labels
that were acknowledged.

    python tests/interrupts.py 7 400        seed 7, 400 interrupts; prints how many there were, and what they left
"""

import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import torch

import natsel

_INPUTS = np.random.default_rng(0).normal(size=(4000, 2))


class _Still:
    """A model that knows nothing, quickly."""

    def fit(self, labelled, validation=None, *, seed=0):
        return self

    def believe(self, inputs):
        probs = torch.full((len(inputs), 2, 2), 0.5)
        return natsel.CategoricalSamples.from_probs(probs, draws_id="still")


@contextmanager
def timer():
    """SIGALRM raises KeyboardInterrupt, as SIGINT does."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def is_locked(path):
    """Whether nobody else can write to a journal now."""
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        try:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return True
    return False


def outcomes(seed, count, folder):
    """What so many interrupted calls left, one word each, until so many were interrupted."""
    draw, path = random.Random(seed), Path(folder) / "run.db"
    learner = natsel.ActiveLearner(_Still(), natsel.Pool(_INPUTS, ids=range(4000)), method="random", k=2, store=path)
    told, kept, interrupted, calls = {}, [], 0, 0
    spent = {"tell": 0.02, "ask": 0.05}  # seconds that a call takes, as far as is known
    with timer():
        while interrupted < count:
            name, calls = draw.choice(("tell", "tell", "ask")), calls + 1
            ids = [2 * calls % 4000, (2 * calls + 1) % 4000]
            call = (lambda ids=ids: learner.tell(ids, [0, 1])) if name == "tell" else (lambda: learner.ask(2))
            began = time.perf_counter()
            try:
                signal.setitimer(signal.ITIMER_REAL, max(1e-6, draw.random() * 1.1 * spent[name]))
                call()
                signal.setitimer(signal.ITIMER_REAL, 0)
                told |= dict.fromkeys(ids) if name == "tell" else {}
                spent[name] = 0.9 * spent[name] + 0.1 * (time.perf_counter() - began)
            except ValueError:  # its own journal refuses it
                signal.setitimer(signal.ITIMER_REAL, 0)
                learner.journal._connection.rollback()
                yield "refused"
            except KeyboardInterrupt as interrupt:
                kept.append(interrupt)  # with all frames, and what they hold
                interrupted += 1
                yield "locked" if is_locked(path) else "free"
    if not set(told) <= set(learner.labelled_ids.tolist()):
        yield "lost"
    learner.tell([3999], [1])
    with closing(natsel.Journal(path, create=False)) as journal:
        yield "sound" if journal.check().sound and 3999 in journal.replay("main").values else "damaged"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(dict(Counter(outcomes(int(sys.argv[1]), int(sys.argv[2]), folder))))
