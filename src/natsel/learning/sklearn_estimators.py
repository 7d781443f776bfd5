"""Active learning with the habits of scikit-learn: an estimator around an estimator, which also says what to label.

    fit(X, y)      the estimator is fitted to labelled rows; `predict` and `score` are those of this fit
    ask(X_pool)    a committee is fitted to the same rows, and a method chooses from what it believes about the pool
    tell(X, y)     the estimator is fitted again, to the rows known so far and these

The committee is the estimator's own where it has one (the trees of a forest, a Gaussian process), else 20 copies of it,
each fitted to a bootstrap of the rows (`natsel.models.Sklearn`). It is fitted by the first ask after a fit, so that
predictions, cross-validation and grid searches cost one fit of the estimator.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.utils import Tags, check_array, check_consistent_length, check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from natsel.beliefs import Belief
from natsel.beliefs.targets import Targets
from natsel.choose import DEFAULT, Method, Selection, resolve, select
from natsel.data.alignment import beside, index_of
from natsel.data.any_source import row_ids
from natsel.data.contents import digests_of
from natsel.data.examples import Examples
from natsel.data.frames import FrameRows, by_position, joined, require_columns
from natsel.data.labels import class_names_in, read_labels, unknown
from natsel.data.pool import Pool
from natsel.learning.arguments import as_count
from natsel.learning.target_sources import TargetInputs, geometries, most_targets, targets_for
from natsel.models.adapter import ModelAdapter
from natsel.models.estimators.sklearn import Sklearn
from natsel.models.rows import Array, as_array
from natsel.objectives import Argument
from natsel.options import Rows
from natsel.seeds import derive


class _ActiveEstimator(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What ActiveRegressor and ActiveClassifier share: everything but what labels are."""

    estimator: Any
    method: str | Method
    k: int
    members: int | None
    random_state: Any
    _regression: bool
    _labelled: Examples
    _committee: ModelAdapter | None

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the estimator to labelled rows; rows known before are forgotten. Labels that have ids, as a column of
        pandas has, go by the index of a data frame, and by position beside an array.
        """
        self._refuse_other_estimators()
        rows_N, labels_N = _rows(X, "X"), self._labels(_beside(X, y))
        check_consistent_length(rows_N, labels_N)
        return self._fit(rows_N, labels_N)

    def tell(self, X: Any, y: Any) -> Self:
        """Add labelled rows to those known, and fit again. As the first call it is `fit`. A row of a data frame that is
        told again, under the same index and with the same values, takes its new label; rows of arrays have no names.
        """
        if not hasattr(self, "estimator_"):
            return self.fit(X, y)
        self._refuse_other_estimators()
        rows_N, labels_N = self._rows_as_known(X, "X"), self._labels(_beside(X, y))
        check_consistent_length(rows_N, labels_N)
        are_texts, were_texts = (labels.dtype.kind in "OUT" for labels in (labels_N, self._labels_N))
        if are_texts != were_texts:  # NumPy would make texts of the numbers
            kinds = ("numbers", "texts") if are_texts else ("texts", "numbers")
            raise ValueError(f"y: the labels so far are {kinds[0]}, found {kinds[1]}; pass labels of the same kind")
        kept_N = ~_are_among(self._labelled.inputs, rows_N)
        labels_N = np.concatenate([self._labels_N[kept_N], labels_N])
        return self._fit(joined(self._labelled.inputs[kept_N], rows_N), labels_N)

    def ask(self, X_pool: Any, k: int | None = None, targets: Any = None) -> Selection:
        """The k rows of a pool to label next, best first; without k, as many as the parameter `k` says.

        The ids of the selection are the index of a data frame of pandas, so that `X_pool.loc[selection.ids]` are the
        rows to label; of anything else they are row numbers. Leave rows that have a label out of the pool: those of a
        data frame that were told under the same index with the same values are left out here. `targets` are the rows on
        which predictions matter, for methods that look at some (epig, bait): a data frame or an array like X, or
        `natsel.TargetInputs`. Without them the pool itself is taken. Until it is told more, it chooses the same rows of
        the same pool.
        """
        check_is_fitted(self)
        method = resolve(self.method)
        pool = self._pool(X_pool)
        count = as_count(self.k if k is None else k, "k")
        told_N = _are_among(pool.inputs, self._labelled.inputs)
        if count > (free := int((~told_N).sum())):
            raise ValueError(
                f"k: asked for {count} of the {free} rows of X_pool to label; pass a smaller k or more rows"
            )
        if method.objective.teaching is not None:
            raise ValueError(f"method: {method.name} has students to teach; use it with natsel.ActiveLearner")
        wanted = targets_for(method, "pool" if targets is None else targets)
        if wanted is not None and wanted.kind == "set":
            self._rows_as_known(wanted.inputs, "targets")
        seed = derive(self._seed, "ask", len(self._labels_N))
        belief, about_targets, given = self._believe(method, pool, wanted, derive(seed, "targets"))
        known: dict[str, Any] = {"targets": about_targets, "given": given, "exclude": pool.ids[told_N]}
        return select(method, belief, count, **known, seed=derive(seed, "select"))

    def _pool(self, X_pool: Any) -> Pool:
        rows_N = self._rows_as_known(X_pool, "X_pool")
        try:
            return Pool(rows_N, ids=row_ids(X_pool))
        except ValueError as reason:
            found = str(reason).partition(";")[0]
            raise ValueError(
                f"X_pool: its index cannot name the rows ({found}); X_pool.reset_index(drop=True) numbers them"
            ) from reason

    def _believe(
        self, method: Method, pool: Pool, wanted: TargetInputs | None, seed: int
    ) -> tuple[Belief, Targets[Belief] | None, Targets[Belief] | None]:
        """What the committee believes about the pool and, where the method looks at them, about targets and about the
        labelled rows: from the same draws.
        """
        committee = self._fitted_committee()
        looks_at_labelled = method.starts_from_labelled or Argument.GIVEN in method.needs
        if method.reads_geometry:
            labelled = self._labelled if looks_at_labelled else None
            return geometries(committee.geometry, pool, pool.ids, labelled, wanted, seed)
        drawn = None
        if wanted is not None:
            drawn = wanted.draw(pool, seed, most=most_targets(committee.believe(pool.inputs[:1])))
        parts = [] if drawn is None else [self._rows_as_known(drawn.inputs, "targets")]
        parts += [self._labelled.inputs] if looks_at_labelled else []
        if not parts:
            return committee.believe(pool.inputs).with_ids(pool.ids), None, None
        belief, others = committee.believe_both(pool.inputs, joined(*parts))
        n_targets = 0 if drawn is None else len(drawn)
        about_targets = None if drawn is None else drawn.believed(others[:n_targets])
        given = Targets(others[n_targets:], labels=self._labelled.labels) if looks_at_labelled else None
        return belief.with_ids(pool.ids), about_targets, given

    def _fitted_committee(self) -> ModelAdapter:
        """The committee, fitted to the labelled rows where it is not yet."""
        if self._committee is None:
            bagged = None if self.members is None else Sklearn(self._unfitted, members=self.members)
            self._committee = ModelAdapter(bagged or self._unfitted).fit(self._labelled, seed=self._seed)
        return self._committee

    def _refuse_other_estimators(self) -> None:
        model = Sklearn(self.estimator, members=self.members)  # refuses what is no estimator
        if model.regression != self._regression:
            kinds = ("classifies", "ActiveClassifier") if self._regression else ("regresses", "ActiveRegressor")
            raise ValueError(f"estimator: {type(self.estimator).__name__} {kinds[0]}; use natsel.{kinds[1]}")

    def _fit(self, rows_N: Any, labels_N: Array) -> Self:
        """Fit to all rows known; nothing has changed where that fails."""
        # With None this is the global state of NumPy, as everywhere in scikit-learn.
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        estimator, numbers_N, classes = self._numbered(labels_N)
        model = Sklearn(estimator)
        model.refuse_crash(rows_N)
        fitted = model.seeded(seed).fit(rows_N.frame if isinstance(rows_N, FrameRows) else rows_N, numbers_N)
        self.estimator_ = fitted
        if classes is not None:
            self.classes_ = classes
        own_N = rows_N[np.arange(len(rows_N))]  # a copy: the caller may change the rows before the next fit,
        labels_N, numbers_N = labels_N.copy(), numbers_N.copy()  # and the labels
        self._labelled = Examples(own_N, numbers_N, tuple(map(str, range(0 if classes is None else len(classes)))))
        self._labels_N, self._seed = labels_N, seed
        self._unfitted, self._committee = model.seeded(seed), None
        return self

    def _rows_as_known(self, X: Any, name: str) -> Any:
        """Rows in the form of the labelled ones; refused where they have other columns."""
        rows_N, known_N = _rows(X, name), self._labelled.inputs
        if isinstance(known_N, FrameRows) != isinstance(rows_N, FrameRows):
            forms = ("a data frame", "an array") if isinstance(known_N, FrameRows) else ("an array", "a data frame")
            raise ValueError(f"{name}: the labelled rows are {forms[0]}, found {forms[1]}; pass rows of the same form")
        if isinstance(known_N, FrameRows):
            require_columns(rows_N, known_N.names)
            return rows_N.with_columns(known_N.names)
        if rows_N.shape[1:] != known_N.shape[1:]:
            raise ValueError(
                f"{name}: the labelled rows have shape {known_N.shape[1:]} each, found {rows_N.shape[1:]}; pass the"
                " same features"
            )
        return rows_N

    def _labels(self, y: Any) -> Array:
        """Labels as they were given, checked."""
        raise NotImplementedError

    def _numbered(self, labels_N: Array) -> tuple[Any, Array, Array | None]:
        """The estimator, the labels as numbers that it is fitted to, and the classes that they stand for."""
        return self.estimator, labels_N, None

    @property
    def n_features_in_(self) -> int:
        """How many columns the labelled rows have."""
        count: int = self.estimator_.n_features_in_
        return count

    @property
    def feature_names_in_(self) -> Array:
        """The names of the columns, where the labelled rows are a data frame."""
        names: Array = self.estimator_.feature_names_in_
        return names

    def __getstate__(self) -> dict[str, Any]:
        # A committee holds functions that cannot be stored; the next ask fits the same one again.
        state: dict[str, Any] = super().__getstate__()
        return {**state, "_committee": None} if "_committee" in state else state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        try:
            own = get_tags(self.estimator)
        except (AttributeError, TypeError):  # boosting libraries of their own may lack scikit-learn's newer tags
            return tags
        tags.input_tags = own.input_tags
        tags.input_tags.sparse = tags.input_tags.pairwise = False
        tags.regressor_tags = own.regressor_tags or tags.regressor_tags
        tags.classifier_tags = own.classifier_tags or tags.classifier_tags
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = False
        return tags


class ActiveRegressor(RegressorMixin, _ActiveEstimator):  # type: ignore[misc]
    """A scikit-learn regressor that also says which rows to label next.

    `method` is the name of a method or a `natsel.Method`, and `k` is how many rows an ask chooses. `members` is how
    many copies of the estimator are bagged into the committee that an ask looks at; None takes the estimator's own
    members (the trees of a forest, a Gaussian process), else 20 copies. `random_state` decides all that is random, also
    inside the estimator. `estimator_` is the fitted estimator: predictions are its predictions.

    >>> from sklearn.linear_model import Ridge
    >>> X, y = np.arange(30.0)[:, None], np.arange(30.0) ** 2
    >>> active = ActiveRegressor(Ridge(), k=2, random_state=0).fit(X[10:20], y[10:20])
    >>> sorted(active.ask(X))
    [0, 29]
    """

    _regression = True

    def __init__(
        self,
        estimator: Any,
        method: str | Method = "lcmd",
        k: int = 10,
        members: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.k = k
        self.members = members
        self.random_state = random_state

    def predict(self, X: Rows) -> Array:
        """What the estimator predicts, one number per row."""
        check_is_fitted(self)
        return np.reshape(self.estimator_.predict(X), -1)

    def _labels(self, y: Any) -> Array:
        labels_N: Array = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=np.float64, input_name="y")
        return labels_N


def _has_probabilities(active: "ActiveClassifier") -> bool:
    return hasattr(getattr(active, "estimator_", active.estimator), "predict_proba")


class ActiveClassifier(ClassifierMixin, _ActiveEstimator):  # type: ignore[misc]
    """A scikit-learn classifier that also says which rows to label next.

    Labels are numbers, texts or truth values, and `predict` gives them back as they are. The estimator sees their
    places in `classes_`, 0..C−1; weights of classes (`class_weight`) still go by the labels. Labels of new classes may
    be told at any time. The other parameters are those of `natsel.ActiveRegressor`.

    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = np.arange(30.0)[:, None], np.repeat(["low", "high"], 15)
    >>> active = ActiveClassifier(LogisticRegression(), k=2, random_state=0).fit(X[::7], y[::7])
    >>> batch = active.ask(X)
    >>> active.tell(X[batch.ids], y[batch.ids]).predict([[0.0], [29.0]]).tolist()
    ['low', 'high']
    """

    _regression = False

    def __init__(
        self,
        estimator: Any,
        method: str | Method = DEFAULT,
        k: int = 10,
        members: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.k = k
        self.members = members
        self.random_state = random_state

    def predict(self, X: Rows) -> Array:
        """The class that the estimator predicts for each row."""
        check_is_fitted(self)
        classes_N: Array = self.classes_[np.reshape(self.estimator_.predict(X), -1).astype(np.int64)]
        return classes_N

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Rows) -> Array:
        """The estimator's probability of each class, with a column for each of `classes_`."""
        check_is_fitted(self)
        probs_N_C: Array = self.estimator_.predict_proba(X)
        return probs_N_C

    def _labels(self, y: Any) -> Array:
        labels_N: Array = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=None, input_name="y")
        if class_names_in(labels_N) and unknown(read_labels(labels_N, name="y")[0]).any():
            raise ValueError("y: found rows without a label; leave them out")
        check_classification_targets(labels_N)
        return labels_N

    def _numbered(self, labels_N: Array) -> tuple[Any, Array, Array | None]:
        classes, numbers_N = np.unique(labels_N, return_inverse=True)
        weights = {
            name: {number: value[label] for number, label in enumerate(classes.tolist()) if label in value}
            for name, value in self.estimator.get_params().items()
            if name.rpartition("__")[2] == "class_weight" and isinstance(value, Mapping)
        }
        return clone(self.estimator).set_params(**weights) if weights else self.estimator, numbers_N, classes


def _beside(X: Any, y: Any) -> Any:
    """Labels in the order of the rows, where they have ids."""
    return y if index_of(y) is None and not isinstance(y, Mapping) else beside(y, X, "y", what="rows of X")[0]


def _are_among(rows_N: Any, others_N: Any) -> Array:
    """Which rows of a data frame are among others, under the same index with the same values; of anything else none."""
    if index_of(getattr(rows_N, "frame", None)) is None:
        return np.zeros(len(rows_N), dtype=bool)
    rows, others = (zip(part.frame.index, digests_of(part).tolist(), strict=True) for part in (rows_N, others_N))
    known = set(others)
    return np.array([row in known for row in rows], dtype=bool)


def _rows(X: Any, name: str) -> Any:
    """Rows by position: those of a data frame, else of an array."""
    if scipy.sparse.issparse(X):
        raise ValueError(f"{name}: found a sparse matrix, which cannot be used here; pass {name}.toarray()")
    rows_N = by_position(X)
    if isinstance(rows_N, FrameRows):
        return rows_N
    rows_N = as_array(rows_N)
    return rows_N.astype(np.int16) if rows_N.dtype == np.uint8 else rows_N  # a committee takes bytes for pictures
