"""Committees: which parts of a fitted scikit-learn estimator are its draws, and what each of them predicts.

    forest, bagging, voting    each tree or member is one draw (voting weights become weights of draws)
    anything else              the estimator itself, one draw; boosted trees may be cut into several
                               (natsel.models.estimators.virtual_ensemble)

The members of a committee are fixed functions, so their draws are consistent by construction. Members number their
classes by position in the committee's own list; `classes` undoes that.
"""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
import sklearn.base
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, VotingClassifier, VotingRegressor
from sklearn.ensemble._forest import BaseForest
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.tree import BaseDecisionTree
from sklearn.utils import check_array

from natsel.data.frames import FrameRows, is_frame

Array = np.ndarray[Any, Any]

# Regressors that follow their labels, the parameters that may end this, and the values by which these do not.
_FOLLOWING = re.compile(
    "((Decision|Extra)Tree|RandomForest|ExtraTrees|(Hist)?GradientBoosting|AdaBoost|LGBM|XGB|CatBoost|KNeighbors|Bagging"
    "|Voting)Regressor|Pipeline|LinearRegression|Ridge(CV)?"
)
_OF_LABELS = re.compile(
    "(.*__)?(loss|criterion|objective|loss_function|eval_metric|scoring|init|base_score|gamma|reg_alpha|lambda_l1|langevin"
    "|min_split_gain|min_impurity_decrease|ccp_alpha|max_delta_step|posterior_sampling|fit_intercept)"
)
_HARMLESS = re.compile(
    "None|0|0.0|True|deprecated|loss|linear|huber|quantile|regression|(reg:)?squared_?error|absolute_error|friedman_mse|RMSE"
)


@dataclass(frozen=True, eq=False)
class Committee:
    """K fitted members, what inputs pass through on the way to them, and which examples each was fitted to."""

    members: Sequence[Any]
    prepare: Callable[[Any], Any] = lambda inputs: inputs
    classes: Array | None = None  # the class each of the members' own numbers stands for; None: they are classes
    columns: Sequence[Array] | None = None  # the features each member looks at; None: all
    samples: Sequence[Array] | None = None  # the examples each member was fitted to; None: all, or unknown
    weights: Array | None = None

    def __len__(self) -> int:
        return len(self.members)

    def probs(self, inputs_n: Any, n_classes: int) -> Array:
        """p(y=c | x_n, member k) as (n, K, C) in float32; a member without probabilities votes for one class."""
        probs_n_K_C = np.zeros((len(inputs_n), len(self), n_classes), dtype=np.float32)
        prepared_n = self.prepare(inputs_n)
        for k, member in enumerate(self.members):
            columns_C, own_n_C = _class_probs(member, self._seen_by(k, prepared_n))
            if self.classes is not None:
                columns_C = self.classes[columns_C.astype(np.int64)]
            probs_n_K_C[:, k, columns_C] = own_n_C
        return probs_n_K_C

    def means(self, inputs_n: Any) -> Array:
        """The members' predictions as (n, K) in float64."""
        mean_n_K = np.empty((len(inputs_n), len(self)))
        prepared_n = self.prepare(inputs_n)
        for k, member in enumerate(self.members):
            mean_n_K[:, k] = np.reshape(_call(member, "predict", self._seen_by(k, prepared_n)), -1)
        return mean_n_K

    def leaves_or_rows(self, inputs_n: Any) -> tuple[Array | None, Any]:
        """The number of the leaf of each tree in all members, (n, T), or None where there are others than trees, which
        number their leaves; and the inputs as the first member sees them, behind the steps of a pipeline.
        """
        prepared_n, parts = self.prepare(inputs_n), [self.fitted] if hasattr(self, "fitted") else self.members
        found = [_leaves(part, self._seen_by(k, prepared_n)) for k, part in enumerate(parts)]
        known = [leaves_n_t for leaves_n_t in found if leaves_n_t is not None]
        return np.concatenate(known, 1) if len(known) == len(found) else None, _behind(parts[0], prepared_n)[1]

    def _seen_by(self, k: int, prepared_n: Any) -> Any:
        return prepared_n if self.columns is None else prepared_n[:, self.columns[k]]


