"""Pictures from outside a data set: what a model should find unfamiliar. All have the shape of its pictures, as bytes.

    another set's name     its pictures, made grey or coloured, with a margin added or cut off
    uniform-noise          every grey level is equally likely, each pixel alone                        far
    gaussian-noise         grey levels N(127.5, 64²), each pixel alone                                  far
    scrambled-patches      test pictures of the set itself, cut into 4×4 patches in random order       near
    quarter-turns          test pictures turned to the left or to the right                            near
    blur-1 … blur-5        test pictures, Gaussian blur of deviation 0.5, 1, 1.5, 2, 3 pixels          near
    noise-1 … noise-5      test pictures with noise of deviation 0.05, 0.1, 0.15, 0.2, 0.3 (of 0..1)   near

Near means that what a network knows of the set is there in part (strokes, textures, objects); far that it is not.
Classes that a model never saw are the nearest of all: `leave_out_classes`.
"""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from natsel.data.dataset import DataSet
from natsel.data.examples import Examples
from natsel.data.labels import Array
from natsel.data.load import load
from natsel.data.transforms import junk_classes
from natsel.options import Count
from natsel.seeds import derive

Distance = Literal["near", "far"]

_BLUR = (0.5, 1.0, 1.5, 2.0, 3.0)
_NOISE = (0.05, 0.1, 0.15, 0.2, 0.3)
_PATCHES = 4  # along each side
_OTHERS: dict[str, dict[str, Distance]] = {
    "mnist": {"kmnist": "near", "notmnist": "near", "fashion": "far", "cifar10": "far"},
    "fashion": {"mnist": "far", "kmnist": "far", "notmnist": "far", "cifar10": "far"},
    "cifar10": {"mnist": "far", "fashion": "far", "kmnist": "far", "notmnist": "far"},
}
_MADE: dict[str, Distance] = {
    "uniform-noise": "far",
    "gaussian-noise": "far",
    "scrambled-patches": "near",
    "quarter-turns": "near",
    **{f"{kind}-{strength}": "near" for kind in ("blur", "noise") for strength in range(1, 6)},
}


def outside_sets(inside: str) -> dict[str, Distance]:
    """The names that `outside_pictures` knows for a data set, each with its distance.

    >>> outside_sets("mnist")["fashion"], outside_sets("mnist")["kmnist"], outside_sets("digits")["blur-3"]
    ('far', 'near', 'near')
    """
    # Ambiguous digits are digits: what is outside MNIST is outside them.
    others = _OTHERS["mnist"] if inside in ("ambiguous-mnist", "dirty-mnist") else _OTHERS.get(inside, {})
    return {**others, **_MADE}


def outside_pictures(
    inside: DataSet, outside: str, count: Count = 1000, seed: int = 0, *, folder: str | Path | None = None
) -> Array:
    """So many pictures from outside the data set, of the shape of its pictures, as bytes.

    Those taken from a set are drawn without replacement: from its test part where one was published, else from all.

    >>> digits = load("digits")
    >>> outside_pictures(digits, "uniform-noise", 5).shape
    (5, 8, 8)
    """
    shape = getattr(inside.test.inputs, "shape", ())[1:]
    if inside.kind != "image" or len(shape) not in (2, 3):
        raise ValueError(f"inside: expected a set of pictures, found {inside.name} ({inside.kind}); pass one of images")
    known = outside_sets(inside.name)
    if outside not in known:
        raise ValueError(f"outside: there is no {outside!r} for {inside.name}; there are {', '.join(known)}")
    # All strengths of a kind show the same pictures: what differs between them is the strength alone.
    generator = np.random.default_rng(derive(seed, "outside", outside.rstrip("-12345")))
    if outside == "uniform-noise":
        return generator.integers(0, 256, (count, *shape), dtype=np.uint8)
    if outside == "gaussian-noise":
        return _bytes(127.5 + 64 * generator.standard_normal((count, *shape)))
    if outside not in _MADE:
        return _shaped(_drawn(_all_pictures(load(outside, folder=folder)), outside, count, generator), shape)
    return _changed(_drawn(inside.test.inputs, inside.name, count, generator), outside, generator)


def changed_pictures(pictures: Array, change: str, seed: int = 0) -> Array:
    """Given pictures as bytes [N, H, W] or [N, H, W, channels], each changed as the name says; their order stays.

    So labels stay with them. A `change` is scrambled-patches, quarter-turns, blur-1 … blur-5 or noise-1 … noise-5.

    >>> digits = load("digits").test
    >>> changed_pictures(digits.inputs, "blur-2").shape == digits.inputs.shape
    True
    """
    known = [name for name in _MADE if name not in ("uniform-noise", "gaussian-noise")]
    if change not in known:
        raise ValueError(f"change: there is no {change!r}; there are {', '.join(known)}")
    pictures = np.asarray(pictures)
    if pictures.dtype != np.uint8 or pictures.ndim not in (3, 4):
        found = f"{pictures.dtype} of shape {pictures.shape}"
        raise ValueError(f"pictures: expected bytes, pictures × height × width, found {found}; pass uint8 pictures")
    return _changed(pictures, change, np.random.default_rng(derive(seed, "changed", change)))


