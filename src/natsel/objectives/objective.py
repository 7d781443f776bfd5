"""The objective axis: what is wanted. An objective is a frozen value without data.

It says what its score is in the notation of `natsel.calculus`: the exact quantity as an expression, or why there is
none, in which unit, and which inequalities hold between the score and an exact quantity wherever it is read. What is
true of one objective on one kind of belief stands with its reading (`natsel.objectives.reading`).
docs/theory/information-quantities.md, 3 and 4 (the notation) and 13 (scores).
"""

import math
import re
from dataclasses import dataclass
from enum import Flag, auto
from typing import ClassVar, Literal

from torch import Tensor

from natsel.options import check_options


class Argument(Flag):
    """What a score may be read with, besides the belief: arguments of `select` and `score`."""

    LABELS = auto()  # known labels of the points
    TARGETS = auto()  # the belief about inputs that matter
    GIVEN = auto()  # the belief about points already held

    @property
    def words(self) -> list[str]:
        """The names of the arguments.

        >>> (Argument.LABELS | Argument.TARGETS).words
        ['labels', 'targets']
        """
        return [flag.name.lower() for flag in self if flag.name]


NOTHING = Argument(0)


@dataclass(frozen=True)
class Bound:
    """A proven inequality between a score and an exact quantity: factor · C^classes · score^power on one side of it.

    >>> str(Bound("I[Y;Omega|x,D]", "lower", power=2, classes=-1))
    '1/C · score² ≤ I[Y;Omega|x,D]'
    """

    expression: str
    """The exact quantity, in the notation of the calculus."""
    direction: Literal["lower", "upper"]
    """Where the score lies: an upper bound is never below the quantity."""
    factor: float = 1.0
    power: int = 1
    classes: int = 0
    """The power of the number of classes C that goes in."""
    vanishes: bool = False
    """Whether score and quantity are 0 at the same points, and only there."""
    why: str = ""

    def side(self, scores_N: Tensor, classes: int) -> Tensor:
        """What bounds the quantity, in nats: factor · C^classes · score^power.

        >>> import torch
        >>> Bound("H[Y|x,D]", "lower", factor=2.0).side(torch.tensor([0.25]), classes=3)
        tensor([0.5000])
        """
        return self.factor * float(classes) ** self.classes * scores_N**self.power

    def __str__(self) -> str:
        score = "score" + {1: "", 2: "²"}.get(self.power, f"^{self.power}")
        named = {1.0: "", math.log(2): "ln 2 · ", 2 * math.log(2): "2 ln 2 · "}
        factor = named.get(self.factor, f"{self.factor:.4g} · ")
        classes = {0: "", 1: "C · ", -1: "1/C · "}.get(self.classes, f"C^{self.classes} · ")
        return f"{factor}{classes}{score} {'≤' if self.direction == 'lower' else '≥'} {self.expression}"


@dataclass(frozen=True)
class Facts:
    """What an objective is, on whatever belief; shown by `natsel methods`, and every claim is verified by the tests."""

    quantity: str
    """What the score is, as short as it can be said."""
    expression: str | None = None
    """The exact quantity of one point in the notation of the calculus: `natsel.info(expression).on(belief)`."""
    jointly: bool = False
    """Whether a set is worth the quantity of all its labels together; else it is worth the sum over its points."""
    reason: str = ""
    """Why there is no expression, where there is none."""
    units: Literal[
        "nats", "probability", "label units", "similarity", "squared distance", "points", "unsure points", "none"
    ] = "nats"
    """The unit of the score; "none" where it has no meaning but its order."""

    joint_targets: bool = False
    """Whether all targets are taken together, so that they cannot be weighed one by one."""
    reads_belief: bool = True
    """Whether the score depends on the belief at all."""

    @property
    def about_parameters(self) -> bool:
        """Whether the score is what a label is expected to tell about the parameters."""
        return self.expression == "I[Y;Omega|x,D]"

    def joint_expression(self, size: int) -> str | None:
        """The exact value of a set of points numbered from 1, None where there is no expression.

        >>> Facts("BALD", "I[Y;Omega|x,D]", jointly=True).joint_expression(2)
        'I[Y1,Y2;Omega|x1,x2,D]'
        >>> Facts("entropy", "H[Y|x,D]").joint_expression(2)
        'H[Y1|x1,D] + H[Y2|x2,D]'
        """
        if self.expression is None:
            return None
        if size < 1:
            raise ValueError(f"size: expected at least 1 point, found {size}; the empty set is worth 0")
        points = range(1, size + 1)
        if self.jointly:
            return _POINT.sub(lambda name: ",".join(f"{name[0]}{point}" for point in points), self.expression)
        return " + ".join(_POINT.sub(rf"\g<0>{point}", self.expression) for point in points)


# The names in an expression that belong to a point: its label, untied or observed, and its input.
_POINT = re.compile(r"\b[Yyx]\b")


@dataclass(frozen=True)
class Teaching:
    """Students that a learner has to teach before an objective can be read."""

    by: Literal["distil", "retrain"]
    students: int


@dataclass(frozen=True)
class Objective:
    """Base of the objectives: a value that names an information quantity."""

    facts: ClassVar[Facts]

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def needs(self) -> Argument:
        """What this value needs beyond what every reading of its class does: labels, for gradients under true ones."""
        return NOTHING

    @property
    def teaching(self) -> Teaching | None:
        """Which students have to be taught the targets first; None where none have."""
        return None
