"""Clocks: draws by weight that stay exact while weights change, from one number a position."""

import math
from collections import Counter
from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from natsel.search.clocks import Clocks

CPU = torch.device("cpu")


def clocks(seed, count=4):
    return Clocks(count, torch.Generator().manual_seed(seed), CPU)


def agree(found, expected, draws):
    """Frequencies within four standard errors of their chances, and nothing drawn that has none."""
    assert set(found) <= {key for key, chance in expected.items() if chance > 0}
    for key, chance in expected.items():
        error = math.sqrt(chance * (1 - chance) / draws)
        assert abs(found[key] / draws - chance) <= 4 * error + 1e-12, (key, found[key] / draws, chance)


def test_draws_keep_to_weights_that_change_with_what_was_drawn():
    """Two rings; the weights of the second depend on the first."""
    first = torch.tensor([0.1, 0.2, 0.0, 0.7]).double()
    second = torch.tensor([[0.0, 5.0, 1.0, 4.0], [1.0, 0.0, 0.0, 3.0], [1.0] * 4, [2.0, 2.0, 6.0, 0.0]]).double()
    draws = 5000
    found = Counter()
    for seed in range(draws):
        these = clocks(seed)
        one = these.ring(first)
        two = these.ring(second[one])
        found[one, two] += 1
        assert these.log_prob == pytest.approx(math.log(first[one] * second[one, two] / second[one].sum()))
    expected = {(i, j): float(first[i] * second[i, j] / second[i].sum()) for i in range(4) for j in range(4)}
    agree(found, expected, draws)


def test_a_fill_is_uniform_whatever_rang_before():
    """Also after a ring with very uneven weights, which most clocks have survived."""
    draws = 5000
    found = Counter()
    for seed in range(draws):
        these = clocks(seed)
        one = these.ring(torch.tensor([100.0, 1.0, 5.0, 20.0]).double())
        before = these.log_prob
        open_N = torch.ones(4, dtype=torch.bool)
        open_N[one] = False
        rest = these.fill(open_N, 2)
        assert these.log_prob - before == pytest.approx(-math.log(6))
        found[one, *rest] += 1
    shares = torch.tensor([100.0, 1.0, 5.0, 20.0]) / 126
    agree(found, {order: float(shares[order[0]]) / 6 for order in permutations(range(4), 3)}, draws)


def test_after_a_fill_clocks_go_on():
    draws = 4000
    found = Counter()
    for seed in range(draws):
        these = clocks(seed, 3)
        (one,) = these.fill(torch.tensor([True, True, True]), 1)
        weights = torch.tensor([1.0, 2.0, 3.0]).double()
        weights[one] = 0
        found[one, these.ring(weights)] += 1
    expected = {(i, j): (j + 1) / (6 - i - 1) / 3 for i in range(3) for j in range(3) if i != j}
    agree(found, expected, draws)


@given(st.integers(0, 2**40), st.lists(st.booleans(), min_size=5, max_size=5))
def test_points_without_weight_have_no_say(seed, out):
    """Noise belongs to the position: taking weight from positions that do not ring moves nothing."""
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]).double()
    one, two = clocks(seed, 5), clocks(seed, 5)
    rang = one.ring(weights)
    keep = ~torch.tensor(out)
    keep[rang] = True
    assert two.ring(weights * keep) == rang


def test_no_weight_and_huge_weights():
    assert clocks(0).ring(torch.zeros(4).double()) is None
    assert clocks(0).ring(torch.tensor([0.0, 1e300, 0.0, 0.0], dtype=torch.float64)) == 1
    assert clocks(0).ring(torch.tensor([0.0, 1e-300, 0.0, 0.0], dtype=torch.float64)) == 1
    largest = torch.finfo(torch.float64).max
    assert {clocks(seed).ring(torch.tensor([largest] * 4, dtype=torch.float64)) for seed in range(40)} == {0, 1, 2, 3}
    assert clocks(0).fill(torch.ones(4, dtype=torch.bool), 0) == []
    assert sorted(clocks(0).fill(torch.ones(4, dtype=torch.bool), 4)) == [0, 1, 2, 3]


def test_clocks_of_some_positions():
    whole = clocks(5)
    some = whole.at(torch.tensor([3, 1]))
    assert torch.equal(some.left_N, whole.left_N[[3, 1]])
    some.ring(torch.tensor([1.0, 1.0]).double())
    assert torch.equal(whole.left_N, clocks(5).left_N)
