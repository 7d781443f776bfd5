"""A model fitted to the labels of a run: fitted afresh whenever they change, evaluated, and asked what it believes.

A fit is named by a revision, the number of label changes before it. Within a run the revision decides the labels, their
order and the seed of the fit, derive(seed, "fit", revision), and so the fit itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from natsel.beliefs import Belief, ClassProbabilities, seen_as
from natsel.beliefs.geometry import Geometry
from natsel.data.examples import Examples, InputForm, numbered_like
from natsel.data.labels import refuse_class_beyond
from natsel.data.pool import Pool
from natsel.evaluation.classification import rare_class
from natsel.evaluation.of_belief import POSITIVES, evaluate
from natsel.learning.arguments import examples_for
from natsel.learning.run_record import Array, RunRecord
from natsel.learning.set_aside import teaches_junk, with_set_aside
from natsel.models.adapter import ModelAdapter
from natsel.models.consistency import check_consistent
from natsel.models.protocol import Model
from natsel.progress import ProgressBar
from natsel.seeds import derive
from natsel.store import RunState

VALIDATION = "validation "
"""What stands before the name of a metric of the validation examples; metrics of the test examples have no prefix."""


class FittedModel:
    """A model, and the revision of the labels that it was last fitted to."""

    def __init__(
        self, model: Any, pool: Pool, *, seed: int, validation: Any, test: Any, checkpoints: bool, bars: bool, junk: str
    ) -> None:
        self._adapter = ModelAdapter(model)
        self.model = self._adapter.model
        """The user's model, or the model of natsel that it was wrapped into."""
        self.seed, self.checkpoints, self.bars = seed, checkpoints, bars
        if self._adapter.regression:
            pool.expect_numbers()
        elif self._adapter.classification:
            pool.expect_classes()
        self._pool = pool
        self._examples_given = {
            name: examples_for(given, name, pool) for name, given in (("validation", validation), ("test", test))
        }
        self.measures = any(given is not None for given in self._examples_given.values())  # each fit
        self._form = InputForm.of(pool.inputs)
        for inputs in (pool.inputs, *(given.inputs for given in self._examples_given.values() if given is not None)):
            self._adapter.check_inputs(self._form.read(inputs))
        self.teaches_junk = teaches_junk(junk, self.model, pool)
        self.revision = 0
        """The revision of the labels that the model knows; 0 before the first fit."""
        self.labelled: Examples | None = None
        """The examples that the model was fitted to."""
        self._known_consistent = False
        if checkpoints and not self._adapter.keeps_weights:
            raise ValueError(f"checkpoints: {type(self.model).__name__} cannot give its weights; leave checkpoints out")

    @property
    def validation(self) -> Examples | None:
        """What goes to the model's fit beside the labels, with classes numbered as in the pool."""
        return self._numbered("validation")

    @property
    def test(self) -> Examples | None:
        """What the model is evaluated on, with classes numbered as in the pool."""
        return self._numbered("test")

    def _numbered(self, name: str) -> Examples | None:
        given = self._examples_given[name]
        if given is not None and self._pool.renamed:
            given = replace(given, classes=tuple(self._pool.renamed.get(one, one) for one in given.classes))
        return None if given is None else numbered_like(given, self._pool.classes)

    def fit_and_evaluate(self, record: RunRecord, fits: bool = True) -> int:
        """Fit to the labels there are, evaluate on the test and the validation examples and write the round into the
        journal; nothing of this where the model knows these labels already, and not `fits`: the round alone is written.
        """
        state = record.snapshot()  # others may tell more while the model is fitted
        revision = self._revision_of(state)
        if revision and not fits:
            record.journal.record_round(record.run, revision, len(state.values), {}, {})
        if revision == self.revision or not fits:
            return revision
        labelled = self._examples(record, state) if revision else None
        self.revision, self.labelled = 0, None  # a fit that fails leaves no model
        if labelled is None:
            return revision  # all labels there were are disputed
        started = perf_counter()
        self._fit(labelled, revision, record)
        if not (self._known_consistent or self._adapter.consistent_by_design):
            check_consistent(self.believe, record.pool.inputs_of(record.pool.ids[:2]))
            self._known_consistent = True
        self.revision, self.labelled = revision, labelled
        seconds = {"fit": perf_counter() - started}
        if record.journal.has_round(record.run, revision):
            return revision  # evaluated before a kill, or by another client
        metrics: dict[str, float] = {}
        for before, examples in (("", self.test), (VALIDATION, self.validation)):
            if examples is not None:
                started = perf_counter()
                found = evaluate(self.predictive(examples.inputs), examples.labels, details=not before)
                metrics |= {f"{before}{name}": value for name, value in found.items()}
                seconds["evaluate"] = seconds.get("evaluate", 0.0) + perf_counter() - started
                rare = rare_class(examples.labels) if "accuracy" in found and labelled.n_classes == 2 else None
                if rare is not None:
                    metrics.setdefault(POSITIVES, float(np.count_nonzero(labelled.labels == rare)))
        record.journal.record_round(record.run, revision, len(state.values), metrics, seconds)
        return revision

    def predictive(self, inputs: Any) -> Belief:
        """What labels the model expects of inputs, one row for each: without draws, where it can."""
        with self.bar("believe") as bar:
            return self._adapter.predictive(self._form.read(inputs), progress=bar)

    def believe(self, inputs: Any) -> Belief:
        """What the model believes about inputs, one row for each."""
        with self.bar("believe") as bar:
            return self._adapter.believe(self._form.read(inputs), progress=bar)

    def believe_both(self, inputs: Any, targets: Any) -> tuple[Belief, Belief]:
        """What the model believes about inputs and about targets, with the same draws for both."""
        with self.bar("believe") as bar:
            return self._adapter.believe_both(*map(self._form.read, (inputs, targets)), progress=bar)

    def geometry(self, *parts: Any) -> list[Geometry]:
        """How alike the model treats points: one geometry of all parts, cut into theirs."""
        return self._adapter.geometry(*map(self._form.read, parts))

    def fit_copy(self, examples: Examples, seed: int) -> Model:
        """A copy of the model, fitted to other examples; the model itself is left as it is."""
        student = self._adapter.copy()
        with self.bar(f"fit a student to {len(examples)} labels") as bar:
            return student.fit(examples, self.validation, seed=seed, progress=bar).model

    def makes_one_draw(self, record: RunRecord) -> bool:
        """Whether the model's belief is a single draw, whose gain is 0 whatever is asked."""
        return self.believe(record.pool.inputs_of(record.pool.ids[:1])).n_draws == 1

    def predictions(self, points: int, record: RunRecord) -> list[Array]:
        """The classes that each fit so far predicted for the same random part of the pool, kept in the journal."""
        journal, pool, kind = record.journal, record.pool, f"predictions-{points}"
        kept = journal.kept(record.run, kind)
        if self.revision and self.revision not in kept:
            rng = np.random.default_rng(derive(self.seed, "predictions"))
            positions = np.sort(rng.choice(len(pool), min(points, len(pool)), replace=False))
            seen = seen_as(self.believe(pool.inputs_of(pool.ids[positions])), ClassProbabilities)
            if seen is None:
                raise ValueError("stop: Stabilised compares classes; for numbers use GainBelow or a budget")
            journal.keep(record.run, kind, self.revision, {"classes": seen.log_probs_N_C.argmax(-1)})
            kept.append(self.revision)
        found = [journal.fetch(record.run, kind, revision) for revision in kept]
        return [tensors["classes"].numpy() for tensors in found if tensors is not None]

    def _revision_of(self, state: RunState) -> int:
        """What names a fit: the revision of the labels. Where points that were set aside teach as well, each of them
        counts once and each label change twice: a label for a point that was set aside then makes a new name too.
        """
        revision = state.revision if state.values else 0
        return 2 * revision + len(state.skipped) if self.teaches_junk and revision else revision

    def _examples(self, record: RunRecord, state: RunState) -> Examples:
        """What the model is to learn from."""
        labelled = self._with_all_classes(record.labelled(state), state, len(record.pool))
        return with_set_aside(labelled, record.pool, state) if self.teaches_junk else labelled

    def _with_all_classes(self, labelled: Examples, state: RunState, points: int) -> Examples:
        """Examples whose classes, where they have no names, are numbered up to the largest that the labels, the
        validation or the test examples mention: a model must know of classes it has no example of.
        """
        if labelled.classes or labelled.labels.dtype.kind == "f":
            return labelled
        # Journals from before such labels were refused may hold one; a label told again corrects it.
        refuse_class_beyond(labelled.labels, points, "labels", list(state.values))
        parts = [labelled, *(part for part in (self.validation, self.test) if part is not None)]
        count = max(int(np.asarray(part.labels).max(initial=-1)) for part in parts) + 1
        return Examples(labelled.inputs, labelled.labels, tuple(map(str, range(count))))

    def _fit(self, labelled: Examples, revision: int, record: RunRecord) -> None:
        """Fit the model, or load the weights that were kept of this fit."""
        if self.checkpoints:
            weights = record.journal.fetch(record.run, "weights", revision)
            if weights is not None:
                self._adapter.load_weights(weights)
                return
        with self.bar(f"fit to {len(labelled)} labels") as bar:
            seed = derive(self.seed, "fit", revision)
            self._adapter.fit(labelled, self.validation, seed=seed, progress=bar)
        if self.checkpoints:
            record.journal.keep(record.run, "weights", revision, self._adapter.weights())

    @contextmanager
    def bar(self, label: str) -> Iterator[ProgressBar | None]:
        """A bar for work that is wiped when the work ends, or None where no bars are wanted."""
        bar = ProgressBar(label) if self.bars else None
        try:
            yield bar
        finally:
            if bar is not None:
                bar.wipe()
