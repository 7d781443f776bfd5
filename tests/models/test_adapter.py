"""The adapter: each model gets what it takes and nothing else, and its signatures are read once."""

import inspect

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from natsel import CategoricalSamples
from natsel.data.examples import Examples
from natsel.data.pool import Pool
from natsel.learning import fitted_model
from natsel.learning.fitted_model import FittedModel
from natsel.learning.run_record import RunRecord
from natsel.models import BayesianLinear, Ensemble, Frozen, GaussianProcess, ProbitGP, Sklearn, Training, mlp
from natsel.models.adapter import ModelAdapter
from natsel.models.features.embeddings import Backbone
from natsel.store import Journal, Terms

INPUTS = np.random.default_rng(0).normal(size=(12, 2))
LABELLED = Examples(INPUTS, (INPUTS[:, 0] > 0).astype(int))
VALIDATION = Examples(INPUTS[:3], np.array([0, 1, 0]))
NOTHING = object()


def bar(done, total):
    """Somebody who wants to know how far the work is."""


class Believes:
    """Three draws that are the same for every input; keeps what its fit was given."""

    def believe(self, inputs):
        return CategoricalSamples.from_logits(np.asarray(inputs)[:, None] * np.arange(1.0, 4.0)[:, None])

    def keep(self, validation=NOTHING, seed=NOTHING, progress=NOTHING, **others):
        self.got = {"validation": validation, "seed": seed, "progress": progress, **others}


class Bare(Believes):
    def fit(self, labelled):
        self.keep()


class SecondIsTheSeed(Believes):
    def fit(self, labelled, seed=0):
        self.keep(seed=seed)


class SecondIsTheProgress(Believes):
    def fit(self, labelled, progress=None):
        self.keep(progress=progress)


class ByPlaceAlone(Believes):
    def fit(self, labelled, others, /, *, seed=0):
        self.keep(others, seed)


class AnyPlaces(Believes):
    def fit(self, *examples):
        self.keep(*examples[1:])


class AnyKeywords(Believes):
    def fit(self, labelled, **options):
        self.keep(**options)


class Everything(Believes):
    def fit(self, labelled, validation=None, *, seed=0, progress=None):
        self.keep(validation, seed, progress)


