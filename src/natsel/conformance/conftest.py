"""Every conformance test that takes `device` runs on the CPU and, where there is one, on an accelerator.

Those that take `thorough` run brute force over one pool of each kind and, marked slow, over many random ones.
"""

import pytest
import torch


def pytest_configure(config: pytest.Config) -> None:
    """Plug-ins run the suite from folders whose settings know nothing of its markers."""
    config.addinivalue_line("markers", "slow: repeats a state under another search, or brute force over many pools")
    config.addinivalue_line("markers", "gpu: needs an accelerator; skips itself where there is none")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The values of `device` and `thorough`; made here and not by fixtures, as the markers are known only by now."""
    if "device" in metafunc.fixturenames:
        cuda = [pytest.param("cuda", marks=pytest.mark.gpu)] if torch.cuda.is_available() else []
        metafunc.parametrize("device", ["cpu", *cuda])
    if "thorough" in metafunc.fixturenames:
        many = pytest.param(True, marks=pytest.mark.slow)
        metafunc.parametrize("thorough", [False, many], ids=["quick", "thorough"])
