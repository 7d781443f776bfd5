"""What a study has measured so far, one file for each unit, so that nothing is measured twice after a kill."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from natsel.containers import atomically
from natsel.experiments.running.folder import read_object, write_json

Array = np.ndarray[Any, Any]
Tell = Callable[[str], None]
"""Takes a line about how far a study is."""


class TimeIsUp(Exception):
    """A study is left before its next measurement; the same call goes on there."""


class Units:
    """The measurements in a folder. None is begun after the `deadline`, a time of `time.monotonic`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     units = Units(Path(folder))
    ...     units.measured("a", lambda: {"x": 1}), units.measured("a", lambda: {"x": 2})
    ({'x': 1}, {'x': 1})
    """

    def __init__(self, folder: Path, deadline: float | None = None) -> None:
        self.folder, self.deadline = folder / "units", deadline
        self.folder.mkdir(parents=True, exist_ok=True)

    def throw_away(self) -> None:
        """Remove what was measured."""
        for path in (*self.folder.glob("*.json"), *self.folder.glob("*.npz")):
            path.unlink()

    def go_on(self) -> None:
        """Stop the study where its time is up."""
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise TimeIsUp

    def measured(self, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What was measured under this name, measuring it where it was not."""
        path = self.folder / f"{name}.json"
        if not path.is_file():
            self.go_on()
            write_json(path, measure())
        return read_object(path)

    def arrays(self, name: str, make: Callable[[], dict[str, Array]]) -> dict[str, Array]:
        """The arrays kept under this name, making them where they were not: outputs of trained networks."""
        path = self.folder / f"{name}.npz"
        if not path.is_file():
            self.go_on()
            made = make()
            with atomically(path) as place, place.open("wb") as stream:
                np.savez(stream, **made)  # type: ignore[arg-type]
        with np.load(path, allow_pickle=False) as held:
            return dict(held)
