"""What people hand to a learner, checked before anything is done with it."""

import operator
from dataclasses import replace
from typing import Any

from natsel.data.examples import Examples, as_examples
from natsel.data.labels import read_numbers, refuse_class_beyond
from natsel.data.pool import Pool


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
    """A pool; anything else is refused.

    >>> as_pool([[0.0]])
    Traceback (most recent call last):
    ValueError: pool: expected a natsel.Pool, found list; natsel.Pool(inputs) makes one
    """
    if not isinstance(pool, Pool):
        raise ValueError(f"pool: expected a natsel.Pool, found {_type_name(pool)}; natsel.Pool(inputs) makes one")
    return pool


def examples_for(examples: Any, name: str, pool: Pool) -> Examples | None:
    """Examples from whatever holds them (`natsel.data.examples`). Their labels must mean what the pool's labels mean.

    >>> examples_for(([[0.0]], [1]), "test", Pool([[0.0]], regression=True)).labels
    array([1.])
    """
    if examples is None:
        return None
    found = as_examples(examples, name, numbers=bool(pool.regression))
    if not pool.regression and not pool.classes and not found.classes:
        refuse_class_beyond(found.labels, len(pool), name)
    if pool.regression and not found.classes:
        return replace(found, labels=read_numbers(found.labels, name))
    return found


def _type_name(thing: Any) -> str:
    return f"the class {thing.__name__}" if isinstance(thing, type) else type(thing).__name__
