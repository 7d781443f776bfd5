"""A program that makes learners and kills them: imports once, then forks, so that a life costs milliseconds.

    kills    SIGKILL after random delays, again and again, until so many were killed
    points   SIGKILL at the n-th step of a life (an SQL statement, a flush or rename of a file), for many n
    clients  processes that ask and tell on one journal at the same time

What a learner has acknowledged is appended to a file of its own by the process that saw it. After every kill the
journal must open, be sound and hold all of that, once. A run that was finished by many lives must equal one that had
only one. Prints one line of JSON; any failure ends it with a traceback.
"""

import argparse
import json
import os
import random
import signal
import sqlite3
import time
from pathlib import Path

import numpy as np
import torch

from learning.committee import Committee, blobs, pool
from natsel.learning import ActiveLearner, Stabilised, TargetInputs
from natsel.learning.record import Record
from natsel.store import Journal

SIZE = 80


def forest():
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(30, max_depth=4)


# An aimed run looks at targets, which it draws for each batch anew.
MODELS = {"committee": Committee, "forest": forest, "aimed": Committee}
AIMED = ("batch-epig", "power-epig", "epig")


def stream(count, seed):
    return np.random.default_rng(seed).normal(size=(count, 2))


def oracle(ids):
    """The right labels, after some thought, but for some that nobody can label."""
    time.sleep(0.01)
    answers = blobs(SIZE).labels
    return [None if id % 11 == 7 else int(answers[id]) for id in ids]


def acknowledge(path):
    """Append every label and every batch to a file as soon as the learner says that it is written."""
    file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def watched(name, told):
        method = getattr(Record, name)

        def call(self, *arguments, **options):
            done = method(self, *arguments, **options)
            if done is not False:
                os.write(file, (json.dumps([name, told(*arguments)]) + "\n").encode())
            return done

        setattr(Record, name, call)

    watched("tell", lambda ids, labels: dict(zip(map(str, ids), labels, strict=True)))
    watched("ask", lambda ask, limit: list(ask.ids))


def live(store, seed, model, budget):
    """One life of a run; it ends with the budget, if nobody ends it before."""
    aims = (TargetInputs(stream, count=9), TargetInputs("pool", class_prior=[0.5, 0.5, 0.0], count=9))[seed % 2]
    learner = ActiveLearner(
        MODELS[model](),
        pool(SIZE),
        method=(AIMED if model == "aimed" else ("batchbald", "power-bald", "random"))[seed % 3],
        targets=aims if model == "aimed" else None,
        k=4,
        store=store,
        seed=seed,
        test=blobs(seed=1),
        candidates=40,
        checkpoints=model == "committee" and seed % 2 == 1,
    )
    learner.run(budget, oracle, stop=[Stabilised(rounds=1000)])  # never met, but its predictions are kept


def fork(work):
    """A process that does some work and then ends without tidying up."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def finished(child):
    """Wait: True if the process came to its end, False if it was killed."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False
    assert os.WEXITSTATUS(status) == 0
    return True


def trajectory(store):
    """All that must not depend on how many lives a run had: everything but the clock."""
    with Journal(store, create=False) as journal:
        rounds = journal.rounds(1)
        return {
            "asks": [
                [a.number, a.seed, a.told, a.method, a.total, *map(vars, a.picks)] for r in rounds for a in r.asks
            ],
            "labels": [[label.id, label.value, label.ask] for label in journal.labels(1)],
            "rounds": [[r.told, r.n_labelled, dict(r.metrics)] for r in rounds],
            "stops": [vars(stop) for stop in journal.stops(1)],
            "skipped": list(journal.replay(1).skipped),
            "predictions": [
                journal.fetch(1, "predictions-1000", told)["classes"].tolist()
                for told in journal.kept(1, "predictions-1000")
            ],
        }


