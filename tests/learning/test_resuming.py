"""A run is gone on with on its own terms: the same inputs under the same ids, the same model and seed."""

from functools import partial

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from learning.committee import Committee, blobs
from natsel.data.contents import sample
from natsel.data.examples import Examples
from natsel.data.pool import Pool
from natsel.data.sources import from_torch
from natsel.learning import ActiveLearner, TargetInputs
from natsel.models import Dropout, Ensemble
from natsel.models.fingerprints import fingerprint
from natsel.models.networks.architectures import mlp
from natsel.models.networks.training import QUICK, Training
from natsel.store import Journal

ROWS = np.random.default_rng(0).normal(size=(1000, 2))
OTHERS = np.setdiff1d(np.arange(1000), sample(1000))  # what a sample of 64 does not see


def opened(store, inputs=ROWS, **changes):
    arguments = {"model": Committee(), "method": "bald", "k": 2, "ids": None, **changes}
    held = Pool(inputs, ids=arguments.pop("ids"), classes=arguments.pop("classes", ()))
    return ActiveLearner(arguments.pop("model"), held, store=store, **arguments)


@pytest.fixture
def store(tmp_path):
    with opened(tmp_path / "run.db") as one:
        one.tell(np.arange(0, 1000, 2), np.arange(500) % 3)
    return tmp_path / "run.db"


def test_a_pool_whose_rows_were_moved_is_refused(store):
    moved = ROWS.copy()
    moved[OTHERS] = ROWS[np.roll(OTHERS, 1)]
    with pytest.raises(
        ValueError, match=r"pool: 936 of the 1000 points that .*run.db is about hold other inputs now, the"
    ):
        opened(store, moved)
    with opened(store, ROWS.copy()) as one:
        assert one.n_labelled == 500


def test_one_changed_value_is_refused_by_its_id(tmp_path):
    ids, changed = np.arange(1000) * 3, ROWS.copy()
    changed[OTHERS[5], 1] += 1e-12
    opened(tmp_path / "run.db", ids=ids).close()
    found = rf"pool: 1 of the 1000 points .* holds another input now: {ids[OTHERS[5]]}; open it with the inputs as"
    with pytest.raises(ValueError, match=found):
        opened(tmp_path / "run.db", changed, ids=ids)
    with pytest.raises(ValueError, match=r"pool: it lacks 1000 of the 1000 points that .*, the first 0; open it"):
        opened(tmp_path / "run.db", ids=ids + 1)
    with pytest.raises(ValueError, match=r"holds a run of inputs <f8 \(2,\), not <f4 \(2,\); open it as it was"):
        opened(tmp_path / "run.db", ROWS.astype(np.float32), ids=ids)


