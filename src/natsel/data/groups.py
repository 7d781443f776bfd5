"""Examples by class: so many of each, and old classes put together into new ones.

    counted        so many examples of each class, at random                       mask row
    regrouped      some old classes become one new class, the rest another         mask original

A task that asks for two digits only, or a pool in which some classes are rare, is made of these.
docs/theory/epig-jepig.md, 13.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from natsel.data.examples import Examples
from natsel.data.labels import Array
from natsel.seeds import derive

REST = "rest"
"""Stands for all classes that no other group names."""


def counted(examples: Examples, counts: Sequence[Sequence[int | None]], seed: int = 0) -> tuple[Examples, ...]:
    """Disjoint random parts, each with so many examples of each class; None: all of that class that are left.

    >>> few, others = counted(Examples(np.zeros(20), np.arange(20) % 2), [[1, 3], [None, 0]])
    >>> np.bincount(few.labels).tolist(), np.bincount(others.labels).tolist()
    ([1, 3], [9])
    """
    labels = _classes(examples)
    masked = replace(examples, masks={"row": np.arange(len(examples)), **examples.masks})
    order = np.random.default_rng(derive(seed, "counted")).permutation(len(examples))
    left = {one: order[labels[order] == one] for one in range(examples.n_classes)}
    parts = []
    for number, wanted in enumerate(counts):
        if len(wanted) != examples.n_classes:
            raise ValueError(
                f"counts[{number}]: expected one for each of {examples.n_classes} classes, found {len(wanted)}"
            )
        taken = [_take(left, one, count) for one, count in enumerate(wanted)]
        parts.append(masked[np.sort(np.concatenate([np.zeros(0, np.int64), *taken]))])
    return tuple(parts)


def regrouped(examples: Examples, groups: Mapping[str, Sequence[int | str] | str]) -> Examples:
    """New classes made of old ones, in the order of `groups`; "rest" stands for all that are not named.

    An old class in no group loses its label (−1). The mask `original` keeps the old labels.

    >>> animals = Examples(np.zeros(4), [0, 1, 2, -1], classes=("cat", "dog", "car"))
    >>> pets = regrouped(animals, {"pet": ["cat", "dog"], "other": "rest"})
    >>> pets.labels.tolist(), pets.classes, pets.masks["original"].tolist()
    ([0, 0, 1, -1], ('pet', 'other'), [0, 1, 2, -1])
    """
    labels = _classes(examples)
    names = examples.classes or tuple(str(one) for one in range(examples.n_classes))
    anew = np.full(len(names) + 1, -1)  # the last place is where label −1 looks
    for number, members in enumerate(groups.values()):
        if isinstance(members, str) and members != REST:
            raise ValueError(f"groups: expected a list of classes or {REST!r}, found {members!r}")
        for one in () if isinstance(members, str) else members:
            place = _number(one, names)
            if anew[place] >= 0:
                raise ValueError(f"groups: class {names[place]!r} is in two groups; name it once")
            anew[place] = number
    rests = [number for number, members in enumerate(groups.values()) if members == REST]
    if len(rests) > 1:
        raise ValueError(f"groups: {len(rests)} groups take the rest; let one")
    if rests:
        anew[:-1][anew[:-1] < 0] = rests[0]
    return replace(
        examples, labels=anew[labels], classes=tuple(groups), masks={**examples.masks, "original": labels.copy()}
    )


def _take(left: dict[int, Array], one: int, count: int | None) -> Array:
    there = left[one]
    if count is not None and count > len(there):
        raise ValueError(f"counts: class {one} has {len(there)} examples left, {count} wanted; ask for fewer")
    taken, left[one] = np.split(there, [len(there) if count is None else count])
    return taken


def _number(one: int | str, names: tuple[str, ...]) -> int:
    """The place of a class by its name, else by its number."""
    place = names.index(str(one)) if str(one) in names else one
    if isinstance(place, str) or not 0 <= place < len(names):
        raise ValueError(f"groups: there is no class {one!r}; the classes are {', '.join(names[:12])}")
    return place


def _classes(examples: Examples) -> Array:
    if examples.labels is None or examples.labels.dtype.kind != "i":
        raise ValueError("examples: this needs a class for each example; pass labels that are classes")
    labels: Array = examples.labels
    return labels
