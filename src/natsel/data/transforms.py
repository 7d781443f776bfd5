"""Data made harder, smaller or fairer: examples in, examples out, with masks that remember what was done.

    repeated         every input several times, with fresh noise or exactly       masks base, copy
    imbalanced       some classes made rare                                       mask row
    relevance        all classes but a few made rare, as they are in use          masks row, irrelevant
    noisy_labels     some labels wrong, any class for any other                   masks noisy, clean
    confused_labels  some labels wrong, one class for the one like it             masks noisy, clean
    with_junk        inputs from elsewhere that nobody can label                  mask junk
    junk_classes     classes of the set itself that nobody wants                  mask junk
    subsampled       a part, drawn at random                                      mask row
    split            disjoint parts, drawn at random                              mask row

`row` is the place of an example before anything was left out, so that a pool of a part with `ids=part.masks["row"]`
keeps the ids of the whole set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from natsel.data.examples import Examples
from natsel.data.labels import Array, as_numpy
from natsel.options import Count, Rows
from natsel.seeds import derive

MNIST_INITIAL = (
    *(38043, 40091, 17418, 2094, 39879, 3133, 5011, 40683, 54379, 24287),
    *(9849, 59305, 39508, 39356, 8758, 52579, 13655, 7636, 21562, 41329),
)
"""Rows of MNIST's training part, two per digit, that the published BatchBALD runs start from (Kirsch et al. 2019).

