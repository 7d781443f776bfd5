"""A model q beside a joint p: the same outcomes in the same places, whatever order each table has them in.

Outcomes are matched by label where both have labels, by number else. What q does not list has q = 0 there; what q lists
beyond p keeps its mass in the marginals of q.  Spec 01, 2.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from natsel.calculus.discrete_joint import DiscreteJoint


@dataclass(frozen=True, eq=False)
class Aligned:
    """A table with the outcomes of another one first, in their order."""

    name: str
    table: DiscreteJoint
    sizes: Mapping[str, int]

    is_measure: ClassVar[bool] = True

    def size(self, name: str) -> int:
        return self.sizes[name]

    def place(self, name: str, outcome: Any) -> int:
        return self.table.place(name, outcome)

    def places(self, name: str, outcomes: Any) -> Tensor:
        return self.table.places(name, outcomes)

    def log_table(self, names: Sequence[str], at: Mapping[str, Tensor], dims: int) -> Tensor:
        for each in names:
            if each not in self.table.names:
                raise ValueError(f"{self.name}: has no variable {each}, only {', '.join(self.table.names)}; add it")
        found = self.table.log_table(names, at, dims)
        for axis, each in enumerate((each for each in names if each not in at), start=dims):
            found = found.narrow(axis, 0, self.sizes[each])
        return found

    def cut(self, part: slice) -> Self:
        return self


def aligned(name: str, q: Any, joint: DiscreteJoint) -> Aligned:
    """q, a joint or a table with the axes of `joint`, with its outcomes where `joint` has them.

    >>> p = DiscreteJoint.from_probs("X", [0.5, 0.5], outcomes={"X": ["a", "b"]})
    >>> q = DiscreteJoint.from_probs("X", [0.25, 0.75], outcomes={"X": ["b", "a"]})
    >>> aligned("q", q, p).log_table(["X"], {}, 0).exp()
    tensor([0.7500, 0.2500], dtype=torch.float64)
    """
    if not isinstance(q, DiscreteJoint):
        shape = tuple(torch.as_tensor(q).shape)
        if shape != tuple(joint.log_p.shape):
            raise ValueError(
                f"{name}: found shape {shape}, the joint has {tuple(joint.log_p.shape)};"
                " name its axes with DiscreteJoint.measure"
            )
        q = DiscreteJoint.measure(joint.names, q, joint.outcomes)
    table, outcomes = q.log_p, dict(q.outcomes)
    for axis, variable in enumerate(q.names):
        if variable not in joint.names:
            continue
        if variable in q.outcomes and variable in joint.outcomes:
            ours, theirs = list(joint.outcomes[variable]), list(q.outcomes[variable])
            order = [theirs.index(label) if label in theirs else len(theirs) for label in ours]
            order += [place for place, label in enumerate(theirs) if label not in ours]
            missing = torch.full_like(table.narrow(axis, 0, 1), -math.inf)
            table = torch.cat([table, missing], axis).index_select(axis, torch.tensor(order))
            outcomes[variable] = [*ours, *(label for label in theirs if label not in ours)]
        elif q.size(variable) != joint.size(variable):
            found = f"{variable} has {q.size(variable)} outcomes, in the joint {joint.size(variable)}"
            raise ValueError(f"{name}: {found}; label the outcomes of both, or give as many")
    sizes = {each: joint.size(each) if each in joint.names else q.size(each) for each in q.names}
    return Aligned(name, DiscreteJoint(q.names, table, outcomes, is_measure=True), sizes)
