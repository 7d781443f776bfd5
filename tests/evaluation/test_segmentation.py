"""Patches, IoU and soft masks: by hand, by loops, and beside torchmetrics."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from natsel.evaluation import (
    intersection_over_union,
    mean_iou,
    patch_counts,
    patch_sweep,
    qubiq_score,
    soft_mask,
)


def made(seed, height=7, width=5):
    rng = np.random.default_rng(seed)
    labels_N_H_W = rng.integers(3, size=(2, height, width))
    labels_N_H_W[rng.random(labels_N_H_W.shape) < 0.1] = 255
    wrong = rng.random(labels_N_H_W.shape) < 0.5
    predicted_N_H_W = np.where(wrong, rng.integers(3, size=labels_N_H_W.shape), labels_N_H_W % 255)
    return predicted_N_H_W, labels_N_H_W, rng.random(labels_N_H_W.shape)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 1000), st.integers(1, 8), st.floats(0.2, 0.8))
def test_patches_counted_in_loops(seed, window, threshold):
    predicted, labels, uncertainty = made(seed)
    counted = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}
    for n in range(2):
        for top in range(0, 7, window):
            for left in range(0, 5, window):
                part = n, slice(top, top + window), slice(left, left + window)
                kept = labels[part] != 255
                if kept.any():
                    accurate = (predicted[part] == labels[part])[kept].mean() > 0.5
                    counted[bool(accurate), bool(uncertainty[part][kept].mean() > threshold)] += 1
    found = patch_counts(predicted, labels, uncertainty, window, threshold, ignored=255)
    assert found.accurate_certain == counted[True, False]
    assert found.accurate_uncertain == counted[True, True]
    assert found.inaccurate_certain == counted[False, False]
    assert found.inaccurate_uncertain == counted[False, True]


def test_the_three_shares_and_their_ends():
    predicted, labels, uncertainty = made(1)
    low, high = (patch_counts(predicted, labels, uncertainty, 2, end, 255) for end in (-math.inf, math.inf))
    accurate = high.accurate_certain / (high.accurate_certain + high.inaccurate_certain)
    assert high.pavpu == accurate == high.accurate_if_certain
    assert low.pavpu == pytest.approx(1 - accurate)
    assert math.isnan(low.accurate_if_certain)
    assert (low.uncertain_if_inaccurate, high.uncertain_if_inaccurate) == (1, 0)
    knowing = patch_counts(predicted, labels, predicted != labels, 1, 0.5)
    assert (knowing.pavpu, knowing.accurate_if_certain, knowing.uncertain_if_inaccurate) == (1, 1, 1)


def test_a_sweep_is_every_threshold_alone():
    data = made(2)
    swept = patch_sweep(*data, window=2, thresholds=5, ignored=255)
    assert swept == [patch_counts(*data, 2, one.threshold, 255) for one in swept]
    assert swept[-1].accurate_uncertain == swept[-1].inaccurate_uncertain == 0
    assert sorted(one.threshold for one in swept) == [one.threshold for one in swept]


def test_half_of_the_pixels_right_is_not_accurate():
    found = patch_counts([[[0, 1]]], [[[0, 0]]], [[[0.0, 0.0]]], window=2, threshold=0.0)
    assert found.inaccurate_certain == 1


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"window": 0}, "window"),
        ({"uncertainty_N_H_W": [[[math.nan]]]}, "NaN"),
        ({"labels_N_H_W": [[0]]}, "images × height × width"),
        ({"ignored": 0}, "every pixel is ignored"),
        ({"thresholds": 0}, "thresholds"),
        ({"thresholds": [math.nan]}, "thresholds"),
    ],
)
def test_bad_images_are_refused(change, word):
    sound = {"predicted_N_H_W": [[[0]]], "labels_N_H_W": [[[0]]], "uncertainty_N_H_W": [[[0.1]]], "window": 1}
    with pytest.raises(ValueError, match=word):
        patch_sweep(**(sound | change))


def test_intersection_over_union_by_sets():
    predicted, labels, _ = made(3)
    kept = labels != 255
    found_C = intersection_over_union(predicted, labels, classes=4, ignored=255)
    for one in range(3):
        said, seen = (predicted == one) & kept, (labels == one) & kept
        assert found_C[one] == (said & seen).sum() / (said | seen).sum()
    assert math.isnan(found_C[3])
    assert mean_iou(predicted, labels, 4, 255) == pytest.approx(float(found_C[:3].mean()))
    with pytest.raises(ValueError, match="labels: classes run from 0 to 2, found 0 to 255"):
        mean_iou(predicted, labels, 3)
    with pytest.raises(ValueError, match="one per pixel"):
        mean_iou([0, 1], [0], 2)


def test_soft_masks_and_their_score():
    predicted = torch.tensor([[0, 1], [1, 0]])
    sure, unsure = (soft_mask(predicted, torch.full((2, 2), u)) for u in (0.0, 0.5))
    assert torch.equal(sure, predicted.double())
    assert bool((unsure == 0.5).all())
    assert qubiq_score(sure, predicted) == 1
    assert qubiq_score(torch.zeros(2, 2), torch.zeros(2, 2)) == 1
    assert qubiq_score(1 - sure, predicted) == 0
    # Three annotators of four at the first pixel: right up to 0.7, empty against nothing from 0.8 on.
    assert qubiq_score([0.75, 0.0], [0.75, 0.0]) == 1
    assert qubiq_score([1.0, 0.0], [0.75, 0.0]) == pytest.approx(7 / 9)
    with pytest.raises(ValueError, match=r"from 0 to 0\.5"):
        soft_mask([0, 1], [0.1, 0.7])
    with pytest.raises(ValueError, match="binary mask"):
        soft_mask([0, 2], [0.1, 0.2])
    with pytest.raises(ValueError, match="two equal shapes"):
        qubiq_score([0.5], [0.5, 0.5])


@pytest.mark.slow
def test_torchmetrics_has_the_same_iou():
    functional = pytest.importorskip("torchmetrics").functional
    predicted, labels, _ = (torch.tensor(some) for some in made(4, 40, 30))
    expected = functional.jaccard_index(
        predicted, labels, task="multiclass", num_classes=3, ignore_index=255, average="none"
    )
    assert torch.allclose(intersection_over_union(predicted, labels, 3, 255).float(), expected)
    expected = functional.jaccard_index(predicted, labels, task="multiclass", num_classes=3, ignore_index=255)
    assert mean_iou(predicted, labels, 3, 255) == pytest.approx(float(expected), abs=1e-6)


def test_ignored_pixels_may_be_nan_and_other_nan_is_refused():
    found = patch_counts([[[0, 1]]], [[[0, 9]]], [[[0.1, math.nan]]], window=2, threshold=0.2, ignored=9)
    assert found.accurate_certain == 1
    with pytest.raises(ValueError, match="both infinities"):
        patch_counts([[[0, 1]]], [[[0, 0]]], [[[math.inf, -math.inf]]], window=2, threshold=0.0)
    for predicted, labels, word in (([0, 1.5], [0, 1], "predicted: .* fractions"), ([0], [9], "no pixel that counts")):
        with pytest.raises(ValueError, match=word):
            mean_iou(predicted, labels, 2, ignored=9)