def committee_of(fitted: Any, alone: Callable[[Any], Committee] | None = None) -> Committee:
    """The draws inside a fitted estimator; `alone` says what becomes of one that is no committee (one draw).

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> len(committee_of(RandomForestClassifier(7).fit([[0.0], [1.0]], [0, 1])))
    7
    """
    fitted = getattr(fitted, "best_estimator_", fitted)
    if isinstance(fitted, Pipeline):
        last = committee_of(fitted[-1], alone)
        return _behind_steps(fitted[:-1], last) if len(fitted) > 1 else last
    classes = getattr(fitted, "classes_", None)
    if isinstance(fitted, BaseForest):
        bootstrapped = fitted.bootstrap and hasattr(fitted, "estimators_samples_")
        return Committee(
            fitted.estimators_,
            prepare=_as_float32,
            classes=classes,
            samples=fitted.estimators_samples_ if bootstrapped else None,
        )
    if isinstance(fitted, BaggingClassifier | BaggingRegressor):
        whole = fitted.max_features == 1.0 and not fitted.bootstrap_features
        return Committee(
            fitted.estimators_,
            prepare=_as_bagging_sees,
            classes=classes,
            columns=None if whole else fitted.estimators_features_,
            samples=fitted.estimators_samples_,
        )
    if isinstance(fitted, VotingClassifier | VotingRegressor):
        kept = [member != "drop" for _, member in fitted.estimators]
        weights = None if fitted.weights is None else np.asarray(fitted.weights, dtype=np.float64)[kept]
        return Committee(fitted.estimators_, classes=classes, weights=weights)
    return Committee([fitted]) if alone is None else alone(fitted)


def is_committee(estimator: Any) -> bool:
    """Whether an estimator, fitted or not, has several draws inside, as `committee_of` finds them.

    >>> from sklearn.linear_model import LogisticRegression
    >>> is_committee(LogisticRegression())
    False
    """
    if isinstance(estimator, BaseSearchCV):
        return is_committee(estimator.estimator)
    if isinstance(estimator, Pipeline):
        return is_committee(estimator.steps[-1][1])
    kinds = (BaseForest, BaggingClassifier, BaggingRegressor, VotingClassifier, VotingRegressor)
    return isinstance(estimator, kinds)


def bags(estimator: Any) -> bool:
    """Whether an estimator is a bagging estimator of scikit-learn, or a pipeline or search that ends with one.

    >>> bags(BaggingClassifier())
    True
    """
    if isinstance(estimator, BaseSearchCV):
        return bags(estimator.estimator)
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    return isinstance(last, BaggingClassifier | BaggingRegressor)


def crashes_on(estimator: Any, rows: FrameRows) -> str | None:
    """The library that ends the process where it gets such a data frame, or None.

    LightGBM 4.7 and CatBoost 1.2 read frames of polars, but not their texts and categories: an abort, a segmentation
    fault.
    """
    if not isinstance(rows.frame, getattr(sys.modules.get("polars"), "DataFrame", ())):
        return None
    if all(kind[:3] in ("int", "uin", "flo", "boo") for kind in rows.kinds.values()):
        return None
    first = estimator.steps[0][1] if isinstance(estimator, Pipeline) else estimator
    parts = [first, *(first.get_params().values() if hasattr(first, "get_params") else ())]
    libraries = {type(part).__module__.partition(".")[0] for part in parts}
    return next((name for name in ("lightgbm", "catboost") if name in libraries), None)


def classifies(estimator: Any) -> bool:
    """Whether an estimator, by its tags or by what it offers, names classes."""
    return hasattr(estimator, "predict_proba") or _is(sklearn.base.is_classifier, estimator, "classifier")


def regresses(estimator: Any) -> bool:
    """Whether an estimator says that it predicts real numbers."""
    return _is(sklearn.base.is_regressor, estimator, "regressor")


