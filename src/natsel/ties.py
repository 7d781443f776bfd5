"""Ties: of equals the one with the smallest key is taken; the first points of a file may all be of one class or day.

    key of an id = mix(start(seed) + step · number)            number: the id, or 64 bits of the blake2b of its text

Whole numbers, the same for any order, cut or spread of the pool, and on any processor; only equals are given one.
Steele et al. 2014 (splitmix64).
"""

import hashlib

import numpy as np
import torch
from torch import Tensor

from natsel.ids import IdArray, keys_of
from natsel.seeds import derive

_STEP = 0x9E3779B97F4A7C15
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))


class Order:
    """The order in which equals are taken, and how many picks hung on it. Without ids the lower position goes first.

    >>> order = Order(7, np.array([4, 8, 15, 16]))
    >>> order.argsort(torch.tensor([3, 1, 2])).tolist(), order.first(torch.tensor([1, 2]))
    ([0, 2, 1], 2)
    """

    def __init__(self, seed: int = 0, ids: IdArray | None = None) -> None:
        self.seed, self.ids = seed, ids
        self.wanted, self.picks, self.drawn = 1, 0, 0  # picks to come, made, made among more equals than were to come

    def argsort(self, positions_n: Tensor) -> Tensor:
        """The rows of some positions in this order."""
        if self.ids is None or len(positions_n) < 2:
            return positions_n.argsort()
        key_n = mixed(self.ids[positions_n.cpu().numpy()], derive(self.seed % (1 << 63), "ties"))
        return torch.from_numpy(key_n.argsort(kind="stable")).to(positions_n.device)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to say of picks that all hung on the order."""
        said = "decided by ties: every pick had equals among the points left out, and was drawn from the seed"
        return (said,) if 0 < self.picks == self.drawn else ()

    def first(self, equals_n: Tensor) -> int:
        """Which of some positions that are equal is taken."""
        self.count(1, int(len(equals_n) > self.wanted))
        return int(equals_n[self.argsort(equals_n)[0]])

    def count(self, picks: int, drawn: int) -> None:
        """Note so many picks, and how many of them hung on the order."""
        self.picks, self.drawn, self.wanted = self.picks + picks, self.drawn + drawn, self.wanted - picks


def order_of(state: object) -> Order:
    """The order that a state got from seed and ids when it was read.

    >>> order_of(object()).first(torch.tensor([2, 1]))
    1
    """
    return getattr(state, "order", None) or Order()


def mixed(ids_n: IdArray, start: int) -> IdArray:
    """64 bits for each id, as if drawn at random: the key of the formula above, for a start.

    >>> mixed(np.array([4, 7]), 1).tolist()[1:] == mixed(np.array([7]), 1).tolist() != mixed(np.array([7]), 2).tolist()
    True
    """
    if ids_n.dtype.kind != "i":
        ids_n = np.array([_number(key) for key in keys_of(ids_n)], dtype=np.int64)
    key_n: IdArray = ids_n.view(np.uint64) * np.uint64(_STEP)  # products of arrays of these wrap around
    key_n += np.uint64(start)
    for shift, factor in _MIX:
        key_n ^= key_n >> np.uint64(shift)
        key_n *= np.uint64(factor)
    return key_n


def _number(key: int | str) -> int:
    digest = hashlib.blake2b(str(key).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return key if isinstance(key, int) else int.from_bytes(digest, "big", signed=True)
