"""Readings: how an objective is read from one kind of belief. An instance, made for one selection, is a state.

Every module here enters its readings into the table when it is imported.
"""

from importlib import import_module
from pkgutil import walk_packages

for _module in walk_packages(__path__, f"{__name__}."):
    import_module(_module.name)
