"""The command line in this process (quick) and as a program of its own (a journey)."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import fresh_python
import natsel
from natsel.cli import main
from natsel.experiments.running.folder import write_outcome
from natsel.experiments.running.job import Runner
from natsel.experiments.running.worker_pool import WorkerPool


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def call(capsys):
    """Run a command in this process."""

    def run(*arguments):
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture
def start():
    """Run a command as a program of its own."""

    def run(*arguments):
        source = str(Path(natsel.__file__).parents[1])
        environment = os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
        done = fresh_python.run(["-m", "natsel", *arguments], env=environment)
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def refused(call):
    """Run a command that must end with exit code 2, nothing on stdout and one sentence on stderr; return that."""

    def run(*arguments):
        done = call(*arguments)
        assert done.code == 2, done
        assert done.out == ""
        assert done.err.startswith("natsel: ")
        assert done.err.count("\n") == 1
        assert "Traceback" not in done.err
        return done.err

    return run


@pytest.fixture
def in_process(monkeypatch):
    """Jobs of experiments are done by this process; that workers do them is tried where a recipe becomes a page."""

    def work(self, report, deadline):
        if self.jobs.empty():
            return [], {}
        runner = Runner(self.recipe, self.folder, self.device)
        self.begin(runner.described())
        done = []
        while not self.jobs.empty():
            job = self.jobs.get()
            contender = next(one for one in self.recipe.methods if one.slug == job.slug)
            runner.do(contender, job.seed, self.recipe.budget, lambda event, job=job: report(event | job.named()))
            write_outcome(self.folder, job, {"budget": self.recipe.budget})
            report({"event": "done", "seconds": 0.0, **job.named()})
            done.append(job)
        return done, {}

    monkeypatch.setattr(WorkerPool, "work", work)


@pytest.fixture
def probs():
    """Probabilities [30, 6, 4] of six draws."""
    raw = np.random.default_rng(0).exponential(size=(30, 6, 4)) ** 2
    return raw / raw.sum(-1, keepdims=True)


@pytest.fixture
def preds(tmp_path, probs):
    """The same in a file, with ids 100..129."""
    np.savez(tmp_path / "preds.npz", probs=probs, ids=np.arange(100, 130))
    return tmp_path / "preds.npz"
