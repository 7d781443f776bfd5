"""Names of a package that are imported when they are first used, and a line about each for `help`.

The stub of the package (`__init__.pyi`) is the one list of them: type checkers read it, and so does this file. torch
alone takes seconds to import, and `natsel --help` does not need it. The lines of `help` are the first sentences of
docstrings. They are gathered when somebody reads the docstring of the package, since everything is imported for them.
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from itertools import groupby, pairwise
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from natsel.options import checked_part


def names_in_stub(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, for the names that its stub imports; its docstring tells of each.

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
        if name == "__all__":  # for `from natsel import *`
            return sorted(home)
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        room, original = home[name]
        value = import_module(f"{room}.{original}") if room == package else getattr(import_module(room), original)
        value = checked_part(value)
        setattr(module, name, value)
        return value

    class Listed(ModuleType):
        @property
        def __doc__(self) -> str:  # type: ignore[override]  # of modules in general it can be set
            written = (vars(module)["__doc__"] or "").rstrip()
            return f"{written}\n\n{listing(package, {name: room for name, (room, _) in home.items()})}"

        def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
            return import_module, (package,)  # by name, as other modules are where functions are sent to processes

    module.__class__ = Listed
    return find, lambda: sorted({*vars(module), *home})


def listing(package: str, home: dict[str, str]) -> str:
    """A line for each name, under the part of the package that it comes from; parts with one name come first.

    >>> print(listing("natsel", {"Budget": "natsel.learning", "GainBelow": "natsel.learning"}))
    natsel.learning
        Budget              Stop when so many labels are there, those from before the run included
        GainBelow           Stop when the picks of the last batch were expected to tell less than `nats` each
    """
    depth = package.count(".") + 2
    parts = {name: ".".join(room.split(".")[:depth]) for name, room in home.items()}
    several = [part for part in parts.values() if list(parts.values()).count(part) > 1]
    headings = {name: part if part in several else package for name, part in parts.items()}
    order = sorted(home, key=lambda name: (headings[name] != package, headings[name], name.casefold()))
    found = []
    for heading, names in groupby(order, headings.__getitem__):
        lines = [f"    {name:<19} {_first_sentence(package, name, home[name])}" for name in names]
        found.append("\n".join([heading, *lines]))
    return "\n\n".join(found)


def _first_sentence(package: str, name: str, room: str) -> str:
    import inspect  # only here, as help alone needs it

    value = getattr(sys.modules[package], name)
    described = isinstance(value, type | FunctionType | ModuleType)
    text = inspect.getdoc(value) if described else _string_below(name, room)
    return " ".join((text or "").split("\n\n")[0].split()).split(". ")[0].rstrip(".")


def _string_below(name: str, room: str) -> str | None:
    """The string under the assignment of a constant, which says what it is as a docstring says it of a function."""
    source = ast.parse(Path(str(import_module(room).__file__)).read_text(encoding="utf-8"))
    for line, below in pairwise(source.body):
        if isinstance(line, ast.Assign) and [ast.unparse(target) for target in line.targets] == [name]:
            return str(ast.literal_eval(below.value)) if isinstance(below, ast.Expr) else None
    return None
