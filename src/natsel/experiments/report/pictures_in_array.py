"""Pictures for the points of a belief from one array of them, in the order of the points."""

from typing import Any

import numpy as np

from natsel.experiments.report.png import data_address, png, shrunk
from natsel.ids import IdArray, Key, keys_of

_SIDE = 96


class PicturesInArray:
    """Pictures by id: bytes, or numbers that are brightness from the least to the largest of the array.

    `pictures` has the axes points, height, width, and perhaps 1 or 3 channels, last or before height.

    >>> PicturesInArray(np.zeros((2, 8, 8)), np.array([5, 7])).address(7)[:22]
    'data:image/png;base64,'
    """

    def __init__(self, pictures: np.ndarray[Any, Any], ids: IdArray) -> None:
        if pictures.ndim == 4 and pictures.shape[1] in (1, 3) and pictures.shape[-1] not in (1, 3):
            pictures = np.moveaxis(pictures, 1, -1)
        if pictures.ndim not in (3, 4) or (pictures.ndim == 4 and pictures.shape[-1] not in (1, 3)):
            raise ValueError(
                f"pictures: expected points × height × width, perhaps with 1 or 3 channels, found shape"
                f" {list(pictures.shape)}; reshape them"
            )
        if len(pictures) != len(ids):
            raise ValueError(f"pictures: expected one for each of {len(ids)} points, found {len(pictures)}; pass all")
        if pictures.dtype.kind not in "uifb":
            raise ValueError(f"pictures: expected numbers, found {pictures.dtype}; convert them")
        self._pictures = pictures
        self._row = {id: row for row, id in enumerate(keys_of(ids))}
        self._range = (0.0, 255.0) if pictures.dtype == np.uint8 else (float(pictures.min()), float(pictures.max()))

    def address(self, id: Key) -> str | None:
        """The picture of an id as an address that needs no host; None where there is none."""
        if id not in self._row:
            return None
        low, high = self._range
        bright = (self._pictures[self._row[id]].astype(np.float64) - low) / ((high - low) or 1.0)
        return data_address("image/png", png(shrunk((255 * bright).round().clip(0, 255).astype(np.uint8), _SIDE)))
