"""Models of both potential outcomes, made of any model of one number (or of yes and no).

    SLearner     one model of y given [x, t]; asked about [x, 0] and [x, 1] of all points in one call
                 → draw k of both arms has the same parameters: Cov(μ⁰, μ¹) is that of the model
    TLearner     two models, each of y given x, fitted to the labels of one arm
                 → the arms know nothing of each other: Cov(μ⁰, μ¹) = 0

The treatment is the column that is called so (`treatment=`); a model of both arms sees it as the last one. Draws become
`natsel.PotentialOutcomes`, jointly Gaussian values (those of Gaussian processes) `natsel.GaussianPotentialOutcomes`.
docs/theory/causal-bald.md; Künzel et al. 2019 (the names S and T), Jesson et al. 2021.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from natsel.beliefs import Belief, CategoricalSamples, GaussianFeatures, GaussianSamples
from natsel.beliefs.potential_outcomes import GaussianPotentialOutcomes, PotentialOutcomes, both_outcomes
from natsel.causal.arms import both_arms, covariates_of
from natsel.causal.data import treatment_last, treatment_of
from natsel.data.examples import Examples, as_labelled
from natsel.data.frames import FrameRows, joined
from natsel.models.adapter import ModelAdapter
from natsel.models.conversion import as_model
from natsel.models.fingerprints import fingerprint
from natsel.models.protocol import Progress
from natsel.models.rows import Array
from natsel.options import Rows, warn
from natsel.seeds import derive

Outcomes = PotentialOutcomes | GaussianPotentialOutcomes
_NO_AND_YES = ("no", "yes"), ("false", "true")

PropensityFunction = Callable[[Any], Any]
"""Inputs [x, t] → P(T=1|x), one number per point: a fitted `Propensity`, or any function."""


class _OutcomeModel(ABC):
    """What both learners share; subclasses say what is believed about each arm."""

    model: Any
    propensity: PropensityFunction | None
    always_told = ("treatment",)  # in journals, also where it has its default
    _apart = False  # whether each arm has a model of its own
    _adapters: tuple[ModelAdapter, ...]

    def __init__(
        self, model: Any, *, treatment: str | int = "treatment", propensity: PropensityFunction | None = None
    ) -> None:
        if propensity is not None and not callable(propensity):
            raise ValueError(
                f"propensity: expected a function from inputs to P(T=1|x), found {type(propensity).__name__}; fit a"
                " classifier to all inputs first: natsel.causal.Propensity(classifier).fit(inputs)"
            )
        as_model(model)  # refuses a class
        if self._apart:
            _refuse_models_of_both_arms(model)
        # Copies of the whole: of a model that holds another, a shallow one would let both arms share that.
        models = [copy.deepcopy(model) for _ in range(2)] if self._apart else [model]
        self._adapters = tuple(map(ModelAdapter, models))
        self.model, self.treatment, self.propensity = self._adapters[0].model, treatment, propensity

    def __repr__(self) -> str:
        model = type(getattr(self.model, "estimator", self.model)).__name__
        return f"{type(self).__name__}({model}, treatment={self.treatment!r})"

    def __copy__(self) -> Self:
        """A copy that can be fitted to other examples without a change to this one."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._adapters = tuple(adapter.copy() for adapter in self._adapters)
        return other

    @property
    def regression(self) -> Any:
        """Whether outcomes are numbers, where the model says so."""
        return self._adapters[0].model.regression  # type: ignore[attr-defined]  # where it has none, this has none

    @property
    def consistent_draws(self) -> bool:
        """As the model says."""
        return self._adapters[0].consistent_by_design

    def believe(self, inputs: Rows, *, progress: Progress | None = None) -> Outcomes:
        """Both outcomes of each point, one row per input."""
        rows = treatment_last(inputs, self.treatment)
        propensity_N = None if self.propensity is None else self.propensity(inputs)
        control, treated = self._arms(rows, progress)
        return both_outcomes(control, treated, treatment_of(inputs, self.treatment), propensity_N)

    def check_inputs(self, inputs: Rows) -> None:
        """Raise where no column is the treatment, or where the model cannot read what it sees."""
        covariates = covariates_of(rows := treatment_last(inputs, self.treatment))
        self._adapters[0].check_inputs(covariates if self._apart else rows)

    def groups_of(self, inputs: Any) -> Array:
        """The arm of each point: a first batch should have both."""
        return treatment_of(inputs, self.treatment)

    def _as_seen(self, examples: Any) -> Any:
        return examples and replace(examples, inputs=treatment_last(examples.inputs, self.treatment))

    def believe_together(
        self, pool_inputs: Rows, target_inputs: Rows, *, progress: Progress | None = None
    ) -> tuple[Outcomes, Outcomes]:
        """Both outcomes of pool and targets, from one call: also where the features of a model belong to that."""
        belief, split = self.believe(joined(pool_inputs, target_inputs), progress=progress), len(pool_inputs)
        return belief[:split].with_ids(np.arange(split)), belief[split:].with_ids(np.arange(len(target_inputs)))

    @property
    def weights(self) -> Callable[[], dict[str, Tensor]]:
        """Those of all models, where they can give them."""
        parts = [one.model.weights for one in self._adapters]  # type: ignore[attr-defined]
        starts = ("0.", "1.") if self._apart else ("",)
        return lambda: {
            f"{start}{k}": one for start, part in zip(starts, parts, strict=True) for k, one in part().items()
        }

    @property
    def load_weights(self) -> Callable[[dict[str, Tensor]], Any]:
        """Take up the weights of an earlier fit."""
        parts = [one.model.load_weights for one in self._adapters]  # type: ignore[attr-defined]
        starts = ("0.", "1.") if self._apart else ("",)

        def load(weights: dict[str, Tensor]) -> None:
            for start, part in zip(starts, parts, strict=True):
                part({name.removeprefix(start): found for name, found in weights.items() if name.startswith(start)})

        return load

    @abstractmethod
    def _arms(self, inputs: Any, progress: Progress | None) -> tuple[Belief, Belief]:
        """What is believed about the outcome without and with the treatment: in one space, under one `draws_id`."""


