"""Names of a package that are imported when they are first used.

The stub of the package (`__init__.pyi`) is the one list of them: type checkers read it, and so does this file. torch
alone takes seconds to import, and `natsel --help` does not need it.
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def names_in_stub(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, for the names that its stub imports.

    >>> find, _ = names_in_stub("natsel")
    >>> find("seeds").__name__
    'natsel.seeds'
    """
    module = sys.modules[package]
    stub = ast.parse(Path(str(module.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"))
    home = {
        name.asname or name.name: (line.module or "", name.name)
        for line in stub.body
        if isinstance(line, ast.ImportFrom)
        for name in line.names
    }

    def find(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        room, original = home[name]
        value = import_module(f"{room}.{original}") if room == package else getattr(import_module(room), original)
        setattr(module, name, value)
        return value

    return find, lambda: sorted({*vars(module), *home})
