"""Ctrl-C in the midst of whatever a journal does leaves no transaction open, and is heard while a call waits."""

import contextlib
import signal
import sqlite3
import sys
import threading

import pytest

import interrupts
from natsel.store import Acquisition, Ask, Journal
from store.made_journals import TERMS

CALLS = {
    "tell": lambda journal, state, number: journal.tell(state, [3 * number], [0]),
    "ask": lambda journal, state, number: journal.ask(
        state, Ask((Acquisition(3 * number + 1, 0.5),), "bald", number, 0)
    ),
    "labels": lambda journal, state, number: journal.labels(state.run),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_interrupt_at_any_line_leaves_no_transaction_open(tmp_path, call):
    """Between any two lines of the journal and of what it is left through, by a function that traces it."""
    path, kept, number = tmp_path / "run.db", [], 0
    with Journal(path) as journal:
        state = journal.begin("main", TERMS)

        def interrupting(at):
            passed = 0

            def trace(frame, event, _):
                nonlocal passed
                file = frame.f_code.co_filename
                if not file.endswith(("store/journal.py", "store/failures.py", "contextlib.py")):
                    return None
                passed += 1
                if passed == at:
                    raise KeyboardInterrupt
                return trace

            return trace

        interrupted = True
        while interrupted:
            number += 1
            before, interrupted = sys.gettrace(), False
            sys.settrace(interrupting(number))
            try:
                call(journal, state, number)
            except KeyboardInterrupt as interrupt:
                interrupted = True
                kept.append(interrupt)  # with all frames and what they hold, as notebooks do
            finally:
                sys.settrace(before)
            assert not interrupts.is_locked(path), number
            assert not journal._connection.in_transaction, number
        assert number > 20
        elsewhere = threading.Thread(target=journal.labels, args=(state.run,))
        elsewhere.start()
        elsewhere.join(timeout=60)
        assert not elsewhere.is_alive(), "another thread waits for a lock that nobody lets go of"
    with Journal(path) as journal:
        assert journal.check().sound


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_an_interrupt_is_heard_while_another_program_writes(tmp_path):
    done, holder = (
        threading.Event(),
        sqlite3.connect(tmp_path / "run.db", isolation_level=None, check_same_thread=False),
    )
    with contextlib.closing(holder), Journal(tmp_path / "run.db") as journal, interrupts.timer():
        state = journal.begin("main", TERMS)
        holder.execute("BEGIN IMMEDIATE")
        late = threading.Thread(target=lambda: done.wait(5) or holder.execute("ROLLBACK"))
        late.start()
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            journal.tell(state, [1], [0])
        assert holder.in_transaction, "it was heard only when the other had ended"
        done.set()
        late.join()
        holder.execute("ROLLBACK")
        journal.tell(state, [1], [0])
        assert journal.replay("main").values == {1: 0}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_no_random_interrupt_locks_anybody_out(tmp_path, seed):
    found = list(interrupts.outcomes(seed, 400, tmp_path))
    assert found == ["free"] * 400 + ["sound"]
