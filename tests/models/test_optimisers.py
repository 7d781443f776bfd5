"""Optimisers: steps as torch's own optimisers take them, without what loading those costs."""

import subprocess
import sys

import pytest
import torch

from natsel.models.networks.optimisers import stepper

KINDS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_those_of_torch(kind, decay, dtype):
    ours, theirs = ([torch.full(shape, 0.5, dtype=dtype, requires_grad=True) for shape in [(3, 2), (4,)]] for _ in "ab")
    step = stepper(ours, kind, 0.05, decay)
    reference = KINDS[kind](theirs, lr=0.05, weight_decay=decay, **({"momentum": 0.9} if kind == "sgd" else {}))
    for number in range(5):
        for weights in (ours, theirs):
            loss = (weights[0] - number).square().sum()
            if number % 2:  # a parameter that a step does not use keeps its moments
                loss = loss + weights[1].exp().sum()
            loss.backward()
        step()
        reference.step()
        reference.zero_grad()
        assert all(weight.grad is None for weight in ours)
        for mine, expected in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine, expected, rtol=1e-5, atol=1e-6)


def test_training_and_believing_load_no_compiler():
    """It takes seconds to load, in every process of every run."""
    program = """
import sys, numpy as np
from natsel.data import Examples
from natsel.models.networks.ensemble import Ensemble
from natsel.models.networks.architectures import mlp
from natsel.models.networks.training import Training
model = Ensemble(mlp(2, 2), members=2, training=Training(max_epochs=1), device="cpu")
model.fit(Examples(np.eye(2), np.array([0, 1]))).believe(np.eye(2))
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