@pytest.mark.parametrize(
    ("kind", "taken"),
    [
        (Bare, set()),
        (SecondIsTheSeed, {"seed"}),
        (SecondIsTheProgress, {"progress"}),
        (ByPlaceAlone, {"validation", "seed"}),
        (AnyPlaces, {"validation"}),
        (AnyKeywords, {"seed"}),  # progress only by its name: such a fit may hand its keywords on
        (Everything, {"validation", "seed", "progress"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_fit_gets_what_it_takes(kind, taken):
    adapter = ModelAdapter(kind())
    offered = {"validation": VALIDATION, "seed": 7, "progress": bar}
    assert adapter.fit(LABELLED, VALIDATION, seed=7, progress=bar) is adapter
    assert adapter.model.got == {name: offered[name] if name in taken else NOTHING for name in offered}


def test_without_bars_no_progress_is_passed():
    class Insists(Believes):
        def fit(self, labelled, *, progress=NOTHING):
            self.keep(progress=progress)

    adapter = ModelAdapter(Insists()).fit(LABELLED, seed=0)
    assert adapter.model.got["progress"] is NOTHING


class Shows(Bare):
    """Says who was called, with which progress."""

    def __init__(self):
        self.calls = []

    def believe(self, inputs, *, progress=None):
        self.calls.append(("believe", len(inputs), progress))
        return super().believe(inputs)


class ShowsPredictive(Shows):
    def predictive(self, inputs, *, progress=None):
        self.calls.append(("predictive", len(inputs), progress))
        return super(Shows, self).believe(inputs)


class ShowsTogether(Shows):
    def believe_together(self, pool, targets, progress=None):
        self.calls.append(("together", len(pool), len(targets), progress))
        return super(Shows, self).believe(pool), super(Shows, self).believe(targets)


def test_progress_reaches_whoever_believes():
    for model in (Shows(), ShowsPredictive(), ShowsTogether()):
        adapter = ModelAdapter(model)
        adapter.believe(INPUTS[:2], progress=bar)
        adapter.predictive(INPUTS[:3], progress=bar)
        pool, targets = adapter.believe_both(INPUTS[:4], INPUTS[:5], progress=bar)
        assert (len(pool), len(targets)) == (4, 5)
        predicts = "predictive" if isinstance(model, ShowsPredictive) else "believe"
        both = [("believe", 4, bar), ("believe", 5, bar)]
        together = [("together", 4, 5, bar)]
        assert model.calls == [
            ("believe", 2, bar),
            (predicts, 3, bar),
            *(together if isinstance(model, ShowsTogether) else both),
        ]
    silent = ModelAdapter(Bare())  # its believe takes no progress
    assert len(silent.believe(INPUTS, progress=bar)) == len(silent.predictive(INPUTS, progress=bar)) == 12
    assert len(silent.believe_both(INPUTS, INPUTS[:5], progress=bar)[1]) == 5


def test_what_models_answer_is_checked():
    class Short(Bare):
        def believe(self, inputs):
            return super().believe(inputs[1:])

        predictive = believe

    for ask in ("believe", "predictive"):
        with pytest.raises(ValueError, match="believe gave 11 rows for 12 inputs"):
            getattr(ModelAdapter(Short()), ask)(INPUTS)


def test_estimators_are_wrapped_and_say_what_they_learn():
    numbers, classes, own = (ModelAdapter(model) for model in (Ridge(), LogisticRegression(), Bare()))
    assert type(numbers.model) is type(classes.model) is Sklearn
    assert (numbers.regression, classes.regression, own.regression) == (True, False, False)
    assert type(own.model) is Bare


def test_weights_are_kept_where_both_ways_are_open():
    class Gives(Bare):
        def weights(self):
            return {"scale": 2}

    class Takes(Gives):
        def load_weights(self, weights):
            self.scale = weights["scale"]

    assert [ModelAdapter(kind()).keeps_weights for kind in (Bare, Gives, Takes)] == [False, False, True]
    adapter = ModelAdapter(Takes())
    adapter.load_weights(adapter.weights())
    assert adapter.model.scale == 2


def test_a_copy_is_fitted_alone():
    adapter = ModelAdapter(Everything()).fit(LABELLED, seed=1)
    other = adapter.copy().fit(LABELLED, seed=2)
    assert (adapter.model.got["seed"], other.model.got["seed"]) == (1, 2)


# In a run.


class Noisy(Bare):
    """Other draws for every input, which nothing may be read from jointly."""

    def believe(self, inputs):
        return CategoricalSamples.from_logits(np.random.default_rng().normal(size=(len(inputs), 6, 2)))


def run_of(model, test=None, **changes):
    pool = Pool(INPUTS)
    arguments = {"seed": 3, "validation": VALIDATION, "test": test, "checkpoints": False, "bars": False}
    fitted = FittedModel(model, pool, junk="reject", **(arguments | changes))
    return fitted, RunRecord(Journal(), "main", Terms("some data", "bald", 2, 0), pool)


def fit_to(labels, fitted, record):
    record.tell(range(labels), LABELLED.labels[:labels])
    fitted.fit_and_evaluate(record)


def test_signatures_are_read_once(monkeypatch):
    read, signature = [], inspect.signature
    fitted, record = run_of(ShowsPredictive(), test=VALIDATION)
    monkeypatch.setattr(inspect, "signature", lambda *given: read.append(given) or signature(*given))
    for labels in (2, 4, 6):
        fit_to(labels, fitted, record)
        fitted.believe(INPUTS)
        fitted.believe_both(INPUTS, INPUTS[:2])
        fitted.fit_copy(LABELLED, seed=0)
    assert read == []
    ModelAdapter(ShowsPredictive())
    assert len(read) == 3, "the counter sees them: fit, believe, predictive"


def test_predictive_serves_the_evaluation_alone():
    fitted, record = run_of(ShowsPredictive(), test=VALIDATION)
    fit_to(4, fitted, record)
    # Once for the validation examples, once for the test examples.
    assert [call for call in fitted.model.calls if call[0] == "predictive"] == [("predictive", 3, None)] * 2
    assert {"accuracy", "validation accuracy"} <= set(record.journal.rounds(record.run)[0].metrics)


def test_bars_are_labelled_and_wiped(monkeypatch):
    made = []

    class Told(fitted_model.ProgressBar):
        def __init__(self, label):
            super().__init__(label)
            self.wiped = 0
            made.append(self)

        def wipe(self):
            self.wiped += 1
            super().wipe()

    class Fails(Shows):
        def fit(self, labelled, *, progress=None):
            if len(labelled) == 3:
                raise RuntimeError("no luck")

    monkeypatch.setattr(fitted_model, "ProgressBar", Told)
    fitted, record = run_of(Fails(), bars=True)
    fit_to(2, fitted, record)
    fitted.fit_copy(LABELLED, seed=0)
    with pytest.raises(RuntimeError, match="no luck"):
        fit_to(3, fitted, record)
    assert {one.label for one in made} == {
        "fit to 2 labels",
        "believe",
        "fit a student to 12 labels",
        "fit to 3 labels",
    }
    assert [one.wiped for one in made] == [1] * len(made)
    assert [call[2] for call in fitted.model.calls] == [one for one in made if one.label == "believe"]


def frozen(head, folder):
    rows = Backbone("rows", 2, lambda inputs: np.asarray(inputs, dtype=np.float32))
    return Frozen(rows, head, cache=folder)


def test_what_declares_its_draws_consistent_is_not_tested(monkeypatch, tmp_path):
    tested = []
    monkeypatch.setattr(fitted_model, "check_consistent", lambda believe, inputs: tested.append(believe))

    class Derived(Sklearn):
        def believe(self, inputs):
            return super().believe(inputs)

    own = [
        LogisticRegression(),
        Ensemble(mlp(2, 2), 2, Training(max_epochs=1), device="cpu"),
        ProbitGP(draws=10),
        frozen(LogisticRegression(), tmp_path),
    ]
    for model in (*own, Bare(), Derived(LogisticRegression(), members=2), frozen(Bare(), tmp_path)):
        fitted, record = run_of(model)
        for labels in (9, 12):
            fit_to(labels, fitted, record)
        assert tested == ([] if model in own else [fitted.believe]), type(model).__name__
        tested.clear()


def test_draws_that_are_not_consistent_are_refused_under_a_backbone_too(tmp_path):
    for model in (Noisy(), frozen(Noisy(), tmp_path), frozen(lambda features, classes: Noisy(), tmp_path)):
        fitted, record = run_of(model)
        with pytest.raises(ValueError, match="two copies of one point got different draws"):
            fit_to(4, fitted, record)
        assert fitted.revision == 0


def test_a_head_need_not_take_more_than_examples(tmp_path):
    model = frozen(Bare(), tmp_path).fit(LABELLED, VALIDATION, seed=1, progress=bar)
    assert model.believe(INPUTS, progress=bar).shape == (12, 3, 2)


def test_a_process_as_a_head_believes_about_pool_and_targets_together(tmp_path):
    from sklearn.gaussian_process import GaussianProcessRegressor

    numbers = Examples(INPUTS, INPUTS[:, 0])
    for head in (GaussianProcess(GaussianProcessRegressor(alpha=0.1, optimizer=None)), BayesianLinear(1.0, 0.1)):
        adapter = ModelAdapter(frozen(head, tmp_path)).fit(numbers, seed=0)
        pool, targets = adapter.believe_both(INPUTS[:7], INPUTS[7:], progress=bar)
        assert pool.draws_id == targets.draws_id
        assert (len(pool), len(targets)) == (7, 5)
        assert adapter.consistent_by_design
