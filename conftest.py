"""Doctests run in the module that everybody else imports, not in a second copy of it; examples are few by default."""

import gc
import importlib
from pathlib import Path

import numpy as np
import torch
from hypothesis import settings

settings.register_profile("few", max_examples=20)  # where a test does not say how many itself
settings.register_profile("many", max_examples=300)
settings.load_profile("few")

SOURCE = Path(__file__).parent / "src"


def pytest_collect_file(file_path: Path) -> None:
    """Import a module of natsel by its name before pytest reads it by its path, which would make a copy."""
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


def pytest_collection_finish() -> None:
    """Garbage collection passes over what stays to the end: ten thousand tests, and all that they import."""
    gc.collect()
    gc.freeze()
