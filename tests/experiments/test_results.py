import json
import math

import numpy as np
import pytest

from made_experiments import made_experiment
from natsel.experiments.results.experiment import Batch, Curve, Experiment


def test_the_numbers_are_strict_json_and_keep_what_was_not_measured():
    holed = Experiment("x", [Curve("random", 0, [1, 2], {"nll": [math.inf, 0.5]}, batches=[Batch([3], [None])])])
    found = json.loads(json.dumps(holed.numbers(), allow_nan=False))
    assert found["curves"][0]["metrics"]["nll"] == [None, 0.5]
    assert found["curves"][0]["batches"][0]["labels"] == [None]


def test_the_numbers_hold_every_run():
    made = made_experiment(methods=2, seeds=2)
    found = json.loads(json.dumps(made.numbers()))
    assert [(curve["method"], curve["seed"]) for curve in found["curves"]] == [
        (curve.method, curve.seed) for curve in made.curves
    ]
    for curve, numbers in zip(made.curves, found["curves"], strict=True):
        assert Curve(**numbers | {"initial": Batch(**numbers["initial"]),
                                  "batches": [Batch(**batch) for batch in numbers["batches"]]}) == curve  # fmt: skip
    assert "thumbnails" not in found


def test_whole_labels_stay_classes_and_numbers_stay_numbers():
    batch = Batch(np.array([1, 2]), np.array([3, 4], dtype=np.uint8), scores=np.float32([0.5, 1]))
    assert all(type(label) is int for label in batch.labels)
    assert all(type(score) is float for score in batch.scores)
    assert all(type(label) is float for label in Batch([1], np.array([3.0])).labels)


def test_acquired_leaves_the_initial_set_out():
    curve = Curve("bald", 0, [2], {}, Batch([7, 8], [0, 1]), [Batch([1, 2], [0, 1]), Batch([3])])
    assert curve.acquired == (1, 2, 3)
    assert curve.acquired_labels == (0, 1, None)
    assert math.isnan(curve.final("accuracy"))


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Batch([1, 2], [0]), "labels: expected one for each of 2 ids"),
        (lambda: Curve("a", 0, [10, 10], {}), "sizes: must grow"),
        (lambda: Curve("a", 0, [10, 20], {"accuracy": [0.5]}), "metrics: expected 2 values of 'accuracy'"),
        (lambda: Curve("a", 0, [10], {}, seconds={"fit": []}), "seconds: expected 1 values of 'fit'"),
        (lambda: Experiment("x", [Curve("a", 0, [], {}), Curve("a", 0, [], {})]), "'a' with seed 0 occurs twice"),
    ],
)
def test_what_does_not_fit_is_refused(make, word):
    with pytest.raises(ValueError, match=word):
        make()
