"""Tests are skipped for reasons that are listed, for data by one marker; anything else fails the run, in a sentence."""

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import fresh_python
import skips

ROOT = Path(__file__).parents[1]

TESTS = """
import pytest

import natsel


@pytest.mark.needs_data("reg-fried")
def test_marked():
    assert len(natsel.data.load("reg-fried").train) == 8


@pytest.mark.needs_data("reg-fried", "mnist")
def test_half_of_the_data_is_absent():
    natsel.data.load("mnist")


@pytest.mark.needs_data("reg-fried")
def test_marked_and_impatient():
    pytest.skip("needs the data set reg-fried")


def test_reads_in_secret():
    natsel.data.load("reg-fried")


def test_skips_itself():
    try:
        natsel.data.load("mnist")
    except natsel.data.AbsentData:
        pytest.skip("needs the data set mnist")


def test_whim():
    pytest.skip("not today")


def test_elsewhere():
    pytest.skip("needs strace")


def test_made_data_is_free():
    natsel.data.load("digits")
"""


def run(folder, *arguments):
    """The tests in a folder under natsel's own rules, with a data set of ten rows beside them."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    environment |= {"NATSEL_DATA": str(folder), "NATSEL_CACHE": str(folder / "cache")}
    (folder / "test_some.py").write_text(TESTS)
    np.savez(folder / "reg_fried.npz", x=np.ones((10, 10)), y=np.arange(10.0))
    settings = ["-c", ROOT / "pyproject.toml", "--rootdir", folder, "-p", "conftest", "-p", "no:cacheprovider", "-q"]
    return fresh_python.run(["-m", "pytest", *map(str, settings), *arguments, str(folder)], env=environment)


def test_a_run_says_why_tests_were_skipped_and_fails_for_reasons_of_their_own(tmp_path):
    done = run(tmp_path, "-k", "not secret")
    said, _, counted = done.stdout.partition("skipped, by reason")
    assert done.returncode == 1, said + done.stderr
    assert "2 passed, 5 skipped, 1 deselected" in counted
    assert ["3", "needs", "the", "data", "set", "mnist,", "reg-fried"] in [
        line.split() for line in counted.splitlines()
    ]
    assert ["1", "needs", "strace"] in [line.split() for line in counted.splitlines()]
    wrong = [line.partition("::")[2] for line in counted.splitlines() if line.startswith("FAILED")]
    assert [line.split(" - ")[0] for line in wrong] == ["test_marked_and_impatient", "test_skips_itself", "test_whim"]
    assert "although reg-fried is on this machine" in wrong[0]
    assert "without the marker; mark it needs_data('mnist')" in wrong[1]
    assert "a reason that tests/skips.py does not list: 'not today'" in wrong[2]


def test_a_test_that_reads_data_without_a_word_fails_and_reasons_that_are_listed_are_fine(tmp_path):
    done = run(tmp_path, "-k", "secret or elsewhere")
    assert done.returncode == 1
    assert "1 failed, 1 skipped, 6 deselected" in done.stdout
    assert "reads reg_fried.npz and does not say so; mark the test needs_data(…) with the data set" in done.stdout
    assert done.stdout.count("FAILED") == 1


@pytest.mark.parametrize(
    ("names", "said"),
    [("", "it names no data set"), ("'minst'", "no data set 'minst'; did you mean 'mnist'"), ("'iris'", "iris is alw")],
)
def test_a_marker_that_names_no_set_in_files_is_refused(names, said):
    mark = eval(f"pytest.mark.needs_data({names})").mark
    item = SimpleNamespace(nodeid="test_this", iter_markers=lambda name: [mark], get_closest_marker=lambda name: mark)
    with pytest.raises(pytest.UsageError, match=f"^test_this: needs_data: .*{said}"):
        skips.skip_without_data(item)
