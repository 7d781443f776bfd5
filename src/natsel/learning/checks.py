"""What people hand to a learner, checked before anything is done with it."""

import operator
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from natsel.data.examples import Examples
from natsel.data.labels import read_numbers, refuse_class_beyond
from natsel.data.pool import Pool
from natsel.learning.stopping import Rule


def as_count(number: Any, name: str, least: int = 1) -> int:
    """A whole number that is large enough.

    >>> as_count(3, "k")
    3
    """
    try:
        count = None if isinstance(number, bool) else operator.index(number)
    except TypeError:
        count = None
    if count is None:
        raise ValueError(f"{name}: expected a whole number, found {number!r}")
    if not least <= count < 1 << 63:
        raise ValueError(f"{name}: expected a whole number of at least {least}, found {count}")
    return count


def as_pool(pool: Any) -> Pool:
    """A pool, and nothing that only looks like one.

    >>> as_pool([[0.0]])
    Traceback (most recent call last):
    ValueError: pool: expected a natsel.Pool, found list; natsel.Pool(inputs) makes one
    """
    if not isinstance(pool, Pool):
        raise ValueError(f"pool: expected a natsel.Pool, found {_named(pool)}; natsel.Pool(inputs) makes one")
    return pool


def as_rules(stop: Any) -> list[Rule]:
    """One rule or several as a list.

    >>> as_rules(3)
    Traceback (most recent call last):
    ValueError: stop: found 3, which is no rule; pass one like natsel.GainBelow(0.01), or a list of them
    """
    rules = list(stop) if isinstance(stop, Iterable) and not callable(stop) else [stop]
    for rule in rules:
        if isinstance(rule, type):
            raise ValueError(f"stop: found the class {rule.__name__}; pass one of it: {rule.__name__}(…)")
        if not callable(rule):
            raise ValueError(
                f"stop: found {rule!r}, which is no rule; pass one like natsel.GainBelow(0.01), or a list of them"
            )
    return rules


def as_examples(examples: Any, name: str, pool: Pool) -> Examples | None:
    """Examples, or a pair of inputs and labels made into such, with labels that mean what the pool's labels mean.

    >>> as_examples(([[0.0]], [1]), "test", Pool([[0.0]], regression=True)).labels
    array([1.])
    """
    if examples is None:
        return None
    found = examples
    if not isinstance(found, Examples):
        if not isinstance(examples, tuple | list) or len(examples) != 2:
            raise ValueError(
                f"{name}: expected natsel.Examples or a pair (inputs, labels), found {_named(examples)};"
                " natsel.Examples(inputs, labels) makes one"
            )
        inputs, labels = examples
        found = Examples(inputs, read_numbers(labels, name) if pool.regression and labels is not None else labels)
    if found.labels is None:
        raise ValueError(f"{name}: these examples have no labels; pass Examples(inputs, labels)")
    if any(ours != theirs for ours, theirs in zip(pool.classes, found.classes, strict=False)):
        raise ValueError(f"{name}: its classes are not numbered like the pool's; make it with classes=pool.classes")
    if not pool.regression and not pool.classes and not found.classes:
        refuse_class_beyond(found.labels, len(pool), name)
    if pool.regression and not found.classes:
        return replace(found, labels=read_numbers(found.labels, name))
    return found


def _named(thing: Any) -> str:
    return f"the class {thing.__name__}" if isinstance(thing, type) else type(thing).__name__