class SLearner(_OutcomeModel):
    """One model of the outcome, given covariates and treatment.

    `model` is a model of natsel or a scikit-learn estimator, of numbers or of two classes. `treatment` names the column
    of treatments; in arrays without names it is a number, -1 for the last. `propensity` is a function from inputs to
    P(T=1|x), such as a fitted `Propensity`: the methods propensity and mu-pi-bald need it.

    >>> from sklearn.ensemble import RandomForestRegressor
    >>> labelled = Examples([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [1.0, 3.0, 1.0, 3.0])
    >>> belief = SLearner(RandomForestRegressor(50), treatment=-1).fit(labelled).believe(labelled.inputs)
    >>> belief.mean1_N_K.shape, bool((belief.effect_N > 0.5).all())
    (torch.Size([4, 50]), True)
    """

    def fit(
        self,
        labelled: Examples | Any,
        validation: Examples | Any = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Fit the model afresh. One arm may have no labels yet: the model then says of it what it says of the other."""
        labelled, validation = as_labelled(labelled, validation)
        examples, judged = self._as_seen(_checked(labelled)), self._as_seen(validation)
        _warn_of_leaks(examples)
        self._adapters[0].fit(examples, judged, seed=seed, progress=progress)
        return self

    def predictive(self, inputs: Rows, *, progress: Progress | None = None) -> Belief:
        """What labels are expected: the outcome of the treatment that each point received."""
        return self._adapters[0].predictive(treatment_last(inputs, self.treatment), progress=progress)

    def _arms(self, inputs: Any, progress: Progress | None) -> tuple[Belief, Belief]:
        belief = self._adapters[0].believe(both_arms(inputs), progress=progress)
        ids_N = np.arange(len(inputs))
        return belief[: len(ids_N)].with_ids(ids_N), belief[len(ids_N) :].with_ids(ids_N)


class TLearner(_OutcomeModel):
    """Two copies of a model, one for each arm, given the covariates alone.

    Arguments as for `SLearner`. Draws of the two arms are independent: the k-th of one is paired with the k-th of the
    other. Both arms need labels before the first fit.

    >>> from sklearn.ensemble import RandomForestRegressor
    >>> labelled = Examples([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [1.0, 3.0, 1.0, 3.0])
    >>> model = TLearner(RandomForestRegressor(50), treatment=-1).fit(labelled)
    >>> model.believe(labelled.inputs).effect_N.round(decimals=6).tolist()
    [2.0, 2.0, 2.0, 2.0]
    """

    _apart = True

    def fit(
        self,
        labelled: Examples | Any,
        validation: Examples | Any = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Fit both models afresh, each to the labels of its arm."""
        labelled, validation = as_labelled(labelled, validation)
        examples, judged = self._as_seen(_checked(labelled)), self._as_seen(validation)
        _warn_of_leaks(examples)
        arms = [_of_arm(examples, arm) for arm in (0, 1)]
        for arm, examples in enumerate(arms):
            if len(examples) == 0:
                raise ValueError(
                    f"labelled: none of {len(labelled)} examples has the treatment {arm}, and TLearner has a model for"
                    " each arm; tell the outcome of one that has, which need not have been asked for, or use SLearner"
                )
        for arm, (adapter, examples) in enumerate(zip(self._adapters, arms, strict=True)):
            adapter.fit(
                *(examples, (judged and _of_arm(judged, arm)) or None),
                seed=derive(seed, "arm", arm),
                progress=_half_of(progress, arm),
            )
        return self

    def predictive(self, inputs: Rows, *, progress: Progress | None = None) -> Belief:
        """What labels are expected: the outcome of the treatment that each point received."""
        return self.believe(inputs, progress=progress).observed()

    def _arms(self, inputs: Any, progress: Progress | None) -> tuple[Belief, Belief]:
        rows = covariates_of(inputs)
        control, treated = (
            adapter.believe(rows, progress=_half_of(progress, arm)) for arm, adapter in enumerate(self._adapters)
        )
        draws_id = None
        if control.draws_id is not None and treated.draws_id is not None:
            draws_id = f"t-learner:{fingerprint(control.draws_id, treated.draws_id)}"
        if isinstance(control, GaussianFeatures) and isinstance(treated, GaussianFeatures):
            return _side_by_side(control, treated, draws_id)
        kinds = (GaussianSamples, CategoricalSamples)
        if not isinstance(control, kinds) or not isinstance(treated, kinds):
            return control, treated
        weights = control.log_weights_K, treated.log_weights_K
        if weights[0].shape != weights[1].shape or not torch.allclose(*weights):
            raise ValueError(
                f"model: its draws are {len(weights[0])} without and {len(weights[1])} with the treatment, or weigh"
                " otherwise, and cannot be paired; use a model with as many equal draws in every fit, or SLearner"
            )
        return tuple(arm._trusted(draws_id=draws_id) for arm in (control, treated))  # type: ignore[return-value]


def _checked(labelled: Examples | Any) -> Examples:
    """The examples; with a warning where nothing but the alphabet says which of two outcomes an effect is on."""
    names = labelled.classes
    if len(names) == 2 and tuple(name.lower() for name in names) not in _NO_AND_YES and names[0] < names[1]:
        warn(
            f"labels: outcomes are {names[0]} and {names[1]}, in the order of the alphabet; effects are on the"
            f" probability of {names[1]!r}. Pass classes= in another order to turn them, or number outcomes 0 and 1"
        )
    return labelled


def _warn_of_leaks(examples: Examples) -> None:
    """Warn where a covariate is the outcome, by more than chance."""
    rows, labels_N = covariates_of(examples.inputs), examples.labels
    columns = [one.values for one in rows.columns()] if isinstance(rows, FrameRows) else rows.T
    names = getattr(rows, "names", range(len(columns)))
    equal = [name for name, one in zip(names, columns, strict=True) if np.array_equal(one, labels_N)]
    if equal and (len(np.unique(labels_N)) > 2 or len(labels_N) >= 20):
        found = f"column {equal[0]!r} equals the outcomes of all {len(labels_N)} labelled points"
        warn(f"inputs: {found}; leave it out, as no effect is left beside it")


def _refuse_models_of_both_arms(model: Any) -> None:
    """Raise where a model takes its last column for the treatment: for one arm that would be a covariate."""
    parts = [model, getattr(model, "estimator", None)]
    for part in list(parts):
        parts += part.get_params(deep=True).values() if hasattr(part, "get_params") else ()
    reader = next((part for part in parts if getattr(part, "reads_treatment", False)), None)
    if reader is not None:
        raise ValueError(
            f"model: {type(reader).__name__.lstrip('_')} takes the last column for the treatment, and TLearner shows"
            " each arm its covariates alone; use SLearner, or a model that knows nothing of treatments"
        )


def _of_arm(examples: Examples, arm: int) -> Examples:
    """The covariates and labels of the examples of one arm."""
    chosen_N = np.flatnonzero(treatment_of(examples.inputs, -1) == arm)
    rows = covariates_of(examples.inputs)
    return Examples(rows, examples.labels, examples.classes)[chosen_N]


def _half_of(progress: Progress | None, arm: int) -> Progress | None:
    return progress and (lambda done, total: progress(arm * total + done, 2 * total))


def _side_by_side(
    control: GaussianFeatures, treated: GaussianFeatures, draws_id: str | None
) -> tuple[GaussianFeatures, GaussianFeatures]:
    """Features of two models in one space, in which they are orthogonal: nothing one learns tells about the other."""
    count, first, second = len(control), control.features_N_D.shape[1], treated.features_N_D.shape[1]
    zero_N_D, one_N_D = (control.features_N_D.new_zeros(count, first + second) for _ in range(2))
    zero_N_D[:, :first], one_N_D[:, first:] = control.features_N_D, treated.features_N_D
    return (
        GaussianFeatures(zero_N_D, control.noise_N, draws_id, control.ids, control.mean_N),
        GaussianFeatures(one_N_D, treated.noise_N, draws_id, treated.ids, treated.mean_N),
    )
