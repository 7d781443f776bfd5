"""Worker processes that do the jobs of a recipe, each served by a thread that hands it one job after another.

A job that fails, or a process that dies, leaves the others running.
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
from pathlib import Path
from typing import Any

from natsel import threads
from natsel.containers import appending, own
from natsel.experiments.recipe.recipe import Recipe
from natsel.experiments.running.folder import Job, write_outcome

Report = Callable[[dict[str, Any]], None]
"""Called with each event: a dict with `event` (ready, start, round, done, skipped, failed), `method` and `seed`."""


class WorkerPool:
    """The processes, their jobs and the events they send; `begin` is called once, when the first of them is ready."""

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
        self.idle = threads.idle_cores()  # before these processes make work themselves
        own(folder / "logs").mkdir(exist_ok=True)
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
        """Have a job done; whether the next one can be tried."""
        started = slot in self.workers
        worker = self._worker(slot)
        if worker is None:
            return False
        try:
            if not started:
                answer = _first_answer(worker, self.recipe.as_table())
                if not self._accepted(answer):
                    return False
                self.events.put(answer | job.named())
            event = _first_answer(worker, {**job.named(), "budget": self.recipe.budget})
            while True:
                self.events.put(event | {"job": job} | job.named())
                if event["event"] in ("done", "failed"):
                    return True
                event = _next_event(worker)
        except (OSError, ValueError):
            pass  # it died while writing or being written to
        code = _exit_code(worker)
        del self.workers[slot]  # the next job gets a new process
        if self.closed:
            return False
        error = f"the process ended with code {code}; its last words:\n{_tail(self._log(slot))}"
        if self.begun:
            with contextlib.suppress(OSError):  # a full disk may be why it ended
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
        source = str(Path(__file__).parents[3])
        paths = [source, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
            **threads.settings(self.processes, idle=self.idle),
        }
        command = [sys.executable, "-P", "-m", "natsel.experiments.running.worker", str(self.folder)]
        with appending(self._log(slot)) as log:
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
            _exit_code(worker)


def _first_answer(worker: "subprocess.Popen[str]", message: dict[str, Any]) -> dict[str, Any]:
    """Send a message to a process, and read its first answer."""
    assert worker.stdin is not None
    worker.stdin.write(json.dumps(message) + "\n")
    worker.stdin.flush()
    return _next_event(worker)


def _next_event(worker: "subprocess.Popen[str]") -> dict[str, Any]:
    """The next event of a process; ValueError where it has ended."""
    assert worker.stdout is not None
    return dict(json.loads(worker.stdout.readline()))


def _exit_code(worker: "subprocess.Popen[str]") -> int:
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
