"""Ambiguous-MNIST and Dirty-MNIST with a seed and pixel noise of one's own (`natsel.data.ambiguous_digits` makes them).

    ambiguous-mnist   6,000 ambiguous pictures × 10 labels to train on, 1,000 × 10 to test on
    dirty-mnist       MNIST, then Ambiguous-MNIST: 120,000 and 20,000 examples, half of them ambiguous

Published runs add noise of deviation 0.05 to the normalised pictures, so that the copies of a picture cannot be told by
their bytes: 0.05 × 0.3081 here, where pixels are 0..1.  Mukhoti, Kirsch et al. 2023.
"""

from dataclasses import replace
from pathlib import Path

from natsel.data.ambiguous_parts import ambiguous_parts, with_clear_digits
from natsel.data.dataset import DataSet
from natsel.data.examples import Examples
from natsel.data.load import find_set, load
from natsel.data.transforms import repeated
from natsel.seeds import derive

PUBLISHED_PIXEL_NOISE = 0.05 * 0.3081
"""The deviation of the noise in published runs on Dirty-MNIST, for pixels 0..1."""


def ambiguous_mnist(seed: int = 0, pixel_noise: float = 0.0, *, folder: str | Path | None = None) -> DataSet:
    """Digits that may be read as two, with 10 labels per picture: made from MNIST once for each seed, then kept.

    The masks are `label_probs` [N, 10] (the true distribution of the label), `group` (the picture of a row; its copies
    stand side by side) and `ambiguous`. With `pixel_noise` inputs are float32 around 0..1 instead of bytes.

    >>> ambiguous_mnist(pixel_noise=-1.0)
    Traceback (most recent call last):
    ValueError: pixel_noise: expected 0 or more, found -1.0; published runs have PUBLISHED_PIXEL_NOISE
    """
    return _data_set("ambiguous-mnist", seed, pixel_noise, folder)


def dirty_mnist(seed: int = 0, pixel_noise: float = 0.0, *, folder: str | Path | None = None) -> DataSet:
    """MNIST, then as many rows of Ambiguous-MNIST; the mask `ambiguous` says which, the others are as there.

    >>> dirty_mnist(pixel_noise=-1.0)
    Traceback (most recent call last):
    ValueError: pixel_noise: expected 0 or more, found -1.0; published runs have PUBLISHED_PIXEL_NOISE
    """
    return _data_set("dirty-mnist", seed, pixel_noise, folder)


def _data_set(name: str, seed: int, pixel_noise: float, folder: str | Path | None) -> DataSet:
    if not 0 <= pixel_noise < float("inf"):
        raise ValueError(
            f"pixel_noise: expected 0 or more, found {pixel_noise}; published runs have PUBLISHED_PIXEL_NOISE"
        )
    find_set(name, folder)  # say what is missing now

    def mnist() -> tuple[Examples, Examples]:
        clear = load("mnist", folder=folder)
        return clear.train, clear.test

    train, test = ambiguous_parts(seed, mnist)
    if name == "dirty-mnist":
        train, test = (with_clear_digits(*both) for both in zip(mnist(), (train, test), strict=True))
    if pixel_noise > 0:
        train, test = (
            replace(part, inputs=repeated(part, 1, pixel_noise, derive(seed, "pixel noise", which)).inputs)
            for which, part in (("train", train), ("test", test))
        )
    return DataSet(name, train, test, None, "image", f"made from MNIST with seed {seed}")
