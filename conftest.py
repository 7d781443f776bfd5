"""Doctests run in the module that everybody else imports, not in a second copy of it."""

import importlib
from pathlib import Path

SOURCE = Path(__file__).parent / "src"


def pytest_collect_file(file_path: Path) -> None:
    """Import a module of natsel by its name before pytest reads it by its path, which would make a copy."""
    if file_path.suffix == ".py" and file_path.is_relative_to(SOURCE):
        importlib.import_module(".".join(file_path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"))
