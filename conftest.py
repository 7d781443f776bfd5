"""Doctests run in the module that everybody else imports, not in a second copy of it; examples are few by default.

Tests say with `needs_data` which data sets they read. How skips are judged: `tests/skips.py`.
"""

import gc
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings

sys.path.append(str(Path(__file__).parent / "tests"))  # also where pytest runs with the settings of others

import skips

settings.register_profile("few", max_examples=20)  # where a test does not say how many itself
settings.register_profile("many", max_examples=300)
settings.load_profile("few")

SOURCE = Path(__file__).parent / "src"
_WRONG = pytest.StashKey[dict[str, str]]()  # tests that should not have been skipped, each with a sentence
_opened: set[Path] = set()  # files of data sets that were opened since the test began


def pytest_collect_file(file_path: Path) -> None:
    """Import a module of natsel by its name before pytest reads it by its path, which would make a copy."""
    if file_path.parent.name == "conformance":
        importlib.import_module("conformance.references_weights")  # what natsel's own pairs are compared with
        importlib.import_module("conformance.references_similarity")
    if file_path.suffix == ".py" and file_path.is_relative_to(SOURCE):
        importlib.import_module(".".join(file_path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"))


def pytest_configure() -> None:
    """What modules of tests make when they are imported is the same in every run."""
    _seed_global_numbers()


def pytest_runtest_setup() -> None:
    """Every test finds the same global random numbers, whatever ran before it."""
    _seed_global_numbers()


def _seed_global_numbers() -> None:
    torch.default_generator.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  what other libraries draw from


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that read data sets which are not here are skipped."""
    for item in items:
        skips.skip_without_data(item)


def pytest_collection_finish() -> None:
    """Garbage collection passes over what stays to the end: ten thousand tests, and all that they import."""
    gc.collect()
    gc.freeze()
    sys.addaudithook(_note_data())


def _note_data() -> Any:
    """Notes each file that is opened in the folders where this machine keeps data sets."""
    from natsel.data.folders import data_folders

    folders = {str(folder) for folder in data_folders()}

    def note(event: str, given: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(given[0], str) and given[0].endswith(".npz"):
            path = Path(given[0])
            if str(path.parent) in folders:
                _opened.add(path)

    return note


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """What fixtures open belongs to the test that they are made for first."""
    _opened.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test that reads a data set says so."""
    done = yield
    named = {path for name in skips.sets_needed(item) for path in skips.files_of(name)}
    if _opened - named:
        read = ", ".join(sorted(path.name for path in _opened - named))
        pytest.fail(f"reads {read} and does not say so; mark the test needs_data(…) with the data set", pytrace=False)
    return done


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run fails where a test was skipped that should not have been."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or hasattr(session.config, "workerinput"):
        return
    wrong = {report.nodeid: skips.complaint(report) for report in terminal.stats.get("skipped", [])}
    session.config.stash[_WRONG] = {test: sentence for test, sentence in wrong.items() if sentence}
    if session.config.stash[_WRONG] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What was skipped, by reason."""
    reports = terminalreporter.stats.get("skipped", [])
    if reports:
        terminalreporter.section("skipped, by reason")
        for line in skips.by_reason(reports):
            terminalreporter.line(line)
    for test, sentence in config.stash.get(_WRONG, {}).items():
        terminalreporter.line(f"FAILED {test} - {sentence}", red=True)
