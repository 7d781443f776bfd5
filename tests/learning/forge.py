"""A program that makes learners and kills them: imports once, then forks, so that a life costs milliseconds.

    kills    SIGKILL after random delays, again and again, until so many were killed
    points   SIGKILL at the n-th step of a life (an SQL statement, a flush or rename of a file), for many n
    writes   SIGKILL at every single write, flush or removal that SQLite asks the system for (needs strace)
    clients  processes that ask and tell on one journal at the same time, none of them named
    crowd    the same, each running by itself; they are killed at random and others take their places
    experiments  the jobs of a recipe one after the other, each with its journal; killed and begun again

What a learner has acknowledged is appended to a file of its own by the process that saw it. After every kill the file
of the journal is copied without anything that lies beside it, and the copy must hold all that was acknowledged before,
or be refused as one that was taken in mid-write (counted as `refused`). Then the journal must open, be sound and hold
all of that, once. A run that was finished by many lives must equal one that had only one. Prints one line of JSON; any
failure ends it with a traceback. Without arguments it reads them from its input instead, a JSON list per line, and does
the work of each line in a fork: what fails prints null.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import numpy.ma  # else every child imports it, which takes longer than the rest of its life
import torch

from learning.committee import Committee, blobs, pool
from natsel.learning import ActiveLearner, Stabilised, TargetInputs
from natsel.learning.run_record import RunRecord
from natsel.store import Journal, Terms

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


def acknowledge(path=None):
    """Append every label and every batch to a file as soon as the learner says that it is written.

    Without a path, to one beside the journal of the learner.
    """
    files = {}

    def file_of(record):
        where = Path(record.journal.path).with_suffix(".txt") if path is None else path
        if where not in files:
            files[where] = os.open(where, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        return files[where]

    def watched(name, told):
        method = getattr(RunRecord, name)

        def call(self, *arguments, **options):
            done = method(self, *arguments, **options)
            if done is not False:
                os.write(file_of(self), (json.dumps([name, told(*arguments)]) + "\n").encode())
            return done

        setattr(RunRecord, name, call)

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
                [a.number, a.seed, a.revision, a.method, a.total, *map(vars, a.picks)] for r in rounds for a in r.asks
            ],
            "labels": [[label.id, label.value, label.ask] for label in journal.labels(1)],
            "rounds": [[r.revision, r.n_labelled, dict(r.metrics)] for r in rounds],
            "stops": [vars(stop) for stop in journal.stops(1)],
            "skipped": list(journal.replay(1).skipped),
            "predictions": [
                journal.fetch(1, "predictions-1000", revision)["classes"].tolist()
                for revision in journal.kept(1, "predictions-1000")
            ],
        }


def lines_of(acknowledged):
    return acknowledged.read_text().splitlines() if acknowledged.exists() else []


def alone(store, lines, handed_once=True):
    """Copy the file of a journal and nothing else: whether it holds whatever was acknowledged. False: it is refused."""
    copy = store.with_name("copied-alone.db")
    copy.unlink(missing_ok=True)
    if not store.exists():
        assert not lines
        return True
    shutil.copyfile(store, copy)
    try:
        check(copy, lines, handed_once)
    except ValueError as refusal:
        if "is damaged, or was copied in mid-write" in str(refusal):
            return False
        raise
    return True


def check(store, lines, handed_once=True):
    """The journal opens, is sound, and holds once whatever was acknowledged; what it holds is returned."""
    lines = list(lines)
    with Journal(store) as journal:
        assert journal._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert journal._connection.execute("PRAGMA foreign_key_check").fetchall() == []
        if not journal.runs():
            assert not lines
            return None
        state = journal.replay(1)
        labels, asks = journal.labels(1), [a for r in journal.rounds(1) for a in r.asks]
        assert len(labels) == len({label.id for label in labels}), "a label is there twice"
        assert sorted(a.number for a in asks) == list(range(1, len(asks) + 1))
        handed = [id for a in asks for id in a.ids]
        assert len(handed) == len(set(handed)) or not handed_once, "an id was handed out twice"
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
    killed, lives, left, refused, moments, number = 0, 0, 0, 0, set(), 0
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
            refused += not alone(store, lines_of(acknowledged))
            state = check(store, lines_of(acknowledged))
            if done:
                break
            killed += 1
            left += bool(state and state.outstanding)
            moment = (number, state.seq if state else None)
            reach *= 1.5 if moment in moments else 1.0  # this machine has become slower: lives must get somewhere
            moments.add(moment)
        assert trajectory(store) == expected, f"run {number} went another way"
        number += 1
    counts = {"kills": killed, "refused": refused, "lives": lives, "runs": number}
    return {**counts, "moments": len(moments), "left_outstanding": left}


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
        assert alone(store, lines_of(acknowledged)), "steps lie between writes, where the file is whole"
        check(store, lines_of(acknowledged))
        assert finished(fork(lambda: live(store, seed, model, budget)))  # noqa: B023
        check(store, lines_of(acknowledged))
        assert trajectory(store) == expected, f"killed at step {last} it went another way"
        for file in folder.glob(f"point-{last}.*"):
            if file.is_file():
                file.unlink()
    return {"steps": total, "kills": len(tried)}


def writes(folder, count, seed):
    """Kill clients at the first, second, third … call by which SQLite writes, flushes or removes a file, until one gets
    to its end; `count` times.

    A client waits until strace is attached, opens the journal and tells; strace kills it on its way.
    """
    store, acknowledged = folder / "written.db", folder / "written.txt"
    killed = refused = logs = lives = 0

    def client(waiting, first):
        os.read(waiting, 1)
        with Journal(store) as journal:
            state = journal.begin("main", Terms("data", "bald", 3, seed))
            ids = range(first, first + 10)
            journal.tell(state, ids, [1] * 10, who="w" * (first % 990))
            with acknowledged.open("a") as file:
                print(json.dumps(["tell", dict.fromkeys(map(str, ids), 1)]), file=file)

    for call in ("pwrite64", "fdatasync", "unlink") * count:
        last, ends = 1, 0
        while ends < 2:  # the first may be one that strace was too late for
            waiting, gun = os.pipe()
            lives += 1
            child = fork(lambda first=10 * lives, waiting=waiting: client(waiting, first))
            command = ["strace", "-q", "-o", "/dev/null", "-p", str(child), "-e", f"trace={call}"]
            strace = subprocess.Popen([*command, "-e", f"inject={call}:signal=KILL:when={last}"])
            while "TracerPid:\t0\n" in Path(f"/proc/{child}/status").read_text():
                assert strace.poll() is None
                time.sleep(0.001)
            os.write(gun, b".")
            done = finished(child)
            strace.wait()
            os.close(waiting)
            os.close(gun)
            if done:
                ends += 1
                continue
            last, ends, killed = last + 1, 0, killed + 1
            logs += store.with_name("written.db-journal").exists()
            refused += not alone(store, lines_of(acknowledged))
            check(store, lines_of(acknowledged))
    return {"kills": killed, "logs_left": logs, "refused": refused, "lives": lives}


def clients(folder, count, seed, size=160):
    """Clients ask, tell late and out of order, skip and hand back, until nothing is left; all on one new journal, and
    none with a name. Meanwhile its file is copied again and again.
    """
    store = folder / "shared.db"
    answers = blobs(size).labels
    waiting, gun = os.pipe()

    def client(name):
        chance = random.Random(seed * 1000 + name)
        file = open(folder / f"client-{name}.txt", "w", buffering=1)  # noqa: SIM115
        os.close(gun)
        os.read(waiting, 1)  # returns when the last one who could write has let go
        learner = ActiveLearner(Committee(), pool(size), method="batchbald", k=3, store=store, seed=seed, candidates=60)
        mine = []
        while True:
            batch = learner.ask(chance.randint(1, 5)).ids.tolist()
            print(json.dumps(["ask", batch, learner.who]), file=file)
            mine += batch
            if not mine:
                break
            while not all(has_asked(name) for name in range(count)):  # however busy the machine, all take part
                time.sleep(0.005)
            chance.shuffle(mine)
            now, mine = (mine, []) if not batch else (mine[: len(mine) // 2 + 1], mine[len(mine) // 2 + 1 :])
            fate = chance.random()
            if fate < 0.1:
                learner.skip(now)
                print(json.dumps(["skip", now, learner.who]), file=file)
            elif fate < 0.2 and batch:
                learner.release(now)
                print(json.dumps(["release", now, learner.who]), file=file)
            else:
                learner.tell(now, answers[now])
                print(json.dumps(["tell", now, learner.who]), file=file)

    def has_asked(name):
        log = folder / f"client-{name}.txt"
        return log.exists() and log.stat().st_size > 0

    def said():
        logs = [folder / f"client-{name}.txt" for name in range(count)]
        texts = [log.read_text().rpartition("\n")[0] for log in logs if log.exists()]  # whole lines
        return [json.loads(line) for text in texts for line in text.splitlines()]

    started = time.perf_counter()
    children = [fork(lambda name=name: client(name)) for name in range(count)]
    os.close(gun)
    copies, refused, running = 0, 0, set(children)
    while running:
        time.sleep(0.05)
        told = [["tell", {str(id): int(answers[id]) for id in ids}] for kind, ids, _ in said() if kind == "tell"]
        asked = [["ask", ids] for kind, ids, _ in said() if kind == "ask"]
        if store.exists():
            copies += 1
            refused += not alone(store, map(json.dumps, told + asked), handed_once=False)
        for child in [*running]:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                assert status == 0
                running.discard(child)
    seconds = time.perf_counter() - started
    seen = {kind: [] for kind in ("ask", "tell", "skip", "release")}
    told_by = {}
    for kind, ids, who in said():
        seen[kind] += ids
        if kind == "tell":
            told_by |= dict.fromkeys(ids, who)
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
    counts = {
        "clients": count,
        "busy": len({who for kind, ids, who in said() if kind == "ask" and ids}),
        "asks": len(asks),
        "labels": len(labels),
    }
    return {**counts, "copies": copies, "refused": refused, "seconds": round(seconds, 2)}


def crowd(folder, count, seed, size=100, clients=8):
    """Clients without names run on one journal. One after the other is killed and replaced until so many were killed;
    a journal that is finished makes room for the next. No id is ever handed out twice, no label is lost, and what the
    killed have left is answered by the others.
    """
    chance = random.Random(seed)
    answers = blobs(size).labels
    killed, refused, journals = 0, 0, 0
    while killed < count:
        store, acknowledged = folder / f"crowd-{journals}.db", folder / f"crowd-{journals}.txt"

        def reply(ids):
            time.sleep(0.002 * len(ids))
            return [int(answers[id]) for id in ids]

        def life(store=store, acknowledged=acknowledged, reply=reply):
            acknowledge(acknowledged)
            learner = ActiveLearner(Committee(), pool(size), "batchbald", 3, store, seed, candidates=60)
            learner.run(oracle=reply)

        running = {fork(life) for _ in range(clients)}
        while running:
            time.sleep(chance.uniform(0, 0.15))
            for child in [*running]:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    assert status == 0
                    running.discard(child)
            if running and killed < count:
                child = chance.choice(sorted(running))
                os.kill(child, signal.SIGKILL)
                running.discard(child)
                if finished(child):
                    continue
                killed += 1
                refused += not alone(store, lines_of(acknowledged))  # while the others write
                running.add(fork(life))
        assert finished(fork(life))  # answers for those who were killed last
        state = check(store, lines_of(acknowledged))
        assert len(state.values) == size
        assert not state.outstanding
        assert {id: int(answers[id]) for id in range(size)} == dict(sorted(state.values.items()))
        journals += 1
    return {"clients": clients, "kills": killed, "refused": refused, "journals": journals}


def experiments(folder, count, seed):
    """Do all jobs of a recipe in one process that is killed at random and begun again until so many were killed. After
    a kill each journal and a copy of it are checked; an experiment that is done equals one that was never killed.
    """
    from natsel.experiments.recipe.recipe import Recipe
    from natsel.experiments.running.folder import Job, locked, prepare, write_outcome
    from natsel.experiments.running.folder import finished as ended
    from natsel.experiments.running.job import Runner

    chance, killed, refused, number, moments = random.Random(seed), 0, 0, 0, set()

    def do(runner, log):
        if log:
            acknowledge()
        recipe, there = runner.recipe, runner.folder
        with locked(there):
            prepare(there, recipe)
            for method in recipe.methods:
                for each in recipe.seeds:
                    job = Job(method.label, method.slug, each)
                    if not ended(there, job, recipe.budget):
                        runner.do(method, each, recipe.budget, lambda event: None)
                        write_outcome(there, job, {"budget": recipe.budget})

    while killed < count:
        recipe = Recipe.from_table(
            {
                "name": "killed",
                "data": {"set": "iris"},
                "model": {"kind": "forest", "trees": 5},
                "methods": ["random", "bald", "batchbald"],
                "initial": {"per_class": 1},
                "k": 3,
                "budget": 18,
                "seeds": [2 * number, 2 * number + 1],
            }
        )
        whole, broken = folder / f"whole-{number}", folder / f"broken-{number}"
        runner, straight = Runner(recipe, broken, "cpu"), Runner(recipe, whole, "cpu")
        started = time.perf_counter()
        assert finished(fork(lambda straight=straight: do(straight, log=False)))
        reach = 0.1 * (time.perf_counter() - started)
        while True:
            child = fork(lambda runner=runner: do(runner, log=True))
            if killed < count:
                time.sleep(chance.uniform(0, reach))
                os.kill(child, signal.SIGKILL)
            done = finished(child)
            for store in sorted(broken.glob("*/seed-*.db")):
                refused += not alone(store, lines_of(store.with_suffix(".txt")))
                check(store, lines_of(store.with_suffix(".txt")))
            if done:
                break
            killed += 1
            moment = (number, sum(len(lines_of(path)) for path in broken.glob("*/seed-*.txt")))
            reach *= 1.2 if moment in moments else 1.0
            moments.add(moment)
        for store in sorted(whole.glob("*/seed-*.db")):
            other = broken / store.relative_to(whole)
            assert trajectory(store) == trajectory(other), f"{other} went another way"
        number += 1
    return {"kills": killed, "refused": refused, "experiments": number, "moments": len(moments)}


def journal_changes(journal):
    from natsel.store.queries import changes

    with journal._undo, journal._reading() as database:
        return list(changes(database, 1, 0))


def main(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["kills", "points", "writes", "clients", "crowd", "experiments"])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", choices=MODELS, default="committee")
    parser.add_argument("--budget", type=int, default=32)
    parser.add_argument("--size", type=int, help="points of the pool that clients or a crowd share")
    given = parser.parse_args(words)
    MODELS[given.model]()  # imported here, once
    started = time.perf_counter()
    if given.what in ("kills", "points"):
        work = kills if given.what == "kills" else points
        found = work(given.folder, given.count, given.seed, given.model, given.budget)
    else:
        work = {"writes": writes, "clients": clients, "crowd": crowd, "experiments": experiments}[given.what]
        found = work(given.folder, given.count, given.seed, **({} if given.size is None else {"size": given.size}))
    took = round(time.perf_counter() - started, 1)
    print(json.dumps({"what": given.what, "model": given.model, "seed": given.seed, **found, "took": took}), flush=True)


def serve():
    for line in sys.stdin:
        words = json.loads(line)
        _, status = os.waitpid(fork(lambda words=words: main(words)), 0)
        if status:
            print("null", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)  # threads do not survive a fork
    np.seterr(all="raise", under="ignore")
    main(sys.argv[1:]) if len(sys.argv) > 1 else serve()
