"""Options of every search and objective: what is not of the declared kind is refused in a sentence that names it."""

from dataclasses import fields
from typing import Literal, get_args, get_origin

import numpy as np
import pytest

import natsel
from natsel import objectives, search
from natsel.objectives import READINGS, Objective
from natsel.options import Rows, checked

SEARCHES = [one for one in vars(search).values() if isinstance(one, type) and hasattr(one, "needs")]
VALUES = [*SEARCHES, *READINGS]
OPTIONS = [(kind, field) for kind in VALUES for field in fields(kind)]


def test_every_kind_of_value_is_looked_at():
    assert {natsel.Power, natsel.KDPP, natsel.ForwardBackward, natsel.Exhaustive, natsel.KMeansPP} <= set(SEARCHES)
    named = {one for one in vars(objectives).values() if isinstance(one, type) and issubclass(one, Objective)}
    assert named - {Objective} <= set(VALUES)
    assert len(OPTIONS) > 40


def wrong_for(field):
    """Values that cannot stand in a field."""
    kinds = get_args(field.type) if type(None) in get_args(field.type) else (field.type,)
    if bool in kinds:
        return ["yes", 1, 0.5]
    if get_origin(field.type) is Literal:
        return ["never", 3, True, ["hard"]]
    nothing = [] if type(None) in kinds else [None]
    return ["8", "a", [2], True, float("nan"), 1j, -1, *([2.5] if int in kinds else []), *nothing]


@pytest.mark.parametrize(("kind", "field"), OPTIONS, ids=lambda part: getattr(part, "__name__", None) or part.name)
def test_wrong_options_are_refused_by_name(kind, field):
    for wrong in wrong_for(field):
        with pytest.raises(ValueError, match=rf"^{field.name}: .*"):
            kind(**{field.name: wrong})


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
def test_the_defaults_and_numbers_of_numpy_are_accepted(kind):
    kind()
    for field in fields(kind):
        if field.type in (int, float):
            kind(**{field.name: {int: np.int64, float: np.float32}[field.type](field.default)})


@checked
def share(of: Rows, among: Rows) -> float:
    return 1.0 / (len(of) * len(among)) if not np.isnan(of).all() else 1.0 / 0.0


def test_a_failure_names_the_argument_that_is_empty_or_nothing_but_nan():
    for odd in ([], np.array([]), np.full((3, 2, 1), np.nan)):
        with pytest.raises(ValueError, match=r"^of: expected several values in an order, found"):
            share(odd, [1])
    with pytest.raises(TypeError, match="not supported for the input types"):  # any other failure is told as it is
        share(["a"], [1])
