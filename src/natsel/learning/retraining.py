"""Does re-weighting draws do what retraining would? Both are given the same new labels and judged on the same test set.

    q  fitted to z_1..t         online     q re-weighted by z_t+1..t+n            (only labels that q was not fitted to)
    q' fitted to z_1..t+n       Δ(n)       = H[Y|X, z_t+1..t+n] of q − H[Y|X] of q'          0 for exact inference

Δ > 0: re-weighting is worse. What either gains over doing nothing is reported beside it, since a comparison with
another fit also compares the luck of training. Labels that q was fitted to would count twice; `include_train` puts them
in all the same, to study a variant that is in circulation.  Spec 05, 7 and A3.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from natsel.beliefs.draws import NoSurvivingDraw
from natsel.data.examples import Examples
from natsel.data.labels import as_numpy
from natsel.learning.ahead import Look, Metrics, check_parts, look_ahead
from natsel.learning.checks import as_count
from natsel.learning.fitting import _takes_validation
from natsel.models.conversion import as_model
from natsel.models.protocol import Model, Progress
from natsel.seeds import derive


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
    ahead, trials = as_count(ahead, "ahead"), as_count(trials, "trials")
    check_parts(sub_trials, share)
    starts = _starts(sequence, start, ahead, step)
    if ids is not None and not include_train:
        _refuse_known(as_numpy(ids), starts, ahead)
    places = list(product(range(trials), sorted({*starts, *(size + ahead for size in starts)})))
    looks: dict[tuple[int, int], Look] = {}
    for trial, size in places:
        ready = as_model(model() if callable(model) and not isinstance(model, Model) else model)
        fitted(ready, known_classes(sequence[:size], sequence, test), validation, derive(seed, "fit", trial, size))
        new = sequence[0 if include_train else size : size + ahead] if size in starts else None
        try:
            part = derive(seed, "part", trial, size)
            looks[trial, size] = look_ahead(ready, new, test, sub_trials=sub_trials, share=share, seed=part)
        except NoSurvivingDraw as reason:
            raise NoSurvivingDraw(f"sequence: at {size} labels {str(reason).removeprefix('new: ')}") from None
        if progress is not None:
            progress(len(looks), len(places))
    rows = [_adaptation(trial, size, ahead, looks) for trial in range(trials) for size in starts]
    return Comparison(ahead, tuple(rows))


def _starts(sequence: Examples, start: int, ahead: int, step: int) -> range:
    """The sizes at which to look ahead."""
    start, step = as_count(start, "start"), as_count(step, "step")
    starts = range(start, len(sequence) - ahead + 1, step)
    if not starts:
        found = f"{len(sequence)} points"
        raise ValueError(f"sequence: found {found}, fewer than start + ahead = {start + ahead}; lower one of them")
    return starts


def _adaptation(trial: int, size: int, ahead: int, looks: Mapping[tuple[int, int], Look]) -> Adaptation:
    """A look ahead beside what the fit to those labels came to."""
    look, later = looks[trial, size], looks[trial, size + ahead].whole
    worth, nats = look.effective_draws, look.surprise
    return Adaptation(size, trial, look.whole, look.online, later, worth, nats, look.draws)


def fitted(model: Model, labelled: Examples, validation: Examples | None, seed: int) -> Model:
    """A model fitted to examples, with validation and seed where its `fit` takes them."""
    fit: Callable[..., Any] = model.fit
    takes = inspect.signature(fit).parameters
    anything = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in takes.values())
    seeded = {"seed": seed} if anything or "seed" in takes else {}
    fit(*([labelled, validation] if _takes_validation(fit) else [labelled]), **seeded)
    return model


def known_classes(labelled: Examples, *others: Examples) -> Examples:
    """Examples that know of every class that anybody mentions."""
    if labelled.classes or as_numpy(labelled.labels).dtype.kind == "f":
        return labelled
    count = max(int(as_numpy(part.labels).max(initial=-1)) for part in (labelled, *others)) + 1
    return Examples(labelled.inputs, labelled.labels, tuple(map(str, range(count))))


def _refuse_known(ids: Any, starts: range, ahead: int) -> None:
    for size in starts:
        twice = np.intersect1d(ids[:size], ids[size : size + ahead])
        if len(twice):
            raise ValueError(
                f"ids: {twice[0]} is trained on at {size} labels and then comes as a new label, and would count twice;"
                " leave repeats out of the sequence, or pass include_train=True"
            )