def follows_labels(estimator: Any) -> bool:
    """Whether predictions are shifted and scaled as the labels are, by the definition of what the estimator computes.

    >>> from sklearn.linear_model import Lasso, Ridge
    >>> [follows_labels(one) for one in (BaggingRegressor(), Ridge(), Ridge(fit_intercept=False), Lasso())]
    [True, True, False, False]
    """
    return all(
        (_FOLLOWING.fullmatch(type(one).__name__) or not hasattr(one, "predict"))
        and (_HARMLESS.fullmatch(str(one)) or not _OF_LABELS.fullmatch(name))
        for name, one in [("", estimator), *estimator.get_params().items()]  # and all that it holds
    )


def _is(says: Callable[[Any], bool], estimator: Any, kind: str) -> bool:
    try:
        return bool(says(estimator))
    except (AttributeError, TypeError):  # boosting libraries of their own may lack scikit-learn's newer tags
        return getattr(estimator, "_estimator_type", None) == kind


def _behind_steps(steps: Pipeline, committee: Committee) -> Committee:
    """A committee whose inputs pass through the fitted steps of a pipeline first."""
    return replace(committee, prepare=lambda inputs: committee.prepare(steps.transform(inputs)))


def _as_float32(inputs: Any) -> Any:
    """Done once for all trees, so that none need look at its input again."""
    if scipy.sparse.issparse(inputs):
        return inputs.tocsr().astype(np.float32)
    if is_frame(inputs):
        return check_array(inputs, dtype=np.float32, order="C", ensure_all_finite=False)
    return np.ascontiguousarray(inputs, dtype=np.float32)


def _as_bagging_sees(inputs: Any) -> Any:
    """Members of a bagging estimator were fitted to an array, also where the estimator itself got a data frame."""
    return check_array(inputs, dtype=None, ensure_all_finite=False) if is_frame(inputs) else inputs


def _class_probs(member: Any, inputs_n: Any) -> tuple[Array, Array]:
    """The member's own classes and their probabilities (n, c)."""
    own_c = np.asarray(member.classes_)
    if len(own_c) == 1:  # some have two columns for one class, or one axis
        return own_c, np.ones((len(inputs_n), 1))
    if hasattr(member, "predict_proba"):
        probs_n_C = np.asarray(_call(member, "predict_proba", inputs_n))
        sums_n = probs_n_C.sum(1, keepdims=True)
        if np.any(np.abs(sums_n - 1) > 1e-6):  # naive Bayes with a class of one example rounds its tied winners to 1
            probs_n_C = probs_n_C / sums_n
        return own_c, probs_n_C
    return own_c, np.reshape(member.predict(inputs_n), (-1, 1)) == own_c


def _call(member: Any, method: str, inputs_n: Any) -> Any:
    if isinstance(member, BaseDecisionTree) and isinstance(inputs_n, np.ndarray) and inputs_n.dtype == np.float32:
        return getattr(member, method)(inputs_n, check_input=False)  # a check a tree costs more than the tree
    return getattr(member, method)(inputs_n)


def _leaves(fitted: Any, inputs_n: Any) -> Array | None:
    fitted, inputs_n = _behind(fitted, inputs_n)
    if hasattr(fitted, "booster_"):  # LightGBM
        found = fitted.predict(inputs_n, pred_leaf=True)
    elif hasattr(fitted, "calc_leaf_indexes"):  # CatBoost
        found = fitted.calc_leaf_indexes(inputs_n)
    elif hasattr(fitted, "apply"):
        found = _call(fitted, "apply", inputs_n)
    else:
        inner = committee_of(fitted)
        return None if inner.members[0] is fitted else inner.leaves_or_rows(inputs_n)[0]
    return np.reshape(found, (len(inputs_n), -1)).astype(np.int32)


def _behind(fitted: Any, inputs_n: Any) -> tuple[Any, Any]:
    """What a search or classes that were numbered anew hold, of a pipeline the last step; and what that sees."""
    fitted = getattr(fitted, "best_estimator_", getattr(fitted, "fitted", fitted))
    if not isinstance(fitted, Pipeline):
        return fitted, inputs_n
    return _behind(fitted[-1], fitted[:-1].transform(inputs_n) if len(fitted) > 1 else inputs_n)
