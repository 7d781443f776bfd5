"""Targets: what is taken, what is refused in one sentence, and when a pool and its targets share their draws."""

import dataclasses
import math

import numpy as np
import pytest
import torch

import natsel
from natsel.beliefs import CategoricalSamples, GaussianFeatures, GaussianSamples, Targets
from natsel.beliefs.targets import check_shared

PROBS = [[[0.9, 0.1], [0.5, 0.5]], [[0.2, 0.8], [0.4, 0.6]], [[0.3, 0.7], [1.0, 0.0]]]


@pytest.fixture
def belief() -> CategoricalSamples:
    return CategoricalSamples.from_probs(PROBS)


@pytest.mark.parametrize("weights", [[3, 0, 1], np.array([3.0, 0.0, 1.0]), torch.tensor([3, 0, 1]), (3, 0, 1)])
def test_weights_are_kept_as_they_are(belief, weights):
    targets = Targets(belief, weights=weights)
    assert targets.weights_M.tolist() == [3.0, 0.0, 1.0]
    assert targets.weights_M.dtype == torch.float64
    assert len(targets) == 3


def test_what_is_not_given_is_none(belief):
    targets = Targets(belief)
    assert targets.weights_M is None
    assert targets.labels_M is None
    assert Targets.of(targets) is targets
    assert Targets.of(belief).belief is belief
    assert natsel.Targets is Targets
    with pytest.raises(dataclasses.FrozenInstanceError):
        targets.weights = [1, 2, 3]


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1, 2], "expected one for each of 3 targets, found shape"),
        ([[1, 2, 3]], "expected one for each of 3 targets, found shape"),
        ([1, -1, 1], "expected numbers from 0 on that do not all vanish"),
        ([0, 0, 0], "expected numbers from 0 on that do not all vanish"),
        ([1, math.nan, 1], "expected numbers from 0 on that do not all vanish"),
        ([1, math.inf, 1], "expected numbers from 0 on that do not all vanish"),
    ],
)
def test_impossible_weights_are_refused(belief, weights, said):
    with pytest.raises(ValueError, match=rf"^target weights: {said}"):
        Targets(belief, weights=weights)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([0, 1], "expected one for each of 3 points"),
        ([0, 1, 2], "classes run from 0 to 1, found 2 at point 2"),
        ([0, -1, 1], "classes run from 0 to 1, found -1 at point 1"),
        ([0.0, 1.0, 1.0], "expected integers"),
        ([True, False, True], "expected integers"),
    ],
)
def test_impossible_labels_are_refused(belief, labels, said):
    with pytest.raises(ValueError, match=rf"^target labels: {said}"):
        Targets(belief, labels=labels)


def test_labels_of_classes_are_integers_and_of_numbers_are_numbers(belief):
    assert Targets(belief, labels=[0, 1, 1]).labels_M.tolist() == [0, 1, 1]
    values = GaussianSamples(torch.zeros(2, 3), 1.0)
    assert Targets(values, labels=[0.5, -2.0]).labels_M.tolist() == [0.5, -2.0]
    with pytest.raises(ValueError, match=r"^target labels: expected one for each of 2 targets"):
        Targets(values, labels=[0.5])


def test_no_targets_are_refused(belief):
    with pytest.raises(ValueError, match=r"^targets: found none"):
        Targets(belief[:0])
    for wrong in (np.zeros((2, 3, 2)), [0.5], "pool", None):
        with pytest.raises(ValueError, match=r"^targets: expected a belief about the targets, found"):
            Targets(wrong)


def test_refusals_are_one_sentence(belief):
    with pytest.raises(ValueError, match="targets") as refusal:
        natsel.score("epig", belief, targets=np.zeros((2, 2, 2)))
    assert "\n" not in str(refusal.value)
    with pytest.raises(ValueError, match="targets: EPIG asks what is learned about targets; pass"):
        natsel.score("epig", belief)


def test_shared_draws(belief):
    check_shared(belief, Targets(belief))
    named = CategoricalSamples.from_probs(PROBS, draws_id="a")
    check_shared(named, Targets(belief))
    check_shared(belief, Targets(named))
    check_shared(named, Targets(CategoricalSamples.from_probs([[[0.1, 0.2, 0.7]] * 2], draws_id="a")))
    with pytest.raises(ValueError, match="their draws are 'b' and those of the pool 'a'"):
        check_shared(named, Targets(CategoricalSamples.from_probs(PROBS, draws_id="b")))
    with pytest.raises(ValueError, match="they come from 1 draws and the pool from 2"):
        check_shared(belief, Targets(CategoricalSamples.from_probs([[[0.5, 0.5]]])))
    with pytest.raises(ValueError, match="weighted otherwise"):
        check_shared(belief, Targets(belief.condition([0], [0])))
    check_shared(belief.condition([0], [0]), Targets(belief.condition([0], [0])))
    with pytest.raises(ValueError, match="found GaussianFeatures for a pool of CategoricalSamples"):
        check_shared(belief, Targets(GaussianFeatures(torch.ones(2, 2), 1.0)))


def test_weights_that_differ_by_rounding_are_the_same(belief):
    log_weights_K = torch.tensor([0.3, 0.7], dtype=torch.float64).log()
    one = CategoricalSamples.from_probs(PROBS, log_weights_K)
    two = CategoricalSamples.from_probs(PROBS, log_weights_K.float())
    check_shared(one, Targets(two))
    none = torch.tensor([0.0, -math.inf])
    check_shared(
        CategoricalSamples.from_probs(PROBS, none), Targets(CategoricalSamples.from_probs(PROBS, none.double()))
    )


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
@pytest.mark.parametrize("name", ["epig", "jepig", "batch-epig", "epig-chi2"])
def test_targets_on_another_device_are_moved(belief, name):
    expected = natsel.select(name, belief, 2, targets=Targets(belief, labels=[0, 1, 1]))
    for pool, targets in ((belief.to("cuda"), belief), (belief, belief.to("cuda"))):
        found = natsel.select(name, pool, 2, targets=Targets(targets, labels=[0, 1, 1]))
        assert found.ids.tolist() == expected.ids.tolist()
        torch.testing.assert_close(found.scores, expected.scores, rtol=1e-6, atol=1e-9)
