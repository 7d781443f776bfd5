"""Journeys with real processes: killed with SIGKILL at any moment, and many at once. `forge.py` says what is checked.

Each prints a line of JSON with what it did.
"""

import json
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import natsel

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a POSIX system")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One process for all tests, which imports once and forks for each; and the file of its errors."""
    here, errors = Path(__file__).parent, tmp_path_factory.mktemp("forge") / "errors.txt"
    path = os.pathsep.join([str(Path(natsel.__file__).parents[1]), str(here.parent)])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    with (
        errors.open("w") as file,
        subprocess.Popen(
            [sys.executable, str(here / "forge.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            env=environment,
        ) as process,
    ):
        yield process, errors
        process.stdin.close()  # it ends with its input


@pytest.fixture
def forge(server, tmp_path):
    process, errors = server

    def run(what, **options):
        words = [what, "--folder", str(tmp_path)]
        words += [word for name, value in options.items() for word in (f"--{name}", str(value))]
        print(json.dumps(words), file=process.stdin, flush=True)
        assert select.select([process.stdout], [], [], 3600)[0], "no answer within an hour"
        answer = process.stdout.readline()
        found = json.loads(answer) if answer else None
        assert found is not None, errors.read_text()[-3000:]
        print(answer, end="")
        return found

    return run


def test_killed_at_random_it_loses_nothing_and_goes_on_alike(forge):
    """At each kill a copy of the file alone has all that was acknowledged, or is refused as one in mid-write, which is
    rare unless the machine is so busy that writers wait for it.
    """
    found = forge("kills", count=12, budget=12)
    assert found["kills"] == 12
    assert found["refused"] <= 4
    assert found["moments"] > 4, "kills hit the same few moments: delays no longer fit how long a run takes"


def test_killed_with_targets_it_draws_the_same_ones_again(forge):
    found = forge("kills", count=3, model="aimed", budget=12)
    assert found["kills"] == 3


def test_killed_at_any_step_it_goes_on_alike(forge):
    found = forge("points", count=401, budget=12, seed=1)
    assert found["kills"] >= 2


def test_eight_clients_are_never_given_the_same_id_and_lose_nothing(forge):
    found = forge("clients", count=8, size=96)
    assert found["busy"] == 8
    assert found["refused"] < found["copies"], "no copy was whole"


def test_clients_that_are_killed_leave_nothing_undone(forge):
    found = forge("crowd", count=6, size=60)
    assert found["kills"] == 6
    assert found["refused"] <= 3


@pytest.mark.slow
@pytest.mark.parametrize("model", ["forest", "committee", "aimed"])
def test_a_hundred_random_kills(forge, model):
    found = forge("kills", count=100, model=model, seed=1)
    assert found["kills"] == 100
    assert found["refused"] <= 2
    assert found["moments"] > 40
    assert found["left_outstanding"] > 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_every_single_step(forge, seed):
    found = forge("points", count=1, budget=12, seed=seed)
    assert found["kills"] == found["steps"] > 300


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_killed_at_every_single_write_a_copy_is_whole_or_refused(forge):
    found = forge("writes", count=3)
    assert found["kills"] > 60
    assert found["refused"] > 5, "no kill fell between two pages"


@pytest.mark.slow
def test_a_hundred_kills_in_a_crowd(forge):
    found = forge("crowd", count=100, seed=1)
    assert found["kills"] == 100
    assert found["refused"] <= 2


@pytest.mark.slow
def test_eight_clients_again_and_again(forge, tmp_path):
    for seed in range(5):
        (tmp_path / str(seed)).mkdir()
        assert forge("clients", count=8, seed=seed, folder=tmp_path / str(seed))["busy"] == 8
