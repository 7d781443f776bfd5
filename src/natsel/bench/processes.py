"""Processes that measure: each job has a fresh interpreter, so that memory and time start from nothing.

natsel runs in the interpreter this is called from, its peers in one that may be another; a job goes in as
JSON on stdin, a result comes out as the last line of stdout.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from natsel.bench.cases import CONTENDERS, Case

_TIMEOUT_S = 2 * 3600


class Failed(RuntimeError):
    """A worker ended without a result; the message says how."""


@dataclass
class Workers:
    """Where work is sent to; as a context it keeps the pool at hand in a temporary folder."""

    peers_python: str = sys.executable
    threads: int = 1
    seed: int = 0
    _pool: tuple[tuple[object, ...], Path] | None = field(default=None, repr=False)

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="natsel-bench-")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    def natsel(self, **job: Any) -> dict[str, Any]:
        """A job for natsel's worker."""
        return self._call([sys.executable, "-m", "natsel.bench.worker"], job)

    def peers(self, **job: Any) -> dict[str, Any]:
        """A job for the peers' worker, kept apart from the settings and packages of this interpreter."""
        return self._call([self.peers_python, "-I", str(Path(__file__).with_name("peer_worker.py"))], job)

    def sized(self, case: Case) -> Case:
        """The case with its pool at hand, and with the sizes that pool has."""
        key = (case.pool, case.N, case.K, case.C)
        if self._pool is None or self._pool[0] != key:
            path = Path(self._folder.name) / "pool.npy"  # one at a time: the largest fills most of a gigabyte
            self._pool = None
            self.natsel(do="pool", kind=case.pool, N=case.N, K=case.K, C=case.C, pool=str(path))
            self._pool = (key, path)
        points, draws, classes = _npy_shape(self._pool[1])
        return replace(case, N=points, K=draws, C=classes)

    def select(self, case: Case, contender: str, seed: int) -> dict[str, Any]:
        """One selection by a contender on the pool at hand."""
        assert self._pool is not None
        who = CONTENDERS[contender]
        send = self.natsel if who.package == "natsel" else self.peers
        job = {"do": "select", "package": who.package, "method": case.method, "k": case.k, "samples": case.S}
        return send(**{**job, "beta": case.beta, "pool": str(self._pool[1]), "seed": seed, **who.settings})

    def on_pool(self, do: str, **job: Any) -> dict[str, Any]:
        """Another job for natsel's worker on the pool at hand."""
        assert self._pool is not None
        return self.natsel(do=do, pool=str(self._pool[1]), **job)

    def _call(self, command: list[str], job: dict[str, Any]) -> dict[str, Any]:
        count = str(self.threads)
        settings = {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count}
        try:
            done = subprocess.run(
                command,
                input=json.dumps({"threads": self.threads, "seed": self.seed, **job}),
                env={**os.environ, **settings, "TQDM_DISABLE": "1"},
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
        result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return result


def _npy_shape(path: Path) -> tuple[int, int, int]:
    import numpy as np

    points, draws, classes = np.load(path, mmap_mode="r", allow_pickle=False).shape
    return points, draws, classes
