"""A process that does jobs: `python -m natsel.experiments.running.worker FOLDER [DEVICE]`, started by `WorkerPool`.

It reads lines of JSON from stdin, the recipe first and then one job per line, and writes one event per line to stdout.
It checks that the recipe can be run before it sends `ready`; the data are loaded once. When stdin ends, it ends at
once: the process that started it is gone, and the journal keeps all labels.
"""

import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from natsel.experiments.recipe.recipe import Recipe
from natsel.experiments.running.folder import Job

Emit = Callable[[dict[str, Any]], None]


def main(folder: Path, device: str | None = None) -> None:
    """Take jobs until stdin ends."""
    # Only events may go to stdout: what libraries print goes to the log.
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    emit = _emitter(events)
    jobs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    import torch

    from natsel.experiments.running.job import Runner, do_job

    # Networks are trained and asked in TF32 where there is such a thing; what is computed from their answers is not.
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        runner = Runner(Recipe.from_table(jobs.get()).plugged_in(), folder, device)
    except (ValueError, ImportError) as refusal:  # the recipe asks for what cannot be had: no job could run
        traceback.print_exc()
        emit({"event": "refused", "error": " ".join(str(refusal).split())})
        return
    emit({"event": "ready", "data": runner.described()})
    while True:
        wanted = jobs.get()
        contender = runner.contender(wanted["method"])
        do_job(runner, Job(contender.label, contender.slug, wanted["seed"]), wanted["budget"], emit)


def _emitter(events: IO[str]) -> Emit:
    def emit(event: dict[str, Any]) -> None:
        try:
            events.write(json.dumps(event) + "\n")
            events.flush()
        except BrokenPipeError:
            os._exit(1)

    return emit


def _listen(jobs: "queue.SimpleQueue[dict[str, Any]]") -> None:
    for line in sys.stdin:
        jobs.put(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:3])
