"""Data sets by name: what is always there, what is read from files, and what is said when it is not."""

import numpy as np
import pytest

from natsel.data import MNIST_INITIAL, AbsentData, gp_line, load, names, two_bells, two_moons
from natsel.data.folders import cache_folder, data_folders, find
from natsel.data.made import MADE
from natsel.data.stored import STORED


@pytest.mark.parametrize("name", sorted(MADE))
def test_sets_that_are_always_there(name):
    found = load(name)
    assert found.name == name
    assert len(found.train) > len(found.test) / 2 > 0
    assert found.train.inputs.dtype == (np.uint8 if found.kind == "image" else np.float32)
    assert np.isfinite(found.train.inputs).all()
    again = load(name)
    np.testing.assert_array_equal(found.train.inputs, again.train.inputs)
    np.testing.assert_array_equal(found.test.labels, again.test.labels)
    if name != "diabetes":
        assert set(np.unique(found.train.labels)) == set(range(len(found.train.classes)))
    else:
        assert found.train.labels.dtype.kind == "f"


def test_digits_are_those_of_scikit_learn_on_the_scale_of_images():
    from sklearn.datasets import load_digits

    images, target = load_digits().images, load_digits().target
    found = load("digits")
    rows = np.concatenate([found.train.masks["row"], found.test.masks["row"]])
    assert sorted(rows) == list(range(1797))
    both = np.concatenate([found.train.inputs, found.test.inputs])
    np.testing.assert_array_equal(np.round(both / 255 * 16), images[rows])
    np.testing.assert_array_equal(np.concatenate([found.train.labels, found.test.labels]), target[rows])
    assert repr(found).startswith("DataSet('digits': 1258 train, 539 test;")


