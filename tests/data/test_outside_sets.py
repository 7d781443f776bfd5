"""Pictures from outside: the shape of the set, what is done to them, and classes left out."""

import numpy as np
import pytest

from natsel.data import (
    DataSet,
    Examples,
    changed_pictures,
    leave_out_classes,
    load,
    outside_pictures,
    outside_sets,
)


@pytest.fixture(scope="module")
def photographs():
    """Smooth colour pictures under the name of CIFAR-10."""
    x = np.linspace(0, 255, 32)
    pictures = np.stack([np.add.outer(x, x) / 2, np.subtract.outer(x, x) / 2 + 128, np.add.outer(x, 0 * x)], axis=2)
    part = Examples(np.stack([pictures, pictures[::-1]] * 10).astype(np.uint8), np.arange(20) % 10)
    return DataSet("cifar10", part, part, None, "image", "smooth")


@pytest.mark.parametrize("name", ["uniform-noise", "gaussian-noise", "scrambled-patches", "quarter-turns", "blur-5"])
def test_made_pictures_have_the_shape_of_the_set_and_follow_the_seed(photographs, name):
    for inside in (photographs, load("digits")):
        found = outside_pictures(inside, name, 20, seed=1)
        assert found.shape == (20, *inside.test.inputs.shape[1:])
        assert found.dtype == np.uint8
        np.testing.assert_array_equal(found, outside_pictures(inside, name, 20, seed=1))
        assert not np.array_equal(found, outside_pictures(inside, name, 20, seed=2))


def test_scrambling_and_turning_keep_every_pixel(photographs):
    known = {np.sort(picture, axis=None).tobytes() for picture in photographs.test.inputs}
    for name in ("scrambled-patches", "quarter-turns"):
        found = outside_pictures(photographs, name, 20)
        assert {np.sort(picture, axis=None).tobytes() for picture in found} <= known
        assert not any((picture == photographs.test.inputs[:2]).all((1, 2, 3)).any() for picture in found)


def test_corruptions_grow_with_their_strength():
    digits = load("digits")
    for kind in ("blur", "noise"):
        change = [
            np.abs(np.diff(outside_pictures(digits, f"{kind}-{strength}", 300).astype(float), axis=2)).mean()
            for strength in range(1, 6)
        ]
        weak, strong = (outside_pictures(digits, f"{kind}-{strength}", 300).reshape(300, -1) for strength in (1, 2))
        assert np.corrcoef(weak.ravel(), strong.ravel())[0, 1] > 0.75  # the same pictures, in the same order
        assert (np.diff(change) < 0).all() if kind == "blur" else (np.diff(change) > 0).all()


def test_changed_pictures_keep_their_order_and_so_their_labels(photographs):
    pictures = load("digits").test.inputs
    for change, most in (("blur-1", 30), ("noise-1", 15)):
        found = changed_pictures(pictures, change).astype(float)
        own_N = np.abs(found - pictures).mean((1, 2))
        other_N = np.abs(found - pictures[::-1]).mean((1, 2))
        assert own_N.mean() < most < other_N.mean()
    np.testing.assert_array_equal(changed_pictures(pictures, "noise-3", 1), changed_pictures(pictures, "noise-3", 1))
    with pytest.raises(ValueError, match="change: there is no 'uniform-noise'; there are scrambled-patches, "):
        changed_pictures(pictures, "uniform-noise")
    with pytest.raises(ValueError, match="pictures: expected bytes, pictures × height × width, found float64"):
        changed_pictures(pictures / 255, "blur-1")


@pytest.mark.needs_data("notmnist")
def test_other_sets_are_made_grey_or_coloured_and_get_a_margin(photographs):
    letters = outside_pictures(photographs, "notmnist", 4)
    assert letters.shape == (4, 32, 32, 3)
    assert not letters[:, [0, 1, 30, 31]].any()
    assert letters[:, 2:30, 2:30].max() > 200
    np.testing.assert_array_equal(letters[..., 0], letters[..., 2])


def test_colour_becomes_grey_by_a_central_cut(tmp_path, photographs):
    mnist = DataSet("mnist", *(Examples(np.zeros((3, 28, 28), np.uint8)),) * 2, None, "image", "")
    grey = np.zeros((3, 1, 32, 32), np.uint8)
    grey[1, :, 2, 2] = 100  # packed as differences: all pixels below and to the right
    for part in ("test", *(f"train{number}" for number in range(1, 6))):
        np.savez(tmp_path / f"cifar10_{part}.npz", x_delta=grey, y=np.array([0]))
    found = outside_pictures(mnist, "cifar10", 1, folder=tmp_path)
    assert found.shape == (1, 28, 28)
    assert found.min() == found.max() == 100


def test_the_table_and_its_refusals(photographs):
    assert outside_sets("dirty-mnist") == outside_sets("mnist")
    assert {outside_sets("cifar10")[name] for name in ("mnist", "fashion", "kmnist", "notmnist")} == {"far"}
    with pytest.raises(ValueError, match="outside: there is no 'svhn' for cifar10; there are mnist, "):
        outside_pictures(photographs, "svhn")
    with pytest.raises(ValueError, match="count: 21 pictures wanted, cifar10 has 20; ask for fewer"):
        outside_pictures(photographs, "blur-1", 21)
    with pytest.raises(ValueError, match=r"inside: expected a set of pictures, found iris \(table\)"):
        outside_pictures(load("iris"), "uniform-noise")


def test_classes_left_out_are_outside():
    digits = load("digits")
    eight, outside = leave_out_classes(digits, ("3", "8"))
    assert eight.train.classes == ("0", "1", "2", "4", "5", "6", "7", "9")
    kept = ~np.isin(digits.test.labels, [3, 8])
    np.testing.assert_array_equal(eight.test.inputs, digits.test.inputs[kept])
    np.testing.assert_array_equal(outside.inputs, digits.test.inputs[~kept])
    names = np.array(eight.test.classes)[eight.test.labels]
    np.testing.assert_array_equal(names.astype(int), digits.test.labels[kept])
    assert (outside.labels == -1).all()
