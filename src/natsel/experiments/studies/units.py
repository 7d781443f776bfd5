"""What a study has measured so far, one file for each unit, so that nothing is measured twice after a kill."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from natsel.experiments.running.folder import read_object, write_json


class Units:
    """The measurements in a folder; `fresh` throws away what it holds.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     units = Units(Path(folder))
    ...     units.measured("a", lambda: {"x": 1}), units.measured("a", lambda: {"x": 2})
    ({'x': 1}, {'x': 1})
    """

    def __init__(self, folder: Path, fresh: bool = False) -> None:
        self.folder = folder / "units"
        self.folder.mkdir(parents=True, exist_ok=True)
        if fresh:
            for path in self.folder.glob("*.json"):
                path.unlink()

    def measured(self, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What was measured under this name, measuring it where it was not."""
        path = self.folder / f"{name}.json"
        if not path.is_file():
            write_json(path, measure())
        return read_object(path)
