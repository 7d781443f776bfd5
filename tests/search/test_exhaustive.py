"""Exhaustive search: the best subset, and who wins a tie."""

import math
from dataclasses import dataclass, field
from itertools import permutations
from typing import ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from natsel.capabilities import Capability
from natsel.search import Exhaustive


@dataclass(frozen=True)
class Cover:
    """Worth of a set: how many elements its points cover; submodular, full of ties."""

    sets: tuple[frozenset[int], ...]
    offers: ClassVar = Capability.VALUE
    asked: list[tuple[int, ...]] = field(default_factory=list)

    def value(self, positions: Tensor) -> float:
        assert positions.dtype == torch.int64
        self.asked.append(tuple(positions.tolist()))
        return float(len(frozenset().union(*(self.sets[p] for p in positions.tolist()))))


@dataclass(frozen=True)
class Table:
    """Worth of a set looked up, 0 where not given."""

    values: dict[tuple[int, ...], float]
    offers: ClassVar = Capability.VALUE

    def value(self, positions: Tensor) -> float:
        return self.values.get(tuple(positions.tolist()), 0.0)


def everyone(count):
    return torch.ones(count, dtype=torch.bool)


sets = st.lists(st.frozensets(st.integers(0, 6), max_size=3), min_size=1, max_size=6)


@settings(deadline=None)
@given(sets, st.data())
def test_best_subset_of_the_allowed(cover, data):
    allowed = data.draw(st.lists(st.booleans(), min_size=len(cover), max_size=len(cover)))
    candidates = [i for i in range(len(cover)) if allowed[i]]
    k = data.draw(st.integers(0, len(candidates)))
    state = Cover(tuple(cover))
    picks = Exhaustive()(state, k, torch.tensor(allowed), torch.Generator())

    # All orders of all subsets, best value first, then lexicographic: the winner is ascending by itself.
    def worth(order):
        return len(frozenset().union(*(cover[p] for p in order)))

    best = min(permutations(candidates, k), key=lambda order: (-worth(order), order))
    assert picks.positions.tolist() == list(best)
    assert picks.total == worth(best)
    gains = [worth(best[: j + 1]) - worth(best[:j]) for j in range(k)]
    assert picks.scores.tolist() == gains
    assert len([asked for asked in state.asked if len(asked) == k]) == (math.comb(len(candidates), k) if k else 0)


def test_better_than_greedy():
    # Greedy takes the 4-element set first and then reaches 5 only.
    state = Cover((frozenset({0, 1, 3, 4}), frozenset({0, 1, 2}), frozenset({3, 4, 5})))
    picks = Exhaustive()(state, 2, everyone(3), torch.Generator())
    assert picks.positions.tolist() == [1, 2]
    assert picks.total == 6.0


@pytest.mark.parametrize(
    ("values", "winner"),
    [
        ({(0, 1): 1.0, (1, 2): 1.0 + 0.9e-10}, [0, 1]),
        ({(0, 1): 1.0, (1, 2): 1.0 + 1.2e-10}, [1, 2]),
        # A chain of near ties: the first is 1.8e-10 below the best, the second 0.9e-10.
        ({(0, 1): 1.0, (0, 2): 1.0 + 0.9e-10, (1, 2): 1.0 + 1.8e-10}, [0, 2]),
        ({(0, 1): -math.inf, (0, 2): -math.inf, (1, 2): -math.inf}, [0, 1]),
        ({(0, 2): math.inf, (1, 2): math.inf}, [0, 2]),
    ],
)
def test_ties_within_1e_10_go_to_the_lowest_subset(values, winner):
    picks = Exhaustive()(Table(values), 2, everyone(3), torch.Generator())
    assert picks.positions.tolist() == winner
    assert picks.total == values[tuple(winner)]  # the value of the winner, not of the best


def test_limit_is_kept_and_explained():
    state = Cover(tuple(frozenset({i}) for i in range(10)))
    assert len(Exhaustive(limit=45)(state, 2, everyone(10), torch.Generator()).positions) == 2
    with pytest.raises(ValueError, match=r"2 of 10 candidates make 45 subsets, more than limit=44; use Greedy"):
        Exhaustive(limit=44)(state, 2, everyone(10), torch.Generator())
    half = torch.arange(10) < 5
    assert Exhaustive(limit=10)(state, 2, half, torch.Generator()).positions.tolist() == [0, 1]


def test_refuses_before_any_work():
    state = Cover(tuple(frozenset({i}) for i in range(100)))
    with pytest.raises(ValueError, match="17,310,309,456,440 subsets"):
        Exhaustive()(state, 10, everyone(100), torch.Generator())
    assert state.asked == []


def test_bad_input():
    with pytest.raises(ValueError, match=r"^limit: expected a whole number of at least 1, found 0; "):
        Exhaustive(limit=0)
    with pytest.raises(ValueError, match=r"value: NaN for positions \[1, 2\]"):
        Exhaustive()(Table({(1, 2): math.nan}), 2, everyone(3), torch.Generator())
    with pytest.raises(ValueError, match="k: asked for 4 of 3 candidates"):
        Exhaustive()(Table({}), 4, everyone(3), torch.Generator())


def test_contract():
    assert Exhaustive.needs is Capability.VALUE
    generator = torch.Generator().manual_seed(3)
    before = generator.get_state()
    picks = Exhaustive()(Table({(0,): 2.0}), 1, everyone(3), generator)
    assert torch.equal(generator.get_state(), before)
    assert picks.positions.dtype == torch.int64
    assert picks.scores.dtype == torch.float64
    assert picks.log_prob is None
