"""Made sets whose true distribution of labels is known: labels follow it, pictures show it."""

import numpy as np
import pytest

from natsel.data import ambiguous_line, made_scenes, overlapping_gaussians


def test_the_line_has_a_gap_and_two_ambiguous_bands():
    line = ambiguous_line(20_000)
    x, labels, ambiguous = line.inputs[:, 0], line.labels, line.masks["ambiguous"]
    assert 2 <= np.abs(x).min() < 2.01 < 5.99 < np.abs(x).max() <= 6
    for low, high, label in ((-6, -4.51, 0), (-3.49, -2, 1), (2, 3.49, 0), (4.51, 6, 1)):
        assert (labels[(x > low) & (x < high)] == label).all()
        assert not ambiguous[(x > low) & (x < high)].any()
    assert ambiguous.mean() == pytest.approx(0.25, abs=0.02)
    assert labels[ambiguous].mean() == pytest.approx(0.5, abs=0.03)
    np.testing.assert_array_equal(line.masks["label_probs"][~ambiguous].argmax(1), labels[~ambiguous])


def test_gaussians_have_their_moments_and_wrong_labels():
    some = overlapping_gaussians(20_000)
    clean = some.masks["clean"]
    np.testing.assert_allclose(np.cov(some.inputs[clean == 0].T), [[4, 1], [1, 2]], atol=0.12)
    np.testing.assert_allclose(np.cov(some.inputs[clean == 1].T), [[2, -0.5], [-0.5, 3]], atol=0.12)
    np.testing.assert_allclose(some.inputs[clean == 0].mean(0), [0, 5], atol=0.06)
    np.testing.assert_allclose(some.inputs[clean == 2].mean(0), [4.33, -2.5], atol=0.06)
    assert some.masks["noisy"].mean() == pytest.approx(0.04, abs=0.004)
    np.testing.assert_array_equal(some.masks["noisy"], some.labels != clean)
    assert not overlapping_gaussians(100, wrong=0).masks["noisy"].any()
    with pytest.raises(ValueError, match="wrong: expected a probability from 0 to 1, found 2"):
        overlapping_gaussians(wrong=2)


def test_scenes_label_pixels_by_their_distribution():
    scenes = made_scenes(300, size=24, seed=1)
    probs, labels = scenes.masks["label_probs"], scenes.labels
    np.testing.assert_allclose(probs.sum(-1), 1)
    certain = probs.max(-1) == 1
    np.testing.assert_array_equal(labels[certain], probs.argmax(-1)[certain])
    assert 0.1 < (~certain).mean() < 0.5
    for one in range(4):
        for low, high in ((0.05, 0.35), (0.35, 0.65), (0.65, 0.95)):
            chosen = (probs[..., one] > low) & (probs[..., one] < high)
            assert (labels == one)[chosen].mean() == pytest.approx(probs[..., one][chosen].mean(), abs=0.06)
    assert not scenes.masks["unknown"].any()
    brightness = scenes.inputs.astype(float).max(-1)
    assert brightness[probs[..., 0] < 0.01].mean() > brightness[probs[..., 0] == 1].mean() + 100


def test_unknown_objects_have_no_label_and_the_rest_is_as_without_them():
    scenes = made_scenes(50, unknown_shapes=1)
    unknown, touched = scenes.masks["unknown"], scenes.labels == -1
    assert 0.02 < unknown.mean() < touched.mean() < 0.3
    assert touched[unknown].all()
    np.testing.assert_array_equal(np.isnan(scenes.masks["label_probs"]).any(-1), touched)
    plain = made_scenes(50)
    np.testing.assert_array_equal(plain.labels[~touched], scenes.labels[~touched])
    yellow = scenes.inputs[..., :2].min(-1).astype(float) - scenes.inputs[..., 2]  # the colour of a cross alone
    assert yellow[unknown].mean() > yellow[~touched].mean() + 50
    assert not np.array_equal(plain.labels, made_scenes(50, seed=1).labels)
    with pytest.raises(ValueError, match="a width above 0, found 5, 32, 3 and 0, 0"):
        made_scenes(5, border_width=0)
