"""The self-test must pass every sound model and refuse every way draws were seen to go wrong."""

import numpy as np
import pytest
import torch

import natsel
from natsel.models.consistency import check_consistent

CLASSES, DRAWS = 3, 8
WEIGHTS = np.random.default_rng(1).normal(size=(DRAWS, 4, CLASSES))
POINTS = np.random.default_rng(2).normal(size=(2, 4))


def predict(inputs, weights=WEIGHTS):
    return np.einsum("nd,kdc->nkc", inputs, weights)


def categorical(logits):
    return natsel.CategoricalSamples.from_logits(logits)


def sound(inputs):
    return categorical(predict(inputs))


def rounded(inputs):
    """As an accelerator rounds: not to the last digit the same at every place."""
    logits = predict(inputs)
    return categorical(logits + 1e-3 * np.random.default_rng(len(inputs)).normal(size=logits.shape))


def gaussian(inputs):
    mean_N_K = predict(inputs)[..., 0]
    return natsel.GaussianSamples(mean_N_K, np.ones_like(mean_N_K))


def single(inputs):
    return categorical(np.random.default_rng().normal(size=(len(inputs), 1, CLASSES)))


def features(inputs):
    """No draws: what rotates from call to call is still the same belief."""
    turn, _ = np.linalg.qr(np.random.default_rng().normal(size=(4, 4)))
    return natsel.GaussianFeatures(inputs @ turn)


def certain(inputs):
    return natsel.CategoricalSamples.from_probs(np.tile([[[1.0, 0.0, 0.0]]], (len(inputs), DRAWS, 1)))


@pytest.mark.parametrize("believe", [sound, rounded, gaussian, single, features, certain], ids=lambda f: f.__name__)
def test_sound_models_pass(believe):
    check_consistent(believe, POINTS)
    check_consistent(believe, POINTS[:1])


def masked(inputs, masks_n_K_D):
    return categorical(np.einsum("nkd,kdc->nkc", inputs[:, None] * masks_n_K_D, WEIGHTS))


def fresh_masks_per_point(inputs):
    return masked(inputs, np.random.default_rng(0).random((len(inputs), DRAWS, 4)) < 0.5)


def fresh_masks_per_mini_batch(inputs):
    masks = np.random.default_rng(0)  # seeded anew in each call: two calls agree, two mini-batches do not
    parts = [
        masks.random((1, DRAWS, 4)).repeat(len(part), 0) < 0.5 for part in np.array_split(inputs, -(-len(inputs) // 64))
    ]
    return masked(inputs, np.concatenate(parts))


def fresh_masks_per_call(inputs):
    return masked(inputs, np.random.default_rng().random((1, DRAWS, 4)).repeat(len(inputs), 0) < 0.5)


def shuffled_draws_per_point(inputs):
    order = np.random.default_rng(0)
    return categorical(np.stack([row[order.permutation(DRAWS)] for row in predict(inputs)]))


def batch_statistics(inputs):
    return categorical(predict(inputs - inputs.mean(0)))


def draws_that_come_and_go(inputs):
    return categorical(predict(inputs, WEIGHTS[: 2 + len(inputs) % 4]))


def noisy_numbers(inputs):
    mean_N_K = predict(inputs)[..., 0] + np.random.default_rng(0).normal(size=(len(inputs), DRAWS))
    return natsel.GaussianSamples(mean_N_K, np.ones_like(mean_N_K))


WRONG = [
    (fresh_masks_per_point, "in one call"),
    (fresh_masks_per_mini_batch, "in one call"),
    (fresh_masks_per_call, "in two calls"),
    (shuffled_draws_per_point, "in one call"),
    (batch_statistics, "in two calls"),
    (draws_that_come_and_go, "in two calls"),
    (noisy_numbers, "in one call"),
]


@pytest.mark.parametrize(("believe", "where"), WRONG, ids=lambda value: getattr(value, "__name__", ""))
def test_inconsistent_draws_are_refused_with_the_remedy(believe, where):
    with pytest.raises(ValueError, match=f"{where}.*natsel.models.Dropout"):
        check_consistent(believe, POINTS)


def test_rows_that_are_missing_are_noticed():
    with pytest.raises(ValueError, match="rows came back"):
        check_consistent(lambda inputs: sound(inputs[:-1]), POINTS)
    with pytest.raises(ValueError, match="found none"):
        check_consistent(sound, POINTS[:0])


def test_tensors_are_inputs_too():
    check_consistent(lambda inputs: sound(inputs.numpy()), torch.from_numpy(POINTS))


def test_texts_are_inputs_too():
    def by_length(texts):
        return sound(np.array([[len(text), 1.0, 0.0, 0.0] for text in texts]))

    check_consistent(by_length, np.array(["one", "three"], dtype=object))
