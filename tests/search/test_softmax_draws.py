"""Softmax draws with replacement: their chances, what is left out, and the loader that takes them."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import natsel
from natsel import SoftmaxDraws


def drawn(scores, k, seed=0, allowed=None, beta=4.0):
    scores_N = torch.tensor(scores, dtype=torch.float64)
    allowed_N = torch.ones(len(scores_N), dtype=torch.bool) if allowed is None else torch.tensor(allowed)
    state = SimpleNamespace(scores=lambda: scores_N)
    return SoftmaxDraws(beta)(state, k, allowed_N, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("beta", [0.0, 4.0])
def test_points_come_as_often_as_their_chance_says(beta):
    scores, allowed = [0.1, 0.5, -torch.inf, 0.3, 9.0], [True, True, True, True, False]
    probs_N = np.exp(beta * np.array([0.1, 0.5, -np.inf, 0.3, -np.inf])) if beta else np.array([1, 1, 0, 1, 0.0])
    probs_N /= probs_N.sum()
    picks = [drawn(scores, 4, seed, allowed, beta) for seed in range(1000)]
    shares_N = np.bincount(np.concatenate([one.positions for one in picks]), minlength=5) / 4000
    assert (abs(shares_N - probs_N) <= 4.5 * np.sqrt(probs_N * (1 - probs_N) / 4000)).all()
    assert picks[0].log_prob == pytest.approx(np.log(probs_N[picks[0].positions]).sum())
    assert picks[0].weights is None


def test_adding_a_number_to_all_scores_changes_nothing_and_large_ones_are_fine():
    near, far = (drawn([a, a + 1, a + 0.5], 3, seed=1).positions.tolist() for a in (0.0, 1e6))
    assert near == far
    assert drawn([0.0, 1e306], 2, beta=1e6).positions.tolist() == [1, 1]


def test_refused():
    with pytest.raises(ValueError, match=r"scores: \+infinity at position 1"):
        drawn([0.0, torch.inf], 1)
    with pytest.raises(ValueError, match="scores: all are −infinity"):
        drawn([-torch.inf] * 2, 1)
    with pytest.raises(ValueError, match="beta: with inf every draw is the best point; use TopK"):
        SoftmaxDraws(float("inf"))


def test_a_loader_trains_on_draws():
    inputs, labels = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32), np.arange(200) % 2
    given = {"irreducible_loss": np.where(np.arange(200) < 100, 0.0, 50.0), "batch": 20, "keep": 0.2}
    loader = natsel.SelectiveLoader((inputs, labels), nn.Linear(3, 2), method="softmax-rho-loss", **given)
    ids = np.concatenate([batch.ids for batch in loader])
    assert len(set(ids)) < len(ids) == 40, "with replacement"
    assert (ids < 100).all()
