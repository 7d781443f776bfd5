"""The promise about numbers (docs/numbers.md), where this machine rounds as another one might."""

import os
from pathlib import Path

import pytest
import torch

import fresh_python
import natsel
from drawn_orders import drawn
from natsel.beliefs import CategoricalSamples
from natsel.search.topk import level
from other_processor import OtherProcessor

ROOT = Path(__file__).parents[1]
BUDGETS = (1 << 30, 20_000, 1 << 13)


def made(points, generator):
    return 2 * torch.randn(points, 8, 3, generator=generator, dtype=torch.float64)


def test_products_of_other_shapes_differ_in_their_last_bits_and_of_the_same_shapes_do_not():
    generator = torch.Generator().manual_seed(0)
    left, right = torch.randn(9, 50, generator=generator), torch.randn(50, 7, generator=generator)
    with OtherProcessor():
        rows = torch.cat([row[None] @ right for row in left])
        assert torch.equal(left @ right, left @ right)
        assert not torch.equal(left @ right, rows)
        assert torch.equal(torch.ones(3, 50) @ torch.ones(50, 2), torch.full((3, 2), 50.0))  # without rounding
    torch.testing.assert_close(left @ right, rows)


@pytest.mark.parametrize("method", ["bald", "epig", "batchbald", "jepig"])
def test_picks_are_the_same_for_any_chunks_and_copies_go_in_the_order_of_the_seed(method):
    generator = torch.Generator().manual_seed(0)
    half, about = made(60, generator), CategoricalSamples.from_logits(made(30, generator))
    belief = CategoricalSamples.from_logits(torch.cat([half, half]))
    targets = {"targets": about} if "e" in method[:2] else {}
    picked = set()
    with OtherProcessor():
        for budget in BUDGETS:
            with natsel.memory_budget(budget):
                picked.add(tuple(natsel.select(method, belief, k=5, **targets).ids.tolist()))
    (ids,) = picked
    for place, id in enumerate(ids):
        first, _ = drawn([id % 60, id % 60 + 60])
        assert id == first or first in ids[:place]


def test_only_scores_that_differ_by_rounding_are_levelled():
    scores_N = torch.tensor([0.3, 0.7 - 2e-16, 0.7, 0.5, 0.5 + 1e-9, -torch.inf], dtype=torch.float64)
    levelled_N = level(scores_N, 4)
    assert levelled_N[1] == levelled_N[2] == scores_N[2]
    assert torch.equal(levelled_N[[0, 3, 4, 5]], scores_N[[0, 3, 4, 5]])
    small_N = torch.tensor([1e-12, 3e-12, 2e-12], dtype=torch.float64)  # small scores are as far apart as large ones
    assert torch.equal(level(small_N, 3), small_N)
    assert level(torch.tensor([torch.inf, torch.inf, 1.0]), 2).tolist() == [torch.inf, torch.inf, 1.0]


def test_a_part_of_the_suite_holds_there():
    files = ["models/test_text.py", "search/test_topk.py"]  # where bits of other shapes were asked for, and ties
    paths = [str(ROOT / "tests" / file) for file in files]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT / "src")])}
    plugins = ["-p", "other_processor", "-p", "no:cacheprovider", "-p", "no:logging", "-p", "no:xdist"]
    done = fresh_python.run(["-m", "pytest", "-q", *plugins, *paths], cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