class Read:
    """A data set that somebody else's code reads."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        return self.rows[place], 0


def lazy(rows):
    return from_torch(Read(rows), labels=np.zeros(len(rows), dtype=int)).inputs


def test_of_inputs_that_must_be_read_those_with_a_label_are_verified(tmp_path):
    labelled = OTHERS[:30]
    with opened(tmp_path / "run.db", lazy(ROWS)) as one:
        one.tell(labelled, np.arange(30) % 3)
    moved = ROWS.copy()
    moved[labelled[[4, 9]]] = ROWS[labelled[[9, 4]]]
    with pytest.raises(
        ValueError, match=rf"pool: 2 of the 30 labels in .*run.db were told for other .* id {labelled[4]}; open"
    ):
        opened(tmp_path / "run.db", lazy(moved))
    elsewhere = ROWS.copy()
    elsewhere[OTHERS[40:]] = 0  # no label belongs to them
    with opened(tmp_path / "run.db", lazy(elsewhere)) as one:
        assert one.n_labelled == 30


def test_a_run_that_was_begun_without_its_points_is_held_to_the_whole_pool(tmp_path):
    with opened(tmp_path / "run.db") as one:
        (run,) = one.journal.runs()
    with Journal(tmp_path / "new.db") as journal:
        journal.tell(journal.begin("main", run.terms), [1, 2], [0, 1])
    with pytest.raises(ValueError, match="holds a run of other inputs or ids; open it as it was"):
        opened(tmp_path / "new.db", ROWS + 1)
    with opened(tmp_path / "new.db") as one:
        assert one.n_labelled == 2
        assert not one.ask().warnings


FOREST = partial(RandomForestClassifier, 30, max_depth=4)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            {"model": FOREST(max_depth=5)},
            r"of another model \(estimator.max_depth: 4 → 5\); open it",
        ),
        (
            {"model": LogisticRegression()},
            r"of another model \(estimator: RandomForestClassifier → LogisticRegression, .*max_depth: 4 → nothing.*",
        ),
        ({"model": Committee()}, r"of another model \(model: Sklearn → Committee, .* more\); open it"),
        ({"seed": 7}, "of seed 0, not 7; open it"),
    ],
)
def test_another_model_is_refused_by_name(tmp_path, change, complaint):
    terms = {
        "model": FOREST(),
        "validation": blobs(30, seed=2),
        "test": blobs(40, seed=3),
        "targets": blobs(200, seed=4),
        "method": "epig",
    }
    opened(tmp_path / "run.db", **terms).close()
    opened(tmp_path / "run.db", **{**terms, "model": FOREST(n_jobs=2, verbose=0, random_state=3)}).close()
    with pytest.raises(ValueError, match=complaint):
        opened(tmp_path / "run.db", **{**terms, **change})


def test_targets_and_examples_count_in_full(tmp_path):
    aims, seen = blobs(200, seed=4).inputs, blobs(200, seed=3)
    others = np.setdiff1d(np.arange(200), sample(200))
    moved, relabelled = aims.copy(), seen.labels.copy()
    moved[others[0]] += 1
    relabelled[others[0]] = (relabelled[others[0]] + 1) % 3
    assert TargetInputs(moved).terms() != TargetInputs(aims).terms()
    opened(tmp_path / "run.db", test=seen).close()
    with opened(tmp_path / "run.db", test=Examples(seen.inputs, relabelled)) as one:
        (run,) = one.journal.runs()
        assert [list(amendment.detail.get("terms", ())) for amendment in run.amendments] == [[], ["test"]]


def counted(classes):
    return lambda: mlp(2, classes)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (LogisticRegression(C=2.0), LogisticRegression(C=2.0, n_jobs=2, verbose=1, random_state=1), True),
        (LogisticRegression(C=2.0), LogisticRegression(C=3.0), False),
        (make_pipeline(StandardScaler(), FOREST()), make_pipeline(StandardScaler(), FOREST()), True),
        (make_pipeline(StandardScaler(), FOREST()), make_pipeline(StandardScaler(with_mean=False), FOREST()), False),
        (GaussianProcessClassifier(RBF(2.0)), GaussianProcessClassifier(RBF(2.0)), True),
        (GaussianProcessClassifier(RBF(2.0)), GaussianProcessClassifier(RBF(3.0)), False),
        (Dropout(mlp(2, 3), device="cpu"), Dropout(mlp(2, 3), device="meta"), True),
        (Dropout(mlp(2, 3)), Dropout(mlp(2, 4)), False),
        (Dropout(mlp(2, 3)), Dropout(mlp(2, 3), draws=8), False),
        (Dropout(mlp(2, 3)), Ensemble(mlp(2, 3)), False),
        (Dropout(mlp(2, 3), training=QUICK), Dropout(mlp(2, 3), training=Training()), False),
        (Dropout(partial(mlp, 2, 3)), Dropout(partial(mlp, 2, 3)), True),
        (Dropout(partial(mlp, 2, 3)), Dropout(partial(mlp, 2, 4)), False),
        (Dropout(counted(3)), Dropout(counted(3)), True),
        (Dropout(counted(3)), Dropout(counted(4)), False),
        (Committee(), Committee(6), True),
        (Committee(), Committee(7), False),
        (object(), object(), True),
    ],
)
def test_models_are_described_by_what_decides(one, other, alike):
    assert (fingerprint(one) == fingerprint(other)) is alike


def test_a_fit_does_not_change_what_a_model_is_called():
    for model in (FOREST(), Dropout(mlp(2, 3), draws=4, training=Training(max_epochs=1)), Committee()):
        before = fingerprint(model)
        with torch.random.fork_rng():
            model.fit(*blobs()) if isinstance(model, RandomForestClassifier) else model.fit(blobs())
        assert fingerprint(model) == before


def test_a_slip_in_a_class_number_is_refused_before_anything_is_written(tmp_path):
    with opened(tmp_path / "run.db", ROWS[:60]) as one:
        one.tell([1, 2], [0, 1])
        for number in (3_000_000, 2**62):
            with pytest.raises(
                ValueError, match=rf"labels: found class {number} for id 7, and 60 points without names"
            ):
                one.tell([4, 7], [0, number])
            with pytest.raises(ValueError, match=rf"labels: found class {number} for id"):
                one.run(10, oracle=lambda ids, number=number: [number] * len(ids))
            one.release(one.outstanding)
        assert one.labelled_ids.tolist() == [1, 2]
        assert len(one.ask()) == 2
    for name in ("test", "validation"):
        with pytest.raises(ValueError, match=f"{name}: found class 3000000 in row 1, and 60 points"):
            opened(None, ROWS[:60], **{name: (ROWS[:2], [0, 3_000_000])})


def test_a_slip_in_an_old_journal_is_named_and_can_be_put_right(tmp_path):
    with opened(tmp_path / "run.db", ROWS[:60]) as one:
        one.tell([1, 2], [0, 1])
        one.journal.tell(one.journal.replay("main"), [7], [3_000_000])
    with opened(tmp_path / "run.db", ROWS[:60]) as one:
        with pytest.raises(ValueError, match="labels: found class 3000000 for id 7, and 60 points"):
            one.ask()
        one.tell([7], [2])
        assert len(one.ask()) == 2
