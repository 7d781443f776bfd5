"""Journeys with real processes: killed with SIGKILL at any moment, and many at once. `forge.py` says what is checked.

Each prints a line of JSON with what it did.
"""

import json
import os
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
    found = forge("kills", count=12)
    assert found["kills"] == 12
    assert found["moments"] > 2, "kills hit the same few moments: delays no longer fit how long a run takes"


def test_killed_with_targets_it_draws_the_same_ones_again(forge):
    found = forge("kills", count=3, model="aimed")
    assert found["kills"] == 3


def test_killed_at_any_step_it_goes_on_alike(forge):
    found = forge("points", count=97, budget=12, seed=1)
    assert found["kills"] >= 4


def test_eight_clients_are_never_given_the_same_id_and_lose_nothing(forge):
    found = forge("clients", count=8)
    assert found["busy"] > 3, "a few did all the work, so that nothing happened at the same time"


@pytest.mark.slow
@pytest.mark.parametrize("model", ["forest", "committee", "aimed"])
def test_a_hundred_random_kills(forge, model):
    found = forge("kills", count=100, model=model, seed=1)
    assert found["kills"] == 100
    assert found["moments"] > 40
    assert found["left_outstanding"] > 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_every_single_step(forge, seed):
    found = forge("points", count=1, budget=12, seed=seed)
    assert found["kills"] == found["steps"] > 300


@pytest.mark.slow
def test_eight_clients_again_and_again(forge, tmp_path):
    for seed in range(5):
        (tmp_path / str(seed)).mkdir()
        assert forge("clients", count=8, seed=seed, folder=tmp_path / str(seed))["busy"] > 3