docs/theory/batchbald.md, 14.
"""

_CHUNK = 1 << 22  # numbers made at a time: 16 MiB of noise, whatever the size of an input


def split(
    examples: Examples, counts: Sequence[int | None], seed: int = 0, balanced: bool = False
) -> tuple[Examples, ...]:
    """Disjoint random parts of so many examples; None means what is left. Balanced: equally many of each class.

    >>> train, test = split(Examples(np.arange(10)), (None, 3))
    >>> len(train), len(test), sorted([*train.inputs, *test.inputs]) == list(range(10))
    (7, 3, True)
    """
    wanted = [count for count in counts if count is not None]
    if any(count < 0 for count in wanted) or len(counts) - len(wanted) > 1:
        raise ValueError(f"counts: expected numbers of examples and at most one None, found {tuple(counts)}")
    if sum(wanted) > len(examples):
        raise ValueError(f"counts: {sum(wanted)} examples wanted, but there are {len(examples)}; ask for fewer")
    generator = np.random.default_rng(derive(seed, "split"))
    left = generator.permutation(len(examples))
    parts: dict[int, Array] = {}
    for number, count in enumerate(counts):
        if count is not None:
            taken = _evenly(examples, left, count, generator) if balanced else np.arange(count)
            parts[number] = left[taken]
            left = np.delete(left, taken)
    return tuple(_rows(examples, parts.get(number, left)) for number in range(len(counts)))


def subsampled(examples: Examples, count: Count, seed: int = 0, balanced: bool = False) -> Examples:
    """So many of the examples, drawn at random without replacement.

    >>> len(subsampled(Examples(np.zeros(100)), 10))
    10
    """
    return split(examples, (count,), seed, balanced)[0]


def balanced_start(labels: Rows, per_class: int, seed: int = 0) -> Array:
    """Positions of so many random examples of each class, in random order: a fair set to start from.

    >>> np.array([0, 1, 1, 0, 1])[balanced_start([0, 1, 1, 0, 1], per_class=2)].tolist().count(0)
    2
    """
    column = _classes(Examples(np.zeros(len(labels)), labels), "labels")
    generator = np.random.default_rng(derive(seed, "balanced"))
    order = generator.permutation(len(column))
    known = np.unique(column[column >= 0])
    start = np.concatenate([np.zeros(0, np.int64), *(_first(order, column, one, per_class) for one in known)])
    return generator.permutation(start)


def repeated(examples: Examples, copies: int, noise: float = 0.0, seed: int = 0) -> Examples:
    """Every input `copies` times in all, each copy (the first too) with its own Gaussian noise of that deviation.

    Without noise copies are exact: redundant data. Copy c of example b stands at c·N + b; the masks `base` and `copy`
    say so. Noise is in the units of the inputs, and bytes are brought to 0..1 first: Repeated-MNIST's 0.1 after
    normalisation is 0.1 × 0.3081 here.

    >>> twice = repeated(Examples(np.zeros((3, 2)), np.array([0, 1, 1])), copies=2, noise=0.1)
    >>> twice.inputs.shape, twice.labels.tolist(), twice.masks["base"].tolist()
    ((6, 2), [0, 1, 1, 0, 1, 1], [0, 1, 2, 0, 1, 2])
    """
    if copies < 1 or not noise >= 0 or noise == np.inf:
        raise ValueError(f"copies, noise: expected 1 or more and 0 or more, found {copies} and {noise}")
    base = np.tile(np.arange(len(examples)), copies)
    masks = {"base": base, "copy": np.repeat(np.arange(copies), len(examples))}
    again = (
        examples[base]
        if noise == 0
        else replace(
            examples,
            inputs=_with_noise(examples.inputs, copies, noise, seed),
            labels=None if examples.labels is None else examples.labels[base],
            masks={name: mask[base] for name, mask in examples.masks.items()},
        )
    )
    return replace(again, masks={**again.masks, **masks})


def imbalanced(examples: Examples, shares: Sequence[float] | Mapping[int | str, float], seed: int = 0) -> Examples:
    """Of each class only a share: one share a class, or a mapping of classes to shares (the others stay whole).

    >>> rare = imbalanced(Examples(np.zeros(20), np.arange(20) % 2), {1: 0.2})
    >>> np.bincount(rare.labels).tolist()
    [10, 2]
    """
    labels = _classes(examples, "examples")
    keep = _shares(shares, examples)
    generator = np.random.default_rng(derive(seed, "imbalanced"))
    kept = [np.flatnonzero(labels < 0)]
    for one, share in enumerate(keep):
        members = np.flatnonzero(labels == one)
        kept.append(generator.permutation(members)[: round(share * len(members))])
    return _rows(examples, np.sort(np.concatenate(kept)))


def relevance(examples: Examples, classes: int | Sequence[int | str], share: float = 0.06, seed: int = 0) -> Examples:
    """All examples of some classes and a share of all others; the mask `irrelevant` marks those others.

    `classes` are the relevant ones, or how many are drawn at random. 20 of 100 equally frequent classes with 6 % of the
    others are 81 % of what is left (docs/theory/training-selection.md, 7).

    >>> few = relevance(Examples(np.zeros(200), np.arange(200) % 2), [0], share=0.1)
    >>> np.bincount(few.labels).tolist(), int(few.masks["irrelevant"].sum())
    ([100, 10], 10)
    """
    _share(share, "0.06 keeps 6 % of the classes that are not relevant")
    labels, count = _classes(examples, "examples"), examples.n_classes
    if isinstance(classes, int):
        if not 1 <= classes <= count:
            raise ValueError(f"classes: expected 1 to {count} relevant classes, found {classes}; there are no more")
        relevant = set(np.random.default_rng(derive(seed, "relevance")).permutation(count)[:classes].tolist())
    else:
        names = _names(examples)
        relevant = {_number(one, names) for one in classes}
    marked = replace(examples, masks={**examples.masks, "irrelevant": (labels >= 0) & ~np.isin(labels, list(relevant))})
    return imbalanced(marked, [1.0 if one in relevant else share for one in range(count)], seed)


def noisy_labels(examples: Examples, share: float, seed: int = 0, include_true: bool = False) -> Examples:
    """A share of the labels replaced by another class, each other class alike; the mask `clean` keeps the true ones.

    With `include_true` the new label is any class, the true one too: of C classes, 1/C of the share stays right. The
    mask `noisy` marks the labels that are wrong.

    >>> wrong = noisy_labels(Examples(np.zeros(10), np.arange(10) % 3), share=0.2)
    >>> int((wrong.labels != wrong.masks["clean"]).sum()), int(wrong.masks["noisy"].sum())
    (2, 2)
    """
    _share(share, "0.1 makes a tenth of the labels wrong")
    clean = _classes(examples, "examples")
    known = np.flatnonzero(clean >= 0)
    count = examples.n_classes
    if count < 2:
        raise ValueError(f"examples: there is {count} class, so that no label can be wrong; use more classes")
    generator = np.random.default_rng(derive(seed, "noisy"))
    chosen = generator.permutation(known)[: round(share * len(known))]
    labels = clean.copy()
    shift = generator.integers(0 if include_true else 1, count, size=len(chosen))
    labels[chosen] = (clean[chosen] + shift) % count
    return _with_labels(examples, labels)


def confused_labels(
    examples: Examples,
    pairs: Mapping[Any, int | str] | Sequence[Sequence[int | str]],
    share: float = 0.5,
    seed: int = 0,
) -> Examples:
    """Of each class named first in a pair, a share of the labels replaced by the class named second.

    Noise with a structure, as where two classes look alike. Masks as `noisy_labels` has them.

    >>> wrong = confused_labels(Examples(np.zeros(12), np.arange(12) % 3), {0: 2})
    >>> wrong.labels.tolist().count(0), wrong.labels.tolist().count(2), int(wrong.masks["noisy"].sum())
    (2, 6, 2)
    """
    _share(share, "0.5 makes half of the labels of each class wrong")
    clean, names = _classes(examples, "examples"), _names(examples)
    listed = [tuple(pair) for pair in (pairs.items() if isinstance(pairs, Mapping) else pairs)]
    if any(len(pair) != 2 for pair in listed):
        raise ValueError(f"pairs: expected a class and the class that replaces it, found {listed}; name two per pair")
    numbers = [(_number(old, names), _number(new, names)) for old, new in listed]
    olds = [old for old, _ in numbers]
    if len(set(olds)) < len(olds) or any(old == new for old, new in numbers):
        raise ValueError(f"pairs: found {listed}; name each class first once at most, and two different ones per pair")
    labels = clean.copy()
    for old, new in numbers:
        members = np.flatnonzero(clean == old)
        generator = np.random.default_rng(derive(seed, "confused", old))
        labels[generator.permutation(members)[: round(share * len(members))]] = new
    return _with_labels(examples, labels)


def with_junk(examples: Examples, junk: Any, as_class: bool = False) -> Examples:
    """The examples, then junk: other inputs (or examples, whose labels are forgotten) of the same shape.

    Nobody can label junk: its label is −1, an oracle passes it over. With `as_class`, "junk" is a class of its own.

    >>> mixed = with_junk(Examples(np.zeros((2, 3)), np.array([0, 1])), np.ones((1, 3)))
    >>> mixed.labels.tolist(), mixed.masks["junk"].tolist()
    ([0, 1, -1], [False, False, True])
    """
    other = junk if isinstance(junk, Examples) else Examples(junk)
    labels = _classes(examples, "examples")
    inputs, more = as_numpy(examples.inputs), as_numpy(other.inputs)
    if inputs.shape[1:] != more.shape[1:]:
        raise ValueError(f"junk: expected inputs of shape {inputs.shape[1:]}, found {more.shape[1:]}; reshape them")
    if inputs.dtype != more.dtype and np.uint8 in (inputs.dtype, more.dtype):
        inputs, more = _scaled(inputs), _scaled(more)
    both = Examples(
        np.concatenate([inputs, more]),
        np.concatenate([labels, np.full(len(more), -1)]),
        examples.classes,
        {name: np.concatenate([mask, _blank(mask, len(more))]) for name, mask in examples.masks.items()}
        | {"junk": np.arange(len(inputs) + len(more)) >= len(inputs)},
    )
    return _junk_class(both, examples.n_classes) if as_class else both


def junk_classes(examples: Examples, junk: Sequence[int | str], as_class: bool = False) -> Examples:
    """Some classes declared junk, as `with_junk` has it; the others are numbered anew, in their old order.

    >>> animals = Examples(np.zeros(4), np.array([0, 1, 2, 1]), classes=("cat", "car", "dog"))
    >>> junk_classes(animals, ["car"]).labels.tolist(), junk_classes(animals, [1], as_class=True).classes
    ([0, -1, 1, -1], ('cat', 'dog', 'junk'))
    """
    labels = _classes(examples, "examples")
    names = _names(examples)
    unwanted = {_number(one, names) for one in junk}
    kept = [one for one in range(len(names)) if one not in unwanted]
    anew = np.full(len(names) + 1, -1)  # the last place is where label −1 looks
    anew[kept] = np.arange(len(kept))
    found = Examples(
        examples.inputs,
        anew[labels],
        tuple(names[one] for one in kept),
        {**examples.masks, "junk": np.isin(labels, list(unwanted))},
    )
    return _junk_class(found, len(kept)) if as_class else found


def _junk_class(examples: Examples, count: int) -> Examples:
    names = examples.classes or tuple(str(one) for one in range(count))
    return replace(examples, labels=np.where(examples.masks["junk"], count, examples.labels), classes=(*names, "junk"))


def _rows(examples: Examples, positions: Array) -> Examples:
    """Some examples, with the mask `row`; one that is there from an earlier step names the older row and stays."""
    return replace(examples, masks={"row": np.arange(len(examples)), **examples.masks})[positions]


def _evenly(examples: Examples, left: Array, count: int, generator: np.random.Generator) -> Array:
    """Places in `left` of equally many examples of each class; a remainder goes to classes drawn at random."""
    labels = _classes(examples, "examples")[left]
    known = np.unique(labels[labels >= 0])
    if count and not len(known):
        raise ValueError("balanced: no example has a known class; leave balanced out")
    each = np.full(len(known), count // max(len(known), 1))
    each[generator.permutation(len(known))[: count - each.sum()]] += 1
    order = np.arange(len(left))
    places = [_first(order, labels, one, number) for one, number in zip(known, each, strict=True)]
    return generator.permutation(np.concatenate([np.zeros(0, np.int64), *places]))


def _first(order: Array, labels: Array, one: int, count: int) -> Array:
    members: Array = order[labels[order] == one][:count]
    if len(members) < count:
        raise ValueError(f"balanced: class {one} has {len(members)} examples, {count} wanted; ask for fewer")
    return members


def _with_noise(inputs: Any, copies: int, noise: float, seed: int) -> Array:
    first = as_numpy(inputs[:1])
    if first.dtype.kind not in "biuf":
        raise ValueError(f"noise: cannot be added to {first.dtype} inputs; pass noise=0")
    count, shape = len(inputs), first.shape[1:]
    noisy = np.empty((copies * count, *shape), dtype=np.float32)
    rows = max(1, _CHUNK // max(1, int(np.prod(shape))))
    for copy in range(copies):
        generator = np.random.default_rng(derive(seed, "repeated", copy))
        for start in range(0, count, rows):
            part = noisy[copy * count + start : copy * count + min(start + rows, count)]
            generator.standard_normal(out=part, dtype=np.float32)
            part *= np.float32(noise)
            part += _scaled(as_numpy(inputs[start : start + rows]))
    return noisy


def _scaled(inputs: Array) -> Array:
    """Bytes as 0..1, all else as it is; float32."""
    return inputs.astype(np.float32) / np.float32(255) if inputs.dtype == np.uint8 else inputs.astype(np.float32)


def _blank(mask: Array, count: int) -> Array:
    """What a mask says about examples it was not made for."""
    nothing = {"b": False, "f": np.nan, "O": None}.get(mask.dtype.kind, -1)
    return np.full((count, *mask.shape[1:]), nothing, dtype=np.int64 if mask.dtype.kind == "u" else mask.dtype)


def _shares(shares: Sequence[float] | Mapping[int | str, float], examples: Examples) -> list[float]:
    count = examples.n_classes
    if isinstance(shares, Mapping):
        names = _names(examples)
        chosen = {_number(one, names): share for one, share in shares.items()}
        shares = [chosen.get(one, 1.0) for one in range(count)]
    if len(shares) != count or not all(0 <= share <= 1 for share in shares):
        raise ValueError(f"shares: expected a number from 0 to 1 for each of {count} classes, found {list(shares)}")
    return list(shares)


def _share(share: float, example: str) -> None:
    if not 0 <= share <= 1:
        raise ValueError(f"share: expected a number from 0 to 1, found {share}; {example}")


def _with_labels(examples: Examples, labels: Array) -> Examples:
    """Other labels, with the masks that remember the true ones, also where some were wrong before."""
    clean = examples.masks.get("clean", examples.labels)
    return replace(examples, labels=labels, masks={**examples.masks, "noisy": labels != clean, "clean": clean})


def _names(examples: Examples) -> tuple[str, ...]:
    return examples.classes or tuple(str(one) for one in range(examples.n_classes))


def _number(one: int | str, names: tuple[str, ...]) -> int:
    number = names.index(one) if one in names else one
    if isinstance(number, str) or not 0 <= number < len(names):
        raise ValueError(f"classes: there is no class {one!r}; the classes are {', '.join(names[:10])}")
    return number


def _classes(examples: Examples, name: str) -> Array:
    """The labels, where they are classes."""
    if examples.labels is None or examples.labels.dtype.kind != "i":
        raise ValueError(f"{name}: this needs a class for each example; pass labels that are classes")
    labels: Array = examples.labels
    return labels
