"""Threads: as many as there are cores to use, sleeping while they wait, in natsel's own processes and nowhere else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import natsel
from natsel import threads
from natsel.experiments.recipe.recipe import Recipe
from natsel.experiments.running import worker_pool

SOURCE = str(Path(natsel.__file__).parents[1])
OTHERS = {
    name: value for name, value in os.environ.items() if not name.startswith(("OMP", "GOMP", "KMP", "MKL", "OPENB"))
}


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 64),
        ({"proc/self/cgroup": "0::/\n"}, 64),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 64),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "300000 100000\n"}, 3),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "20000 100000\n"}, 1),
        (
            {
                "proc/self/cgroup": "4:memory:/\n3:cpu,cpuacct:/box\n0::/\n",
                "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "400000\n",
                "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            4,
        ),
        ({"proc/self/cgroup": "0::/../out\n", "sys/fs/cgroup/cpu.max": "nonsense\n"}, 64),
    ],
)
def test_limits_of_containers_count(files, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)), raising=False)
    assert threads.available_cores(written(tmp_path, files)) == expected


def test_cores_that_a_process_is_bound_to_count(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5, 7}, raising=False)
    assert threads.available_cores(tmp_path) == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert threads.available_cores(tmp_path) == 1


def test_idle_cores_are_read_from_what_the_system_counts(tmp_path, monkeypatch):
    """Of the cores that the process is bound to alone; waiting for a disk is idle, and a lent core is not."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2}, raising=False)
    stat = "cpu 9 9 9 9 9 9 9 9\ncpu0 {} 0 0 {} {} 0 0 0\ncpu1 5 0 0 5 0 0 0 0\ncpu2 0 0 0 {} 0 0 0 {} 7 7\nintr 4\n"
    written(tmp_path, {"proc/stat": stat.format(10, 10, 10, 10, 10)})
    later = lambda seconds: written(tmp_path, {"proc/stat": stat.format(15, 14, 11, 12, 18)})  # noqa: E731
    monkeypatch.setattr(threads.time, "sleep", later)
    assert threads.idle_cores(1.0, tmp_path) == pytest.approx(0.5 + 0.2)
    assert threads.idle_cores(1.0, tmp_path) is None, "clocks that stand still say nothing"
    (tmp_path / "proc/stat").unlink()
    monkeypatch.setattr(threads.time, "sleep", lambda seconds: None)
    assert threads.idle_cores(1.0, tmp_path) is None


def test_what_the_user_says_stays(monkeypatch):
    monkeypatch.setattr(threads, "available_cores", lambda: 8)
    spin, sleep = ({"GOMP_SPINCOUNT": a, "KMP_BLOCKTIME": b} for a, b in (("10000", "1"), ("0", "0")))
    counts = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    for idle, waiting in ((None, spin), (8.0, spin), (7.6, spin), (6.0, sleep), (0.0, sleep)):
        assert threads.settings(1, {}, idle) == waiting | dict.fromkeys(counts, "8")
        assert threads.settings(3, {}, idle)["OMP_NUM_THREADS"] == "2", "whatever others do"
        assert threads.settings(9, {}, idle)["OMP_NUM_THREADS"] == "1"
    assert threads.settings(1, {"MKL_NUM_THREADS": "5"}) == spin
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"):
        assert threads.settings(2, {name: "x"}, 0.0) == dict.fromkeys(counts, "4")


def said_by(program: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=OTHERS | {"PYTHONPATH": SOURCE} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_the_command_line_settles_before_torch_comes():
    """A thread for each idle core; its workers share all cores; but what the user says stays."""
    program = (
        "import os, sys; from natsel import threads; from natsel.cli import main\n"
        "threads.available_cores, threads.idle_cores = lambda: 6, lambda: 3.9\n"
        "sys.argv = ['natsel', 'methods', '--no']; main()\n"
        "workers = os.environ | threads.settings(3, idle=0.0); print('torch' in sys.modules)\n"
        "print(*(place[name] for place in (os.environ, workers) for name in ('GOMP_SPINCOUNT', 'OMP_NUM_THREADS')))"
    )
    assert said_by(program) == ["False", "10000", "4", "0", "2"]
    users = {"OMP_NUM_THREADS": "5", "GOMP_SPINCOUNT": "7"}
    assert said_by(program, **users) == ["False", "7", "5", "7", "5"]


def test_the_library_leaves_the_process_of_its_user_alone():
    program = (
        "import os; before = dict(os.environ)\n"
        "import natsel, natsel.threads; natsel.CategoricalSamples, natsel.select\n"
        "from natsel.cli import main; main(['--version'])\n"
        "print(dict(os.environ) == before, natsel.threads.settle(), dict(os.environ) == before)"
    )
    assert said_by(program)[2:] == ["True", "False", "True"]


def test_worker_processes_share_the_cores(tmp_path, monkeypatch):
    table = {
        "name": "small",
        "about": "for a test",
        "data": {"set": "iris"},
        "model": {"kind": "forest", "trees": 3},
        "methods": ["random"],
        "initial": {"per_class": 1},
        "k": 4,
        "budget": 15,
        "seeds": 1,
    }
    seen = []
    monkeypatch.setattr(worker_pool.subprocess, "Popen", lambda command, **how: seen.append(how["env"]))
    monkeypatch.setattr(threads, "available_cores", lambda: 4)
    monkeypatch.setattr(threads, "idle_cores", lambda: 1.2)
    for name in (*threads.COUNTS, *threads.WAITING):
        monkeypatch.delenv(name, raising=False)
    pool = worker_pool.WorkerPool(tmp_path, Recipe.from_table(table), [], 2, None, lambda data: None)
    pool._started(0)
    assert (seen[0]["OMP_NUM_THREADS"], seen[0]["GOMP_SPINCOUNT"]) == ("2", "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    pool._started(0)
    assert (seen[1]["OMP_NUM_THREADS"], seen[1]["GOMP_SPINCOUNT"]) == ("3", "0")
