"""Ambiguous digits: what is kept of the mixtures, that labels follow the distribution given, and that they are kept."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from natsel.data import AmbiguousDigitsSettings, Examples, ambiguous_digits, ambiguous_mnist, dirty_mnist, load
from natsel.data.made_once import made_once

TINY = AmbiguousDigitsSettings(
    n_train=60,
    n_test=20,
    labels_per_picture=50,
    entropy_edges=(0.1, 0.5, 1.0, 2.4),
    max_mutual_information=0.3,
    max_blur=0.5,
    latents=6,
    hidden=64,
    kl_weight=0.1,
    members=2,
    vae_epochs=15,
    classifier_epochs=7,
    batch=64,
    learning_rate=0.01,
)
# Hardly trained: enough to see what depends on the seed.
TINIEST = replace(
    TINY,
    n_train=10,
    n_test=5,
    entropy_edges=(0.0, 2.4),
    max_mutual_information=3.0,
    max_blur=1.0,
    vae_epochs=1,
    classifier_epochs=1,
)


@pytest.fixture(scope="module")
def digits():
    whole = load("digits")
    return replace(whole, train=whole.train[:800])


@pytest.fixture(scope="module")
def made(digits):
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    seen = []
    parts = ambiguous_digits(
        digits.train, digits.test, TINY, seed=3, progress=lambda done, total: seen.append((done, total))
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    assert [done for done, _ in seen] == list(range(1, seen[0][1] + 1))
    return parts


def test_copies_of_a_picture_stand_side_by_side_with_one_distribution(made):
    for part, count in zip(made, (60, 20), strict=True):
        assert part.inputs.shape == (count * 50, 8, 8)
        assert part.inputs.dtype == np.uint8
        np.testing.assert_array_equal(part.masks["group"], np.arange(count).repeat(50))
        np.testing.assert_array_equal(part.inputs, part.inputs[::50].repeat(50, axis=0))
        assert len(np.unique(part.inputs, axis=0)) == count
        assert part.masks["ambiguous"].all()
        np.testing.assert_allclose(part.masks["label_probs"].sum(1), 1)


def test_pictures_are_ambiguous_and_spread_over_classes_and_entropies(made):
    probs_N_C = made[0].masks["label_probs"][::50]
    entropy_N = torch.special.entr(torch.from_numpy(probs_N_C)).sum(1).numpy()
    assert 0.1 <= entropy_N.min() < 0.5 < 1.0 < entropy_N.max() <= 2.4
    assert np.bincount(probs_N_C.argmax(1), minlength=10).min() >= 5  # 6 each where there are as many
    levels = made[0].inputs.reshape(-1, 64) / 255
    assert ((levels * (1 - levels)).sum(1) / levels.sum(1)).max() < 0.51  # rounding to bytes comes after


def test_labels_are_drawn_from_the_distribution(made):
    labels_G_50 = made[0].labels.reshape(60, 50)
    share_G_C = (labels_G_50[:, :, None] == np.arange(10)).mean(1)
    probs_G_C = made[0].masks["label_probs"][::50]
    deviation = np.sqrt((probs_G_C * (1 - probs_G_C) / 50).sum(1).mean())
    assert np.sqrt(((share_G_C - probs_G_C) ** 2).sum(1).mean()) == pytest.approx(deviation, rel=0.2)


def test_the_seed_decides(digits):
    first, again, other = (ambiguous_digits(digits.train[:200], digits.test, TINIEST, seed) for seed in (3, 3, 4))
    for part, same, different in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(part.inputs, same.inputs)
        np.testing.assert_array_equal(part.labels, same.labels)
        assert not np.array_equal(part.inputs, different.inputs)


def test_settings_and_inputs_that_cannot_be(digits):
    with pytest.raises(ValueError, match=r"mixing: expected two weights .* found \(0\.7, 0\.3\)"):
        AmbiguousDigitsSettings(mixing=(0.7, 0.3))
    with pytest.raises(ValueError, match="members: expected 1 or more, found 0"):
        AmbiguousDigitsSettings(members=0)
    with pytest.raises(ValueError, match="entropy_edges: expected two or more rising"):
        AmbiguousDigitsSettings(entropy_edges=(0.5, 0.1))
    with pytest.raises(ValueError, match=r"test: expected pictures of \(8, 8\), found \(4, 8\)"):
        ambiguous_digits(digits.train, Examples(digits.test.inputs[:, :4], digits.test.labels))
    with pytest.raises(ValueError, match="train: expected pictures of two or more classes"):
        ambiguous_digits(digits.train[digits.train.labels == 0], digits.test)


@pytest.fixture
def small_mnist(tmp_path, monkeypatch, made):
    """A folder with an MNIST of five digits, and a maker that counts how often it is called."""
    monkeypatch.setenv("NATSEL_CACHE", str(tmp_path / "cache"))
    x, y = np.zeros((5, 8, 8), np.uint8), np.array([0, 1, 2, 3, 9])
    np.savez(tmp_path / "mnist.npz", x_train=x, y_train=y, x_test=x[:2], y_test=y[:2])
    calls = []

    def maker(train, test, seed):
        calls.append(seed)
        return tuple(part[np.arange(len(part)) % 50 < 10] for part in made)  # ten labels per picture, as by default

    monkeypatch.setattr("natsel.data.ambiguous_parts.ambiguous_digits", maker)
    return tmp_path, calls


def test_they_are_made_once_for_each_seed(small_mnist, made):
    folder, calls = small_mnist
    first, second = load("ambiguous-mnist", folder=folder), load("ambiguous-mnist", folder=folder)
    assert calls == [0]
    for found in (first, second):
        assert (len(found.train), len(found.test), found.train.n_classes) == (600, 200, 10)
        rows = np.arange(3000) % 50 < 10
        np.testing.assert_array_equal(found.train.inputs, made[0].inputs[rows])
        np.testing.assert_array_equal(found.train.labels, made[0].labels[rows])
        np.testing.assert_array_equal(found.train.masks["label_probs"], made[0].masks["label_probs"][rows])
    ambiguous_mnist(seed=7, folder=folder)
    ambiguous_mnist(seed=7, folder=folder)
    assert calls == [0, 7]
    assert len(list((folder / "cache" / "made").iterdir())) == 2


def test_dirty_mnist_is_mnist_then_ambiguous_digits(small_mnist):
    folder, _ = small_mnist
    dirty = load("dirty-mnist", folder=folder)
    assert (len(dirty.train), len(dirty.test)) == (605, 202)
    masks = dirty.train.masks
    np.testing.assert_array_equal(masks["ambiguous"], np.arange(605) >= 5)
    assert masks["label_probs"][:5].argmax(1).tolist() == dirty.train.labels[:5].tolist() == [0, 1, 2, 3, 9]
    assert masks["label_probs"][:5].max(1).min() == 1
    assert masks["group"].tolist() == [*range(5), *np.arange(5, 65).repeat(10)]
    noisy = dirty_mnist(pixel_noise=0.1, folder=folder).train
    np.testing.assert_array_equal(noisy.labels, dirty.train.labels)
    noise = noisy.inputs - dirty.train.inputs / np.float32(255)
    assert noise.dtype == np.float32
    assert noise[:5].std() == pytest.approx(0.1, rel=0.15)  # clear digits have it too: noise tells nothing
    assert noise[5:].std() == pytest.approx(0.1, rel=0.02)
    assert len(np.unique(noisy.inputs, axis=0)) == 605


def test_a_damaged_or_foreign_file_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("NATSEL_CACHE", str(tmp_path))
    wanted = {"x": np.arange(3)}
    path = tmp_path / "made" / "some.npz"
    assert made_once("some", lambda: wanted) is wanted
    np.testing.assert_array_equal(made_once("some", dict)["x"], [0, 1, 2])
    for damage in (lambda: path.write_bytes(b"damaged"), lambda: np.savez(path, x=np.arange(3), sha256="0")):
        damage()
        assert made_once("some", lambda: wanted) is wanted
    assert [one.name for one in path.parent.iterdir()] == ["some.npz"]
