"""A model and the labels it was fitted to: fitted afresh when they change, evaluated, and asked what it believes.

A fit is named by `told`, how often a label was new or different before it: within a run that names the labels, their
order and the seed, and so the fit itself.
"""

import copy
import inspect
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from natsel.beliefs import Belief, CategoricalSamples
from natsel.data.examples import Examples
from natsel.data.labels import refuse_class_beyond
from natsel.data.pool import Pool
from natsel.evaluation.of_belief import evaluate, predictive
from natsel.learning.checks import as_examples
from natsel.learning.junk import checked_junk, exposed
from natsel.learning.record import Array, Record
from natsel.models.consistency import check_consistent
from natsel.models.conversion import as_model
from natsel.models.joint_beliefs import believe_both
from natsel.models.protocol import Model, checked_belief
from natsel.progress import Bar
from natsel.seeds import derive
from natsel.store import State


class Fitting:
    """A model that follows the labels of a record."""

    def __init__(
        self,
        model: Any,
        seed: int,
        pool: Pool,
        validation: Any,
        test: Any,
        checkpoints: bool,
        bars: bool = False,
        junk: str = "reject",
    ) -> None:
        self.model: Model = as_model(model)
        self.seed, self.checkpoints, self.bars = seed, checkpoints, bars
        if getattr(self.model, "regression", False) is True:
            pool.expect_numbers()
        self.validation, self.test = as_examples(validation, "validation", pool), as_examples(test, "test", pool)
        self.expose = checked_junk(junk, self.model, pool)
        self.told = 0
        """Which labels the model knows; 0 before the first fit."""
        self.labelled: Examples | None = None
        """What the model learnt from."""
        self._consistent = type(self.model).__module__.split(".")[0] == "natsel"
        if checkpoints and not (hasattr(self.model, "weights") and hasattr(self.model, "load_weights")):
            raise ValueError(f"checkpoints: {type(self.model).__name__} cannot give its weights; leave checkpoints out")

    def refresh(self, record: Record) -> None:
        """Fit and evaluate, unless that was done for the labels there are."""
        state = record.now()  # others may tell more while the model is fitted
        told = self._revision(state)
        if told == self.told:
            return
        labelled = self._examples(record, state)
        self.told, self.labelled = 0, None  # a fit that fails leaves no model
        started = perf_counter()
        self._fit(labelled, told, record)
        if not self._consistent:
            check_consistent(self.believe, record.pool.inputs_of(record.pool.ids[:2]))
            self._consistent = True
        self.told, self.labelled = told, labelled
        seconds = {"fit": perf_counter() - started}
        if record.journal.has_round(record.run, told):
            return  # evaluated before a kill, or by another client
        metrics: dict[str, float] = {}
        if self.test is not None:
            started = perf_counter()
            say = getattr(self.model, "predictive", self.model.believe)  # without draws, where a model can
            belief = checked_belief(self._calling(say, "believe")(self.test.inputs), self.test.inputs)
            metrics = evaluate(belief, self.test.labels)
            seconds["evaluate"] = perf_counter() - started
        record.journal.record_round(record.run, told, len(state.values), metrics, seconds)

    def believe(self, inputs: Any) -> Belief:
        """What the model believes about inputs, one row each."""
        return checked_belief(self._calling(self.model.believe, "believe")(inputs), inputs)

    def believe_both(self, inputs: Any, targets: Any) -> tuple[Belief, Belief]:
        """What the model believes about inputs and about targets, with the same draws for both."""
        return believe_both(self.model, inputs, targets, calling=partial(self._calling, label="believe"))

    def another(self, examples: Examples, seed: int) -> Model:
        """A model like this one, fitted to other examples; this one is left as it is."""
        model = copy.copy(self.model)
        fit = self._calling(model.fit, f"fit a student to {len(examples)} labels", seed=seed)
        fit(*((examples, self.validation) if _takes_validation(model.fit) else (examples,)))
        return model

    def _examples(self, record: Record, state: State) -> Examples:
        """What the model is to learn from."""
        labelled = self._with_classes(record.labelled(state), state, len(record.pool))
        return exposed(labelled, record.pool, state) if self.expose else labelled

    def _revision(self, state: State) -> int:
        """What names a fit: how often a label was new or different. Where points set aside teach as well, each of them
        counts, and a label counts twice, so that one for a point that was set aside makes a new name too.
        """
        return 2 * state.told + len(state.skipped) if self.expose and state.told else state.told

    def makes_one_draw(self, record: Record) -> bool:
        """Whether the model's belief is a single draw, whose gain is 0 whatever is asked."""
        log_weights_K = getattr(self.believe(record.pool.inputs_of(record.pool.ids[:1])), "log_weights_K", None)
        return log_weights_K is not None and len(log_weights_K) == 1

    def predictions(self, points: int, record: Record) -> list[Array]:
        """The classes that each fit so far predicted for the same random part of the pool, kept in the journal."""
        journal, pool, kind = record.journal, record.pool, f"predictions-{points}"
        kept = journal.kept(record.run, kind)
        if self.told and self.told not in kept:
            draw = np.random.default_rng(derive(self.seed, "predictions"))
            positions = np.sort(draw.choice(len(pool), min(points, len(pool)), replace=False))
            belief = self.believe(pool.inputs_of(pool.ids[positions]))
            if not isinstance(belief, CategoricalSamples):
                raise ValueError("stop: Stabilised compares classes; for numbers use GainBelow or a budget")
            journal.keep(record.run, kind, self.told, {"classes": predictive(belief).argmax(-1)})
            kept.append(self.told)
        found = [journal.fetch(record.run, kind, told) for told in kept]
        return [tensors["classes"].numpy() for tensors in found if tensors is not None]

    def _fit(self, labelled: Examples, told: int, record: Record) -> None:
        model: Any = self.model
        if self.checkpoints:
            weights = record.journal.fetch(record.run, "weights", told)
            if weights is not None:
                model.load_weights(weights)
                return
        fit = self._calling(model.fit, f"fit to {len(labelled)} labels", seed=derive(self.seed, "fit", told))
        if _takes_validation(model.fit):
            fit(labelled, self.validation)
        else:
            fit(labelled)
        if self.checkpoints:
            record.journal.keep(record.run, "weights", told, model.weights())

    def _calling(self, function: Any, label: str, **offered: Any) -> Callable[..., Any]:
        """A function with those keywords it takes of the ones offered, and a bar where bars are wanted."""
        takes = inspect.signature(function).parameters
        anything = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in takes.values())
        given = {name: value for name, value in offered.items() if anything or name in takes}
        if not self.bars or "progress" not in takes:
            return partial(function, **given)

        def call(*arguments: Any) -> Any:
            bar = Bar(label)
            try:
                return function(*arguments, progress=bar, **given)
            finally:
                bar.wipe()

        return call

    def _with_classes(self, labelled: Examples, state: State, points: int) -> Examples:
        """Examples whose classes, where they have no names, are numbered up to the largest that anybody mentioned: a
        model must know of classes it has no example of.
        """
        if labelled.classes or labelled.labels.dtype.kind == "f":
            return labelled
        # Journals from before such labels were refused may hold one; told again, it is put right.
        refuse_class_beyond(labelled.labels, points, "labels", list(state.values))
        parts = [labelled, *(part for part in (self.validation, self.test) if part is not None)]
        count = max(int(np.asarray(part.labels).max(initial=-1)) for part in parts) + 1
        return Examples(labelled.inputs, labelled.labels, tuple(map(str, range(count))))


def _takes_validation(fit: Any) -> bool:
    """Whether a model's fit has room for validation examples after the labelled ones."""
    kinds = inspect.Parameter
    takes = inspect.signature(fit).parameters.values()
    places = [one for one in takes if one.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    more = [one for one in places[1:2] if one.name not in ("seed", "progress")]
    return bool(more) or any(one.kind is kinds.VAR_POSITIONAL for one in takes)
