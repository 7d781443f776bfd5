"""What a study has measured so far, one file for each unit, so that nothing is measured twice after a kill."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from natsel.containers import atomically, own, readable, sealed
from natsel.experiments.running.folder import read_object, write_json

Array = np.ndarray[Any, Any]
Tell = Callable[[str], None]
"""Takes a line about how far a study is."""


class TimeIsUp(Exception):
    """A study is left before its next measurement; the same call goes on there."""


class Units:
    """The measurements of a study, in its folder; `fresh` throws away what it holds. None is begun after the
    `deadline`, a time of `time.monotonic`; `tell` is told how far the study is.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     units = Units(Path(folder))
    ...     units.measured("a", lambda: {"x": 1}), units.measured("a", lambda: {"x": 2})
    ({'x': 1}, {'x': 1})
    """

    def __init__(
        self, folder: Path, fresh: bool = False, deadline: float | None = None, tell: Tell = lambda words: None
    ) -> None:
        self.folder, self.deadline, self.tell = folder, deadline, tell
        self._place = own(folder / "units")
        self._place.mkdir(parents=True, exist_ok=True)
        if fresh:
            for path in (*self._place.glob("*.json"), *self._place.glob("*.npz")):
                path.unlink()

    def go_on(self) -> None:
        """Leave the study where its time is up."""
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise TimeIsUp

    def measured(self, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What was measured under this name, measuring it where it was not."""
        path = self._place / f"{name}.json"
        if not path.is_file():
            self.go_on()
            write_json(path, sealed(measure()))
        return read_object(path)

    def arrays(self, name: str, make: Callable[[], dict[str, Array]], says: str = "") -> dict[str, Array]:
        """The arrays kept under this name, making them where they were not, which `says` tells: outputs of networks."""
        path = self._place / f"{name}.npz"
        if not path.is_file():
            self.go_on()
            if says:
                self.tell(says)
            made = make()
            with atomically(path) as place, place.open("wb") as stream:
                np.savez(stream, **made)  # type: ignore[arg-type]
        with readable(path), np.load(path, allow_pickle=False) as held:
            return dict(held)
