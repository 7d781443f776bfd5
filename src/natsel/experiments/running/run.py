"""Run a recipe: methods × seeds as jobs, side by side in processes of their own, each with its own journal.

    folder/recipe.json               the recipe, versions and commands
    folder/<method>/seed-<n>.db      the journal of one job; beside it seed-<n>.json once it has ended
    folder/logs/worker-<n>.log       what the processes said

A job that fails, or a process that dies, leaves the others running. Whatever was broken off goes on from its journal
when the recipe is run again in the same folder; what is finished is not touched.

The folder becomes the recipe's when the first process has found that its data, its model and its methods can be had;
a recipe that is refused leaves the folder as it was.
"""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from natsel.experiments.recipe.recipe import Recipe
from natsel.experiments.running.folder import Job, finished, joined, locked, prepare, write_json, write_outcome

Report = Callable[[dict[str, Any]], None]
"""Called with each event: a dict with `event` (ready, start, round, done, skipped, failed), `method` and `seed`."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended: jobs done now, those that had been done before, and why others failed."""

    folder: Path
    done: tuple[Job, ...] = ()
    skipped: tuple[Job, ...] = ()
    failed: dict[Job, str] = field(default_factory=dict)
    left: tuple[Job, ...] = ()
    """Jobs not ended when the time was up: run again to go on."""


def run(
    recipe: Recipe,
    folder: str | Path,
    *,
    processes: int = 2,
    device: str | None = None,
    fresh: bool = False,
    minutes: float | None = None,
    progress: Report | None = None,
    command: Sequence[str] = (),
) -> Outcome:
    """Run the jobs of a recipe that are not finished yet; `fresh` throws away what the folder holds first.

    `device` is where models run (None: as the recipe says, else the best there is). `minutes` ends it early, to be
    resumed. An interruption (Ctrl-C) ends the processes and loses no label.

    >>> import tempfile
    >>> from natsel.experiments.recipe.recipe import load_recipe
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     len(run(load_recipe("digits"), folder, minutes=0).left)
    40
    """
    if processes < 1:
        raise ValueError(f"processes: expected 1 or more, found {processes}")
    folder = Path(folder)
    report = progress or (lambda event: None)
    with locked(folder):
        if not fresh:
            joined(folder, recipe)  # refuses a folder of another recipe
        jobs = [Job(contender.label, contender.slug, seed) for seed in recipe.seeds for contender in recipe.methods]
        skipped = [job for job in jobs if not fresh and finished(folder, job, recipe.budget)]
        for job in skipped:
            report({"event": "skipped", **job.named()})
        waiting = [job for job in jobs if job not in skipped]

        def begin(data: dict[str, Any] | None) -> None:
            prepare(folder, recipe, device=device, fresh=fresh, command=command)
            if data is not None:
                write_json(folder / "data.json", data)

        if not waiting:
            begin(None)
        crew = _Crew(folder, recipe, waiting, min(processes, len(waiting)), device or recipe.device, begin)
        done, failed = crew.work(report, None if minutes is None else time.monotonic() + 60 * minutes)
    left = [job for job in waiting if job not in done and job not in failed]
    return Outcome(folder, tuple(done), tuple(skipped), failed, tuple(left))


