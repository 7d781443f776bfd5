"""Does re-weighting draws do what retraining would? Both are given the same new labels and judged on the same test set.

    q  fitted to z_1..t         online     q re-weighted by z_t+1..t+n            (only labels that q was not fitted to)
    q' fitted to z_1..t+n       Δ(n)       = H[Y|X, z_t+1..t+n] of q − H[Y|X] of q'          0 for exact inference

Δ > 0: re-weighting is worse. What either gains over doing nothing is reported beside it, since a comparison with
another fit also compares the luck of training. Labels that q was fitted to would count twice; `include_train` puts them
in all the same, to study a variant that is in circulation.  Spec 05, 7 and A3.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from natsel.beliefs import Belief, CategoricalSamples, GaussianSamples
from natsel.beliefs.draws import NoSurvivingDraw, effective_draws, surprise
from natsel.data.examples import Examples
from natsel.data.labels import as_numpy
from natsel.evaluation.joint import gaussian_log_likelihood, seen_likelihoods
from natsel.evaluation.online import nested_log_weights, online_predictive
from natsel.learning.checks import as_count
from natsel.learning.fitting import _takes_validation
from natsel.memory import memory_budget
from natsel.models.convert import as_model
from natsel.models.protocol import Model, Progress
from natsel.seeds import derive

Metrics = Mapping[str, float]


@dataclass(frozen=True)
class Adaptation:
    """One fit to `size` labels: its test metrics as it is, re-weighted by each part of its draws, and retrained."""

    size: int
    trial: int
    before: Metrics
    online: tuple[Metrics, ...]
    retrained: Metrics
    effective_draws: tuple[float, ...]
    surprise: tuple[float, ...]
    draws: int
    """How many draws each part has."""


@dataclass(frozen=True)
class Comparison:
    """Re-weighting against retraining, over sizes and trials."""

    ahead: int
    rows: tuple[Adaptation, ...]

    def change(self, metric: str, what: str) -> tuple[float, float]:
        """The mean over all rows, and its standard error over trials, of the change that `online` or `retrained` makes
        to a metric, or of their `gap`, online − retrained, which is Δ(n).
        """
        if what not in ("online", "retrained", "gap"):
            raise ValueError(f"what: expected online, retrained or gap, found {what!r}; choose one of them")
        by_trial: dict[int, list[float]] = {}
        for row in self.rows:
            online = float(np.mean([metrics[metric] for metrics in row.online]))
            before, retrained = row.before[metric], row.retrained[metric]
            found = {"online": online - before, "retrained": retrained - before, "gap": online - retrained}[what]
            by_trial.setdefault(row.trial, []).append(found)
        means = [float(np.mean(values)) for values in by_trial.values()]
        error = float(np.std(means, ddof=1)) / math.sqrt(len(means)) if len(means) > 1 else math.nan
        return float(np.mean([value for values in by_trial.values() for value in values])), error

    def summary(self) -> dict[str, float]:
        """All changes as plain numbers, with the mean share of draws that are left and the mean surprise in nats."""
        metrics = self.rows[0].before
        named = {f"{what}_{metric}": (metric, what) for metric in metrics for what in ("online", "retrained", "gap")}
        left = [worth / row.draws for row in self.rows for worth in row.effective_draws]
        return {
            **{name: self.change(*pair)[0] for name, pair in named.items()},
            **{f"{name}_error": self.change(*pair)[1] for name, pair in named.items()},
            "effective_share": float(np.mean(left)),
            "surprise": float(np.mean([nats for row in self.rows for nats in row.surprise])),
        }


def obi_versus_retraining(
    model: Any,
    sequence: Examples,
    test: Examples,
    *,
    start: int = 20,
    ahead: int = 5,
    step: int = 1,
    trials: int = 5,
    sub_trials: int = 5,
    share: float = 0.5,
    validation: Examples | None = None,
    ids: Any = None,
    include_train: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Fit at every `step`-th size of a labelled sequence from `start` on, and look `ahead` labels further.

    `model` is a model or a function that makes one. Each of `sub_trials` re-weights a random `share` of the draws. A
    fit to z_1..t+n serves both as what retraining gives and as the start of its own look ahead. `ids` name the points
    of the sequence, and a new label of a point that was trained on is then refused.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> rng = np.random.default_rng(0)
    >>> inputs = rng.normal(size=(60, 2))
    >>> examples = Examples(inputs, (inputs[:, 0] > 0).astype(int))
    >>> forest = RandomForestClassifier(20, min_samples_leaf=5)
    >>> found = obi_versus_retraining(forest, examples[:20], examples[20:], start=10, step=5, trials=1, sub_trials=2)
    >>> [row.size for row in found.rows], sorted(found.rows[0].before)
    ([10, 15], ['accuracy', 'nll'])
    """
    start, ahead, step = (as_count(n, name) for n, name in ((start, "start"), (ahead, "ahead"), (step, "step")))
    trials, sub_trials = as_count(trials, "trials"), as_count(sub_trials, "sub_trials")
    if not 0 < share <= 1:
        raise ValueError(f"share: expected a part of the draws above 0 and up to 1, found {share!r}; 0.5 is half")
    starts = range(start, len(sequence) - ahead + 1, step)
    if not starts:
        found = f"{len(sequence)} points"
        raise ValueError(f"sequence: found {found}, fewer than start + ahead = {start + ahead}; lower one of them")
    if ids is not None and not include_train:
        _refuse_known(as_numpy(ids), starts, ahead)
    sizes = sorted({*starts, *(size + ahead for size in starts)})
    before: dict[tuple[int, int], Metrics] = {}
    looks: dict[tuple[int, int], tuple[Any, ...]] = {}
    for done, (trial, size) in enumerate((trial, size) for trial in range(trials) for size in sizes):
        ready = as_model(model() if callable(model) and not isinstance(model, Model) else model)
        fitted(ready, known_classes(sequence[:size], sequence, test), validation, derive(seed, "fit", trial, size))
        new = sequence[0 if include_train else size : size + ahead] if size in starts else sequence[:1]
        belief = _with_draws(ready.believe(new.inputs))
        sets_S_K = belief.log_weights_K[None]
        if size in starts:
            subsets = [_subset(belief, share, derive(seed, "part", trial, size, sub)) for sub in range(sub_trials)]
            after_T_n_K = nested_log_weights(likelihoods(belief, new.labels), belief.log_weights_K, subsets)
            after_S_K, first_S_K = after_T_n_K[:, -1], after_T_n_K[:, 0]
            if not bool((after_S_K > -math.inf).any(1).all()):
                raise NoSurvivingDraw(
                    f"sequence: at {size} labels no draw gives the next {ahead} any probability; smooth the model's"
                    " predictions, or use more draws"
                )
            sets_S_K = torch.cat([sets_S_K, after_S_K])
            worth = tuple(effective_draws(one_K) for one_K in after_S_K)
            nats = tuple(surprise(*pair) for pair in zip(after_S_K, first_S_K, strict=True))
            looks[trial, size] = (worth, nats, len(subsets[0]))
        first, *others = metrics_under(sets_S_K, ready, test)
        before[trial, size] = first
        if size in starts:
            looks[trial, size] = (tuple(others), *looks[trial, size])
        if progress is not None:
            progress(done + 1, trials * len(sizes))
    rows = [
        Adaptation(size, trial, before[trial, size], online, before[trial, size + ahead], worth, nats, draws)
        for (trial, size), (online, worth, nats, draws) in looks.items()
    ]
    return Comparison(ahead, tuple(rows))


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