def check(store, acknowledged):
    """The journal opens, is sound, and holds once whatever was acknowledged; what it holds is returned."""
    with Journal(store) as journal:
        assert journal._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert journal._connection.execute("PRAGMA foreign_key_check").fetchall() == []
        if not journal.runs():
            assert not acknowledged.exists() or not acknowledged.read_text()
            return None
        state = journal.replay(1)
        labels, asks = journal.labels(1), [a for r in journal.rounds(1) for a in r.asks]
        assert len(labels) == len({label.id for label in labels}), "a label is there twice"
        assert [a.number for a in asks] == list(range(1, len(asks) + 1))
        handed = [id for a in asks for id in a.ids]
        assert len(handed) == len(set(handed)), "an id was handed out twice"
        lines = acknowledged.read_text().splitlines() if acknowledged.exists() else []
        for kind, what in map(json.loads, lines):
            if kind == "ask":
                assert set(what) <= set(handed), "an acknowledged batch is lost"
            else:
                assert all(state.values.get(int(id)) == value for id, value in what.items()), "a label is lost"
        return state


def reference(folder, seed, model, budget):
    store = folder / f"whole-{seed}.db"
    assert finished(fork(lambda: live(store, seed, model, budget)))
    return trajectory(store)


def kills(folder, count, seed, model, budget):
    """Kill runs at random moments until `count` lives were cut short; every run is brought to its end."""
    chance = random.Random(seed)
    killed, lives, left, moments, number = 0, 0, 0, set(), 0
    begun, ready = os.pipe()
    while killed < count:
        started = time.perf_counter()
        expected = reference(folder, number, model, budget)
        reach = 0.6 * (time.perf_counter() - started)
        store, acknowledged = folder / f"killed-{number}.db", folder / f"killed-{number}.txt"

        def life(store=store, acknowledged=acknowledged, number=number):
            acknowledge(acknowledged)
            os.write(ready, b".")
            live(store, number, model, budget)

        while True:
            child = fork(life)
            os.read(begun, 1)
            lives += 1
            if killed < count:
                time.sleep(chance.uniform(0, reach))
                os.kill(child, signal.SIGKILL)
            done = finished(child)
            state = check(store, acknowledged)
            if done:
                break
            killed += 1
            left += bool(state and state.outstanding)
            moment = (number, state.seq if state else None)
            reach *= 1.5 if moment in moments else 1.0  # this machine has become slower: lives must get somewhere
            moments.add(moment)
        assert trajectory(store) == expected, f"run {number} went another way"
        number += 1
    return {"kills": killed, "lives": lives, "runs": number, "moments": len(moments), "left_outstanding": left}


def points(folder, every, seed, model, budget):
    """Kill a run at its n-th step, for n = offset, offset + every …; each time it is resumed to the end."""
    expected = reference(folder, seed, model, budget)
    counted, counts = os.pipe()

    def life(store, acknowledged, last):
        steps = 0

        def step(*_):
            nonlocal steps
            steps += 1
            if steps == last:
                os.kill(os.getpid(), signal.SIGKILL)

        def counting(function):
            def call(*arguments, **options):
                step()
                done = function(*arguments, **options)
                step()
                return done

            return call

        def connect(*arguments, **options):
            connection = opened(*arguments, **options)
            connection.set_trace_callback(step)
            return connection

        opened, sqlite3.connect = sqlite3.connect, connect
        os.fsync, os.replace = counting(os.fsync), counting(os.replace)
        acknowledge(acknowledged)
        live(store, seed, model, budget)
        os.write(counts, f"{steps}\n".encode())

    assert finished(fork(lambda: life(folder / "counted.db", folder / "counted.txt", 0)))
    total = int(os.read(counted, 100))
    tried = list(range(1 + seed % every, total + 1, every))
    for last in tried:
        store, acknowledged = folder / f"point-{last}.db", folder / f"point-{last}.txt"
        assert not finished(fork(lambda: life(store, acknowledged, last)))  # noqa: B023
        check(store, acknowledged)
        assert finished(fork(lambda: live(store, seed, model, budget)))  # noqa: B023
        check(store, acknowledged)
        assert trajectory(store) == expected, f"killed at step {last} it went another way"
        for file in folder.glob(f"point-{last}.*"):
            if file.is_file():
                file.unlink()
    return {"steps": total, "kills": len(tried)}