class _Crew:
    """Worker processes, each served by a thread that hands it one job after another."""

    def __init__(
        self,
        folder: Path,
        recipe: Recipe,
        jobs: Sequence[Job],
        processes: int,
        device: str | None,
        begin: Callable[[dict[str, Any]], None],
    ) -> None:
        self.folder, self.recipe, self.device, self.processes = folder, recipe, device, processes
        self.begin, self.begun = begin, False
        (folder / "logs").mkdir(exist_ok=True)
        self.jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        for job in jobs:
            self.jobs.put(job)
        self.events: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.workers: dict[int, subprocess.Popen[str]] = {}
        self.threads = [threading.Thread(target=self._serve, args=(slot,), daemon=True) for slot in range(processes)]
        self.closing = threading.Lock()
        self.closed = False

    def work(self, report: Report, deadline: float | None) -> tuple[list[Job], dict[Job, str]]:
        """Pass events on until all jobs have ended or the time is up."""
        done: list[Job] = []
        failed: dict[Job, str] = {}
        try:
            for thread in self.threads:
                thread.start()
            serving = len(self.threads)
            while serving:
                try:
                    event = self.events.get(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
                except queue.Empty:
                    break
                if event is None:
                    serving -= 1
                    continue
                if event["event"] == "refused":
                    raise ValueError(event["error"])
                job = event.pop("job", None)
                if event["event"] == "done":
                    done.append(job)
                elif event["event"] == "failed":
                    failed[job] = event["error"]
                report(event)
        finally:
            self._close()
        return done, failed

    def _serve(self, slot: int) -> None:
        try:
            while True:
                try:
                    job = self.jobs.get_nowait()
                except queue.Empty:
                    break
                if not self._do(slot, job):
                    break
        finally:
            self.events.put(None)

    def _do(self, slot: int, job: Job) -> bool:
        """Have a job done; whether there is any use in the next one."""
        greeted = slot in self.workers
        worker = self._worker(slot)
        if worker is None:
            return False
        try:
            if not greeted:
                answer = _asked(worker, self.recipe.as_dict())
                if not self._accepted(answer):
                    return False
                self.events.put(answer | job.named())
            event = _asked(worker, {**job.named(), "budget": self.recipe.budget})
            while True:
                if event["event"] == "failed":
                    write_outcome(self.folder, job, {"error": event["error"]})
                self.events.put(event | {"job": job} | job.named())
                if event["event"] in ("done", "failed"):
                    return True
                event = _heard(worker)
        except (OSError, ValueError):
            pass  # it died while writing or being written to
        code = _ended(worker)
        del self.workers[slot]  # the next job gets a new process
        if self.closed:
            return False
        error = f"the process ended with code {code}; its last words:\n{_tail(self._log(slot))}"
        if self.begun:
            write_outcome(self.folder, job, {"error": error})
        self.events.put({"event": "failed", "error": error, "job": job} | job.named())
        return True

    def _accepted(self, answer: dict[str, Any]) -> bool:
        """Whether a process can do the recipe; the first that can makes the folder the recipe's, before any job."""
        with self.closing:
            if self.closed:
                return False
            if answer["event"] != "refused" and not self.begun:
                try:
                    self.begin(answer["data"])
                    self.begun = True
                except (OSError, ValueError) as reason:
                    answer = {"event": "refused", "error": str(reason)}
        if answer["event"] == "refused":
            self.events.put(answer)
        return bool(answer["event"] != "refused")

    def _worker(self, slot: int) -> "subprocess.Popen[str] | None":
        with self.closing:
            if self.closed:
                return None
            if slot not in self.workers:
                self.workers[slot] = self._started(slot)
            return self.workers[slot]

    def _started(self, slot: int) -> "subprocess.Popen[str]":
        threads = str(max(1, (os.cpu_count() or 1) // self.processes))
        source = str(Path(__file__).parents[3])
        paths = [source, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
            **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads),
        }
        command = [sys.executable, "-m", "natsel.experiments.running.worker", str(self.folder)]
        log: IO[str]
        with self._log(slot).open("a", encoding="utf-8") as log:
            return subprocess.Popen(
                command + ([self.device] if self.device else []),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                encoding="utf-8",
                env=environment,
                # An interruption from the keyboard is for this process, which then ends the workers.
                start_new_session=os.name == "posix",
            )

    def _log(self, slot: int) -> Path:
        return self.folder / "logs" / f"worker-{slot}.log"

    def _close(self) -> None:
        with self.closing:
            self.closed = True
        for worker in list(self.workers.values()):
            worker.kill()  # journals are written so that this loses nothing
        for thread in self.threads:
            thread.join()
        for worker in self.workers.values():
            _ended(worker)


def _asked(worker: "subprocess.Popen[str]", message: dict[str, Any]) -> dict[str, Any]:
    """Say something to a process and hear its first answer."""
    assert worker.stdin is not None
    worker.stdin.write(json.dumps(message) + "\n")
    worker.stdin.flush()
    return _heard(worker)


def _heard(worker: "subprocess.Popen[str]") -> dict[str, Any]:
    """The next event of a process; ValueError where it has ended."""
    assert worker.stdout is not None
    return dict(json.loads(worker.stdout.readline()))


def _ended(worker: "subprocess.Popen[str]") -> int:
    """The exit code of a process that can do no more, its pipes closed; it gets the time to end by itself."""
    try:
        code = worker.wait(timeout=5)
    except subprocess.TimeoutExpired:
        worker.kill()
        code = worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # what was on its way to a dead process
                pipe.close()
    return code


def _tail(path: Path, lines: int = 8) -> str:
    try:
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
