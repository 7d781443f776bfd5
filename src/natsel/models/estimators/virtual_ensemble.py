"""Virtual ensembles: one fitted model of boosted trees, cut off after fewer trees, as several members.

    F_t(x) = Σ_{s ≤ t} tree_s(x)          the model after t of its T trees
    t_k = ⌊T/2 + k·T/(2K)⌋,  k = 1..K     members from the second half of the boosting; t_K = T is the whole model

With T < 2K trees, K is halved until they are enough; below 4 trees there is nothing to cut. Members of one boosting
resemble each other more than members that were fitted apart: their disagreement is cheap, and small.

    scikit-learn   staged_predict, one pass over all trees        LightGBM   predict(num_iteration=t)
    CatBoost       predict(ntree_end=t), or, where it was fitted  XGBoost    predict(iteration_range=(0, t))
                   with posterior_sampling, its own virtual_ensembles_predict

docs/theory/black-box.md; Kirsch 2023, black-box batch active learning; Malinin et al. 2021, uncertainty in gradient
boosting via ensembles.
"""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline

from natsel.models.estimators.committee import Array, Committee
from natsel.models.estimators.renumbered import Renumbered

MEMBERS = 20
"""The usual number of virtual members."""

_FEWEST_TREES = 4


class TooFewTrees(ValueError):
    """A fit that ended with so few trees that there is nothing to cut off."""


@dataclass(frozen=True, eq=False)
class VirtualEnsemble(Committee):
    """Members are numbers of trees of `fitted`; `classes` is left to it."""

    members: Sequence[int]
    fitted: Any = None

    def means(self, inputs_n: Any) -> Array:
        """The predictions after each number of trees, (n, K) in float64."""
        columns = [np.reshape(column, -1) for column in self._predicted("predict", self.prepare(inputs_n))]
        return np.stack(columns, 1).astype(np.float64)

    def probs(self, inputs_n: Any, n_classes: int) -> Array:
        """The class probabilities after each number of trees, (n, K, C) in float32."""
        probs_n_K_C = np.zeros((len(inputs_n), len(self), n_classes), dtype=np.float32)
        own = self.fitted.classes_ if self.classes is None else self.classes
        for k, own_n_c in enumerate(self._predicted("predict_proba", self.prepare(inputs_n))):
            probs_n_K_C[:, k, np.asarray(own).astype(np.int64)] = own_n_c
        return probs_n_K_C

    def _predicted(self, method: str, prepared_n: Any) -> Iterator[Array]:
        if _samples_posterior(self.fitted):
            return self._sampled(method, prepared_n)
        return _stages(self.fitted, method, prepared_n, self.members)

    def _sampled(self, method: str, prepared_n: Any) -> Iterator[Array]:
        """CatBoost's own virtual ensemble of a model whose trees were drawn from a posterior."""
        raw_n_K_c = self.fitted.virtual_ensembles_predict(
            prepared_n, prediction_type="VirtEnsembles", virtual_ensembles_count=len(self)
        )
        for raw_n_c in np.moveaxis(np.reshape(raw_n_K_c, (len(raw_n_K_c), len(self), -1)), 1, 0):
            if method == "predict":
                yield raw_n_c[:, 0]  # a loss with uncertainty has the logarithm of a variance behind the mean
            elif raw_n_c.shape[1] == 1:
                yield scipy.special.softmax(np.concatenate([-raw_n_c / 2, raw_n_c / 2], 1), axis=1)
            else:
                yield scipy.special.softmax(raw_n_c, axis=1)


def virtual_ensemble(fitted: Any, members: int) -> VirtualEnsemble:
    """The virtual members of a fitted boosted model.

    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> fitted = GradientBoostingRegressor(n_estimators=10).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0])
    >>> virtual_ensemble(fitted, 4).members
    [6, 7, 8, 10]
    """
    classes = None
    if isinstance(fitted, Renumbered):
        fitted, classes = fitted.fitted, fitted.classes_
    try:
        counts = numbers_of_trees(_trees(fitted), members)
    except TooFewTrees as reason:
        raise TooFewTrees(
            f"virtual: {type(fitted).__name__} ended with {_trees(fitted)} trees, and a virtual ensemble needs at least"
            f" {_FEWEST_TREES}; label more, allow smaller leaves or more trees, or use members=20"
        ) from reason
    return VirtualEnsemble(counts, classes=classes, fitted=fitted)


def numbers_of_trees(trees: int, members: int) -> list[int]:
    """After how many of the trees each member stops; fewer members where the trees are too few.

    >>> numbers_of_trees(8, 4), numbers_of_trees(7, 20)
    ([5, 6, 7, 8], [5, 7])
    """
    if trees < _FEWEST_TREES:
        raise TooFewTrees(f"trees: expected at least {_FEWEST_TREES}, found {trees}; fit more")
    while trees < 2 * members:
        members = max(2, members // 2)
    return [(trees * (members + k)) // (2 * members) for k in range(1, members + 1)]


def has_stages(estimator: Any) -> bool:
    """Whether an estimator, fitted or not, can be asked what it would say after fewer of its trees.

    >>> from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
    >>> has_stages(HistGradientBoostingRegressor()), has_stages(RandomForestRegressor())
    (True, False)
    """
    if isinstance(estimator, BaseSearchCV):
        return has_stages(estimator.estimator)
    if isinstance(estimator, Pipeline):
        return has_stages(estimator.steps[-1][1])
    return _cut(estimator) is not None or hasattr(estimator, "staged_predict")


def _cut(estimator: Any) -> str | None:
    """The argument of `predict` that limits the trees, which differs between libraries."""
    takes = inspect.signature(estimator.predict).parameters
    return next((name for name in ("num_iteration", "iteration_range", "ntree_end") if name in takes), None)


def _trees(fitted: Any) -> int:
    """T, without trees behind the best where fitting stopped early."""
    match _cut(fitted):
        case "num_iteration":
            return int(fitted.best_iteration_ or fitted.booster_.current_iteration())
        case "iteration_range":
            best = getattr(fitted, "best_iteration", None)
            return int(fitted.get_booster().num_boosted_rounds() if best is None else best + 1)
        case "ntree_end":
            return int(fitted.tree_count_)
    for name in ("n_iter_", "n_estimators_"):
        if hasattr(fitted, name):
            return int(getattr(fitted, name))
    return len(fitted.estimators_)


def _stages(fitted: Any, method: str, prepared_n: Any, counts: Sequence[int]) -> Iterator[Array]:
    name = _cut(fitted)
    if name is not None:
        for count in counts:
            upto = (0, count) if name == "iteration_range" else count
            yield np.asarray(getattr(fitted, method)(prepared_n, **{name: upto}))
        return
    wanted = set(counts)
    for count, stage in enumerate(getattr(fitted, f"staged_{method}")(prepared_n), 1):
        if count in wanted:
            yield np.array(stage)  # a copy: stages may be written over one another


def _samples_posterior(fitted: Any) -> bool:
    return hasattr(fitted, "virtual_ensembles_predict") and bool(fitted.get_all_params().get("posterior_sampling"))
