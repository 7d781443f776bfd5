"""What new labels do to the draws of a fitted model: its test metrics before and after parts of them are re-weighted.

    a random part of the draws, weights w;   after the labels y_1..n:   w_k' ∝ w_k Π_i p(y_i | x_i, ω_k)

Each part is looked at before and after, so that what is compared differs by the labels alone. The test set is gone
through once for all weights; nothing is held that grows with it.  Spec 05, 7 and A2.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from natsel.beliefs import Belief, CategoricalSamples, GaussianSamples
from natsel.beliefs.draws import NoSurvivingDraw, effective_draws, surprise
from natsel.data.examples import Examples
from natsel.data.labels import as_numpy
from natsel.evaluation.joint import gaussian_log_likelihood, seen_likelihoods
from natsel.evaluation.online import nested_log_weights, online_predictive
from natsel.learning.checks import as_count
from natsel.memory import memory_budget
from natsel.models.protocol import Model
from natsel.seeds import derive

Metrics = Mapping[str, float]


@dataclass(frozen=True)
class Look:
    """A fitted model's test metrics: as it is, and under each part of its draws before and after new labels."""

    whole: Metrics
    before: tuple[Metrics, ...] = ()
    online: tuple[Metrics, ...] = ()
    effective_draws: tuple[float, ...] = ()
    surprise: tuple[float, ...] = ()
    draws: int = 0
    """How many draws each part has."""


def look_ahead(
    model: Model, new: Examples | None, test: Examples, *, sub_trials: int = 5, share: float = 0.5, seed: int = 0
) -> Look:
    """Test metrics of a fitted model as it is and, given new labels, with a random `share` of its draws before and
    after they are re-weighted by them, `sub_trials` times.

    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from natsel.models import as_model
    >>> data = Examples(np.arange(40.0)[:, None] % 20, np.arange(40) % 2)
    >>> forest = as_model(RandomForestClassifier(20, min_samples_leaf=5)).fit(data[:20])
    >>> look = look_ahead(forest, data[20:25], data, sub_trials=2)
    >>> len(look.before), len(look.online), look.draws
    (2, 2, 10)
    """
    check_parts(sub_trials, share)
    seen = test[:1] if new is None else new
    belief = _with_draws(model.believe(seen.inputs))
    if new is None:
        return Look(metrics_under(belief.log_weights_K[None], model, test)[0])
    subsets = [_subset(belief, share, derive(seed, sub)) for sub in range(sub_trials)]
    weights_S_n_K = nested_log_weights(likelihoods(belief, new.labels), belief.log_weights_K, subsets)
    before_S_K, after_S_K = weights_S_n_K[:, 0], weights_S_n_K[:, -1]
    if not bool((after_S_K > -math.inf).any(1).all()):
        raise NoSurvivingDraw(
            f"new: no draw gives these {len(new)} labels any probability; smooth the model's predictions, or use more"
            " draws"
        )
    sets_S_K = torch.cat([belief.log_weights_K.to(after_S_K)[None], before_S_K, after_S_K])
    whole, *parts = metrics_under(sets_S_K, model, test)
    return Look(
        whole,
        before=tuple(parts[:sub_trials]),
        online=tuple(parts[sub_trials:]),
        effective_draws=tuple(effective_draws(one_K) for one_K in after_S_K),
        surprise=tuple(surprise(*pair) for pair in zip(after_S_K, before_S_K, strict=True)),
        draws=len(subsets[0]),
    )


def check_parts(sub_trials: int, share: float) -> None:
    """Refuse parts of the draws that cannot be had.

    >>> check_parts(sub_trials=5, share=0.5)
    """
    as_count(sub_trials, "sub_trials")
    if not 0 < share <= 1:
        raise ValueError(f"share: expected a part of the draws above 0 and up to 1, found {share!r}; 0.5 is half")


def metrics_under(log_weights_S_K: Tensor, model: Model, test: Examples) -> list[Metrics]:
    """Test metrics under each of S weightings of a model's draws, in one pass over parts of the test set.

    What the draws say about a part is held, and nothing that grows with the test set.  Spec 05, A2.
    """
    losses_S, hits_S, squares_S = ([0.0] * len(log_weights_S_K) for _ in range(3))
    numbers = False
    for part in _parts(model, test):
        belief, labels_n = _with_draws(model.believe(part.inputs)), torch.as_tensor(as_numpy(part.labels))
        weights_S_K, labels_n = log_weights_S_K.to(belief.device), labels_n.to(belief.device)
        numbers = isinstance(belief, GaussianSamples)
        if isinstance(belief, CategoricalSamples):
            for one, log_pred_n_C in enumerate(online_predictive(weights_S_K, [belief.log_probs_N_K_C])):
                losses_S[one] -= float(log_pred_n_C.gather(1, labels_n[:, None].long()).sum())
                hits_S[one] += int((log_pred_n_C.argmax(1) == labels_n).sum())
        elif isinstance(belief, GaussianSamples):
            seen_n_K = likelihoods(belief, labels_n)
            for one, log_weights_K in enumerate(weights_S_K):
                losses_S[one] -= float((seen_n_K + log_weights_K).logsumexp(1).sum())
                squares_S[one] += float((belief.mean_N_K.double() @ log_weights_K.exp() - labels_n).square().sum())
    count = len(test)
    if numbers:
        pairs = zip(squares_S, losses_S, strict=True)
        return [{"rmse": math.sqrt(square / count), "nll": loss / count} for square, loss in pairs]
    return [{"accuracy": hit / count, "nll": loss / count} for hit, loss in zip(hits_S, losses_S, strict=True)]


def likelihoods(belief: CategoricalSamples | GaussianSamples, labels: Any) -> Tensor:
    """ln p(y_n | x_n, ω_k) as N_K of labels, one for each point of a belief.

    >>> likelihoods(CategoricalSamples.from_probs([[[0.5, 0.5], [1.0, 0.0]]]), [0]).exp().tolist()
    [[0.5, 1.0]]
    """
    if isinstance(belief, GaussianSamples):
        return gaussian_log_likelihood(belief.mean_N_K, belief.variance_N_K, as_numpy(labels))
    labels_N = torch.as_tensor(as_numpy(labels), device=belief.device).long()
    return seen_likelihoods(belief.log_probs_N_K_C, labels_N, slice(None))


def _with_draws(belief: Belief) -> CategoricalSamples | GaussianSamples:
    if not isinstance(belief, CategoricalSamples | GaussianSamples):
        raise ValueError(
            f"model: its belief is {type(belief).__name__}, without draws to re-weight; its condition(…) is exact"
        )
    return belief


def _subset(belief: CategoricalSamples | GaussianSamples, share: float, seed: int) -> Tensor:
    """A random part of the draws, without replacement."""
    draws = len(belief.log_weights_K)
    order = torch.randperm(draws, generator=torch.Generator().manual_seed(seed))
    return order[: max(1, round(share * draws))].to(belief.device)


def _parts(model: Model, test: Examples) -> Iterator[Examples]:
    """Parts of the test set whose draws take at most about the memory budget."""
    one = model.believe(test.inputs[:1])
    width = 16 * max(getattr(one, name)[0].numel() for name in one.points)
    rows = max(1, memory_budget() // width)
    for begin in range(0, len(test), rows):
        yield test[begin : begin + rows]
