"""Why a test may be skipped: the one list. The end of a run counts skips by reason, and any other reason is a failure.

A reason says what the test needs and this machine has not. For data the marker `needs_data` alone skips.
"""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

DATA = "needs the data set "  # and their names
REASONS = (
    "needs an accelerator",
    "needs a machine without an accelerator",
    "needs a POSIX system",
    "needs /proc of Linux",
    "needs (make|strace)",
    "needs the (package|extra) .+",
    "could not import .+",  # so says pytest.importorskip where no reason is given
    "needs a torch that stacks batch norm",
    "SCIPY_ARRAY_API is not set: .+",  # checks of scikit-learn
    f"{DATA}.+",
)


def sets_needed(item: pytest.Item) -> list[str]:
    """The data sets that the markers of a test name; a file that belongs to no set is named with its ending."""
    return [name for mark in item.iter_markers("needs_data") for name in mark.args]


@cache
def files_of(name: str) -> tuple[Path, ...]:
    """The files of a data set on this machine, looked for and not read; none where one is absent."""
    from natsel.data.folders import AbsentData, find
    from natsel.data.load import find_set

    try:
        found = (find(name, (name,)),) if name.endswith(".npz") else find_set(name)
    except AbsentData:
        return ()
    if not found:
        raise ValueError(f"{name} is always there")
    return found


def skip_without_data(item: pytest.Item) -> None:
    """Mark a test as skipped where data that it needs are absent."""
    names = sets_needed(item)
    try:
        if item.get_closest_marker("needs_data") and not names:
            raise ValueError("it names no data set")
        absent = [name for name in names if not files_of(name)]
    except ValueError as reason:
        raise pytest.UsageError(f'{item.nodeid}: needs_data: {reason}; write needs_data("mnist", …)') from None
    if absent:
        item.add_marker(pytest.mark.skip(reason=DATA + ", ".join(absent)))


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a test or a file was skipped, in one line."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return " ".join(reason.removeprefix("Skipped: ").split())


def by_reason(reports: list[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """A line for each reason, the most frequent first; one for all data sets together."""
    reasons = [reason_of(report) for report in reports]
    sets = {name for reason in reasons if reason.startswith(DATA) for name in reason.removeprefix(DATA).split(", ")}
    together = DATA + ", ".join(sorted(sets))
    counted = Counter(together if reason.startswith(DATA) else reason for reason in reasons)
    return [f"{count:5} {reason}" for reason, count in sorted(counted.items(), key=lambda one: (-one[1], one[0]))]


def complaint(report: pytest.TestReport | pytest.CollectReport) -> str:
    """What is wrong with a skip, in a sentence; empty where nothing is."""
    reason = reason_of(report)
    if not any(re.fullmatch(known, reason) for known in REASONS):
        return f"skipped for a reason that tests/skips.py does not list: {reason!r}; use one of its reasons, or add it"
    sets = reason.removeprefix(DATA)
    if sets == reason:
        return ""
    if "needs_data" not in report.keywords:
        return f"skipped for data without the marker; mark it needs_data({sets!r}) and leave skipping to that"
    if all(files_of(name) for name in sets.split(", ")):
        return f"skipped although {sets} is on this machine; leave skipping to the marker"
    return ""
