"""Top-k: the best scores, ties to the lower position, on any pattern of ties."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from natsel.capabilities import Capability
from natsel.search import TopK
from natsel.search.topk import stable_top_k


@dataclass(frozen=True)
class State:
    """A state that only knows its scores."""

    scores_N: Tensor
    offers: ClassVar = Capability.SCORES

    def scores(self) -> Tensor:
        return self.scores_N


def pick(scores, k, allowed=None):
    scores_N = torch.as_tensor(scores)
    allowed_N = torch.ones(len(scores_N), dtype=torch.bool) if allowed is None else torch.tensor(allowed)
    return TopK()(State(scores_N), k, allowed_N, torch.Generator())


few_values = st.sampled_from([-1.5, -0.0, 0.0, 0.25, 3.0, torch.inf, -torch.inf])


@settings(deadline=None)
@given(st.lists(st.tuples(few_values, few_values), min_size=1, max_size=30), st.data())
def test_stable_top_k_equals_python_sort(rows, data):
    k = data.draw(st.integers(0, len(rows)))
    first, second = (torch.tensor(column, dtype=torch.float64) for column in zip(*rows, strict=True))
    by_both = sorted(range(len(rows)), key=lambda i: (-rows[i][0], -rows[i][1], i))
    by_first = sorted(range(len(rows)), key=lambda i: (-rows[i][0], i))
    assert stable_top_k(k, first, second).tolist() == by_both[:k]
    assert stable_top_k(k, first).tolist() == by_first[:k]


@settings(deadline=None)
@given(st.lists(st.tuples(few_values, st.booleans()), min_size=1, max_size=30), st.data())
def test_picks_are_the_best_allowed(rows, data):
    scores, allowed = map(list, zip(*rows, strict=True))
    candidates = [i for i in range(len(rows)) if allowed[i]]
    k = data.draw(st.integers(0, len(candidates)))
    picks = pick(torch.tensor(scores, dtype=torch.float64), k, allowed)
    assert picks.positions.tolist() == sorted(candidates, key=lambda i: (-scores[i], i))[:k]
    assert picks.scores.tolist() == [scores[i] for i in picks.positions.tolist()]


def test_ties_go_to_the_lower_position_in_a_large_pool():
    # torch.topk returns other positions here.
    scores = torch.zeros(100_000, dtype=torch.float64)
    scores[77_777] = 1.0
    assert pick(scores, 4).positions.tolist() == [77_777, 0, 1, 2]


def test_ties_above_the_threshold_keep_their_order_in_a_large_pool():
    # An unstable sort shuffles equal values once there are many of them.
    scores = torch.randint(0, 3, (100_000,), generator=torch.Generator().manual_seed(0)).double()
    values = scores.tolist()
    expected = sorted(range(len(values)), key=lambda i: -values[i])
    assert pick(scores, 80_000).positions.tolist() == expected[:80_000]


def test_result_is_what_the_contract_says():
    scores = torch.tensor([0.5, 0.25, 2.0], dtype=torch.float32)
    picks = pick(scores, 2)
    assert picks.positions.dtype == torch.int64
    assert picks.scores.dtype == torch.float64
    assert picks.total == 2.5
    assert (picks.perturbed, picks.log_prob, picks.notes) == (None, None, ())
    assert scores.tolist() == [0.5, 0.25, 2.0]
    assert TopK.needs is Capability.SCORES


def test_empty_batch_and_empty_pool():
    assert pick([0.1, 0.2], 0).positions.tolist() == []
    assert pick(torch.empty(0), 0).total == 0.0


def test_nan_is_named_by_its_position_in_the_pool():
    scores = [0.1, torch.nan, 0.3, torch.nan]
    with pytest.raises(ValueError, match=r"scores: NaN at position 1 \(2 in all\)"):
        pick(scores, 1)
    with pytest.raises(ValueError, match="NaN at position 3"):
        pick(scores, 1, [True, False, True, True])
    assert pick(scores, 2, [True, False, True, False]).positions.tolist() == [2, 0]


def test_too_many_or_too_few_are_refused():
    with pytest.raises(ValueError, match="k: asked for 3 of 2 candidates"):
        pick([0.1, 0.2, 0.3], 3, [True, True, False])
    with pytest.raises(ValueError, match="k: asked for -1"):
        pick([0.1, 0.2, 0.3], -1)


@pytest.mark.parametrize("shape", [(3,), (2, 2)])
def test_mask_must_fit_the_scores(shape):
    with pytest.raises(ValueError, match="allowed_N: needs one entry per score"):
        TopK()(State(torch.rand(shape)), 1, torch.ones(2, dtype=torch.bool), torch.Generator())
