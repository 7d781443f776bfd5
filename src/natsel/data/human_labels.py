"""How people labelled the pictures of CIFAR-10: votes per class, in the order of `natsel.data.load("cifar10")`.

    test    CIFAR-10H: about 51 votes for each of the 10,000 test pictures (Peterson et al. 2019)
    train   CIFAR-10N: three votes for each of the 50,000 training pictures (Wei et al. 2022)

The share of the votes is what is known of the true distribution of labels: a picture about which people disagree is
ambiguous.
"""

from pathlib import Path
from typing import Literal

import numpy as np

from natsel.containers import open_arrays
from natsel.data.folders import find
from natsel.data.labels import Array

FILE = "cifar10_human_labels.npz"
REMEDY = (
    "make it with the arrays cifar10h_counts [10000, 10] of github.com/jcpeterson/cifar-10h and annotators"
    " [50000, 3], aggregate and worst [50000] of github.com/UCSC-REAL/cifar-10-100n"
)
"""What to do without the file: no command fetches it."""


def human_votes(
    name: str = "cifar10", part: Literal["train", "test"] = "test", *, folder: str | Path | None = None
) -> Array:
    """How many people chose each class: whole numbers [N, C].

    >>> human_votes("mnist")
    Traceback (most recent call last):
    ValueError: name: there are no votes of people for 'mnist'; there are for 'cifar10'
    """
    if name != "cifar10":
        raise ValueError(f"name: there are no votes of people for {name!r}; there are for 'cifar10'")
    if part not in ("train", "test"):
        raise ValueError(f"part: expected 'train' or 'test', found {part!r}; name one of them")
    arrays = open_arrays(find("cifar10", (FILE,), folder, REMEDY))
    if part == "test":
        votes_N_C: Array = arrays.read("cifar10h_counts").astype(np.int64)
    else:
        votes_N_C = (arrays.read("annotators")[:, :, None] == np.arange(10)).sum(1)
    return votes_N_C


def human_label_probs(
    name: str = "cifar10", part: Literal["train", "test"] = "test", *, folder: str | Path | None = None
) -> Array:
    """The share of people who chose each class: [N, C], rows sum to 1.

    >>> human_label_probs("cifar10", "validation")
    Traceback (most recent call last):
    ValueError: part: expected 'train' or 'test', found 'validation'; name one of them
    """
    votes_N_C = human_votes(name, part, folder=folder)
    probs_N_C: Array = votes_N_C / votes_N_C.sum(1, keepdims=True)
    return probs_N_C


def human_labels(
    name: str = "cifar10", kind: Literal["aggregate", "worst"] = "aggregate", *, folder: str | Path | None = None
) -> Array:
    """One label per training picture, as people gave them (CIFAR-10N): of three votes the most frequent ("aggregate",
    9 % wrong), or a wrong one where any is ("worst", 40 % wrong).

    >>> human_labels("cifar10", "best")
    Traceback (most recent call last):
    ValueError: kind: expected 'aggregate' or 'worst', found 'best'; name one of them
    """
    if name != "cifar10":
        raise ValueError(f"name: there are no labels of people for {name!r}; there are for 'cifar10'")
    if kind not in ("aggregate", "worst"):
        raise ValueError(f"kind: expected 'aggregate' or 'worst', found {kind!r}; name one of them")
    labels_N: Array = open_arrays(find("cifar10", (FILE,), folder, REMEDY)).read(kind).astype(np.int64)
    return labels_N
