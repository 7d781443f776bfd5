"""Journeys with real processes: killed with SIGKILL at any moment, and many at once. `forge.py` says what is checked.

Each prints a line of JSON with what it did.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import natsel

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def forge(tmp_path):
    def run(what, **options):
        here = Path(__file__).parent
        path = os.pathsep.join([str(Path(natsel.__file__).parents[1]), str(here.parent)])
        command = [sys.executable, str(here / "forge.py"), what, "--folder", str(tmp_path)]
        command += [word for name, value in options.items() for word in (f"--{name}", str(value))]
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=3600, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        print(done.stdout, end="")
        return json.loads(done.stdout)

    return run


def test_killed_at_random_it_loses_nothing_and_goes_on_alike(forge):
    """At each kill a copy of the file alone has all that was acknowledged, or is refused as one in mid-write, which is
    rare unless the machine is so busy that writers wait for it.
    """
    found = forge("kills", count=50, budget=12)
    assert found["kills"] == 50
    assert found["refused"] <= 10
    assert found["moments"] > 4, "kills hit the same few moments: delays no longer fit how long a run takes"


def test_killed_with_targets_it_draws_the_same_ones_again(forge):
    found = forge("kills", count=3, model="aimed", budget=12)
    assert found["kills"] == 3


def test_killed_at_any_step_it_goes_on_alike(forge):
    found = forge("points", count=241, budget=12, seed=1)
    assert found["kills"] >= 2


def test_eight_clients_are_never_given_the_same_id_and_lose_nothing(forge):
    found = forge("clients", count=8)
    assert found["busy"] == 8
    assert found["refused"] < found["copies"], "no copy was whole"


def test_clients_that_are_killed_leave_nothing_undone(forge):
    found = forge("crowd", count=12)
    assert found["kills"] == 12
    assert found["refused"] <= 6


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