def fitted(model: Model, labelled: Examples, validation: Examples | None, seed: int) -> Model:
    """A model fitted to examples, with validation and seed where its `fit` takes them."""
    fit: Callable[..., Any] = model.fit
    takes = inspect.signature(fit).parameters
    anything = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in takes.values())
    seeded = {"seed": seed} if anything or "seed" in takes else {}
    fit(*([labelled, validation] if _takes_validation(fit) else [labelled]), **seeded)
    return model


def _with_draws(belief: Belief) -> CategoricalSamples | GaussianSamples:
    if not isinstance(belief, CategoricalSamples | GaussianSamples):
        raise ValueError(
            f"model: its belief is {type(belief).__name__}, without draws to re-weight; its condition(…) is exact"
        )
    return belief


def known_classes(labelled: Examples, *others: Examples) -> Examples:
    """Examples that know of every class that anybody mentions."""
    if labelled.classes or as_numpy(labelled.labels).dtype.kind == "f":
        return labelled
    count = max(int(as_numpy(part.labels).max(initial=-1)) for part in (labelled, *others)) + 1
    return Examples(labelled.inputs, labelled.labels, tuple(map(str, range(count))))


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


def _refuse_known(ids: Any, starts: range, ahead: int) -> None:
    for size in starts:
        twice = np.intersect1d(ids[:size], ids[size : size + ahead])
        if len(twice):
            raise ValueError(
                f"ids: {twice[0]} is trained on at {size} labels and then comes as a new label, and would count twice;"
                " leave repeats out of the sequence, or pass include_train=True"
            )
