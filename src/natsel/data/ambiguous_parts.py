"""Ambiguous-MNIST as its two parts, made once and kept (`natsel.data.made_once`), alone or after the clear digits."""

from collections.abc import Callable

import numpy as np

from natsel.data.ambiguous_digits import AmbiguousDigitsSettings, ambiguous_digits, one_row_per_label
from natsel.data.examples import Examples
from natsel.data.labels import Array
from natsel.data.made_once import made_once

_VERSION = 1
"""Changed with anything that changes the pictures: an older file in the cache is then no longer read."""


def ambiguous_parts(seed: int, mnist: Callable[[], tuple[Examples, Examples]]) -> tuple[Examples, Examples]:
    """Both parts of Ambiguous-MNIST: from the cache folder, else made from MNIST, which takes some minutes."""
    copies = AmbiguousDigitsSettings().labels_per_picture

    def make() -> dict[str, Array]:
        parts = zip(("train", "test"), ambiguous_digits(*mnist(), seed=seed), strict=True)
        return {
            f"{key}_{name}": column
            for name, part in parts
            for key, column in {
                "x": part.inputs[::copies],
                "label_probs": part.masks["label_probs"][::copies],
                "y": part.labels.astype(np.uint8),
            }.items()
        }

    kept = made_once(f"ambiguous-mnist-{_VERSION}-seed-{seed}", make)
    classes = tuple("0123456789")
    train, test = (
        one_row_per_label(kept[f"x_{part}"], kept[f"label_probs_{part}"], kept[f"y_{part}"], classes)
        for part in ("train", "test")
    )
    return train, test


def with_clear_digits(clear: Examples, ambiguous: Examples) -> Examples:
    """Clear digits, then ambiguous ones, with the masks of the latter for both: a clear label is certain.

    >>> clear = Examples(np.zeros((1, 2, 2), np.uint8), np.array([1]), ("0", "1"))
    >>> masks = {"label_probs": np.array([[0.5, 0.5]]), "group": np.array([0]), "ambiguous": np.array([True])}
    >>> both = with_clear_digits(clear, Examples(clear.inputs, clear.labels, clear.classes, masks))
    >>> both.masks["label_probs"].tolist(), both.masks["group"].tolist(), both.masks["ambiguous"].tolist()
    ([[0.0, 1.0], [0.5, 0.5]], [0, 1], [False, True])
    """
    certain_N_C = np.eye(clear.n_classes)[clear.labels]
    return Examples(
        np.concatenate([clear.inputs, ambiguous.inputs]),
        np.concatenate([clear.labels, ambiguous.labels]),
        clear.classes,
        {
            "label_probs": np.concatenate([certain_N_C, ambiguous.masks["label_probs"]]),
            "group": np.concatenate([np.arange(len(clear)), len(clear) + ambiguous.masks["group"]]),
            "ambiguous": np.arange(len(clear) + len(ambiguous)) >= len(clear),
        },
    )