def clients(folder, count, seed):
    """Clients ask, tell late and out of order, skip and hand back, until nothing is left; all on one new journal."""
    store, size = folder / "shared.db", 240
    answers = blobs(size).labels
    waiting, gun = os.pipe()

    def client(name):
        chance = random.Random(seed * 1000 + name)
        file = open(folder / f"client-{name}.txt", "w", buffering=1)  # noqa: SIM115
        os.close(gun)
        os.read(waiting, 1)  # returns when the last one who could write has let go
        learner = ActiveLearner(
            Committee(),
            pool(size),
            method="batchbald",
            k=3,
            store=store,
            seed=seed,
            who=f"client-{name}",
            candidates=60,
        )
        mine = []
        while True:
            batch = learner.ask(chance.randint(1, 5)).indices.tolist()
            print(json.dumps(["ask", batch]), file=file)
            mine += batch
            if not mine:
                break
            chance.shuffle(mine)
            now, mine = (mine, []) if not batch else (mine[: len(mine) // 2 + 1], mine[len(mine) // 2 + 1 :])
            fate = chance.random()
            if fate < 0.1:
                learner.skip(now)
                print(json.dumps(["skip", now]), file=file)
            elif fate < 0.2 and batch:
                learner.release(now)
                print(json.dumps(["release", now]), file=file)
            else:
                learner.tell(now, answers[now])
                print(json.dumps(["tell", now]), file=file)

    started = time.perf_counter()
    children = [fork(lambda name=name: client(name)) for name in range(count)]
    os.close(gun)
    assert [finished(child) for child in children] == [True] * count
    seconds = time.perf_counter() - started
    seen = {kind: [] for kind in ("ask", "tell", "skip", "release")}
    told_by = {}
    for name in range(count):
        for line in (folder / f"client-{name}.txt").read_text().splitlines():
            kind, ids = json.loads(line)
            seen[kind] += ids
            if kind == "tell":
                told_by |= dict.fromkeys(ids, f"client-{name}")
    with Journal(store, create=False) as journal:
        assert journal._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        (run,) = journal.runs()
        state, labels = journal.replay(run.run), journal.labels(run.run)
        # In the order of the journal: nobody is given what another still has, or what is labelled or skipped.
        free = set(range(size))
        for change in journal_changes(journal):
            if change.kind == "ask":
                assert change.id in free, f"id {change.id} was handed out twice"
                free.discard(change.id)
            elif change.kind == "release":
                free.add(change.id)
        asks = [a for r in journal.rounds(run.run) for a in r.asks]
        assert sorted(a.number for a in asks) == list(range(1, len(asks) + 1))
        assert sorted(id for a in asks for id in a.ids) == sorted(seen["ask"]), "handed out and recorded differ"
        assert sorted(seen["ask"]) == sorted(seen["tell"] + seen["skip"] + seen["release"])
        assert sorted(label.id for label in labels) == sorted(seen["tell"]), "a label is lost or doubled"
        assert all(label.who == told_by[label.id] and label.value == answers[label.id] for label in labels)
        assert sorted(state.skipped) == sorted(seen["skip"])
        assert not state.outstanding
        assert sorted([*state.values, *state.skipped]) == list(range(size)), "an id went missing"
    busy = sum(bool((folder / f"client-{name}.txt").stat().st_size > 100) for name in range(count))
    return {"clients": count, "busy": busy, "asks": len(asks), "labels": len(labels), "seconds": round(seconds, 2)}


def journal_changes(journal):
    from natsel.store.reading import changes

    with journal._reading() as database:
        return list(changes(database, 1, 0))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["kills", "points", "clients"])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", choices=MODELS, default="committee")
    parser.add_argument("--budget", type=int, default=32)
    given = parser.parse_args()
    torch.set_num_threads(1)  # threads do not survive a fork
    np.seterr(all="raise", under="ignore")
    MODELS[given.model]()  # imported here, once
    started = time.perf_counter()
    if given.what == "clients":
        found = clients(given.folder, given.count, given.seed)
    else:
        work = kills if given.what == "kills" else points
        found = work(given.folder, given.count, given.seed, given.model, given.budget)
    took = round(time.perf_counter() - started, 1)
    print(json.dumps({"what": given.what, "model": given.model, "seed": given.seed, **found, "took": took}))


if __name__ == "__main__":
    main()