def test_two_moons_without_noise_lie_on_their_circles():
    moons = two_moons(200, noise=0)
    upper, lower = moons.inputs[moons.labels == 0], moons.inputs[moons.labels == 1]
    assert len(upper) == len(lower) == 100
    np.testing.assert_allclose(np.linalg.norm(upper, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(lower - [1, 0.5], axis=1), 1, rtol=1e-5)
    assert upper[:, 1].min() >= 0
    assert lower[:, 1].max() <= 0.5


def test_the_line_follows_its_covariance():
    draws = np.stack([gp_line(3, length_scale=2.0, seed=seed).labels for seed in range(4000)])
    near, far = np.exp(-4 / 8), np.exp(-16 / 8)
    expected = np.array([[2, near, far], [near, 2, near], [far, near, 2]])
    np.testing.assert_allclose(np.cov(draws.T), expected, atol=0.15)
    assert abs(draws.mean()) < 0.05


def test_two_bells_follow_their_formula():
    bells = two_bells(50_000)
    x, y = bells.inputs[:, 0], bells.inputs[:, 1]
    np.testing.assert_allclose(np.var(bells.inputs, axis=0), 0.8 * 5 / 3, rtol=0.1)  # Student-t: scale · ν/(ν−2)
    clear = np.abs(np.tanh(2 * x) - y) > 0.2
    np.testing.assert_array_equal(bells.labels[clear], (np.tanh(2 * x) > y)[clear])
    near = np.abs(np.tanh(2 * x) - y) < 0.005
    assert 0.4 < bells.labels[near].mean() < 0.6
    assert not np.array_equal(bells.inputs, two_bells(50_000, seed=1).inputs)


def test_every_name_has_a_line_and_a_wrong_one_gets_a_hint():
    assert set(names()) == {*MADE, *STORED}
    assert all(0 < len(about) < 90 for about in names().values())
    with pytest.raises(ValueError, match="no data set 'minst'; did you mean 'mnist'"):
        load("minst")
    with pytest.raises(ValueError, match="did you mean 'uci-wine-red'"):
        load("UCI_wine_red")
    with pytest.raises(ValueError, match=r"natsel\.data\.names\(\)"):
        load("qqqqqq")


def test_an_absent_file_is_named_with_the_places_looked_in(tmp_path, monkeypatch):
    with pytest.raises(AbsentData, match=rf"mnist\.npz is not on this machine \(looked in {tmp_path}\); fetch it with"):
        load("mnist", folder=tmp_path)
    with pytest.raises(AbsentData, match=r"the file uci_yacht\.npz or uci_regression\.npz is not on this machine"):
        load("uci-yacht", folder=tmp_path)
    monkeypatch.setenv("NATSEL_DATA", str(tmp_path / "mine"))
    monkeypatch.setenv("NATSEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    assert data_folders() == (tmp_path / "mine", tmp_path / "cache" / "data")
    monkeypatch.delenv("NATSEL_DATA")
    assert data_folders() == (tmp_path / "cache" / "data",)
    assert cache_folder() == tmp_path / "cache"


def test_the_first_folder_that_has_a_file_wins(tmp_path, monkeypatch):
    for place in ("mine", "cache/data"):
        (tmp_path / place).mkdir(parents=True)
        np.savez(tmp_path / place / "reg_fried.npz", x=np.full((10, 10), len(place)), y=np.arange(10.0))
    monkeypatch.setenv("NATSEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NATSEL_DATA", str(tmp_path / "mine"))
    assert find("reg-fried", ["absent.npz", "reg_fried.npz"]).parent.name == "mine"
    fried = load("reg-fried")
    assert (fried.train.inputs == 4).all()
    assert sorted([*fried.train.labels, *fried.test.labels]) == list(range(10))
    (tmp_path / "mine" / "reg_fried.npz").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"reg_fried\.npz is damaged"):
        load("reg-fried")


@pytest.mark.parametrize(
    ("name", "train", "test", "shape", "classes"),
    [
        pytest.param(*row, marks=pytest.mark.needs_data(row[0]))
        for row in [
            ("mnist", 60_000, 10_000, (28, 28), 10),
            ("kmnist", 8_000, 2_000, (28, 28), 10),
            ("notmnist", 8_000, 2_000, (28, 28), 10),
            ("ocr-letters", 47_535, 4_617, (16, 8), 26),
            ("clinc150", 15_000, 4_500, (), 150),
            ("clinc150-oos", 15_100, 5_500, (), 150),
            ("sst2", 6_920, 1_821, (), 2),
            ("cola", 8_551, 516, (), 2),
            ("trec", 5_452, 500, (), 6),
            ("ag-news", 6_080, 1_520, (), 4),
            ("ihdp", 672, 75, (26,), 0),
            ("uci-vowel", 528, 462, (10,), 11),
            ("uci-satellite", 4_435, 2_000, (36,), 6),
            ("uci-letter", 16_000, 4_000, (16,), 26),
            ("uci-boston", 455, 51, (13,), 0),
            ("uci-bike", 15_642, 1_737, (15,), 0),
            ("reg-sgemm", 193_280, 48_320, (14,), 0),
            ("reg-diamonds", 43_152, 10_788, (9,), 0),
        ]
    ],
)
def test_sets_in_files(name, train, test, shape, classes):
    found = load(name)
    assert (len(found.train), len(found.test), found.train.inputs.shape[1:]) == (train, test, shape)
    assert len(found.train.classes) == classes
    assert found.train.labels.dtype == (np.int64 if classes else np.float32)
    assert found.train.inputs.dtype == {"image": np.uint8, "text": object, "table": np.float32}[found.kind]
    if classes:
        known = np.unique(found.test.labels)
        assert known[known >= 0].tolist() == list(range(classes))
        assert (-1 in known) == (name == "clinc150-oos")
    if found.kind == "image":
        assert (found.train.inputs.min(), found.train.inputs.max()) == (0, 255)
    if name in ("clinc150", "clinc150-oos", "sst2", "cola"):
        assert found.validation is not None
        assert len(found.validation) > 500


@pytest.mark.needs_data("mnist")
def test_mnist_is_the_published_one_and_its_start_is_fair():
    mnist = load("mnist")
    assert np.bincount(mnist.train.labels).tolist()[:3] == [5923, 6742, 5958]
    assert mnist.train.labels[:5].tolist() == [5, 0, 4, 1, 9]
    np.testing.assert_allclose(mnist.train.inputs[:6000].mean() / 255, 0.1307, atol=0.002)
    assert np.bincount(mnist.train.labels[list(MNIST_INITIAL)]).tolist() == [2] * 10


def test_packed_photographs_come_back_to_the_byte(tmp_path):
    generator = np.random.default_rng(0)
    images = {part: generator.integers(0, 256, (4, 32, 32, 3), dtype=np.uint8) for part in ("test", *range(1, 6))}
    for part, image in images.items():
        planes = image.transpose(3, 0, 1, 2).copy()
        planes[[0, 2]] -= planes[1]  # red and blue as differences to green, then each pixel to its neighbours
        for axis in (2, 3):
            planes = np.diff(planes, axis=axis, prepend=np.uint8(0))
        name = "cifar10_test.npz" if part == "test" else f"cifar10_train{part}.npz"
        np.savez(tmp_path / name, x_delta=planes, y=np.arange(4) + (0 if part == "test" else part))
    found = load("cifar10", folder=tmp_path)
    np.testing.assert_array_equal(found.train.inputs, np.concatenate([images[number] for number in range(1, 6)]))
    np.testing.assert_array_equal(found.test.inputs, images["test"])
    assert found.train.labels[:8].tolist() == [1, 2, 3, 4, 2, 3, 4, 5]


def test_the_target_of_sgemm_is_the_log_of_the_mean_of_its_runs(tmp_path):
    np.savez(tmp_path / "reg_sgemm.npz", x=np.zeros((5, 14), np.uint8), y=np.full((5, 4), [1.0, 2.0, 3.0, 6.0]))
    np.testing.assert_allclose(load("reg-sgemm", folder=tmp_path).train.labels, np.log(3.0), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.needs_data("cifar10", "fashion")
def test_photographs_are_decoded():
    cifar = load("cifar10")
    assert cifar.train.inputs.shape == (50_000, 32, 32, 3)
    np.testing.assert_allclose(cifar.train.inputs.mean((0, 1, 2)) / 255, [0.4914, 0.4822, 0.4465], atol=1e-4)
    assert np.bincount(cifar.train.labels).tolist() == [5000] * 10
    assert np.bincount(load("fashion").train.labels).tolist() == [6000] * 10
