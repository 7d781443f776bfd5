"""What new labels do to the draws of a fitted model: its test metrics before and after parts of them are re-weighted.

    a random part of the draws, weights w;   after the labels y_1..n:   w_k' ∝ w_k Π_i p(y_i | x_i, ω_k)

Each part of the draws is evaluated before and after, so that the two differ by the labels alone. One pass over the test
set serves all weights, and nothing is held that grows with the test set.
docs/theory/joint-predictions.md, 8; Kirsch, Kossen & Gal 2022.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from natsel.beliefs.draws import NoSurvivingDraw, effective_draws, surprise
from natsel.data.examples import Examples
from natsel.data.labels import as_numpy
from natsel.evaluation.joint import seen_likelihoods
from natsel.evaluation.online import nested_log_weights, online_predictive
from natsel.memory import memory_budget
from natsel.seeds import derive

Metrics = Mapping[str, float]


@dataclass(frozen=True)
class LookAhead:
    """Test metrics of a fitted model: with all its draws, and with each part of them before and after new labels."""

    whole: Metrics
    before: tuple[Metrics, ...]
    online: tuple[Metrics, ...]
    effective_draws: tuple[float, ...]
    surprise: tuple[float, ...]
    draws: int
    """How many draws each part has."""


def look_ahead(
    model: Any, new: Examples, test: Examples, *, sub_trials: int, share: float = 0.5, seed: int = 0
) -> LookAhead:
    """Test metrics of a fitted classifier as it is, and with `sub_trials` random parts of its draws before and after
    they are re-weighted by new labels. `share` is how much of the draws a part has: above 0, at most 1.

    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from natsel.models import as_model
    >>> data = Examples(np.arange(40.0)[:, None] % 20, np.arange(40) % 2)
    >>> forest = as_model(RandomForestClassifier(20, min_samples_leaf=5)).fit(data[:20])
    >>> found = look_ahead(forest, data[20:25], data, sub_trials=2)
    >>> len(found.before), len(found.online), found.draws
    (2, 2, 10)
    """
    belief = model.believe(new.inputs)
    labels_n = torch.as_tensor(as_numpy(new.labels), device=belief.device).long()
    seen_n_K = seen_likelihoods(belief.log_probs_N_K_C, labels_n, slice(None))
    subsets = [_random_draws(len(belief.log_weights_K), share, derive(seed, sub)) for sub in range(sub_trials)]
    on_device = [subset.to(belief.device) for subset in subsets]
    weights_S_n_K = nested_log_weights(seen_n_K, belief.log_weights_K, on_device)
    before_S_K, after_S_K = weights_S_n_K[:, 0], weights_S_n_K[:, -1]
    if not bool((after_S_K > -math.inf).any(1).all()):
        raise NoSurvivingDraw(
            f"new: no draw gives these {len(new)} labels any probability; smooth the model's predictions, or use more"
            " draws"
        )
    sets_S_K = torch.cat([belief.log_weights_K.to(after_S_K)[None], before_S_K, after_S_K])
    whole, *parts = metrics_under(sets_S_K, model, test)
    return LookAhead(
        whole,
        before=tuple(parts[:sub_trials]),
        online=tuple(parts[sub_trials:]),
        effective_draws=tuple(effective_draws(one_K) for one_K in after_S_K),
        surprise=tuple(surprise(*pair) for pair in zip(after_S_K, before_S_K, strict=True)),
        draws=len(subsets[0]),
    )


def metrics_under(log_weights_S_K: Tensor, model: Any, test: Examples) -> list[Metrics]:
    """Test accuracy and loss under each of S weightings of a model's draws, in one pass over chunks of the test set."""
    losses_S, hits_S = ([0.0] * len(log_weights_S_K) for _ in range(2))
    for chunk in _chunks(model, test):
        belief = model.believe(chunk.inputs)
        labels_n = torch.as_tensor(as_numpy(chunk.labels)).to(belief.device)
        weights_S_K = log_weights_S_K.to(belief.device)
        for one, log_pred_n_C in enumerate(online_predictive(weights_S_K, [belief.log_probs_N_K_C])):
            losses_S[one] -= float(log_pred_n_C.gather(1, labels_n[:, None].long()).sum())
            hits_S[one] += int((log_pred_n_C.argmax(1) == labels_n).sum())
    count = len(test)
    return [{"accuracy": hit / count, "nll": loss / count} for hit, loss in zip(hits_S, losses_S, strict=True)]


def _random_draws(draws: int, share: float, seed: int) -> Tensor:
    """Positions of a random part of the draws, without replacement."""
    order = torch.randperm(draws, generator=torch.Generator().manual_seed(seed))
    return order[: max(1, round(share * draws))]


def _chunks(model: Any, test: Examples) -> Iterator[Examples]:
    """Chunks of the test set whose draws take at most about the memory budget."""
    width = 16 * model.believe(test.inputs[:1]).log_probs_N_K_C[0].numel()
    rows = max(1, memory_budget() // width)
    for begin in range(0, len(test), rows):
        yield test[begin : begin + rows]
