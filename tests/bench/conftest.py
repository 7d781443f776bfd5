"""Measurements collect garbage before every run; with all that other tests hold, that takes longer than the run."""

import gc

import pytest


@pytest.fixture
def frozen():
    """Garbage collection passes over what is there already."""
    gc.freeze()
