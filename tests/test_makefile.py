"""Where `make` finds data sets: the user's folder, else the one beside the checkout, also where paths have spaces."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[1] / "Makefile"


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_data_are_those_of_the_user_else_those_beside_the_checkout(tmp_path):
    checkout = tmp_path / "a b" / "natsel"
    checkout.mkdir(parents=True)

    def folder(*arguments, **chosen):
        ours = {"NATSEL_DATA", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS"}  # the tests may have been called by make
        environment = {name: value for name, value in os.environ.items() if name not in ours} | chosen
        show = 'show: ; @echo "<$$NATSEL_DATA>"'
        command = ["make", "-s", "-f", MAKEFILE, "--eval", show, "show", *arguments]
        done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert folder() == "<>"
    data = tmp_path / "a b" / "shared" / "data"
    data.mkdir(parents=True)
    assert folder() == f"<{data.resolve()}>"
    assert folder(NATSEL_DATA="/my own") == "</my own>"
    assert folder("NATSEL_DATA=") == "<>"
