"""scikit-learn estimators that believe: forests, bagging and voting as committees, all others as one draw.

    classifiers   p(y | x, ω_k) = member k's probabilities, one column for each class of the data
    regressors    y | x, ω_k ~ N(member k's prediction, σ²),   σ² = the variance under which labels that the members
                  were not fitted to are likeliest (validation, else out of bag, else cross-validated)

Regressors that follow their labels by definition do so in exact arithmetic only: trees break ties by rounding and take
variances below 2e-16 for none. They see labels of mean 0 and deviation 1, to seven digits; the units are put back.

A data frame reaches the estimator as a data frame, with the names, types and categories of its columns.

`members=20` turns any estimator into a committee: each member is fitted to a bootstrap of the examples, to which one
example of every class that got lost is added, so that all members know all classes and still differ when each class
has a single label. `virtual=20` makes a committee of one model of boosted trees, by what it says after fewer of them.
`weigh_members=True` weighs the members of a regressor by how likely they make labels that none was fitted to:

    w_k ∝ exp(−½ Σ_n residual_nk²/σ²)          over the validation examples

docs/theory/black-box.md; Kirsch 2023, black-box batch active learning.
"""

import contextlib
import copy
import inspect
from collections.abc import Iterator
from dataclasses import replace
from types import FunctionType
from typing import Any, Self

import numpy as np
import sklearn.base
import torch
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from torch import Tensor

from natsel.beliefs import Belief, CategoricalSamples, GaussianSamples
from natsel.beliefs.geometry import Geometry
from natsel.data.contents import fingerprint_of
from natsel.data.examples import Examples, InputForm, as_labelled
from natsel.data.frames import FrameRows, by_position
from natsel.memory import chunked
from natsel.models.estimators.committee import (
    Array,
    Committee,
    bags,
    classifies,
    committee_of,
    crashes_on,
    follows_labels,
    is_committee,
    regresses,
)
from natsel.models.estimators.renumbered import Renumbered
from natsel.models.estimators.virtual_ensemble import TooFewTrees, VirtualEnsemble, has_stages, virtual_ensemble
from natsel.models.fingerprints import fingerprint
from natsel.models.own_geometry import input_geometry, unsure_of
from natsel.models.protocol import Progress, learnt
from natsel.models.rows import numbers_of, place_and_spread, reads_numbers, rows_as_given
from natsel.options import Rows
from natsel.seeds import derive

_FOLDS = 5
_DIGIT = 2.0**-24  # sums of multiples of it are exact, so that splits that are equally good stay so in any units


