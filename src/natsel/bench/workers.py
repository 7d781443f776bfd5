"""Jobs of the benchmark, each in a process of its own: both ends of the line.

`Workers` sends a job as JSON to the stdin of a fresh interpreter, so that memory and time start from nothing, and reads
the result from the last line of its stdout. Jobs for natsel are the functions below (this file run as a program); jobs
for the peers are in `peer_worker`, run by an interpreter that may be another (`setup` makes one).

For a selection the clock starts after imports and loading. It runs while the belief is made from a float32 array (its
checks included) and while points are selected; both times are reported, and ratios use their sum.
"""

import importlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

import natsel
from natsel.bench.cases import CONTENDERS, Case
from natsel.bench.peer_worker import Meter, main, what_it_took
from natsel.bench.pools import make_pool
from natsel.choose import METHODS
from natsel.information.joint_labels import joint_mutual_information_sampled

_TIMEOUT_S = 2 * 3600


class Failed(RuntimeError):
    """A worker ended without a result; the message says how."""


@dataclass
class Workers:
    """Where work is sent to; as a context it keeps the pool at hand in a temporary folder."""

    peers_python: str = sys.executable
    threads: int = 1

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="natsel-bench-")
        self._path = str(Path(self._folder.name) / "pool.npy")
        self._held: dict[str, Any] | None = None
        return self

    def __exit__(self, *failure: object) -> None:
        self._folder.cleanup()

    def natsel(self, do: str, **job: Any) -> Any:
        """A job for natsel's worker."""
        return self._call([sys.executable, "-m", "natsel.bench.workers"], do, job)

    def peers(self, do: str, **job: Any) -> Any:
        """A job for the peers' worker, kept apart from the settings and packages of this interpreter."""
        return self._call([self.peers_python, "-I", str(Path(__file__).with_name("peer_worker.py"))], do, job)

    def sized(self, case: Case) -> Case:
        """The case with its pool at hand, and with the sizes that pool has."""
        wanted: dict[str, Any] = {"kind": case.pool, "count": case.N, "draws": case.K, "classes": case.C}
        if self._held != wanted:  # one at a time: the largest fills most of a gigabyte
            self._held = None
            self.natsel("pool", path=self._path, **wanted)
            self._held = wanted
        points, draws, classes = np.load(self._path, mmap_mode="r", allow_pickle=False).shape
        return replace(case, N=points, K=draws, C=classes)

    def select(self, case: Case, contender: str, seed: int) -> Any:
        """One selection by a contender on the pool at hand."""
        who = CONTENDERS[contender]
        send = self.natsel if who.package == "natsel" else self.peers
        job: dict[str, Any] = {"do": "select", "package": who.package, "method": case.method, "k": case.k}
        return send(**job | {"samples": case.S, "beta": case.beta, "path": self._path, "seed": seed} | who.settings)

    def information(self, batches: list[list[int]], configurations: int) -> dict[frozenset[int], tuple[float, float]]:
        """Information and standard error of each batch of the pool at hand, each set judged once."""
        sets = [batch for batch in dict.fromkeys(map(frozenset, batches)) if batch]
        positions = [sorted(batch) for batch in sets]
        judged = self.natsel("information", path=self._path, batches=positions, configurations=configurations)
        return dict(zip(sets, map(tuple, judged), strict=True))

    def _call(self, command: list[str], do: str, job: dict[str, Any]) -> Any:
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        try:
            done = subprocess.run(
                command,
                input=json.dumps({"do": do, "threads": self.threads, "job": job}),
                env={**os.environ, **dict.fromkeys(names, str(self.threads)), "TQDM_DISABLE": "1"},
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
            )
        except OSError as reason:
            raise Failed(f"{command[0]} cannot be started ({reason.strerror})") from None
        except subprocess.TimeoutExpired:
            raise Failed(f"took more than {_TIMEOUT_S // 3600} hours") from None
        if done.returncode < 0:
            name = signal.Signals(-done.returncode).name
            raise Failed(f"killed by {name}" + (", most likely for want of memory" if name == "SIGKILL" else ""))
        if done.returncode > 0:
            raise Failed((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
        return json.loads(done.stdout.strip().splitlines()[-1])


def setup(directory: str | Path) -> Path:
    """Make a virtual environment with batchbald-redux, baal and bmdal_reg in a folder; returns its interpreter.

    torch is installed in the version natsel runs on, so that both sides compute with the same library. torchvision, a
    dependency, is taken out again: beside another build of torch it makes the peers fail to import. Of what bmdal_reg
    depends on, its searches need dill alone.
    """
    directory = Path(directory).absolute()
    python = directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if directory.exists() and not python.exists() and any(directory.iterdir()):
        raise ValueError(f"setup: {directory} holds something else; name a new or empty folder")
    version = importlib.metadata.version("torch").split("+")[0]
    for command in (
        [sys.executable, "-m", "venv", str(directory)],
        [str(python), "-m", "pip", "install", f"torch=={version}", "batchbald-redux", "baal"],
        [str(python), "-m", "pip", "install", "dill"],
        [str(python), "-m", "pip", "install", "--no-deps", "bmdal_reg==3.0.2"],
        [str(python), "-m", "pip", "uninstall", "--yes", "torchvision"],
    ):
        # Progress goes to stderr, so that stdout stays free for a result.
        if subprocess.run(command, stdout=sys.stderr.fileno()).returncode:
            raise RuntimeError(f"setup: `{' '.join(command)}` failed; its messages above say why")
    return python


def measure(module: str, settings: dict[str, Any], function: str = "measure") -> Any:
    """One of the measurements that have a file of their own: its function `measure`, or a part of it, with settings."""
    try:
        return getattr(importlib.import_module(module), function)(**settings)
    except ValueError as refusal:
        raise SystemExit(str(refusal)) from None  # the sentence alone, without the traceback


def pool(path: str, **wanted: Any) -> None:
    """Write the pool a case names to a .npy file."""
    np.save(path, make_pool(**wanted).numpy())


def select(path: str, k: int, seed: int, **job: Any) -> dict[str, Any]:
    """Pick k points of the pool with natsel."""
    method = chosen_method(**job)
    log_probs_N_K_C = np.load(path, allow_pickle=False)
    natsel.select(method, natsel.CategoricalSamples(log_probs_N_K_C[:32]), k=2)
    meter = Meter()
    belief, *belief_times = meter.lap(lambda: natsel.CategoricalSamples(log_probs_N_K_C))
    batch, *select_times = meter.lap(lambda: natsel.select(method, belief, k=k, seed=seed))
    return what_it_took(meter, batch.ids.tolist(), select_times, belief_times)


def bare_pass(path: str, **job: Any) -> dict[str, Any]:
    """What the hardware needs to read the pool: every number exponentiated once and summed, in blocks."""
    log_probs_N_K_C = torch.from_numpy(np.load(path, allow_pickle=False))
    blocks = torch.split(log_probs_N_K_C, max(1, (1 << 19) // log_probs_N_K_C[0].numel()))
    log_probs_N_K_C[:32].exp().sum()
    meter = Meter()
    _, *times = meter.lap(lambda: sum(block.exp().sum().item() for block in blocks))
    return what_it_took(meter, [], times)


def information(path: str, batches: list[list[int]], configurations: int) -> list[tuple[float, float]]:
    """Information and standard error of every batch under the common judge: the same random numbers for each.

    I[Y_batch; Ω] = H[Ω] − E H[Ω | y_batch] in float64 over `configurations` sampled labels.
    docs/theory/batchbald.md, 11.
    """
    log_probs_N_K_C = np.load(path, mmap_mode="r", allow_pickle=False)
    results = []
    for batch in batches:
        # In the order of positions, so that a set has one value however it was found.
        log_probs_B_K_C = torch.from_numpy(np.array(log_probs_N_K_C[sorted(batch)]))
        generator = torch.Generator().manual_seed(0)
        results.append(joint_mutual_information_sampled(log_probs_B_K_C, configurations, None, generator))
    return results


def chosen_method(method: str, beta: float = 8.0, rows: int | None = None, **job: Any) -> natsel.Method:
    """The method of a job, with as many rows as it asks for.

    >>> chosen_method("batchbald", rows=16384).objective
    EIG(rows=16384)
    """
    named = METHODS[method]
    objective = natsel.EIG(rows=rows) if rows else named.objective
    return natsel.Method(objective, natsel.Power(beta=beta) if method == "power-bald" else named.search, named.name)


_JOBS: tuple[Callable[..., Any], ...] = (measure, pool, select, bare_pass, information)
JOBS = {job.__name__: job for job in _JOBS}

if __name__ == "__main__":
    main(JOBS)
