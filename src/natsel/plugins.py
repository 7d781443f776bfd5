"""Plug-ins: beliefs, objectives, searches, kinds of model and named methods that live in other packages.

A plug-in is a module that enters what it brings when it is imported. It is found in two ways: an installed package
names it under the entry-point group `natsel.plugins`, or a user names it (`--plugin my_module`, `plugins =
["my_module"]` in a recipe). docs/plug-ins.md.
"""

import importlib
import importlib.metadata
import os
import sys
import warnings
from pathlib import Path

GROUP = "natsel.plugins"
NAMED = "NATSEL_PLUGINS"
"""The variable that passes modules named by a user on to processes that a command starts, with commas between."""

_done: set[str] = set()


def load_installed(group: str = GROUP) -> None:
    """Import what installed packages name as plug-ins, once; one that fails is named in a warning and left out. Modules
    that the command before this process named are imported too.

    >>> load_installed()
    """
    if group in _done:
        return
    _done.add(group)
    for entry in importlib.metadata.entry_points(group=group):
        try:
            entry.load()
        except Exception as reason:
            said = f"the plug-in {entry.value} could not be loaded ({reason}); repair it or uninstall it"
            warnings.warn(said, stacklevel=2)
    load(*filter(None, os.environ.get(NAMED, "").split(",")))


def load(*modules: str) -> None:
    """Import plug-ins by name, also from the folder one is in; a ValueError that names the one that fails.

    >>> load("json")
    """
    for module in modules:
        if module in _done:
            continue
        if str(Path.cwd()) not in sys.path:
            sys.path.append(str(Path.cwd()))
        try:
            importlib.import_module(module)
        except Exception as reason:
            there = not isinstance(reason, ModuleNotFoundError) or reason.name != module.partition(".")[0]
            remedy = "repair it" if there else "install it, or go to its folder"
            raise ValueError(f"plugin: {module} could not be imported ({reason}); {remedy}") from reason
        _done.add(module)


def load_for_this_command(*modules: str) -> None:
    """Import plug-ins, and let processes that this one starts import them too."""
    load(*modules)
    known = [name for name in os.environ.get(NAMED, "").split(",") if name]
    os.environ[NAMED] = ",".join(dict.fromkeys([*known, *modules]))
