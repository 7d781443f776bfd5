"""Every conformance test that takes `device` runs on the CPU and, where there is one, on an accelerator."""

import pytest
import torch

DEVICES = ["cpu", *([pytest.param("cuda", marks=pytest.mark.gpu)] if torch.cuda.is_available() else [])]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["quick", "thorough"])
def thorough(request: pytest.FixtureRequest) -> bool:
    """Whether brute force runs over many random pools, or over one of each kind."""
    return bool(request.param)