def _changed(pictures: Array, change: str, generator: np.random.Generator) -> Array:
    if change == "scrambled-patches":
        return _scrambled(pictures, generator)
    if change == "quarter-turns":
        return _turned(pictures, generator)
    kind, strength = change.split("-")
    if kind == "blur":
        from scipy.ndimage import gaussian_filter

        deviation = _BLUR[int(strength) - 1]
        sigma = (0, deviation, deviation, *(0,) * (pictures.ndim - 3))
        return _bytes(gaussian_filter(pictures.astype(np.float32), sigma))
    return _bytes(pictures + 255 * _NOISE[int(strength) - 1] * generator.standard_normal(pictures.shape))


def leave_out_classes(inside: DataSet, classes: tuple[str | int, ...]) -> tuple[DataSet, Examples]:
    """The data set without some classes, and the test examples of those classes: outside, but near.

    The classes that stay are numbered anew, in their old order. The examples left out have the label −1.

    >>> eight, outside = leave_out_classes(load("digits"), ("3", "8"))
    >>> eight.train.n_classes, len(eight.test) + len(outside) == len(load("digits").test)
    (8, True)
    """
    train, _ = _parted(inside.train, classes)
    test, outside = _parted(inside.test, classes)
    validation = None if inside.validation is None else _parted(inside.validation, classes)[0]
    about = f"{inside.about}, without {', '.join(map(str, classes))}"
    return replace(inside, train=train, test=test, validation=validation, about=about), outside


def _parted(examples: Examples, classes: tuple[str | int, ...]) -> tuple[Examples, Examples]:
    marked = junk_classes(examples, classes)
    return marked[~marked.masks["junk"]], marked[marked.masks["junk"]]


def _all_pictures(other: DataSet) -> Array:
    """The test part where one was published; all pictures of a set that natsel had to split itself."""
    parts = (other.train, other.test) if other.name in ("kmnist", "notmnist") else (other.test,)
    return np.concatenate([part.inputs for part in parts])


def _drawn(pictures: Array, name: str, count: int, generator: np.random.Generator) -> Array:
    if not 0 <= count <= len(pictures):
        raise ValueError(f"count: {count} pictures wanted, {name} has {len(pictures)}; ask for fewer")
    drawn: Array = pictures[generator.permutation(len(pictures))[:count]]
    return drawn


def _shaped(pictures: Array, shape: tuple[int, ...]) -> Array:
    """Grey or colour as `shape` has it; a dark margin is added or the margin is cut off on every side."""
    if pictures.ndim == 4 and len(shape) == 2:
        pictures = _bytes(pictures @ np.array([0.299, 0.587, 0.114]))
    if pictures.ndim == 3 and len(shape) == 3:
        pictures = np.repeat(pictures[..., None], shape[2], axis=3)
    for axis, side in ((1, shape[0]), (2, shape[1])):
        missing = side - pictures.shape[axis]
        before, after = abs(missing) // 2, abs(missing) - abs(missing) // 2
        if missing > 0:
            margin = [(0, 0)] * pictures.ndim
            margin[axis] = (before, after)
            pictures = np.pad(pictures, margin)
        elif missing < 0:
            pictures = pictures.take(range(before, pictures.shape[axis] - after), axis=axis)
    return np.ascontiguousarray(pictures)


def _scrambled(pictures: Array, generator: np.random.Generator) -> Array:
    """Each picture cut into 4×4 patches, put together in an order of its own; a rest at the edges stays."""
    high, wide = pictures.shape[1] // _PATCHES, pictures.shape[2] // _PATCHES
    scrambled = pictures.copy()
    for number in range(len(pictures)):
        for place, source in enumerate(generator.permutation(_PATCHES**2)):
            (row, column), (from_row, from_column) = divmod(place, _PATCHES), divmod(int(source), _PATCHES)
            patch = pictures[
                number, from_row * high : (from_row + 1) * high, from_column * wide : (from_column + 1) * wide
            ]
            scrambled[number, row * high : (row + 1) * high, column * wide : (column + 1) * wide] = patch
    return scrambled


def _turned(pictures: Array, generator: np.random.Generator) -> Array:
    if pictures.shape[1] != pictures.shape[2]:
        raise ValueError(f"inside: quarter turns need square pictures, found {pictures.shape[1:3]}; choose another set")
    left_N = generator.integers(2, size=len(pictures)).astype(bool)
    turned = np.rot90(pictures, -1, (1, 2)).copy()
    turned[left_N] = np.rot90(pictures[left_N], 1, (1, 2))
    return turned


def _bytes(levels: Array) -> Array:
    return levels.round().clip(0, 255).astype(np.uint8)
