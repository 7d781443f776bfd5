"""Active learning without retraining: new labels re-weight the draws; the model is fitted again only when it must be.

    fit to all labels → believe once → repeat:  select under the weights → labels → w_k' ∝ w_k Π p(y|x,ω_k)
    fit again when    few draws are left | the labels told too much | validation got worse | often enough | a label that
                      no draw allows

Between two fits nothing is predicted anew. After a fit the weights start again from those of the model: the labels it
was fitted to are in its draws, and never enter the weights as well. With `allow_reselection` a point stays in the pool
after it was labelled: poor joint predictions pick it again and again, and what that costs is counted. A label that is
already known, by the fit or by the weights, is then paid for and tells nothing more.  Spec 05, A4 and A5.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from natsel.beliefs import Belief, CategoricalSamples, GaussianFeatures, GaussianSamples
from natsel.beliefs.draws import COLLAPSE, NoSurvivingDraw, Weighted
from natsel.choose import Method, resolve, select
from natsel.data.examples import Examples
from natsel.data.pool import Pool
from natsel.evaluation.of_belief import evaluate
from natsel.learning.checks import as_count, as_examples, as_pool
from natsel.learning.oracles import Oracle, answers
from natsel.learning.retraining import Adaptation as Adaptation
from natsel.learning.retraining import Comparison as Comparison
from natsel.learning.retraining import fitted, known_classes
from natsel.learning.retraining import obi_versus_retraining as obi_versus_retraining
from natsel.models.conversion import as_model
from natsel.models.protocol import Progress
from natsel.seeds import derive

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Refit:
    """When re-weighting is trusted no longer.

    `draws`: fewer effective draws are left than this share of them; `surprise`: the labels told more than this share of
    ln K; `nll`: the validation loss lies this far above that of the last fit (None: not looked at); `every`: so many
    labels were bought since (1: after every batch, which is active learning as usual).

    >>> Refit(every=1).reason(effective=9.0, draws=10, nats=0.1, worse=0.0, bought=1)
    'every 1'
    """

    draws: float = 0.1
    surprise: float = COLLAPSE
    nll: float | None = None
    every: int | None = None

    def reason(self, *, effective: float, draws: int, nats: float, worse: float, bought: int) -> str | None:
        """Why to fit again, None for going on."""
        if self.every is not None and bought >= self.every:
            return f"every {self.every}"
        if draws > 1 and effective < self.draws * draws:
            return f"{effective:.1f} of {draws} draws left"
        if draws > 1 and nats > self.surprise * math.log(draws):
            return f"surprise of {nats:.2f} nats"
        if self.nll is not None and worse > self.nll:
            return f"validation loss up by {worse:.2f} nats"
        return None


@dataclass(frozen=True)
class Step:
    """Where a run stood before a batch was bought: what it knew, how it had come to know it, and what it picked."""

    bought: int
    """Labels paid for so far, those bought again included."""
    distinct: int
    """Points with a label."""
    refit: str | None
    """Why the model was fitted just before; None where the draws were re-weighted."""
    effective_draws: float
    surprise: float
    metrics: Mapping[str, float]
    picked: tuple[int, ...] = ()
    again: int = 0
    """How many of the picked had a label already."""


@dataclass(frozen=True)
class OnlineRun:
    """The steps of a run."""

    steps: tuple[Step, ...]

    @property
    def fits(self) -> int:
        """How often the model was fitted."""
        return sum(step.refit is not None for step in self.steps)

    @property
    def picked_ids(self) -> Array:
        """Every pick in order, those picked again included."""
        return np.array([id for step in self.steps for id in step.picked], dtype=np.int64)

    @property
    def reselection_rate(self) -> float:
        """The share of picks that had a label already."""
        picks = len(self.picked_ids)
        return sum(step.again for step in self.steps) / picks if picks else 0.0


def learn_online(
    model: Any,
    pool: Pool,
    method: str | Method = "batchbald",
    k: int = 1,
    budget: int = 100,
    *,
    oracle: Oracle = None,
    validation: Examples | tuple[Any, Any] | None = None,
    test: Examples | tuple[Any, Any] | None = None,
    targets: Any = None,
    refit: Refit | None = None,
    allow_reselection: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> OnlineRun:
    """Buy labels k at a time until `budget` are paid for, counting those that the pool has; the pool is told them.

    `targets` are inputs that prediction-aware methods want to do well on. What the draws say about the pool, the
    validation and the test set is held from one fit to the next.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> pool = Pool(np.arange(40.0)[:, None], labels=np.arange(40) // 20)
    >>> run = learn_online(RandomForestClassifier(30, min_samples_leaf=2), pool, k=2, budget=12)
    >>> run.steps[-1].bought, len(pool.labelled_ids), run.fits < 6
    (12, 12, True)
    """
    pool, chosen = as_pool(pool), resolve(method)
    k, budget = as_count(k, "k"), as_count(budget, "budget")
    learner = _Online(as_model(model), pool, as_examples(validation, "validation", pool), targets, seed)
    judged = as_examples(test, "test", pool)
    rule = refit or Refit()
    bought = len(pool.labelled_ids)
    if bought == 0:
        free_ids = pool.unlabelled_ids
        first = np.random.default_rng(derive(seed, "start")).choice(free_ids, min(k, len(free_ids)), replace=False)
        bought += len(_buy(first, pool, oracle))
    steps: list[Step] = []
    why: str | None = "the first"
    since = 0
    while True:
        if why is not None:
            learner.fit(judged)
            since = 0
        effective, nats = learner.left()
        metrics = learner.metrics(judged)
        free_ids = np.setdiff1d(pool.ids, pool.ignored_ids) if allow_reselection else pool.unlabelled_ids
        count = min(k, budget - bought, len(free_ids))
        if progress is not None:
            progress(bought, budget)
        if count <= 0:
            steps.append(Step(bought, len(pool.labelled_ids), why, effective, nats, metrics))
            return OnlineRun(tuple(steps))
        picked = learner.pick(chosen, free_ids, count, derive(seed, "select", len(steps)))
        known = np.isin(picked, pool.labelled_ids)
        steps.append(
            Step(
                bought, len(pool.labelled_ids), why, effective, nats, metrics, tuple(picked.tolist()), int(known.sum())
            )
        )
        new = _buy(picked[~known], pool, oracle)
        bought, since = bought + len(new) + int(known.sum()), since + len(picked)
        why = learner.learn(new)
        if why is None:
            effective, nats = learner.left()
            worse = learner.worse() if rule.nll is not None else 0.0
            why = rule.reason(effective=effective, draws=learner.draws, nats=nats, worse=worse, bought=since)


class _Online:
    """A fitted model, what its draws say about everything that is asked for, and the weights they have by now."""

    def __init__(self, model: Any, pool: Pool, validation: Examples | None, targets: Any, seed: int) -> None:
        self.model, self.pool, self.validation, self.seed = model, pool, validation, seed
        self.targets = targets.inputs if isinstance(targets, Examples) else targets
        self.fits = 0
        self.belief: Any = None
        self.about: dict[str, Any] = {}
        self.trained: frozenset[int] = frozenset()

    def fit(self, test: Examples | None) -> None:
        """Fit to all labels, and believe about everything once."""
        others = [part for part in (self.validation, test) if part is not None]
        self.belief, self.about = None, {}  # let go of what is large before the next is made
        fitted(
            self.model,
            known_classes(self.pool.labelled(), *others),
            self.validation,
            derive(self.seed, "fit", self.fits),
        )
        self.fits += 1
        self.trained = frozenset(self.pool.labelled_ids.tolist())
        if self.targets is not None and hasattr(self.model, "believe_together"):
            self.belief, self.about["targets"] = self.model.believe_together(self.pool.inputs, self.targets)
        else:
            self.belief = self.model.believe(self.pool.inputs)
            if self.targets is not None:
                self.about["targets"] = self.model.believe(self.targets)
        if not isinstance(self.belief, CategoricalSamples | GaussianSamples | GaussianFeatures):
            raise ValueError(
                f"model: {type(self.belief).__name__} cannot be conditioned; use ActiveLearner, which refits"
            )
        self.belief = self.belief.with_ids(self.pool.ids)
        for name, part in (("validation", self.validation), ("test", test)):
            if part is not None:
                self.about[name] = self.model.believe(part.inputs)
        self.first = self._loss()

    @property
    def draws(self) -> int:
        """How many draws had a weight when the model was fitted; 1 for a belief without draws."""
        if not isinstance(self.belief, Weighted):
            return 1
        return int((self.belief._first_log_weights() > -math.inf).sum())

    def left(self) -> tuple[float, float]:
        """The effective draws, and the surprise since the fit."""
        if not isinstance(self.belief, Weighted):
            return 1.0, 0.0
        return self.belief.effective_draws(), self.belief.surprise()

    def metrics(self, test: Examples | None) -> dict[str, float]:
        """Test metrics under the weights as they are."""
        return {} if test is None else evaluate(self._now("test"), test.labels)

    def worse(self) -> float:
        """How far the validation loss lies above that of the fit."""
        if self.validation is None:
            raise ValueError("validation: Refit(nll=…) looks at its loss; pass validation examples")
        return self._loss() - self.first

    def pick(self, method: Method, free_ids: Array, count: int, seed: int) -> Array:
        """Ids to buy next, under the weights as they are."""
        belief = self.belief[self.pool.position_of(free_ids)]
        # Methods are compared under one call, with targets for those that look at some.
        targets = self._now("targets") if self.targets is not None and method.facts.needs_targets else None
        return select(method, belief, count, targets=targets, seed=seed).indices

    def learn(self, labels: Mapping[int, Any]) -> str | None:
        """Take labels that are new into the weights; a reason to fit where that cannot be done."""
        twice = self.trained.intersection(labels)
        if twice:  # the trap: such a label is in the draws already
            raise ValueError(f"labels: id {min(twice)} was trained on, and would count twice; leave it out")
        if not labels:
            return None
        ids = list(labels)
        positions, values = self.pool.position_of(ids), self.pool.labels_of(ids)
        if isinstance(self.belief, GaussianFeatures):
            self.belief = self.belief.condition(positions, values)
            return None
        if isinstance(self.belief, CategoricalSamples) and values.max() >= self.belief.shape[2]:
            return "a class that the model has not heard of"
        try:
            self.belief = self.belief.reweighted(self.belief.log_likelihood(positions, values))
        except NoSurvivingDraw:
            return "no draw allows the labels"
        return None

    def _now(self, name: str) -> Belief:
        belief: Belief = self.about[name].with_weights_of(self.belief)
        return belief

    def _loss(self) -> float:
        if self.validation is None:
            return 0.0
        return evaluate(self._now("validation"), self.validation.labels).get("nll", 0.0)


def _buy(ids: Array, pool: Pool, oracle: Oracle) -> dict[int, Any]:
    """Labels for ids, told to the pool; ids without one are set aside."""
    found = dict(zip(ids.tolist(), answers(oracle, pool, ids.tolist()), strict=True)) if len(ids) else {}
    known = {id: label for id, label in found.items() if label is not None}
    pool.ignore([id for id in found if id not in known])
    if known:
        pool.label(list(known), list(known.values()))
    return known