class Sklearn:
    """A scikit-learn classifier or regressor as a model that believes.

    `estimator` is never changed: every fit clones it, and every `random_state` inside the clone follows from the seed.
    `members` bags it into a committee. `virtual` cuts boosted trees into so many members, or fewer where there are not
    trees enough: scikit-learn, LightGBM, XGBoost, CatBoost. `weigh_members` weighs the members of a regressor by the
    validation examples, which every fit then needs. `smoothing` mixes that much of the uniform distribution into each
    prediction: 0 keeps the exact zeros of a tree's leaves, which make a missed label infinitely unlikely; 0.01 ends
    that. Inputs are flattened and the bytes of pictures scaled to [0, 1]; texts are passed on as they are, for
    pipelines that start with a vectoriser, and so are data frames, for what knows columns by name and type.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> labelled = Examples(np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1]))
    >>> Sklearn(RandomForestClassifier(50)).fit(labelled).believe(np.array([[0.5], [9.0]])).shape
    (2, 50, 2)
    """

    consistent_draws = True

    def __init__(
        self,
        estimator: Any,
        *,
        members: int | None = None,
        smoothing: float = 0.0,
        virtual: int | None = None,
        weigh_members: bool = False,
    ) -> None:
        # A stack predicts once it is fitted.
        predicts = hasattr(estimator, "predict") or classifies(estimator) or regresses(estimator)
        if not (hasattr(estimator, "get_params") and hasattr(estimator, "fit") and predicts):
            raise ValueError(
                f"estimator: expected a scikit-learn classifier or regressor, found {_named(estimator)};"
                " pass one like sklearn.ensemble.RandomForestClassifier()"
            )
        if isinstance(estimator, type):
            raise ValueError(f"estimator: found the class {estimator.__name__}; pass one of it: {estimator.__name__}()")
        if members is not None and members < 2:
            raise ValueError(f"members: a committee needs at least 2, found {members}; leave it out for one model")
        if not 0 <= smoothing < 1:
            raise ValueError(f"smoothing: must be at least 0 and below 1, found {smoothing}; 0.01 is plenty")
        if virtual is not None:
            _check_virtual(estimator, virtual, members)
        self.estimator = estimator
        self.members = members
        self.smoothing = smoothing
        self.virtual = virtual
        self.weigh_members = weigh_members
        self.regression = not classifies(estimator)
        if self.regression and not regresses(estimator):
            raise ValueError(f"estimator: {_named(estimator)} neither classifies nor regresses; pass one that does")
        if weigh_members and not self.regression:
            raise ValueError(
                f"weigh_members: it is for regressors, found {_named(estimator)}; for classes use"
                " belief.condition(points, labels)"
            )
        self._committee: Committee | None = None

    def check_inputs(self, inputs: Rows) -> None:
        """Raise where scikit-learn says of what sees the inputs first that it cannot read them, or votes alone."""
        first, rows = _first_reader(self.estimator), by_position(inputs)
        last = self.estimator.steps[-1][1] if isinstance(self.estimator, Pipeline) else self.estimator
        if _library(last) == "sklearn" and not is_committee(last):
            self._refuse_votes(last)
        self.refuse_crash(rows)
        listed = [names for _, _, names in first.transformers] if isinstance(first, ColumnTransformer) else []
        for name in (one for names in listed for one in (names if isinstance(names, list | tuple) else [names])):
            if isinstance(name, str) and not (isinstance(rows, FrameRows) and name in rows.names):
                raise ValueError(f"inputs: the estimator wants a column {name!r}; pass a data frame that has it")
        options, library = first.get_params(deep=False), _library(first)
        own = {"estimators", "transformers", "transformer_list"} & options.keys()
        own |= {name for name, one in options.items() if isinstance(one, FunctionType)}
        if library in ("lightgbm", "xgboost"):
            reads_numbers(first, rows, ["text"], gaps=False)
        tags = get_tags(first) if library == "sklearn" and not own else None
        if tags and tags.input_tags.two_d_array and not tags.no_validation:
            any_words = tags.input_tags.string or tags.input_tags.categorical or _named(first).endswith("Imputer")
            words = ["text"] if _named(first).startswith("HistGradient") else ["text", "category"]
            reads_numbers(first, rows, [] if any_words else words, gaps=not tags.input_tags.allow_nan)

    def fit(
        self,
        labelled: Examples | Any,
        validation: Examples | Any = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Fit afresh; `validation` only serves a regressor's noise and the weights of its members."""
        labelled, validation = as_labelled(labelled, validation)
        if self.weigh_members and (validation is None or len(validation) == 0):
            raise ValueError(
                "validation: members are weighed by labels that none of them was fitted to, found none; pass validation"
                " examples, or leave weigh_members out"
            )
        inputs_N, labels_N = _rows(labelled.inputs), _labels(labelled, self.regression)
        self._form, self._shape = InputForm.of(labelled.inputs), np.shape(inputs_N)[1:]
        self._place, self._spread = 0.0, 1.0
        if self.regression and follows_labels(self.estimator):
            self._place, self._spread = place_and_spread(labels_N)
            labels_N = np.round((labels_N - self._place) / (self._spread * _DIGIT)) * _DIGIT
        self._classes = 0 if self.regression else labelled.n_classes
        committee = self._fitted(inputs_N, labels_N, seed, progress)
        self._variance = 0.0
        if self.regression:
            held_out = list(self._held_out(committee, inputs_N, labels_N, validation, seed))
            self._variance = noise_variance(held_out, labels_N)
        self._log_likelihood_K: Tensor | None = None
        if self.weigh_members:
            (residuals_V_K,) = held_out
            belief = GaussianSamples(-residuals_V_K, self._variance)
            self._log_likelihood_K = belief.log_likelihood(np.arange(len(belief)), np.zeros(len(belief)))
        self._variance *= self._spread**2
        found = self._place, self._spread, self._variance, self._log_likelihood_K
        self._draws_id = f"sklearn:{fingerprint(self, seed, fingerprint_of(inputs_N), labels_N, *found)}"
        self._committee = committee
        return self

    def believe(self, inputs: Rows, *, progress: Progress | None = None) -> Belief:
        """One row per input, one draw per member."""
        belief = self._predicted(learnt(self._committee), inputs, progress)
        if isinstance(belief, GaussianSamples) and self._log_likelihood_K is not None:
            return belief.reweighted(self._log_likelihood_K)
        return belief

    def predictive(self, inputs: Rows, *, progress: Progress | None = None) -> Belief:
        """What labels are expected: what is believed, but of boosted trees the whole model, as it is its best guess."""
        committee = learnt(self._committee)
        if not isinstance(committee, VirtualEnsemble) or self.weigh_members:
            takes = "progress" in inspect.signature(self.believe).parameters  # a class that derives may not
            return self.believe(inputs, **({"progress": progress} if takes else {}))
        return self._predicted(replace(committee, members=committee.members[-1:]), inputs, progress)

    def geometry(self, inputs: Rows) -> Geometry:
        """By the leaves of trees; of other estimators, and where no tree has split yet, by inputs as they see them."""
        committee, rows = learnt(self._committee), by_position(inputs)
        leaves_N_T, seen_N = committee.leaves_or_rows(self._as_fitted(rows))
        constant = isinstance(committee.members[0], DummyClassifier)  # of the only class so far
        if constant and isinstance(self.estimator, Pipeline) and len(self.estimator) > 1:
            seen_N = self.seeded(0)[:-1].fit_transform(seen_N)
        if leaves_N_T is None or (leaves_N_T == leaves_N_T[:1]).all():
            found = input_geometry(self.predictive, rows, seen_N)
            if leaves_N_T is not None or constant:
                found._set(warnings=("nothing learnt yet that tells points apart: they are compared by their inputs",))
            return found
        return Geometry.of_leaves(leaves_N_T, unsure_of(self.predictive, rows), draws_id=self._draws_id)

    def _predicted(self, committee: Committee, inputs: Any, progress: Progress | None) -> Belief:
        inputs, count = by_position(inputs), len(inputs)

        def predicted(part: slice) -> Tensor:
            inputs_n = self._as_fitted(inputs[part])
            if len(inputs_n) == 0:  # scikit-learn refuses to predict nothing
                shape = (0, len(committee)) if self.regression else (0, len(committee), self._classes)
                return torch.empty(shape)
            if self.regression:
                predictions = torch.from_numpy(committee.means(inputs_n) * self._spread + self._place)
            else:
                predictions = torch.from_numpy(committee.probs(inputs_n, self._classes))
                if self.smoothing:
                    predictions.mul_(1 - self.smoothing).add_(self.smoothing / self._classes)
                predictions.log_()
            if progress is not None:
                progress(part.stop, count)
            return predictions

        width = 8 * (int(np.prod(self._shape)) + len(committee) * max(1, self._classes))
        predictions = chunked(predicted, count, width, torch.device("cpu"))
        weights_K = committee.weights
        log_weights_K: Any = None if weights_K is None else torch.from_numpy(weights_K / weights_K.sum()).log()
        if self.regression:
            variance = torch.full((), self._variance, dtype=torch.float64)
            return GaussianSamples._own(predictions, variance, log_weights_K, draws_id=self._draws_id)
        return CategoricalSamples._own(predictions, log_weights_K, draws_id=self._draws_id)

    def _as_fitted(self, inputs: Any) -> Any:
        """Inputs in the form of those of the fit; refused where they have other columns."""
        inputs = self._form.read(inputs)
        if self._form.is_frame:
            return inputs.frame
        inputs_n = rows_as_given(inputs)
        found, fitted = np.shape(inputs_n)[1:], self._shape
        if found != fitted:
            raise ValueError(f"inputs: fitted to rows of shape {fitted}, found {found}; pass the same features")
        return inputs_n

    def _fitted(self, inputs_N: Any, labels_N: Array, seed: int, progress: Progress | None = None) -> Committee:
        if self.members is None:
            fitted = self._fit_one(inputs_N, labels_N, seed)
            committee = committee_of(fitted, None if self.virtual is None else self._virtual)
            if len(committee) == 1:
                self._refuse_votes(fitted)
            return committee
        members, samples = [], []
        for k in range(self.members):
            sample = _bootstrap(labels_N, derive(seed, "bootstrap", k), keep_classes=not self.regression)
            members.append(self._fit_one(inputs_N[sample], labels_N[sample], derive(seed, "member", k)))
            samples.append(sample)
            if progress is not None:
                progress(k + 1, self.members)
        return Committee(members, samples=samples)

    def _refuse_votes(self, estimator: Any) -> None:
        if not (self.regression or self.members or hasattr(estimator, "predict_proba")):
            raise ValueError(
                f"estimator: {_named(self.estimator)} has no predict_proba; pass members=20 for a committee that votes,"
                " or wrap it in sklearn.calibration.CalibratedClassifierCV"
            )

    def _virtual(self, fitted: Any) -> Committee:
        if not self.regression and len(fitted.classes_) == 1:  # the only class so far, of which little was boosted
            return Committee([fitted])
        return virtual_ensemble(fitted, self.virtual or 1)

    def _fit_one(self, inputs_N: Any, labels_N: Array, seed: int) -> Any:
        rows_N = inputs_N.frame if isinstance(inputs_N, FrameRows) else inputs_N
        self.refuse_crash(inputs_N)
        try:
            return self.seeded(seed).fit(rows_N, labels_N)
        except MemoryError:
            raise
        except Exception as reason:  # libraries have errors of their own
            present = np.unique(labels_N)
            if not self.regression and len(present) == 1:  # most refuse a single class; all would say it
                return DummyClassifier().fit(rows_N, labels_N)
            if not self.regression and present[-1] >= len(present) and not is_committee(self.estimator):
                with contextlib.suppress(Exception):  # the first reason tells more
                    return Renumbered(present, self.seeded(seed).fit(rows_N, np.searchsorted(present, labels_N)))
            said = " ".join(str(reason).split()) or type(reason).__name__
            bagging = "use members= in place of a bagging estimator, " if bags(self.estimator) else ""
            of = (
                f"an array of {inputs_N.dtype}, shape {np.shape(inputs_N)}"
                if rows_N is inputs_N
                else f"a frame {inputs_N!r}"
            )
            raise ValueError(
                f"estimator: {_named(self.estimator)} cannot be fitted to these {len(labels_N)} examples ({said});"
                f" {bagging}label more, or check what it expects: it was given {of}"
            ) from reason

    def refuse_crash(self, inputs_N: Any) -> None:
        """Raise a ValueError where the estimator would end the process when it reads these inputs."""
        if isinstance(inputs_N, FrameRows) and (library := crashes_on(self.estimator, inputs_N)):
            raise ValueError(
                f"estimator: {library} ends the process when it reads texts or categories of polars; pass"
                " frame.to_pandas()"
            )

    def seeded(self, seed: int) -> Any:
        """A copy of the estimator, not fitted, all of its random states from the seed."""
        try:
            estimator = sklearn.base.clone(self.estimator)
        except RuntimeError:  # scikit-learn refuses what an estimator keeps in another form than it was given
            estimator = copy.deepcopy(self.estimator)
        names = [name for name in estimator.get_params() if name.rpartition("__")[2] == "random_state"]
        return estimator.set_params(**{name: derive(seed, "sklearn", name) % 2**31 for name in names})

    def _held_out(
        self, committee: Committee, inputs_N: Any, labels_N: Array, validation: Examples | Any, seed: int
    ) -> Iterator[Array]:
        """Residuals (n, K) of labels the members were not fitted to; NaN where one was."""
        if validation is not None and len(validation):
            labels_V = (_labels(validation, True) - self._place) / self._spread
            yield labels_V[:, None] - committee.means(self._as_fitted(validation.inputs))
        elif committee.samples is not None:
            residuals_N_K = labels_N[:, None] - committee.means(self._as_fitted(inputs_N))
            for k, sample in enumerate(committee.samples):
                residuals_N_K[sample, k] = np.nan
            yield residuals_N_K
        elif len(labels_N) > 1:
            folds = KFold(min(_FOLDS, len(labels_N)), shuffle=True, random_state=derive(seed, "folds") % 2**31)
            for rest, fold in folds.split(labels_N):
                try:
                    there = self._fitted(inputs_N[rest], labels_N[rest], derive(seed, "fold"))
                except TooFewTrees:  # fewer labels than in the fit: what there are shows the noise
                    there = committee_of(self._fit_one(inputs_N[rest], labels_N[rest], derive(seed, "fold")))
                yield labels_N[fold][:, None] - there.means(self._as_fitted(inputs_N[fold]))


def _first_reader(estimator: Any) -> Any:
    """The part that sees the inputs first: the first step of a pipeline, what a search or a wrapper holds."""
    options = estimator.get_params(deep=False) if _library(estimator) == "sklearn" else {}
    steps = [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [options.get("estimator")]
    inner = next((step for step in [*steps, options.get("regressor")] if hasattr(step, "get_params")), None)
    return estimator if inner is None else _first_reader(inner)


def _library(estimator: Any) -> str:
    return type(estimator).__module__.partition(".")[0]


def noise_variance(held_out: list[Array], labels_N: Array) -> float:
    """The σ² that makes held-out labels likeliest: argmax Σ_n log mean_k N(residual_nk; 0, σ²), by EM.

    A residual is NaN where the member saw the label, or where a part has fewer members than another. One member: its
    mean squared residual. Kept above a millionth of the labels' variance, so that a perfect fit stays a distribution.

    >>> float(noise_variance([np.array([[1.0], [-3.0]])], np.array([0.0, 1.0])))
    5.0
    """
    spread = float(np.var(labels_N))
    most = max((residuals.shape[1] for residuals in held_out), default=1)
    squares = [np.pad(part**2, ((0, 0), (0, most - part.shape[1])), constant_values=np.nan) for part in held_out]
    squares_N_K = np.concatenate(squares) if squares else np.empty((0, 1))
    squares_N_K = squares_N_K[~np.isnan(squares_N_K).all(1)]
    if len(squares_N_K) == 0:  # nothing was held out: all that labels vary by may be noise
        return spread or 1.0
    floor = 1e-6 * spread or 1e-12
    squares_N_K = np.where(np.isnan(squares_N_K), np.inf, squares_N_K)
    finite_N_K = np.where(np.isinf(squares_N_K), 0.0, squares_N_K)
    nearest_N_1 = squares_N_K.min(1, keepdims=True)
    variance = max(float((finite_N_K.sum(1) / np.isfinite(squares_N_K).sum(1)).mean()), floor)
    for _ in range(100):
        shares_N_K = np.exp((nearest_N_1 - squares_N_K) / (2 * variance))
        shares_N_K /= shares_N_K.sum(1, keepdims=True)
        before, variance = variance, max(float((shares_N_K * finite_N_K).sum(1).mean()), floor)
        if abs(variance - before) <= 1e-6 * before:
            break
    return variance


def _labels(examples: Examples, regression: bool) -> Array:
    labels_N = np.asarray(examples.labels)
    if regression:
        return numbers_of(labels_N)
    if labels_N.dtype.kind not in "iu":
        raise ValueError(f"labels: a classifier needs whole numbers 0..C−1, found {labels_N.dtype}; number the classes")
    if labels_N.min() < 0:
        raise ValueError(f"labelled: found {(labels_N < 0).sum()} examples without a class; leave them out")
    return labels_N.astype(np.int64)


def _bootstrap(labels_N: Array, seed: int, *, keep_classes: bool) -> Array:
    """Positions drawn with replacement, and one of every class that was not drawn."""
    generator = np.random.default_rng(seed)
    sample = generator.integers(len(labels_N), size=len(labels_N))
    if not keep_classes:
        return sample
    lost = np.setdiff1d(labels_N, labels_N[sample])
    return np.concatenate([sample, [generator.choice(np.flatnonzero(labels_N == c)) for c in lost]]).astype(np.int64)


def _rows(inputs: Any) -> Any:
    """Inputs as an estimator is to see them, so that positions pick rows: a data frame stays one."""
    inputs = by_position(inputs)
    return inputs if isinstance(inputs, FrameRows) else rows_as_given(inputs)


def _check_virtual(estimator: Any, virtual: Any, members: int | None) -> None:
    if isinstance(virtual, bool) or not isinstance(virtual, int) or virtual < 2:
        raise ValueError(f"virtual: expected a number of members from 2 on, found {virtual!r}; 20 is usual")
    if members is not None:
        raise ValueError(
            f"virtual: found with members={members}, and a committee is made in one way; leave one of them out"
        )
    if not has_stages(estimator):
        raise ValueError(
            f"virtual: {_named(estimator)} has no stages to cut off; pass boosted trees such as"
            " sklearn.ensemble.HistGradientBoostingRegressor(), or use members=20"
        )


def _named(estimator: Any) -> str:
    return estimator.__name__ if isinstance(estimator, type) else type(estimator).__name__
