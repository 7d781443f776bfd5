"""The jobs of a recipe done by this process, one after another: for values that no other process has, and for tests.

It offers what `WorkerPool` offers. A job that fails leaves the others running; when the time is up, the job under way
ends at its next round and goes on from its journal another time.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from natsel.containers import appending, own
from natsel.experiments.recipe.recipe import Recipe
from natsel.experiments.running.data_source import Given
from natsel.experiments.running.folder import Job
from natsel.experiments.running.worker_pool import Report


class _TimeIsUp(BaseException):
    """Ends a job between two rounds; no error of the job."""


class ThisProcess:
    """The jobs and what they need; `begin` is called once, when the recipe was found to be possible."""

    def __init__(
        self,
        folder: Path,
        recipe: Recipe,
        jobs: Sequence[Job],
        device: str | None,
        begin: Callable[[dict[str, Any]], None],
        given: Given | None = None,
    ) -> None:
        self.folder, self.recipe, self.jobs = folder, recipe, jobs
        self.device, self.begin, self.given = device, begin, given

    def work(self, report: Report, deadline: float | None) -> tuple[list[Job], dict[Job, str]]:
        """Do the jobs until all have ended or the time is up."""
        done: list[Job] = []
        failed: dict[Job, str] = {}
        if not self.jobs or _over(deadline):
            return done, failed
        from natsel.experiments.running.job import Runner, do_job

        runner = Runner(self.recipe, self.folder, self.device, self.given)
        data = runner.described()
        self.begin(data)
        own(self.folder / "logs").mkdir(exist_ok=True)
        report({"event": "ready", "data": data, **self.jobs[0].named()})
        for job in self.jobs:

            def emit(event: dict[str, Any], job: Job = job) -> None:
                if event["event"] == "done":
                    done.append(job)
                elif event["event"] == "failed":
                    failed[job] = event["error"]
                report(event | job.named())
                if event["event"] == "round" and _over(deadline):
                    raise _TimeIsUp

            try:
                with appending(self.folder / "logs" / "this-process.log") as log:
                    do_job(runner, job, self.recipe.budget, emit, log)
            except _TimeIsUp:
                break
            if _over(deadline):
                break
        return done, failed


def _over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline
